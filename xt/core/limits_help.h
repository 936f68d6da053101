/*
 * limits_help.h - for limits.c: calls that fail when it is their turn, what
 * must not leak, and many processes.
 *
 * Not for anything else: it defines functions in the place of the C library's,
 * which the linker is told to use.
 */
#ifndef LIMITS_HELP_H
#define LIMITS_HELP_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "storm.h"
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define LIMITS_CROWD 1100u
#define LIMITS_OPENS 10000u

/* ---- whose turn it is to fail ------------------------------------------- */

static struct {
    long countdown; /* calls until the one that fails; 0 = none will */
    int held;       /* calls are not counted now */
    int struck;     /* one has failed */
    long allocated; /* blocks that were not given back */
    unsigned faults;
    const char *name;
    long turn;
    const char *victim; /* the call that failed */
} limits;

static inline void
limits_arm(long n)
{
    limits.countdown = n;
    limits.struck = 0;
    limits.held = 0;
}

static inline void
limits_disarm(void)
{
    limits.countdown = 0;
    limits.held = 0;
}

static inline void
limits_hold(void)
{
    limits.held = 1;
}

static inline void
limits_resume(void)
{
    limits.held = 0;
}

static inline int
limits_struck(void)
{
    return limits.struck;
}

static inline void
limits_set_struck(int struck)
{
    limits.struck = struck;
}

static inline unsigned
limits_faults(void)
{
    return limits.faults;
}

static inline void
limits_name(const char *name, long turn)
{
    limits.name = name;
    limits.turn = turn;
}

static inline void
limits_fault(const char *what)
{
    limits.faults++;
    diag("%s, call %ld fails: %s", limits.name ? limits.name : "-",
         limits.turn, what);
}

/* 1 if this call is to fail, with errno set. */
static inline int
limits_turn(int cause, const char *call)
{
    if (limits.countdown == 0 || limits.held)
        return 0;
    if (--limits.countdown > 0)
        return 0;
    limits.struck = 1;
    limits.victim = call;
    errno = cause;
    return 1;
}

/* ---- wrappers: each fails in its turn, and else is the real one --------- */

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void __real_free(void *p);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t o);
int __real_open(const char *path, int flags, ...);
int __real_openat(int dir, const char *path, int flags, ...);
int __real_fcntl(int fd, int command, ...);

#define LIMITS_SIMPLE(name, cause, parameters, arguments)                    \
    long __real_##name parameters;                                           \
    long __wrap_##name parameters;                                           \
    long __wrap_##name parameters                                            \
    {                                                                        \
        if (limits_turn(cause, #name))                                       \
            return -1;                                                       \
        return __real_##name arguments;                                      \
    }

#define LIMITS_ALLOCATES(type, name, parameters, arguments)                  \
    type __wrap_##name parameters;                                           \
    type __wrap_##name parameters                                            \
    {                                                                        \
        type p = limits_turn(ENOMEM, #name) ? NULL                           \
                                            : __real_##name arguments;       \
                                                                             \
        limits.allocated += p != NULL;                                       \
        return p;                                                            \
    }

#define LIMITS_VARIADIC(name, cause, parameters, last, arguments)            \
    int __wrap_##name parameters;                                            \
    int __wrap_##name parameters                                             \
    {                                                                        \
        va_list list;                                                        \
        long more;                                                           \
                                                                             \
        if (limits_turn(cause, #name))                                       \
            return -1;                                                       \
        va_start(list, last);                                                \
        more = va_arg(list, long);                                           \
        va_end(list);                                                        \
        return __real_##name arguments;                                      \
    }

#define LIMITS_WRAPPERS                                                      \
    LIMITS_ALLOCATES(void *, malloc, (size_t n), (n))                        \
    LIMITS_ALLOCATES(void *, calloc, (size_t n, size_t size), (n, size))     \
    LIMITS_ALLOCATES(char *, strdup, (const char *s), (s))                   \
    LIMITS_ALLOCATES(char *, strndup, (const char *s, size_t n), (s, n))     \
    void __wrap_free(void *p);                                               \
    void __wrap_free(void *p)                                                \
    {                                                                        \
        limits.allocated -= p != NULL;                                       \
        __real_free(p);                                                      \
    }                                                                        \
    void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd,       \
                      off_t o);                                              \
    void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd,       \
                      off_t o)                                               \
    {                                                                        \
        if (limits_turn(ENOMEM, "mmap"))                                     \
            return MAP_FAILED;                                               \
        return __real_mmap(at, n, prot, flags, fd, o);                       \
    }                                                                        \
    LIMITS_VARIADIC(open, EMFILE, (const char *path, int flags, ...), flags, \
                    (path, flags, more))                                     \
    LIMITS_VARIADIC(openat, EMFILE,                                          \
                    (int at, const char *path, int flags, ...), flags,       \
                    (at, path, flags, more))                                 \
    LIMITS_VARIADIC(fcntl, EMFILE, (int fd, int command, ...), command,      \
                    (fd, command, more))                                     \
    LIMITS_SIMPLE(madvise, EINVAL, (void *p, size_t n, long how),            \
                  (p, n, how))                                               \
    LIMITS_SIMPLE(fstat, EIO, (long fd, void *st), (fd, st))                 \
    LIMITS_SIMPLE(fstatat, EIO, (long d, const char *p, void *st, long f),   \
                  (d, p, st, f))                                             \
    LIMITS_SIMPLE(lstat, EIO, (const char *p, void *st), (p, st))            \
    LIMITS_SIMPLE(flock, ENOLCK, (long fd, long how), (fd, how))             \
    LIMITS_SIMPLE(ftruncate, ENOSPC, (long fd, long n), (fd, n))             \
    LIMITS_SIMPLE(fchmod, EPERM, (long fd, long mode), (fd, mode))           \
    LIMITS_SIMPLE(msync, EIO, (void *p, size_t n, long how), (p, n, how))    \
    LIMITS_SIMPLE(fsync, EIO, (long fd), (fd))                               \
    LIMITS_SIMPLE(pread, EIO, (long fd, void *p, size_t n, long at),         \
                  (fd, p, n, at))                                            \
    LIMITS_SIMPLE(pwrite, ENOSPC,                                            \
                  (long fd, const void *p, size_t n, long at),               \
                  (fd, p, n, at))                                            \
    LIMITS_SIMPLE(renameat, EXDEV,                                           \
                  (long d, const char *p, long d2, const char *q),           \
                  (d, p, d2, q))                                             \
    LIMITS_SIMPLE(memfd_create, EMFILE, (const char *name, long flags),      \
                  (name, flags))

/* ---- what must not leak ------------------------------------------------- */

struct limits_count {
    unsigned descriptors;
    unsigned mappings; /* shared ones */
    unsigned files;
    long allocated;
};

static inline unsigned
limits_entries(const char *path)
{
    DIR *d = opendir(path);
    unsigned n = 0;

    if (!d)
        bail("opendir %s", path);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static inline void
limits_measure(struct limits_count *c, const char *dir)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[1024];

    if (!maps)
        bail("maps");
    c->mappings = 0;
    while (fgets(line, sizeof line, maps))
        c->mappings += strstr(line, "s 0") != NULL;
    fclose(maps);
    c->descriptors = limits_entries("/proc/self/fd");
    c->files = limits_entries(dir);
    c->allocated = limits.allocated;
}

static inline void
limits_compare(const struct limits_count *before,
               const struct limits_count *after)
{
    if (after->descriptors != before->descriptors)
        limits_fault("a descriptor leaks");
    if (after->mappings != before->mappings)
        limits_fault("a mapping leaks");
    if (after->allocated != before->allocated)
        limits_fault("memory leaks");
}

/* Bytes of address space in use. */
static inline size_t
limits_address_space(void)
{
    FILE *in = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;

    if (!in || fscanf(in, "%lu", &pages) != 1)
        bail("statm");
    fclose(in);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static inline void
limits_fill(struct cbf *f, struct storm_model *m, unsigned n)
{
    char text[32];
    unsigned i;
    int changed;

    for (i = 0; i < n; i++) {
        int len = snprintf(text, sizeof text, "item-%u", i);

        if (cbf_add(f, text, (size_t)len, &changed, NULL) != 0)
            bail("add");
        if (m)
            storm_change(m, cbf_hash_item(text, (size_t)len), 1);
    }
}

/* ---- many processes, many opens ----------------------------------------- */

static inline int
limits_one_of_many(const char *path, struct cbf *f,
                   const struct cbf_geometry *g, unsigned me)
{
    struct cbf_stats s;
    struct cbf_error e;
    char text[32];
    int changed;
    int len = snprintf(text, sizeof text, "crowd-%u", me);

    if (me % 2 && cbf_open_path(path, g, 0600, &f, &e) != 0)
        return 1;
    if (cbf_add(f, text, (size_t)len, &changed, &e) != 0)
        return 2;
    if (cbf_stats(f, &s, &e) != 0 || s.sum < g->n_probes)
        return 3;
    if (!cbf_contains(f, text, (size_t)len))
        return 4;
    if (cbf_remove(f, text, (size_t)len, &changed, &e) != 0 || !changed)
        return 5;
    cbf_unref(f);
    return 0;
}

/* All are there before the first begins. */
static inline void
limits_crowd(const char *path, struct cbf *f, const struct cbf_geometry *g)
{
    struct storm_model before = storm_model(g);
    struct storm_model after = storm_model(g);
    struct cbf_stats s;
    uint64_t began;
    unsigned bad = 0;
    unsigned started = 0;
    unsigned i;
    int gate[2];
    int status;
    char byte;

    if (pipe(gate) != 0)
        bail("pipe");
    storm_read(&before, f);
    for (i = 0; i < LIMITS_CROWD; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            storm_child(120);
            close(gate[1]);
            if (read(gate[0], &byte, 1) != 0)
                _exit(9);
            _exit(limits_one_of_many(path, f, g, i));
        }
        started += pid > 0;
    }
    began = storm_now_ns();
    close(gate[1]);
    while (wait(&status) > 0)
        bad += status != 0;
    diag("%u processes at once took %.1f s", started,
         (double)(storm_now_ns() - began) / 1e9);
    close(gate[0]);
    ok(started == LIMITS_CROWD && bad == 0,
       "%u processes at once, each adds, looks and removes (%u failed)",
       started, bad);
    storm_read(&after, f);
    ok(storm_same(&before, &after) && cbf_stats(f, &s, NULL) == 0
           && storm_totals(&s, &after),
       "... and the table is as before");
    free(before.value);
    free(after.value);
}

static inline unsigned
limits_slots(const struct cbf *f)
{
    unsigned i;
    unsigned n = 0;

    for (i = 0; i < CBF_FMT_SLOTS; i++)
        n += cbf_load32(&f->lock.slots[i].owner.part.pid) != 0;
    return n;
}

static inline void
limits_opens(const char *path, struct cbf *f, const struct cbf_geometry *g,
             const char *dir)
{
    struct limits_count before;
    struct limits_count after;
    struct cbf_stats s;
    struct cbf *one;
    unsigned slots = limits_slots(f);
    unsigned failed = 0;
    unsigned i;
    size_t memory;
    int changed;

    limits_name("opens", 0);
    limits_measure(&before, dir);
    memory = limits_address_space();
    for (i = 0; i < LIMITS_OPENS; i++) {
        if (cbf_open_path(path, g, 0600, &one, NULL) != 0) {
            failed++;
            continue;
        }
        cbf_add(one, "x", 1, &changed, NULL);
        cbf_stats(one, &s, NULL);
        cbf_remove(one, "x", 1, &changed, NULL);
        cbf_unref(one);
    }
    limits_measure(&after, dir);
    ok(failed == 0, "%u opens and closes", LIMITS_OPENS);
    ok(before.descriptors == after.descriptors
           && before.mappings == after.mappings
           && before.allocated == after.allocated
           && before.files == after.files,
       "... leave no descriptor, mapping, memory or file");
    ok(limits_address_space() <= memory + (1 << 20), "... or address space");
    ok(limits_slots(f) <= slots, "... or slot");
}

/* A handle inherited through five generations: each adds, and goes. */
static inline void
limits_generations(struct cbf *f)
{
    struct cbf_stats before;
    struct cbf_stats after;
    int changed;
    int status = 0;
    pid_t pid;
    unsigned depth;

    cbf_stats(f, &before, NULL);
    pid = fork();
    for (depth = 1; pid == 0 && depth < 5; depth++) {
        if (cbf_add(f, "heir", 4, &changed, NULL) != 0)
            _exit(1);
        pid = fork();
    }
    if (pid == 0)
        _exit(cbf_add(f, "heir", 4, &changed, NULL) != 0);
    if (pid > 0 && waitpid(pid, &status, 0) != pid)
        status = 1;
    if (depth > 1) {
        cbf_unref(f);
        _exit(status != 0);
    }
    cbf_stats(f, &after, NULL);
    ok(status == 0
           && after.sum == before.sum + 5 * cbf_geometry_of(f)->n_probes,
       "five generations of fork add with one handle");
}

#endif
