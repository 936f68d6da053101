/*
 * journal.c - recording, ending and repairing half-done changes.
 *
 * All of it happens under the write lock.  The order of stores is what counts:
 * a SIGKILL may fall between any two of them, so every order that matters is
 * held by a fence against the compiler.  The processor needs none: who repairs
 * has learnt of the death, or been handed the lock, through the kernel or
 * through a release of the lock word.
 */
#include "journal.h"
#include "atomic.h"
#include "killpoint.h"

void
cbf_journal_restamp(struct cbf_fmt_header *hdr)
{
    uint64_t ops = cbf_load64(&hdr->ops);
    uint64_t stamp = cbf_load64(&hdr->tally_ops);

    if (stamp == (CBF_FMT_IN_FLIGHT | ops)
        || stamp == (CBF_FMT_IN_FLIGHT | (ops + 1)))
        cbf_release64(&hdr->tally_ops, ops);
}

void
cbf_journal_recount(const struct cbf_journal_table *t)
{
    struct cbf_tally tally;

    cbf_journal_tally_suspend(t->header);
    cbf_counter_tally(t->counters, t->counter_bytes, &tally);
    cbf_journal_tally_resume(t->header, &tally);
}

void
cbf_journal_block(struct cbf_fmt_header *hdr, uint64_t block,
                  const struct cbf_tally *without)
{
    cbf_store64(&hdr->journal.lo, block);
    cbf_journal_tally_store(&hdr->journal.tally, without);
    cbf_journal_begin(hdr, CBF_JOURNAL_BLOCK);
}

void
cbf_journal_clear(struct cbf_fmt_header *hdr)
{
    cbf_journal_begin(hdr, CBF_JOURNAL_CLEAR);
}

int
cbf_journal_pending(const struct cbf_fmt_header *hdr)
{
    uint64_t state = cbf_load64(&hdr->journal.state);
    unsigned kind = state & ((1u << CBF_JOURNAL_KIND_BITS) - 1);

    return kind >= CBF_JOURNAL_ITEM && kind <= CBF_JOURNAL_CLEAR
           && state == (cbf_load64(&hdr->ops) << CBF_JOURNAL_KIND_BITS | kind);
}

/* ---- repair ------------------------------------------------------------- */

static void
undo_item(const struct cbf_journal_table *t)
{
    const struct cbf_fmt_journal *j = &t->header->journal;
    struct cbf_hash h = { cbf_load64(&j->lo), cbf_load64(&j->hi) };
    uint64_t old[2] = { cbf_load64(&j->old[0]), cbf_load64(&j->old[1]) };
    struct cbf_tally tally;
    uint64_t at;
    unsigned value;
    uint32_t i;

    for (i = 0; i < t->probe.n_probes; i++) {
        at = cbf_probe_position(&t->probe, h, i);
        value = (old[i / 16] >> (i % 16 * 4)) & CBF_COUNTER_MAX;
        /* a process that died of a full disk could not write this page, and
         * neither could we */
        if (cbf_counter_get(t->counters, at) != value)
            cbf_counter_set(t->counters, at, value);
        CBF_KILL_POINT("repair: one counter restored");
    }
    /* whatever a damaged file has there is what count and stats will say, and
     * nothing else depends on it */
    cbf_journal_tally_load(&j->tally, &tally);
    cbf_journal_tally_store(&t->header->tally, &tally);
}

/* A merge's block is as far as it got; what it adds to the totals is counted
 * again. */
static void
keep_block(const struct cbf_journal_table *t)
{
    const struct cbf_fmt_journal *j = &t->header->journal;
    uint64_t block = cbf_load64(&j->lo);
    uint64_t n_blocks = (t->counter_bytes + CBF_JOURNAL_BLOCK_BYTES - 1)
                        / CBF_JOURNAL_BLOCK_BYTES;
    size_t at;
    size_t left;
    struct cbf_tally all;
    struct cbf_tally part;

    if (block >= n_blocks)
        return;
    at = (size_t)block * CBF_JOURNAL_BLOCK_BYTES;
    left = t->counter_bytes - at;
    if (left > CBF_JOURNAL_BLOCK_BYTES)
        left = CBF_JOURNAL_BLOCK_BYTES;
    cbf_journal_tally_load(&j->tally, &all);
    cbf_counter_tally(t->counters + at, left, &part);
    cbf_tally_add(&all, &part);
    cbf_journal_tally_store(&t->header->tally, &all);
}

static void
finish_clear(const struct cbf_journal_table *t)
{
    struct cbf_tally none = { 0, 0, 0 };

    cbf_counter_clear(t->counters, t->counter_bytes);
    cbf_journal_tally_store(&t->header->tally, &none);
}

void
cbf_journal_repair(const struct cbf_journal_table *t)
{
    if (cbf_journal_pending(t->header)) {
        switch (cbf_load64(&t->header->journal.state)
                & ((1u << CBF_JOURNAL_KIND_BITS) - 1)) {
        case CBF_JOURNAL_ITEM:
            undo_item(t);
            break;
        case CBF_JOURNAL_BLOCK:
            keep_block(t);
            break;
        case CBF_JOURNAL_CLEAR:
            finish_clear(t);
            break;
        }
    }
    CBF_KILL_POINT("repair: restored, still pending");
    cbf_journal_done(t->header);
}
