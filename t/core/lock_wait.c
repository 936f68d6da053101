/* build: -DCBF_LOCK_UNSURE_NS=300000000 -DCBF_LOCK_PARK_NS=2000000 */
/* variant: -DCBF_LOCK_ONE_CPU */
/*
 * lock_wait.c - how one waits for the lock: with signals, without end, beside
 * a greedy process, on one processor.
 *
 * Who gets the lock and who loses it is lock.c.
 */
#include "lock_help.h"

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
    set_up();
    test_signal_storm();
    test_handover();
    test_turns();
    test_return();
    return done_testing();
}
