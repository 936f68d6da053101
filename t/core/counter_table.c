/* variant: -DCBF_COUNTER_PORTABLE */
/*
 * counter_table.c - totals, histogram, merge and clear of whole tables,
 * against a plain array with one byte a counter.
 *
 * Every kind of contents at every odd size, what must not be written, and what
 * a reader sees meanwhile.  The second build leaves out the loops for newer
 * processors.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "counter_help.h"
#include <pthread.h>
#include <sys/mman.h>

#define LARGEST ((size_t)1 << 16)

enum contents {
    ALL_ZERO,
    ALL_FULL,
    RANDOM,
    SPARSE,      /* one in 200 is not 0 */
    NEARLY_FULL, /* one in 200 is not 15 */
    LAST_ONLY,
    FIRST_ONLY,
    STRIPES,     /* zero and random stretches of 128 bytes */
    ASCENDING,
    N_CONTENTS
};

static uint8_t
value_for(enum contents kind, size_t i, size_t n)
{
    uint64_t r = random_u64();
    uint8_t random = (uint8_t)(r % 16);

    switch (kind) {
    case ALL_FULL:
        return 15;
    case RANDOM:
        return random;
    case SPARSE:
        return (r >> 8) % 200 == 0 ? random : 0;
    case NEARLY_FULL:
        return (r >> 8) % 200 == 0 ? random : 15;
    case LAST_ONLY:
        return i == n - 1 ? 15 : 0;
    case FIRST_ONLY:
        return i == 0 ? 1 : 0;
    case STRIPES:
        return i / 256 % 2 ? random : 0;
    case ASCENDING:
        return (uint8_t)(i % 16);
    default:
        return 0;
    }
}

static void
scene_fill(struct scene *s, enum contents kind)
{
    size_t n = s->bytes * 2;
    size_t i;

    for (i = 0; i < n; i++)
        s->model[i] = value_for(kind, i, n);
    scene_write(s);
}

static size_t
check_counts(const struct scene *s)
{
    struct cbf_tally t = {.sum = 99};
    struct cbf_tally want;
    uint64_t n[16] = {99, 99};
    uint64_t want_n[16];

    count_model(s, &want, want_n);
    cbf_counter_tally(s->table, s->bytes, &t);
    cbf_counter_histogram(s->table, s->bytes, n);
    return !same_tally(&t, &want) + !!memcmp(n, want_n, sizeof n)
           + !scene_right(s);
}

static void
model_merge(struct scene *into, const uint8_t *from)
{
    size_t i;

    for (i = 0; i < into->bytes * 2; i++) {
        unsigned sum = (unsigned)into->model[i] + from[i];

        into->model[i] = (uint8_t)(sum > 15 ? 15 : sum);
    }
}

/* Merges each kind into s, which holds kind a. */
static size_t
check_merges(struct scene *s, enum contents a)
{
    struct scene from = scene_new(s->bytes);
    uint8_t *copy = allocate(s->bytes + 8);
    size_t wrong = 0;
    int b;

    for (b = 0; b < N_CONTENTS; b++) {
        scene_fill(s, a);
        scene_fill(&from, (enum contents)b);
        cbf_counter_merge(s->table, from.table, s->bytes);
        model_merge(s, from.model);
        wrong += !scene_right(s) + !scene_right(&from);
        /* Once more, from a private copy that is aligned to words only. */
        memcpy(copy + 8, from.table, s->bytes);
        cbf_counter_merge(s->table, copy + 8, s->bytes);
        model_merge(s, from.model);
        wrong += !scene_right(s);
    }
    free(copy);
    scene_free(&from);
    return wrong;
}

static void
test_tables_of(size_t bytes, size_t wrong[4])
{
    struct scene s = scene_new(bytes);
    int a;

    for (a = 0; a < N_CONTENTS; a++) {
        scene_fill(&s, (enum contents)a);
        wrong[0] += check_counts(&s);
        cbf_counter_merge(s.table, s.table, bytes);
        model_merge(&s, s.model);
        wrong[2] += !scene_right(&s);
        if (bytes <= 1024)
            wrong[1] += check_merges(&s, (enum contents)a);
        scene_fill(&s, (enum contents)a);
        cbf_counter_clear(s.table, bytes);
        memset(s.model, 0, bytes * 2);
        wrong[3] += !scene_right(&s);
    }
    scene_free(&s);
}

/* Sizes around all that the loops take at once: blocks, runs, slices. */
static void
test_tables(void)
{
    static const size_t more[] = {
        1920, 1952, 3808, 3840, 3872, 7648, 7680, 7712, 15840, 15872, 15904,
        31712, 31744, 31776, 32768, LARGEST - 32, LARGEST,
    };
    size_t wrong[4] = {0, 0, 0, 0};
    size_t bytes;
    size_t i;

    for (bytes = 32; bytes <= 1312; bytes += 32)
        test_tables_of(bytes, wrong);
    for (i = 0; i < sizeof more / sizeof more[0]; i++)
        test_tables_of(more[i], wrong);
    is_u64(wrong[0], 0, "tally and histogram of every kind at every size");
    is_u64(wrong[1], 0, "merge of every kind into every kind");
    is_u64(wrong[2], 0, "merge with itself: every counter doubles");
    is_u64(wrong[3], 0, "clear");
}

/* One table of a single value each, so that sums reach their highest. */
static void
test_uniform(void)
{
    struct scene s = scene_new(LARGEST);
    size_t wrong = 0;
    int value;

    for (value = 0; value < 16; value++) {
        memset(s.model, value, LARGEST * 2);
        scene_write(&s);
        wrong += check_counts(&s);
    }
    is_u64(wrong, 0, "tables of one value");
    scene_free(&s);
}

/* All pairs of values in both halves, beside neighbours of every value. */
static void
test_every_sum(void)
{
    struct scene into = scene_new(LARGEST);
    struct scene from = scene_new(LARGEST);
    size_t i;

    for (i = 0; i < LARGEST * 2; i += 2) {
        size_t pair = i / 2;

        into.model[i] = (uint8_t)(pair % 16);
        from.model[i] = (uint8_t)(pair / 16 % 16);
        into.model[i + 1] = (uint8_t)(pair / 256 % 16);
        from.model[i + 1] = (uint8_t)(pair / 4096 % 16);
    }
    scene_write(&into);
    scene_write(&from);
    cbf_counter_merge(into.table, from.table, LARGEST);
    model_merge(&into, from.model);
    ok(scene_right(&into), "every sum beside every sum");
    scene_free(&into);
    scene_free(&from);
}

static void
test_nothing(void)
{
    struct scene s = scene_new(64);
    struct cbf_tally t = {.sum = 9};
    uint64_t n[16] = {9};

    scene_fill(&s, RANDOM);
    cbf_counter_tally(s.table, 0, &t);
    cbf_counter_histogram(s.table, 0, n);
    cbf_counter_merge(s.table, s.table + 32, 0);
    cbf_counter_clear(s.table, 0);
    ok(t.sum == 0 && t.nonzero == 0 && t.saturated == 0 && n[0] == 0,
       "the counts of no bytes");
    ok(scene_right(&s), "no bytes change nothing");
    scene_free(&s);
}

/* ---- what is not written ---------------------------------------------- */

#define PAGES 5
#define PAGE_OFFSET 384 /* of the counters of a file from their page's start */

static void
protect(uint8_t *map, size_t page, size_t n_pages, int prot)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);

    if (mprotect(map + page * size, n_pages * size, prot) != 0)
        bail("mprotect");
}

/* Only the page in the middle may be written; a store elsewhere would end the
 * program. */
static void
test_clean_pages(void)
{
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = PAGES * size - PAGE_OFFSET;
    uint8_t *map = mmap(NULL, PAGES * size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *from = allocate(bytes);
    uint8_t *middle = map + 2 * size;

    if (map == MAP_FAILED)
        bail("mmap");
    memset(from, 0, bytes);
    memset(from + 2 * size - PAGE_OFFSET, 0x11, size);
    protect(map, 0, PAGES, PROT_READ);
    protect(map, 2, 1, PROT_READ | PROT_WRITE);
    cbf_counter_merge(map + PAGE_OFFSET, from, bytes);
    ok(middle[0] == 0x11 && middle[size - 1] == 0x11,
       "merge writes only where something is added");

    protect(map, 0, PAGES, PROT_READ | PROT_WRITE);
    memset(map, 0xff, PAGES * size);
    middle[size / 2] = 0xf1;
    protect(map, 0, PAGES, PROT_READ);
    protect(map, 2, 1, PROT_READ | PROT_WRITE);
    memset(from, 0x77, bytes);
    cbf_counter_merge(map + PAGE_OFFSET, from, bytes);
    ok(middle[size / 2] == 0xf8, "merge does not write what is full");

    protect(map, 0, PAGES, PROT_READ | PROT_WRITE);
    memset(map, 0, PAGES * size);
    middle[0] = 0x80;
    middle[size - 1] = 0x01;
    protect(map, 0, PAGES, PROT_READ);
    protect(map, 2, 1, PROT_READ | PROT_WRITE);
    cbf_counter_clear(map + PAGE_OFFSET, bytes);
    ok(middle[0] == 0 && middle[size - 1] == 0,
       "clear writes only what is not 0");
    munmap(map, PAGES * size);
    free(from);
}

/* ---- readers meanwhile ------------------------------------------------ */

/* What one reader sees of counters that go from `before` to `after`. */
struct reader {
    pthread_t thread;
    struct scene *s;
    unsigned before;
    unsigned after;
    uint32_t ready;
    uint32_t stop;
    uint64_t wrong;
};

static void *
read_on(void *arg)
{
    struct reader *r = arg;
    uint64_t n = r->s->bytes * 2;
    uint64_t i = 0;

    cbf_store32(&r->ready, 1);
    while (!cbf_load32(&r->stop)) {
        unsigned value = cbf_counter_get(r->s->table, i);

        r->wrong += value != r->before && value != r->after;
        i = (i + 4099) % n;
    }
    return NULL;
}

static void
reader_start(struct reader *r)
{
    r->ready = 0;
    r->stop = 0;
    if (pthread_create(&r->thread, NULL, read_on, r) != 0)
        bail("pthread_create");
    while (!cbf_load32(&r->ready))
        cbf_spin_pause();
}

static void
reader_stop(struct reader *r)
{
    cbf_store32(&r->stop, 1);
    pthread_join(r->thread, NULL);
}

/* A reader without a lock sees each counter before or after, never between:
 * 5 and 9 have no bits in common with what a careless sum passes through. */
static void
test_reader(void)
{
    struct scene s = scene_new(LARGEST);
    struct scene from = scene_new(LARGEST);
    struct reader r = {.s = &s};
    int round;

    memset(from.model, 9, LARGEST * 2);
    scene_write(&from);
    for (round = 0; round < 50; round++) {
        memset(s.model, 5, LARGEST * 2);
        scene_write(&s);
        r.before = 5;
        r.after = 14;
        reader_start(&r);
        cbf_counter_merge(s.table, from.table, LARGEST);
        reader_stop(&r);
        r.before = 14;
        r.after = 0;
        reader_start(&r);
        cbf_counter_clear(s.table, LARGEST);
        reader_stop(&r);
    }
    is_u64(r.wrong, 0, "a reader sees old or new values only");
    scene_free(&s);
    scene_free(&from);
}

int
main(void)
{
    watchdog(120);
    diag("seed %#" PRIx64, SEED);
    test_tables();
    test_uniform();
    test_every_sum();
    test_nothing();
    test_clean_pages();
    test_reader();
    return done_testing();
}
