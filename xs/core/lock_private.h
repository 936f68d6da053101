/*
 * lock_private.h - what the lock's own source files share with one another.
 * Nobody else includes it; the contract is lock.h.
 *
 *   lock.c         the write lock and the shared lock
 *   lock_slot.c    slots: claimed, left, taken from the dead
 *   lock_holder.c  who holds the write lock, and taking it over
 *   lock_futex.c   spinning, sleeping, waking
 *
 * The words, all in the header unless said otherwise:
 *
 *   writer   0, or who holds the write lock.  0 -> holder by compare-and-swap;
 *            holder -> 0 by the holder; dead holder -> another by takeover.
 *   parked   how many sleep on `writer`, writers and readers apart, and
 *            whether a writer was woken and has not run yet, and whether one
 *            has waited for so long that newcomers hold back.  Only a hint:
 *            the dead leave it too high, and every sleep ends by itself.
 *   drain    counts readers that left while a writer waited; a futex.
 *   slots    `held` of a process's slot counts its shared locks.
 *   bitmap   which slots may hold a shared lock: set by their readers, cleared
 *            with the slot, or by a writer that saw all readers leave.  A
 *            writer looks at no others.
 *
 * A reader raises `held`, sees to its bit, and then looks at `writer`; a
 * writer takes `writer` and then looks at bits and `held`; each with full
 * ordering, so at least one of them sees the other, and it is the reader that
 * steps back.  A writer that clears a bit looks at `held` after that, and puts
 * the bit back if somebody has raised it; so of these two, too, one sees the
 * other.  Killed in between, it leaves that to who takes over, before anything
 * else.
 */
#ifndef CBF_LOCK_PRIVATE_H
#define CBF_LOCK_PRIVATE_H

#include "lock.h"

#define CBF_LOCK_NS_PER_MS ((int64_t)1000000)

/* The longest sleep; the holder is looked at after one to six of them.  Short
 * against the promised 100 ms, long against a wake-up. */
#ifndef CBF_LOCK_PARK_NS
#define CBF_LOCK_PARK_NS (10 * CBF_LOCK_NS_PER_MS)
#endif

/* How long one holder that can't be judged is waited for. */
#ifndef CBF_LOCK_UNSURE_NS
#define CBF_LOCK_UNSURE_NS (30 * 1000 * CBF_LOCK_NS_PER_MS)
#endif

/* One wait, within one call. */
struct cbf_lock_wait {
    const struct cbf_owner *self;
    struct cbf_error *e;
    int64_t begun;    /* the first sleep began; 0 = none yet */
    int64_t since;    /* the first full sleep was over; 0 = none yet */
    int64_t sleep_ns; /* the last sleep on the writer word; 0 = none yet */
    int every;        /* full sleeps from one look to the next */
    int left;         /* full sleeps until the next look */
    int asked;        /* for a turn: PARKED_TURN is set */
    int took_over;    /* the word is ours, from the dead */
    int was_signed;   /* who had left its identity */
};

/* ---- lock_futex.c ------------------------------------------------------- */

int64_t cbf_lock_now_ns(void);

/* The two through which all futex calls go.  Sleeps while *word is value, at
 * most ns (below a second): 0, or the errno.  Wakes up to n sleepers: how many
 * it woke. */
int cbf_lock_sleep(uint32_t *word, uint32_t value, int64_t ns);
long cbf_lock_rouse(uint32_t *word, int n);

/* How often to look before the first sleep; 0 where there is one processor. */
int cbf_lock_spin_rounds(void);

/* Waits a while for *word to be 0.  1 when it is. */
int cbf_lock_spin(const uint32_t *word);

/* Called when a writer finds the lock taken: stays away for a time, if that
 * happens all too often.  0, or EINTR. */
int cbf_lock_nap_if_hot(struct cbf_lock *l);

/*
 * Sleeps while the writer word is `seen`, counted in a field of `parked` by
 * one unit: at first for a short time, because the wake-up may be missed, then
 * longer and longer.  0, or the errno; ETIMEDOUT only after a full sleep.
 */
int cbf_lock_park(struct cbf_fmt_header *hdr, struct cbf_lock_wait *w,
                  uint32_t seen, uint32_t field, uint32_t unit);

/* The wait is over: whoever asked for a turn gives it back. */
void cbf_lock_end_turn(struct cbf_fmt_header *hdr, struct cbf_lock_wait *w);

/* Called by a newcomer: lets one that has asked for its turn go first.  0, or
 * EINTR. */
int cbf_lock_hold_back(struct cbf_fmt_header *hdr);

/* The writer that was woken has run; the next may be. */
void cbf_lock_forget_woken(uint32_t *parked);

/* After a full sleep: whether it is time to look at the holder again, and
 * whether the caller must be given a chance (CBF_E_INTERRUPTED is set). */
int cbf_lock_time_to_look(struct cbf_lock_wait *w);
int cbf_lock_time_to_return(struct cbf_lock_wait *w);

/* ---- lock_slot.c -------------------------------------------------------- */

static inline uint32_t
cbf_lock_slot_of(uint64_t registration)
{
    return (uint32_t)registration - 1; /* no slot: UINT32_MAX */
}

/* This process's slot, claimed if need be; UINT32_MAX where none is free. */
uint32_t cbf_lock_own_slot(struct cbf_lock *l, const struct cbf_owner *self);

/* Judges the process in slot `at`; a dead one loses it. */
enum cbf_owner_state cbf_lock_examine_slot(struct cbf_lock *l, uint32_t at);

/* The first slot from `from` on that holds a shared lock, or UINT32_MAX. */
uint32_t cbf_lock_next_reader(const struct cbf_lock *l, uint32_t from);

/* ---- lock_holder.c ------------------------------------------------------ */

/* Judges who holds the writer word of that value, not 0. */
enum cbf_owner_state cbf_lock_judge_writer(const struct cbf_lock *l,
                                           uint32_t writer);

/* Looks at who holds the write lock, and takes it over from the dead: then *w
 * says so.  CBF_OK, or CBF_E_OWNER. */
int cbf_lock_examine_writer(struct cbf_lock *l, struct cbf_lock_wait *w);

/* Nobody is in doubt any more; whether somebody (the writer word, or a slot)
 * has been for too long; and the error that follows from it. */
void cbf_lock_trust(struct cbf_lock *l);
int cbf_lock_doubted_too_long(struct cbf_lock *l, uint32_t who);
int cbf_lock_give_up(const struct cbf_lock_wait *w, uint32_t pid);

#endif
