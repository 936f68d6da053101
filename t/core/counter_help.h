/*
 * counter_help.h - what the tests of the counters share: a table with guards
 * around it, a plain array with one byte a counter as its model, and random
 * numbers from a fixed seed.
 *
 * The model is counted one counter after the other and knows nothing of the
 * code under test but the names of the totals.
 */
#ifndef COUNTER_HELP_H
#define COUNTER_HELP_H

#include "counter.h"
#include "tap.h"
#include <stdlib.h>

#define SEED ((uint64_t)0x5eed2024)
#define GUARD 64

/* A table between two guards, and the array that says what it should hold. */
struct scene {
    uint8_t *room;
    uint8_t *table;
    uint8_t *model;
    size_t bytes;
};

static uint64_t random_state = SEED;

/* SplitMix64. */
static inline uint64_t
random_u64(void)
{
    uint64_t z;

    random_state += 0x9e3779b97f4a7c15;
    z = random_state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static inline void *
allocate(size_t bytes)
{
    void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);

    if (!p)
        bail("no memory");
    return p;
}

static inline struct scene
scene_new(size_t bytes)
{
    struct scene s = {.bytes = bytes};

    s.room = allocate(bytes + 2 * GUARD);
    s.table = s.room + GUARD;
    s.model = allocate(bytes * 2);
    memset(s.room, 0xa5, bytes + 2 * GUARD);
    return s;
}

static inline void
scene_free(struct scene *s)
{
    free(s->room);
    free(s->model);
}

static inline void
scene_write(struct scene *s)
{
    size_t i;

    for (i = 0; i < s->bytes; i++)
        s->table[i] = (uint8_t)(s->model[2 * i] + s->model[2 * i + 1] * 16);
}

/* 1 if the table is what the model says, and the guards are untouched. */
static inline int
scene_right(const struct scene *s)
{
    size_t i;

    for (i = 0; i < s->bytes; i++) {
        if (s->table[i] % 16 != s->model[2 * i]
            || s->table[i] / 16 != s->model[2 * i + 1])
            return 0;
    }
    for (i = 0; i < GUARD; i++) {
        if (s->room[i] != 0xa5 || s->table[s->bytes + i] != 0xa5)
            return 0;
    }
    return 1;
}

/* Counts the model, one counter after the other. */
static inline void
count_model(const struct scene *s, struct cbf_tally *t, uint64_t n[16])
{
    size_t i;

    memset(n, 0, 16 * sizeof n[0]);
    for (i = 0; i < s->bytes * 2; i++)
        n[s->model[i]]++;
    *t = (struct cbf_tally){
        .nonzero = s->bytes * 2 - n[0],
        .saturated = n[15],
    };
    for (i = 0; i < 16; i++)
        t->sum += n[i] * i;
}

static inline int
same_tally(const struct cbf_tally *a, const struct cbf_tally *b)
{
    return a->nonzero == b->nonzero && a->saturated == b->saturated
           && a->sum == b->sum;
}

#endif
