/*
 * lock.c - the futex reader-writer lock, and takeover from the dead.
 *
 * The words, all in the header unless said otherwise:
 *
 *   writer   0, or who holds the write lock.  0 -> holder by compare-and-swap;
 *            holder -> 0 by the holder; dead holder -> another by takeover.
 *   parked   how many sleep on `writer`, writers and readers apart, and
 *            whether a writer was woken and has not run yet.  Only a hint: the
 *            dead leave it too high, and every sleep ends by itself.
 *   drain    counts readers that left while a writer waited; a futex.
 *   slots    `held` of a process's slot counts its shared locks.
 *   bitmap   which slots ever held a shared lock; the only ones a writer looks
 *            at.
 *
 * A reader raises `held` and then looks at `writer`; a writer takes `writer`
 * and then looks at `held`; each with full ordering, so at least one of them
 * sees the other, and it is the reader that steps back.
 *
 * What this file does not do: repair data, know journal or counters, or read
 * /proc (owner does).
 */
#include "lock.h"
#include "atomic.h"
#include "killpoint.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS ((int64_t)1000000)

/* The longest sleep without a look at the holder, hence about the time that
 * others lose by a dead one.  Short against the promised 100 ms, long against a
 * wake-up. */
#ifndef CBF_LOCK_PARK_NS
#define CBF_LOCK_PARK_NS (10 * NS_PER_MS)
#endif

/* The first sleep: what a missed wake-up costs.  About two of them. */
#define FIRST_PARK_NS (NS_PER_MS / 10)

/* How long one holder that can't be judged is waited for. */
#ifndef CBF_LOCK_UNSURE_NS
#define CBF_LOCK_UNSURE_NS (30 * 1000 * NS_PER_MS)
#endif

/* Spinning: rounds before the first sleep, and the longest pause between two
 * looks in pause instructions.  By measurement, see DESIGN. */
#define SPIN_ROUNDS 24
#define SPIN_PAUSE_MAX 64

/* One wait: who is in the way, since when, and what to do about it. */
struct wait {
    const struct cbf_owner *self;
    struct cbf_error *e;
    uint32_t writer;      /* value of the writer word last examined */
    uint64_t ops;         /* progress seen at that time */
    int64_t unsure_since; /* 0 = the holder in the way is not in doubt */
    int64_t sleep_ns;     /* the last sleep on the writer word; 0 = none yet */
};

static int64_t
now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 * NS_PER_MS + t.tv_nsec;
}

/* ---- the two functions through which all futex calls go ----------------- */

/* Sleeps while *word is value, at most ns (below a second).  0, or the errno. */
static int
futex_sleep(uint32_t *word, uint32_t value, int64_t ns)
{
    struct timespec limit = { .tv_sec = 0, .tv_nsec = ns };

    if (syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0) == 0)
        return 0;
    return errno;
}

/* Wakes up to n sleepers; how many it woke. */
static long
futex_wake(uint32_t *word, int n)
{
    return syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0);
}

/* ---- spinning ------------------------------------------------------------ */

/* Spinning helps only where the holder can run meanwhile. */
static int
spin_rounds(void)
{
    static int rounds = -1;
    int known = __atomic_load_n(&rounds, __ATOMIC_RELAXED);

    if (known < 0) {
        known = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? SPIN_ROUNDS : 0;
        __atomic_store_n(&rounds, known, __ATOMIC_RELAXED);
    }
    return known;
}

/* Waits a while for *word to be 0, looking less and less often, since every
 * look takes the cache line away from the holder.  1 when it is 0. */
static int
spin_until_zero(const uint32_t *word)
{
    int rounds = spin_rounds();
    int pause = 1;
    int i;

    while (rounds-- > 0) {
        if (cbf_load32(word) == 0)
            return 1;
        for (i = 0; i < pause; i++)
            cbf_spin_pause();
        if (pause < SPIN_PAUSE_MAX)
            pause *= 2;
    }
    return cbf_load32(word) == 0;
}

/* ---- parking on the writer word -------------------------------------------- */

/* Takes one unit off a field of `parked`, but never below 0. */
static void
parked_less(uint32_t *parked, uint32_t field, uint32_t unit)
{
    uint32_t seen = cbf_load32(parked);

    while ((seen & field) != 0) {
        if (cbf_swap_if32(parked, seen, seen - unit))
            return;
        seen = cbf_load32(parked);
    }
}

static void
forget_woken(uint32_t *parked)
{
    if (cbf_load32(parked) & CBF_FMT_PARKED_WOKEN)
        cbf_fetch_and32(parked, ~CBF_FMT_PARKED_WOKEN);
}

/*
 * Sleeps while the writer word is `seen`: at first for a short time, because
 * the wake-up may be missed, then longer and longer.  0, or the errno;
 * ETIMEDOUT only after a sleep of full length.
 */
static int
park(struct cbf_fmt_header *hdr, struct wait *w, uint32_t seen,
     uint32_t field, uint32_t unit)
{
    int64_t ns = w->sleep_ns * 4;
    int error;

    if (ns < FIRST_PARK_NS)
        ns = FIRST_PARK_NS;
    if (ns > CBF_LOCK_PARK_NS)
        ns = CBF_LOCK_PARK_NS;
    cbf_fetch_add32(&hdr->parked, unit);
    error = futex_sleep(&hdr->writer, seen, ns);
    parked_less(&hdr->parked, field, unit);
    w->sleep_ns = error == ETIMEDOUT ? ns : 0;
    if (error == ETIMEDOUT && ns < CBF_LOCK_PARK_NS)
        return EAGAIN;
    return error;
}

/* Called after the lock was released while somebody was parked.  Readers are
 * let in together.  Of writers one is woken, and the next only when that one
 * has had its turn: one wake-up at a time keeps the rest asleep. */
void
cbf_lock_wake(struct cbf_lock *l, uint32_t parked)
{
    struct cbf_fmt_header *hdr = l->header;

    if (parked & CBF_FMT_PARKED_READERS) {
        if (futex_wake(&hdr->writer, INT_MAX) == 0)
            parked_less(&hdr->parked, CBF_FMT_PARKED_READERS,
                        CBF_FMT_PARKED_READER);
        return;
    }
    if (parked & CBF_FMT_PARKED_WOKEN)
        return;
    cbf_fetch_or32(&hdr->parked, CBF_FMT_PARKED_WOKEN);
    if (futex_wake(&hdr->writer, 1) == 0) {
        /* a leftover of a dead process: let it fade, or it costs a system
         * call at every release; who really sleeps will wake by itself */
        forget_woken(&hdr->parked);
        parked_less(&hdr->parked, CBF_FMT_PARKED_WRITERS,
                    CBF_FMT_PARKED_WRITER);
    }
}

/* ---- slots ---------------------------------------------------------------- */

static uint32_t
slot_of(uint64_t registration)
{
    return (uint32_t)registration - 1; /* no slot: UINT32_MAX */
}

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
 * claimed by a living process in the meantime, its pid differs (or its identity
 * does, and the swap fails), and it gets its identity back.
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
static enum cbf_owner_state
examine_slot(struct cbf_lock *l, uint32_t at)
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
            examine_slot(l, at);
}

/* Makes this process known: claims a slot where there is one.  Its slot, or
 * UINT32_MAX.  Two threads may do this at once; one of them gives way. */
static uint32_t
own_slot(struct cbf_lock *l, const struct cbf_owner *self)
{
    uint64_t old = cbf_acquire64(&l->registration);
    uint64_t new;
    uint32_t at;
    int known = cbf_lock_knows(l, self);

    if (known && slot_of(old) != UINT32_MAX)
        return slot_of(old);
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
    return slot_of(cbf_acquire64(&l->registration));
}

void
cbf_lock_register(struct cbf_lock *l, const struct cbf_owner *self)
{
    own_slot(l, self);
}

/* ---- who holds the write lock ---------------------------------------------- */

/*
 * The holder has not written its identity: it is between its compare-and-swap
 * and that store, alive or dead.  Its slot tells who it is, and so would all
 * slots of that pid, if several namespaces have one: it is dead only if all are.
 * No slot at all: an older release, for which the pid decides, unless the slots
 * are full, when it may be one of ours that found none.
 */
static enum cbf_owner_state
judge_by_slots(const struct cbf_lock *l, uint32_t pid)
{
    enum cbf_owner_state state;
    int found = 0;
    int free = 0;
    uint32_t at;
    uint64_t id;

    for (at = 0; at < CBF_FMT_SLOTS; at++) {
        id = cbf_acquire64(&l->slots[at].id);
        free += id == CBF_OWNER_NONE;
        if (id == CBF_OWNER_NONE || id == CBF_OWNER_RESERVED
            || cbf_load32(&l->slots[at].owner.part.pid) != pid)
            continue;
        found = 1;
        state = cbf_owner_judge(pid, id);
        if (state != CBF_OWNER_DEAD)
            return state;
    }
    if (found)
        return CBF_OWNER_DEAD;
    if (!free)
        return CBF_OWNER_UNSURE;
    return cbf_owner_judge(pid, CBF_OWNER_NONE);
}

static enum cbf_owner_state
judge_writer(const struct cbf_lock *l, uint32_t writer)
{
    uint32_t pid = writer & ~CBF_FMT_WRITER_HELD;
    uint32_t recorded;

    if (!(writer & CBF_FMT_WRITER_HELD))
        return CBF_OWNER_DEAD; /* no release ever wrote that */
    recorded = cbf_acquire32(&l->header->writer_pid);
    if (recorded == pid)
        return cbf_owner_judge(pid, cbf_load64(&l->header->writer_id));
    return judge_by_slots(l, pid);
}

/* Whether the holder in the way has been in doubt for too long.  Progress, or
 * another holder, starts the time anew. */
static int
waited_too_long(const struct cbf_lock *l, struct wait *w, uint32_t writer)
{
    uint64_t ops = cbf_load64(&l->header->ops);
    int64_t now = now_ns();

    if (w->unsure_since == 0 || writer != w->writer || ops != w->ops) {
        w->unsure_since = now;
        w->writer = writer;
        w->ops = ops;
        return 0;
    }
    return now - w->unsure_since >= CBF_LOCK_UNSURE_NS;
}

static int
give_up(struct wait *w, uint32_t pid)
{
    cbf_error_set(w->e, CBF_E_OWNER, NULL);
    if (w->e)
        w->e->pid = pid;
    return CBF_E_OWNER;
}

/*
 * Takes the word over from a holder judged dead.  The compare-and-swap alone
 * would not do: between judgement and swap another process may have taken over
 * and gone, and a living holder of another namespace may have the same pid.
 * But every takeover counts `recovered` up before it releases the word, so if
 * that has moved, the swap hit somebody else, who has noticed nothing yet: the
 * word is given back (or the holder has freed it meanwhile, which is as good).
 */
static int
take_over(struct cbf_lock *l, const struct wait *w, uint32_t dead,
          uint32_t recovered)
{
    struct cbf_fmt_header *hdr = l->header;
    uint32_t mine = CBF_FMT_WRITER_HELD | w->self->pid;

    if (!cbf_swap_if32(&hdr->writer, dead, mine))
        return 0;
    if (cbf_acquire32(&hdr->recovered) != recovered) {
        cbf_swap_if32(&hdr->writer, mine, dead);
        return 0;
    }
    CBF_KILL_POINT("takeover: word swapped");
    cbf_store32(&hdr->recovered, recovered + 1);
    return 1;
}

/* Looks at who holds the write lock.  1 = taken over, 0 = wait on, else a
 * CBF_E_ code (1 is none of them that this returns). */
static int
examine_writer(struct cbf_lock *l, struct wait *w)
{
    uint32_t recovered = cbf_acquire32(&l->header->recovered);
    uint32_t writer = cbf_acquire32(&l->header->writer);
    enum cbf_owner_state state;

    if (writer == 0)
        return 0;
    state = judge_writer(l, writer);
    if (state == CBF_OWNER_DEAD)
        return take_over(l, w, writer, recovered);
    if (state == CBF_OWNER_ALIVE)
        w->unsure_since = 0;
    else if (waited_too_long(l, w, writer))
        return give_up(w, writer & ~CBF_FMT_WRITER_HELD);
    return 0;
}

/* ---- the write lock -------------------------------------------------------- */

/* Gets the word when the first try failed. */
static enum cbf_lock_result
write_slow(struct cbf_lock *l, struct wait *w)
{
    struct cbf_fmt_header *hdr = l->header;
    uint32_t mine = CBF_FMT_WRITER_HELD | w->self->pid;
    uint32_t seen;
    int error;
    int verdict;

    for (;;) {
        if (spin_until_zero(&hdr->writer)
            && cbf_swap_if32(&hdr->writer, 0, mine)) {
            forget_woken(&hdr->parked);
            return CBF_LOCK_HELD;
        }
        forget_woken(&hdr->parked);
        seen = cbf_load32(&hdr->writer);
        if (seen == 0)
            continue;
        error = park(hdr, w, seen, CBF_FMT_PARKED_WRITERS,
                     CBF_FMT_PARKED_WRITER);
        if (error == EINTR)
            return cbf_error_set(w->e, CBF_E_INTERRUPTED, NULL),
                   CBF_LOCK_FAILED;
        if (error != ETIMEDOUT)
            continue;
        verdict = examine_writer(l, w);
        if (verdict == 1)
            return CBF_LOCK_TOOK_OVER;
        if (verdict != 0)
            return CBF_LOCK_FAILED;
    }
}

/* Index of a slot that holds a shared lock, or UINT32_MAX. */
static uint32_t
find_reader(const struct cbf_lock *l)
{
    uint32_t word;
    uint64_t bits;
    uint32_t at;

    for (word = 0; word < CBF_FMT_BITMAP_WORDS; word++) {
        bits = cbf_acquire64(&l->bitmap[word]);
        while (bits) {
            at = word * 64 + (uint32_t)__builtin_ctzll(bits);
            if (cbf_acquire32(&l->slots[at].owner.part.held) != 0)
                return at;
            bits &= bits - 1;
        }
    }
    return UINT32_MAX;
}

/* Most scans are over in less than a system call takes. */
static uint32_t
spin_until_drained(const struct cbf_lock *l)
{
    int rounds = spin_rounds();
    uint32_t at = find_reader(l);

    while (at != UINT32_MAX && rounds-- > 0) {
        cbf_spin_pause();
        at = find_reader(l);
    }
    return at;
}

/* Waits until no reader holds the lock; we hold the word.  0 or a code. */
static int
drain_readers(struct cbf_lock *l, struct wait *w)
{
    uint32_t seen;
    uint32_t at;
    uint32_t pid;
    enum cbf_owner_state state;
    int error;

    w->unsure_since = 0;
    for (;;) {
        seen = cbf_acquire32(&l->header->drain);
        at = spin_until_drained(l);
        if (at == UINT32_MAX)
            return 0;
        error = futex_sleep(&l->header->drain, seen, CBF_LOCK_PARK_NS);
        if (error == EINTR)
            return cbf_error_set(w->e, CBF_E_INTERRUPTED, NULL);
        if (error != ETIMEDOUT)
            continue;
        pid = cbf_load32(&l->slots[at].owner.part.pid);
        state = examine_slot(l, at);
        if (state == CBF_OWNER_UNSURE && waited_too_long(l, w, at))
            return give_up(w, pid);
        if (state != CBF_OWNER_UNSURE)
            w->unsure_since = 0;
    }
}

int
cbf_lock_drain(struct cbf_lock *l, const struct cbf_owner *self,
               struct cbf_error *e)
{
    struct wait w = { .self = self, .e = e };
    int code = drain_readers(l, &w);

    if (code != CBF_OK)
        cbf_lock_write_done(l);
    return code;
}

enum cbf_lock_result
cbf_lock_write(struct cbf_lock *l, const struct cbf_owner *self,
               struct cbf_error *e)
{
    struct wait w = { .self = self, .e = e };
    enum cbf_lock_result result = CBF_LOCK_HELD;

    if (!cbf_lock_try_write(l, self)) {
        result = write_slow(l, &w);
        if (result == CBF_LOCK_FAILED)
            return result;
        cbf_lock_sign(l->header, self);
    }
    if (cbf_lock_ever_scanned(l) && cbf_lock_drain(l, self, e) != CBF_OK)
        return CBF_LOCK_FAILED;
    return result;
}

/* ---- the shared lock --------------------------------------------------------- */

/* Waits until no writer is there. */
static enum cbf_lock_result
read_wait(struct cbf_lock *l, struct wait *w)
{
    struct cbf_fmt_header *hdr = l->header;
    uint32_t seen;
    int error;

    while (!spin_until_zero(&hdr->writer)) {
        seen = cbf_load32(&hdr->writer);
        if (seen == 0)
            break;
        error = park(hdr, w, seen, CBF_FMT_PARKED_READERS,
                     CBF_FMT_PARKED_READER);
        if (error == EINTR)
            return cbf_error_set(w->e, CBF_E_INTERRUPTED, NULL),
                   CBF_LOCK_FAILED;
        if (error != ETIMEDOUT)
            continue;
        seen = cbf_load32(&hdr->writer);
        if (seen == 0)
            break;
        switch (judge_writer(l, seen)) {
        case CBF_OWNER_DEAD:
            return CBF_LOCK_DEAD_WRITER;
        case CBF_OWNER_ALIVE:
            w->unsure_since = 0;
            break;
        case CBF_OWNER_UNSURE:
            if (waited_too_long(l, w, seen))
                return give_up(w, seen & ~CBF_FMT_WRITER_HELD),
                       CBF_LOCK_FAILED;
            break;
        }
    }
    return CBF_LOCK_HELD;
}

/* Leaves a slot's shared lock, and tells a writer that waits for it. */
static void
read_leave(struct cbf_lock *l, uint32_t at)
{
    __atomic_fetch_sub(&l->slots[at].owner.part.held, 1, __ATOMIC_SEQ_CST);
    if (cbf_acquire32(&l->header->writer) == 0)
        return;
    cbf_fetch_add32(&l->header->drain, 1);
    futex_wake(&l->header->drain, INT_MAX);
}

enum cbf_lock_result
cbf_lock_read(struct cbf_lock *l, const struct cbf_owner *self,
              struct cbf_error *e)
{
    struct wait w = { .self = self, .e = e };
    uint32_t at = own_slot(l, self);
    uint64_t bit;
    enum cbf_lock_result result;

    if (at == UINT32_MAX)
        return CBF_LOCK_NO_READ_SLOT;
    bit = (uint64_t)1 << (at % 64);
    if (!(cbf_load64(&l->bitmap[at / 64]) & bit))
        cbf_fetch_or64(&l->bitmap[at / 64], bit);
    for (;;) {
        cbf_fetch_add32(&l->slots[at].owner.part.held, 1);
        CBF_KILL_POINT("read: held raised");
        if (cbf_acquire32(&l->header->writer) == 0)
            return CBF_LOCK_HELD;
        read_leave(l, at);
        result = read_wait(l, &w);
        if (result != CBF_LOCK_HELD)
            return result;
    }
}

void
cbf_lock_read_done(struct cbf_lock *l)
{
    read_leave(l, slot_of(cbf_acquire64(&l->registration)));
}

/* ---- open and close ------------------------------------------------------------ */

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

void
cbf_lock_leave(struct cbf_lock *l)
{
    uint64_t mine = cbf_acquire64(&l->registration);

    if (!cbf_lock_knows(l, cbf_owner_self())
        || slot_of(mine) == UINT32_MAX)
        return;
    cbf_store64(&l->registration, 0);
    free_slot(l, slot_of(mine));
}

int
cbf_lock_abandoned(const struct cbf_lock *l)
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
