/* variant: -DCBF_COUNTER_PORTABLE */
/*
 * counter.c - four-bit counters against a plain array with one byte a counter.
 *
 * Every byte value for single counters, random ones for packed values; for
 * whole tables every kind of contents at every odd size, what must not be
 * written, and what a reader sees meanwhile.  The second build leaves out the
 * loops for newer processors.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "counter.h"
#include "tap.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#define SEED ((uint64_t)0x5eed2024)
#define GUARD 64
#define LARGEST ((size_t)1 << 16)

/* A table between two guards, and the array that says what it should hold. */
struct scene {
    uint8_t *room;
    uint8_t *table;
    uint8_t *model;
    size_t bytes;
};

static uint64_t random_state = SEED;

/* SplitMix64. */
static uint64_t
random_u64(void)
{
    uint64_t z;

    random_state += 0x9e3779b97f4a7c15;
    z = random_state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static void *
allocate(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

    if (!p)
        bail("no memory");
    return p;
}

static struct scene
scene_new(size_t bytes)
{
    struct scene s = {.bytes = bytes};

    s.room = allocate(bytes + 2 * GUARD);
    s.table = s.room + GUARD;
    s.model = allocate(bytes * 2);
    memset(s.room, 0xa5, bytes + 2 * GUARD);
    return s;
}

static void
scene_free(struct scene *s)
{
    free(s->room);
    free(s->model);
}

static void
scene_write(struct scene *s)
{
    size_t i;

    for (i = 0; i < s->bytes; i++)
        s->table[i] = (uint8_t)(s->model[2 * i] + s->model[2 * i + 1] * 16);
}

/* 1 if the table is what the model says, and the guards are untouched. */
static int
scene_right(const struct scene *s)
{
    size_t i;

    for (i = 0; i < s->bytes; i++) {
        if (s->table[i] % 16 != s->model[2 * i]
            || s->table[i] / 16 != s->model[2 * i + 1])
            return 0;
    }
    for (i = 0; i < GUARD; i++) {
        if (s->room[i] != 0xa5 || s->table[s->bytes + i] != 0xa5)
            return 0;
    }
    return 1;
}

/* Counts the model, one counter after the other. */
static void
count_model(const struct scene *s, struct cbf_tally *t, uint64_t n[16])
{
    size_t i;

    memset(n, 0, 16 * sizeof n[0]);
    for (i = 0; i < s->bytes * 2; i++)
        n[s->model[i]]++;
    *t = (struct cbf_tally){
        .nonzero = s->bytes * 2 - n[0],
        .saturated = n[15],
    };
    for (i = 0; i < 16; i++)
        t->sum += n[i] * i;
}

static int
same_tally(const struct cbf_tally *a, const struct cbf_tally *b)
{
    return a->nonzero == b->nonzero && a->saturated == b->saturated
           && a->sum == b->sum;
}

/* ---- point functions -------------------------------------------------- */

/* The value and its neighbour, of every byte. */
static void
test_every_byte(void)
{
    size_t wrong[2] = {0, 0};
    unsigned byte;
    unsigned half;
    unsigned value;

    for (byte = 0; byte < 256; byte++) {
        for (half = 0; half < 2; half++) {
            unsigned v = half ? byte / 16 : byte % 16;
            unsigned unit = half ? 16 : 1;
            uint8_t table[3] = {0x5a, (uint8_t)byte, 0x5a};

            wrong[0] += cbf_counter_get(table, 2 + half) != v;
            for (value = 0; value < 16; value++) {
                table[1] = (uint8_t)byte;
                cbf_counter_set(table, 2 + half, value);
                wrong[1] += table[1] != byte - v * unit + value * unit;
            }
            wrong[1] += table[0] != 0x5a || table[2] != 0x5a;
        }
    }
    is_u64(wrong[0], 0, "get, of every byte");
    is_u64(wrong[1], 0, "set, in every byte; the neighbours stay");
}

/* Place i of a packed word. */
static unsigned
place(uint64_t packed, uint32_t i)
{
    while (i-- > 0)
        packed /= 16;
    return (unsigned)(packed % 16);
}

/* Flags and their number, for random words in which every value is common. */
static void
test_packed_questions(void)
{
    size_t wrong[3] = {0, 0, 0};
    int round;
    uint32_t i;
    uint32_t n;

    for (round = 0; round < 20000; round++) {
        uint64_t packed = random_u64() & random_u64();
        uint64_t v = random_u64() % 16;
        uint64_t flags = cbf_packed_equal(packed, v);
        unsigned count = 0;

        for (i = 0; i < CBF_PACKED; i++) {
            wrong[0] += place(flags, i) != (place(packed, i) == v);
            count += place(packed, i) == v;
        }
        wrong[1] += cbf_packed_count(flags) != count;
    }
    for (n = 0; n <= CBF_PACKED; n++) {
        wrong[1] += cbf_packed_count(cbf_packed_first(n)) != n;
        for (i = 0; i < CBF_PACKED; i++)
            wrong[2] += place(cbf_packed_first(n), i) != (i < n);
    }
    is_u64(wrong[0], 0, "where a packed word has a value");
    is_u64(wrong[1], 0, "how many flags are set");
    is_u64(wrong[2], 0, "flags for the first places");
}

/* n different positions below range. */
static void
choose(uint64_t *pos, uint32_t n, uint64_t range)
{
    uint32_t i;
    uint32_t j;

    for (i = 0; i < n; i++) {
        do {
            pos[i] = random_u64() % range;
            for (j = 0; j < i && pos[j] != pos[i]; j++)
                continue;
        } while (j < i);
    }
}

/* Reads up to 16 counters, and steps those of them that are not at the end of
 * their range, up or down; the same on the model.  Returns what is wrong. */
static size_t
change(struct scene *s, uint64_t range)
{
    uint64_t pos[CBF_PACKED];
    uint32_t n = (uint32_t)(random_u64() % (CBF_PACKED + 1));
    int up = random_u64() % 16 < 9;
    uint64_t flags = 0;
    uint64_t packed;
    size_t wrong = 0;
    uint32_t i;

    choose(pos, n, range);
    packed = cbf_packed_get(s->table, pos, n);
    for (i = 0; i < CBF_PACKED; i++)
        wrong += place(packed, i) != (i < n ? s->model[pos[i]] : 0);
    for (i = 0; i < n; i++) {
        uint8_t *m = s->model + pos[i];

        if (*m == (up ? 15 : 0) || random_u64() % 8 == 0)
            continue;
        flags += (uint64_t)1 << 4 * i;
        *m = (uint8_t)(up ? *m + 1 : *m - 1);
    }
    cbf_packed_step(s->table, pos, n, flags, up);
    return wrong;
}

/* Random changes; a small range hits the same counters, and both halves of a
 * byte, again and again, up to 15 and down to 0. */
static void
test_random_changes(size_t bytes, uint64_t range)
{
    struct scene s = scene_new(bytes);
    size_t wrong = 0;
    int round;
    int i;

    memset(s.model, 0, bytes * 2);
    scene_write(&s);
    for (round = 0; round < 100; round++) {
        struct cbf_tally recount;
        struct cbf_tally want;
        uint64_t n[16];

        for (i = 0; i < 50; i++)
            wrong += change(&s, range);
        count_model(&s, &want, n);
        cbf_counter_tally(s.table, bytes, &recount);
        wrong += !scene_right(&s);
        wrong += !same_tally(&recount, &want);
    }
    is_u64(wrong, 0, "random changes: %zu bytes, %" PRIu64 " counters hit",
           bytes, range);
    scene_free(&s);
}

/* ---- whole tables ----------------------------------------------------- */

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
    test_every_byte();
    test_packed_questions();
    test_random_changes(32, 64);
    test_random_changes(32, 17);
    test_random_changes(96, 192);
    test_random_changes(1056, 2112);
    test_random_changes(4096, 100);
    test_tables();
    test_uniform();
    test_every_sum();
    test_nothing();
    test_clean_pages();
    test_reader();
    return done_testing();
}
