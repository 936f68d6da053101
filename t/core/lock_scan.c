/* kill-points */
/* build: -DCBF_LOCK_PARK_NS=2000000 */
/*
 * lock_scan.c - the bits that say who may hold the lock shared: set by a scan,
 * cleared by the next writer, never missing while a scan is under way.
 *
 * What a writer does while a reader comes in is done at the reader's kill
 * points, so that each order of their steps is met, and not by chance.
 */
#include "lock_help.h"

/* Called at a kill point of this name, once. */
static struct {
    const char *point;
    void (*act)(void);
} meanwhile;

void
cbf_test_kill_point(const char *name)
{
    void (*act)(void) = meanwhile.act;

    if (!act || strcmp(name, meanwhile.point) != 0)
        return;
    meanwhile.act = NULL;
    act();
}

static void
at(const char *point, void (*act)(void))
{
    meanwhile.point = point;
    meanwhile.act = act;
}

static unsigned
bits(void)
{
    unsigned n = 0;
    unsigned i;

    for (i = 0; i < CBF_FMT_BITMAP_WORDS; i++)
        n += (unsigned)__builtin_popcountll(lock.bitmap[i]);
    return n;
}

/* A writer in a child: 0 = got the lock, 1 = did not within 0.3 s. */
static void
try_to_write(void)
{
    struct cbf_error e;

    signal_in(300);
    if (take_write(&e) == CBF_LOCK_FAILED)
        _exit(1);
    cbf_lock_write_done(&lock);
    _exit(0);
}

static int
writer_waits(void)
{
    return exit_of(spawn(try_to_write)) != 0;
}

static void
test_cleared(void)
{
    struct cbf_error e;

    fresh_lock();
    take_write(&e);
    cbf_lock_write_done(&lock);
    is_u64(bits(), 0, "a writer sets no bit");
    take_read(&e);
    is_u64(bits(), 1, "a scan sets one");
    cbf_lock_read_done(&lock);
    is_u64(bits(), 1, "and leaves it");
    ok(cbf_lock_scanned(&lock), "so the next writer looks");
    is_u64(take_write(&e), CBF_LOCK_HELD, "finds nobody");
    is_u64(bits(), 0, "and clears it");
    cbf_lock_write_done(&lock);
    ok(!cbf_lock_scanned(&lock), "for those who follow");
    take_read(&e);
    is_u64(bits(), 1, "another scan sets it anew");
    ok(writer_waits(), "and is waited for");
    is_u64(bits(), 1, "its bit stays as long as that");
    cbf_lock_read_done(&lock);
    ok(!writer_waits(), "then no more");
}

static void
test_damaged(void)
{
    struct cbf_error e;

    fresh_lock();
    memset(lock.bitmap, 0xff, CBF_FMT_BITMAP_WORDS * 8);
    is_u64(take_write(&e), CBF_LOCK_HELD, "all bits set, nobody there");
    cbf_lock_write_done(&lock);
    is_u64(bits(), 0, "costs one writer a look");
}

/* ---- while a reader comes in -------------------------------------------- */

/* A writer that has seen nobody clears the bits, and is gone. */
static void
clear_bits(void)
{
    memset(lock.bitmap, 0, CBF_FMT_BITMAP_WORDS * 8);
}

static void
write_once(void)
{
    struct cbf_error e;

    take_write(&e);
    cbf_lock_write_done(&lock);
}

static void
begin_writing(void)
{
    header()->writer = CBF_FMT_WRITER_HELD | cbf_owner_self()->pid;
}

static void
end_writing(void)
{
    clear_bits();
    header()->writer = 0;
}

static void
is_seen(const char *when)
{
    struct cbf_error e;

    is_u64(take_read(&e), CBF_LOCK_HELD, "%s: the scan begins", when);
    is_u64(bits(), 1, "%s: with its bit", when);
    ok(writer_waits(), "%s: a writer waits for it", when);
    cbf_lock_read_done(&lock);
    ok(!writer_waits(), "%s: until it is over", when);
}

static void
test_races(void)
{
    static const char *const points[] = { "read: held raised",
                                          "read: bit set" };
    struct cbf_error e;
    unsigned i;

    for (i = 0; i < 2; i++) {
        fresh_lock();
        at(points[i], clear_bits);
        is_seen(i ? "cleared behind its back" : "cleared before");
        fresh_lock();
        take_read(&e);
        cbf_lock_read_done(&lock);
        at(points[i], clear_bits);
        is_seen(i ? "an old bit cleared behind its back"
                  : "an old bit cleared before");
    }
    /* who had the word all along clears the bit and goes */
    fresh_lock();
    begin_writing();
    at("read: bit set", end_writing);
    is_seen("a writer that leaves meanwhile");
    ok(!meanwhile.act, "all of that has happened");
    fresh_lock();
    at("write: readers forgotten", clear_bits);
    write_once();
    ok(meanwhile.act != NULL, "without a scan nobody looks for one");
    meanwhile.act = NULL;
}

int
main(void)
{
    set_up();
    test_cleared();
    test_damaged();
    test_races();
    return done_testing();
}
