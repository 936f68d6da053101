/* build: -DCBF_LOCK_UNSURE_NS=700000000 -DCBF_LOCK_PARK_NS=1000000 */
/*
 * namespaces.c - who is dead, judged across PID namespaces with equal pids,
 * after a pid was reused, without permission to signal or to read /proc, and
 * without /proc: a lock is never taken from the living, and nobody waits for
 * the dead longer than the contract allows.
 *
 * A keeper sets up a namespace and starts an agent in it, which does what it
 * is told through shared memory: hold the lock, let it go, add.  Needs root.
 * The time that a holder who can't be judged is given is 0.7 s here, not 30 s.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "access.h"
#include "storm.h"
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#define UNSURE_MS 700u
#define QUICK_MS 400u  /* 100 are promised; this machine may be busy */
#define PATIENT_MS 1200u /* longer than anybody in doubt is given */

enum setup {
    PLAIN = 0,
    PID_NS = 1,      /* a PID namespace of its own, with its /proc */
    NO_PROC = 2,     /* nothing at /proc */
    HIDE_PID = 4,    /* /proc with hidepid=2 */
    NOBODY = 8,      /* another uid */
    USER_NS = 16,    /* a user namespace of its own */
    PARENT_PROC = 32 /* a PID namespace with the /proc of its parent */
};

enum order { HOLD, RELEASE, ADD };
enum keeping { KILL, KILL_AND_REAP, REBORN, END };

/* Shared between the test, a keeper and its agent. */
struct agent {
    uint32_t pid; /* in its own namespace */
    uint64_t id;
    uint32_t order; /* what to do; then `asked` is raised */
    uint32_t asked;
    uint32_t done;
    int code; /* of the last one */
    uint32_t blamed;
    uint64_t took_ns;
    uint32_t keeping; /* the same for the keeper */
    uint32_t keep_asked;
    uint32_t keep_done;
    int32_t failed; /* errno: it could not be set up */
    pid_t root;     /* of the processes, seen from the test */
};

static struct cbf *filter;
static unsigned n_scenes;
static unsigned n_faults;

/* ---- agents ------------------------------------------------------------- */

static void
obey(struct agent *a)
{
    struct cbf_error e;
    uint64_t began = storm_now_ns();
    int changed;

    memset(&e, 0, sizeof e);
    if (a->order == HOLD) {
        a->code = cbf_exclusive_begin(filter, &e);
    } else if (a->order == RELEASE) {
        cbf_write_end(filter);
        a->code = 0;
    } else {
        a->code = cbf_add(filter, "item", 4, &changed, &e);
    }
    a->blamed = e.pid;
    a->took_ns = storm_now_ns() - began;
}

static void
be_agent(struct agent *a, unsigned setup)
{
    storm_child(120);
    if (setup & NOBODY
        && (setgroups(0, NULL) || setgid(65534) || setuid(65534)))
        a->failed = errno;
    if (setup & USER_NS && unshare(CLONE_NEWUSER))
        a->failed = errno;
    a->id = cbf_owner_self()->id;
    cbf_release32(&a->pid, cbf_owner_self()->pid);
    for (;;) {
        while (cbf_acquire32(&a->asked) == a->done)
            storm_nap();
        obey(a);
        cbf_release32(&a->done, a->done + 1);
    }
}

/* The next process of this namespace is to get that pid. */
static int
next_pid(pid_t pid)
{
    char text[16];
    int len = snprintf(text, sizeof text, "%d", (int)pid - 1);
    int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
    int failed = fd < 0 || write(fd, text, (size_t)len) != len;

    if (fd >= 0)
        close(fd);
    return failed ? -1 : 0;
}

/* wanted: only with this pid; 0 = any. */
static pid_t
start_agent(struct agent *a, unsigned setup, pid_t wanted)
{
    pid_t pid = fork();

    if (pid == 0 && wanted && getpid() != wanted)
        _exit(0);
    if (pid == 0)
        be_agent(a, setup);
    return pid;
}

/* Another process with the same pid, unless somebody else is faster to get it,
 * time and again. */
static int
reborn(struct agent *a, unsigned setup, pid_t pid)
{
    pid_t again;
    int tries;

    for (tries = 0; tries < 50; tries++) {
        if (next_pid(pid) != 0)
            return errno;
        again = start_agent(a, setup, pid);
        if (again == pid)
            return 0;
        if (again > 0)
            waitpid(again, NULL, 0);
    }
    return EAGAIN;
}

static void
keep(struct agent *a, unsigned setup)
{
    pid_t pid = start_agent(a, setup, 0);

    for (;;) {
        while (cbf_acquire32(&a->keep_asked) == a->keep_done)
            storm_nap();
        if (a->keeping == END) {
            kill(pid, SIGKILL);
            _exit(0);
        }
        kill(pid, SIGKILL);
        if (a->keeping == KILL) {
            siginfo_t info;

            waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
        } else {
            waitpid(pid, NULL, 0);
        }
        if (a->keeping == REBORN) {
            /* start times are counted in hundredths of a second */
            storm_wait_ns(50000000);
            a->done = a->asked;
            a->failed = reborn(a, setup, pid);
        }
        cbf_release32(&a->keep_done, a->keep_done + 1);
    }
}

static int
mount_things(unsigned setup)
{
    int code = mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);

    if (code == 0 && setup & PID_NS)
        code = mount("proc", "/proc", "proc", 0, NULL);
    if (code == 0 && setup & HIDE_PID)
        code = mount("proc", "/proc", "proc", 0, "hidepid=2");
    if (code == 0 && setup & NO_PROC)
        code = mount("none", "/proc", "tmpfs", 0, NULL);
    return code;
}

/* A keeper with its agent, ready; NULL where the system allows no such. */
static struct agent *
agent(unsigned setup)
{
    struct agent *a = storm_shared(sizeof *a);
    uint64_t end = storm_now_ns() + 10000000000u;
    pid_t pid = fork();

    if (pid == 0) {
        unsigned own = setup & (PID_NS | PARENT_PROC);

        storm_child(120);
        if (unshare(CLONE_NEWNS | (own ? CLONE_NEWPID : 0)) != 0)
            a->failed = errno;
        /* the first process of the namespace keeps, its second is the agent */
        pid = own ? fork() : 0;
        if (pid == 0) {
            storm_child(120);
            if (mount_things(setup) != 0)
                a->failed = errno;
            keep(a, setup);
        }
        waitpid(pid, NULL, 0);
        _exit(0);
    }
    a->root = pid;
    while (!cbf_acquire32(&a->pid)) {
        storm_nap();
        if (storm_now_ns() > end)
            bail("an agent does not start");
    }
    return a;
}

static void
ask(struct agent *a, enum order order)
{
    a->order = order;
    cbf_release32(&a->asked, a->asked + 1);
}

static int
answers_within(struct agent *a, unsigned ms)
{
    uint64_t end = storm_now_ns() + ms * (uint64_t)1000000;

    while (cbf_acquire32(&a->done) != a->asked) {
        if (storm_now_ns() > end)
            return 0;
        storm_nap();
    }
    return 1;
}

static void
keeper(struct agent *a, enum keeping what)
{
    a->keeping = what;
    cbf_release32(&a->keep_asked, a->keep_asked + 1);
    while (cbf_acquire32(&a->keep_done) != a->keep_asked)
        storm_nap();
}

static void
strike_agent(struct agent *a)
{
    a->keeping = END;
    cbf_release32(&a->keep_asked, a->keep_asked + 1);
    waitpid(a->root, NULL, 0);
    munmap(a, sizeof *a);
}

/* ---- what is to be seen ------------------------------------------------- */

static void
must(int truth, const char *scene, const char *what)
{
    if (!truth) {
        n_faults++;
        diag("%s: %s", scene, what);
    }
}

static uint32_t
recovered(void)
{
    return cbf_load32(&cbf_header(filter)->recovered);
}

static int
held_by(const struct agent *a)
{
    return cbf_load32(&cbf_header(filter)->writer)
           == (CBF_FMT_WRITER_HELD | a->pid);
}

static void
hold(struct agent *a, const char *scene)
{
    ask(a, HOLD);
    must(answers_within(a, 20000) && a->code == 0 && held_by(a), scene,
         "the lock can't be had");
}

/* The holder lives: the other waits, or gives up in time, and takes nothing;
 * when the holder lets go, it is on. */
static void
respects(struct agent *holder, struct agent *waiter, const char *scene)
{
    uint32_t before;

    hold(holder, scene);
    before = recovered();
    ask(waiter, ADD);
    if (answers_within(waiter, PATIENT_MS)) {
        must(waiter->code == CBF_E_OWNER, scene, "took it from the living");
        must(waiter->blamed == holder->pid, scene, "blames the wrong one");
        must(waiter->took_ns >= UNSURE_MS * (uint64_t)900000, scene,
             "gave up too early");
    }
    must(held_by(holder) && recovered() == before, scene,
         "the living lost the lock");
    ask(holder, RELEASE);
    must(answers_within(holder, 5000), scene, "the holder hangs");
    if (cbf_acquire32(&waiter->done) == waiter->asked)
        ask(waiter, ADD);
    must(answers_within(waiter, 5000) && waiter->code == 0, scene,
         "does not get on when the lock is free");
}

/* The holder dies: the other is on quickly where it can judge (sure), and else
 * gives up in time, and somebody of the holder's namespace puts it right. */
static void
buries(struct agent *holder, struct agent *waiter, int sure,
       const char *scene)
{
    uint32_t before = recovered();
    struct agent *native;

    hold(holder, scene);
    ask(waiter, ADD);
    keeper(holder, KILL);
    must(answers_within(waiter, 5000), scene, "waits for the dead");
    if (sure) {
        must(waiter->code == 0 && recovered() == before + 1, scene,
             "the dead are not recognised");
        must(waiter->took_ns < QUICK_MS * (uint64_t)1000000, scene,
             "slowly");
        if (waiter->code == 0)
            return;
    }
    must(waiter->code == CBF_E_OWNER && recovered() == before, scene,
         "judged what it can't know");
    must(waiter->took_ns < (UNSURE_MS + QUICK_MS) * (uint64_t)1000000, scene,
         "waited for longer than it may");
    /* here, all processes are known by numbers of the test's namespace */
    native = agent(PLAIN);
    keeper(holder, REBORN);
    ask(holder, ADD);
    must(answers_within(holder, 5000) && holder->code == 0
             && recovered() == before + 1,
         scene, "the holder's own namespace does not recover");
    ask(native, ADD);
    must(answers_within(native, 5000) && native->code == 0, scene,
         "and nobody else gets on");
    strike_agent(native);
}

/* ---- scenes ------------------------------------------------------------- */

/* Each scene has a filter of its own, so that none suffers from another. */
static void
fresh_filter(void)
{
    struct cbf_geometry g;
    struct cbf_error e;

    cbf_unref(filter);
    cbf_geometry_plan(1000, 0.01, &g);
    if (cbf_open_anonymous(&g, &filter, &e) != 0)
        bail("open");
}

static int
settled(const struct agent *a, const char *scene)
{
    if (a->failed == 0)
        return 1;
    diag("%s: errno %d", scene, a->failed);
    skip(scene, "the system does not allow it");
    return 0;
}

static void
pair(const char *scene, unsigned holder_is, unsigned waiter_is, int sure)
{
    struct agent *holder;
    struct agent *waiter;
    unsigned faults = n_faults;

    fresh_filter();
    holder = agent(holder_is);
    waiter = agent(waiter_is);
    if (settled(holder, scene) && settled(waiter, scene)) {
        n_scenes++;
        if (holder_is & waiter_is & PID_NS)
            must(holder->pid == waiter->pid, scene, "pids differ");
        respects(holder, waiter, scene);
        respects(waiter, holder, scene);
        buries(holder, waiter, sure, scene);
        ok(n_faults == faults, "%s (pids %u and %u)", scene, holder->pid,
           waiter->pid);
    }
    strike_agent(holder);
    strike_agent(waiter);
}

/* A process that died with the lock, and another that now has its pid.  Died
 * between taking the word and signing it, there is nothing that tells the two
 * apart: then giving up in time will do. */
static void
reused(const char *scene, int is_signed)
{
    struct agent *holder;
    unsigned faults = n_faults;
    uint32_t before;
    uint32_t pid;

    fresh_filter();
    holder = agent(PID_NS);
    pid = holder->pid;
    if (settled(holder, scene)) {
        hold(holder, scene);
        before = recovered();
        if (!is_signed)
            cbf_store32(&cbf_header(filter)->writer_pid, 0);
        keeper(holder, REBORN);
        while (cbf_acquire32(&holder->pid) == 0)
            storm_nap();
        if (settled(holder, scene)) {
            n_scenes++;
            must(holder->pid == pid, scene, "another pid");
            /* the new one itself must not take the lock for its own */
            ask(holder, ADD);
            if (!answers_within(holder, 5000))
                must(0, scene, "waits for the dead for ever");
            else if (is_signed || holder->code != CBF_E_OWNER)
                must(holder->code == 0
                         && holder->took_ns < QUICK_MS * (uint64_t)1000000
                         && recovered() == before + 1,
                     scene, "the dead are taken for the living");
            ok(n_faults == faults, "%s (pid %u)", scene, pid);
        }
    }
    strike_agent(holder);
}

/* With another living process on the pid, and a third that judges. */
static void
reused_beside(const char *scene, int is_signed)
{
    struct agent *other;
    struct agent *holder;
    unsigned faults = n_faults;
    uint32_t before;
    uint32_t pid;

    fresh_filter();
    other = agent(PLAIN);
    holder = agent(PLAIN);
    pid = holder->pid;
    hold(holder, scene);
    before = recovered();
    if (!is_signed)
        cbf_store32(&cbf_header(filter)->writer_pid, 0);
    keeper(holder, REBORN);
    if (settled(holder, scene)) {
        n_scenes++;
        must(holder->pid == pid && held_by(holder), scene, "another pid");
        ask(other, ADD);
        must(answers_within(other, 5000) && other->code == 0
                 && other->took_ns < QUICK_MS * (uint64_t)1000000
                 && recovered() == before + 1,
             scene, "the dead are taken for the living");
        respects(holder, other, scene);
        ok(n_faults == faults, "%s (pid %u)", scene, pid);
    }
    strike_agent(other);
    strike_agent(holder);
}

/* As a reboot leaves it: the pid lives, but it is of another boot. */
static void
rebooted(const char *scene)
{
    struct agent *waiter;
    struct cbf_fmt_header *hdr;
    unsigned faults = n_faults;
    uint32_t before;

    fresh_filter();
    waiter = agent(PLAIN);
    hdr = cbf_header(filter);
    before = recovered();
    n_scenes++;
    cbf_store64(&hdr->writer_id, cbf_owner_self()->id ^ 0x7ff);
    cbf_store32(&hdr->writer_pid, (uint32_t)getpid());
    cbf_store32(&hdr->writer, CBF_FMT_WRITER_HELD | (uint32_t)getpid());
    ask(waiter, ADD);
    must(answers_within(waiter, 5000) && waiter->code == 0
             && waiter->took_ns < QUICK_MS * (uint64_t)1000000
             && recovered() == before + 1,
         scene, "waits for a process of another boot");
    ok(n_faults == faults, "%s", scene);
    strike_agent(waiter);
}

/* Whether a process without /proc can tell its namespace: Linux 6.11. */
static int
knows_without_proc(void)
{
    struct agent *a = agent(NO_PROC);
    int knows = (a->id >> 12 & 0xfffff) != 0xfffff;

    strike_agent(a);
    diag("without /proc, the namespace is %s", knows ? "known" : "unknown");
    return knows;
}

int
main(void)
{
    int knows;

    if (geteuid() != 0)
        return skip_all("namespaces and mounts need root");
    if (unshare(CLONE_NEWNS) != 0)
        return skip_all("no mount namespaces here");
    watchdog(300);
    cbf_watch_signals(&storm_no_signal);
    fresh_filter();
    knows = knows_without_proc();
    pair("two of one namespace", PLAIN, PLAIN, 1);
    pair("two PID namespaces, equal pids", PID_NS, PID_NS, 0);
    pair("held in an inner PID namespace", PID_NS, PLAIN, 0);
    pair("a PID namespace that sees its parent's /proc", PARENT_PROC, PLAIN,
         0);
    pair("another uid", PLAIN, NOBODY, 1);
    pair("another uid, hidepid", PLAIN, HIDE_PID | NOBODY, 1);
    pair("both with other uids, hidepid", HIDE_PID | NOBODY,
         HIDE_PID | NOBODY, 1);
    pair("another user namespace", PLAIN, USER_NS, 1);
    pair("held without /proc", NO_PROC, PLAIN, knows);
    pair("judged without /proc", PLAIN, NO_PROC, knows);
    pair("both without /proc", NO_PROC, NO_PROC, knows);
    pair("another uid, without /proc", PLAIN, NO_PROC | NOBODY, knows);
    reused("a pid reused", 1);
    reused("a pid reused, nothing signed", 0);
    reused_beside("a pid reused, judged by another", 1);
    reused_beside("a pid reused, nothing signed, judged by another", 0);
    rebooted("a reboot");
    ok(n_scenes > 0, "%u scenes", n_scenes);
    diag("figures: scenes=%u faults=%u", n_scenes, n_faults);
    cbf_unref(filter);
    return done_testing();
}
