/*
 * store.h - the backing of a filter: create, open, validate, map, flush,
 * replace, remove.
 *
 * Decides on the opened descriptor, never on a path.  Knows format, geometry
 * and the flock protocol; touches no counter and no lock word.
 *
 * The flock protocol: every read-write handle of a path keeps its descriptor
 * with a shared flock.  An open that gets it exclusively knows that no process
 * has the file open, so what the lock words say is a leftover.
 */
#ifndef CBF_STORE_H
#define CBF_STORE_H

#include "error.h"
#include "format.h"
#include "geometry.h"
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum cbf_store_kind {
    CBF_STORE_ANONYMOUS, /* no descriptor, no path */
    CBF_STORE_MEMFD,     /* descriptor, no path */
    CBF_STORE_FD,        /* a duplicate of the caller's, no path */
    CBF_STORE_PATH,      /* descriptor with a shared flock, path */
    CBF_STORE_READONLY   /* path, PROT_READ, no descriptor */
};

struct cbf_store {
    enum cbf_store_kind kind;
    void *base;       /* the mapping; NULL when closed */
    size_t map_bytes; /* geometry.file_bytes */
    int fd;           /* -1 = none */
    dev_t dev;        /* of the file, to recognise it later */
    ino_t ino;
    char *path; /* owned copy, as given; NULL = none */
    int alone;  /* path, fd: the flock is exclusive, call cbf_store_share */
    int sealed; /* the seal at the time of opening */
    struct cbf_geometry geometry; /* validated; never read from base again */
};

/*
 * Opens path, or creates it with mode (0..07777, exactly: no umask).  *plan is
 * used only for a new file.  On success s->alone says whether nobody else has
 * it open; if so the flock is held exclusively until cbf_store_share.  A new
 * file comes back alone and valid.  A file system without flock never says
 * alone, not even of a new file.  Errors: SYSTEM, MEMORY, SYMLINK,
 * NOT_REGULAR, TOO_SMALL, INVALID, INCOMPLETE, NOT_OURS, SEALED_FILE, BUSY,
 * INTERRUPTED; the file is untouched by all of them.
 */
int cbf_store_open(struct cbf_store *s, const char *path,
                   const struct cbf_geometry *plan, unsigned mode,
                   struct cbf_error *e);

/* Trades the exclusive flock for a shared one, if it is held.  BUSY or
 * INTERRUPTED: there may be none now, and s is only good for closing. */
int cbf_store_share(struct cbf_store *s, struct cbf_error *e);

/* A frozen file, O_RDONLY and PROT_READ.  NOT_FROZEN and as above. */
int cbf_store_readonly(struct cbf_store *s, const char *path,
                       struct cbf_error *e);

/* Anonymous shared memory; a memfd sealed against resizing (name: a label,
 * at most 249 bytes; NULL = a default). */
int cbf_store_anonymous(struct cbf_store *s, const struct cbf_geometry *plan,
                        struct cbf_error *e);
int cbf_store_memfd(struct cbf_store *s, const char *name,
                    const struct cbf_geometry *plan, struct cbf_error *e);

/* Maps the file of fd, which stays the caller's, as does his flock; it must be
 * open for reading and writing, and hold a filter that is not frozen. */
int cbf_store_from_fd(struct cbf_store *s, int fd, struct cbf_error *e);

/*
 * Makes sure, in a process that inherited the handle by fork, that the
 * descriptor is still ours and the flock still held: a daemon may have closed
 * all its descriptors.  Reopens by name where it must; without one (a memfd, a
 * file that was removed) s->fd becomes -1.  DESCRIPTOR if others may open the
 * file and we can't, BUSY, INTERRUPTED, SYSTEM; to be repeated then.
 */
int cbf_store_recheck(struct cbf_store *s, struct cbf_error *e);

/* Gives the file all its blocks, so that no later write can fail for want of
 * them; nothing to do without a file.  SYSTEM (ENOSPC), INTERRUPTED. */
int cbf_store_reserve(const struct cbf_store *s, struct cbf_error *e);

/* msync of the whole mapping; nothing to do without a backing file. */
int cbf_store_sync(const struct cbf_store *s, struct cbf_error *e);

/* msync of the pages that hold the first n bytes. */
int cbf_store_sync_head(const struct cbf_store *s, size_t n,
                        struct cbf_error *e);

/*
 * Unmaps and closes.  If the file may have been closed by everybody now, calls
 * last(base) with the exclusive flock held and the header page mapped anew, so
 * that the caller can zero its words.  Never fails; s is all closed after it.
 */
void cbf_store_close(struct cbf_store *s, void (*last)(void *base));

/* Removes the file at path; already gone is fine. */
int cbf_store_unlink(const char *path, struct cbf_error *e);

/*
 * Puts an image in place at path: written beside it, flushed, renamed over it,
 * the directory flushed.  The old file, if any, is there until the new one is
 * whole.  head = the header up to the counters.
 */
int cbf_store_replace(const char *path, unsigned mode, const void *head,
                      size_t head_bytes, const void *counters,
                      size_t counter_bytes, struct cbf_error *e);

/* Checks an image or a mapping of `bytes` bytes at base; fills *g.  sealed may
 * be NULL.  TOO_SMALL, INCOMPLETE or INVALID. */
int cbf_store_validate(const void *base, size_t bytes, struct cbf_geometry *g,
                       int *sealed, struct cbf_error *e);

/* Writes the header of an empty filter, the magic number last. */
void cbf_store_format(void *base, const struct cbf_geometry *g);

#endif
