/*
 * cbf.h - the whole contract of the core: a counting Bloom filter in memory
 * that many processes share.
 *
 * A handle is opaque and reference-counted; the last cbf_unref closes it.
 * Handles may be used by several threads at once, and by fork children.
 *
 * Functions that can fail return 0 or a CBF_E_ code and fill the caller's
 * struct cbf_error, never NULL; after a failure the filter is as it was.  All
 * mutators can fail with FROZEN, READONLY, OWNER, INTERRUPTED and, in a
 * process that has the handle by fork, DESCRIPTOR, BUSY and SYSTEM; and so can
 * the scans of a whole table.  The last means that nothing has been done and
 * that a signal handler ran, or may have run, while the call slept on the
 * lock: handle signals and call again (see cbf_watch_signals).  Nothing here
 * runs foreign code, prints, exits or jumps.
 *
 * Point reads (contains, count_of and their batches) take no lock, write
 * nothing to the mapping and wait for nobody.
 */
#ifndef CBF_H
#define CBF_H

#include "error.h"
#include "geometry.h"
#include "hash.h"
#include <stddef.h>
#include <stdint.h>

struct cbf;

#define CBF_DEFAULT_MODE 0600u

/* ---- open and close ------------------------------------------------- */

/* Each stores a handle with one reference in *out, only on success.  See
 * store.h for what each refuses.  A file's own geometry wins over *plan. */
int cbf_open_path(const char *path, const struct cbf_geometry *plan,
                  unsigned mode, struct cbf **out, struct cbf_error *e);
int cbf_open_readonly(const char *path, struct cbf **out,
                      struct cbf_error *e);
int cbf_open_anonymous(const struct cbf_geometry *plan, struct cbf **out,
                       struct cbf_error *e);
int cbf_open_memfd(const char *name, const struct cbf_geometry *plan,
                   struct cbf **out, struct cbf_error *e);
int cbf_open_fd(int fd, struct cbf **out, struct cbf_error *e);

/* A private anonymous, mutable filter from an image (cbf_image_write). */
int cbf_open_image(const void *image, size_t bytes, struct cbf **out,
                   struct cbf_error *e);

/*
 * For a handle of cbf_open_readonly (others never change): if its path names
 * another file by now, opens that one: *out is the new handle, else NULL.  On
 * failure the old handle is as good as before.  One system call when nothing
 * changed.
 */
int cbf_refresh(const struct cbf *f, struct cbf **out, struct cbf_error *e);

void cbf_ref(struct cbf *f);
void cbf_unref(struct cbf *f); /* NULL is fine; keeps errno */

/*
 * A flag that this thread's signal handlers set: while it is 0, waiting for a
 * lock goes on.  Without one (NULL, as at first), a wait ends as INTERRUPTED
 * after 100 ms, since a signal between two sleeps is not noticed otherwise.
 */
void cbf_watch_signals(const volatile int *flag);

/* ---- what it is: O(1), no lock --------------------------------------- */

const struct cbf_geometry *cbf_geometry_of(const struct cbf *f);
const char *cbf_path(const struct cbf *f); /* NULL = none; lives with f */
int cbf_fd(const struct cbf *f); /* of memfd and fd handles, else -1 */
int cbf_frozen(const struct cbf *f);
int cbf_readonly(const struct cbf *f);

/* ---- single items: O(k) ---------------------------------------------- */

int cbf_contains(const struct cbf *f, const void *item, size_t len);
unsigned cbf_count_of(const struct cbf *f, const void *item, size_t len);

/* *changed: add: 1 if one of its counters was 0; remove: 1 if it was present
 * and is decremented; add_if_absent: 1 if it was absent and is added. */
int cbf_add(struct cbf *f, const void *item, size_t len, int *changed,
            struct cbf_error *e);
int cbf_remove(struct cbf *f, const void *item, size_t len, int *changed,
               struct cbf_error *e);
int cbf_add_if_absent(struct cbf *f, const void *item, size_t len,
                      int *changed, struct cbf_error *e);

/* ---- batches: O(n k), one lock for mutators, none for reads ----------- */

/* each: n bytes, or NULL: 1 or 0 (count_of_many: 0..15) for each item in
 * order. Reads return how many items are present. */
size_t cbf_contains_many(const struct cbf *f, const struct cbf_hash *items,
                         size_t n, uint8_t *each);
size_t cbf_count_of_many(const struct cbf *f, const struct cbf_hash *items,
                         size_t n, uint8_t *each);

/* *n_changed: for how many items the single call would have answered 1. */
int cbf_add_many(struct cbf *f, const struct cbf_hash *items, size_t n,
                 size_t *n_changed, struct cbf_error *e);
int cbf_remove_many(struct cbf *f, const struct cbf_hash *items, size_t n,
                    size_t *n_changed, struct cbf_error *e);
int cbf_add_if_absent_many(struct cbf *f, const struct cbf_hash *items,
                           size_t n, uint8_t *each, size_t *n_changed,
                           struct cbf_error *e);

/*
 * Adds items faster than cbf_add_many does to a table larger than the caches,
 * for it sorts first what they probe.  For tables that are just being filled:
 * who looks meanwhile finds any part of any of them, and so it stays if the
 * process is killed, as half a merge does; then all counters are counted once.
 * *n_done, 0 at first: of the items, from the first on, those that have been
 * added; calling again after a failure goes on behind them.  Counts as a call
 * each time it takes the lock: for up to four million counters, if items fall
 * as hashes do.
 */
int cbf_add_bulk(struct cbf *f, const struct cbf_hash *items, size_t n,
                 size_t *n_done, struct cbf_error *e);

/* ---- the whole table: O(m) ------------------------------------------- */

int cbf_clear(struct cbf *f, struct cbf_error *e);

/* Adds source's counters, stopping at 15.  MISMATCH unless both have the same
 * counters and probes.  source may be f, frozen or read-only. */
int cbf_merge(struct cbf *f, struct cbf *source, struct cbf_error *e);

/* Flushes, then seals for ever; the handle becomes read-only. */
int cbf_freeze(struct cbf *f, struct cbf_error *e);
int cbf_sync(struct cbf *f, struct cbf_error *e);

/* Reserves all disk blocks, or memory of a memfd: SYSTEM with ENOSPC now
 * instead of a SIGBUS later.  Nothing to do for anonymous memory; READONLY or
 * FROZEN where nothing may change. */
int cbf_reserve(struct cbf *f, struct cbf_error *e);

/* n[v] = how many counters hold v. */
int cbf_histogram(struct cbf *f, uint64_t n[16], struct cbf_error *e);

/* *result: 1 counters match the stored checksum, 0 they don't, -1 nothing to
 * compare with. */
int cbf_verify(struct cbf *f, int *result, struct cbf_error *e);

/* A consistent image of file_bytes bytes into image: mutable, unlocked. */
int cbf_image_write(struct cbf *f, void *image, struct cbf_error *e);

/* A frozen snapshot at path, put in place whole. */
int cbf_save(struct cbf *f, const char *path, unsigned mode,
             struct cbf_error *e);

/* ---- looking: O(1) -------------------------------------------------- */

struct cbf_stats {
    uint64_t nonzero;   /* counters above 0 */
    uint64_t saturated; /* counters at 15 */
    uint64_t sum;       /* of all counters */
    uint64_t count;     /* estimated distinct items */
    uint64_t ops;       /* mutator calls since creation */
    uint32_t recovered; /* dead processes whose work was taken over */
    double fp_now;      /* chance of a wrong yes now */
};

/* One consistent moment.  O(1), but O(m) once after an older release wrote. */
int cbf_stats(struct cbf *f, struct cbf_stats *out, struct cbf_error *e);

/* ---- files ----------------------------------------------------------- */

/* Removes the backing file, if there is one; already gone is fine. */
int cbf_unlink(struct cbf *f, struct cbf_error *e);
int cbf_unlink_path(const char *path, struct cbf_error *e);

#endif
