/*
 * touch.c - pages touched before the lock: each once in a process, nothing
 * changed by it, and nobody dies with the lock for want of a page.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cbf.h"
#include "handle.h"
#include "tap.h"
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 130 /* more than two words of bits, and a part of a third */

/* ---- the bits ----------------------------------------------------------- */

/* One probe, so that a hash's lower half is its position. */
static struct cbf_hash
item_on(uint64_t page, uint64_t offset)
{
    return (struct cbf_hash){ .lo = (page * PAGE + offset) * 2, .hi = 0 };
}

static void
test_bits(void)
{
    const struct cbf_probe one = { .mask = UINT64_MAX, .n_probes = 1 };
    const struct cbf_probe two = { .mask = UINT64_MAX, .n_probes = 2 };
    static uint8_t counters[PAGES * PAGE];
    static uint8_t before[PAGES * PAGE];
    struct cbf_hash items[4] = { item_on(0, 0), item_on(0, PAGE - 1),
                                 item_on(63, 7), item_on(129, 0) };
    struct cbf_touch t;
    size_t i;

    for (i = 0; i < PAGES * PAGE; i++)
        counters[i] = (uint8_t)(i * 7 + i / PAGE);
    memcpy(before, counters, PAGES * PAGE);
    cbf_touch_begin(&t, counters, PAGES * PAGE - 32);
    is_u64(t.pages, PAGES, "the last page counts if it is not whole");
    ok(cbf_touch_needed(&t), "at first all is to be touched");
    cbf_touch_items(&t, &one, items, 4);
    is_u64(t.left, PAGES - 3, "four items on three pages");
    cbf_touch_items(&t, &one, items, 4);
    is_u64(t.left, PAGES - 3, "a second time: nothing new");
    items[0] = item_on(1, PAGE - 1);
    items[0].hi = 3; /* the next probe is one byte and a half further */
    cbf_touch_items(&t, &two, items, 1);
    is_u64(t.left, PAGES - 5, "an item on two pages");
    for (i = 0; i < PAGES; i++) {
        items[0] = item_on(i, i);
        cbf_touch_items(&t, &one, items, 1);
    }
    ok(!cbf_touch_needed(&t), "when all are, nothing is to be done");
    ok(memcmp(before, counters, PAGES * PAGE) == 0, "no counter has changed");
    cbf_touch_anew(&t);
    is_u64(t.left, PAGES, "in a new process all begins again");
    cbf_touch_end(&t);
    ok(!cbf_touch_needed(&t) && !t.seen, "at the end nothing is left");
    cbf_touch_anew(&t);
    ok(!cbf_touch_needed(&t), "and nothing begins again");
}

/* ---- no page to be had -------------------------------------------------- */

static sigjmp_buf out;

static void
on_fault(int sig)
{
    (void)sig;
    siglongjmp(out, 1);
}

/* How a call ends whose pages lie behind the end of the file. */
static const char *
ending(struct cbf *f, int which)
{
    static const struct cbf_hash items[20] = {
        [19] = { 0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu },
    };
    uint8_t each[20];
    size_t n;
    int changed;

    if (sigsetjmp(out, 1)) {
        if (cbf_load32(&cbf_header(f)->writer) == 0)
            return "free";
        cbf_lock_write_done(&f->lock); /* for the next one */
        return "locked";
    }
    if (which == 0)
        cbf_add(f, "item", 4, &changed, NULL);
    else if (which == 1)
        cbf_add_many(f, items, 20, &n, NULL);
    else if (which == 2)
        cbf_add_if_absent(f, "item", 4, &changed, NULL);
    else
        cbf_add_if_absent_many(f, items, 20, each, &n, NULL);
    return "no fault";
}

static void
is_free(struct cbf *f, const char *when)
{
    static const char *const names[] = { "add", "add_many", "add_if_absent",
                                         "add_if_absent_many" };
    const char *end;
    int i;

    for (i = 0; i < 4; i++) {
        end = ending(f, i);
        if (!ok(strcmp(end, "free") == 0, "%s, %s: the lock is free", when,
                names[i]))
            diag("%s", end);
    }
}

/* The lock has been taken once, and most of the memory is not to be had. */
static struct cbf *
cut_filter(void)
{
    struct cbf_geometry g;
    struct cbf *f;
    int changed;

    cbf_geometry_plan(1000000, 0.01, &g);
    if (cbf_open_memfd(NULL, &g, &f, NULL) != CBF_OK)
        bail("memfd");
    cbf_remove(f, "item", 4, &changed, NULL);
    /* as if there were pages for reading, and none for writing */
    if (mprotect((char *)f->store.base + 5 * PAGE,
                 f->store.map_bytes - 5 * PAGE, PROT_READ)
        != 0)
        bail("mprotect");
    return f;
}

static void
test_no_pages(void)
{
    struct sigaction sa = { .sa_handler = on_fault };
    struct cbf *f = cut_filter();
    pid_t pid;
    int status;

    sigaction(SIGBUS, &sa, NULL);
    sigaction(SIGSEGV, &sa, NULL);
    is_free(f, "a first touch");
    /* what the parent has touched is not mapped in a child */
    memset(f->touch.seen, 0xff, PAGE / 8 / 8);
    f->touch.left = 0;
    pid = fork();
    if (pid == 0) {
        int changed;

        mprotect(f->store.base, f->store.map_bytes, PROT_READ | PROT_WRITE);
        cbf_remove(f, "other", 5, &changed, NULL);
        _exit(cbf_touch_needed(&f->touch) ? 0 : 1);
    }
    waitpid(pid, &status, 0);
    is_u64((uint64_t)status, 0, "a fork child touches for itself");
    mprotect(f->store.base, f->store.map_bytes, PROT_READ | PROT_WRITE);
    cbf_unref(f);
}

/* ---- what must not be written to ---------------------------------------- */

static void
test_sealed(void)
{
    struct cbf_error e;
    struct cbf *f = cut_filter();
    int changed;

    cbf_store8(&cbf_header(f)->seal, 1);
    is_u64((uint64_t)cbf_add(f, "item", 4, &changed, &e), CBF_E_FROZEN,
           "a sealed filter is not touched");
    cbf_store8(&cbf_header(f)->seal, 0);
    mprotect(f->store.base, f->store.map_bytes, PROT_READ | PROT_WRITE);
    cbf_unref(f);
}

int
main(void)
{
    test_bits();
    /* ThreadSanitizer does the atomic access itself, and holds locks of its
     * own when that faults */
    if (!CBF_THREAD_SANITIZER)
        test_no_pages();
    test_sealed();
    return done_testing();
}
