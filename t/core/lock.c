/* build: -DCBF_LOCK_UNSURE_NS=300000000 -DCBF_LOCK_PARK_NS=2000000 */
/* variant: -DCBF_LOCK_ONE_CPU */
/*
 * lock.c - the lock between processes: exclusion, the dead, the stopped, those
 * who can't be judged, full slots, stale hints.
 *
 * Works on a bare header in shared memory; there is no table.  The waits for
 * those who can't be judged are built short.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "lock.h"
#include "atomic.h"
#include "tap.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BYTES CBF_FMT_COUNTERS_OFFSET

/* What the lock guards in these tests, and a place for reports. */
struct guarded {
    volatile uint64_t a;
    volatile uint64_t b;
    uint32_t torn;
    uint32_t ready;
};

static char *base;
static struct guarded *guarded;
static struct cbf_lock lock;

static struct cbf_fmt_header *
header(void)
{
    return lock.header;
}

static void
fresh_lock(void)
{
    memset(base, 0, BYTES);
    memset(guarded, 0, sizeof *guarded);
    cbf_lock_init(&lock, base);
}

/* Set by the handler; so a wait ends for a signal, and for nothing else. */
static volatile int signalled;

static enum cbf_lock_result
take_write(struct cbf_error *e)
{
    const struct cbf_owner *self = cbf_owner_self();

    if (!cbf_lock_knows(&lock, self))
        cbf_lock_register(&lock, self);
    return cbf_lock_write(&lock, self, e);
}

static enum cbf_lock_result
take_read(struct cbf_error *e)
{
    return cbf_lock_read(&lock, cbf_owner_self(), e);
}

/* Runs body in a child and gives its pid. */
static pid_t
spawn(void (*body)(void))
{
    pid_t pid = fork();

    if (pid < 0)
        bail("fork");
    if (pid == 0) {
        body();
        _exit(0);
    }
    return pid;
}

static void
wait_ready(uint32_t n)
{
    while (cbf_acquire32(&guarded->ready) < n)
        usleep(100);
}

static int
exit_of(pid_t pid)
{
    int status;

    waitpid(pid, &status, 0);
    return status;
}

static double
now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- exclusion ---------------------------------------------------------- */

#define ROUNDS 20000
#define WRITERS 4

static void
write_rounds(void)
{
    struct cbf_error e;
    int i;

    for (i = 0; i < ROUNDS; i++) {
        if (take_write(&e) == CBF_LOCK_FAILED)
            _exit(1);
        guarded->a++;
        if (guarded->a != guarded->b + 1)
            cbf_fetch_add32(&guarded->torn, 1);
        guarded->b++;
        cbf_lock_write_done(&lock);
    }
}

static void
read_rounds(void)
{
    struct cbf_error e;
    int i;

    for (i = 0; i < ROUNDS; i++) {
        if (take_read(&e) != CBF_LOCK_HELD)
            _exit(1);
        if (guarded->a != guarded->b)
            cbf_fetch_add32(&guarded->torn, 1);
        cbf_lock_read_done(&lock);
    }
}

static void
test_exclusion(void)
{
    pid_t pid[WRITERS + 2];
    int bad = 0;
    int i;

    fresh_lock();
    for (i = 0; i < WRITERS + 2; i++)
        pid[i] = spawn(i < WRITERS ? write_rounds : read_rounds);
    for (i = 0; i < WRITERS + 2; i++)
        bad += exit_of(pid[i]) != 0;
    is_u64((uint64_t)bad, 0, "all writers and readers finish");
    is_u64(guarded->a, WRITERS * ROUNDS, "no update is lost");
    is_u64(guarded->torn, 0, "nobody sees a half-done one");
    is_u64(header()->writer, 0, "the word is free in the end");
    is_u64(header()->parked, 0, "nobody is parked in the end");
    is_u64(header()->recovered, 0, "nobody was taken for dead");
}

/* ---- the dead ----------------------------------------------------------- */

static void
die_writing(void)
{
    struct cbf_error e;

    take_write(&e);
    kill(getpid(), SIGKILL);
}

static void
die_reading(void)
{
    struct cbf_error e;

    take_read(&e);
    kill(getpid(), SIGKILL);
}

static void
test_dead_writer(void)
{
    struct cbf_error e;
    double t0;

    fresh_lock();
    exit_of(spawn(die_writing));
    ok(header()->writer != 0, "the dead hold on to the word");
    t0 = now_ms();
    is_u64(take_read(&e), CBF_LOCK_DEAD_WRITER, "a reader finds out");
    is_u64(take_write(&e), CBF_LOCK_TOOK_OVER, "a writer takes over");
    ok(now_ms() - t0 < 1000, "soon");
    is_u64(header()->recovered, 1, "and counts it");
    cbf_lock_write_done(&lock);
    is_u64(take_write(&e), CBF_LOCK_HELD, "after that it is an ordinary lock");
    cbf_lock_write_done(&lock);
}

static void
test_dead_reader(void)
{
    struct cbf_error e;
    double t0;

    fresh_lock();
    exit_of(spawn(die_reading));
    t0 = now_ms();
    is_u64(take_write(&e), CBF_LOCK_HELD, "a dead reader is not waited for");
    ok(now_ms() - t0 < 1000, "long");
    is_u64(header()->recovered, 0, "there was no work of its to take over");
    cbf_lock_write_done(&lock);
}

/* The word, and nothing that says whose it is. */
static void
test_no_identity(void)
{
    struct cbf_error e;
    pid_t gone = spawn(read_rounds);

    fresh_lock();
    exit_of(gone);
    header()->writer = CBF_FMT_WRITER_HELD | (uint32_t)gone;
    is_u64(take_write(&e), CBF_LOCK_TOOK_OVER_UNSIGNED,
           "with the pid alone: gone is dead");
    cbf_lock_write_done(&lock);
    header()->writer = 12345;
    is_u64(take_write(&e), CBF_LOCK_TOOK_OVER_UNSIGNED,
           "no release wrote that word");
    cbf_lock_write_done(&lock);
    header()->writer = UINT32_MAX;
    is_u64(take_write(&e), CBF_LOCK_TOOK_OVER_UNSIGNED,
           "nor is there such a pid");
    cbf_lock_write_done(&lock);

    /* between its swap and its identity: the slot tells */
    lock.slots[7].owner.part.pid = (uint32_t)gone;
    lock.slots[7].id = cbf_owner_self()->id ^ 0x1000;
    header()->writer = CBF_FMT_WRITER_HELD | (uint32_t)gone;
    is_u64(take_write(&e), CBF_LOCK_FAILED,
           "one of another namespace, that only its slot names, is respected");
    is_u64((uint64_t)e.code, CBF_E_OWNER, "and named after a while");
    is_u64(e.pid, (uint64_t)gone, "by its pid");
    lock.slots[7].id = cbf_owner_self()->id;
    is_u64(take_write(&e), CBF_LOCK_TOOK_OVER_UNSIGNED,
           "one of our own is judged");
    cbf_lock_write_done(&lock);
}

/* ---- the living --------------------------------------------------------- */

static void
hold_for_ever(void)
{
    struct cbf_error e;

    take_write(&e);
    cbf_release32(&guarded->ready, 1);
    for (;;)
        pause();
}

static void
read_for_ever(void)
{
    struct cbf_error e;

    take_read(&e);
    cbf_release32(&guarded->ready, 1);
    for (;;)
        pause();
}

static void
on_alarm(int sig)
{
    (void)sig;
    signalled = 1;
}

/* A signal after ms milliseconds, without SA_RESTART. */
static void
signal_in(int ms)
{
    struct sigaction sa = { .sa_handler = on_alarm };
    struct itimerval t = { .it_value = { ms / 1000, ms % 1000 * 1000 } };

    sigaction(SIGALRM, &sa, NULL);
    signalled = 0;
    setitimer(ITIMER_REAL, &t, NULL);
}

static void
test_stopped(void (*body)(void), const char *who)
{
    struct cbf_error e;
    pid_t pid;

    fresh_lock();
    pid = spawn(body);
    wait_ready(1);
    kill(pid, SIGSTOP);
    waitpid(pid, NULL, WUNTRACED);
    /* well over the time after which one that can't be judged is given up */
    signal_in(1000);
    is_u64(take_write(&e), CBF_LOCK_FAILED, "a stopped %s keeps its lock",
           who);
    is_u64((uint64_t)e.code, CBF_E_INTERRUPTED,
           "until a signal ends the wait");
    kill(pid, SIGKILL);
    exit_of(pid);
    signalled = 0;
    ok(take_write(&e) != CBF_LOCK_FAILED, "killed, it loses it");
    cbf_lock_write_done(&lock);
}

static void
test_unjudgeable(void)
{
    uint64_t elsewhere = cbf_owner_self()->id ^ 0x1000;
    struct cbf_error e;
    double t0 = now_ms();

    fresh_lock();
    header()->writer = CBF_FMT_WRITER_HELD | 17;
    header()->writer_pid = 17;
    header()->writer_id = elsewhere;
    is_u64(take_write(&e), CBF_LOCK_FAILED, "a writer elsewhere");
    is_u64((uint64_t)e.code, CBF_E_OWNER, "is given up after a time");
    is_u64(e.pid, 17, "and named");
    ok(now_ms() - t0 >= 300, "not before");
    is_u64(take_read(&e), CBF_LOCK_FAILED, "the same for a scan");
    is_u64((uint64_t)e.code, CBF_E_OWNER, "with the same reason");
    is_u64(header()->writer, CBF_FMT_WRITER_HELD | 17,
           "the word was not touched");
    header()->writer = 0;
    header()->writer_pid = 0;
    lock.slots[5].owner.part.pid = 18;
    lock.slots[5].owner.part.held = 1;
    lock.slots[5].id = elsewhere;
    lock.bitmap[0] |= 1 << 5;
    is_u64(take_write(&e), CBF_LOCK_FAILED, "a reader elsewhere");
    is_u64(e.pid, 18, "is named too");
    is_u64(header()->writer, 0, "and the word is free again");
}

/* ---- slots and hints ---------------------------------------------------- */

static void
test_full_slots(void)
{
    struct cbf_owner self = *cbf_owner_self();
    struct cbf_error e;
    pid_t gone = spawn(read_rounds);
    uint32_t i;

    exit_of(gone);
    fresh_lock();
    for (i = 0; i < CBF_FMT_SLOTS; i++) {
        lock.slots[i].owner.part.pid = self.pid;
        lock.slots[i].id = self.id;
    }
    is_u64(take_write(&e), CBF_LOCK_HELD, "without a free slot one can write");
    cbf_lock_write_done(&lock);
    is_u64(take_read(&e), CBF_LOCK_NO_READ_SLOT, "but not read");
    for (i = 0; i < CBF_FMT_SLOTS; i++)
        if (lock.slots[i].owner.part.pid != self.pid)
            break;
    is_u64(i, CBF_FMT_SLOTS, "no slot of the living was touched");

    fresh_lock();
    for (i = 0; i < CBF_FMT_SLOTS; i++) {
        lock.slots[i].owner.part.pid = i % 2 ? (uint32_t)gone : self.pid;
        lock.slots[i].id = self.id;
    }
    is_u64(take_read(&e), CBF_LOCK_HELD, "slots of the dead are taken");
    cbf_lock_read_done(&lock);
}

static void
inherit(void)
{
    struct cbf_error e;

    if (take_read(&e) != CBF_LOCK_HELD)
        _exit(1);
    cbf_lock_read_done(&lock);
    cbf_lock_leave(&lock);
}

static void
test_slots_and_fork(void)
{
    struct cbf_error e;
    uint32_t mine;
    uint32_t used = 0;
    uint32_t i;

    fresh_lock();
    take_read(&e);
    mine = (uint32_t)lock.registration - 1;
    is_u64((uint64_t)exit_of(spawn(inherit)), 0,
           "a fork child uses a slot of its own");
    is_u64(lock.slots[mine].owner.part.held, 1,
           "and leaves its parent's lock alone");
    for (i = 0; i < CBF_FMT_SLOTS; i++)
        used += lock.slots[i].id != 0;
    is_u64(used, 1, "and its slot when it goes");
    cbf_lock_read_done(&lock);
    cbf_lock_leave(&lock);
    is_u64(lock.slots[mine].id, 0, "leaving frees the slot");
    cbf_lock_leave(&lock);
    ok(1, "leaving twice is nothing");
}

static void
test_stale_hints(void)
{
    struct cbf_error e;
    int i;

    fresh_lock();
    header()->parked = 3 * CBF_FMT_PARKED_WRITER + 2 * CBF_FMT_PARKED_READER
                       + CBF_FMT_PARKED_WOKEN;
    header()->slotless = 3;
    header()->drain = 77;
    for (i = 0; i < 10; i++) {
        take_write(&e);
        cbf_lock_write_done(&lock);
    }
    is_u64(header()->parked & CBF_FMT_PARKED_READERS, 0,
           "leftover hints of readers fade");
    /* a waiter forgets the flag that a dead one left set */
    header()->writer = 12345;
    take_write(&e);
    cbf_lock_write_done(&lock);
    for (i = 0; i < 10; i++) {
        take_write(&e);
        cbf_lock_write_done(&lock);
    }
    is_u64(header()->parked, 0, "those of writers too");
    is_u64(header()->slotless, 3, "an older release's count is left alone");
}

static void
test_reset(void)
{
    static const char zero[BYTES];
    uint32_t i;

    fresh_lock();
    memset(base, 0xa5, BYTES);
    header()->writer_pid = 0;
    is_u64((uint64_t)cbf_lock_signed(&lock), 0,
           "a word without its identity is not known as ours");
    header()->writer_pid = header()->writer & ~CBF_FMT_WRITER_HELD;
    is_u64((uint64_t)cbf_lock_signed(&lock), 1, "with it, it is");
    cbf_lock_reset(&lock);
    ok(memcmp(base + CBF_FMT_SLOTS_OFFSET, zero, BYTES - CBF_FMT_SLOTS_OFFSET)
           == 0,
       "reset: no slot and no bit");
    i = header()->writer | header()->parked | header()->drain
        | header()->slotless | header()->writer_pid;
    is_u64(i, 0, "reset: all words are 0");
    is_u64(header()->magic, 0xa5a5a5a5, "reset: nothing else was touched");
}

/* Signals so often that no sleep is ever full; the dead are found all the
 * same. */
static void
test_signal_storm(void)
{
    struct itimerval often = { { 0, 1500 }, { 0, 1500 } };
    struct itimerval never = { { 0, 0 }, { 0, 0 } };
    struct sigaction sa = { .sa_handler = on_alarm };
    enum cbf_lock_result got = CBF_LOCK_FAILED;
    struct cbf_error e;
    double t0;

    fresh_lock();
    exit_of(spawn(die_writing));
    sigaction(SIGALRM, &sa, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    t0 = now_ms();
    while (got == CBF_LOCK_FAILED && now_ms() - t0 < 5000) {
        signalled = 0;
        got = take_write(&e);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    signalled = 0;
    is_u64(got, CBF_LOCK_TOOK_OVER, "signals do not keep the dead alive");
    ok(now_ms() - t0 < 1000, "for long");
    cbf_lock_write_done(&lock);
}

static void
hold_and_free(void)
{
    struct cbf_error e;

    take_write(&e);
    cbf_release32(&guarded->ready, 1);
    usleep(50000);
    cbf_lock_write_done(&lock);
}

static void
test_handover(void)
{
    struct cbf_error e;
    pid_t pid;

    fresh_lock();
    pid = spawn(hold_and_free);
    wait_ready(1);
    is_u64(take_write(&e), CBF_LOCK_HELD, "a lock that is freed is had");
    cbf_lock_write_done(&lock);
    exit_of(pid);
}

/* One process that takes the lock over and over leaves others their turn. */
static void
test_turns(void)
{
    struct cbf_error e;
    double t0;
    double worst = 0;
    pid_t pid;
    int i;

    fresh_lock();
    pid = fork();
    if (pid == 0)
        for (;;) {
            take_write(&e);
            cbf_release32(&guarded->ready, 1);
            for (i = 0; i < 300000; i++)
                guarded->a++;
            cbf_lock_write_done(&lock);
        }
    wait_ready(1);
    for (i = 0; i < 20; i++) {
        t0 = now_ms();
        while (take_write(&e) == CBF_LOCK_FAILED)
            continue;
        cbf_lock_write_done(&lock);
        if (now_ms() - t0 > worst)
            worst = now_ms() - t0;
    }
    kill(pid, SIGKILL);
    exit_of(pid);
    diag("the longest wait beside a greedy process: %.1f ms", worst);
    ok(worst < 2000, "a greedy process leaves others their turn");
}

/* Who watches no flag gets control back by itself. */
static void
test_return(void)
{
    struct cbf_error e;
    pid_t pid;

    fresh_lock();
    pid = spawn(hold_for_ever);
    wait_ready(1);
    cbf_lock_watch(NULL);
    is_u64(take_write(&e), CBF_LOCK_FAILED, "a wait without a flag returns");
    is_u64((uint64_t)e.code, CBF_E_INTERRUPTED, "as if interrupted");
    cbf_lock_watch(&signalled);
    kill(pid, SIGKILL);
    exit_of(pid);
}

int
main(void)
{
    cbf_lock_watch(&signalled);
    base = mmap(NULL, BYTES + 4096, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        bail("mmap");
    guarded = (struct guarded *)(void *)(base + BYTES);
    test_exclusion();
    test_dead_writer();
    test_dead_reader();
    test_no_identity();
    test_stopped(hold_for_ever, "writer");
    test_stopped(read_for_ever, "reader");
    test_signal_storm();
    test_handover();
    test_turns();
    test_return();
    test_unjudgeable();
    test_full_slots();
    test_slots_and_fork();
    test_stale_hints();
    test_reset();
    return done_testing();
}
