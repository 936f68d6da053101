/*
 * store_recheck.c - a process that has inherited a handle and closed all its
 * descriptors: it gets the file back, by path or by the name that the kernel
 * knows, or does without where nobody can open the file any more.
 */
#include "store_last.h"
#include <pthread.h>

static struct cbf_store shared;

/* ---- recheck: in a child that has closed everything --------------------- */

static void
close_all(void)
{
    int fd;

    for (fd = 3; fd < 256; fd++)
        close(fd);
}

/* Whether the kernel tells what a mapping's file is called. */
static int
names_are_known(void)
{
    int fd = open("/proc/self/map_files", O_RDONLY | O_DIRECTORY);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* The store has a descriptor of the file, and a flock: the parent has given
 * its own up, so that ours is the only one. */
static int
regained(const struct cbf_store *s, const char *path)
{
    struct stat st;

    return s->fd >= 3 && fstat(s->fd, &st) == 0 && st.st_ino == s->ino
           && fcntl(s->fd, F_GETFD) == FD_CLOEXEC
           && !flock_free(path, LOCK_EX) && flock_free(path, LOCK_SH);
}

static int
daemon_by_path(void)
{
    close_all();
    if (cbf_store_recheck(&shared, NULL) != CBF_OK)
        return 1;
    if (!regained(&shared, "f"))
        return 2;
    ((uint8_t *)shared.base)[20000] = 0x44;
    cbf_store_close(&shared, last);
    return seen->calls == 1 ? 0 : 3;
}

static int
daemon_elsewhere(void)
{
    char path[4200];

    close_all();
    if (chdir("/") != 0)
        return 9;
    snprintf(path, sizeof path, "%s/f", top);
    if (cbf_store_recheck(&shared, NULL) != CBF_OK)
        return 1;
    return regained(&shared, path) ? 0 : 2;
}

static int
daemon_after_rename(void)
{
    close_all();
    if (rename("f", "moved") != 0)
        return 9;
    if (cbf_store_recheck(&shared, NULL) != CBF_OK)
        return 1;
    return regained(&shared, "moved") ? 0 : 2;
}

static int
daemon_after_unlink(void)
{
    close_all();
    unlink("moved");
    if (cbf_store_recheck(&shared, NULL) != CBF_OK)
        return 1;
    return shared.fd == -1 ? 0 : 2;
}

static int
daemon_after_replacement(void)
{
    close_all();
    spew("g", good, SMALL_BYTES);
    if (rename("g", "f") != 0)
        return 9;
    if (cbf_store_recheck(&shared, NULL) != CBF_OK)
        return 1;
    return shared.fd == -1 && flock_free("f", LOCK_EX) ? 0 : 2;
}

static int
daemon_with_other_files(void)
{
    int number = shared.fd;
    int other = open("/dev/null", O_RDONLY);
    char c;

    dup2(other, number);
    if (cbf_store_recheck(&shared, NULL) != CBF_OK)
        return 1;
    if (!regained(&shared, "f") || shared.fd == number)
        return 2;
    cbf_store_close(&shared, last);
    return read(number, &c, 1) == 0 ? 0 : 3;
}

static int
still_open(void)
{
    int number = shared.fd;

    if (cbf_store_recheck(&shared, NULL) != CBF_OK)
        return 1;
    return shared.fd == number ? 0 : 2;
}

/* Somebody locks the file exclusively: waits, is interrupted, tries again. */
static int
daemon_waits(void)
{
    int holder;
    int lost = shared.fd;
    unsigned before;

    close_all();
    holder = open("f", O_RDWR);
    dup2(holder, 100);
    close(holder);
    if (flock(100, LOCK_EX | LOCK_NB) != 0)
        return 9;
    before = open_descriptors();
    nap_interrupted = 1;
    if (cbf_store_recheck(&shared, NULL) != CBF_E_INTERRUPTED)
        return 1;
    if (shared.fd != lost || open_descriptors() != before)
        return 2;
    calls_work();
    if (cbf_store_recheck(&shared, NULL) != CBF_E_BUSY || nap_ms < 30000)
        return 3;
    if (shared.fd != lost || open_descriptors() != before)
        return 4;
    close(100);
    if (cbf_store_recheck(&shared, NULL) != CBF_OK)
        return 5;
    return regained(&shared, "f") ? 0 : 6;
}

/* Others can open the file and this process can't. */
static int
daemon_without_rights(void)
{
    struct cbf_error e;

    close_all();
    if (geteuid() == 0 && (chmod(".", 0755) != 0 || seteuid(65534) != 0))
        return 9;
    if (chmod("f", 0) != 0 && errno != EPERM)
        return 9;
    if (cbf_store_recheck(&shared, &e) != CBF_E_DESCRIPTOR)
        return 1;
    return e.code == CBF_E_DESCRIPTOR ? 0 : 2;
}

/* Root only: no way to the file, and nobody to ask where it is. */
static int
daemon_in_jail(void)
{
    close_all();
    if (mkdir("jail", 0700) != 0 || chroot("jail") != 0 || chdir("/") != 0)
        return 9;
    if (cbf_store_recheck(&shared, NULL) != CBF_E_DESCRIPTOR)
        return 1;
    cbf_store_close(&shared, last);
    return 0;
}

static pthread_barrier_t start;

static void *
thread_rechecks(void *result)
{
    pthread_barrier_wait(&start);
    *(int *)result = cbf_store_recheck(&shared, NULL);
    return NULL;
}

static int
two_threads_once(void)
{
    pthread_t thread[2];
    int code[2] = { -1, -1 };
    unsigned before = open_descriptors();
    int i;

    for (i = 0; i < 2; i++)
        if (pthread_create(&thread[i], NULL, thread_rechecks, &code[i]))
            return 9;
    for (i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    if (code[0] != CBF_OK || code[1] != CBF_OK)
        return 1;
    return open_descriptors() == before + 1 && regained(&shared, "f")
           ? 0 : 2;
}

static int
two_threads(void)
{
    int lost = shared.fd;
    int code = 0;
    int round;

    close_all();
    if (pthread_barrier_init(&start, NULL, 2) != 0)
        return 9;
    for (round = 0; round < 300 && !code; round++) {
        shared.fd = lost;
        code = two_threads_once();
        close(shared.fd);
    }
    pthread_barrier_destroy(&start);
    return code;
}

static void
test_recheck(void)
{
    uint8_t byte;
    int known = names_are_known();

    fresh_file();
    open_shared(&shared);
    flock(shared.fd, LOCK_UN);
    byte = ((uint8_t *)shared.base)[20000];
    is_u64(in_child(still_open), 0, "an inherited descriptor is still good");
    is_u64(in_child(daemon_by_path), 0,
           "one that was closed is regained by path");
    ok(byte == 0 && ((uint8_t *)shared.base)[20000] == 0x44,
       "... the memory is the same");
    is_u64(in_child(daemon_with_other_files), 0,
           "one that is another file now is left to it");
    if (known)
        is_u64(in_child(daemon_elsewhere), 0,
               "a relative path is found after chdir");
    if (geteuid() == 0)
        is_u64(in_child(daemon_in_jail), 0, "not in a chroot jail");
    is_u64(in_child(daemon_waits), 0, "waits for the flock");
    /* To ask whose a number is while another thread opens it is what recheck
     * is for; the sanitizer calls that a race on the number. */
    if (!UNDER_TSAN)
        is_u64(in_child(two_threads), 0, "two threads regain one descriptor");
    is_u64(in_child(daemon_without_rights), 0,
           "a file that can't be opened any more");
    if (chmod("f", 0600) != 0)
        give_up("chmod");
    if (!known)
        diag("no names of mapped files here: not after rename and removal");
    if (known) {
        is_u64(in_child(daemon_after_rename), 0,
               "a file is found after a rename");
        is_u64(in_child(daemon_after_unlink), 0,
               "a removed file needs no descriptor");
    }
    cbf_store_close(&shared, last);
    fresh_file();
    open_shared(&shared);
    if (known)
        is_u64(in_child(daemon_after_replacement), 0,
               "a replaced file needs none either");
    cbf_store_close(&shared, last);
}

static int
child_closes(void)
{
    cbf_store_close(&shared, last);
    return (int)seen->calls;
}

/* A daemon keeps its flock when its parent has gone: others see it. */
static void
test_daemon_is_seen(void)
{
    struct cbf_store s;
    int up[2];
    int gate[2];
    char c = 'u';
    int status;
    pid_t pid;

    fresh_file();
    open_shared(&shared);
    if (pipe(up) != 0 || pipe(gate) != 0)
        give_up("pipe");
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        alarm(20);
        close(gate[1]);
        close(shared.fd);
        if (cbf_store_recheck(&shared, NULL) != CBF_OK)
            c = 'x';
        if (write(up[1], &c, 1) != 1)
            _exit(1);
        _exit(read(gate[0], &c, 1) != 0 || child_closes() != 1);
    }
    ok(read(up[0], &c, 1) == 1 && c == 'u', "a daemon regains the file");
    cbf_store_close(&shared, last);
    if (cbf_store_open(&s, "f", &small_plan, 0600, NULL) != CBF_OK)
        give_up("f");
    ok(!s.alone, "its parent closes: an opener is not alone");
    cbf_store_close(&s, last);
    is_u64(seen->calls, 0, "... nor the last");
    close(gate[1]);
    waitpid(pid, &status, 0);
    is_u64(status, 0, "the daemon is");
    close(up[0]);
    close(up[1]);
    close(gate[0]);
}

/* ---- recheck: memfd and passed descriptors ------------------------------ */

static int
daemon_without_descriptor(void)
{
    close_all();
    if (cbf_store_recheck(&shared, NULL) != CBF_OK || shared.fd != -1)
        return 1;
    if (cbf_store_recheck(&shared, NULL) != CBF_OK)
        return 2;
    ((uint8_t *)shared.base)[20000] = 0x55;
    cbf_store_close(&shared, last);
    return 0;
}

static int
daemon_with_other_memfd(void)
{
    int number = shared.fd;
    char c;

    dup2(open("/dev/null", O_RDONLY), number);
    if (cbf_store_recheck(&shared, NULL) != CBF_OK || shared.fd != -1)
        return 1;
    cbf_store_close(&shared, last);
    return read(number, &c, 1) == 0 ? 0 : 2;
}

static int
daemon_passed_file(void)
{
    close_all();
    if (cbf_store_recheck(&shared, NULL) != CBF_OK)
        return 1;
    return regained(&shared, "f") ? 0 : 2;
}

static void
test_recheck_descriptors(void)
{
    struct cbf_store s;
    struct cbf_error e;
    int fd;

    if (cbf_store_memfd(&shared, NULL, &small_plan, &e) != CBF_OK)
        give_up("memfd");
    is_u64(in_child(still_open), 0, "a memfd that is still there");
    is_u64(in_child(daemon_without_descriptor), 0,
           "a memfd that was closed: the mapping is enough");
    is_u64(((uint8_t *)shared.base)[20000], 0x55, "... and still shared");
    s = shared;
    if (cbf_store_from_fd(&shared, s.fd, &e) != CBF_OK)
        give_up("from_fd");
    is_u64(in_child(daemon_without_descriptor), 0,
           "a passed memfd that was closed, too");
    is_u64(in_child(daemon_with_other_memfd), 0,
           "one whose number is another file now");
    cbf_store_close(&shared, last);
    cbf_store_close(&s, last);

    fresh_file();
    fd = open("f", O_RDWR);
    if (cbf_store_from_fd(&shared, fd, &e) != CBF_OK
        || cbf_store_share(&shared, &e) != CBF_OK)
        give_up("from_fd");
    if (names_are_known()) {
        is_u64(in_child(daemon_passed_file), 0,
               "a passed file is regained by its name");
    }
    cbf_store_close(&shared, last);
    close(fd);
    is_u64(seen->calls, 0, "only handles of paths have a last");
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
    test_recheck();
    test_daemon_is_seen();
    test_recheck_descriptors();
    munmap(seen, sizeof *seen);
    leave_directory();
    return done_testing();
}
