/*
 * counter.h - four-bit saturating counters, two a byte, over memory the caller
 * gives: the counter with an even index is the low half of its byte.
 *
 * Knows no files, no locks and no hashing.  Point functions change one byte at
 * a time by an atomic store; whole-table functions work on 64-bit words or
 * wider, and every byte a concurrent reader loads is either its old or its new
 * value.  All functions that change counters need the caller to be the only
 * one that does; those that only read a single counter need nothing.
 *
 * Tables start on a multiple of 64 bytes and are a multiple of 32 bytes long.
 */
#ifndef CBF_COUNTER_H
#define CBF_COUNTER_H

#include "atomic.h"
#include "killpoint.h"
#include <stddef.h>
#include <stdint.h>

#define CBF_COUNTER_MAX 15u

/* Totals over a stretch of counters. */
struct cbf_tally {
    uint64_t nonzero;   /* counters above 0 */
    uint64_t saturated; /* counters at 15 */
    uint64_t sum;       /* of all values */
};

/* Totals of two stretches together; and of the one without the other, which
 * is a part of it. */
static inline void
cbf_tally_add(struct cbf_tally *t, const struct cbf_tally *part)
{
    t->nonzero += part->nonzero;
    t->saturated += part->saturated;
    t->sum += part->sum;
}

static inline void
cbf_tally_take(struct cbf_tally *t, const struct cbf_tally *part)
{
    t->nonzero -= part->nonzero;
    t->saturated -= part->saturated;
    t->sum -= part->sum;
}

/* The value of counter i, 0..15. */
static inline unsigned
cbf_counter_get(const uint8_t *table, uint64_t i)
{
    return (cbf_load8(table + (i >> 1)) >> ((i & 1) * 4)) & CBF_COUNTER_MAX;
}

/* Whether counter i is above 0; a table look-up is shorter than a shift. */
static inline int
cbf_counter_is_set(const uint8_t *table, uint64_t i)
{
    static const uint8_t half[2] = { 0x0f, 0xf0 };

    return (cbf_load8(table + (i >> 1)) & half[i & 1]) != 0;
}

/* Sets counter i to value (0..15); its neighbour keeps its own. */
static inline void
cbf_counter_set(uint8_t *table, uint64_t i, unsigned value)
{
    unsigned shift = (i & 1) * 4;
    unsigned byte = cbf_load8(table + (i >> 1));

    byte = (byte & ~(CBF_COUNTER_MAX << shift)) | value << shift;
    cbf_store8(table + (i >> 1), (uint8_t)byte);
}

/*
 * The values of up to 16 counters, four bits each, and questions about all of
 * them at once; the answers are flags, one in the lowest bit of each four.
 */
#define CBF_PACKED 16u
#define CBF_PACKED_ONES 0x1111111111111111u

/* Flags for the first n places, 0..16. */
static inline uint64_t
cbf_packed_first(uint32_t n)
{
    return n == CBF_PACKED ? CBF_PACKED_ONES
                           : CBF_PACKED_ONES & (((uint64_t)1 << n * 4) - 1);
}

/* Flags where the value is v, 0..15; places that were not filled hold 0. */
static inline uint64_t
cbf_packed_equal(uint64_t packed, uint64_t v)
{
    uint64_t differ = packed ^ v * CBF_PACKED_ONES;

    differ |= differ >> 2;
    differ |= differ >> 1;
    return ~differ & CBF_PACKED_ONES;
}

/* How many flags are set. */
static inline unsigned
cbf_packed_count(uint64_t flags)
{
    flags = (flags + (flags >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (unsigned)(flags * 0x0101010101010101u >> 56);
}

/* The values of counters pos[0 .. n - 1], packed; n is 0..16. */
static inline uint64_t
cbf_packed_get(const uint8_t *table, const uint64_t *pos, uint32_t n)
{
    uint64_t packed = 0;

#pragma GCC unroll 8
    while (n-- > 0)
        packed = packed << 4 | cbf_counter_get(table, pos[n]);
    return packed;
}

/* Steps counter i one up or down, or not at all; it is not at the end of its
 * range. */
static inline void
cbf_counter_step(uint8_t *table, uint64_t i, unsigned by, int up)
{
    uint8_t *at = table + (i >> 1);
    unsigned step = by << (i & 1) * 4;

    cbf_store8(at, (uint8_t)(up ? cbf_load8(at) + step
                                : cbf_load8(at) - step));
    CBF_KILL_POINT("item: one counter changed");
}

/*
 * Steps counter pos[i] one up or down where flag i is set.  The positions all
 * differ, and no flagged counter is at the end of its range.
 */
static inline void
cbf_packed_step(uint8_t *table, const uint64_t *pos, uint32_t n,
                uint64_t flags, int up)
{
    uint32_t i;

#pragma GCC unroll 8
    for (i = 0; i < n; i++) {
        cbf_counter_step(table, pos[i], (unsigned)(flags & 1), up);
        flags >>= 4;
    }
}

/* Whole-table work; each O(bytes), at memory speed. */

/* Totals of a stretch; nobody changes it meanwhile. */
void cbf_counter_tally(const uint8_t *table, size_t bytes,
                       struct cbf_tally *t);

/* n[v] = how many counters hold v. */
void cbf_counter_histogram(const uint8_t *table, size_t bytes,
                           uint64_t n[CBF_COUNTER_MAX + 1]);

/* into[i] = min(15, into[i] + from[i]); a block of 128 bytes that stays as it
 * is is not written, so that untouched pages stay clean.  from may be into, or
 * a private copy on any multiple of 8 bytes. */
void cbf_counter_merge(uint8_t *into, const uint8_t *from, size_t bytes);

/* All counters 0; only what is not 0 is written, so holes stay holes. */
void cbf_counter_clear(uint8_t *table, size_t bytes);

#endif
