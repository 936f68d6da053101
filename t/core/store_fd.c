/*
 * store_fd.c - a filter from a passed descriptor: what is duplicated, what is
 * refused, how its flock is waited for; and files that are cut between the
 * check of their header and their mapping, in every way to open them.
 */
#include "store_help.h"
#include <sys/socket.h>

/* ---- a passed descriptor ------------------------------------------------ */

static void
test_from_fd(void)
{
    struct cbf_store s;
    struct cbf_store t;
    struct cbf_error e;
    int fd;

    spew("passed", good, SMALL_BYTES);
    fd = open("passed", O_RDWR);
    is_u64(cbf_store_from_fd(&s, fd, &e), CBF_OK, "a passed descriptor");
    ok(s.kind == CBF_STORE_FD && s.fd > 2 && s.fd != fd && !s.path,
       "... has a descriptor of its own");
    ok(s.alone, "... and is alone with a file that nobody has open");
    is_u64(cbf_store_from_fd(&t, fd, &e), CBF_E_BUSY,
           "... as the next one is not, for now");
    calls_work();
    is_u64(cbf_store_share(&s, &e), CBF_OK, "... until it shares the file");
    is_u64(cbf_store_from_fd(&t, fd, &e), CBF_OK, "... then it may come");
    ok(!t.alone, "... and is not alone");
    cbf_store_close(&t, NULL);
    is_u64((uint64_t)fcntl(s.fd, F_GETFD), FD_CLOEXEC, "... close-on-exec");
    is_u64(s.geometry.n_counters, 16384, "... geometry");
    ok(!flock_free("passed", LOCK_EX) && flock_free("passed", LOCK_SH),
       "... others see that it is open");
    is_u64((uint64_t)lseek(fd, 0, SEEK_CUR), 0,
           "... the caller's position is not moved");
    ((uint8_t *)s.base)[17000] = 9;
    is_u64(cbf_store_sync(&s, &e), CBF_OK, "... sync");
    cbf_store_close(&s, NULL);
    ok(fcntl(fd, F_GETFD) >= 0, "the caller's stays open");
    ok(flock_free("passed", LOCK_EX), "nothing is locked any more");
    flock(fd, LOCK_SH);
    is_u64(cbf_store_from_fd(&s, fd, &e), CBF_OK, "the caller's own flock");
    ok(!s.alone, "... counts as somebody's");
    cbf_store_close(&s, NULL);
    ok(!flock_free("passed", LOCK_EX), "... and is still his afterwards");
    close(fd);

    is_u64(cbf_store_memfd(&s, NULL, &small_plan, &e), CBF_OK, "a memfd");
    ((uint8_t *)s.base)[17000] = 0x5a;
    is_u64(cbf_store_from_fd(&t, s.fd, &e), CBF_OK, "... passed");
    is_u64(((uint8_t *)t.base)[17000], 0x5a, "... is the same memory");
    cbf_store_close(&s, NULL);
    is_u64(((uint8_t *)t.base)[17000], 0x5a, "... and outlives the first");
    cbf_store_close(&t, NULL);
}

/* What becomes of a descriptor that is not fit. */
static void
fd_refused(int fd, int code, const char *name)
{
    struct cbf_store s;
    struct cbf_error e;
    unsigned before = open_descriptors();

    is_u64(cbf_store_from_fd(&s, fd, &e), (uint64_t)code, "%s",
           name);
    ok(!s.base && s.fd == -1, "... nothing is held");
    is_u64(open_descriptors(), before, "... no descriptor is left");
    if (fd >= 0 && fd < 100)
        close(fd);
}

static void
test_bad_fd(void)
{
    uint8_t sealed[SMALL_BYTES];
    int pair[2];

    fd_refused(-1, CBF_E_SYSTEM, "-1");
    fd_refused(200, CBF_E_SYSTEM, "a closed one");
    fd_refused(open("passed", O_RDONLY), CBF_E_NOT_WRITABLE, "O_RDONLY");
    fd_refused(open("passed", O_WRONLY), CBF_E_NOT_WRITABLE, "O_WRONLY");
    fd_refused(open("passed", O_PATH), CBF_E_NOT_WRITABLE, "O_PATH");
    fd_refused(open(".", O_RDONLY), CBF_E_NOT_REGULAR, "a directory");
    if (make_device("device"))
        fd_refused(open("device", O_RDWR), CBF_E_NOT_REGULAR, "a device");
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        give_up("socketpair");
    close(pair[0]);
    fd_refused(pair[1], CBF_E_NOT_REGULAR, "a socket");
    zeros("empty", 0);
    fd_refused(open("empty", O_RDWR), CBF_E_TOO_SMALL, "an empty file");
    zeros("zero", SMALL_BYTES);
    fd_refused(open("zero", O_RDWR), CBF_E_INVALID, "a file of zeros");
    is_u64((uint64_t)size_of("empty"), 0, "the empty file stays empty");
    memcpy(sealed, good, SMALL_BYTES);
    sealed[96] = 1;
    spew("sealed", sealed, SMALL_BYTES);
    fd_refused(open("sealed", O_RDWR), CBF_E_SEALED_FILE, "a frozen one");
}

static int holder = -1;

static void
holder_leaves(void)
{
    if (nap_count == 3)
        flock(holder, LOCK_UN);
}

static void
test_fd_waits(void)
{
    struct cbf_store s;
    struct cbf_error e;
    int fd = open("passed", O_RDWR);

    holder = open("passed", O_RDWR);
    flock(holder, LOCK_EX);
    at_nap = holder_leaves;
    is_u64(cbf_store_from_fd(&s, fd, &e), CBF_OK,
           "a descriptor whose file is being initialised: waits");
    is_u64(nap_count, 3, "... until that is over");
    cbf_store_close(&s, NULL);
    calls_work();
    flock(fd, LOCK_UN);
    flock(holder, LOCK_EX);
    is_u64(cbf_store_from_fd(&s, fd, &e), CBF_E_BUSY,
           "... but not for ever");
    ok(nap_ms >= 30000 && nap_ms < 31000, "... %u ms", nap_ms);
    nap_interrupted = 1;
    is_u64(cbf_store_from_fd(&s, fd, &e), CBF_E_INTERRUPTED,
           "... and a signal ends it");
    calls_work();
    close(holder);
    flock_fails = EOPNOTSUPP;
    is_u64(cbf_store_from_fd(&s, fd, &e), CBF_OK,
           "without flock there is nothing to wait for");
    cbf_store_close(&s, NULL);
    calls_work();
    close(fd);
}

/* ---- cut while it is opened --------------------------------------------- */

static void
cut_it(int fd)
{
    if (syscall(SYS_ftruncate, fd, 20000) != 0)
        give_up("cut");
}

static void
cut_passed(int fd)
{
    (void)fd;
    if (truncate("passed", 20000) != 0)
        give_up("cut");
}

/* The file is cut after its header was checked and before it is mapped. */
static void
test_cut_while_opening(void)
{
    struct cbf_store s;
    struct cbf_error e;
    int fd = open("passed", O_RDWR);

    before_map = cut_it;
    is_u64(cbf_store_from_fd(&s, fd, &e), CBF_E_INVALID,
           "cut while it is opened: refused");
    ok(strcmp(e.what, "size of the file") == 0, "... for its size");
    close(fd);
    spew("passed", good, SMALL_BYTES);
    is_u64(cbf_store_open(&s, "passed", &small_plan, 0600, &e),
           CBF_E_INVALID, "... by path, too");
    before_map = cut_passed;
    good[96] = 1;
    spew("passed", good, SMALL_BYTES);
    good[96] = 0;
    is_u64(cbf_store_readonly(&s, "passed", &e), CBF_E_INVALID,
           "... and read-only");
    calls_work();
}

int
main(void)
{
    enter_directory();
    hand_made(good);
    test_from_fd();
    test_bad_fd();
    test_fd_waits();
    test_cut_while_opening();
    leave_directory();
    return done_testing();
}
