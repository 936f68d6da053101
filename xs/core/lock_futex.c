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

/* The first sleep: what a missed wake-up costs.  About two of them. */
#define FIRST_PARK_NS (CBF_LOCK_NS_PER_MS / 10)

/* Spinning: rounds before the first sleep, and the longest pause between two
 * looks in pause instructions.  By measurement, see DESIGN. */
#define SPIN_ROUNDS 24
#define SPIN_PAUSE_MAX 64

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
 * often, but never this long not: who dies meanwhile is noticed soon
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

/* Sleeps while *word is value, at most ns (below a second).  0, or the
 * errno. */
int
cbf_lock_sleep(uint32_t *word, uint32_t value, int64_t ns)
{
    struct timespec limit = { .tv_sec = 0, .tv_nsec = ns };

    if (syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0) == 0)
        return 0;
    return errno;
}

/* Wakes up to n sleepers; how many it woke. */
long
cbf_lock_rouse(uint32_t *word, int n)
{
    return syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0);
}

/* ---- spinning ----------------------------------------------------------- */

/* Spinning helps only where the holder can run meanwhile. */
int
cbf_lock_spin_rounds(void)
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
int
cbf_lock_spin(const uint32_t *word)
{
    int rounds = cbf_lock_spin_rounds();
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

/*
 * Sleeps while the writer word is `seen`: at first for a short time, because
 * the wake-up may be missed, then longer and longer.  0, or the errno;
 * ETIMEDOUT only after a sleep of full length.
 */
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
    cbf_fetch_add32(&hdr->parked, unit);
    error = cbf_lock_sleep(&hdr->writer, seen, ns);
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
