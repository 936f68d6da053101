/*
 * store_last.h - for tests of who leaves a file as the last: a file "f" and
 * the function that the last one calls.
 *
 * "Last" is counted in memory that all processes of a test share.
 */
#ifndef STORE_LAST_H
#define STORE_LAST_H

#include "store_help.h"

struct seen {
    unsigned calls;     /* of last() */
    unsigned exclusive; /* ... in which nobody else could lock the file */
};

static struct seen *seen;

/* What a caller does: changes words in the header, and here counts. */
static void
last(void *base)
{
    seen->calls++;
    seen->exclusive += !flock_free("f", LOCK_SH);
    ((uint8_t *)base)[16767]++;
}

static void
fresh_file(void)
{
    unlink("f");
    spew("f", good, SMALL_BYTES);
    memset(seen, 0, sizeof *seen);
}

static void
open_shared(struct cbf_store *s)
{
    struct cbf_error e;

    if (cbf_store_open(s, "f", &small_plan, 0600, &e) != CBF_OK
        || cbf_store_share(s, &e) != CBF_OK)
        give_up("f");
}

#endif
