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

static double
now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
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
 * while those of the item `ahead` items further on are on their way.
 */
static double
floor_pass(const struct cbf *f, const struct cbf_hash *items, size_t n,
           size_t ahead, int write)
{
    uint8_t *table = f->table.counters;
    uint64_t sum = 0;
    double start = now_ns();
    size_t i;
    uint32_t p;

    for (i = 0; i < n; i++) {
        if (i + ahead < n)
            for (p = 0; p < f->probe.n_probes; p++)
                __builtin_prefetch(table
                    + (cbf_probe_position(&f->probe, items[i + ahead], p)
                       >> 1), 1);
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

/* The best of several distances: a floor that is not tuned is no floor. */
static double
floor_ns(const struct cbf *f, const struct cbf_hash *items, size_t n,
         int write)
{
    static const size_t aheads[] = { 4, 8, 12, 16, 24 };
    double best = 0;
    size_t i;

    for (i = 0; i < sizeof aheads / sizeof aheads[0]; i++) {
        double ns = floor_pass(f, items, n, aheads[i], write);

        if (best == 0 || ns < best)
            best = ns;
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

static double
plain_sum(const uint8_t *table, size_t bytes)
{
    const uint64_t *words = (const uint64_t *)(const void *)table;
    uint64_t sum = 0;
    double start = now_ns();
    size_t i;

    for (i = 0; i < bytes / 8; i++)
        sum += words[i];
    sink = sum;
    return (now_ns() - start) / (double)bytes;
}

static double
plain_or(uint8_t *into, const uint8_t *from, size_t bytes)
{
    uint64_t *a = (uint64_t *)(void *)into;
    const uint64_t *b = (const uint64_t *)(const void *)from;
    double start = now_ns();
    size_t i;

    for (i = 0; i < bytes / 8; i++)
        a[i] |= b[i];
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

static void
merge_filters(struct cbf *into, struct cbf *from)
{
    double start = now_ns();

    must_work(cbf_merge(into, from, NULL));
    say("merge_filters",
        (now_ns() - start) / (double)from->table.counter_bytes);
    start = now_ns();
    must_work(cbf_clear(into, NULL));
    say("clear", (now_ns() - start) / (double)from->table.counter_bytes);
}

int
main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 1;
    size_t n = argc > 2 ? (size_t)atol(argv[2]) : 100000;
    struct cbf_geometry g;
    struct cbf *f;
    struct cbf *other;
    struct cbf_hash *in;
    struct cbf_hash *out;
    uint8_t *a;
    uint8_t *b;
    size_t changed;

    must_work(cbf_geometry_plan(CAPACITY, RATE, &g));
    must_work(cbf_open_anonymous(&g, &f, NULL));
    must_work(cbf_open_anonymous(&g, &other, NULL));
    in = random_items(4 * n, 1);
    out = random_items(n, 2);
    must_work(cbf_add_many(f, in, 4 * n, &changed, NULL));
    a = copy_of(f);
    b = copy_of(f);
    while (rounds-- > 0) {
        batches(f, in, out, n);
        whole_tables(a, b, f->table.counter_bytes);
        merge_filters(other, f);
        fflush(stdout);
    }
    cbf_unref(f);
    cbf_unref(other);
    free(in);
    free(out);
    free(a);
    free(b);
    return 0;
}
