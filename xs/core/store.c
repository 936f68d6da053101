/*
 * store.c - a filter's backing: the constructors that need no protocol,
 * mapping, waiting for a flock, flushing, removing.
 *
 * Does not create or adopt files by path (store_open.c), does not write any
 * (store_replace.c), and leaves descriptors that get lost and the end of a
 * handle to store_close.c.  Touches no counter and no lock word.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "store_private.h"
#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define FIRST_FD 3 /* above the standard streams */

/* A creator needs milliseconds; 30 s is what a user waits before he asks. */
#define PATIENCE_MS 30000u
#define LONGEST_NAP_MS 20u

#define DEFAULT_LABEL "counting-bloom-filter"

/* ---- states of a store ------------------------------------------------ */

void
cbf_store_begin(struct cbf_store *s, enum cbf_store_kind kind)
{
    *s = (struct cbf_store){
        .kind = kind,
        .fd = -1,
    };
}

void
cbf_store_discard(struct cbf_store *s)
{
    int cause = errno;

    if (s->base)
        munmap(s->base, s->map_bytes);
    if (s->fd >= 0 && s->alone)
        cbf_store_close_locked(s->fd);
    else if (s->fd >= 0)
        close(s->fd);
    free(s->path);
    cbf_store_begin(s, s->kind);
    errno = cause;
}

/* ---- descriptors ------------------------------------------------------ */

void
cbf_store_close_locked(int fd)
{
    flock(fd, LOCK_UN);
    close(fd);
}

int
cbf_store_above_stdio(int fd)
{
    int high;
    int cause;

    if (fd < 0 || fd >= FIRST_FD)
        return fd;
    high = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
    cause = errno;
    close(fd);
    errno = cause;
    return high;
}

int
cbf_store_open_file(const char *path, int flags, unsigned mode, int *fd,
                    struct cbf_error *e)
{
    struct stat st;
    int cause;

    *fd = open(path, flags | CBF_STORE_FLAGS, (mode_t)mode);
    *fd = cbf_store_above_stdio(*fd);
    if (*fd >= 0)
        return CBF_OK;
    cause = errno;
    if (cause == EINTR)
        return cbf_error_set(e, CBF_E_INTERRUPTED, "open");
    if (cause == EISDIR || cause == ENXIO || cause == ENODEV)
        return cbf_error_set(e, CBF_E_NOT_REGULAR, NULL);
    /* ELOOP also means a circle of links further up. */
    if (cause == ELOOP && lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
        return cbf_error_set(e, CBF_E_SYMLINK, NULL);
    errno = cause;
    return cbf_error_system(e, "open");
}

int
cbf_store_identify(struct cbf_store *s, struct stat *st, struct cbf_error *e)
{
    if (fstat(s->fd, st) != 0)
        return cbf_error_system(e, "fstat");
    if (!S_ISREG(st->st_mode))
        return cbf_error_set(e, CBF_E_NOT_REGULAR, NULL);
    s->dev = st->st_dev;
    s->ino = st->st_ino;
    return CBF_OK;
}

int
cbf_store_read_header(int fd, struct cbf_fmt_header *h, struct cbf_error *e)
{
    size_t done = 0;

    memset(h, 0, sizeof *h);
    while (done < sizeof *h) {
        ssize_t n = pread(fd, (uint8_t *)h + done, sizeof *h - done,
                          (off_t)done);

        if (n < 0 && errno != EINTR)
            return cbf_error_system(e, "read");
        if (n == 0)
            break;
        if (n > 0)
            done += (size_t)n;
    }
    return CBF_OK;
}

int
cbf_store_set_size(int fd, uint64_t bytes)
{
    struct rlimit limit;
    int r;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0
        && limit.rlim_cur != RLIM_INFINITY && bytes > limit.rlim_cur) {
        errno = EFBIG;
        return -1;
    }
    do
        r = ftruncate(fd, (off_t)bytes);
    while (r != 0 && errno == EINTR);
    return r;
}

int
cbf_store_names(const char *path, dev_t dev, ino_t ino)
{
    struct stat st;
    int cause = errno;
    int same = lstat(path, &st) == 0 && st.st_dev == dev && st.st_ino == ino;

    errno = cause;
    return same;
}

/* ---- mapping ---------------------------------------------------------- */

static int
map_failed(struct cbf_error *e)
{
    if (errno == ENOMEM)
        return cbf_error_set(e, CBF_E_MEMORY, "the mapping");
    return cbf_error_system(e, "mmap");
}

/*
 * Counters are looked at anywhere, so in a large table of small pages most of
 * the time goes into finding the page: with huge ones adds took a third less
 * (see DESIGN).  They are asked for where the kernel may grant them, which
 * is memory that is a file: what is not flushed anywhere, and tmpfs.  On files
 * of a disk the same advice would read 2 MiB for each page that is touched.
 */
static void
ask_for_huge_pages(const struct cbf_store *s)
{
    struct statfs fs;

    if (s->fd < 0 || (fstatfs(s->fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC))
        madvise(s->base, s->map_bytes, MADV_HUGEPAGE);
}

int
cbf_store_map(struct cbf_store *s, int prot, struct cbf_error *e)
{
    struct stat st;
    size_t bytes = s->geometry.file_bytes;
    void *base = mmap(NULL, bytes, prot, MAP_SHARED, s->fd, 0);

    if (base == MAP_FAILED)
        return map_failed(e);
    s->base = base;
    s->map_bytes = bytes;
    /* Items fall anywhere: reading ahead would fill memory with pages, and a
     * sparse file's page cache with holes, that nobody asked for. */
    madvise(base, bytes, MADV_RANDOM);
    ask_for_huge_pages(s);
    /* The size was checked before; between then and now it could change. */
    if (fstat(s->fd, &st) != 0)
        return cbf_error_system(e, "fstat");
    if ((uint64_t)st.st_size != s->geometry.file_bytes)
        return cbf_error_set(e, CBF_E_INVALID, "size of the file");
    return cbf_store_mark(s, s->fd, e);
}

/* ---- waiting for a flock ---------------------------------------------- */

enum cbf_store_flock
cbf_store_try_flock(int fd, int mode)
{
    int r;

    do
        r = flock(fd, mode | LOCK_NB);
    while (r != 0 && errno == EINTR);
    if (r == 0)
        return CBF_STORE_LOCKED;
    return errno == EWOULDBLOCK ? CBF_STORE_LOCK_BUSY : CBF_STORE_NO_FLOCK;
}

int
cbf_store_wait(struct cbf_store_patience *p, struct cbf_error *e)
{
    unsigned nap_ms = p->rounds + 1;
    struct timespec nap;

    if (nap_ms > LONGEST_NAP_MS)
        nap_ms = LONGEST_NAP_MS;
    if (p->waited_ms >= PATIENCE_MS)
        return cbf_error_set(e, CBF_E_BUSY, NULL);
    nap = (struct timespec){ .tv_nsec = (long)nap_ms * 1000000 };
    if (nanosleep(&nap, NULL) != 0 && errno == EINTR)
        return cbf_error_set(e, CBF_E_INTERRUPTED, "flock");
    p->rounds++;
    p->waited_ms += nap_ms;
    return CBF_OK;
}

int
cbf_store_lock_shared(int fd, struct cbf_error *e)
{
    struct cbf_store_patience patience = { 0, 0 };
    int code = CBF_OK;

    while (!code
           && cbf_store_try_flock(fd, LOCK_SH) == CBF_STORE_LOCK_BUSY)
        code = cbf_store_wait(&patience, e);
    return code;
}

/* ---- constructors ----------------------------------------------------- */

int
cbf_store_readonly(struct cbf_store *s, const char *path, struct cbf_error *e)
{
    struct cbf_fmt_header h;
    struct stat st;
    int code;

    cbf_store_begin(s, CBF_STORE_READONLY);
    code = cbf_store_open_file(path, O_RDONLY, 0, &s->fd, e);
    if (code)
        return code;
    code = cbf_store_identify(s, &st, e);
    if (!code)
        code = cbf_store_read_header(s->fd, &h, e);
    if (!code)
        code = cbf_store_validate(&h, (size_t)st.st_size, &s->geometry,
                                  &s->sealed, e);
    if (!code && !s->sealed)
        code = cbf_error_set(e, CBF_E_NOT_FROZEN, NULL);
    if (!code)
        code = cbf_store_map(s, PROT_READ, e);
    if (code)
        goto fail;
    s->path = strdup(path);
    if (!s->path) {
        code = cbf_error_set(e, CBF_E_MEMORY, "the path");
        goto fail;
    }
    /* No lock to keep, so the handle need not cost a descriptor. */
    close(s->fd);
    s->fd = -1;
    return CBF_OK;

fail:
    cbf_store_discard(s);
    return code;
}

int
cbf_store_anonymous(struct cbf_store *s, const struct cbf_geometry *plan,
                    struct cbf_error *e)
{
    void *base;

    cbf_store_begin(s, CBF_STORE_ANONYMOUS);
    base = mmap(NULL, plan->file_bytes, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return map_failed(e);
    s->base = base;
    s->map_bytes = plan->file_bytes;
    s->geometry = *plan;
    ask_for_huge_pages(s);
    cbf_store_format(base, plan);
    return CBF_OK;
}

int
cbf_store_memfd(struct cbf_store *s, const char *name,
                const struct cbf_geometry *plan, struct cbf_error *e)
{
    struct stat st;
    int code;

    cbf_store_begin(s, CBF_STORE_MEMFD);
    s->geometry = *plan;
    s->fd = memfd_create(name ? name : DEFAULT_LABEL,
                         MFD_CLOEXEC | MFD_ALLOW_SEALING);
    s->fd = cbf_store_above_stdio(s->fd);
    if (s->fd < 0)
        return cbf_error_system(e, "memfd_create");
    if (cbf_store_set_size(s->fd, plan->file_bytes) != 0) {
        code = cbf_error_system(e, "ftruncate");
        goto fail;
    }
    if (fcntl(s->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        code = cbf_error_system(e, "fcntl");
        goto fail;
    }
    code = cbf_store_identify(s, &st, e);
    if (!code)
        code = cbf_store_map(s, PROT_READ | PROT_WRITE, e);
    if (code)
        goto fail;
    cbf_store_format(s->base, plan);
    /* whoever opens the descriptor must see that he is not alone */
    cbf_store_try_flock(s->fd, LOCK_SH);
    return CBF_OK;

fail:
    cbf_store_discard(s);
    return code;
}

/*
 * A descriptor of the same file into s, with a flock of its own: opened anew,
 * because a duplicate shares the caller's flock, which neither tells whether
 * anybody else has the file open nor is ours to change.  1, or 0 where that
 * can't be had (no /proc, or no right to open the file by now).
 */
static int
open_anew(struct cbf_store *s, int fd)
{
    char path[64];
    struct stat mine;
    struct stat his;

    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    s->fd = cbf_store_above_stdio(
        open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (s->fd < 0)
        return 0;
    if (fstat(s->fd, &mine) == 0 && fstat(fd, &his) == 0
        && mine.st_dev == his.st_dev && mine.st_ino == his.st_ino)
        return 1;
    close(s->fd);
    s->fd = -1;
    return 0;
}

/* What the caller passed is fit for a filter. */
static int
check_passed(int fd, struct cbf_error *e)
{
    struct stat st;
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0)
        return cbf_error_system(e, "fcntl");
    if (fstat(fd, &st) != 0)
        return cbf_error_system(e, "fstat");
    if (!S_ISREG(st.st_mode))
        return cbf_error_set(e, CBF_E_NOT_REGULAR, NULL);
    if ((flags & O_ACCMODE) != O_RDWR)
        return cbf_error_set(e, CBF_E_NOT_WRITABLE, NULL);
    return CBF_OK;
}

/* A descriptor of our own for fd, flocked, into s. */
static int
duplicate(struct cbf_store *s, int fd, struct stat *st, struct cbf_error *e)
{
    int code = check_passed(fd, e);

    if (code)
        return code;
    if (open_anew(s, fd)) {
        s->alone = cbf_store_try_flock(s->fd, LOCK_EX) == CBF_STORE_LOCKED;
    } else {
        s->fd = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_FD);
        if (s->fd < 0)
            return cbf_error_system(e, "fcntl");
    }
    if (!s->alone)
        code = cbf_store_lock_shared(s->fd, e);
    if (code)
        return code;
    return cbf_store_identify(s, st, e);
}

int
cbf_store_from_fd(struct cbf_store *s, int fd, struct cbf_error *e)
{
    struct cbf_fmt_header h;
    struct stat st;
    int code;

    cbf_store_begin(s, CBF_STORE_FD);
    code = duplicate(s, fd, &st, e);
    if (!code)
        code = cbf_store_read_header(s->fd, &h, e);
    if (!code)
        code = cbf_store_validate(&h, (size_t)st.st_size, &s->geometry,
                                  &s->sealed, e);
    if (!code && s->sealed)
        code = cbf_error_set(e, CBF_E_SEALED_FILE, NULL);
    if (!code)
        code = cbf_store_map(s, PROT_READ | PROT_WRITE, e);
    if (code)
        cbf_store_discard(s);
    return code;
}

/* ---- flushing and removing -------------------------------------------- */

static int
has_file(const struct cbf_store *s)
{
    return s->base && (s->kind == CBF_STORE_PATH || s->kind == CBF_STORE_FD);
}

int
cbf_store_reserve(const struct cbf_store *s, struct cbf_error *e)
{
    if (s->fd < 0
        || fallocate(s->fd, 0, 0, (off_t)s->geometry.file_bytes) == 0)
        return CBF_OK;
    if (errno == EINTR)
        return cbf_error_set(e, CBF_E_INTERRUPTED, "fallocate");
    return cbf_error_system(e, "fallocate");
}

int
cbf_store_sync_head(const struct cbf_store *s, size_t n, struct cbf_error *e)
{
    if (!has_file(s))
        return CBF_OK;
    if (n > s->map_bytes)
        n = s->map_bytes;
    if (msync(s->base, n, MS_SYNC) != 0)
        return cbf_error_system(e, "msync");
    return CBF_OK;
}

int
cbf_store_sync(const struct cbf_store *s, struct cbf_error *e)
{
    return cbf_store_sync_head(s, s->map_bytes, e);
}

int
cbf_store_unlink(const char *path, struct cbf_error *e)
{
    if (unlink(path) != 0 && errno != ENOENT)
        return cbf_error_system(e, "unlink");
    return CBF_OK;
}
