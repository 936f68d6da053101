/*
 * store_wait.c - opening a path read-write while others are at the file: who
 * is alone, waiting for one another, files that move meanwhile, file systems
 * without flock, and many processes that create one file at once.
 *
 * Other openers are played by descriptors and flocks of this program, children
 * and, at a chosen moment, by what runs instead of a nap.
 */
#include "store_help.h"

/* ---- several openers ---------------------------------------------------- */

static void
test_two_openers(void)
{
    struct cbf_store s;
    struct cbf_store t;
    struct cbf_error e;

    is_u64(open_at(&s, "mine", 0600, &e), CBF_OK, "the first");
    ok(s.alone && !flock_free("mine", LOCK_SH),
       "... is alone: nobody gets as much as a shared flock");
    is_u64(cbf_store_share(&s, &e), CBF_OK, "... shares");
    ok(!s.alone && flock_free("mine", LOCK_SH)
       && !flock_free("mine", LOCK_EX), "... and holds it shared");
    is_u64(cbf_store_share(&s, &e), CBF_OK, "... sharing twice is fine");
    is_u64(open_at(&t, "mine", 0600, &e), CBF_OK, "the second");
    ok(!t.alone && !flock_free("mine", LOCK_EX), "... is not alone");
    ((uint8_t *)s.base)[20000] = 0x11;
    is_u64(((uint8_t *)t.base)[20000], 0x11, "... sees the same bytes");
    cbf_store_close(&s, NULL);
    ok(!flock_free("mine", LOCK_EX), "one is left");
    cbf_store_close(&t, NULL);
    ok(flock_free("mine", LOCK_EX), "none is left");
    is_u64(open_at(&s, "mine", 0600, &e), CBF_OK, "the next");
    ok(s.alone, "... is alone again");
    cbf_store_close(&s, NULL);
}

static struct cbf_store first;

static void
first_shares(void)
{
    if (nap_count == 4)
        cbf_store_share(&first, NULL);
}

static void
first_closes(void)
{
    if (nap_count == 4)
        cbf_store_close(&first, NULL);
}

static void
test_waiting(void)
{
    struct cbf_store s;
    struct cbf_error e;

    is_u64(open_at(&first, "mine", 0600, &e), CBF_OK, "the first");
    at_nap = first_shares;
    is_u64(open_at(&s, "mine", 0600, &e), CBF_OK,
           "the second waits until the first has shared");
    ok(nap_count == 4 && nap_ms >= 4 && nap_ms <= 80,
       "... in naps of 1 to 20 ms: %u in %u", nap_ms, nap_count);
    ok(!s.alone, "... and is not alone");
    cbf_store_close(&s, NULL);
    cbf_store_close(&first, NULL);
    calls_work();

    is_u64(open_at(&first, "mine", 0600, &e), CBF_OK, "the first");
    at_nap = first_closes;
    is_u64(open_at(&s, "mine", 0600, &e), CBF_OK,
           "the second waits until the first has closed");
    ok(s.alone, "... and is alone");
    calls_work();

    first = s;
    is_u64(open_at(&s, "mine", 0600, &e), CBF_E_BUSY,
           "it does not wait for ever");
    ok(nap_ms >= 30000 && nap_ms < 31000, "... but %u ms", nap_ms);
    ok(!s.base && s.fd == -1, "... nothing is held");
    calls_work();
    nap_interrupted = 1;
    is_u64(open_at(&s, "mine", 0600, &e), CBF_E_INTERRUPTED,
           "a signal ends it");
    ok(nap_count == 1 && !s.base && s.fd == -1, "... nothing is held");
    calls_work();
    cbf_store_close(&first, NULL);
}

static struct cbf_store late;

/* Between the exclusive flock and the shared one somebody slips in. */
static void
late_shares(void)
{
    if (nap_count == 2)
        flock(late.fd, LOCK_SH);
}

static void
test_share_waits(void)
{
    struct cbf_store s;
    struct cbf_error e;

    is_u64(open_at(&s, "mine", 0600, &e), CBF_OK, "one that is alone");
    flock(s.fd, LOCK_UN); /* as the kernel does while it changes the mode */
    is_u64(open_at(&late, "mine", 0600, &e), CBF_OK, "another slips in");
    ok(late.alone, "... and is alone, too");
    at_nap = late_shares;
    is_u64(cbf_store_share(&s, &e), CBF_OK, "the one waits to share");
    is_u64(nap_count, 2, "... until the other has shared");
    ok(!s.alone, "... and has");
    calls_work();
    flock(s.fd, LOCK_UN);
    s.alone = 1;
    flock(late.fd, LOCK_EX);
    is_u64(cbf_store_share(&s, &e), CBF_E_BUSY, "... not for ever");
    nap_interrupted = 1;
    is_u64(cbf_store_share(&s, &e), CBF_E_INTERRUPTED,
           "... and a signal ends it");
    calls_work();
    cbf_store_close(&s, NULL);
    cbf_store_close(&late, NULL);
}

static int blocker = -1;
static const char *waited_for;

static void
replaced_and_let_go(void)
{
    if (nap_count != 2)
        return;
    spew("other", good, SMALL_BYTES);
    if (rename("other", waited_for) != 0)
        give_up("rename");
}

static void
removed_and_let_go(void)
{
    if (nap_count != 2)
        return;
    unlink(waited_for);
    flock(blocker, LOCK_UN);
}

static int nobody_else;

/* Who naps must not hold what two of them would both wait for. */
static void
unlocked(void)
{
    if (nap_count != 2)
        return;
    flock(blocker, LOCK_UN);
    nobody_else = flock_free("blank", LOCK_EX);
}

/* The file under the path changes while we wait for its flock. */
static void
test_moving_target(void)
{
    struct cbf_store s;
    struct cbf_error e;
    struct stat st;

    waited_for = "moving";
    spew("moving", good, SMALL_BYTES);
    blocker = open("moving", O_RDWR);
    flock(blocker, LOCK_EX);
    at_nap = replaced_and_let_go;
    is_u64(open_at(&s, "moving", 0600, &e), CBF_OK,
           "replaced while we wait for the old one");
    ok(stat("moving", &st) == 0 && st.st_ino == s.ino && s.alone,
       "... the new one is opened");
    cbf_store_close(&s, NULL);
    close(blocker);
    calls_work();

    blocker = open("moving", O_RDWR);
    flock(blocker, LOCK_EX);
    at_nap = removed_and_let_go;
    is_u64(open_at(&s, "moving", 0600, &e), CBF_OK,
           "removed while we wait for it");
    ok(stat("moving", &st) == 0 && st.st_ino == s.ino && s.alone,
       "... a new one is created");
    ok(is_empty_filter(&s), "... and empty");
    cbf_store_close(&s, NULL);
    close(blocker);
    calls_work();
}

static void
filled_meanwhile(void)
{
    uint8_t file[SMALL_BYTES];

    before_flock = NULL;
    hand_made(file);
    file[88] = 0x29; /* ops */
    spew("filled", file, SMALL_BYTES);
}

/* Somebody else makes a filter of it, and uses it, before we lock it. */
static void
test_filled_meanwhile(void)
{
    struct cbf_store s;
    struct cbf_error e;

    zeros("filled", 0);
    before_flock = filled_meanwhile;
    is_u64(open_at(&s, "filled", 0600, &e), CBF_OK,
           "an empty file becomes a filter before we lock it");
    is_u64(s.base ? ((uint8_t *)s.base)[88] : 0, 0x29,
           "... which is opened, not made anew");
    cbf_store_close(&s, NULL);
    calls_work();
}

/* Others look at an empty file at the same time: nobody may adopt it then. */
static void
test_blank_and_shared(void)
{
    static const off_t sizes[] = { 0, SMALL_BYTES };
    struct cbf_store s;
    struct cbf_error e;
    size_t i;

    for (i = 0; i < 2; i++) {
        zeros("blank", sizes[i]);
        blocker = open("blank", O_RDWR);
        flock(blocker, LOCK_SH);
        at_nap = unlocked;
        is_u64(open_at(&s, "blank", 0600, &e), CBF_OK,
               "%d zeros that somebody else looks at", (int)sizes[i]);
        ok(nap_count == 2 && s.alone && is_empty_filter(&s),
           "... are adopted when he has gone");
        ok(nobody_else, "... and not locked in between");
        cbf_store_close(&s, NULL);
        calls_work();
        zeros("blank", sizes[i]);
        flock(blocker, LOCK_SH);
        is_u64(open_at(&s, "blank", 0600, &e), CBF_E_BUSY,
               "... and not before");
        is_u64(size_of("blank"), sizes[i], "... it stays as it is");
        close(blocker);
        calls_work();
    }
}

/* ---- no flock ----------------------------------------------------------- */

static void
creator_finishes(void)
{
    if (nap_count == 2)
        spew("no-flock-3", good, SMALL_BYTES);
}

static void
test_without_flock(void)
{
    static const int numbers[] = { ENOLCK, EOPNOTSUPP, EINVAL, ENOSYS };
    uint8_t begun[SMALL_BYTES];
    struct cbf_store s;
    struct cbf_error e;
    size_t i;

    for (i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        flock_fails = numbers[i];
        is_u64(open_at(&s, "mine", 0600, &e), CBF_OK,
               "no flock (errno %d): opened", numbers[i]);
        ok(!s.alone, "... as if not alone");
        is_u64(cbf_store_share(&s, &e), CBF_OK, "... shared");
        cbf_store_close(&s, NULL);
        unlink("no-flock");
        is_u64(open_at(&s, "no-flock", 0640, &e), CBF_OK, "... created");
        ok(!s.alone && is_empty_filter(&s) && mode_of("no-flock") == 0640,
           "... as it should be");
        cbf_store_close(&s, NULL);
    }
    zeros("no-flock-2", 0);
    nap_ms = 0;
    is_u64(open_at(&s, "no-flock-2", 0600, &e), CBF_E_SYSTEM,
           "an empty file can't be adopted");
    ok(nap_ms < 500 && strcmp(e.what, "flock") == 0
       && e.sys_errno == ENOLCK, "... is told soon and clearly");
    calls_work();
    flock_fails = ENOLCK;
    memcpy(begun, good, SMALL_BYTES);
    put32(begun, 0, 0);
    spew("no-flock-3", begun, SMALL_BYTES);
    at_nap = creator_finishes;
    is_u64(open_at(&s, "no-flock-3", 0600, &e), CBF_OK,
           "a header in the making is waited for");
    cbf_store_close(&s, NULL);
    calls_work();
    flock_fails = ENOLCK;
    spew("no-flock-3", begun, SMALL_BYTES);
    is_u64(open_at(&s, "no-flock-3", 0600, &e), CBF_E_INCOMPLETE,
           "... but not for long");
    ok(nap_ms < 500, "... %u ms", nap_ms);
    calls_work();
}

/* ---- many at once ------------------------------------------------------- */

#define RACERS 8
#define ROUNDS 20

/* A racer opens, shares, and sets a byte of its own; 0 or why it could not. */
static int
race(int gate, int n, const char *path)
{
    struct cbf_store s;
    struct cbf_error e;
    char c;

    if (read(gate, &c, 1) != 0)
        return 20;
    if (cbf_store_open(&s, path, &small_plan, 0600, &e) != CBF_OK)
        return 30 + e.code;
    if (s.geometry.n_counters != 16384)
        return 21;
    if (cbf_store_share(&s, &e) != CBF_OK)
        return 22;
    ((uint8_t *)s.base)[20000 + n] = 1;
    cbf_store_close(&s, NULL);
    return 0;
}

static int
race_once(int round)
{
    char path[32];
    uint8_t file[SMALL_BYTES];
    pid_t pids[RACERS];
    int gate[2];
    int bad = 0;
    int status;
    int i;

    snprintf(path, sizeof path, "race-%d", round);
    if (round % 3 == 1)
        zeros(path, 0);
    if (round % 3 == 2)
        zeros(path, SMALL_BYTES);
    if (pipe(gate) != 0)
        give_up("pipe");
    fflush(stdout);
    for (i = 0; i < RACERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            close(gate[1]);
            alarm(20);
            _exit(race(gate[0], i, path));
        }
    }
    close(gate[1]);
    for (i = 0; i < RACERS; i++) {
        waitpid(pids[i], &status, 0);
        if (status != 0 && !bad)
            bad = status;
    }
    close(gate[0]);
    if (slurp(path, file, sizeof file) != SMALL_BYTES)
        return 1;
    for (i = 0; i < RACERS; i++)
        if (!bad && file[20000 + i] != 1)
            bad = 1;
    memset(file + 20000, 0, RACERS);
    return bad || memcmp(file, good, SMALL_BYTES) != 0 ? bad | 1 : 0;
}

/* Processes that create or adopt one file at once: one of them makes it, and
 * nobody's byte is lost to another's initialising. */
static void
test_race(void)
{
    int round;
    int bad = 0;

    at_nap = really_nap;
    for (round = 0; round < ROUNDS && !bad; round++)
        bad = race_once(round);
    ok(!bad, "%d times %d processes open a file that is not there yet: %x",
       ROUNDS, RACERS, (unsigned)bad);
}

int
main(void)
{
    enter_directory();
    hand_made(good);
    spew("mine", good, SMALL_BYTES);
    test_two_openers();
    spew("mine", good, SMALL_BYTES);
    test_waiting();
    test_share_waits();
    test_moving_target();
    test_filled_meanwhile();
    test_blank_and_shared();
    test_without_flock();
    test_race();
    leave_directory();
    return done_testing();
}
