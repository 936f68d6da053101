/* build: -DCBF_LOCK_UNSURE_NS=300000000 -DCBF_LOCK_PARK_NS=2000000 */
/*
 * lock.c - the lock between processes: exclusion, the dead, the stopped, those
 * who can't be judged, full slots, stale hints.
 *
 * Works on a bare header in shared memory; there is no table.  The waits for
 * those who can't be judged are built short.
 */
#include "lock_help.h"

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
read_for_ever(void)
{
    struct cbf_error e;

    take_read(&e);
    cbf_release32(&guarded->ready, 1);
    for (;;)
        pause();
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

int
main(void)
{
    set_up();
    test_exclusion();
    test_dead_writer();
    test_dead_reader();
    test_no_identity();
    test_stopped(hold_for_ever, "writer");
    test_stopped(read_for_ever, "reader");
    test_unjudgeable();
    test_full_slots();
    test_slots_and_fork();
    test_stale_hints();
    test_reset();
    return done_testing();
}
