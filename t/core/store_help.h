/*
 * store_help.h - what the test programs of the store share: a temporary
 * directory, whole files in and out, children with an exit code, and system
 * calls that fail or change something at a chosen moment.
 *
 * The last replaces the C library's functions for the whole program, so the
 * code under test needs no hooks.  Knows nothing of what is tested.
 */
#ifndef STORE_HELP_H
#define STORE_HELP_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "store.h"
#include "tap.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

/* Capacity 1000, rate 0.01: k = round(6.64) = 7, 1000 * 7 / ln 2 = 10099, so m
 * = 16384, half of that in bytes, and 16768 before it. */
static const struct cbf_geometry UNUSED small_plan = {
    .capacity = 1000,
    .fp_rate = 0.01,
    .n_counters = 16384,
    .n_probes = 7,
    .counter_bytes = 8192,
    .file_bytes = 24960,
};

#define SMALL_BYTES 24960u

/* ---- system calls ------------------------------------------------------- */

/* Sleeping takes no time: nap_ms adds up, at_nap runs instead. */
static unsigned nap_count;
static unsigned nap_ms;
static void (*at_nap)(void);
static int nap_interrupted;

static int flock_fails;     /* errno of all flocks; 0 = they work */
static int truncate_fails;  /* and so on; only to sizes above 0 */
static int chmod_fails;
static int sync_fails;
static int directory_sync_fails;
static int write_fails;
static int map_fails;
static void (*before_map)(int fd);
static void (*before_flock)(void);
static unsigned write_most; /* short writes of this many bytes; 0 = no */

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif

/* A sanitizer's own start calls them too, before it is ready for us. */
#if UNDER_TSAN
#define EARLY __attribute__((no_sanitize("thread")))
#else
#define EARLY
#endif

static int
failing(int number)
{
    errno = number;
    return -1;
}

EARLY int
nanosleep(const struct timespec *nap, struct timespec *left)
{
    (void)left;
    nap_count++;
    nap_ms += (unsigned)(nap->tv_sec * 1000 + nap->tv_nsec / 1000000);
    if (nap_interrupted)
        return failing(EINTR);
    if (at_nap)
        at_nap();
    return 0;
}

EARLY int
flock(int fd, int mode)
{
    if (before_flock)
        before_flock();
    if (flock_fails)
        return failing(flock_fails);
    return (int)syscall(SYS_flock, fd, mode);
}

EARLY int
ftruncate(int fd, off_t size)
{
    if (truncate_fails && size > 0)
        return failing(truncate_fails);
    return (int)syscall(SYS_ftruncate, fd, size);
}

EARLY int
fchmod(int fd, mode_t mode)
{
    if (chmod_fails)
        return failing(chmod_fails);
    return (int)syscall(SYS_fchmod, fd, mode);
}

EARLY int
fsync(int fd)
{
    struct stat st;

    if (sync_fails)
        return failing(sync_fails);
    if (directory_sync_fails && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
        return failing(directory_sync_fails);
    return (int)syscall(SYS_fsync, fd);
}

EARLY ssize_t
pwrite(int fd, const void *from, size_t n, off_t at)
{
    if (write_fails)
        return failing(write_fails);
    if (write_most && n > write_most)
        n = write_most;
    return syscall(SYS_pwrite64, fd, from, n, at);
}

EARLY void *
mmap(void *at, size_t n, int prot, int flags, int fd, off_t from)
{
    if (fd >= 0 && before_map)
        before_map(fd);
    if (fd >= 0 && map_fails) {
        errno = map_fails;
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, from);
}

/* For at_nap, where the others need the time. */
static void UNUSED
really_nap(void)
{
    struct timespec nap = { .tv_nsec = 1000000 };

    syscall(SYS_nanosleep, &nap, NULL);
}

static void UNUSED
calls_work(void)
{
    nap_count = 0;
    nap_ms = 0;
    at_nap = NULL;
    nap_interrupted = 0;
    flock_fails = 0;
    truncate_fails = 0;
    chmod_fails = 0;
    sync_fails = 0;
    directory_sync_fails = 0;
    write_fails = 0;
    map_fails = 0;
    before_map = NULL;
    before_flock = NULL;
    write_most = 0;
}

/* ---- files -------------------------------------------------------------- */

static char top[4096];

static void
give_up(const char *what)
{
    printf("Bail out! %s: errno %d\n", what, errno);
    exit(1);
}

/* Into a new directory, which is the current one until the program ends. */
static void UNUSED
enter_directory(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(top, sizeof top, "%s/cbf-store-XXXXXX",
             tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(top) || chdir(top) != 0)
        give_up(top);
    alarm(60);
    umask(022);
}

static void UNUSED
leave_directory(void)
{
    char command[4200];

    snprintf(command, sizeof command, "rm -rf '%s'", top);
    if (chdir("/") != 0 || system(command) != 0)
        give_up(command);
}

static void UNUSED
spew(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    if (fd < 0 || write(fd, bytes, n) != (ssize_t)n || close(fd) != 0)
        give_up(path);
}

/* A sparse file. */
static void UNUSED
zeros(const char *path, off_t n)
{
    spew(path, "", 0);
    if (truncate(path, n) != 0)
        give_up(path);
}

/* The first `room` bytes of a file; how many there were. */
static size_t UNUSED
slurp(const char *path, void *bytes, size_t room)
{
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, bytes, room);

    if (fd < 0 || n < 0)
        give_up(path);
    close(fd);
    return (size_t)n;
}

/* A device of the test's own, so that code gone wrong harms no real one.
 * 0 where we may not make or use one. */
static int UNUSED
make_device(const char *path)
{
    int fd;

    if (mknod(path, S_IFCHR | 0600, makedev(1, 3)) != 0)
        return 0;
    fd = open(path, O_RDWR);
    if (fd < 0)
        return 0;
    close(fd);
    return 1;
}

static off_t UNUSED
size_of(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 ? st.st_size : -1;
}

static unsigned UNUSED
mode_of(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 ? (unsigned)st.st_mode & 07777 : ~0u;
}

/* Numbers of all descriptors that are open now. */
static unsigned UNUSED
open_descriptors(void)
{
    unsigned n = 0;
    int fd;

    for (fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Whether somebody else could lock the file so. */
static int UNUSED
flock_free(const char *path, int mode)
{
    int fd = open(path, O_RDWR);
    int free = fd >= 0 && flock(fd, mode | LOCK_NB) == 0;

    if (fd >= 0)
        close(fd);
    return free;
}

/* ---- headers, by the documented offsets --------------------------------- */

static void UNUSED
put32(uint8_t *at, size_t offset, uint32_t value)
{
    memcpy(at + offset, &value, sizeof value);
}

static void UNUSED
put64(uint8_t *at, size_t offset, uint64_t value)
{
    memcpy(at + offset, &value, sizeof value);
}

static void UNUSED
put_double(uint8_t *at, size_t offset, double value)
{
    memcpy(at + offset, &value, sizeof value);
}

/* An empty filter of small_plan, SMALL_BYTES long, written by hand. */
static void UNUSED
hand_made(uint8_t *file)
{
    memset(file, 0, SMALL_BYTES);
    put32(file, 0, 0x53464243);
    put32(file, 4, 2);
    put32(file, 8, 7);
    put64(file, 16, 16384);
    put64(file, 24, 16383);
    put64(file, 32, 1000);
    put_double(file, 40, 0.01);
    put64(file, 48, 24960);
    put64(file, 56, 256);
    put64(file, 64, 16768);
}

/* ---- children ----------------------------------------------------------- */

/* Runs body in a child with a watchdog; its exit code, or 1000 + signal. */
static int UNUSED
in_child(int (*body)(void))
{
    int status;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid < 0)
        give_up("fork");
    if (pid == 0) {
        alarm(20);
        _exit(body());
    }
    if (waitpid(pid, &status, 0) != pid)
        give_up("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* ---- filters ------------------------------------------------------------ */

/* The bytes of an empty filter of small_plan; hand_made fills them in. */
static UNUSED uint8_t good[SMALL_BYTES];

static UNUSED int
open_at(struct cbf_store *s, const char *path, unsigned mode,
        struct cbf_error *e)
{
    return cbf_store_open(s, path, &small_plan, mode, e);
}

static UNUSED int
is_empty_filter(const struct cbf_store *s)
{
    return s->map_bytes == SMALL_BYTES
           && memcmp(s->base, good, SMALL_BYTES) == 0;
}

#endif
