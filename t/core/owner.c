/*
 * owner.c - who is dead: the living, zombies, the gone, reused numbers, other
 * namespaces and boots.
 *
 * Identities of others are made by forking, or by changing one field of a real
 * one.  What needs namespaces of its own is tried, and skipped with the reason
 * where the system does not allow it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "owner.h"
#include "tap.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_SHIFT 32
#define NS_SHIFT 12

/* A child that says who it is and then waits to be killed. */
struct child {
    pid_t pid;
    struct cbf_owner owner;
};

static struct child
start_child(void)
{
    struct child c;
    int fd[2];

    if (pipe(fd) != 0)
        bail("pipe");
    c.pid = fork();
    if (c.pid < 0)
        bail("fork");
    if (c.pid == 0) {
        c.owner = *cbf_owner_self();
        if (write(fd[1], &c.owner, sizeof c.owner)
            != (ssize_t)sizeof c.owner)
            _exit(1);
        for (;;)
            pause();
    }
    if (read(fd[0], &c.owner, sizeof c.owner) != (ssize_t)sizeof c.owner)
        bail("child");
    close(fd[0]);
    close(fd[1]);
    return c;
}

static void
wait_for_zombie(pid_t pid)
{
    siginfo_t info;

    /* it has ended, and stays there to be waited for */
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
}

static void
test_self(void)
{
    const struct cbf_owner *self = cbf_owner_self();

    is_u64(self->pid, (uint64_t)getpid(), "own pid");
    ok(self->id != CBF_OWNER_NONE && self->id != CBF_OWNER_RESERVED,
       "an identity is none of the special values");
    ok(self->id >> START_SHIFT != 0, "start time known");
    ok((self->id & 0xfff) != 0, "boot known");
    ok(cbf_owner_self() == self, "the same record every time");
    is_u64(cbf_owner_judge(self->pid, self->id), CBF_OWNER_ALIVE,
           "this process is alive");
}

static void
test_life_and_death(void)
{
    struct child c = start_child();

    is_u64(c.owner.pid, (uint64_t)c.pid, "a fork child knows its own pid");
    is_u64(cbf_owner_judge(c.owner.pid, c.owner.id), CBF_OWNER_ALIVE,
           "a running child is alive");
    kill(c.pid, SIGSTOP);
    waitpid(c.pid, NULL, WUNTRACED);
    is_u64(cbf_owner_judge(c.owner.pid, c.owner.id), CBF_OWNER_ALIVE,
           "a stopped child is alive");
    is_u64(cbf_owner_judge(c.owner.pid, CBF_OWNER_NONE), CBF_OWNER_UNSURE,
           "with nothing recorded, an existing pid is left in peace");
    kill(c.pid, SIGKILL);
    wait_for_zombie(c.pid);
    is_u64(cbf_owner_judge(c.owner.pid, c.owner.id), CBF_OWNER_DEAD,
           "a zombie is dead");
    is_u64(cbf_owner_judge(c.owner.pid, CBF_OWNER_NONE), CBF_OWNER_DEAD,
           "a zombie is dead by its pid alone");
    waitpid(c.pid, NULL, 0);
    is_u64(cbf_owner_judge(c.owner.pid, c.owner.id), CBF_OWNER_DEAD,
           "who is gone is dead");
    is_u64(cbf_owner_judge(c.owner.pid, CBF_OWNER_NONE), CBF_OWNER_DEAD,
           "who is gone is dead by its pid alone");
}

static void
test_other_fields(void)
{
    const struct cbf_owner *self = cbf_owner_self();
    uint64_t later = self->id + ((uint64_t)1 << START_SHIFT);
    uint64_t elsewhere = self->id ^ (uint64_t)1 << NS_SHIFT;
    uint64_t other_boot = self->id ^ 1;

    if ((other_boot & 0xfff) == 0)
        other_boot = self->id ^ 2;
    is_u64(cbf_owner_judge(self->pid, later), CBF_OWNER_DEAD,
           "the same pid with another start time is another process");
    is_u64(cbf_owner_judge(self->pid, elsewhere), CBF_OWNER_UNSURE,
           "another namespace can't be judged");
    is_u64(cbf_owner_judge(0x3ffffe, elsewhere), CBF_OWNER_UNSURE,
           "not even if there is no such pid here");
    is_u64(cbf_owner_judge(self->pid, other_boot), CBF_OWNER_DEAD,
           "another boot is past");
    is_u64(cbf_owner_judge(self->pid, other_boot ^ (uint64_t)1 << NS_SHIFT),
           CBF_OWNER_DEAD, "in any namespace");
    is_u64(cbf_owner_judge(0, self->id), CBF_OWNER_DEAD, "pid 0");
    is_u64(cbf_owner_judge(0x7fffffff, self->id), CBF_OWNER_DEAD,
           "a pid beyond all limits");
    is_u64(cbf_owner_judge(0xffffffff, CBF_OWNER_NONE), CBF_OWNER_DEAD,
           "a pid that would be negative");
}

static uint32_t thread_pid;

static void *
thread_main(void *arg)
{
    (void)arg;
    cbf_release32(&thread_pid, (uint32_t)gettid());
    for (;;)
        pause();
    return NULL;
}

/* A dead owner's number may be a thread of another process by now. */
static void
test_thread_number(void)
{
    pthread_t t;
    uint32_t number;

    if (pthread_create(&t, NULL, thread_main, NULL) != 0)
        bail("pthread_create");
    while (cbf_acquire32(&thread_pid) == 0)
        sched_yield();
    number = cbf_load32(&thread_pid);
    is_u64(cbf_owner_judge(number, CBF_OWNER_NONE), CBF_OWNER_DEAD,
           "a thread's number is no process");
    is_u64(cbf_owner_judge(number, cbf_owner_self()->id), CBF_OWNER_DEAD,
           "not with an identity either");
    pthread_cancel(t);
    pthread_join(t, NULL);
}

/* In a PID namespace of its own, whose /proc is still that of the parent. */
static int
inside_namespace(uint32_t outer_pid, uint64_t outer_id)
{
    const struct cbf_owner *self = cbf_owner_self();
    struct child c;
    int bad = 0;

    bad |= self->pid != 1;
    bad |= (cbf_owner_judge(outer_pid, outer_id) != CBF_OWNER_UNSURE) << 1;
    bad |= (cbf_owner_judge(self->pid, self->id) != CBF_OWNER_ALIVE) << 2;
    c = start_child();
    bad |= (cbf_owner_judge(c.owner.pid, c.owner.id) != CBF_OWNER_ALIVE)
           << 3;
    kill(c.pid, SIGKILL);
    wait_for_zombie(c.pid);
    bad |= (cbf_owner_judge(c.owner.pid, c.owner.id) != CBF_OWNER_DEAD) << 4;
    waitpid(c.pid, NULL, 0);
    bad |= (cbf_owner_judge(c.owner.pid, c.owner.id) != CBF_OWNER_DEAD) << 5;
    return bad;
}

static void
test_namespace(void)
{
    /* a copy: in the child the kernel wipes the record itself */
    const struct cbf_owner self = *cbf_owner_self();
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (unshare(CLONE_NEWPID) != 0)
            _exit(99);
        pid = fork();
        if (pid == 0)
            _exit(inside_namespace(self.pid, self.id));
        waitpid(pid, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 98);
    }
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 99) {
        ok(1, "two PID namespaces # SKIP needs the right to unshare");
        return;
    }
    ok(WIFEXITED(status) && WEXITSTATUS(status) == 0,
       "seen from another PID namespace, with the parent's /proc");
    if (status != 0)
        diag("status 0x%x", (unsigned)status);
}

/* Without /proc nobody alive may look dead; the dead still do. */
static int
without_proc(void)
{
    struct child before;
    struct child after;
    int bad = 0;

    if (unshare(CLONE_NEWNS) != 0
        || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return 99;
    before = start_child();
    if (mount("none", "/proc", "tmpfs", 0, NULL) != 0) {
        kill(before.pid, SIGKILL);
        waitpid(before.pid, NULL, 0);
        return 99;
    }
    bad |= (cbf_owner_judge(before.owner.pid, before.owner.id)
            == CBF_OWNER_DEAD);
    after = start_child();
    bad |= (cbf_owner_judge(after.owner.pid, after.owner.id)
            == CBF_OWNER_DEAD)
           << 1;
    kill(before.pid, SIGKILL);
    wait_for_zombie(before.pid);
    bad |= (cbf_owner_judge(before.owner.pid, before.owner.id)
            != CBF_OWNER_DEAD)
           << 2;
    waitpid(before.pid, NULL, 0);
    kill(after.pid, SIGKILL);
    waitpid(after.pid, NULL, 0);
    return bad;
}

static void
test_without_proc(void)
{
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(without_proc());
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 99) {
        ok(1, "no /proc # SKIP needs the right to unmount it");
        return;
    }
    ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "without /proc");
    if (status != 0)
        diag("status 0x%x", (unsigned)status);
}

int
main(void)
{
    alarm(60);
    test_self();
    test_life_and_death();
    test_other_fields();
    test_thread_number();
    test_namespace();
    test_without_proc();
    return done_testing();
}
