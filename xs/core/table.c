/*
 * table.c - work on the whole table: clear, merge, freeze, flush, and the
 * figures about it.
 *
 * No single items here, and no images (image.c).
 */
#include "access.h"

int
cbf_clear(struct cbf *f, struct cbf_error *e)
{
    int code = cbf_write_begin(f, e);

    if (code != CBF_OK)
        return code;
    /* recorded, and then finished just as a successor would finish it */
    cbf_journal_clear(cbf_header(f));
    cbf_journal_repair(&f->table);
    cbf_write_end(f);
    return CBF_OK;
}

/* ---- merge -------------------------------------------------------------- */

static int
same_shape(const struct cbf *f, const struct cbf *source,
           struct cbf_error *e)
{
    const struct cbf_geometry *a = cbf_geometry_of(f);
    const struct cbf_geometry *b = cbf_geometry_of(source);

    if (a->n_counters == b->n_counters && a->n_probes == b->n_probes)
        return CBF_OK;
    cbf_error_set(e, CBF_E_MISMATCH, NULL);
    e->n_counters[0] = a->n_counters;
    e->n_counters[1] = b->n_counters;
    e->n_probes[0] = a->n_probes;
    e->n_probes[1] = b->n_probes;
    return CBF_E_MISMATCH;
}

/*
 * Adds `bytes` bytes of counters at `at`, as one journaled step: the record
 * holds the totals of everything but this stretch, so a successor that finds
 * it pending counts the stretch as it is and has the totals right, without
 * looking at the rest of the table.
 */
static void
merge_block(struct cbf *f, const uint8_t *from, size_t at, size_t bytes,
            struct cbf_tally *all)
{
    struct cbf_fmt_header *hdr = cbf_header(f);
    uint8_t *into = f->table.counters + at;
    struct cbf_tally part;

    cbf_counter_tally(into, bytes, &part);
    cbf_tally_take(all, &part);
    cbf_journal_block(hdr, at / CBF_JOURNAL_BLOCK_BYTES, all);
    cbf_counter_merge(into, from + at, bytes);
    CBF_KILL_POINT("merge: block merged, totals old");
    cbf_counter_tally(into, bytes, &part);
    cbf_tally_add(all, &part);
    cbf_kill_fence();
    cbf_journal_tally_store(&hdr->tally, all);
    cbf_journal_done(hdr);
}

/* Nobody changes `from` meanwhile. */
static int
merge_from(struct cbf *f, const uint8_t *from, struct cbf_error *e)
{
    size_t total = f->table.counter_bytes;
    struct cbf_tally all;
    size_t at;
    size_t bytes;
    int code = cbf_write_begin(f, e);

    if (code != CBF_OK)
        return code;
    cbf_journal_tally_load(&cbf_header(f)->tally, &all);
    for (at = 0; at < total; at += bytes) {
        bytes = total - at;
        if (bytes > CBF_JOURNAL_BLOCK_BYTES)
            bytes = CBF_JOURNAL_BLOCK_BYTES;
        merge_block(f, from, at, bytes, &all);
    }
    cbf_write_end(f);
    return CBF_OK;
}

int
cbf_merge(struct cbf *f, struct cbf *source, struct cbf_error *e)
{
    uint8_t *copy;
    int code = same_shape(f, source, e);

    if (code != CBF_OK)
        return code;
    /* with itself: the write lock is the one consistent moment */
    if (source == f || cbf_frozen(source))
        return merge_from(f, source->counters, e);
    /* not worth a copy of the table if it must fail anyway */
    if (cbf_frozen(f) || cbf_readonly(f))
        return cbf_refuse_change(f, e);
    code = cbf_snapshot(source, &copy, NULL, e);
    if (code != CBF_OK)
        return code;
    code = merge_from(f, copy, e);
    cbf_snapshot_free(source, copy);
    return code;
}

/* ---- freeze and flush --------------------------------------------------- */

int
cbf_freeze(struct cbf *f, struct cbf_error *e)
{
    struct cbf_fmt_header *hdr = cbf_header(f);
    int code = cbf_exclusive_begin(f, e);

    if (code == CBF_E_FROZEN)
        return cbf_error_set(e, CBF_E_ALREADY_FROZEN, NULL);
    if (code != CBF_OK)
        return code;
    cbf_store64(&hdr->checksum, cbf_hash_checksum(f->counters,
                                                  f->table.counter_bytes));
    cbf_release64(&hdr->checksum_ops, cbf_load64(&hdr->ops) * 2 + 1);
    CBF_KILL_POINT("freeze: checksum stored");
    code = cbf_store_sync(&f->store, e);
    if (code == CBF_OK) {
        /* everything is on disk: now the seal may say so */
        cbf_release8(&hdr->seal, 1);
        CBF_KILL_POINT("freeze: sealed, not flushed");
        cbf_store32(&f->readonly, 1);
        code = cbf_store_sync_head(&f->store, sizeof *hdr, e);
    }
    cbf_write_end(f);
    return code;
}

int
cbf_sync(struct cbf *f, struct cbf_error *e)
{
    return cbf_store_sync(&f->store, e);
}

int
cbf_reserve(struct cbf *f, struct cbf_error *e)
{
    int code;

    if (cbf_frozen(f) || cbf_readonly(f))
        return cbf_refuse_change(f, e);
    /* the descriptor may be another file's by now */
    code = cbf_store_recheck(&f->store, e);
    return code == CBF_OK ? cbf_store_reserve(&f->store, e) : code;
}

/* ---- figures ------------------------------------------------------------ */

int
cbf_histogram(struct cbf *f, uint64_t n[16], struct cbf_error *e)
{
    enum cbf_scan how;
    int code = cbf_scan_begin(f, &how, e);

    if (code != CBF_OK)
        return code;
    cbf_counter_histogram(f->counters, f->table.counter_bytes, n);
    cbf_scan_end(f, how);
    return CBF_OK;
}

int
cbf_stats(struct cbf *f, struct cbf_stats *out, struct cbf_error *e)
{
    const struct cbf_geometry *g = cbf_geometry_of(f);
    struct cbf_tally t;
    uint64_t ops;
    int code = cbf_read_tally(f, &t, &ops, e);

    if (code != CBF_OK)
        return code;
    *out = (struct cbf_stats){
        .nonzero = t.nonzero,
        .saturated = t.saturated,
        .sum = t.sum,
        .count = cbf_geometry_count(g, t.nonzero),
        .ops = ops,
        .recovered = cbf_load32(&cbf_header(f)->recovered),
        .fp_now = cbf_geometry_fp_now(g, t.nonzero),
    };
    return CBF_OK;
}
