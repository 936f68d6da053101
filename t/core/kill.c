/* kill-points */
/* variant: -DN_PROBES=20 */
/* build: -DCBF_LOCK_PARK_NS=1000000 */
/*
 * kill.c - a process is killed at every named point inside every operation,
 * and the table is compared, byte by byte, with a model of what it may be
 * then.
 *
 * The model is an array with one element a counter; only the hash of an item
 * is taken from the code under test.  What this does not do: random instants
 * (those are for the Perl tests), and points where nothing was stored.
 */
#include "cbf.h"
#include "handle.h"
#include "killpoint.h"
#include "tap.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define N_COUNTERS 256
#ifndef N_PROBES /* the usual number, or one of two halves */
#define N_PROBES 7
#endif
#define BATCH 5

/* ---- arming ------------------------------------------------------------- */

/* Shared with the child, so that the name survives it. */
struct armed {
    long countdown; /* hits until the kill; 0 = not armed */
    char name[64];  /* of the point where it happened */
};

static struct armed *armed;

void
cbf_test_kill_point(const char *name)
{
    if (armed->countdown == 0)
        return;
    if (--armed->countdown > 0)
        return;
    snprintf(armed->name, sizeof armed->name, "%s", name);
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

/* No handlers here: waits go on until they are over. */
static const volatile int no_signal;

/* ---- the model ---------------------------------------------------------- */

struct model {
    unsigned char value[N_COUNTERS];
};

static void
model_probe(const char *item, unsigned at[N_PROBES])
{
    struct cbf_hash h = cbf_hash_item(item, strlen(item));
    unsigned i;

    for (i = 0; i < N_PROBES; i++)
        at[i] = (unsigned)((h.lo + i * (h.hi | 1)) % N_COUNTERS);
}

static void
model_add(struct model *m, const char *item)
{
    unsigned at[N_PROBES];
    unsigned i;

    model_probe(item, at);
    for (i = 0; i < N_PROBES; i++)
        if (m->value[at[i]] < 15)
            m->value[at[i]]++;
}

static void
model_remove(struct model *m, const char *item)
{
    unsigned at[N_PROBES];
    unsigned i;

    model_probe(item, at);
    for (i = 0; i < N_PROBES; i++)
        if (m->value[at[i]] == 0)
            return;
    for (i = 0; i < N_PROBES; i++)
        if (m->value[at[i]] > 0 && m->value[at[i]] < 15)
            m->value[at[i]]--;
}

static void
model_read(struct model *m, const struct cbf *f)
{
    unsigned i;
    unsigned byte;

    for (i = 0; i < N_COUNTERS; i++) {
        byte = f->counters[i / 2];
        m->value[i] = i % 2 ? byte / 16 : byte % 16;
    }
}

static int
same(const struct model *a, const struct model *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* ---- the operations ----------------------------------------------------- */

static const char *const batch_items[BATCH]
    = { "b1", "b2", "saturated", "b4", "common" };

static void
hash_batch(struct cbf_hash h[BATCH])
{
    unsigned i;

    for (i = 0; i < BATCH; i++)
        h[i] = cbf_hash_item(batch_items[i], strlen(batch_items[i]));
}

static int
do_add(struct cbf *f, struct cbf *other, struct cbf_error *e)
{
    int changed;

    (void)other;
    return cbf_add(f, "fresh", 5, &changed, e);
}

static int
do_remove(struct cbf *f, struct cbf *other, struct cbf_error *e)
{
    int changed;

    (void)other;
    return cbf_remove(f, "common", 6, &changed, e);
}

static int
do_add_many(struct cbf *f, struct cbf *other, struct cbf_error *e)
{
    struct cbf_hash h[BATCH];
    size_t n;

    (void)other;
    hash_batch(h);
    return cbf_add_many(f, h, BATCH, &n, e);
}

static int
do_add_bulk(struct cbf *f, struct cbf *other, struct cbf_error *e)
{
    struct cbf_hash h[BATCH];
    size_t n = 0;

    (void)other;
    hash_batch(h);
    return cbf_add_bulk(f, h, BATCH, &n, e);
}

static int
do_remove_many(struct cbf *f, struct cbf *other, struct cbf_error *e)
{
    struct cbf_hash h[BATCH];
    size_t n;

    (void)other;
    hash_batch(h);
    return cbf_remove_many(f, h, BATCH, &n, e);
}

static int
do_clear(struct cbf *f, struct cbf *other, struct cbf_error *e)
{
    (void)other;
    return cbf_clear(f, e);
}

static int
do_merge(struct cbf *f, struct cbf *other, struct cbf_error *e)
{
    return cbf_merge(f, other, e);
}

static int
do_freeze(struct cbf *f, struct cbf *other, struct cbf_error *e)
{
    (void)other;
    return cbf_freeze(f, e);
}

static int
do_stats(struct cbf *f, struct cbf *other, struct cbf_error *e)
{
    struct cbf_stats s;

    (void)other;
    return cbf_stats(f, &s, e);
}

/* As if an older release had changed the table: the totals are counted
 * anew. */
static int
do_recount(struct cbf *f, struct cbf *other, struct cbf_error *e)
{
    cbf_store64(&cbf_header(f)->tally_ops, 3);
    return do_stats(f, other, e);
}

struct operation {
    const char *name;
    int (*run)(struct cbf *f, struct cbf *other, struct cbf_error *e);
};

static const struct operation operations[] = {
    { "add", do_add },           { "remove", do_remove },
    { "add_many", do_add_many }, { "remove_many", do_remove_many },
    { "clear", do_clear },       { "merge", do_merge },
    { "freeze", do_freeze },     { "stats", do_stats },
    { "recount", do_recount },   { "add_bulk", do_add_bulk },
};

#define N_OPERATIONS (sizeof operations / sizeof operations[0])

/* ---- what may be there afterwards --------------------------------------- */

static void
fill(struct cbf *f, struct model *m)
{
    static const char *const items[] = { "common", "b2", "b4", "x", "y" };
    struct cbf_error e;
    int changed;
    unsigned i;

    memset(m, 0, sizeof *m);
    for (i = 0; i < 5; i++) {
        cbf_add(f, items[i], strlen(items[i]), &changed, &e);
        model_add(m, items[i]);
    }
    for (i = 0; i < 20; i++) {
        cbf_add(f, "saturated", 9, &changed, &e);
        model_add(m, "saturated");
    }
}

/* After `done` items of the batch; 1 if any of them fits. */
static int
fits_batch(const struct model *before, const struct model *now,
           void (*step)(struct model *, const char *))
{
    struct model m = *before;
    unsigned i;

    for (i = 0; i < BATCH; i++) {
        if (same(&m, now))
            return 1;
        step(&m, batch_items[i]);
    }
    return same(&m, now);
}

static int
fits_merge(const struct model *before, const struct model *other,
           const struct model *now)
{
    unsigned i;
    unsigned sum;

    for (i = 0; i < N_COUNTERS; i++) {
        sum = before->value[i] + other->value[i];
        if (sum > 15)
            sum = 15;
        if (now->value[i] != before->value[i] && now->value[i] != sum)
            return 0;
    }
    return 1;
}

/* Any part of the batch's steps up. */
static int
fits_bulk(const struct model *before, const struct model *now)
{
    struct model all = *before;
    unsigned i;

    for (i = 0; i < BATCH; i++)
        model_add(&all, batch_items[i]);
    for (i = 0; i < N_COUNTERS; i++)
        if (now->value[i] < before->value[i] || now->value[i] > all.value[i])
            return 0;
    return 1;
}

static int
fits(const struct operation *op, const struct model *before,
     const struct model *other, const struct model *now)
{
    struct model after = *before;

    if (op->run == do_add)
        model_add(&after, "fresh");
    else if (op->run == do_remove)
        model_remove(&after, "common");
    else if (op->run == do_clear)
        memset(&after, 0, sizeof after);
    else if (op->run == do_add_many)
        return fits_batch(before, now, model_add);
    else if (op->run == do_remove_many)
        return fits_batch(before, now, model_remove);
    else if (op->run == do_add_bulk)
        return fits_bulk(before, now);
    else if (op->run == do_merge)
        return fits_merge(before, other, now);
    return same(before, now) || same(&after, now);
}

/* ---- one round ---------------------------------------------------------- */

struct scene {
    struct cbf *f;
    struct cbf *other;
    struct model before;
    struct model other_model;
};

static void
set_scene(struct scene *s)
{
    struct cbf_geometry g;
    struct cbf_error e;

    /* 7 probes and 256 counters: items share counters often */
    cbf_geometry_plan(160 / N_PROBES, 1.0 / (1 << N_PROBES), &g);
    if (cbf_open_anonymous(&g, &s->f, &e) != 0
        || cbf_open_anonymous(&g, &s->other, &e) != 0)
        bail("no filter");
    fill(s->f, &s->before);
    fill(s->other, &s->other_model);
}

static void
strike_scene(struct scene *s)
{
    cbf_unref(s->f);
    cbf_unref(s->other);
}

/* Runs op in a child that is killed at its n-th point; 1 if it was killed, 0
 * if it has fewer points. */
static int
killed_at(const struct operation *op, struct scene *s, long n)
{
    struct cbf_error e;
    int status;
    pid_t pid = fork();

    if (pid < 0)
        bail("fork");
    if (pid == 0) {
        armed->countdown = n;
        op->run(s->f, s->other, &e);
        _exit(0);
    }
    if (waitpid(pid, &status, 0) != pid)
        bail("waitpid");
    armed->countdown = 0;
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static double
now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double slowest_ms;
static long n_kills;

/* The next process comes along: everything must be as the model says. */
static int
check_after(const struct operation *op, struct scene *s, const char *where)
{
    struct model now;
    struct cbf_tally counted;
    struct cbf_stats stats;
    struct cbf_error e;
    int changed;
    int bad = 0;
    uint32_t held = cbf_load32(&cbf_header(s->f)->writer);
    uint32_t recovered = cbf_load32(&cbf_header(s->f)->recovered);
    double t0 = now_ms();

    if (cbf_stats(s->f, &stats, &e) != 0)
        bad = 1;
    if (now_ms() - t0 > slowest_ms)
        slowest_ms = now_ms() - t0;
    model_read(&now, s->f);
    if (!fits(op, &s->before, &s->other_model, &now))
        bad |= 2;
    cbf_counter_tally(s->f->counters, N_COUNTERS / 2, &counted);
    if (counted.nonzero != stats.nonzero || counted.sum != stats.sum
        || counted.saturated != stats.saturated)
        bad |= 4;
    /* a sealed filter is nobody's to take over */
    if (!cbf_frozen(s->f) && held && stats.recovered != recovered + 1)
        bad |= 8;
    if (!held && stats.recovered != recovered)
        bad |= 16;
    if (!cbf_frozen(s->f)) {
        s->before = now;
        model_add(&s->before, "later");
        if (cbf_add(s->f, "later", 5, &changed, &e) != 0)
            bad |= 32;
        model_read(&now, s->f);
        if (!same(&now, &s->before))
            bad |= 64;
        if (cbf_load32(&cbf_header(s->f)->writer) != 0)
            bad |= 128;
    }
    if (bad)
        diag("%s at \"%s\": faults 0x%x", op->name, where, bad);
    return bad;
}

static void
test_operation(const struct operation *op)
{
    struct scene s;
    long n;
    int bad = 0;
    int killed = 1;

    for (n = 1; killed; n++) {
        set_scene(&s);
        killed = killed_at(op, &s, n);
        if (killed) {
            n_kills++;
            bad += check_after(op, &s, armed->name) != 0;
        }
        strike_scene(&s);
    }
    ok(n > 2, "%s: has points to be killed at (%ld)", op->name, n - 2);
    ok(bad == 0, "%s: killed at each of them, the table is as it should be",
       op->name);
}

/* The one who comes along is killed too, at each of its own points. */
static void
test_recovery(const struct operation *op)
{
    static const struct operation look = { "stats", do_stats };
    struct scene s;
    struct armed first;
    long n;
    long second;
    int bad = 0;
    int killed = 1;
    int again;

    for (n = 1; killed; n++) {
        again = 1;
        for (second = 1; killed && again; second++) {
            set_scene(&s);
            killed = killed_at(op, &s, n);
            first = *armed;
            again = killed && killed_at(&look, &s, second);
            if (again) {
                n_kills += 2;
                bad += check_after(op, &s, first.name) != 0;
            }
            strike_scene(&s);
        }
    }
    ok(bad == 0, "%s: killed, and its successor killed at each of its points",
       op->name);
}

/* One of each kind of record. */
static int
is_short(const struct operation *op)
{
    return op->run == do_add || op->run == do_clear || op->run == do_merge
           || op->run == do_recount || op->run == do_add_bulk;
}

int
main(void)
{
    size_t i;

    alarm(600);
    cbf_watch_signals(&no_signal);
    armed = mmap(NULL, sizeof *armed, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (armed == MAP_FAILED)
        bail("mmap");
    for (i = 0; i < N_OPERATIONS; i++)
        test_operation(&operations[i]);
    /* all pairs of points take minutes on a busy machine: see xt/ */
    for (i = 0; i < N_OPERATIONS; i++)
        if (getenv("CBF_KILL_ALL") || is_short(&operations[i]))
            test_recovery(&operations[i]);
    ok(slowest_ms < 2000, "nobody waits long for a dead process");
    diag("%ld kills, the slowest recovery took %.1f ms", n_kills, slowest_ms);
    return done_testing();
}
