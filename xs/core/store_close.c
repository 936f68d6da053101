/*
 * store_close.c - descriptors that get lost, and the end of a handle.
 *
 * A process may close any descriptor, ours included: daemons close all.  This
 * file finds out, gets the file back where it must, never closes a number that
 * is no longer ours, and finds the last one to leave a file.  What that one
 * does with the words in the file is the caller's function.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "atomic.h"
#include "store_private.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#define GONE " (deleted)" /* what the kernel adds to a removed file's name */

/* ---- whose descriptor is it? ------------------------------------------ */

/*
 * The file position of a path's descriptor, which nothing else uses, says
 * whose it is.  A child that closed all descriptors and opened the same file
 * again may have got the number that an inherited handle remembers; device and
 * inode are right then, and closing it would take the flock from the new
 * handle.  Mappings that live at the same time differ in these bits; 31 of
 * them fit any file system's largest position.
 */
static off_t
mark_of(const struct cbf_store *s)
{
    return (off_t)(((uintptr_t)s->base >> 12) & 0x7fffffff);
}

int
cbf_store_mark(const struct cbf_store *s, int fd, struct cbf_error *e)
{
    if (s->kind == CBF_STORE_PATH
        && lseek(fd, mark_of(s), SEEK_SET) != mark_of(s))
        return cbf_error_system(e, "lseek");
    return CBF_OK;
}

static int
is_ours(const struct cbf_store *s, int fd)
{
    struct stat st;

    if (fd < 0 || fstat(fd, &st) != 0)
        return 0;
    if (st.st_dev != s->dev || st.st_ino != s->ino)
        return 0;
    /* Others may move the position of a descriptor that we give away. */
    return s->kind != CBF_STORE_PATH
           || lseek(fd, 0, SEEK_CUR) == mark_of(s);
}

/* ---- the same file once more ------------------------------------------ */

/* A new open file description of s's file by the given name, for a flock of
 * its own; -1 if the name can't be opened or is another file. */
static int
open_same(const struct cbf_store *s, const char *name, int flags)
{
    struct stat st;
    int fd = open(name, flags | O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    fd = cbf_store_above_stdio(fd);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)
        && st.st_dev == s->dev && st.st_ino == s->ino)
        return fd;
    close(fd);
    return -1;
}

/* What the kernel calls the file now: it knows by the mapping, even after
 * chdir and rename.  0 if it won't say (no /proc). */
static int
current_name(const struct cbf_store *s, char *name, size_t room)
{
    char link[sizeof "/proc/self/map_files/-" + 4 * sizeof(uintptr_t)];
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = (uintptr_t)s->base;
    uintptr_t to = from + (s->map_bytes + page - 1) / page * page;
    ssize_t n;

    snprintf(link, sizeof link, "/proc/self/map_files/%lx-%lx",
             (unsigned long)from, (unsigned long)to);
    n = readlink(link, name, room - 1);
    if (n <= 0 || (size_t)n >= room - 1)
        return 0;
    name[n] = '\0';
    return 1;
}

static int
ends_in_gone(const char *name)
{
    size_t n = strlen(name);
    size_t tail = sizeof GONE - 1;

    return n >= tail && memcmp(name + n - tail, GONE, tail) == 0;
}

/*
 * Opens the file again into *fd; -1 where that is neither possible nor needed:
 * it was removed or replaced, so that nobody can open it any more, or it never
 * had a name.  DESCRIPTOR if others may be able to open it and we are not.
 */
static int
reopen(const struct cbf_store *s, int *fd, struct cbf_error *e)
{
    char name[PATH_MAX + sizeof GONE];
    int named = current_name(s, name, sizeof name);

    *fd = -1;
    if (s->path)
        *fd = open_same(s, s->path, O_NOFOLLOW);
    if (*fd < 0 && named)
        *fd = open_same(s, name, O_NOFOLLOW);
    if (*fd >= 0 || (named && ends_in_gone(name)))
        return CBF_OK;
    /* Without /proc, a passed descriptor is taken for a memfd. */
    if (!named && !s->path)
        return CBF_OK;
    return cbf_error_set(e, CBF_E_DESCRIPTOR, NULL);
}

/* A descriptor with another number than `taken`; -1 with errno, fd closed. */
static int
renumber(int fd, int taken)
{
    int cause;
    int other;

    if (fd != taken)
        return fd;
    other = fcntl(fd, F_DUPFD_CLOEXEC, fd + 1);
    cause = errno;
    close(fd);
    errno = cause;
    return other;
}

int
cbf_store_recheck(struct cbf_store *s, struct cbf_error *e)
{
    uint32_t *number = (uint32_t *)&s->fd;
    uint32_t lost = cbf_load32(number);
    int fd = -1;
    int code = CBF_OK;

    if ((int)lost < 0 || is_ours(s, (int)lost))
        return CBF_OK;
    if (s->kind != CBF_STORE_MEMFD)
        code = reopen(s, &fd, e);
    /* Of two threads that both find it lost, one brings it back.  It does not
     * get the lost number again: the other could not tell then. */
    if (!code && fd >= 0) {
        fd = renumber(fd, (int)lost);
        code = fd < 0 ? cbf_error_system(e, "fcntl")
                      : cbf_store_lock_shared(fd, e);
    }
    if (!code && fd >= 0)
        code = cbf_store_mark(s, fd, e);
    if (!code && cbf_swap_if32(number, lost, (uint32_t)fd))
        return CBF_OK;
    if (fd >= 0)
        close(fd);
    return code;
}

/* ---- closing ---------------------------------------------------------- */

/*
 * A new description of the file behind a handle that is about to close.  The
 * old one won't do: fork relatives share it, so a flock on it would be granted
 * however many of them go on.
 */
static int
open_afresh(const struct cbf_store *s)
{
    char link[sizeof "/proc/self/fd/" + 3 * sizeof(int)];
    int fd = -1;

    if (is_ours(s, s->fd)) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", s->fd);
        fd = open_same(s, link, 0);
    }
    return fd < 0 ? open_same(s, s->path, O_NOFOLLOW) : fd;
}

/* Lets the caller tidy up a file that nobody has open any more. */
static void
tidy(const struct cbf_store *s, int fd, void (*last)(void *base))
{
    struct cbf_fmt_header h;
    struct cbf_geometry g;
    struct stat st;
    void *head;

    if (cbf_store_try_flock(fd, LOCK_EX) != CBF_STORE_LOCKED)
        return;
    if (fstat(fd, &st) != 0 || st.st_nlink == 0)
        return;
    /* Still the filter it was?  It may have been cut or written over. */
    if (cbf_store_read_header(fd, &h, NULL) != CBF_OK
        || cbf_store_validate(&h, (size_t)st.st_size, &g, NULL, NULL)
        || g.file_bytes != s->geometry.file_bytes)
        return;
    head = mmap(NULL, CBF_FMT_COUNTERS_OFFSET, PROT_READ | PROT_WRITE,
                MAP_SHARED, fd, 0);
    if (head == MAP_FAILED)
        return;
    last(head);
    munmap(head, CBF_FMT_COUNTERS_OFFSET);
}

void
cbf_store_close(struct cbf_store *s, void (*last)(void *base))
{
    int cause = errno;
    int fresh = -1;

    if (s->base && s->kind == CBF_STORE_PATH && last)
        fresh = open_afresh(s);
    /* A number that is no longer ours stays open: it is somebody's. */
    if (!is_ours(s, s->fd))
        s->fd = -1;
    if (s->base)
        munmap(s->base, s->map_bytes);
    if (s->fd >= 0)
        close(s->fd);
    if (fresh >= 0) {
        tidy(s, fresh, last);
        cbf_store_close_locked(fresh);
    }
    free(s->path);
    cbf_store_begin(s, s->kind);
    errno = cause;
}
