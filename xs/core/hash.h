/*
 * hash.h - from an item's bytes to the counters it probes.
 *
 * The only place that knows which hash is used (XXH3-128, seed 0, from the
 * system's xxhash.h) and how positions come from it (double hashing: Kirsch
 * and Mitzenmacher, ESA 2006).  Knows no counters.
 */
#ifndef CBF_HASH_H
#define CBF_HASH_H

#include <stddef.h>
#include <stdint.h>

/* The two halves of XXH3-128: all that a batch keeps of an item. */
struct cbf_hash {
    uint64_t lo;
    uint64_t hi;
};

/* How a table is probed; made once when a filter is opened. */
struct cbf_probe {
    uint64_t mask;     /* n_counters - 1 */
    uint32_t n_probes; /* 1 .. 32 */
};

/* Hashes len bytes; item may be NULL only if len is 0.  O(len). */
struct cbf_hash cbf_hash_item(const void *item, size_t len);

/* XXH3-64 of a whole table, for the checksum of sealed filters.  O(len). */
uint64_t cbf_hash_checksum(const void *bytes, size_t len);

/* Index of the counter that probe i (0 .. n_probes - 1) of an item hits. */
static inline uint64_t
cbf_probe_position(const struct cbf_probe *p, struct cbf_hash h, uint32_t i)
{
    return (h.lo + i * (h.hi | 1)) & p->mask;
}

/* The same one after the other, without a multiplication each. */
struct cbf_walk {
    uint64_t at;
    uint64_t step;
    uint64_t mask;
};

static inline struct cbf_walk
cbf_walk_begin(const struct cbf_probe *p, struct cbf_hash h)
{
    return (struct cbf_walk){ .at = h.lo, .step = h.hi | 1, .mask = p->mask };
}

static inline uint64_t
cbf_walk_next(struct cbf_walk *w)
{
    uint64_t pos = w->at & w->mask;

    w->at += w->step;
    return pos;
}

#endif
