/*
 * touch.c - the bits of touch.h, and the touch.
 */
#include "touch.h"
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES 4096 /* the smallest that any system of ours has */
#define BYTES_OF(pages) (((size_t)(pages) + 63) / 64 * 8)

void
cbf_touch_begin(struct cbf_touch *t, uint8_t *counters, size_t bytes)
{
    *t = (struct cbf_touch){
        .counters = counters,
        .pages = (bytes + PAGE_BYTES - 1) / PAGE_BYTES,
    };
    t->seen = calloc(1, BYTES_OF(t->pages));
    if (t->seen)
        t->left = t->pages;
}

void
cbf_touch_end(struct cbf_touch *t)
{
    free(t->seen);
    *t = (struct cbf_touch){ .left = 0 };
}

void
cbf_touch_anew(struct cbf_touch *t)
{
    if (!t->seen || cbf_load64(&t->left) == t->pages)
        return;
    memset(t->seen, 0, BYTES_OF(t->pages));
    cbf_store64(&t->left, t->pages);
}

/* A compare-and-swap writes even if it changes nothing; and it can't be split
 * by a writer that has the lock. */
static void
write_back(uint8_t *at)
{
    uint8_t value = cbf_load8(at);

    cbf_swap_if8(at, value, value);
}

static void
touch(struct cbf_touch *t, size_t at)
{
    uint64_t *word = &t->seen[at / PAGE_BYTES / 64];
    uint64_t bit = (uint64_t)1 << (at / PAGE_BYTES % 64);

    if (cbf_load64(word) & bit)
        return;
    write_back(t->counters + at);
    if (!(cbf_fetch_or64(word, bit) & bit))
        cbf_fetch_sub64(&t->left, 1);
}

void
cbf_touch_items(struct cbf_touch *t, const struct cbf_probe *probe,
                const struct cbf_hash *items, size_t n)
{
    struct cbf_walk w;
    uint32_t i;

    for (; n > 0 && cbf_touch_needed(t); n--, items++) {
        w = cbf_walk_begin(probe, *items);
        for (i = 0; i < probe->n_probes; i++)
            touch(t, cbf_walk_next(&w) / 2);
    }
}
