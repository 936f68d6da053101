/*
 * store_replace.c - a whole new file in the place of an old one.
 *
 * Written beside it, flushed, renamed over it, the directory flushed: whoever
 * opens the path gets the old file or the new one, never a half, also after a
 * crash.  Knows nothing of what it writes, and neither opens nor changes the
 * old file.  A process that is killed in here may leave a file named
 * .NAME.PID.N.tmp behind, which can be removed.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "store_private.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Names taken by others before we give up. */
#define NAME_TRIES 1000u

/* Written or left out as a hole, one at a time. */
#define PIECE_BYTES ((size_t)65536)

/* Of NAME; the rest of a file name (255 bytes) is for the numbers. */
#define SHOWN_NAME 200

struct replacement {
    const char *name; /* last part of the path */
    int dir;          /* of both files */
    int dir_flushes;  /* dir can be flushed: we may read it */
    int fd;           /* of the new file */
    char temp[NAME_MAX + 1];
};

static int
open_directory(struct replacement *r, const char *path, struct cbf_error *e)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? strndup(path, (size_t)(slash - path) + 1)
                      : strdup(".");

    if (!dir)
        return cbf_error_set(e, CBF_E_MEMORY, "the path");
    r->name = slash ? slash + 1 : path;
    r->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r->dir_flushes = r->dir >= 0;
    if (r->dir < 0 && errno == EACCES)
        r->dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (r->dir < 0)
        cbf_error_system(e, "open");
    free(dir);
    return r->dir < 0 ? CBF_E_SYSTEM : CBF_OK;
}

/* What stands at the path may be replaced: nothing, a file, or a symbolic
 * link, which is replaced itself and never followed. */
static int
check_target(const struct replacement *r, struct cbf_error *e)
{
    struct stat st;

    if (r->name[0] == '\0')
        return cbf_error_set(e, CBF_E_NOT_REGULAR, NULL);
    if (fstatat(r->dir, r->name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno == ENOENT)
            return CBF_OK;
        return cbf_error_system(e, "stat");
    }
    if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
        return cbf_error_set(e, CBF_E_NOT_REGULAR, NULL);
    return CBF_OK;
}

static int
create_beside(struct replacement *r, unsigned mode, struct cbf_error *e)
{
    unsigned i;

    for (i = 0; i < NAME_TRIES; i++) {
        snprintf(r->temp, sizeof r->temp, ".%.*s.%ld.%u.tmp", SHOWN_NAME,
                 r->name, (long)getpid(), i);
        r->fd = openat(r->dir, r->temp,
                       O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                       (mode_t)(mode & 0777));
        if (r->fd >= 0)
            return CBF_OK;
        if (errno != EEXIST)
            break;
    }
    return cbf_error_system(e, "open");
}

static int
write_piece(int fd, const uint8_t *from, size_t n, off_t at)
{
    while (n > 0) {
        ssize_t done = pwrite(fd, from, n, at);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -1;
        if (done == 0) {
            errno = EIO;
            return -1;
        }
        from += done;
        n -= (size_t)done;
        at += done;
    }
    return 0;
}

/* The file has its size already, so what is all zero may stay a hole: a large
 * and nearly empty filter takes no more room saved than it takes mapped. */
static int
write_span(int fd, const uint8_t *from, size_t n, off_t at)
{
    while (n > 0) {
        size_t piece = n < PIECE_BYTES ? n : PIECE_BYTES;

        if (!cbf_store_all_zero(from, piece)
            && write_piece(fd, from, piece, at) != 0)
            return -1;
        from += piece;
        n -= piece;
        at += (off_t)piece;
    }
    return 0;
}

static int
flush_file(int fd)
{
    int r;

    do
        r = fsync(fd);
    while (r != 0 && errno == EINTR);
    return r;
}

/* The new name must outlive a crash, too.  A directory that we may not read
 * can't be flushed alone, so its whole file system is. */
static int
flush_directory(const struct replacement *r)
{
    if (!r->dir_flushes)
        return syncfs(r->fd);
    if (flush_file(r->dir) != 0 && errno != EINVAL)
        return -1;
    return 0;
}

/* The steps from a complete file beside the target to one in its place. */
static int
put_in_place(struct replacement *r, unsigned mode, struct cbf_error *e)
{
    /* After the writing, which takes set-id bits away. */
    if (fchmod(r->fd, (mode_t)mode) != 0)
        return cbf_error_system(e, "fchmod");
    if (flush_file(r->fd) != 0)
        return cbf_error_system(e, "fsync");
    if (renameat(r->dir, r->temp, r->dir, r->name) != 0)
        return cbf_error_system(e, "rename");
    r->temp[0] = '\0';
    if (flush_directory(r) != 0)
        return cbf_error_system(e, "fsync of the directory");
    return CBF_OK;
}

int
cbf_store_replace(const char *path, unsigned mode, const void *head,
                  size_t head_bytes, const void *counters,
                  size_t counter_bytes, struct cbf_error *e)
{
    struct replacement r = {
        .dir = -1,
        .fd = -1,
    };
    int cause;
    int code = open_directory(&r, path, e);

    if (!code)
        code = check_target(&r, e);
    if (!code)
        code = create_beside(&r, mode, e);
    if (code)
        goto done;
    if (cbf_store_set_size(r.fd, head_bytes + counter_bytes) != 0)
        code = cbf_error_system(e, "ftruncate");
    else if (write_span(r.fd, head, head_bytes, 0) != 0
             || write_span(r.fd, counters, counter_bytes,
                           (off_t)head_bytes) != 0)
        code = cbf_error_system(e, "write");
    else
        code = put_in_place(&r, mode, e);

done:
    cause = errno;
    if (r.fd >= 0 && r.temp[0] != '\0')
        unlinkat(r.dir, r.temp, 0);
    if (r.fd >= 0)
        close(r.fd);
    if (r.dir >= 0)
        close(r.dir);
    errno = cause;
    return code;
}
