/*
 * lock_help.h - what the tests of the lock share: a bare header in shared
 * memory, children that take the lock, a signal handler, a clock.
 *
 * Checks nothing itself.
 */
#ifndef LOCK_HELP_H
#define LOCK_HELP_H

/* Not every test needs everything. */
#define UNUSED __attribute__((unused))

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

UNUSED static struct cbf_fmt_header *
header(void)
{
    return lock.header;
}

UNUSED static void
fresh_lock(void)
{
    memset(base, 0, BYTES);
    memset(guarded, 0, sizeof *guarded);
    cbf_lock_init(&lock, base);
}

/* Set by the handler; so a wait ends for a signal, and for nothing else. */
static volatile int signalled;

UNUSED static enum cbf_lock_result
take_write(struct cbf_error *e)
{
    const struct cbf_owner *self = cbf_owner_self();

    if (!cbf_lock_knows(&lock, self))
        cbf_lock_register(&lock, self);
    return cbf_lock_write(&lock, self, e);
}

UNUSED static enum cbf_lock_result
take_read(struct cbf_error *e)
{
    return cbf_lock_read(&lock, cbf_owner_self(), e);
}

/* Runs body in a child and gives its pid. */
UNUSED static pid_t
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

UNUSED static void
wait_ready(uint32_t n)
{
    while (cbf_acquire32(&guarded->ready) < n)
        usleep(100);
}

UNUSED static int
exit_of(pid_t pid)
{
    int status;

    waitpid(pid, &status, 0);
    return status;
}

UNUSED static double
now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- what children do --------------------------------------------------- */

UNUSED static void
die_writing(void)
{
    struct cbf_error e;

    take_write(&e);
    kill(getpid(), SIGKILL);
}

UNUSED static void
hold_for_ever(void)
{
    struct cbf_error e;

    take_write(&e);
    cbf_release32(&guarded->ready, 1);
    for (;;)
        pause();
}

/* ---- signals ------------------------------------------------------------ */

UNUSED static void
on_alarm(int sig)
{
    (void)sig;
    signalled = 1;
}

/* A signal after ms milliseconds, without SA_RESTART. */
UNUSED static void
signal_in(int ms)
{
    struct sigaction sa = { .sa_handler = on_alarm };
    struct itimerval t = { .it_value = { ms / 1000, ms % 1000 * 1000 } };

    sigaction(SIGALRM, &sa, NULL);
    signalled = 0;
    setitimer(ITIMER_REAL, &t, NULL);
}

/* The surroundings of every test. */
static void
set_up(void)
{
    cbf_lock_watch(&signalled);
    base = mmap(NULL, BYTES + 4096, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        bail("mmap");
    guarded = (struct guarded *)(void *)(base + BYTES);
}

#endif
