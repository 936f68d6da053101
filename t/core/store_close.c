/*
 * store_close.c - the end of a handle: who is the last to leave a file, among
 * handles, relatives and strangers, and what happens to a descriptor's number
 * that is no longer ours.
 */
#include "store_last.h"

static uint8_t
last_byte(const char *path)
{
    uint8_t file[SMALL_BYTES];

    return slurp(path, file, sizeof file) > 16767 ? file[16767] : 0;
}

/* ---- the last one ------------------------------------------------------- */

static void
test_last(void)
{
    struct cbf_store s;
    struct cbf_store t;
    unsigned before = open_descriptors();

    fresh_file();
    open_shared(&s);
    open_shared(&t);
    errno = EDOM;
    cbf_store_close(&s, last);
    is_u64(errno, EDOM, "close keeps errno");
    is_u64(seen->calls, 0, "the first of two closers is not the last");
    ok(!s.base && s.fd == -1 && !s.path, "... its store is all closed");
    cbf_store_close(&s, last);
    is_u64(seen->calls, 0, "... closing it again does nothing");
    errno = EDOM;
    cbf_store_close(&t, last);
    is_u64(errno, EDOM, "close keeps errno");
    is_u64(seen->calls, 1, "the second is");
    is_u64(seen->exclusive, 1, "... with the file locked");
    is_u64(last_byte("f"), 1, "... and what it writes is in the file");
    is_u64(open_descriptors(), before, "... no descriptor is left");
    ok(flock_free("f", LOCK_EX), "... and no flock");

    open_shared(&s);
    cbf_store_close(&s, NULL);
    is_u64(seen->calls, 1, "without a function there is nothing to call");
    if (cbf_store_open(&s, "f", &small_plan, 0600, NULL) != CBF_OK)
        give_up("f");
    cbf_store_close(&s, last);
    is_u64(seen->calls, 2, "one that never shared is the last, too");
    flock_fails = ENOLCK;
    open_shared(&s);
    cbf_store_close(&s, last);
    calls_work();
    is_u64(seen->calls, 2, "without flock nobody can be");
}

static void
test_last_sealed(void)
{
    struct cbf_store s;

    fresh_file();
    open_shared(&s);
    ((uint8_t *)s.base)[96] = 1;
    cbf_store_close(&s, last);
    is_u64(seen->calls, 1, "a filter that was frozen meanwhile has a last");
}

static void
test_last_of_what(void)
{
    struct cbf_store s;
    uint8_t junk[SMALL_BYTES];

    fresh_file();
    open_shared(&s);
    unlink("f");
    cbf_store_close(&s, last);
    is_u64(seen->calls, 0, "a file that was removed needs no last");

    fresh_file();
    open_shared(&s);
    spew("g", good, SMALL_BYTES);
    if (rename("g", "f") != 0)
        give_up("rename");
    cbf_store_close(&s, last);
    is_u64(seen->calls, 0, "one that was replaced neither");
    is_u64(last_byte("f"), 0, "... the new one is not touched");

    fresh_file();
    open_shared(&s);
    if (truncate("f", 4096) != 0)
        give_up("truncate");
    cbf_store_close(&s, last);
    is_u64(seen->calls, 0, "one that was cut neither");

    fresh_file();
    open_shared(&s);
    memset(junk, 'x', sizeof junk);
    memcpy(s.base, junk, SMALL_BYTES);
    cbf_store_close(&s, last);
    is_u64(seen->calls, 0, "one that was written over neither");
}

static void
test_last_elsewhere(void)
{
    struct cbf_store s;

    fresh_file();
    open_shared(&s);
    if (chdir("/") != 0)
        give_up("chdir");
    cbf_store_close(&s, last);
    is_u64(seen->calls, 1, "a relative path after chdir: the last is found");
    if (chdir(top) != 0)
        give_up(top);
    fresh_file();
    open_shared(&s);
    if (rename("f", "renamed") != 0)
        give_up("rename");
    cbf_store_close(&s, last);
    is_u64(last_byte("renamed"), 1, "... also when it was renamed");
}

/* ---- relatives ---------------------------------------------------------- */

static struct cbf_store shared;

static int
child_closes(void)
{
    cbf_store_close(&shared, last);
    return (int)seen->calls;
}

static void
test_fork_child_first(void)
{
    fresh_file();
    open_shared(&shared);
    is_u64(in_child(child_closes), 0, "a child closes: not the last");
    ok(!flock_free("f", LOCK_EX), "... the parent's flock is still there");
    cbf_store_close(&shared, last);
    is_u64(seen->calls, 1, "the parent is the last");
}

static void
test_fork_parent_first(void)
{
    int gate[2];
    char c;
    int status;
    pid_t pid;

    fresh_file();
    open_shared(&shared);
    if (pipe(gate) != 0)
        give_up("pipe");
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        alarm(20);
        close(gate[1]);
        _exit(read(gate[0], &c, 1) != 0 || child_closes() != 1);
    }
    cbf_store_close(&shared, last);
    is_u64(seen->calls, 0, "a parent closes before its child: not the last");
    ok(!flock_free("f", LOCK_EX), "... the child holds the flock");
    close(gate[1]);
    waitpid(pid, &status, 0);
    close(gate[0]);
    is_u64(status, 0, "... the child is the last");
}

/* ---- a number that is no longer ours ------------------------------------ */

static void
test_number_closed(void)
{
    struct cbf_store s;

    fresh_file();
    open_shared(&s);
    close(s.fd);
    cbf_store_close(&s, last);
    is_u64(seen->calls, 1, "closed behind our back: by path it is the last");
}

static void
test_number_reused(void)
{
    struct cbf_store s;
    int number;
    int other = open("/dev/null", O_RDONLY);
    char c;

    fresh_file();
    open_shared(&s);
    number = s.fd;
    dup2(other, number);
    cbf_store_close(&s, last);
    is_u64(read(number, &c, 1), 0, "another file with that number stays open");
    close(number);
    close(other);
}

/* A memfd's position is its users' to move; device and inode must do there. */
static void
test_memfd_number_reused(void)
{
    struct cbf_store s;
    int number;
    int other = open("/dev/null", O_RDONLY);
    char c;

    if (cbf_store_memfd(&s, NULL, &small_plan, NULL) != CBF_OK)
        give_up("memfd");
    number = s.fd;
    lseek(number, 5, SEEK_SET);
    cbf_store_close(&s, last);
    ok(fcntl(number, F_GETFD) < 0, "a memfd with a position is closed");
    if (cbf_store_memfd(&s, NULL, &small_plan, NULL) != CBF_OK)
        give_up("memfd");
    number = s.fd;
    dup2(other, number);
    cbf_store_close(&s, last);
    is_u64(read(number, &c, 1), 0, "another file with its number stays open");
    close(number);
    close(other);
}

/* The hardest: the number is now another handle's on the same file. */
static void
test_number_of_another_handle(void)
{
    struct cbf_store s;
    struct cbf_store t;
    struct cbf_error e;
    int number;

    fresh_file();
    open_shared(&s);
    number = s.fd;
    close(number);
    open_shared(&t);
    is_u64(t.fd, number, "a second handle has the number of the first");
    cbf_store_close(&s, last);
    ok(fcntl(number, F_GETFD) >= 0 && !flock_free("f", LOCK_EX),
       "... and keeps it, and its flock, when the first closes");
    is_u64(seen->calls, 0, "... which is not the last");
    is_u64(cbf_store_recheck(&t, &e), CBF_OK, "... and is its own");
    is_u64(t.fd, number, "... as before");
    cbf_store_close(&t, last);
    is_u64(seen->calls, 1, "... until it closes");
}

int
main(void)
{
    enter_directory();
    hand_made(good);
    seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE,
                MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seen == MAP_FAILED)
        give_up("mmap");
    test_last();
    test_last_sealed();
    test_last_of_what();
    test_last_elsewhere();
    test_fork_child_first();
    test_fork_parent_first();
    test_number_closed();
    test_number_reused();
    test_memfd_number_reused();
    test_number_of_another_handle();
    munmap(seen, sizeof *seen);
    leave_directory();
    return done_testing();
}
