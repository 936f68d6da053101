/*
 * store_open.c - opening a path for reading and writing: create it, adopt what
 * an interrupted create left, wait for somebody who is at it, refuse the rest.
 *
 * Everything here happens between open(2) and a handle; what an open handle
 * can do is in store.c.  Repairs nothing inside a filter: it only finds out,
 * by flock, whether anybody else has the file open.
 *
 * A file is touched only under the exclusive flock and only when it is empty
 * or all zero and ours, so that two processes never initialise one file, and a
 * file of somebody else is never written to.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "store_private.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

/* Beside the CBF_E_ codes: look at the path again, a little later. */
#define AGAIN (-1)

/* Rounds in which an empty file of another user may turn out to be one that he
 * is just creating: he has made it and not locked it yet.  About 30 ms; a
 * guess, for two system calls of his. */
#define CREATOR_ROUNDS 5u

/* The same where there is no flock to tell: about 200 ms. */
#define NO_FLOCK_ROUNDS 15u

struct opening {
    struct cbf_store *s;
    const struct cbf_geometry *plan;
    unsigned mode;
    struct cbf_error *e;
    struct stat st; /* of s->fd, taken under the flock */
    int created;    /* s->fd is a file that we made, with O_EXCL */
    int no_flock;   /* the file system has none; nobody is ever alone */
    struct cbf_store_patience patience;
};

static void
let_go(struct opening *o)
{
    cbf_store_close_locked(o->s->fd);
    o->s->fd = -1;
    o->s->alone = 0;
    o->created = 0;
}

/* A file that may not be written is most often a frozen one; then that is the
 * better answer.  Keeps errno and the error as they are otherwise. */
static int
say_if_frozen(struct opening *o, int code)
{
    struct cbf_store look;
    int cause = errno;

    if (cbf_store_readonly(&look, o->s->path, NULL) == CBF_OK) {
        cbf_store_discard(&look);
        code = cbf_error_set(o->e, CBF_E_SEALED_FILE, NULL);
    }
    errno = cause;
    return code;
}

static int
open_or_create(struct opening *o)
{
    struct cbf_store *s = o->s;
    int code = cbf_store_open_file(s->path, O_RDWR, 0, &s->fd, o->e);

    if (code == CBF_E_SYSTEM && (errno == EACCES || errno == EROFS))
        return say_if_frozen(o, code);
    if (code != CBF_E_SYSTEM || errno != ENOENT)
        return code;
    /* At most what was asked for until fchmod makes it exactly that. */
    code = cbf_store_open_file(s->path, O_RDWR | O_CREAT | O_EXCL,
                               o->mode & 0777, &s->fd, o->e);
    if (code == CBF_E_SYSTEM && errno == EEXIST)
        return AGAIN;
    o->created = code == CBF_OK;
    return code;
}

/*
 * On file systems without flock we can't know whether we are alone, so such a
 * file is opened as if others had it open: nothing in it is ever reset, and
 * leftovers of the dead are judged one by one by the lock.
 */
static int
take_flock(struct opening *o)
{
    enum cbf_store_flock got = cbf_store_try_flock(o->s->fd, LOCK_EX);

    o->s->alone = got == CBF_STORE_LOCKED;
    if (got == CBF_STORE_LOCK_BUSY)
        got = cbf_store_try_flock(o->s->fd, LOCK_SH);
    o->no_flock = got == CBF_STORE_NO_FLOCK;
    /* Not even shared: somebody is initialising it, or closing it. */
    return got == CBF_STORE_LOCK_BUSY ? AGAIN : CBF_OK;
}

/* 1 if a file is all zero, 0 if not, -1 with errno.  Skips holes, so a sparse
 * file of any size costs a few system calls. */
static int
file_all_zero(int fd, off_t size)
{
    uint64_t chunk[2048];
    off_t at = 0;

    while (at < size) {
        off_t data = lseek(fd, at, SEEK_DATA);
        ssize_t n;

        if (data < 0 && errno == ENXIO)
            return 1;
        if (data > at)
            at = data;
        n = pread(fd, chunk, sizeof chunk, at);
        if (n < 0 && errno != EINTR)
            return -1;
        if (n == 0)
            return 1;
        if (n > 0 && !cbf_store_all_zero(chunk, (size_t)n))
            return 0;
        if (n > 0)
            at += n;
    }
    return 1;
}

/* Takes back a creation that failed; the file is locked by us or, where there
 * is no flock, left to be looked at. */
static void
undo(struct opening *o)
{
    struct cbf_store *s = o->s;
    int cause = errno;

    if (s->base)
        munmap(s->base, s->map_bytes);
    s->base = NULL;
    if (o->st.st_size == 0 && ftruncate(s->fd, 0) != 0) {
        /* Then it stays all zero, which the next open adopts as well. */
    }
    if (o->created && s->alone && cbf_store_names(s->path, s->dev, s->ino))
        unlink(s->path);
    errno = cause;
}

/* Makes a filter of the empty or all-zero file s->fd.  The mode comes before
 * the header: a killed creator must not leave a valid file with another mode,
 * and after the size, since changing that takes set-id bits away. */
static int
initialise(struct opening *o)
{
    struct cbf_store *s = o->s;
    int code;

    s->geometry = *o->plan;
    s->sealed = 0;
    if (o->st.st_size == 0
        && cbf_store_set_size(s->fd, o->plan->file_bytes) != 0) {
        code = cbf_error_system(o->e, "ftruncate");
        goto fail;
    }
    /* Everybody writes to the bytes before the counters: without blocks for
     * them, a full disk would kill whoever only looks. */
    if (fallocate(s->fd, 0, 0, CBF_FMT_COUNTERS_OFFSET) != 0
        && (errno == ENOSPC || errno == EDQUOT)) {
        code = cbf_error_system(o->e, "fallocate");
        goto fail;
    }
    code = cbf_store_map(s, PROT_READ | PROT_WRITE, o->e);
    if (code)
        goto fail;
    if (fchmod(s->fd, (mode_t)o->mode) != 0) {
        code = cbf_error_system(o->e, "fchmod");
        goto fail;
    }
    cbf_store_format(s->base, o->plan);
    return CBF_OK;

fail:
    undo(o);
    return code;
}

/* An empty file, or one that is all zero and has the size of the plan. */
static int
adopt(struct opening *o)
{
    if (o->st.st_uid != geteuid()) {
        if (o->st.st_size == 0 && o->patience.rounds < CREATOR_ROUNDS)
            return AGAIN;
        return cbf_error_set(o->e, CBF_E_NOT_OURS, NULL);
    }
    if (o->s->alone || (o->no_flock && o->created))
        return initialise(o);
    if (o->no_flock && o->patience.rounds >= NO_FLOCK_ROUNDS) {
        errno = ENOLCK;
        return cbf_error_system(o->e, "flock");
    }
    /* Others look at it too.  Its creator holds the flock exclusively, so none
     * of them is that; one of us will be alone with it soon. */
    return AGAIN;
}

/* A file that is not empty and whose header is all zero. */
static int
judge_headless(struct opening *o)
{
    int zero = file_all_zero(o->s->fd, o->st.st_size);

    if (zero < 0)
        return cbf_error_system(o->e, "read");
    if (!zero)
        return cbf_error_set(o->e, CBF_E_INVALID, "magic number");
    if ((uint64_t)o->st.st_size != o->plan->file_bytes)
        return cbf_error_set(o->e, CBF_E_INVALID,
                             "all zero, and not the size of a new one");
    return adopt(o);
}

static int
judge(struct opening *o)
{
    struct cbf_fmt_header h;
    struct cbf_store *s = o->s;
    int code;

    if (o->st.st_size == 0)
        return adopt(o);
    code = cbf_store_read_header(s->fd, &h, o->e);
    if (code)
        return code;
    if ((size_t)o->st.st_size >= CBF_STORE_MIN_BYTES
        && cbf_store_all_zero(&h, sizeof h))
        return judge_headless(o);
    code = cbf_store_validate(&h, (size_t)o->st.st_size, &s->geometry,
                              &s->sealed, o->e);
    /* Without flock we may look at a header that is just being written. */
    if (code == CBF_E_INCOMPLETE && o->no_flock
        && o->patience.rounds < NO_FLOCK_ROUNDS)
        return AGAIN;
    if (code)
        return code;
    if (s->sealed)
        return cbf_error_set(o->e, CBF_E_SEALED_FILE, NULL);
    return cbf_store_map(s, PROT_READ | PROT_WRITE, o->e);
}

static int
attempt(struct opening *o)
{
    struct cbf_store *s = o->s;
    int code;

    if (s->fd < 0) {
        code = open_or_create(o);
        if (code)
            return code;
    }
    code = cbf_store_identify(s, &o->st, o->e);
    if (code)
        return code;
    code = take_flock(o);
    if (code)
        return code;
    /* While we waited for the flock the file may have been removed, or another
     * one put in its place. */
    if (!cbf_store_names(s->path, s->dev, s->ino)) {
        let_go(o);
        return AGAIN;
    }
    /* Its size is what it is under the flock. */
    code = cbf_store_identify(s, &o->st, o->e);
    if (code)
        return code;
    return judge(o);
}

/* Gives way to whoever is at the file.  The descriptor is kept: a file that we
 * have just made may not let itself be opened a second time. */
static int
give_way(struct opening *o)
{
    struct cbf_store *s = o->s;
    int code;

    if (s->fd >= 0 && !cbf_store_names(s->path, s->dev, s->ino))
        let_go(o);
    if (s->fd >= 0)
        cbf_store_try_flock(s->fd, LOCK_UN);
    s->alone = 0;
    code = cbf_store_wait(&o->patience, o->e);
    return code ? code : AGAIN;
}

int
cbf_store_open(struct cbf_store *s, const char *path,
               const struct cbf_geometry *plan, unsigned mode,
               struct cbf_error *e)
{
    struct opening o = {
        .s = s,
        .plan = plan,
        .mode = mode,
        .e = e,
    };
    int code;

    cbf_store_begin(s, CBF_STORE_PATH);
    s->path = strdup(path);
    if (!s->path)
        return cbf_error_set(e, CBF_E_MEMORY, "the path");
    do {
        code = attempt(&o);
        if (code == AGAIN)
            code = give_way(&o);
    } while (code == AGAIN);
    if (code)
        cbf_store_discard(s);
    return code;
}

int
cbf_store_share(struct cbf_store *s, struct cbf_error *e)
{
    int code;

    if (!s->alone)
        return CBF_OK;
    /* The kernel lets go before it takes the new one, so another open may come
     * in between and find itself alone.  It is: we have not begun. */
    code = cbf_store_lock_shared(s->fd, e);
    if (!code)
        s->alone = 0;
    return code;
}
