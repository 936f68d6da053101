/*
 * handle.h - the inside of struct cbf, for the files that join lock, table and
 * hash: cbf.c (open, close), access (when to lock), items.c (single items and
 * batches), table.c (whole-table work), image.c (copies and checksums).
 *
 * Geometry, offsets and the mapping's size are validated once and kept here;
 * nothing below reads them from the mapping again.
 */
#ifndef CBF_HANDLE_H
#define CBF_HANDLE_H

#include "cbf.h"
#include "counter.h"
#include "journal.h"
#include "lock.h"
#include "store.h"
#include "touch.h"

struct cbf {
    /* what point reads need comes first; constant after open */
    const uint8_t *counters;
    struct cbf_probe probe;

    struct cbf_journal_table table; /* the same for writers; constant */
    struct cbf_lock lock;
    struct cbf_touch touch;
    struct cbf_store store;
    uint32_t refs;     /* atomic */
    uint32_t readonly; /* never back to 0; atomic */
    uint32_t counted;  /* frozen_tally is valid; atomic */
    struct cbf_fmt_tally frozen_tally; /* of a frozen file without totals */
};

static inline struct cbf_fmt_header *
cbf_header(const struct cbf *f)
{
    return f->table.header;
}

static inline int
cbf_is_sealed(const struct cbf *f)
{
    return cbf_load8(&cbf_header(f)->seal) != 0;
}

/*
 * Nobody else has the table: what the words say is left over from processes
 * that are no more, from a copy, or from damage.  Finishes or undoes what they
 * were at, then zeroes the words.  Being killed here is one more leftover.
 */
void cbf_recover_alone(struct cbf *f);

#endif
