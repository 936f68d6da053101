/*
 * lock.h - the futex reader-writer lock in the header and the reader slots.
 *
 * Writers exclude everybody and are preferred; readers here are only scans of
 * the whole table, since point reads take no lock.  A process that dies with
 * the lock is noticed by those who wait: the writer word is taken over from
 * it, its reader slot is emptied.  The lock does not repair data: whoever gets
 * the write lock must look at the journal.  Only lock_futex.c calls futex;
 * the lock
 * knows its own words, the slots and owner, nothing else.
 *
 * Never two locks at once, and not the same one twice: a nested reader would
 * wait behind the writer that waits for it.
 */
#ifndef CBF_LOCK_H
#define CBF_LOCK_H

#include "error.h"
#include "format.h"
#include "killpoint.h"
#include "owner.h"
#include <stdint.h>

/* One handle's view of a lock; private memory, shared by its threads. */
struct cbf_lock {
    struct cbf_fmt_header *header; /* constant after open */
    struct cbf_fmt_slot *slots;    /* constant after open */
    uint64_t *bitmap;              /* constant after open */
    uint64_t registration;         /* pid << 32 | slot + 1 (0: no slot) */
    uint64_t registered_id;        /* identity of that pid; atomic, as above */
    /* the holder in doubt, kept from call to call; atomic, a thread may spoil
     * another's figures, which makes a wait longer by that much */
    uint64_t doubt_since; /* monotonic clock, ns; 0 = nobody in doubt */
    uint64_t doubt_ops;   /* progress at that time */
    uint32_t doubt_who;   /* the writer word, or a reader's slot */
    uint64_t collided;    /* when a write found it taken, by that clock */
};

enum cbf_lock_result {
    CBF_LOCK_HELD,
    CBF_LOCK_TOOK_OVER,    /* held, from a dead writer that had signed */
    CBF_LOCK_TOOK_OVER_UNSIGNED, /* held, from one that had not */
    CBF_LOCK_DEAD_WRITER,  /* read only: not held, take the write lock */
    CBF_LOCK_NO_READ_SLOT, /* read only: not held, all slots are taken */
    CBF_LOCK_FAILED        /* not held; *e says why */
};

void cbf_lock_init(struct cbf_lock *l, void *base);

/*
 * Whether this process has registered with the lock.  It does so at its first
 * lock, so a process that inherited the handle by fork is not known yet.
 */
static inline int
cbf_lock_knows(const struct cbf_lock *l, const struct cbf_owner *self)
{
    return cbf_load64(&l->registration) >> 32 == self->pid
           && cbf_load64(&l->registered_id) == self->id;
}

/* Registers this process, self: claims a slot for its identity.  Needed once
 * before its first lock. */
void cbf_lock_register(struct cbf_lock *l, const struct cbf_owner *self);

/*
 * Takes the write lock for this process, self, which is registered; all
 * readers have left when it returns.  Fails with CBF_E_OWNER after 30 s behind
 * one holder that can't be judged, and with CBF_E_INTERRUPTED when a signal
 * handler ran while it slept, or may have: see cbf_lock_watch.
 */
enum cbf_lock_result cbf_lock_write(struct cbf_lock *l,
                                    const struct cbf_owner *self,
                                    struct cbf_error *e);

/* The second half of it, for who has got the word by cbf_lock_try_write: waits
 * until all readers have left.  On failure the word is free again. */
int cbf_lock_drain(struct cbf_lock *l, const struct cbf_owner *self,
                   struct cbf_error *e);

/* For cbf_lock_write_done only. */
void cbf_lock_wake(struct cbf_lock *l, uint32_t parked);

/* For lock.c and the next function: the holder says who it is. */
static inline void
cbf_lock_sign(struct cbf_fmt_header *hdr, const struct cbf_owner *self)
{
    CBF_KILL_POINT("write: word taken, identity not");
    cbf_store64(&hdr->writer_id, self->id);
    cbf_release32(&hdr->writer_pid, self->pid);
    CBF_KILL_POINT("write: identity taken");
}

/* Takes the writer word if it is free and nobody has asked for a turn; readers
 * may still be there. */
static inline int
cbf_lock_try_write(struct cbf_lock *l, const struct cbf_owner *self)
{
    if (cbf_load32(&l->header->parked) & CBF_FMT_PARKED_TURN)
        return 0;
    if (!cbf_swap_if32(&l->header->writer, 0,
                       CBF_FMT_WRITER_HELD | self->pid))
        return 0;
    cbf_lock_sign(l->header, self);
    return 1;
}

/* Whether any process may hold it shared: one has since a writer last looked.
 * Most of the time none has, and both cache lines of the bitmap are 0.  Behind
 * the swap of the writer word. */
static inline int
cbf_lock_scanned(const struct cbf_lock *l)
{
    cbf_after_swap();
    return cbf_any_set(l->bitmap, CBF_FMT_BITMAP_WORDS);
}

/*
 * The word is freed by a plain store, and `parked` looked at without a fence
 * in between, which would cost as much as taking the lock.  So a process that
 * parks at this very moment may be overlooked; its first sleep is short, and
 * that is all it loses.
 */
static inline void
cbf_lock_write_done(struct cbf_lock *l)
{
    struct cbf_fmt_header *hdr = l->header;
    uint32_t parked;

    CBF_KILL_POINT("unlock: identity left");
    /* the next holder's identity must not be taken for ours or ours for it */
    cbf_release32(&hdr->writer_pid, 0);
    CBF_KILL_POINT("unlock: identity gone");
    cbf_release32(&hdr->writer, 0);
    CBF_KILL_POINT("unlock: word free, nobody woken");
    parked = cbf_load32(&hdr->parked);
    if (parked & (CBF_FMT_PARKED_WRITERS | CBF_FMT_PARKED_READERS))
        cbf_lock_wake(l, parked);
}

/* Takes the lock shared for self, which need not be registered; fails as
 * cbf_lock_write does. */
enum cbf_lock_result cbf_lock_read(struct cbf_lock *l,
                                   const struct cbf_owner *self,
                                   struct cbf_error *e);
void cbf_lock_read_done(struct cbf_lock *l);

/*
 * A signal that comes between two sleeps interrupts none of them.  So either
 * the caller names a flag that its signal handlers set, for the waits of this
 * thread from now on (NULL = none), or a wait ends as interrupted after 100
 * ms.
 */
void cbf_lock_watch(const volatile int *flag);

/* Leaves the slot, if it is this process's; for closing a handle. */
void cbf_lock_leave(struct cbf_lock *l);

/* For the time when nobody else can have it mapped: whether the process that
 * left the write lock behind had signed it, and so was of this release; and
 * zeroing every word, slot and bit. */
int cbf_lock_signed(const struct cbf_lock *l);
void cbf_lock_reset(struct cbf_lock *l);

#endif
