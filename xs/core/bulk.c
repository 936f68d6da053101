/*
 * bulk.c - many items at once, for tables that are just being filled.
 *
 * In a table that is larger than the caches, each of an item's counters has to
 * come from far away.  Here the positions of many items are sorted first, into
 * a pile for each region of the table; then one region after the other is
 * brought near, once for all of its pile.  So no item is a transaction of its
 * own: see cbf.h for what that means.  Reads, and items that somebody asks for
 * meanwhile, are items.c's.
 */
#include "access.h"
#include "memory.h"

/*
 * Counters of a region (half a MiB), how many regions (those of larger tables
 * are larger), and positions on all piles (16 MiB); tests bring smaller ones.
 * Tried with ten million items, 7 probes and 64 MiB on a Sapphire Rapids Xeon
 * with 2 MiB of second cache: regions of half and of twice the size took about
 * a tenth longer, half the room for piles a quarter; twice the room saved less
 * than a tenth.  With 1 GiB, 64 to 1024 regions did equally well.
 */
#ifdef CBF_BULK_SMALL
#define REGION_BITS 8
#define MAX_REGIONS 4
#define MAX_POSITIONS ((size_t)4096)
#else
#define REGION_BITS 20
#define MAX_REGIONS 256
#define MAX_POSITIONS ((size_t)1 << 22)
#endif

/* Items that there must be room for to go on without emptying the piles. */
#define FEW_ITEMS 64

/* How far ahead a position's line is asked for, and the end of a pile. */
#define AHEAD 32
#define LINE_BYTES 64
#define NEXT_LINE (LINE_BYTES / sizeof(uint32_t))

struct piles {
    struct cbf_probe probe;
    uint32_t shift;      /* a position's region is position >> shift */
    uint32_t n;          /* of regions, and so of piles */
    size_t region_bytes; /* of the table */
    size_t room;         /* of a pile: positions */
    uint32_t *slot;      /* n * room positions, within their regions */
    uint32_t *end[MAX_REGIONS]; /* of the pile: where the next one goes */
};

static size_t
piles_bytes(const struct piles *p)
{
    /* positions are looked at some way ahead, of the last pile too */
    return (p->n * p->room + AHEAD) * sizeof *p->slot;
}

static uint32_t *
pile_begin(const struct piles *p, uint32_t i)
{
    return p->slot + i * p->room;
}

static void
piles_empty(struct piles *p)
{
    uint32_t i;

    for (i = 0; i < p->n; i++)
        p->end[i] = pile_begin(p, i);
}

/* Room for what n_items put on a pile, if they fall as hashes do. */
static int
piles_new(struct piles *p, const struct cbf *f, size_t n_items,
          struct cbf_error *e)
{
    uint64_t n_counters = f->probe.mask + 1;
    uint32_t n_probes = f->probe.n_probes;
    size_t most = MAX_POSITIONS;

    p->probe = f->probe;
    p->shift = REGION_BITS;
    while (n_counters >> p->shift > MAX_REGIONS)
        p->shift++;
    p->n = (uint32_t)(n_counters >> p->shift);
    if (p->n == 0)
        p->n = 1;
    p->region_bytes = f->table.counter_bytes / p->n;
    if (n_items < most / n_probes)
        most = n_items * n_probes;
    p->room = most / p->n * 5 / 4 + 2 * FEW_ITEMS * n_probes;
    p->slot = cbf_memory_new(piles_bytes(p));
    if (!p->slot)
        return cbf_error_set(e, CBF_E_MEMORY, "sorting the items");
    piles_empty(p);
    return CBF_OK;
}

/* Items that surely fit: all positions of one may fall into one region. */
static size_t
piles_left(const struct piles *p)
{
    size_t highest = 0;
    size_t height;
    uint32_t i;

    for (i = 0; i < p->n; i++) {
        height = (size_t)(p->end[i] - pile_begin(p, i));
        if (height > highest)
            highest = height;
    }
    return (p->room - highest) / p->probe.n_probes;
}

static void
pile_up(struct piles *p, const struct cbf_hash *items, size_t n)
{
    const uint32_t shift = p->shift;
    const uint64_t within = ((uint64_t)1 << shift) - 1;
    struct cbf_walk w;
    uint64_t pos;
    uint32_t *to;
    uint32_t left;
    size_t i;

    for (i = 0; i < n; i++) {
        w = cbf_walk_begin(&p->probe, items[i]);
        for (left = p->probe.n_probes; left > 0; left--) {
            pos = cbf_walk_next(&w);
            to = p->end[pos >> shift]++;
            *to = (uint32_t)(pos & within);
            cbf_prefetch_write(to + NEXT_LINE);
        }
    }
}

/* As many items as there is room for, at least one; returns how many. */
static size_t
pile_items(struct piles *p, const struct cbf_hash *items, size_t n)
{
    size_t done = 0;
    size_t step = piles_left(p);

    while (done < n && step >= FEW_ITEMS) {
        if (step > n - done)
            step = n - done;
        pile_up(p, items + done, step);
        done += step;
        step = piles_left(p);
    }
    return done;
}

/* Asks for a whole region, if most of its lines will be wanted. */
static void
bring_near(const struct piles *p, const uint8_t *region, size_t n)
{
    size_t i;

    if (n * LINE_BYTES < p->region_bytes)
        return;
    for (i = 0; i < p->region_bytes; i += LINE_BYTES)
        cbf_prefetch_write(region + i);
}

/* Raises the counters of a region that are at the positions at[0 .. n - 1],
 * which may be equal. */
static void
raise_counters(uint8_t *region, const uint32_t *at, size_t n,
               struct cbf_tally *t)
{
    uint64_t nonzero = 0;
    uint64_t saturated = 0;
    uint64_t sum = 0;
    uint8_t *byte;
    unsigned shift;
    unsigned value;
    unsigned step;
    size_t i;

    for (i = 0; i < n; i++) {
        cbf_prefetch_write(region + (at[i + AHEAD] >> 1));
        byte = region + (at[i] >> 1);
        shift = (at[i] & 1) * 4;
        value = cbf_load8(byte);
        step = (value >> shift & CBF_COUNTER_MAX) < CBF_COUNTER_MAX;
        nonzero += (value >> shift & CBF_COUNTER_MAX) == 0;
        saturated += (value >> shift & CBF_COUNTER_MAX) == CBF_COUNTER_MAX - 1;
        sum += step;
        cbf_store8(byte, (uint8_t)(value + (step << shift)));
        CBF_KILL_POINT("bulk: one counter changed");
    }
    t->nonzero += nonzero;
    t->saturated += saturated;
    t->sum += sum;
}

/* Everything on the piles into the table, under the write lock. */
static void
spread(struct cbf *f, struct piles *p)
{
    struct cbf_fmt_header *hdr = cbf_header(f);
    struct cbf_tally t;
    uint8_t *region;
    size_t n;
    uint32_t i;

    cbf_journal_tally_load(&hdr->tally, &t);
    cbf_journal_tally_suspend(hdr);
    for (i = 0; i < p->n; i++) {
        region = f->table.counters + i * p->region_bytes;
        n = (size_t)(p->end[i] - pile_begin(p, i));
        bring_near(p, region, n);
        raise_counters(region, pile_begin(p, i), n, &t);
    }
    cbf_journal_tally_resume(hdr, &t);
    piles_empty(p);
}

int
cbf_add_bulk(struct cbf *f, const struct cbf_hash *items, size_t n,
             size_t *n_done, struct cbf_error *e)
{
    struct piles p;
    size_t more;
    int code = piles_new(&p, f, n - *n_done, e);

    if (code != CBF_OK)
        return code;
    do {
        more = pile_items(&p, items + *n_done, n - *n_done);
        if (cbf_touch_needed(&f->touch))
            cbf_write_touch(f, items + *n_done, more);
        code = cbf_write_begin(f, e);
        if (code != CBF_OK)
            break;
        spread(f, &p);
        cbf_write_end(f);
        *n_done += more;
    } while (*n_done < n);
    cbf_memory_free(p.slot, piles_bytes(&p));
    return code;
}
