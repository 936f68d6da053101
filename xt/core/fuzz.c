/* build: -DCBF_LOCK_UNSURE_NS=5000000 -DCBF_LOCK_PARK_NS=200000 */
/* link: -Wl,--wrap=mmap,--wrap=munmap */
/*
 * fuzz.c - any content of a filter's file, header, slots, bitmap, journal and
 * counters, at rest or written over while it is open; then calls of all kinds.
 *
 * An input says how the filter is opened, which calls are made, and which
 * bytes of a valid file are replaced (see "the input").  Beside what the
 * sanitizers notice: a file that is refused stays as it is, nothing outside a
 * mapping is touched (there are guard pages), every wait ends, and what
 * follows from a finished call is so.
 *
 * Built by clang with -fsanitize=fuzzer, this is libFuzzer's target.  With
 * -DFUZZ_REPLAY it has a main of its own, which runs the inputs in the files
 * it is given (a line of hexadecimal digits each), and as many that are made
 * from them by a fixed seed as CBF_FUZZ_MADE says.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cbf.h"
#include "handle.h"
#include "tap.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

/* A wait that ends is one of milliseconds here; this machine may be busy. */
#define LONGEST_NS 5000000000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const volatile int no_signal;
static char path[512];
static char temp[520];
static const char *now_doing = "";

/* For the fuzzer a crash is what it looks for. */
static void
wrong(const char *what)
{
    fprintf(stderr, "fuzz: %s: %s\n", now_doing, what);
    unlink(path);
    unlink(temp);
    abort();
}

/* ---- guard pages around shared mappings --------------------------------- */

void *__real_mmap(void *at, size_t n, int prot, int flags, int fd, off_t o);
int __real_munmap(void *at, size_t n);
void *__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t o);
int __wrap_munmap(void *at, size_t n);

#define GUARD 65536u
#define GUARDED_MAX 64u
static void *guarded[GUARDED_MAX];

static size_t
whole_pages(size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (n + page - 1) / page * page;
}

void *
__wrap_mmap(void *at, size_t n, int prot, int flags, int fd, off_t o)
{
    unsigned i = 0;
    char *around;
    void *base;

    while (i < GUARDED_MAX && guarded[i])
        i++;
    if (at || !(flags & MAP_SHARED) || i == GUARDED_MAX)
        return __real_mmap(at, n, prot, flags, fd, o);
    around = __real_mmap(NULL, whole_pages(n) + 2 * GUARD, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (around == MAP_FAILED)
        return MAP_FAILED;
    base = __real_mmap(around + GUARD, n, prot, flags | MAP_FIXED, fd, o);
    if (base == MAP_FAILED) {
        int cause = errno;

        __real_munmap(around, whole_pages(n) + 2 * GUARD);
        errno = cause;
        return MAP_FAILED;
    }
    guarded[i] = base;
    return base;
}

int
__wrap_munmap(void *at, size_t n)
{
    unsigned i;

    for (i = 0; i < GUARDED_MAX; i++)
        if (guarded[i] == at) {
            guarded[i] = NULL;
            return __real_munmap((char *)at - GUARD,
                                 whole_pages(n) + 2 * GUARD);
        }
    return __real_munmap(at, n);
}

/* ---- the input ----------------------------------------------------------
 *
 *   byte 0     how it is opened: see enum opening
 *   byte 1     which of the geometries, and whether items are in it
 *   byte 2     n, the number of calls
 *   2n bytes   a call and its argument, each
 *   the rest   replacements: offset (2 bytes, times 1; the low bits of a third
 *              byte say how many) and the bytes
 */

enum opening { AT_PATH, AT_FD, AT_IMAGE, READ_ONLY, WHILE_OPEN, WHILE_USED,
               N_OPENINGS };

struct input {
    const uint8_t *at;
    size_t left;
};

static unsigned
next_byte(struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->at++;
}

static void
replace(struct input in, uint8_t *image, size_t bytes)
{
    while (in.left >= 4) {
        size_t at = next_byte(&in);
        size_t n;

        at |= next_byte(&in) << 8;
        n = 1 + next_byte(&in) % 64;
        while (n-- > 0 && in.left > 0) {
            if (at < bytes)
                image[at] = (uint8_t)next_byte(&in);
            at++;
        }
    }
}

static const struct {
    uint64_t capacity;
    double rate;
} geometries[] = {
    { 5, 0.3 }, { 10, 0.01 }, { 4, 1e-9 }, { 10000, 0.01 },
};

/* ---- calls -------------------------------------------------------------- */

/* Nobody else has it: what has been said must be so. */
static void
expect(int truth, const char *what)
{
    if (!truth)
        wrong(what);
}

static size_t
item_of(unsigned arg, char text[16])
{
    return (size_t)snprintf(text, 16, "i%u", arg % 8);
}

static unsigned
batch_of(unsigned arg, struct cbf_hash h[8])
{
    char text[16];
    unsigned n = arg % 9;
    unsigned i;

    for (i = 0; i < n; i++) {
        size_t len = item_of(arg / 9 + i, text);

        h[i] = cbf_hash_item(text, len);
    }
    return n;
}

static void
call_single(struct cbf *f, unsigned what, unsigned arg)
{
    char text[16];
    size_t len = item_of(arg, text);
    struct cbf_error e;
    int changed;
    int code;

    if (what == 0)
        code = cbf_add(f, text, len, &changed, &e);
    else if (what == 1)
        code = cbf_remove(f, text, len, &changed, &e);
    else
        code = cbf_add_if_absent(f, text, len, &changed, &e);
    if (code == CBF_OK && what != 1)
        expect(cbf_contains(f, text, len), "added, and not there");
    expect(cbf_count_of(f, text, len) <= 15, "more than 15");
}

static void
call_batch(struct cbf *f, unsigned what, unsigned arg)
{
    struct cbf_hash h[8];
    uint8_t each[8];
    unsigned n = batch_of(arg, h);
    struct cbf_error e;
    size_t changed = 0;
    int code;

    if (what == 3)
        code = cbf_add_many(f, h, n, &changed, &e);
    else if (what == 4)
        code = cbf_remove_many(f, h, n, &changed, &e);
    else
        code = cbf_add_if_absent_many(f, h, n, each, &changed, &e);
    expect(changed <= n, "more than there are");
    if (code == CBF_OK && what != 4)
        expect(cbf_contains_many(f, h, n, each) == n, "not all there");
    expect(cbf_count_of_many(f, h, n, each) <= n, "counted too many");
}

static void
call_table(struct cbf *f, struct cbf *other, unsigned what)
{
    const struct cbf_geometry *g = cbf_geometry_of(f);
    struct cbf_error e;
    struct cbf_stats s;
    uint64_t n[16];
    uint64_t all = 0;
    unsigned i;
    int result;

    if (what == 6 && cbf_clear(f, &e) == CBF_OK) {
        expect(cbf_histogram(f, n, &e) != CBF_OK || n[0] == g->n_counters,
               "cleared, and not empty");
        expect(cbf_stats(f, &s, &e) != CBF_OK || s.sum == 0,
               "cleared, and the totals don't say so");
    } else if (what == 7) {
        cbf_merge(f, f, &e);
    } else if (what == 8) {
        cbf_merge(f, other, &e);
        cbf_merge(other, f, &e);
    } else if (what == 9 && cbf_histogram(f, n, &e) == CBF_OK) {
        for (i = 0; i < 16; i++)
            all += n[i];
        expect(all == g->n_counters, "the histogram is not of all");
    } else if (what == 10) {
        cbf_stats(f, &s, &e);
        cbf_verify(f, &result, &e);
        cbf_sync(f, &e);
    }
}

static void
call_image(struct cbf *f, unsigned what)
{
    size_t bytes = (size_t)cbf_geometry_of(f)->file_bytes;
    void *image = malloc(bytes);
    struct cbf *copy;
    struct cbf_error e;
    int result = 0;
    int mine = 0;

    if (what == 11 && image && cbf_image_write(f, image, &e) == CBF_OK) {
        expect(cbf_open_image(image, bytes, &copy, &e) == CBF_OK,
               "its own image is refused");
        expect(memcmp(copy->counters, f->counters,
                      f->table.counter_bytes) == 0, "another image");
        cbf_unref(copy);
    }
    if (what == 12 && cbf_save(f, temp, 0600, &e) == CBF_OK) {
        expect(cbf_open_readonly(temp, &copy, &e) == CBF_OK,
               "what it saved is refused");
        /* a copy of what is damaged must not pass for whole */
        expect(cbf_verify(f, &mine, &e) == CBF_OK
                   && cbf_verify(copy, &result, &e) == CBF_OK
                   && result == (mine != 0),
               "what it saved is not whole");
        cbf_unref(copy);
        unlink(temp);
    }
    if (what == 13 && cbf_freeze(f, &e) == CBF_OK)
        expect(cbf_frozen(f) && cbf_verify(f, &result, &e) == CBF_OK
                   && result == 1, "frozen, and not whole");
    free(image);
}

static void
make_calls(struct cbf *f, struct cbf *other, struct input in, unsigned n)
{
    struct timespec before;
    struct timespec after;

    while (n-- > 0 && in.left > 0) {
        unsigned what = next_byte(&in) % 14;
        unsigned arg = next_byte(&in);

        clock_gettime(CLOCK_MONOTONIC, &before);
        if (what < 3)
            call_single(f, what, arg);
        else if (what < 6)
            call_batch(f, what, arg);
        else if (what < 11)
            call_table(f, other, what);
        else
            call_image(f, what);
        clock_gettime(CLOCK_MONOTONIC, &after);
        expect((uint64_t)(after.tv_sec - before.tv_sec) * 1000000000u
                       + (uint64_t)after.tv_nsec - (uint64_t)before.tv_nsec
                   < LONGEST_NS, "a call takes too long");
    }
}

/* ---- opening ------------------------------------------------------------ */

static void
write_file(const char *name, const uint8_t *image, size_t bytes)
{
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, image, bytes) != (ssize_t)bytes)
        wrong("the file can't be written");
    close(fd);
}

static void
expect_unchanged(const char *name, const uint8_t *image, size_t bytes)
{
    uint8_t *found = malloc(bytes + 1);
    int fd = open(name, O_RDONLY | O_CLOEXEC);

    if (!found || fd < 0
        || read(fd, found, bytes + 1) != (ssize_t)bytes
        || memcmp(found, image, bytes) != 0)
        wrong("a file that was refused has changed");
    close(fd);
    free(found);
}

static int
open_memfd_of(const uint8_t *image, size_t bytes, struct cbf **f)
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    struct cbf_error e;
    int code;

    if (fd < 0 || write(fd, image, bytes) != (ssize_t)bytes)
        wrong("no memfd");
    code = cbf_open_fd(fd, f, &e);
    close(fd);
    return code;
}

static int
open_as(enum opening how, const uint8_t *image, size_t bytes,
        const struct cbf_geometry *plan, struct cbf **f)
{
    struct cbf_error e;
    int code;

    switch (how) {
    case AT_FD:
        return open_memfd_of(image, bytes, f);
    case AT_IMAGE:
        return cbf_open_image(image, bytes, f, &e);
    default:
        write_file(path, image, bytes);
        code = how == READ_ONLY ? cbf_open_readonly(path, f, &e)
                                : cbf_open_path(path, plan, 0600, f, &e);
        if (code != CBF_OK)
            expect_unchanged(path, image, bytes);
        return code;
    }
}

static void
use_it(enum opening how, struct cbf *f, struct cbf *other, struct input in,
       unsigned calls)
{
    struct input rest = in;
    struct cbf_stats s;
    struct cbf_error e;
    size_t bytes = f->store.map_bytes;

    rest.at += 2 * calls < in.left ? 2 * calls : in.left;
    rest.left -= 2 * calls < in.left ? 2 * calls : in.left;
    if (how == WHILE_USED) {
        /* it has a slot by then, and the totals are in order */
        cbf_stats(f, &s, &e);
        make_calls(f, other, in, calls / 2);
    }
    if (how >= WHILE_OPEN)
        replace(rest, f->store.base, bytes);
    make_calls(f, other, in, calls);
    cbf_unref(f);
}

static void
set_up(void)
{
    const char *dir = getenv("TMPDIR");

    if (path[0])
        return;
    snprintf(path, sizeof path, "%s/cbf-fuzz-%ld", dir ? dir : P_tmpdir,
             (long)getpid());
    snprintf(temp, sizeof temp, "%s.saved", path);
    cbf_watch_signals(&no_signal);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "file", "descriptor", "image",
                                         "read-only", "while open",
                                         "while used" };
    struct input in = { data, size };
    enum opening how = next_byte(&in) % N_OPENINGS;
    unsigned which = next_byte(&in);
    unsigned calls = next_byte(&in) % 32;
    struct input rest = in;
    struct cbf_geometry plan;
    struct cbf_error e;
    struct cbf *f = NULL;
    struct cbf *other = NULL;
    uint8_t *image;
    size_t bytes;

    set_up();
    now_doing = names[how];
    cbf_geometry_plan(geometries[which % 4].capacity,
                      geometries[which % 4].rate, &plan);
    bytes = (size_t)plan.file_bytes;
    image = malloc(bytes);
    if (!image || cbf_open_anonymous(&plan, &other, &e) != CBF_OK)
        wrong("no memory");
    if (which & 4)
        call_batch(other, 3, 71);
    if (which & 8)
        cbf_merge(other, other, &e);
    cbf_image_write(other, image, &e);
    image[offsetof(struct cbf_fmt_header, seal)] = how == READ_ONLY;
    rest.at += 2 * calls < in.left ? 2 * calls : in.left;
    rest.left -= 2 * calls < in.left ? 2 * calls : in.left;
    if (how < WHILE_OPEN)
        replace(rest, image, bytes);
    if (open_as(how, image, bytes, &plan, &f) == CBF_OK)
        use_it(how, f, other, in, calls);
    cbf_unref(other);
    free(image);
    unlink(path);
    return 0;
}

#ifdef FUZZ_REPLAY
#include "fuzz_replay.h"
#endif
