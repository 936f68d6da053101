/*
 * items.c - single items and batches of them.
 *
 * Reads load counters and nothing else: no lock, no store to the mapping.
 * A mutator hashes and prefetches before it locks, and under the lock treats
 * each item as one transaction: journal what was, change, end.  No file, no
 * whole-table work here.
 */
#include "access.h"

/*
 * How many items ahead a batch asks for counters.  Measured with 7 probes and
 * 128 MiB on a Sapphire Rapids Xeon, against a loop that asks for and reads
 * random bytes and does nothing else: at 4 to 16 items ahead reads of what is
 * there took 0.95 to 1.05 times as long as that, at 32 a tenth more and at 64
 * a quarter more; adds were best at 8 (1.25 times).  Asking for the first
 * counter alone at first, 24 ahead, took what is absent from 1.0 to 0.2 times.
 * Asking for lines in the second cache, not the first, took off another tenth;
 * asking around the caches cost a fifth.
 */
#define FIRST_AHEAD 24
#define READ_AHEAD 8
#define WRITE_AHEAD 8
#define TO_SECOND_CACHE 2

/* Reads of a table of so few bytes find it in a near cache: asking only
 * costs. */
#define NEAR_BYTES ((size_t)256 * 1024)

/* One body for several functions, compiled once for each. */
#define HOT static inline __attribute__((always_inline))

/* What changes items, and batches of reads, are compiled twice: for the number
 * of probes that the default rate brings, and for any other. */
#define USUAL_PROBES 7

/* ---- reading ------------------------------------------------------------ */

HOT int
is_present(const struct cbf *f, struct cbf_hash h, uint32_t n_probes)
{
    const uint8_t *counters = f->counters;
    struct cbf_walk w = cbf_walk_begin(&f->probe, h);
    uint32_t i;

#pragma GCC unroll 8
    for (i = 0; i < n_probes; i++)
        if (!cbf_counter_is_set(counters, cbf_walk_next(&w)))
            return 0;
    return 1;
}

static inline unsigned
lowest_counter(const struct cbf *f, struct cbf_hash h)
{
    const uint8_t *counters = f->counters;
    struct cbf_walk w = cbf_walk_begin(&f->probe, h);
    unsigned lowest = CBF_COUNTER_MAX;
    uint32_t left = f->probe.n_probes;
    unsigned value;

    do {
        value = cbf_counter_get(counters, cbf_walk_next(&w));
        if (value < lowest)
            lowest = value;
    } while (--left > 0 && lowest > 0);
    return lowest;
}

int
cbf_contains(const struct cbf *f, const void *item, size_t len)
{
    return is_present(f, cbf_hash_item(item, len), f->probe.n_probes);
}

unsigned
cbf_count_of(const struct cbf *f, const void *item, size_t len)
{
    return lowest_counter(f, cbf_hash_item(item, len));
}

/*
 * The pipeline of reads: an item's first counter is asked for at FIRST_AHEAD
 * and the others at READ_AHEAD, unless the first has come and says already
 * that the item is absent.
 */
static inline void
ask_first(const struct cbf *f, struct cbf_hash h)
{
    uint64_t pos = cbf_probe_position(&f->probe, h, 0);

    __builtin_prefetch(f->counters + (pos >> 1), 0, TO_SECOND_CACHE);
}

static inline void
ask_rest(const struct cbf *f, struct cbf_hash h)
{
    struct cbf_walk w = cbf_walk_begin(&f->probe, h);
    uint32_t left = f->probe.n_probes;

    if (!cbf_counter_is_set(f->counters, cbf_walk_next(&w)))
        return;
    while (--left > 0)
        __builtin_prefetch(f->counters + (cbf_walk_next(&w) >> 1), 0,
                           TO_SECOND_CACHE);
}

static inline void
pipeline_begin(const struct cbf *f, const struct cbf_hash *items, size_t n)
{
    size_t i;

    for (i = 0; i < n && i < FIRST_AHEAD; i++)
        ask_first(f, items[i]);
    for (i = 0; i < n && i < READ_AHEAD; i++)
        ask_rest(f, items[i]);
}

static inline void
pipeline_next(const struct cbf *f, const struct cbf_hash *items, size_t n,
              size_t i)
{
    if (i + FIRST_AHEAD < n)
        ask_first(f, items[i + FIRST_AHEAD]);
    if (i + READ_AHEAD < n)
        ask_rest(f, items[i + READ_AHEAD]);
}

static inline int
is_near(const struct cbf *f)
{
    return f->table.counter_bytes <= NEAR_BYTES;
}

/* A batch of reads: how many are present, and what is told of each. */
struct looks {
    const struct cbf_hash *items;
    size_t n;
    uint8_t *each; /* or NULL */
    int values;    /* each gets counts, not 1 or 0 */
};

HOT size_t
read_many_by(const struct cbf *f, struct looks l, uint32_t n_probes)
{
    int near = is_near(f);
    size_t present = 0;
    size_t i;
    unsigned value;

    if (!near)
        pipeline_begin(f, l.items, l.n);
    for (i = 0; i < l.n; i++) {
        if (!near)
            pipeline_next(f, l.items, l.n, i);
        value = l.values ? lowest_counter(f, l.items[i])
                         : (unsigned)is_present(f, l.items[i], n_probes);
        present += value > 0;
        if (l.each)
            l.each[i] = (uint8_t)value;
    }
    return present;
}

HOT size_t
read_many(const struct cbf *f, struct looks l)
{
    if (f->probe.n_probes == USUAL_PROBES)
        return read_many_by(f, l, USUAL_PROBES);
    return read_many_by(f, l, f->probe.n_probes);
}

size_t
cbf_contains_many(const struct cbf *f, const struct cbf_hash *items, size_t n,
                  uint8_t *each)
{
    return read_many(f, (struct looks){ items, n, each, 0 });
}

size_t
cbf_count_of_many(const struct cbf *f, const struct cbf_hash *items, size_t n,
                  uint8_t *each)
{
    return read_many(f, (struct looks){ items, n, each, 1 });
}

/* ---- changing ----------------------------------------------------------- */

enum change { CHANGE_ADD, CHANGE_REMOVE, CHANGE_ADD_IF_ABSENT };

/* What is done to an item; known when it is compiled, if possible. */
struct how {
    enum change change;
    uint32_t n_probes;
};

HOT struct how
usually(enum change change)
{
    return (struct how){ .change = change, .n_probes = USUAL_PROBES };
}

HOT struct how
otherwise(const struct cbf *f, enum change change)
{
    return (struct how){ .change = change, .n_probes = f->probe.n_probes };
}

/* By value, so that the caller's copy can stay in registers. */
static __attribute__((noinline)) void
touch_pages(struct cbf *f, struct cbf_hash h)
{
    cbf_write_touch(f, &h, 1);
}

/*
 * Where an item's counters are, and on their way to this processor: also from
 * a near cache, for another writer may have them.  That costs a lone one 1 ns
 * an item; without it two writers of batches did 0.67 of what one does.
 */
HOT void
aim(const struct cbf *f, struct cbf_hash h, uint64_t *pos, uint32_t n)
{
    struct cbf_walk w = cbf_walk_begin(&f->probe, h);
    const uint8_t *counters = f->counters;
    uint32_t i;

#pragma GCC unroll 8
    for (i = 0; i < n; i++) {
        pos[i] = cbf_walk_next(&w);
        cbf_prefetch_write(counters + (pos[i] >> 1));
    }
}

/* A half of an item: the up to 16 probes that fit one packed word. */
HOT void
step_half(struct cbf *f, const uint64_t *pos, uint32_t n, uint64_t old,
          enum change change, struct cbf_tally *t)
{
    uint64_t all = cbf_packed_first(n);
    uint64_t full = cbf_packed_equal(old, CBF_COUNTER_MAX);
    uint64_t moving = all & ~full; /* at 15 they stay, both ways */

    if (change == CHANGE_REMOVE) {
        t->sum -= cbf_packed_count(moving);
        t->nonzero -= cbf_packed_count(cbf_packed_equal(old, 1));
    } else {
        t->sum += cbf_packed_count(moving);
        t->nonzero += cbf_packed_count(all & cbf_packed_equal(old, 0));
        t->saturated += cbf_packed_count(cbf_packed_equal(old, 14));
    }
    cbf_packed_step(f->table.counters, pos, n, moving,
                    change != CHANGE_REMOVE);
}

/*
 * One item as one transaction, under the write lock; *tally is the running
 * totals.  Returns what the Perl method would: see cbf.h.  All positions of an
 * item differ (hash.h), so the old values say all about the new ones.
 */
HOT int
change_item(struct cbf *f, struct cbf_hash h, const uint64_t *pos,
            struct how how, struct cbf_tally *tally)
{
    struct cbf_fmt_header *hdr = cbf_header(f);
    struct cbf_tally t = *tally; /* in registers, not where it may alias */
    uint32_t n = how.n_probes;
    uint32_t first = n < CBF_PACKED ? n : CBF_PACKED;
    uint64_t old[2] = { 0, 0 };
    int absent;

    old[0] = cbf_packed_get(f->counters, pos, first);
    absent = (cbf_packed_equal(old[0], 0) & cbf_packed_first(first)) != 0;
    if (n > first) {
        old[1] = cbf_packed_get(f->counters, pos + first, n - first);
        absent |= (cbf_packed_equal(old[1], 0) & cbf_packed_first(n - first))
                  != 0;
    }
    if (how.change == CHANGE_REMOVE && absent)
        return 0;
    if (how.change == CHANGE_ADD_IF_ABSENT && !absent)
        return 0;
    cbf_journal_item(hdr, h, old, &t);
    step_half(f, pos, first, old[0], how.change, &t);
    if (n > first)
        step_half(f, pos + first, n - first, old[1], how.change, &t);
    cbf_kill_fence();
    cbf_journal_tally_store(&hdr->tally, &t);
    cbf_journal_done(hdr);
    *tally = t;
    return how.change == CHANGE_ADD ? absent : 1;
}

HOT int
change_one_by(struct cbf *f, struct cbf_hash h, struct how how, int *changed,
              struct cbf_error *e)
{
    uint64_t pos[CBF_FMT_MAX_PROBES];
    struct cbf_tally tally;
    int code;

    if (how.change != CHANGE_REMOVE && cbf_touch_needed(&f->touch))
        touch_pages(f, h);
    /* a cache line that is on its way before the lock is taken is not waited
     * for by everybody else */
    aim(f, h, pos, how.n_probes);
    code = cbf_write_begin(f, e);
    if (code != CBF_OK)
        return code;
    cbf_journal_tally_load(&cbf_header(f)->tally, &tally);
    *changed = change_item(f, h, pos, how, &tally);
    cbf_write_end(f);
    return CBF_OK;
}

HOT int
change_one(struct cbf *f, struct cbf_hash h, enum change change, int *changed,
           struct cbf_error *e)
{
    if (f->probe.n_probes == USUAL_PROBES)
        return change_one_by(f, h, usually(change), changed, e);
    return change_one_by(f, h, otherwise(f, change), changed, e);
}

int
cbf_add(struct cbf *f, const void *item, size_t len, int *changed,
        struct cbf_error *e)
{
    return change_one(f, cbf_hash_item(item, len), CHANGE_ADD, changed, e);
}

int
cbf_remove(struct cbf *f, const void *item, size_t len, int *changed,
           struct cbf_error *e)
{
    return change_one(f, cbf_hash_item(item, len), CHANGE_REMOVE, changed, e);
}

int
cbf_add_if_absent(struct cbf *f, const void *item, size_t len, int *changed,
                  struct cbf_error *e)
{
    return change_one(f, cbf_hash_item(item, len), CHANGE_ADD_IF_ABSENT,
                      changed, e);
}

/* The items of one call, and what is told of them. */
struct batch {
    const struct cbf_hash *items;
    size_t n;
    uint8_t *each; /* whether it was changed, or NULL */
    size_t *n_changed;
};

HOT int
change_many_by(struct cbf *f, const struct batch *b, struct how how,
               struct cbf_error *e)
{
    uint64_t pos[WRITE_AHEAD][CBF_FMT_MAX_PROBES];
    const struct cbf_hash *items = b->items;
    const size_t n = b->n;
    struct cbf_tally tally;
    size_t done = 0;
    size_t i;
    int code;
    int yes;

    if (how.change != CHANGE_REMOVE && cbf_touch_needed(&f->touch))
        cbf_write_touch(f, items, n);
    for (i = 0; i < n && i < WRITE_AHEAD; i++)
        aim(f, items[i], pos[i], how.n_probes);
    code = cbf_write_begin(f, e);
    if (code != CBF_OK)
        return code;
    cbf_journal_tally_load(&cbf_header(f)->tally, &tally);
    for (i = 0; i < n; i++) {
        yes = change_item(f, items[i], pos[i % WRITE_AHEAD], how, &tally);
        done += (size_t)yes;
        if (b->each)
            b->each[i] = (uint8_t)yes;
        if (i + WRITE_AHEAD < n)
            aim(f, items[i + WRITE_AHEAD], pos[i % WRITE_AHEAD],
                how.n_probes);
    }
    cbf_write_end(f);
    *b->n_changed = done;
    return CBF_OK;
}

HOT int
change_many(struct cbf *f, const struct batch *b, enum change change,
            struct cbf_error *e)
{
    if (f->probe.n_probes == USUAL_PROBES)
        return change_many_by(f, b, usually(change), e);
    return change_many_by(f, b, otherwise(f, change), e);
}

int
cbf_add_many(struct cbf *f, const struct cbf_hash *items, size_t n,
             size_t *n_changed, struct cbf_error *e)
{
    const struct batch b = { items, n, NULL, n_changed };

    return change_many(f, &b, CHANGE_ADD, e);
}

int
cbf_remove_many(struct cbf *f, const struct cbf_hash *items, size_t n,
                size_t *n_changed, struct cbf_error *e)
{
    const struct batch b = { items, n, NULL, n_changed };

    return change_many(f, &b, CHANGE_REMOVE, e);
}

int
cbf_add_if_absent_many(struct cbf *f, const struct cbf_hash *items, size_t n,
                       uint8_t *each, size_t *n_changed, struct cbf_error *e)
{
    const struct batch b = { items, n, each, n_changed };

    return change_many(f, &b, CHANGE_ADD_IF_ABSENT, e);
}
