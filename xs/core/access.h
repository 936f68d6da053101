/*
 * access.h - when to lock, and what must be true before anybody goes on.
 *
 * Every mutator and every scan of the whole table passes through here.  The
 * common case of a single item is inline; whatever is unusual goes to
 * access.c, the only place where a death leads to a repair while others have
 * the filter open.
 */
#ifndef CBF_ACCESS_H
#define CBF_ACCESS_H

#include "handle.h"
#include "killpoint.h"

/* For cbf_write_begin only: from the start, and from holding the word. */
int cbf_write_begin_slow(struct cbf *f, struct cbf_error *e);
int cbf_write_settle(struct cbf *f, const struct cbf_owner *self,
                     struct cbf_error *e);

/*
 * Begins a mutator: the write lock is held, leftovers of the dead are
 * repaired, the totals are valid, and `ops` has counted the call.  Or a code,
 * nothing held and nothing counted.
 */
static inline __attribute__((always_inline)) int
cbf_write_begin(struct cbf *f, struct cbf_error *e)
{
    struct cbf_fmt_header *hdr = cbf_header(f);
    const struct cbf_owner *self = cbf_owner_self();

    if (cbf_load32(&f->readonly) || cbf_is_sealed(f)
        || !cbf_lock_knows(&f->lock, self)
        || !cbf_lock_try_write(&f->lock, self))
        return cbf_write_begin_slow(f, e);
    if (cbf_lock_scanned(&f->lock) || cbf_is_sealed(f)
        || cbf_load64(&hdr->journal.state) != 0
        || !cbf_journal_tally_valid(hdr))
        return cbf_write_settle(f, self, e);
    cbf_journal_count_call(hdr);
    return CBF_OK;
}

/*
 * Page faults come before the lock: called before cbf_write_begin with items
 * that will be added, where cbf_touch_needed says so.  A remove, or an
 * add_if_absent of what is there, finds pages that somebody has written.
 */
static inline void
cbf_write_touch(struct cbf *f, const struct cbf_hash *items, size_t n)
{
    if (!cbf_is_sealed(f))
        cbf_touch_items(&f->touch, &f->probe, items, n);
}

static inline void
cbf_write_end(struct cbf *f)
{
    cbf_lock_write_done(&f->lock);
}

/* The error that a mutator of a sealed filter or a read-only handle gets. */
int cbf_refuse_change(const struct cbf *f, struct cbf_error *e);

/* As cbf_write_begin, without counting the call: for freeze, and for scans
 * that need it. */
int cbf_exclusive_begin(struct cbf *f, struct cbf_error *e);

enum cbf_scan {
    CBF_SCAN_FREE,      /* frozen: no lock needed */
    CBF_SCAN_SHARED,    /* shared lock */
    CBF_SCAN_EXCLUSIVE  /* write lock: all reader slots are taken */
};

/* One consistent moment of the whole table, until cbf_scan_end. */
int cbf_scan_begin(struct cbf *f, enum cbf_scan *how, struct cbf_error *e);
void cbf_scan_end(struct cbf *f, enum cbf_scan how);

/* Totals at one consistent moment, with the ops of that moment. */
int cbf_read_tally(struct cbf *f, struct cbf_tally *t, uint64_t *ops,
                   struct cbf_error *e);

/*
 * A private copy of all counters at one moment, and the ops of that moment
 * (which may be NULL): *copy is to be given back with cbf_snapshot_free.
 */
int cbf_snapshot(struct cbf *f, uint8_t **copy, uint64_t *ops,
                 struct cbf_error *e);
void cbf_snapshot_free(const struct cbf *f, uint8_t *copy);

#endif
