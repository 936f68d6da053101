/*
 * storm_calls.h - for storm.c: the calls that a worker makes up, and what they
 * do to the number of its items.
 *
 * Knows nothing of kills.
 */
#ifndef STORM_CALLS_H
#define STORM_CALLS_H

#include "storm.h"

#define ITEMS 48u     /* of each worker */
#define TIMES_MAX 2u  /* an item is in at most this often */
#define BATCH_MAX 12u

enum kind { ADD, REMOVE, IF_ABSENT, ADD_MANY, REMOVE_MANY, IF_ABSENT_MANY,
            SYNC, LOOK };

struct call {
    uint8_t kind;
    uint8_t n;
    uint8_t item[BATCH_MAX];
};

/* Makes up the next call, of what may be added or is there to be removed. */
static struct call
next_call(const uint8_t count[ITEMS])
{
    unsigned dice = storm_random(100);
    struct call c = { .kind = LOOK };
    unsigned want = 1 + storm_random(BATCH_MAX);
    uint8_t now[ITEMS];
    unsigned tries;

    memcpy(now, count, sizeof now);
    c.kind = dice < 25 ? ADD : dice < 50 ? REMOVE : dice < 55 ? IF_ABSENT
             : dice < 73 ? ADD_MANY : dice < 91 ? REMOVE_MANY
             : dice < 95 ? IF_ABSENT_MANY : dice < 96 ? SYNC : LOOK;
    if (c.kind == SYNC || c.kind == LOOK)
        return c;
    if (c.kind <= IF_ABSENT)
        want = 1;
    for (tries = 0; c.n < want && tries < 40; tries++) {
        uint8_t i = (uint8_t)storm_random(ITEMS);
        int down = c.kind == REMOVE || c.kind == REMOVE_MANY;

        /* whether others' items cover an absent one is not known here */
        if (down ? now[i] == 0 : now[i] >= TIMES_MAX)
            continue;
        if ((c.kind == IF_ABSENT || c.kind == IF_ABSENT_MANY) && !now[i])
            continue;
        now[i] = (uint8_t)(now[i] + (down ? -1 : c.kind == ADD
                                                || c.kind == ADD_MANY));
        c.item[c.n++] = i;
    }
    if (c.n == 0)
        c.kind = LOOK;
    return c;
}

/* What a call does to the number of an item. */
static int
effect(const struct call *c)
{
    switch (c->kind) {
    case ADD:
    case ADD_MANY:
        return 1;
    case REMOVE:
    case REMOVE_MANY:
        return -1;
    default: /* of what is there already, add_if_absent adds nothing */
        return 0;
    }
}

static int
perform(struct cbf *f, const struct call *c, const struct cbf_hash own[ITEMS],
        unsigned me)
{
    struct cbf_hash h[BATCH_MAX];
    struct cbf_stats s;
    struct cbf_error e;
    char text[48];
    int changed = 0;
    size_t n = 0;
    int len = snprintf(text, sizeof text, "w-%u-%u", me, c->item[0]);
    unsigned i;

    for (i = 0; i < c->n; i++)
        h[i] = own[c->item[i]];
    switch (c->kind) {
    case ADD:
        return cbf_add(f, text, (size_t)len, &changed, &e) != 0;
    case REMOVE:
        return cbf_remove(f, text, (size_t)len, &changed, &e) || !changed;
    case IF_ABSENT:
        return cbf_add_if_absent(f, text, (size_t)len, &changed, &e)
               || changed;
    case ADD_MANY:
        return cbf_add_many(f, h, c->n, &n, &e) != 0;
    case REMOVE_MANY:
        return cbf_remove_many(f, h, c->n, &n, &e) || n != c->n;
    case IF_ABSENT_MANY:
        return cbf_add_if_absent_many(f, h, c->n, NULL, &n, &e) || n;
    case SYNC:
        return cbf_sync(f, &e) != 0;
    default:
        return cbf_stats(f, &s, &e)
               || s.sum % cbf_geometry_of(f)->n_probes != 0;
    }
}

/* Nothing that this worker has in the table may ever be missing. */
static int
misses(const struct cbf *f, unsigned me, const uint8_t count[ITEMS])
{
    char text[48];
    unsigned i = storm_random(ITEMS);
    int len = snprintf(text, sizeof text, "w-%u-%u", me, i);

    return count[i] > 0 && cbf_count_of(f, text, (size_t)len) < count[i];
}

#endif
