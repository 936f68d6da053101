/*
 * store_private.h - what the store's own source files share with one another:
 * opening, examining, mapping and locking one descriptor.  Nobody else
 * includes it; the contract is store.h.
 *
 *   store.c          constructors without a protocol, mapping, flushing
 *   store_open.c     a path read-write: create, adopt, wait, refuse
 *   store_close.c    lost descriptors, and the end of a handle
 *   store_header.c   header bytes to geometry and back
 *   store_replace.c  putting a new file in the place of an old one
 */
#ifndef CBF_STORE_PRIVATE_H
#define CBF_STORE_PRIVATE_H

#include "store.h"
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* The size of the smallest filter there can be. */
#define CBF_STORE_MIN_BYTES                                                  \
    (CBF_FMT_COUNTERS_OFFSET + CBF_FMT_MIN_COUNTERS / 2)

/* A link is not followed, a FIFO or a device not waited for, a terminal not
 * made ours. */
#define CBF_STORE_FLAGS (O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)

/* ---- store.c ---------------------------------------------------------- */

/* An empty store, and back to it from any state; both may be repeated.
 * Discard unmaps, closes and frees, and keeps errno. */
void cbf_store_begin(struct cbf_store *s, enum cbf_store_kind kind);
void cbf_store_discard(struct cbf_store *s);

/*
 * open(2) with CBF_STORE_FLAGS, the descriptor above 2 (a program that reopens
 * its standard streams would else replace it).  SYMLINK, NOT_REGULAR,
 * INTERRUPTED, or SYSTEM with errno as open left it.
 */
int cbf_store_open_file(const char *path, int flags, unsigned mode, int *fd,
                        struct cbf_error *e);

/* Closes a descriptor whose flock is ours alone; gives that up first, because
 * a process forked meanwhile by another thread has the descriptor too. */
void cbf_store_close_locked(int fd);

/* fd, or a duplicate above 2 in its place; passes -1 on.  Keeps errno. */
int cbf_store_above_stdio(int fd);

/* fstat of s->fd into *st; notes dev and ino; NOT_REGULAR. */
int cbf_store_identify(struct cbf_store *s, struct stat *st,
                       struct cbf_error *e);

/* The first bytes of a file, by read: nothing is mapped before it is checked.
 * What a shorter file lacks is zero. */
int cbf_store_read_header(int fd, struct cbf_fmt_header *h,
                          struct cbf_error *e);

/* Maps s->geometry.file_bytes of s->fd, and looks again whether the file still
 * has that size.  Marks a path's descriptor as this handle's. */
int cbf_store_map(struct cbf_store *s, int prot, struct cbf_error *e);

/* Makes a file bytes long; 0 or -1 with errno.  Above the process's limit it
 * fails with EFBIG instead of raising SIGXFSZ. */
int cbf_store_set_size(int fd, uint64_t bytes);

/* Whether path, not followed, is the file dev and ino.  Keeps errno. */
int cbf_store_names(const char *path, dev_t dev, ino_t ino);

/* ---- store_close.c ---------------------------------------------------- */

/* Makes fd, a descriptor of a path's file, known as that of this handle, which
 * is mapped; other kinds need no mark. */
int cbf_store_mark(const struct cbf_store *s, int fd, struct cbf_error *e);

/* ---- waiting for a flock ---------------------------------------------- */

enum cbf_store_flock {
    CBF_STORE_LOCKED,
    CBF_STORE_LOCK_BUSY, /* somebody's lock is in the way */
    CBF_STORE_NO_FLOCK   /* none to be had on this file system */
};

/* How long we have waited already; starts as all zero. */
struct cbf_store_patience {
    unsigned rounds;
    unsigned waited_ms;
};

/* Never blocks.  A change of mode may lose the old lock even if it fails. */
enum cbf_store_flock cbf_store_try_flock(int fd, int mode);

/* Sleeps 1 to 20 ms, longer each time.  BUSY after 30 s in all; INTERRUPTED
 * when a signal handler ran. */
int cbf_store_wait(struct cbf_store_patience *p, struct cbf_error *e);

/* A shared flock within that time; without flock there is nothing to do. */
int cbf_store_lock_shared(int fd, struct cbf_error *e);

/* ---- small things ----------------------------------------------------- */

static inline int
cbf_store_all_zero(const void *bytes, size_t n)
{
    const uint8_t *b = bytes;

    return n == 0 || (b[0] == 0 && memcmp(b, b + 1, n - 1) == 0);
}

#endif
