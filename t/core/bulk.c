/* variant: -DCBF_BULK_SMALL */
/*
 * bulk.c - items added in bulk: the table and its totals are those of one add
 * after the other, whatever falls where; and what a failed call leaves.
 *
 * The variant has regions and piles so small that every table here has several
 * of them and that piles get full.
 */
#include "cbf.h"
#include "handle.h"
#include "access.h"
#include "tap.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 5000

static struct cbf_hash item[MANY];

/* Items that differ, or repeat after so many. */
static void
make_items(unsigned long different)
{
    char text[32];
    unsigned long i;

    for (i = 0; i < MANY; i++) {
        snprintf(text, sizeof text, "item %lu", i % different);
        item[i] = cbf_hash_item(text, strlen(text));
    }
}

static struct cbf *
filter(uint64_t capacity, double rate)
{
    struct cbf_geometry g;
    struct cbf_error e;
    struct cbf *f;

    if (cbf_geometry_plan(capacity, rate, &g) != CBF_OK
        || cbf_open_anonymous(&g, &f, &e) != CBF_OK)
        bail("no filter");
    return f;
}

/* The same counters, and totals that are right. */
static void
is_like(struct cbf *f, struct cbf *expected, const char *name)
{
    struct cbf_stats s;
    struct cbf_tally t;
    struct cbf_error e;

    ok(memcmp(f->counters, expected->counters, f->table.counter_bytes) == 0,
       "%s: the counters", name);
    cbf_counter_tally(f->counters, f->table.counter_bytes, &t);
    ok(cbf_stats(f, &s, &e) == CBF_OK && s.nonzero == t.nonzero
       && s.saturated == t.saturated && s.sum == t.sum, "... the totals");
}

static void
test_same(uint64_t capacity, double rate, unsigned long different)
{
    struct cbf *f = filter(capacity, rate);
    struct cbf *expected = filter(capacity, rate);
    struct cbf_error e;
    size_t changed;
    size_t n_done = 0;
    char name[80];

    snprintf(name, sizeof name, "%" PRIu64 " at %g, %lu different", capacity,
             rate, different);
    make_items(different);
    is_u64(cbf_add_bulk(f, item, MANY, &n_done, &e), CBF_OK, "%s", name);
    is_u64(n_done, MANY, "... all done");
    cbf_add_many(expected, item, MANY, &changed, &e);
    is_like(f, expected, name);
    /* again, into a table that is not empty */
    n_done = 0;
    cbf_add_bulk(f, item, MANY, &n_done, &e);
    cbf_add_many(expected, item, MANY, &changed, &e);
    is_like(f, expected, "... twice");
    cbf_unref(f);
    cbf_unref(expected);
}

static void
test_parts(void)
{
    struct cbf *f = filter(1000, 0.01);
    struct cbf *expected = filter(1000, 0.01);
    struct cbf_error e;
    struct cbf_stats s;
    size_t changed;
    size_t n_done = 0;

    make_items(MANY);
    is_u64(cbf_add_bulk(f, item, 0, &n_done, &e), CBF_OK, "nothing");
    is_u64(n_done, 0, "... is done");
    cbf_stats(f, &s, &e);
    is_u64(s.ops, 1, "... and counts as a call");
    n_done = 10;
    is_u64(cbf_add_bulk(f, item, 15, &n_done, &e), CBF_OK, "from the tenth");
    is_u64(n_done, 15, "... to the end");
    cbf_add_many(expected, item + 10, 5, &changed, &e);
    is_like(f, expected, "... and no others");
    is_u64(cbf_freeze(f, &e), CBF_OK, "frozen");
    n_done = 0;
    is_u64(cbf_add_bulk(f, item, 15, &n_done, &e), CBF_E_READONLY,
           "... it takes no more");
    is_u64(n_done, 0, "... and none was added");
    is_like(f, expected, "... it is as it was");
    cbf_unref(f);
    cbf_unref(expected);
}

/* A child that holds the lock until the pipe is closed. */
static pid_t
start_holder(struct cbf *f, int held[2], int enough[2])
{
    struct cbf_error e;
    char byte = 0;
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    alarm(60);
    close(enough[1]);
    if (cbf_exclusive_begin(f, &e) == CBF_OK && write(held[1], "!", 1) == 1)
        (void)!read(enough[0], &byte, 1);
    cbf_write_end(f);
    _exit(0);
}

static void
test_interrupted(void)
{
    struct cbf *f = filter(1000, 0.01);
    struct cbf *expected = filter(1000, 0.01);
    struct cbf_error e;
    size_t changed;
    size_t n_done = 0;
    int held[2];
    int enough[2];
    char byte;
    pid_t pid;

    if (pipe(held) != 0 || pipe(enough) != 0)
        bail("pipe");
    pid = start_holder(f, held, enough);
    close(enough[0]);
    if (pid < 0 || read(held[0], &byte, 1) != 1)
        bail("nobody holds the lock");
    cbf_watch_signals(NULL);
    is_u64(cbf_add_bulk(f, item, 20, &n_done, &e), CBF_E_INTERRUPTED,
           "a signal may have come while it waited");
    is_u64(n_done, 0, "... none was added");
    close(enough[1]);
    waitpid(pid, NULL, 0);
    is_u64(cbf_add_bulk(f, item, 20, &n_done, &e), CBF_OK, "... called again");
    is_u64(n_done, 20, "... all were");
    cbf_add_many(expected, item, 20, &changed, &e);
    is_like(f, expected, "... once each");
    cbf_unref(f);
    cbf_unref(expected);
}

int
main(void)
{
    static const double rates[] = { 0.5, 0.01, 1e-12 };
    size_t i;

    watchdog(120);
    for (i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        test_same(1, rates[i], MANY); /* of 64 counters, soon all at 15 */
        test_same(1000, rates[i], MANY);
        test_same(100000, rates[i], MANY);
        test_same(100000, rates[i], 1);
        test_same(100000, rates[i], 40);
    }
    /* regions of half a MiB: one and a part of it, and several */
    test_same(109000, 0.01, MANY);
    test_same(500000, 0.01, MANY);
    test_parts();
    test_interrupted();
    return done_testing();
}
