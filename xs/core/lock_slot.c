/*
 * lock_slot.c - the slots: one for each process that locks.
 *
 * A slot carries the identity of its process, for those who must judge it, and
 * the shared locks it holds.  Claiming starts with the identity and leaving
 * ends with it, so that a pid never stands in a slot without one.
 */
#include "lock_private.h"
#include "atomic.h"

/*
 * Claims a free slot for this process.  The identity is swapped in first and
 * the pid follows, for a pid without its identity could be misjudged from
 * another namespace.  Killed in between, the slot stays taken until the words
 * are reset; nobody waits for it.  Index, or UINT32_MAX.
 */
static uint32_t
claim_slot(struct cbf_lock *l, const struct cbf_owner *self)
{
    struct cbf_fmt_slot *s;
    uint32_t start = (self->pid * 0x9E3779B1u) % CBF_FMT_SLOTS;
    uint32_t i;
    uint32_t at;

    for (i = 0; i < CBF_FMT_SLOTS; i++) {
        at = (start + i) % CBF_FMT_SLOTS;
        s = &l->slots[at];
        if (cbf_load64(&s->id) != CBF_OWNER_NONE
            || cbf_load64(&s->owner.both) != 0)
            continue;
        if (!cbf_swap_if64(&s->id, CBF_OWNER_NONE, self->id))
            continue;
        CBF_KILL_POINT("slot: identity without pid");
        cbf_release32(&s->owner.part.pid, self->pid);
        return at;
    }
    return UINT32_MAX;
}

static void
free_slot(struct cbf_lock *l, uint32_t at)
{
    struct cbf_fmt_slot *s = &l->slots[at];

    cbf_fetch_and64(&l->bitmap[at / 64], ~((uint64_t)1 << (at % 64)));
    cbf_release64(&s->owner.both, 0);
    CBF_KILL_POINT("slot: pid gone, identity left");
    cbf_release64(&s->id, CBF_OWNER_NONE);
}

/*
 * Frees a slot whose process was judged dead.  Swapping the identity for the
 * reserved value makes us the only one to do so; if the slot was freed and
 * claimed by a living process in the meantime, its pid differs (or its
 * identity does, and the swap fails), and it gets its identity back.
 */
static void
reap_slot(struct cbf_lock *l, uint32_t at, uint64_t both, uint64_t id)
{
    struct cbf_fmt_slot *s = &l->slots[at];
    uint32_t pid = (uint32_t)both;

    if (id == CBF_OWNER_NONE || id == CBF_OWNER_RESERVED) {
        /* nobody of this release, or one who died here: the locks at least
         * are nobody's */
        cbf_swap_if64(&s->owner.both, both, 0);
        return;
    }
    if (!cbf_swap_if64(&s->id, id, CBF_OWNER_RESERVED))
        return;
    if (cbf_acquire32(&s->owner.part.pid) != pid) {
        cbf_swap_if64(&s->id, CBF_OWNER_RESERVED, id);
        return;
    }
    CBF_KILL_POINT("slot: reserved for reaping");
    free_slot(l, at);
}

/* Judges the process in slot `at`; a dead one loses it. */
enum cbf_owner_state
cbf_lock_examine_slot(struct cbf_lock *l, uint32_t at)
{
    uint64_t id = cbf_acquire64(&l->slots[at].id);
    uint64_t both = cbf_acquire64(&l->slots[at].owner.both);
    enum cbf_owner_state state = cbf_owner_judge((uint32_t)both, id);

    if (state == CBF_OWNER_DEAD)
        reap_slot(l, at, both, id);
    return state;
}

/* Looks for slots of dead processes when none is free.  A few per call would
 * do; all is simple, and rare. */
static void
reap_dead_slots(struct cbf_lock *l)
{
    uint32_t at;

    for (at = 0; at < CBF_FMT_SLOTS; at++)
        if (cbf_load32(&l->slots[at].owner.part.pid) != 0)
            cbf_lock_examine_slot(l, at);
}

/* Makes this process known: claims a slot where there is one.  Its slot, or
 * UINT32_MAX.  Two threads may do this at once; one of them gives way. */
uint32_t
cbf_lock_own_slot(struct cbf_lock *l, const struct cbf_owner *self)
{
    uint64_t old = cbf_acquire64(&l->registration);
    uint64_t new;
    uint32_t at;
    int known = cbf_lock_knows(l, self);

    if (known && cbf_lock_slot_of(old) != UINT32_MAX)
        return cbf_lock_slot_of(old);
    /* a parent's registration goes first: its pid may be ours by now, and
     * must not meet our identity */
    if (!known && old != 0) {
        cbf_swap_if64(&l->registration, old, 0);
        old = 0;
    }
    at = claim_slot(l, self);
    if (at == UINT32_MAX && !known) {
        reap_dead_slots(l);
        at = claim_slot(l, self);
    }
    cbf_release64(&l->registered_id, self->id);
    new = (uint64_t)self->pid << 32 | (uint32_t)(at + 1);
    if (cbf_swap_if64(&l->registration, old, new))
        return at;
    if (at != UINT32_MAX)
        free_slot(l, at);
    return cbf_lock_slot_of(cbf_acquire64(&l->registration));
}

void
cbf_lock_register(struct cbf_lock *l, const struct cbf_owner *self)
{
    cbf_lock_own_slot(l, self);
}

uint32_t
cbf_lock_next_reader(const struct cbf_lock *l, uint32_t from)
{
    uint32_t word = from / 64;
    uint64_t bits;
    uint32_t at;

    for (; word < CBF_FMT_BITMAP_WORDS; word++) {
        bits = cbf_acquire64(&l->bitmap[word]);
        if (word == from / 64)
            bits &= UINT64_MAX << (from % 64);
        for (; bits != 0; bits &= bits - 1) {
            at = word * 64 + (uint32_t)__builtin_ctzll(bits);
            if (cbf_acquire32(&l->slots[at].owner.part.held) != 0)
                return at;
        }
    }
    return UINT32_MAX;
}

void
cbf_lock_leave(struct cbf_lock *l)
{
    uint64_t mine = cbf_acquire64(&l->registration);

    if (!cbf_lock_knows(l, cbf_owner_self())
        || cbf_lock_slot_of(mine) == UINT32_MAX)
        return;
    cbf_store64(&l->registration, 0);
    free_slot(l, cbf_lock_slot_of(mine));
}
