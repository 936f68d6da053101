/*
 * touch.h - which pages of the counters this process has touched.
 *
 * The first touch of a page is a fault: the kernel finds the page, or makes
 * it, reads it from a disk, or learns that the disk is full and kills the
 * process.  Items that will be added touch their pages before the lock is
 * taken, so that nobody else waits for that, and who dies of it holds nothing.
 * A page that the kernel has taken away meanwhile is not noticed; and where a
 * touch is forgotten, the lock is held for longer, and that is all.
 *
 * Knows positions; no lock, no journal, no file.
 */
#ifndef CBF_TOUCH_H
#define CBF_TOUCH_H

#include "atomic.h"
#include "hash.h"
#include <stddef.h>
#include <stdint.h>

/* Private to a process; threads share it. */
struct cbf_touch {
    uint8_t *counters; /* writable; constant */
    uint64_t pages;    /* of 4096 bytes; constant */
    uint64_t *seen;    /* a bit for each; NULL: nothing is kept */
    uint64_t left;     /* pages not seen; 0 = nothing to do; atomic */
};

/* For a table of `bytes` bytes of counters.  Without memory for the bits,
 * nothing is ever touched. */
void cbf_touch_begin(struct cbf_touch *t, uint8_t *counters, size_t bytes);
void cbf_touch_end(struct cbf_touch *t);

/* In a fork child, which has the bits of its parent but not its pages. */
void cbf_touch_anew(struct cbf_touch *t);

/* Whether there may be pages to touch. */
static inline int
cbf_touch_needed(const struct cbf_touch *t)
{
    return cbf_load64(&t->left) != 0;
}

/* Touches the pages of n items that were not touched before, by writing what
 * is there: no counter changes, whatever others do at the same time. */
void cbf_touch_items(struct cbf_touch *t, const struct cbf_probe *probe,
                     const struct cbf_hash *items, size_t n);

#endif
