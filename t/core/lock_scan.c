/* kill-points */
/* build: -DCBF_LOCK_PARK_NS=2000000 */
/*
 * lock_scan.c - the bits that say who may hold the lock shared: set by a scan,
 * cleared by the next writer, never missing while a scan is under way.
 *
 * Readers and writers are stopped at named points between their steps, so that
 * the orders that matter are met, and not by chance.
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

/* Shared with children: the points they wait at, and what lets them go on. */
static struct gates {
    uint32_t arrived;
    uint32_t open;
} *gates;

static void
new_gates(void)
{
    if (!gates) {
        gates = mmap(NULL, sizeof *gates, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (gates == MAP_FAILED)
            bail("mmap");
    }
    *gates = (struct gates){ 0, 0 };
}

static void
wait_for(const uint32_t *gate)
{
    while (cbf_acquire32(gate) == 0)
        usleep(100);
}

static void
arrive(void)
{
    cbf_release32(&gates->arrived, 1);
    wait_for(&gates->open);
}

static void
write_and_stop(void)
{
    struct cbf_error e;

    at("write: readers gone", arrive);
    take_write(&e);
    cbf_lock_write_done(&lock);
}

static pid_t writer;

/* A bit without a lock, as a scan leaves it. */
static void
scan_once(void)
{
    struct cbf_error e;

    fresh_lock();
    take_read(&e);
    cbf_lock_read_done(&lock);
}

/* After a scan: a writer that has seen nobody, and has not cleared its bit. */
static void
stop_a_writer(void)
{
    scan_once();
    new_gates();
    writer = spawn(write_and_stop);
    wait_for(&gates->arrived);
}

/* It goes on, and is gone. */
static void
let_writer_end(void)
{
    cbf_release32(&gates->open, 1);
    exit_of(writer);
}

static void
write_once(void)
{
    struct cbf_error e;

    take_write(&e);
    cbf_lock_write_done(&lock);
}

static void
whole_writer(void)
{
    exit_of(spawn(write_once));
}

/* Begins a scan, during which a writer must wait. */
static void
is_seen(const char *when)
{
    struct cbf_error e;

    is_u64(take_read(&e), CBF_LOCK_HELD, "%s: the scan begins", when);
    ok(!meanwhile.act, "%s: that has happened", when);
    is_u64(bits(), 1, "%s: with its bit", when);
    ok(writer_waits(), "%s: a writer waits for it", when);
    cbf_lock_read_done(&lock);
    ok(!writer_waits(), "%s: until it is over", when);
}

static void
test_races(void)
{
    fresh_lock();
    at("read: held raised", whole_writer);
    is_seen("a whole writer before the bit");

    stop_a_writer();
    at("read: held raised", let_writer_end);
    is_seen("bits cleared before the reader looks");

    stop_a_writer();
    at("read: bit set", let_writer_end);
    is_seen("bits cleared behind the reader's back");
}

/* ---- threads, which share a slot ---------------------------------------- */

static void
writer_in_the_middle(void)
{
    struct cbf_error e;

    let_writer_end();
    /* another thread of this process comes and goes in the meantime */
    take_read(&e);
    cbf_lock_read_done(&lock);
}

static void
test_threads(void)
{
    stop_a_writer();
    at("read: bit set", writer_in_the_middle);
    is_seen("another thread's scan in between");
}

/* ---- killed in the middle ----------------------------------------------- */

static void
die(void)
{
    kill(getpid(), SIGKILL);
}

static void
write_and_die(void)
{
    struct cbf_error e;

    at("write: bits cleared", die);
    take_write(&e);
}

/* The writer dies before it has looked at `held` again. */
static void
test_killed(void)
{
    struct cbf_error e;
    uint32_t mine;

    scan_once();
    mine = (uint32_t)lock.registration - 1;
    exit_of(spawn(write_and_die));
    is_u64(bits(), 0, "killed when the bits were cleared");
    ok(header()->writer != 0, "with the word");
    /* a reader that saw its bit before, and has not looked at the word yet */
    cbf_fetch_add32(&lock.slots[mine].owner.part.held, 1);
    ok(writer_waits(), "who takes over waits for the reader");
    is_u64(bits(), 1, "and has set its bit");
    cbf_fetch_sub32(&lock.slots[mine].owner.part.held, 1);
    ok(!writer_waits(), "until it has stepped back");
    is_u64(take_read(&e), CBF_LOCK_HELD, "then there are scans again");
    cbf_lock_read_done(&lock);
}

int
main(void)
{
    set_up();
    test_cleared();
    test_damaged();
    test_races();
    test_threads();
    test_killed();
    return done_testing();
}
