/*
 * counter_wide.h - the loops of counter.c, over vectors of VECTOR_BYTES bytes.
 *
 * A template: counter.c includes it once for each vector width it offers, with
 * these macros set, and takes the four functions at the ends of its sections:
 *
 *   VECTOR_BYTES   16 or 32; a table is a multiple of it
 *   WIDE(name)     the name of a function or type for this width
 *   TARGET         the attribute, if any, that lets the compiler use it
 *
 * Vectors are those that gcc and clang share; they become SIMD instructions at
 * any optimisation level, so no vectoriser has to be switched on.
 * Deliberately without include guards, and of no use to anybody else.
 */

/* Loads may come from any 8-byte boundary, because a source can be a private
 * copy; and from memory that others see as bytes. */
typedef uint64_t WIDE(words)
    __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias));
typedef uint8_t WIDE(octets)
    __attribute__((vector_size(VECTOR_BYTES), aligned(8), may_alias));

#define words WIDE(words)
#define octets WIDE(octets)
#define INNER static inline TARGET
#define OUTER static TARGET

/* ---- sums across a vector ------------------------------------------- */

/* Adds neighbouring bytes: sums of up to 510, 16 bits each. */
INNER words
WIDE(fold_bytes)(words v)
{
    return (v & EVEN_BYTES) + ((v >> 8) & EVEN_BYTES);
}

/* The sum of all 16-bit numbers. */
INNER uint64_t
WIDE(sum_shorts)(words v)
{
    uint64_t both = 0;
    size_t i;

    v = (v & EVEN_SHORTS) + ((v >> 16) & EVEN_SHORTS);
    for (i = 0; i < VECTOR_BYTES / 8; i++)
        both += v[i];
    return (both & UINT32_MAX) + (both >> 32);
}

INNER uint64_t
WIDE(sum_bytes)(words v)
{
    return WIDE(sum_shorts)(WIDE(fold_bytes)(v));
}

/* ---- totals ---------------------------------------------------------- */

/* Byte sums that have not been carried into wider ones; see RUN_VECTORS. */
struct WIDE(tally_run) {
    words sum;
    octets zero;
    octets saturated;
};

INNER void
WIDE(tally_vector)(struct WIDE(tally_run) *r, const words *at)
{
    words low = *at & LOW_HALF;
    words high = (*at >> 4) & LOW_HALF;

    /* A comparison that holds gives all ones: -1. */
    r->sum += low + high;
    r->zero -= (octets)((octets)low == 0) + (octets)((octets)high == 0);
    r->saturated -= (octets)((octets)low == CBF_COUNTER_MAX)
                    + (octets)((octets)high == CBF_COUNTER_MAX);
}

/* At most RUN_VECTORS; carries their sum, leaves the counts. */
INNER words
WIDE(tally_vectors)(struct WIDE(tally_run) *r, const words *at, size_t n)
{
    size_t i;

    r->sum = (words){0};
#pragma GCC unroll 8
    for (i = 0; i < n; i++) {
        if (i % (LINE_BYTES / VECTOR_BYTES) == 0)
            prefetch(at + i);
        WIDE(tally_vector)(r, at + i);
    }

    return WIDE(fold_bytes)(r->sum);
}

/* At most RUNS * RUN_VECTORS vectors. */
INNER void
WIDE(tally_stretch)(struct cbf_tally *t, const words *at, size_t n)
{
    struct WIDE(tally_run) r = {.sum = {0}};
    words sums = {0};

    t->nonzero += n * VECTOR_BYTES * 2;
    for (; n >= RUN_VECTORS; n -= RUN_VECTORS) {
        sums += WIDE(tally_vectors)(&r, at, RUN_VECTORS);
        at += RUN_VECTORS;
    }
    if (n > 0)
        sums += WIDE(tally_vectors)(&r, at, n);
    t->sum += WIDE(sum_shorts)(sums);
    t->nonzero -= WIDE(sum_bytes)((words)r.zero);
    t->saturated += WIDE(sum_bytes)((words)r.saturated);
}

OUTER void
WIDE(tally)(const uint8_t *table, size_t bytes, struct cbf_tally *t)
{
    const words *at = (const words *)table;
    size_t left = bytes / VECTOR_BYTES;

    *t = (struct cbf_tally){.nonzero = 0};
    while (left > 0) {
        size_t n = left < RUNS * RUN_VECTORS ? left : RUNS * RUN_VECTORS;

        WIDE(tally_stretch)(t, at, n);
        at += n;
        left -= n;
    }
}

/* ---- histogram ------------------------------------------------------- */

/*
 * Comparing each counter with each value would take twice as long as this:
 * PLANES vectors are turned into as many planes, plane b holding bit b of
 * their counters.  The ones in an AND of some planes are the counters that
 * have all those bits; there are 15 such products, and the ones in each are
 * counted by carry-save adders (Harley and Seal), eight vectors at a time.
 * How many counters have exactly a value's bits follows from how many have at
 * least them.
 */

/* A count of ones: columns that weigh 1, 2 and 4, and bytes that weigh 8. */
struct WIDE(bit_count) {
    words ones;
    words twos;
    words fours;
    words eights;
};

/* Trades the odd fields of *a for the even ones of *b; fields of `shift` bits,
 * the even ones under `mask`. */
INNER void
WIDE(trade)(words *a, words *b, uint64_t mask, int shift)
{
    words even = (*a & mask) | ((*b & mask) << shift);

    *b = ((*a >> shift) & mask) | (*b & ~mask);
    *a = even;
}

/* p[s] = the counters of PLANES vectors that have all bits of s; not p[0]. */
INNER void
WIDE(products)(const words *at, words p[PRODUCTS])
{
    words plane[PLANES] = {at[0], at[1], at[2], at[3]};
    unsigned b;
    unsigned s;

    prefetch(at);
    prefetch((const uint8_t *)(at + PLANES) - LINE_BYTES);
    WIDE(trade)(&plane[0], &plane[1], EVEN_BITS, 1);
    WIDE(trade)(&plane[2], &plane[3], EVEN_BITS, 1);
    WIDE(trade)(&plane[0], &plane[2], EVEN_PAIRS, 2);
    WIDE(trade)(&plane[1], &plane[3], EVEN_PAIRS, 2);
#pragma GCC unroll 4
    for (b = 0; b < PLANES; b++) {
        unsigned bit = 1u << b;

        p[bit] = plane[b];
#pragma GCC unroll 8
        for (s = 1; s < bit; s++)
            p[s | bit] = p[s] & plane[b];
    }
}

/* Adds three columns of one weight: the sum into *a, the carry returned. */
INNER words
WIDE(carry_save)(words *a, words b, words c)
{
    words some = *a ^ b;
    words carry = (*a & b) | (some & c);

    *a = some ^ c;
    return carry;
}

/* The number of ones in each byte. */
INNER words
WIDE(byte_ones)(words v)
{
    v -= (v >> 1) & EVEN_BITS;
    v = (v & EVEN_PAIRS) + ((v >> 2) & EVEN_PAIRS);
    return (v + (v >> 4)) & LOW_HALF;
}

/* Counts product s of GROUPS groups. */
INNER void
WIDE(count_ones)(struct WIDE(bit_count) *c, words (*p)[PRODUCTS], unsigned s)
{
    words two[2];
    words four[2];
    int half;

#pragma GCC unroll 2
    for (half = 0; half < 2; half++) {
        two[0] = WIDE(carry_save)(&c->ones, p[0][s], p[1][s]);
        two[1] = WIDE(carry_save)(&c->ones, p[2][s], p[3][s]);
        four[half] = WIDE(carry_save)(&c->twos, two[0], two[1]);
        p += GROUPS / 2;
    }
    two[0] = WIDE(carry_save)(&c->fours, four[0], four[1]);
    c->eights += WIDE(byte_ones)(two[0]);
}

/* At most SLICES slices; adds the counters that have all bits of s to n[s]. */
OUTER void
WIDE(count_slices)(const words *at, size_t slices, uint64_t n[PRODUCTS])
{
    struct WIDE(bit_count) c[PRODUCTS] = {{.ones = {0}}};
    words p[GROUPS][PRODUCTS];
    size_t group;
    unsigned s;

    for (; slices > 0; slices--) {
        for (group = 0; group < GROUPS; group++) {
            WIDE(products)(at, p[group]);
            at += PLANES;
        }
        for (s = 1; s < PRODUCTS; s++)
            WIDE(count_ones)(&c[s], p, s);
    }
    for (s = 1; s < PRODUCTS; s++) {
        n[s] += WIDE(sum_bytes)(WIDE(byte_ones)(c[s].ones));
        n[s] += WIDE(sum_bytes)(WIDE(byte_ones)(c[s].twos)) * 2;
        n[s] += WIDE(sum_bytes)(WIDE(byte_ones)(c[s].fours)) * 4;
        n[s] += WIDE(sum_bytes)(c[s].eights) * 8;
    }
}

OUTER void
WIDE(histogram)(const uint8_t *table, size_t bytes, uint64_t n[PRODUCTS])
{
    const words *at = (const words *)table;
    size_t left = bytes / (SLICE_VECTORS * VECTOR_BYTES);
    size_t rest = left * SLICE_VECTORS * VECTOR_BYTES;
    unsigned s;

    for (s = 0; s < PRODUCTS; s++)
        n[s] = 0;
    n[0] = (uint64_t)rest * 2;
    while (left > 0) {
        size_t slices = left < SLICES ? left : SLICES;

        WIDE(count_slices)(at, slices, n);
        at += slices * SLICE_VECTORS;
        left -= slices;
    }
    exactly_from_at_least(n);
    for (; rest < bytes; rest++) {
        n[table[rest] & CBF_COUNTER_MAX]++;
        n[table[rest] >> 4]++;
    }
}

/* ---- changing a table that others read ------------------------------- */

/*
 * Puts a vector into a table whose bytes others may load at any time.
 *
 * No processor tears a byte: whatever width a store has, and wherever it is
 * split, each byte in memory goes from its old value to its new one.  What
 * must be ruled out is the compiler writing something in between; volatile
 * does, for then this is one assignment of the finished value and nothing
 * else.  C itself knows no atomic store this wide, and ThreadSanitizer
 * believes only C: it gets atomic words.
 */
INNER void
WIDE(put)(words *at, words value)
{
#if CBF_THREAD_SANITIZER
    size_t i;

    for (i = 0; i < VECTOR_BYTES / 8; i++)
        cbf_store64((uint64_t *)at + i, value[i]);
#else
    *(volatile words *)at = value;
#endif
}

INNER int
WIDE(is_zero)(words v)
{
    uint64_t any = 0;
    size_t i;

#pragma GCC unroll 4
    for (i = 0; i < VECTOR_BYTES / 8; i++)
        any |= v[i];
    return any == 0;
}

INNER int
WIDE(all_zero)(const words *at, size_t n)
{
    words any = {0};
    size_t i;

#pragma GCC unroll 8
    for (i = 0; i < n; i++)
        any |= at[i];
    return WIDE(is_zero)(any);
}

/*
 * Sums that stop at 15.  The low three bits of each counter are added apart
 * from the top one, so that nothing runs over into the neighbour; a carry out
 * of the top bit fills its counter with ones.
 */
INNER words
WIDE(add_saturating)(words a, words b)
{
    words sum = ((a & ~TOP_BITS) + (b & ~TOP_BITS)) ^ ((a ^ b) & TOP_BITS);
    words carry = ((a & b) | ((a | b) & ~sum)) & TOP_BITS;

    return sum | carry | (carry - (carry >> 3));
}

/* n, a constant, is at most BLOCK_VECTORS; read once, and written once or not
 * at all. */
INNER void
WIDE(merge_vectors)(words *into, const words *from, size_t n)
{
    words sum[BLOCK_VECTORS];
    words changed = {0};
    size_t i;

    if (WIDE(all_zero)(from, n))
        return;
#pragma GCC unroll 8
    for (i = 0; i < n; i++) {
        sum[i] = WIDE(add_saturating)(into[i], from[i]);
        changed |= sum[i] ^ into[i];
    }
    if (WIDE(is_zero)(changed))
        return;
#pragma GCC unroll 8
    for (i = 0; i < n; i++)
        WIDE(put)(into + i, sum[i]);
}

OUTER void
WIDE(merge)(uint8_t *into, const uint8_t *from, size_t bytes)
{
    size_t i;

    for (i = 0; i + BLOCK_BYTES <= bytes; i += BLOCK_BYTES) {
        prefetch(from + i);
        prefetch(from + i + LINE_BYTES);
        prefetch(into + i);
        prefetch(into + i + LINE_BYTES);
        WIDE(merge_vectors)((words *)(into + i), (const words *)(from + i),
                            BLOCK_VECTORS);
    }
    for (; i < bytes; i += VECTOR_BYTES)
        WIDE(merge_vectors)((words *)(into + i), (const words *)(from + i), 1);
}

INNER void
WIDE(clear_vectors)(words *at, size_t n)
{
    size_t i;

    if (WIDE(all_zero)(at, n))
        return;
#pragma GCC unroll 8
    for (i = 0; i < n; i++)
        WIDE(put)(at + i, (words){0});
}

OUTER void
WIDE(clear)(uint8_t *table, size_t bytes)
{
    size_t i;

    for (i = 0; i + BLOCK_BYTES <= bytes; i += BLOCK_BYTES) {
        prefetch(table + i);
        prefetch(table + i + LINE_BYTES);
        WIDE(clear_vectors)((words *)(table + i), BLOCK_VECTORS);
    }
    for (; i < bytes; i += VECTOR_BYTES)
        WIDE(clear_vectors)((words *)(table + i), 1);
}

#undef words
#undef octets
#undef INNER
#undef OUTER
