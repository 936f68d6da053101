/*
 * journal.h - the record that lets a half-done change be undone or finished.
 *
 * Lives in one cache line of the header and is written under the write lock
 * only.  A change that can't be one store goes:
 *
 *   record what was   cbf_journal_item / _block / _clear
 *   change counters, then tallies
 *   cbf_journal_done
 *
 * and whoever finds a record pending puts things right with
 * cbf_journal_repair, which may itself be killed and repeated.  Knows
 * counters; no lock, no file.
 */
#ifndef CBF_JOURNAL_H
#define CBF_JOURNAL_H

#include "counter.h"
#include "format.h"
#include "hash.h"
#include "killpoint.h"
#include <stdint.h>

#define CBF_JOURNAL_KIND_BITS 3
#define CBF_JOURNAL_ITEM 1u  /* undo: write the old values back */
#define CBF_JOURNAL_BLOCK 2u /* a merge's block: count it anew, keep it */
#define CBF_JOURNAL_CLEAR 3u /* finish: all counters 0 */

/* Counters in a merge are journaled by blocks of this many bytes. */
#define CBF_JOURNAL_BLOCK_BYTES ((size_t)32768)

/* The table a record speaks of. */
struct cbf_journal_table {
    struct cbf_fmt_header *header;
    uint8_t *counters;
    size_t counter_bytes;
    struct cbf_probe probe;
};

/* Private totals from and to shared memory: the header's own (the stamp is
 * left alone), or those of a record. */
static inline void
cbf_journal_tally_load(const struct cbf_fmt_tally *from, struct cbf_tally *t)
{
    t->nonzero = cbf_load64(&from->nonzero);
    t->saturated = cbf_load64(&from->saturated);
    t->sum = cbf_load64(&from->sum);
}

static inline void
cbf_journal_tally_store(struct cbf_fmt_tally *to, const struct cbf_tally *t)
{
    cbf_store64(&to->nonzero, t->nonzero);
    CBF_KILL_POINT("tally: nonzero stored");
    cbf_store64(&to->saturated, t->saturated);
    cbf_store64(&to->sum, t->sum);
}

/* Whether the totals in the header are those of the counters. */
static inline int
cbf_journal_tally_valid(const struct cbf_fmt_header *hdr)
{
    return cbf_load64(&hdr->tally_ops) == cbf_load64(&hdr->ops);
}

/*
 * Counts one mutator call; the totals are valid, and stay so.  Killed in
 * between, the stamp says that they are valid for `ops` as it then is, if
 * nobody else has had the table since: cbf_journal_restamp.
 */
static inline void
cbf_journal_count_call(struct cbf_fmt_header *hdr)
{
    uint64_t ops = cbf_load64(&hdr->ops) + 1;

    cbf_release64(&hdr->tally_ops, CBF_FMT_IN_FLIGHT | ops);
    cbf_kill_fence();
    CBF_KILL_POINT("call: stamp in flight");
    cbf_release64(&hdr->ops, ops);
    cbf_kill_fence();
    CBF_KILL_POINT("call: counted, stamp in flight");
    cbf_release64(&hdr->tally_ops, ops);
    cbf_kill_fence();
    CBF_KILL_POINT("call: counted");
}

/* For who comes right after a dead process of this release, and knows it. */
void cbf_journal_restamp(struct cbf_fmt_header *hdr);

/*
 * Around changes that are not recorded because they may stay half done: in
 * between the totals count as out of date, so that a successor counts anew.
 */
static inline void
cbf_journal_tally_suspend(struct cbf_fmt_header *hdr)
{
    cbf_store64(&hdr->tally_ops, UINT64_MAX);
    cbf_kill_fence();
    CBF_KILL_POINT("tally: suspended");
}

/* t: the totals by now. */
static inline void
cbf_journal_tally_resume(struct cbf_fmt_header *hdr,
                         const struct cbf_tally *t)
{
    cbf_kill_fence();
    cbf_journal_tally_store(&hdr->tally, t);
    CBF_KILL_POINT("tally: stored, still suspended");
    cbf_kill_fence();
    cbf_release64(&hdr->tally_ops, cbf_load64(&hdr->ops));
}

/* Counts the whole table and makes the totals valid.  O(table). */
void cbf_journal_recount(const struct cbf_journal_table *t);

/* The store that makes a record count, after all its fields. */
static inline void
cbf_journal_begin(struct cbf_fmt_header *hdr, unsigned kind)
{
    cbf_kill_fence();
    CBF_KILL_POINT("journal: record written, not pending");
    cbf_release64(&hdr->journal.state,
                  cbf_load64(&hdr->ops) << CBF_JOURNAL_KIND_BITS | kind);
    cbf_kill_fence();
    CBF_KILL_POINT("journal: pending");
}

/* Begins an item; *tally is the state before; old = probe values packed as in
 * the format. */
static inline void
cbf_journal_item(struct cbf_fmt_header *hdr, struct cbf_hash h,
                 const uint64_t old[2], const struct cbf_tally *tally)
{
    struct cbf_fmt_journal *j = &hdr->journal;

    cbf_store64(&j->lo, h.lo);
    cbf_store64(&j->hi, h.hi);
    cbf_store64(&j->old[0], old[0]);
    cbf_store64(&j->old[1], old[1]);
    cbf_journal_tally_store(&j->tally, tally);
    cbf_journal_begin(hdr, CBF_JOURNAL_ITEM);
}

/* Begins a block of a merge, *without being the totals without that block, and
 * a clear. */
void cbf_journal_block(struct cbf_fmt_header *hdr, uint64_t block,
                       const struct cbf_tally *without);
void cbf_journal_clear(struct cbf_fmt_header *hdr);

/* Ends it: the change and the totals are complete. */
static inline void
cbf_journal_done(struct cbf_fmt_header *hdr)
{
    cbf_kill_fence();
    CBF_KILL_POINT("journal: change complete, still pending");
    cbf_release64(&hdr->journal.state, 0);
    cbf_kill_fence();
    CBF_KILL_POINT("journal: done");
}

/* 1 if a record of this release is pending that `ops` has not outdated. */
int cbf_journal_pending(const struct cbf_fmt_header *hdr);

/*
 * Undoes or finishes what is pending, if anything.  Idempotent: being killed
 * inside it is one more repair.  Any content of the record is safe: positions
 * and blocks stay inside the table.
 */
void cbf_journal_repair(const struct cbf_journal_table *t);

#endif
