/*
 * lock_futex.c - how a process waits: spinning, then sleeping, and being
 * woken.
 *
 * The only file that calls futex.  Knows the writer word and `parked`; who
 * holds the lock and what becomes of the dead is lock_holder.c.
 */
#include "lock_private.h"
#include "atomic.h"
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The first sleep: what a missed wake-up costs.  About two wake-ups. */
#define FIRST_PARK_NS (CBF_LOCK_NS_PER_MS / 10)

/*
 * How a waiter passes its time before it parks.  Each look takes the cache
 * line from the holder, and a lock that changes hands takes all the lines that
 * its holder has written to another processor; so the looks come close first,
 * for a holder that is about to finish, and then far apart, for one with a
 * batch.  By measurement, see DESIGN.
 */
#define CLOSE_LOOKS 16
#define CLOSE_PAUSES 2
#define FAR_LOOKS 10
#define FAR_NS 10000

/* Two collisions within this time mean a lock in such demand that taking turns
 * costs more than it gives; then one stays away for this long, so that the
 * other has the lock, and the lines, to itself. */
#ifndef HOT_NS
#define HOT_NS 4000
#endif
#ifndef NAP_NS
#define NAP_NS 200000
#endif

/* A busy loop of calls can take the lock again before a waiter has woken up.
 * After this time the waiter asks for its turn; newcomers then hold back,
 * until it has had that, but not for more than some naps. */
#define TURN_NS (30 * CBF_LOCK_NS_PER_MS)
#define HOLD_BACK_NS 100000
#define HOLD_BACK_NAPS 10

/* A wait goes back to its caller after this time, to be called again, unless
 * the caller has named a flag to watch instead. */
#define RETURN_NS (100 * CBF_LOCK_NS_PER_MS)

static __thread const volatile int *watched_flag;

void
cbf_lock_watch(const volatile int *flag)
{
    watched_flag = flag;
}

/* The holder is looked at after the first full sleep, and then less and less
 * often, at the most this many sleeps apart: who dies is noticed soon
 * enough. */
#define EXAMINE_EVERY_MAX 6

int64_t
cbf_lock_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 * CBF_LOCK_NS_PER_MS + t.tv_nsec;
}

/* ---- the two functions through which all futex calls go ----------------- */

/* Sleeps while *word is value, at most ns (below a second).  0, or the errno.
 * Where futexes are not allowed, it just sleeps. */
int
cbf_lock_sleep(uint32_t *word, uint32_t value, int64_t ns)
{
    struct timespec limit = { .tv_sec = 0, .tv_nsec = ns };

    if (syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0) == 0)
        return 0;
    if (errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT)
        return errno;
    return nanosleep(&limit, NULL) == 0 ? ETIMEDOUT : errno;
}

/* Wakes up to n sleepers; how many it woke. */
long
cbf_lock_rouse(uint32_t *word, int n)
{
    return syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0);
}

/* ---- spinning ----------------------------------------------------------- */

/* Pause instructions in FAR_NS, which differs by a factor of ten from one
 * processor to the next; 0 where there is only one, and spinning is no use. */
static int
measure_pauses(void)
{
    int64_t start;
    int64_t took;
    int pauses;
    int i;

#ifdef CBF_LOCK_ONE_CPU /* for tests */
    return 0;
#endif
    if (sysconf(_SC_NPROCESSORS_ONLN) <= 1)
        return 0;
    start = cbf_lock_now_ns();
    for (i = 0; i < 100; i++)
        cbf_spin_pause();
    took = cbf_lock_now_ns() - start;
    /* whatever happened to the clock or to us meanwhile */
    pauses = (int)(FAR_NS * 100 / (took > 100 ? took : 100));
    return pauses > 0 ? pauses : 1;
}

static int
far_pauses(void)
{
    static uint32_t known; /* the figure + 1; 0 = not measured yet */
    uint32_t figure = cbf_load32(&known);

    if (figure == 0) {
        figure = (uint32_t)measure_pauses() + 1;
        cbf_store32(&known, figure);
    }
    return (int)(figure - 1);
}

static int
look(const uint32_t *word, int looks, int pauses)
{
    int i;

    while (looks-- > 0) {
        if (cbf_load32(word) == 0)
            return 1;
        for (i = 0; i < pauses; i++)
            cbf_spin_pause();
    }
    return cbf_load32(word) == 0;
}

int
cbf_lock_spin(const uint32_t *word)
{
    int far = far_pauses();

    if (far > 0 && (look(word, CLOSE_LOOKS, CLOSE_PAUSES)
                    || look(word, FAR_LOOKS, far)))
        return 1;
    return cbf_load32(word) == 0;
}

int
cbf_lock_nap_if_hot(struct cbf_lock *l)
{
    struct timespec nap = { .tv_sec = 0, .tv_nsec = NAP_NS };
    uint64_t now = (uint64_t)cbf_lock_now_ns();
    uint64_t last = cbf_load64(&l->collided);

    cbf_store64(&l->collided, now);
    if (now - last > HOT_NS || far_pauses() == 0)
        return 0;
    return nanosleep(&nap, NULL) == 0 ? 0 : errno;
}

/* Scans are short: most are over in less than a system call takes. */
int
cbf_lock_spin_rounds(void)
{
    return far_pauses() ? CLOSE_LOOKS * CLOSE_PAUSES : 0;
}

/* ---- parking on the writer word ----------------------------------------- */

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

void
cbf_lock_forget_woken(uint32_t *parked)
{
    if (cbf_load32(parked) & CBF_FMT_PARKED_WOKEN)
        cbf_fetch_and32(parked, ~CBF_FMT_PARKED_WOKEN);
}

/* Who has waited for long asks newcomers to hold back. */
static void
ask_for_turn(struct cbf_fmt_header *hdr, struct cbf_lock_wait *w)
{
    int64_t now = cbf_lock_now_ns();

    if (w->begun == 0)
        w->begun = now;
    if (now - w->begun < TURN_NS)
        return;
    w->asked = 1;
    if (!(cbf_load32(&hdr->parked) & CBF_FMT_PARKED_TURN))
        cbf_fetch_or32(&hdr->parked, CBF_FMT_PARKED_TURN);
}

void
cbf_lock_end_turn(struct cbf_fmt_header *hdr, struct cbf_lock_wait *w)
{
    if (w->asked)
        cbf_fetch_and32(&hdr->parked, ~CBF_FMT_PARKED_TURN);
    w->asked = 0;
}

int
cbf_lock_hold_back(struct cbf_fmt_header *hdr)
{
    struct timespec nap = { .tv_sec = 0, .tv_nsec = HOLD_BACK_NS };
    int naps;

    for (naps = 0; naps < HOLD_BACK_NAPS; naps++) {
        if (!(cbf_load32(&hdr->parked) & CBF_FMT_PARKED_TURN))
            return 0;
        if (nanosleep(&nap, NULL) != 0)
            return errno;
    }
    /* who asked is dead, or stopped; if not, it will ask again */
    cbf_fetch_and32(&hdr->parked, ~CBF_FMT_PARKED_TURN);
    return 0;
}

int
cbf_lock_park(struct cbf_fmt_header *hdr, struct cbf_lock_wait *w,
              uint32_t seen, uint32_t field, uint32_t unit)
{
    int64_t ns = w->sleep_ns * 4;
    int error;

    if (ns < FIRST_PARK_NS)
        ns = FIRST_PARK_NS;
    if (ns > CBF_LOCK_PARK_NS)
        ns = CBF_LOCK_PARK_NS;
    ask_for_turn(hdr, w);
    cbf_fetch_add32(&hdr->parked, unit);
    error = cbf_lock_sleep(&hdr->writer, seen, ns);
    parked_less(&hdr->parked, field, unit);
    w->sleep_ns = error == ETIMEDOUT ? ns : 0;
    if (error == ETIMEDOUT && ns < CBF_LOCK_PARK_NS)
        error = EAGAIN;
    if (error != EINTR && watched_flag && *watched_flag)
        error = EINTR;
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
        if (cbf_lock_rouse(&hdr->writer, INT_MAX) == 0)
            parked_less(&hdr->parked, CBF_FMT_PARKED_READERS,
                        CBF_FMT_PARKED_READER);
        return;
    }
    if (parked & CBF_FMT_PARKED_WOKEN)
        return;
    cbf_fetch_or32(&hdr->parked, CBF_FMT_PARKED_WOKEN);
    if (cbf_lock_rouse(&hdr->writer, 1) == 0) {
        /* a leftover of a dead process: let it fade, or it costs a system
         * call at every release; who really sleeps will wake by itself */
        cbf_lock_forget_woken(&hdr->parked);
        parked_less(&hdr->parked, CBF_FMT_PARKED_WRITERS,
                    CBF_FMT_PARKED_WRITER);
    }
}

/* ---- the pace of a long wait -------------------------------------------- */

/* After a full sleep: whether it is time to look at the holder again. */
int
cbf_lock_time_to_look(struct cbf_lock_wait *w)
{
    if (w->left-- > 0)
        return 0;
    if (w->every < EXAMINE_EVERY_MAX)
        w->every++;
    w->left = w->every - 1;
    return 1;
}

/* After a full sleep: whether the caller must be given a chance. */
int
cbf_lock_time_to_return(struct cbf_lock_wait *w)
{
    int64_t now;

    if (watched_flag) {
        if (!*watched_flag)
            return 0;
    } else {
        now = cbf_lock_now_ns();
        if (w->since == 0)
            w->since = now;
        if (now - w->since < RETURN_NS)
            return 0;
    }
    cbf_error_set(w->e, CBF_E_INTERRUPTED, NULL);
    return 1;
}
