/*
 * store.c - the store's constructors that need no protocol: anonymous, memfd,
 * read-only files; and flushing, removing, a process's descriptors and limits.
 *
 * The header and its checks are tested in store_header.c, passed descriptors
 * in store_fd.c, opening a path read-write in store_open.c and store_wait.c,
 * closing in store_close.c, lost descriptors in store_recheck.c, replacing in
 * store_replace.c.
 */
#include "store_help.h"
#include <linux/magic.h>
#include <linux/memfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/vfs.h>

/* ---- anonymous and memfd ------------------------------------------------ */

static void
test_anonymous(void)
{
    struct cbf_geometry huge = small_plan;
    struct cbf_store s;
    struct cbf_error e;
    unsigned before = open_descriptors();

    is_u64(cbf_store_anonymous(&s, &small_plan, &e), CBF_OK, "anonymous");
    ok(s.kind == CBF_STORE_ANONYMOUS && s.fd == -1 && !s.path && !s.alone
       && !s.sealed, "... has neither descriptor nor path");
    is_u64(s.map_bytes, SMALL_BYTES, "... size");
    ok(memcmp(s.base, good, SMALL_BYTES) == 0, "... an empty filter");
    is_u64(cbf_store_sync(&s, &e), CBF_OK, "... sync has nothing to do");
    is_u64(cbf_store_recheck(&s, &e), CBF_OK, "... nor has recheck");
    is_u64(open_descriptors(), before, "... costs no descriptor");
    errno = EDOM;
    cbf_store_close(&s, NULL);
    is_u64(errno, EDOM, "close keeps errno");
    ok(!s.base && s.fd == -1 && !s.path, "... and leaves nothing");
    cbf_store_close(&s, NULL);
    ok(1, "closing twice is no crash");

    huge.file_bytes = (uint64_t)1 << 62;
    is_u64(cbf_store_anonymous(&s, &huge, &e), CBF_E_MEMORY,
           "no room: an error");
    ok(!s.base, "... and nothing mapped");
}

/* Whether the kernel was asked for huge pages in the mapping at base. */
static int
is_huge(const void *base)
{
    char start[32];
    char line[1024];
    FILE *maps = fopen("/proc/self/smaps", "r");
    int here = 0;
    int found = -1;

    if (!maps)
        give_up("smaps");
    snprintf(start, sizeof start, "%lx-", (unsigned long)base);
    while (found < 0 && fgets(line, sizeof line, maps)) {
        if (strncmp(line, start, strlen(start)) == 0)
            here = 1;
        if (here && strncmp(line, "VmFlags:", 8) == 0)
            found = strstr(line, " hg") != NULL;
    }
    fclose(maps);
    return found;
}

static int
is_tmpfs(const char *path)
{
    struct statfs fs;

    return statfs(path, &fs) == 0 && fs.f_type == TMPFS_MAGIC;
}

static void
test_huge_pages(void)
{
    struct cbf_store s;
    struct cbf_error e;
    void *any = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                     0);
    int can = madvise(any, 4096, MADV_HUGEPAGE) == 0;

    munmap(any, 4096);
    cbf_store_anonymous(&s, &small_plan, &e);
    is_u64((uint64_t)is_huge(s.base), (uint64_t)can,
           "anonymous: huge pages are asked for");
    cbf_store_close(&s, NULL);
    cbf_store_memfd(&s, NULL, &small_plan, &e);
    is_u64((uint64_t)is_huge(s.base), (uint64_t)can, "a memfd: too");
    cbf_store_close(&s, NULL);
    is_u64(open_at(&s, "huge", 0600, &e), CBF_OK, "a file");
    is_u64((uint64_t)is_huge(s.base), (uint64_t)(can && is_tmpfs("huge")),
           "... only if it is memory");
    cbf_store_close(&s, NULL);
}

static int
child_adds(void)
{
    struct cbf_store s;
    struct cbf_error e;
    pid_t pid;

    if (cbf_store_anonymous(&s, &small_plan, &e))
        return 1;
    pid = fork();
    if (pid == 0) {
        ((uint8_t *)s.base)[20000] = 0x37;
        cbf_store_close(&s, NULL);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    return ((uint8_t *)s.base)[20000] == 0x37 ? 0 : 2;
}

static void
test_memfd(void)
{
    char name[300];
    struct cbf_store s;
    struct cbf_error e;
    char link[64];
    char shown[300] = "";
    unsigned before = open_descriptors();
    int seals;

    is_u64(cbf_store_memfd(&s, NULL, &small_plan, &e), CBF_OK, "memfd");
    ok(s.kind == CBF_STORE_MEMFD && s.fd > 2 && !s.path && !s.alone,
       "... has a descriptor");
    ok(memcmp(s.base, good, SMALL_BYTES) == 0, "... an empty filter");
    snprintf(link, sizeof link, "/proc/self/fd/%d", s.fd);
    if (readlink(link, shown, sizeof shown - 1) > 0)
        ok(strstr(shown, "counting-bloom-filter") != NULL, "... label %s",
           shown);
    seals = fcntl(s.fd, F_GET_SEALS);
    is_u64((uint64_t)seals, F_SEAL_SHRINK | F_SEAL_GROW, "... seals");
    ok(ftruncate(s.fd, 4096) != 0 && ftruncate(s.fd, 1 << 20) != 0,
       "... nobody can cut or grow it");
    is_u64((uint64_t)fcntl(s.fd, F_GETFD), FD_CLOEXEC, "... close-on-exec");
    is_u64(cbf_store_sync(&s, &e), CBF_OK, "... sync");
    cbf_store_close(&s, NULL);

    memset(name, 'n', sizeof name);
    name[249] = '\0';
    is_u64(cbf_store_memfd(&s, name, &small_plan, &e), CBF_OK,
           "a label of 249 bytes");
    cbf_store_close(&s, NULL);
    name[249] = 'n';
    name[250] = '\0';
    is_u64(cbf_store_memfd(&s, name, &small_plan, &e), CBF_E_SYSTEM,
           "250 are too many");
    is_u64((uint64_t)e.sys_errno, EINVAL, "... says the system");
    truncate_fails = ENOSPC;
    is_u64(cbf_store_memfd(&s, NULL, &small_plan, &e), CBF_E_SYSTEM,
           "no room for a memfd");
    is_u64((uint64_t)e.sys_errno, ENOSPC, "... says the system");
    calls_work();
    map_fails = ENOMEM;
    is_u64(cbf_store_memfd(&s, NULL, &small_plan, &e), CBF_E_MEMORY,
           "no address space");
    calls_work();
    is_u64(open_descriptors(), before, "no descriptor is left");
}

/* ---- read-only ---------------------------------------------------------- */

static void
test_readonly(void)
{
    uint8_t sealed[SMALL_BYTES];
    struct cbf_store s;
    struct cbf_error e;
    struct stat st;
    unsigned before = open_descriptors();

    memcpy(sealed, good, SMALL_BYTES);
    sealed[96] = 1;
    sealed[18000] = 0x42;
    spew("frozen", sealed, SMALL_BYTES);
    is_u64(cbf_store_readonly(&s, "frozen", &e), CBF_OK,
           "a frozen file");
    ok(s.kind == CBF_STORE_READONLY && s.sealed && !s.alone
       && strcmp(s.path, "frozen") == 0, "... is open");
    ok(s.fd == -1 && open_descriptors() == before, "... no descriptor");
    ok(memcmp(s.base, sealed, SMALL_BYTES) == 0, "... its bytes");
    ok(stat("frozen", &st) == 0 && st.st_dev == s.dev && st.st_ino == s.ino,
       "... and which file it is");
    ok(mprotect(s.base, s.map_bytes, PROT_READ | PROT_WRITE) != 0
       && errno == EACCES, "... it can't be made writable");
    ok(flock_free("frozen", LOCK_EX), "... and nothing is locked");
    is_u64(cbf_store_sync(&s, &e), CBF_OK, "... sync");
    is_u64(cbf_store_recheck(&s, &e), CBF_OK, "... recheck");
    cbf_store_close(&s, NULL);
    ok(!s.base && !s.path, "... and closed");
}

static void
readonly_refused(const char *path, int code)
{
    struct cbf_store s;
    struct cbf_error e;
    unsigned before = open_descriptors();

    is_u64(cbf_store_readonly(&s, path, &e), (uint64_t)code,
           "read-only, %s", path);
    ok(!s.base && s.fd == -1 && !s.path && open_descriptors() == before,
       "... nothing is held");
}

static void
test_readonly_refusals(void)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int sock = socket(AF_UNIX, SOCK_STREAM, 0);

    memcpy(name.sun_path, "socket", sizeof "socket");
    if (symlink("frozen", "link") != 0 || symlink("nowhere", "lost") != 0
        || symlink("circle", "circle") != 0
        || mkfifo("fifo", 0600) != 0 || mkdir("directory", 0700) != 0
        || bind(sock, (struct sockaddr *)&name, sizeof name) != 0)
        give_up("special files");
    close(sock);
    readonly_refused("link", CBF_E_SYMLINK);
    readonly_refused("lost", CBF_E_SYMLINK);
    readonly_refused("circle", CBF_E_SYMLINK);
    readonly_refused("circle/x", CBF_E_SYSTEM);
    readonly_refused("fifo", CBF_E_NOT_REGULAR);
    readonly_refused("directory", CBF_E_NOT_REGULAR);
    readonly_refused("socket", CBF_E_NOT_REGULAR);
    if (make_device("device"))
        readonly_refused("device", CBF_E_NOT_REGULAR);
    readonly_refused("missing", CBF_E_SYSTEM);
    spew("mutable", good, SMALL_BYTES);
    readonly_refused("mutable", CBF_E_NOT_FROZEN);
    zeros("empty", 0);
    readonly_refused("empty", CBF_E_TOO_SMALL);
    zeros("zero", SMALL_BYTES);
    readonly_refused("zero", CBF_E_INVALID);
    ok(size_of("missing") < 0, "nothing is created");
}

/* In a child: as somebody who may only read. */
static int
reads_without_write_permission(void)
{
    struct cbf_store s;
    struct cbf_error e;

    if (geteuid() == 0
        && (chmod(".", 0755) != 0 || chown("frozen", 65534, 65534) != 0
            || seteuid(65534) != 0))
        return 10;
    /* frozen is the better reason than that it may not be written */
    if (cbf_store_open(&s, "frozen", &small_plan, 0600, &e)
        != CBF_E_SEALED_FILE)
        return 1;
    if (cbf_store_readonly(&s, "frozen", &e) != CBF_OK)
        return 2;
    return ((uint8_t *)s.base)[18000] == 0x42 ? 0 : 3;
}

/* ---- odds and ends ------------------------------------------------------ */

/* A program without standard streams; they must not become ours. */
static int
without_stdio(void)
{
    struct cbf_store s;
    struct cbf_store t;
    struct cbf_store u;

    close(0);
    close(1);
    close(2);
    if (cbf_store_open(&s, "stdio", &small_plan, 0600, NULL)
        || cbf_store_memfd(&t, NULL, &small_plan, NULL)
        || cbf_store_from_fd(&u, t.fd, NULL))
        return 1;
    if (s.fd < 3 || t.fd < 3 || u.fd < 3)
        return 2;
    return fcntl(0, F_GETFD) < 0 && fcntl(1, F_GETFD) < 0
           && fcntl(2, F_GETFD) < 0 ? 0 : 3;
}

/* The limit on file sizes is an error, not a deadly signal. */
static int
under_a_limit(void)
{
    struct rlimit limit = { 20000, 20000 };
    struct cbf_store s;
    struct cbf_error e;

    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 10;
    if (cbf_store_open(&s, "limited", &small_plan, 0600, &e)
            != CBF_E_SYSTEM
        || e.sys_errno != EFBIG)
        return 1;
    if (cbf_store_memfd(&s, NULL, &small_plan, &e) != CBF_E_SYSTEM
        || e.sys_errno != EFBIG)
        return 2;
    return size_of("limited") < 0 ? 0 : 3;
}

static void
test_unlink(void)
{
    struct cbf_error e;

    spew("victim", "x", 1);
    is_u64(cbf_store_unlink("victim", &e), CBF_OK, "unlink");
    ok(size_of("victim") < 0, "... it is gone");
    is_u64(cbf_store_unlink("victim", &e), CBF_OK,
           "already gone is fine");
    is_u64(cbf_store_unlink("directory", &e), CBF_E_SYSTEM,
           "a directory is an error");
    ok(e.sys_errno == EISDIR || e.sys_errno == EPERM, "... of the system");
    ok(strcmp(e.what, "unlink") == 0, "... named");
}

int
main(void)
{
    enter_directory();
    hand_made(good);
    test_anonymous();
    test_huge_pages();
    is_u64(in_child(child_adds), 0,
           "anonymous memory is shared with a child");
    test_memfd();
    test_readonly();
    test_readonly_refusals();
    if (chmod("frozen", 0400) != 0)
        give_up("chmod");
    is_u64(in_child(reads_without_write_permission), 0,
           "a file without write permission opens read-only");
    is_u64(in_child(without_stdio), 0,
           "descriptors 0, 1 and 2 are left free");
    is_u64(in_child(under_a_limit), 0,
           "a limit on file sizes is an error");
    test_unlink();
    leave_directory();
    return done_testing();
}
