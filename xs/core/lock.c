/*
 * lock.c - taking and giving back the write lock and the shared lock.
 *
 * The protocol in one place; its parts stand in lock_slot.c, lock_holder.c and
 * lock_futex.c.  What the lock does not do: repair data, know journal or
 * counters, or read /proc.
 */
#include "lock_private.h"
#include "atomic.h"
#include <errno.h>
#include <limits.h>

/* ---- the write lock ----------------------------------------------------- */

/*
 * Sleeps, and looks at the holder: when it is time to, and in any case when a
 * signal has ended the sleep, for with signals often enough no sleep would
 * ever be full.  CBF_OK = go on, the word may be ours now (w->took_over).
 */
static int
write_sleep(struct cbf_lock *l, struct cbf_lock_wait *w, uint32_t seen)
{
    int error = cbf_lock_park(l->header, w, seen, CBF_FMT_PARKED_WRITERS,
                              CBF_FMT_PARKED_WRITER);

    if (error != ETIMEDOUT && error != EINTR)
        return CBF_OK;
    if ((error == EINTR || cbf_lock_time_to_look(w))
        && cbf_lock_examine_writer(l, w) != CBF_OK)
        return CBF_E_OWNER;
    if (w->took_over)
        return CBF_OK;
    if (error == EINTR)
        return cbf_error_set(w->e, CBF_E_INTERRUPTED, NULL);
    return cbf_lock_time_to_return(w) ? CBF_E_INTERRUPTED : CBF_OK;
}

/* Gets the word when the first try failed. */
static int
write_wait(struct cbf_lock *l, struct cbf_lock_wait *w)
{
    struct cbf_fmt_header *hdr = l->header;
    uint32_t mine = CBF_FMT_WRITER_HELD | w->self->pid;
    uint32_t seen;
    int code = CBF_OK;

    if (cbf_lock_hold_back(hdr) != 0 || cbf_lock_nap_if_hot(l) != 0) {
        cbf_lock_examine_writer(l, w);
        if (!w->took_over)
            code = cbf_error_set(w->e, CBF_E_INTERRUPTED, NULL);
    }
    while (code == CBF_OK && !w->took_over) {
        if (cbf_lock_spin(&hdr->writer)
            && cbf_swap_if32(&hdr->writer, 0, mine)) {
            cbf_lock_trust(l);
            break;
        }
        cbf_lock_forget_woken(&hdr->parked);
        seen = cbf_load32(&hdr->writer);
        if (seen != 0)
            code = write_sleep(l, w, seen);
    }
    cbf_lock_forget_woken(&hdr->parked);
    cbf_lock_end_turn(hdr, w);
    return code;
}

static enum cbf_lock_result
write_slow(struct cbf_lock *l, struct cbf_lock_wait *w)
{
    if (write_wait(l, w) != CBF_OK)
        return CBF_LOCK_FAILED;
    if (!w->took_over)
        return CBF_LOCK_HELD;
    return w->was_signed ? CBF_LOCK_TOOK_OVER : CBF_LOCK_TOOK_OVER_UNSIGNED;
}

/* Most scans are over in less than a system call takes. */
static uint32_t
spin_until_drained(const struct cbf_lock *l)
{
    int rounds = cbf_lock_spin_rounds();
    uint32_t at = cbf_lock_next_reader(l, 0);

    while (at != UINT32_MAX && rounds-- > 0) {
        cbf_spin_pause();
        at = cbf_lock_next_reader(l, 0);
    }
    return at;
}

/* Looks at all readers that are waited for, since many may have died at once.
 * CBF_OK, or CBF_E_OWNER. */
static int
examine_readers(struct cbf_lock *l, const struct cbf_lock_wait *w)
{
    uint32_t at = cbf_lock_next_reader(l, 0);
    uint32_t pid;
    int doubt = 0;

    for (; at != UINT32_MAX; at = cbf_lock_next_reader(l, at + 1)) {
        pid = cbf_load32(&l->slots[at].owner.part.pid);
        if (cbf_lock_examine_slot(l, at) != CBF_OWNER_UNSURE || doubt)
            continue;
        doubt = 1;
        if (cbf_lock_doubted_too_long(l, at))
            return cbf_lock_give_up(w, pid);
    }
    if (!doubt)
        cbf_lock_trust(l);
    return CBF_OK;
}

/* Sees to a slot's bit. */
static void
set_bit(struct cbf_lock *l, uint32_t at)
{
    uint64_t bit = (uint64_t)1 << (at % 64);

    if (!(cbf_acquire64(&l->bitmap[at / 64]) & bit))
        cbf_fetch_or64(&l->bitmap[at / 64], bit);
}

/*
 * With the word held and every reader gone: takes their slots' bits away, so
 * that a scan costs the next writer something and not all that follow.  A
 * reader on its way in may have seen its bit before; then it has raised `held`
 * before that, and gets the bit back.
 */
static void
forget_readers(struct cbf_lock *l)
{
    uint32_t i;
    uint32_t at;
    uint64_t bits;

    CBF_KILL_POINT("write: readers gone");
    for (i = 0; i < CBF_FMT_BITMAP_WORDS; i++) {
        bits = cbf_load64(&l->bitmap[i]);
        if (bits == 0)
            continue;
        cbf_fetch_and64(&l->bitmap[i], ~bits);
        CBF_KILL_POINT("write: bits cleared");
        for (; bits != 0; bits &= bits - 1) {
            at = i * 64 + (uint32_t)__builtin_ctzll(bits);
            if (cbf_acquire32(&l->slots[at].owner.part.held) != 0)
                set_bit(l, at);
        }
    }
}

/* After a takeover, since the dead may have been in the middle of that. */
static void
remember_readers(struct cbf_lock *l)
{
    uint32_t at;

    for (at = 0; at < CBF_FMT_SLOTS; at++)
        if (cbf_acquire32(&l->slots[at].owner.part.held) != 0)
            set_bit(l, at);
}

/* Waits until no reader holds the lock; we hold the word.  0 or a code. */
static int
drain_readers(struct cbf_lock *l, struct cbf_lock_wait *w)
{
    uint32_t seen;
    uint32_t at;
    int error;

    for (;;) {
        seen = cbf_acquire32(&l->header->drain);
        at = spin_until_drained(l);
        if (at == UINT32_MAX) {
            forget_readers(l);
            return CBF_OK;
        }
        error = cbf_lock_sleep(&l->header->drain, seen, CBF_LOCK_PARK_NS);
        if (error != ETIMEDOUT && error != EINTR)
            continue;
        if ((error == EINTR || cbf_lock_time_to_look(w))
            && examine_readers(l, w) != CBF_OK)
            return CBF_E_OWNER;
        if (error == EINTR)
            return cbf_error_set(w->e, CBF_E_INTERRUPTED, NULL);
        if (cbf_lock_time_to_return(w))
            return CBF_E_INTERRUPTED;
    }
}

int
cbf_lock_drain(struct cbf_lock *l, const struct cbf_owner *self,
               struct cbf_error *e)
{
    struct cbf_lock_wait w = { .self = self, .e = e };
    int code = drain_readers(l, &w);

    if (code != CBF_OK)
        cbf_lock_write_done(l);
    return code;
}

enum cbf_lock_result
cbf_lock_write(struct cbf_lock *l, const struct cbf_owner *self,
               struct cbf_error *e)
{
    struct cbf_lock_wait w = { .self = self, .e = e };
    enum cbf_lock_result result = CBF_LOCK_HELD;

    if (!cbf_lock_try_write(l, self)) {
        result = write_slow(l, &w);
        if (result == CBF_LOCK_FAILED)
            return result;
        cbf_lock_sign(l->header, self);
        if (result != CBF_LOCK_HELD)
            remember_readers(l);
    }
    if (cbf_lock_scanned(l) && cbf_lock_drain(l, self, e) != CBF_OK)
        return CBF_LOCK_FAILED;
    return result;
}

/* ---- the shared lock ---------------------------------------------------- */

/* Looks at the writer that a reader waits for.  HELD stands for "wait on". */
static enum cbf_lock_result
examine_for_reader(struct cbf_lock *l, const struct cbf_lock_wait *w)
{
    uint32_t writer = cbf_acquire32(&l->header->writer);

    if (writer == 0)
        return CBF_LOCK_HELD;
    switch (cbf_lock_judge_writer(l, writer)) {
    case CBF_OWNER_DEAD:
        return CBF_LOCK_DEAD_WRITER;
    case CBF_OWNER_ALIVE:
        cbf_lock_trust(l);
        return CBF_LOCK_HELD;
    default:
        if (!cbf_lock_doubted_too_long(l, writer))
            return CBF_LOCK_HELD;
        cbf_lock_give_up(w, writer & ~CBF_FMT_WRITER_HELD);
        return CBF_LOCK_FAILED;
    }
}

/* Sleeps, and looks at the writer, as write_sleep does; HELD = go on. */
static enum cbf_lock_result
read_sleep(struct cbf_lock *l, struct cbf_lock_wait *w, uint32_t seen)
{
    enum cbf_lock_result result = CBF_LOCK_HELD;
    int error = cbf_lock_park(l->header, w, seen, CBF_FMT_PARKED_READERS,
                              CBF_FMT_PARKED_READER);

    if (error != ETIMEDOUT && error != EINTR)
        return result;
    if (error == EINTR || cbf_lock_time_to_look(w))
        result = examine_for_reader(l, w);
    if (result != CBF_LOCK_HELD)
        return result;
    if (error == EINTR) {
        cbf_error_set(w->e, CBF_E_INTERRUPTED, NULL);
        return CBF_LOCK_FAILED;
    }
    return cbf_lock_time_to_return(w) ? CBF_LOCK_FAILED : CBF_LOCK_HELD;
}

/* Waits until no writer is there; HELD stands for that. */
static enum cbf_lock_result
read_wait(struct cbf_lock *l, struct cbf_lock_wait *w)
{
    enum cbf_lock_result result = CBF_LOCK_HELD;
    uint32_t seen;

    while (result == CBF_LOCK_HELD && !cbf_lock_spin(&l->header->writer)) {
        seen = cbf_load32(&l->header->writer);
        if (seen != 0)
            result = read_sleep(l, w, seen);
    }
    if (result == CBF_LOCK_HELD)
        cbf_lock_trust(l);
    return result;
}

/* Leaves a slot's shared lock, and tells a writer that waits for it. */
static void
read_leave(struct cbf_lock *l, uint32_t at)
{
    cbf_fetch_sub32(&l->slots[at].owner.part.held, 1);
    if (cbf_acquire32(&l->header->writer) == 0)
        return;
    cbf_fetch_add32(&l->header->drain, 1);
    cbf_lock_rouse(&l->header->drain, INT_MAX);
}

/* One try: raises `held`, sees to the slot's bit, and looks for a writer, who
 * is given way to.  1 if the lock is held. */
static int
read_enter(struct cbf_lock *l, uint32_t at)
{
    cbf_fetch_add32(&l->slots[at].owner.part.held, 1);
    CBF_KILL_POINT("read: held raised");
    set_bit(l, at);
    CBF_KILL_POINT("read: bit set");
    if (cbf_acquire32(&l->header->writer) == 0)
        return 1;
    read_leave(l, at);
    return 0;
}

enum cbf_lock_result
cbf_lock_read(struct cbf_lock *l, const struct cbf_owner *self,
              struct cbf_error *e)
{
    struct cbf_lock_wait w = { .self = self, .e = e };
    uint32_t at = cbf_lock_own_slot(l, self);
    enum cbf_lock_result result = CBF_LOCK_HELD;

    if (at == UINT32_MAX)
        return CBF_LOCK_NO_READ_SLOT;
    while (result == CBF_LOCK_HELD && !read_enter(l, at))
        result = read_wait(l, &w);
    cbf_lock_end_turn(l->header, &w);
    return result;
}

void
cbf_lock_read_done(struct cbf_lock *l)
{
    read_leave(l, cbf_lock_slot_of(cbf_acquire64(&l->registration)));
}

/* ---- open and close ----------------------------------------------------- */

void
cbf_lock_init(struct cbf_lock *l, void *base)
{
    char *bytes = base;

    *l = (struct cbf_lock){
        .header = base,
        .slots = (void *)(bytes + CBF_FMT_SLOTS_OFFSET),
        .bitmap = (void *)(bytes + CBF_FMT_BITMAP_OFFSET),
    };
}

int
cbf_lock_signed(const struct cbf_lock *l)
{
    uint32_t writer = cbf_load32(&l->header->writer);

    return writer != 0
           && writer
                  == (CBF_FMT_WRITER_HELD
                      | cbf_load32(&l->header->writer_pid));
}

void
cbf_lock_reset(struct cbf_lock *l)
{
    uint32_t i;

    for (i = 0; i < CBF_FMT_SLOTS; i++) {
        if (cbf_load64(&l->slots[i].owner.both) != 0)
            cbf_store64(&l->slots[i].owner.both, 0);
        if (cbf_load64(&l->slots[i].id) != 0)
            cbf_store64(&l->slots[i].id, 0);
    }
    for (i = 0; i < CBF_FMT_BITMAP_WORDS; i++)
        cbf_store64(&l->bitmap[i], 0);
    cbf_store64(&l->header->writer_id, 0);
    cbf_store32(&l->header->writer_pid, 0);
    cbf_store32(&l->header->parked, 0);
    cbf_store32(&l->header->drain, 0);
    cbf_store32(&l->header->slotless, 0);
    /* last, so that being killed here leaves a lock to be reset */
    cbf_release32(&l->header->writer, 0);
}
