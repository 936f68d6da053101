/*
 * core.c - the C core against the memory's speed, on a table of 128 MiB.
 *
 * Prints one line a measurement and round: name, nanoseconds an item (batches)
 * or a byte of one table (whole-table work).  bench/core.pl builds it, runs it
 * and makes the medians.  Looks behind cbf.h at the table itself, because the
 * floor must be measured on the very same memory.  Not a test.
 *
 *   core ROUNDS ITEMS
 */
#include "counter.h"
#include "handle.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CAPACITY ((uint64_t)20000000)
#define RATE 0.01

/* Keeps the compiler from dropping what only reads. */
static volatile uint64_t sink;

/* Processor time, so that other programs on the machine disturb less. */
static double
now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *
must(void *p)
{
    if (!p) {
        fputs("no memory\n", stderr);
        exit(1);
    }
    return p;
}

static void
must_work(int code)
{
    if (code != CBF_OK) {
        fprintf(stderr, "failed: %s\n", cbf_error_text(code));
        exit(1);
    }
}

/* Items are hashes already: nothing but the probing is measured. */
static struct cbf_hash *
random_items(size_t n, uint64_t seed)
{
    struct cbf_hash *items = must(malloc(n * sizeof *items));
    size_t i;

    for (i = 0; i < n; i++) {
        uint64_t pair[2] = { seed, i };

        items[i] = cbf_hash_item(pair, sizeof pair);
    }
    return items;
}

/*
 * The floor: reads (and for adds writes, unchanged) a byte for each probe,
 * while those of the item `ahead` items further on are on their way, to the
 * first cache or (far) the second.
 */
static inline __attribute__((always_inline)) double
floor_pass(const struct cbf *f, const struct cbf_hash *items, size_t n,
           size_t ahead, int far, int write)
{
    uint8_t *table = f->table.counters;
    uint64_t sum = 0;
    double start = now_ns();
    size_t i;
    uint32_t p;

    for (i = 0; i < n; i++) {
        if (i + ahead < n)
            for (p = 0; p < f->probe.n_probes; p++) {
                uint64_t at = cbf_probe_position(&f->probe, items[i + ahead],
                                                 p) >> 1;

                if (far)
                    __builtin_prefetch(table + at, 0, 2);
                else
                    __builtin_prefetch(table + at, 0, 3);
            }
        for (p = 0; p < f->probe.n_probes; p++) {
            uint64_t at = cbf_probe_position(&f->probe, items[i], p) >> 1;
            uint8_t byte = cbf_load8(table + at);

            sum += byte;
            if (write)
                cbf_store8(table + at, byte);
        }
    }
    sink = sum;
    return (now_ns() - start) / (double)n;
}

/* The best of several ways: a floor that is not tuned is no floor. */
static double
floor_ns(const struct cbf *f, const struct cbf_hash *items, size_t n,
         int write)
{
    static const size_t aheads[] = { 4, 8, 12, 16, 24 };
    double best = 0;
    size_t i;

    for (i = 0; i < sizeof aheads / sizeof aheads[0]; i++) {
        double near = floor_pass(f, items, n, aheads[i], 0, write);
        double far = floor_pass(f, items, n, aheads[i], 1, write);

        if (best == 0 || near < best)
            best = near;
        if (far < best)
            best = far;
    }
    return best;
}

static void
say(const char *name, double ns)
{
    printf("%s %.6f\n", name, ns);
}

static void
batches(struct cbf *f, const struct cbf_hash *in, const struct cbf_hash *out,
        size_t n)
{
    double start;
    size_t changed;

    say("floor", floor_ns(f, in, n, 0));
    start = now_ns();
    sink = cbf_contains_many(f, in, n, NULL);
    say("contains_hit", (now_ns() - start) / (double)n);
    start = now_ns();
    sink = cbf_contains_many(f, out, n, NULL);
    say("contains_miss", (now_ns() - start) / (double)n);
    start = now_ns();
    sink = cbf_count_of_many(f, in, n, NULL);
    say("count_of", (now_ns() - start) / (double)n);

    say("floor_write", floor_ns(f, out, n, 1));
    start = now_ns();
    must_work(cbf_add_many(f, out, n, &changed, NULL));
    say("add", (now_ns() - start) / (double)n);
    start = now_ns();
    must_work(cbf_remove_many(f, out, n, &changed, NULL));
    say("remove", (now_ns() - start) / (double)n);
}

/*
 * The plainest loops over whole tables.  Vectors are spelled out, for gcc 12
 * does not vectorise these at -O2; where the processor has AVX2 the core uses
 * it, so the floor may too.
 */
typedef uint64_t vector __attribute__((vector_size(32), may_alias));

#if defined(__x86_64__)
#define WIDE_TOO __attribute__((target("avx2")))
#define IS_WIDE() __builtin_cpu_supports("avx2")
#else
#define WIDE_TOO
#define IS_WIDE() 0
#endif

static inline __attribute__((always_inline)) uint64_t
sum_loop(const uint8_t *table, size_t bytes)
{
    const vector *v = (const vector *)(const void *)table;
    vector sum[4] = { { 0 } };
    size_t i;

    for (i = 0; i + 4 <= bytes / sizeof *v; i += 4) {
        sum[0] += v[i];
        sum[1] += v[i + 1];
        sum[2] += v[i + 2];
        sum[3] += v[i + 3];
    }
    sum[0] += sum[1] + sum[2] + sum[3];
    return sum[0][0] + sum[0][1] + sum[0][2] + sum[0][3];
}

static inline __attribute__((always_inline)) void
or_loop(uint8_t *into, const uint8_t *from, size_t bytes)
{
    vector *a = (vector *)(void *)into;
    const vector *b = (const vector *)(const void *)from;
    size_t i;

    for (i = 0; i < bytes / sizeof *a; i++)
        a[i] |= b[i];
}

static WIDE_TOO uint64_t
sum_wide(const uint8_t *table, size_t bytes)
{
    return sum_loop(table, bytes);
}

static WIDE_TOO void
or_wide(uint8_t *into, const uint8_t *from, size_t bytes)
{
    or_loop(into, from, bytes);
}

static double
plain_sum(const uint8_t *table, size_t bytes)
{
    double start = now_ns();

    sink = IS_WIDE() ? sum_wide(table, bytes) : sum_loop(table, bytes);
    return (now_ns() - start) / (double)bytes;
}

static double
plain_or(uint8_t *into, const uint8_t *from, size_t bytes)
{
    double start = now_ns();

    if (IS_WIDE())
        or_wide(into, from, bytes);
    else
        or_loop(into, from, bytes);
    return (now_ns() - start) / (double)bytes;
}

/* Whole tables, on copies outside any filter. */
static void
whole_tables(uint8_t *a, const uint8_t *b, size_t bytes)
{
    struct cbf_tally tally;
    uint64_t n[CBF_COUNTER_MAX + 1] = { 0 };
    double start;

    say("floor_sum", plain_sum(b, bytes));
    start = now_ns();
    cbf_counter_tally(b, bytes, &tally);
    say("tally", (now_ns() - start) / (double)bytes);
    sink = tally.sum;
    start = now_ns();
    cbf_counter_histogram(b, bytes, n);
    say("histogram", (now_ns() - start) / (double)bytes);
    sink = n[1];
    start = now_ns();
    sink = cbf_hash_checksum(b, bytes);
    say("checksum", (now_ns() - start) / (double)bytes);
    say("floor_or", plain_or(a, b, bytes));

    /* back to what it was, for merging the same again saturates counters */
    memcpy(a, b, bytes);
    start = now_ns();
    cbf_counter_merge(a, b, bytes);
    say("merge", (now_ns() - start) / (double)bytes);
}

static uint8_t *
copy_of(const struct cbf *f)
{
    size_t bytes = f->table.counter_bytes;
    uint8_t *copy = must(aligned_alloc(64, bytes));

    memcpy(copy, f->counters, bytes);
    return copy;
}

static double
merge_ns(struct cbf *into, struct cbf *from)
{
    double start = now_ns();

    must_work(cbf_merge(into, from, NULL));
    return (now_ns() - start) / (double)from->table.counter_bytes;
}

/* A source that may change is copied first; a frozen one is not. */
static void
merge_filters(struct cbf *into, struct cbf *from, struct cbf *frozen)
{
    double start;

    say("merge_filters", merge_ns(into, from));
    start = now_ns();
    must_work(cbf_clear(into, NULL));
    say("clear", (now_ns() - start) / (double)from->table.counter_bytes);
    say("merge_frozen", merge_ns(into, frozen));
    must_work(cbf_clear(into, NULL));
}

int
main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 1;
    size_t n = argc > 2 ? (size_t)atol(argv[2]) : 100000;
    struct cbf_geometry g;
    struct cbf *f;
    struct cbf *other;
    struct cbf *frozen;
    struct cbf_hash *in;
    struct cbf_hash *out;
    uint8_t *a;
    uint8_t *b;
    size_t changed;

    must_work(cbf_geometry_plan(CAPACITY, RATE, &g));
    must_work(cbf_open_anonymous(&g, &f, NULL));
    must_work(cbf_open_anonymous(&g, &other, NULL));
    must_work(cbf_open_anonymous(&g, &frozen, NULL));
    in = random_items(4 * n, 1);
    out = random_items(n, 2);
    must_work(cbf_add_many(f, in, 4 * n, &changed, NULL));
    must_work(cbf_merge(frozen, f, NULL));
    must_work(cbf_freeze(frozen, NULL));
    a = copy_of(f);
    b = copy_of(f);
    while (rounds-- > 0) {
        batches(f, in, out, n);
        whole_tables(a, b, f->table.counter_bytes);
        merge_filters(other, f, frozen);
        fflush(stdout);
    }
    cbf_unref(f);
    cbf_unref(other);
    cbf_unref(frozen);
    free(in);
    free(out);
    free(a);
    free(b);
    return 0;
}
