/*
 * counter.c - work on whole tables of four-bit counters: totals, histogram,
 * sum, zeroing, at about the speed of memory.
 *
 * The loops stand in counter_wide.h; this file says what is common to all
 * vector widths, and which width a call takes.  Knows no files, no locks and
 * no hashing; decides nothing about who may call when.
 */
#include "counter.h"

#define LOW_HALF ((uint64_t)0x0f0f0f0f0f0f0f0f)
#define EVEN_BYTES ((uint64_t)0x00ff00ff00ff00ff)
#define EVEN_SHORTS ((uint64_t)0x0000ffff0000ffff)
#define TOP_BITS ((uint64_t)0x8888888888888888)
#define EVEN_BITS ((uint64_t)0x5555555555555555)
#define EVEN_PAIRS ((uint64_t)0x3333333333333333)

/*
 * How far ahead of the loads a line is asked for.  The arithmetic keeps the
 * processor's window too full to run ahead by itself.  On a Sapphire Rapids
 * Xeon a tally took 2.1 times as long as a plain sum without this; distances
 * of 2048 to 8192 bytes did equally well.
 */
#define AHEAD_BYTES 4096
#define LINE_BYTES 64

/*
 * What merge and clear skip, or write, as one.  Less would cost a mispredicted
 * branch too often; and counters begin at a multiple of it from the start of
 * their page, so that no block makes two pages dirty.
 */
#define BLOCK_BYTES 128
#define BLOCK_VECTORS (BLOCK_BYTES / VECTOR_BYTES)

/*
 * Sums in bytes last for so many vectors: eight add up to 8 * 2 * 15 = 240 in
 * a sum of values; a count grows by 2 a vector, so it lasts for 15 such runs.
 */
#define RUN_VECTORS 8
#define RUNS 15

/* A slice is what the histogram's adders take at a time.  It brings at most 8
 * a byte to the column of eights, so 31 slices fit. */
#define PLANES 4
#define PRODUCTS (CBF_COUNTER_MAX + 1)
#define GROUPS 8
#define SLICE_VECTORS (PLANES * GROUPS)
#define SLICES 31

/* Asks for a line that will be read soon; past the end it is no access. */
static inline void
prefetch(const void *at)
{
    __builtin_prefetch((const void *)((uintptr_t)at + AHEAD_BYTES));
}

/* n[s], the counters that have at least the bits of s, becomes those that have
 * exactly them: one bit after the other. */
static void
exactly_from_at_least(uint64_t n[PRODUCTS])
{
    unsigned bit;
    unsigned s;

    for (bit = 1; bit < PRODUCTS; bit <<= 1) {
        for (s = 0; s < PRODUCTS; s++) {
            if ((s & bit) == 0)
                n[s] -= n[s | bit];
        }
    }
}

/* SSE2, NEON, or whatever the compiler was told of. */
#define VECTOR_BYTES 16
#define WIDE(name) name##_16
#define TARGET
#include "counter_wide.h"
#undef VECTOR_BYTES
#undef WIDE
#undef TARGET

/*
 * AVX2 takes about a third off totals and histograms.  The processor is asked
 * at each call, which costs one load; the loader's way of choosing (an ifunc)
 * runs before a sanitizer is ready.  CBF_COUNTER_PORTABLE leaves it out, so
 * that tests see the other loops too.
 */
#if defined(__x86_64__) && !defined(CBF_COUNTER_PORTABLE)
#define VECTOR_BYTES 32
#define WIDE(name) name##_avx2
#define TARGET __attribute__((target("avx2")))
#include "counter_wide.h"
#undef VECTOR_BYTES
#undef WIDE
#undef TARGET
#define IS_WIDE() __builtin_cpu_supports("avx2")
#else
#define IS_WIDE() 0
#define tally_avx2 tally_16
#define histogram_avx2 histogram_16
#define merge_avx2 merge_16
#define clear_avx2 clear_16
#endif

void
cbf_counter_tally(const uint8_t *table, size_t bytes, struct cbf_tally *t)
{
    if (IS_WIDE())
        tally_avx2(table, bytes, t);
    else
        tally_16(table, bytes, t);
}

void
cbf_counter_histogram(const uint8_t *table, size_t bytes,
                      uint64_t n[CBF_COUNTER_MAX + 1])
{
    if (IS_WIDE())
        histogram_avx2(table, bytes, n);
    else
        histogram_16(table, bytes, n);
}

void
cbf_counter_merge(uint8_t *into, const uint8_t *from, size_t bytes)
{
    if (IS_WIDE())
        merge_avx2(into, from, bytes);
    else
        merge_16(into, from, bytes);
}

void
cbf_counter_clear(uint8_t *table, size_t bytes)
{
    if (IS_WIDE())
        clear_avx2(table, bytes);
    else
        clear_16(table, bytes);
}
