/*
 * access.c - the unusual cases of access.h, and the shared side.
 *
 * The single place where a takeover leads to a repair.  No counter changes
 * here but by the journal's repair.
 */
#include "access.h"
#include "memory.h"
#include <string.h>

/*
 * Once for each process that locks.  One that got the handle by fork may have
 * closed its descriptors, so the store looks; then the lock gets to know it.
 */
static int
introduce(struct cbf *f, const struct cbf_owner *self, struct cbf_error *e)
{
    int code = cbf_store_recheck(&f->store, e);

    if (code != CBF_OK)
        return code;
    cbf_lock_register(&f->lock, self);
    cbf_touch_anew(&f->touch);
    return CBF_OK;
}

/*
 * With the write lock held and the readers gone: everything as if nobody had
 * ever died.  Totals that are out of date, because an older release has
 * changed the table, are counted anew.
 */
static void
put_right(struct cbf *f, enum cbf_lock_result how)
{
    struct cbf_fmt_header *hdr = cbf_header(f);

    if (cbf_load64(&hdr->journal.state) != 0)
        cbf_journal_repair(&f->table);
    if (how == CBF_LOCK_TOOK_OVER)
        cbf_journal_restamp(hdr);
    if (!cbf_journal_tally_valid(hdr))
        cbf_journal_recount(&f->table);
}

int
cbf_refuse_change(const struct cbf *f, struct cbf_error *e)
{
    return cbf_error_set(
        e, cbf_readonly(f) ? CBF_E_READONLY : CBF_E_FROZEN, NULL);
}

/* With the write lock held and the readers gone. */
static int
settle(struct cbf *f, enum cbf_lock_result how, struct cbf_error *e)
{
    /* only now is it sure that nobody seals it any more */
    if (cbf_is_sealed(f)) {
        cbf_lock_write_done(&f->lock);
        return cbf_refuse_change(f, e);
    }
    put_right(f, how);
    return CBF_OK;
}

int
cbf_exclusive_begin(struct cbf *f, struct cbf_error *e)
{
    const struct cbf_owner *self = cbf_owner_self();
    enum cbf_lock_result how;

    if (cbf_load32(&f->readonly) || cbf_is_sealed(f))
        return cbf_refuse_change(f, e);
    if (!cbf_lock_knows(&f->lock, self) && introduce(f, self, e) != CBF_OK)
        return e->code;
    how = cbf_lock_write(&f->lock, self, e);
    if (how == CBF_LOCK_FAILED)
        return e->code;
    return settle(f, how, e);
}

int
cbf_write_begin_slow(struct cbf *f, struct cbf_error *e)
{
    int code = cbf_exclusive_begin(f, e);

    if (code == CBF_OK)
        cbf_journal_count_call(cbf_header(f));
    return code;
}

int
cbf_write_settle(struct cbf *f, const struct cbf_owner *self,
                 struct cbf_error *e)
{
    int code = CBF_OK;

    if (cbf_lock_scanned(&f->lock))
        code = cbf_lock_drain(&f->lock, self, e);
    if (code == CBF_OK)
        code = settle(f, CBF_LOCK_HELD, e);
    if (code == CBF_OK)
        cbf_journal_count_call(cbf_header(f));
    return code;
}

/* Scans by the write lock: when no reader slot is free.  Sealed meanwhile is
 * no failure but makes it simpler. */
static int
scan_exclusive(struct cbf *f, enum cbf_scan *how, struct cbf_error *e)
{
    int code = cbf_exclusive_begin(f, e);

    *how = CBF_SCAN_EXCLUSIVE;
    if (code == CBF_E_FROZEN || code == CBF_E_READONLY) {
        *how = CBF_SCAN_FREE;
        return CBF_OK;
    }
    return code;
}

/* Takes the write lock for a moment, so that a dead writer's work is done. */
static int
bury_writer(struct cbf *f, struct cbf_error *e)
{
    enum cbf_scan how;
    int code = scan_exclusive(f, &how, e);

    if (code == CBF_OK)
        cbf_scan_end(f, how);
    return code;
}

int
cbf_scan_begin(struct cbf *f, enum cbf_scan *how, struct cbf_error *e)
{
    const struct cbf_owner *self = cbf_owner_self();
    int code;

    for (;;) {
        if (cbf_load32(&f->readonly) || cbf_is_sealed(f)) {
            *how = CBF_SCAN_FREE;
            return CBF_OK;
        }
        if (!cbf_lock_knows(&f->lock, self)
            && introduce(f, self, e) != CBF_OK)
            return e->code;
        switch (cbf_lock_read(&f->lock, self, e)) {
        case CBF_LOCK_FAILED:
            return e->code;
        case CBF_LOCK_NO_READ_SLOT:
            return scan_exclusive(f, how, e);
        case CBF_LOCK_DEAD_WRITER:
            break;
        default:
            /* a taker-over that gave up again leaves the record pending */
            if (!cbf_journal_pending(cbf_header(f))) {
                *how = CBF_SCAN_SHARED;
                return CBF_OK;
            }
            cbf_lock_read_done(&f->lock);
        }
        code = bury_writer(f, e);
        if (code != CBF_OK)
            return code;
    }
}

void
cbf_scan_end(struct cbf *f, enum cbf_scan how)
{
    if (how == CBF_SCAN_SHARED)
        cbf_lock_read_done(&f->lock);
    else if (how == CBF_SCAN_EXCLUSIVE)
        cbf_lock_write_done(&f->lock);
}

/* A frozen filter never changes, so its totals are counted once a handle, if
 * the release that froze it kept none.  Two threads may both count; they get
 * the same. */
static void
frozen_tally(struct cbf *f, struct cbf_tally *t)
{
    if (cbf_journal_tally_valid(cbf_header(f))) {
        cbf_journal_tally_load(&cbf_header(f)->tally, t);
        return;
    }
    if (!cbf_acquire32(&f->counted)) {
        cbf_counter_tally(f->counters, f->table.counter_bytes, t);
        cbf_journal_tally_store(&f->frozen_tally, t);
        cbf_release32(&f->counted, 1);
    }
    cbf_journal_tally_load(&f->frozen_tally, t);
}

int
cbf_read_tally(struct cbf *f, struct cbf_tally *t, uint64_t *ops,
               struct cbf_error *e)
{
    enum cbf_scan how;
    int code = cbf_scan_begin(f, &how, e);

    if (code != CBF_OK)
        return code;
    if (how == CBF_SCAN_SHARED && !cbf_journal_tally_valid(cbf_header(f))) {
        /* storing a new count needs the write lock */
        cbf_scan_end(f, how);
        code = scan_exclusive(f, &how, e);
        if (code != CBF_OK)
            return code;
    }
    if (how == CBF_SCAN_FREE)
        frozen_tally(f, t);
    else
        cbf_journal_tally_load(&cbf_header(f)->tally, t);
    *ops = cbf_load64(&cbf_header(f)->ops);
    cbf_scan_end(f, how);
    return CBF_OK;
}

int
cbf_snapshot(struct cbf *f, uint8_t **copy, uint64_t *ops,
             struct cbf_error *e)
{
    uint8_t *memory = cbf_memory_new(f->table.counter_bytes);
    enum cbf_scan how;
    int code;

    if (!memory)
        return cbf_error_set(e, CBF_E_MEMORY, "a snapshot of the counters");
    code = cbf_scan_begin(f, &how, e);
    if (code != CBF_OK) {
        cbf_snapshot_free(f, memory);
        return code;
    }
    memcpy(memory, f->counters, f->table.counter_bytes);
    if (ops)
        *ops = cbf_load64(&cbf_header(f)->ops);
    cbf_scan_end(f, how);
    *copy = memory;
    return CBF_OK;
}

void
cbf_snapshot_free(const struct cbf *f, uint8_t *copy)
{
    cbf_memory_free(copy, f->table.counter_bytes);
}
