/*
 * store_open.c - opening a path read-write, one process alone: creation and
 * its mode, adoption of empty and zero files, refusals, failures.  What others
 * do to the file meanwhile is in store_wait.c.
 */
#include "store_help.h"
#include <sys/socket.h>
#include <sys/un.h>

/* A refusal: code, nothing held, and no descriptor left. */
static void
refused(const char *path, int code, const char *name)
{
    struct cbf_store s;
    struct cbf_error e;
    unsigned before = open_descriptors();

    is_u64(open_at(&s, path, 0640, &e), code, "%s", name);
    is_u64(e.code, code, "... the error says the same");
    ok(!s.base && s.fd == -1 && !s.path && open_descriptors() == before,
       "... nothing is held");
}

/* ---- creation ----------------------------------------------------------- */

static void
test_create(void)
{
    struct cbf_store s;
    struct cbf_error e;
    struct stat st;
    uint8_t file[SMALL_BYTES + 1];
    size_t n;

    is_u64(open_at(&s, "new", 0600, &e), CBF_OK, "a new file");
    ok(s.kind == CBF_STORE_PATH && s.alone && !s.sealed, "... is ours alone");
    ok(strcmp(s.path, "new") == 0 && s.fd > 2, "... path and descriptor");
    ok(is_empty_filter(&s), "... an empty filter");
    is_u64(s.geometry.capacity, 1000, "... of the plan's capacity");
    ok(fstat(s.fd, &st) == 0 && st.st_dev == s.dev && st.st_ino == s.ino,
       "... and which file it is");
    is_u64(fcntl(s.fd, F_GETFD), FD_CLOEXEC, "... close-on-exec");
    n = slurp("new", file, sizeof file);
    is_u64(n, SMALL_BYTES, "... size on disk");
    ok(memcmp(file, good, SMALL_BYTES) == 0, "... bytes on disk");
    is_u64(cbf_store_sync(&s, &e), CBF_OK, "... sync");
    cbf_store_close(&s, NULL);
}

static void
test_modes(void)
{
    static const unsigned masks[] = { 0, 022, 077, 0777 };
    static const unsigned modes[] = { 0, 0400, 0600, 0640, 0666, 0777,
                                      01777, 04700, 07777 };
    char name[32];
    struct cbf_store s;
    struct cbf_error e;
    size_t i;
    size_t j;

    for (i = 0; i < sizeof masks / sizeof *masks; i++) {
        for (j = 0; j < sizeof modes / sizeof *modes; j++) {
            snprintf(name, sizeof name, "mode-%u-%u", (unsigned)i,
                     (unsigned)j);
            umask(masks[i]);
            ok(open_at(&s, name, modes[j], &e) == CBF_OK
               && mode_of(name) == modes[j],
               "umask %04o: a new file has mode %04o", masks[i], modes[j]);
            cbf_store_close(&s, NULL);
            is_u64(umask(022), masks[i], "... and the umask is as it was");
        }
    }
    is_u64(open_at(&s, "mode-0-3", 0600, &e), CBF_OK, "opened again");
    is_u64(mode_of("mode-0-3"), 0640, "... a file keeps its mode");
    cbf_store_close(&s, NULL);
}

static void
nobody_gets_in(int fd)
{
    struct stat st = { .st_mode = 07777 };

    fstat(fd, &st);
    ok((st.st_mode & 07777 & ~0600u) == 0,
       "a file in the making has mode %04o",
       (unsigned)st.st_mode & 07777);
}

static void
test_mode_meanwhile(void)
{
    struct cbf_store s;
    struct cbf_error e;

    umask(0);
    before_map = nobody_gets_in;
    is_u64(open_at(&s, "private", 0600, &e), CBF_OK, "... for 0600");
    cbf_store_close(&s, NULL);
    calls_work();
    umask(022);
}

static void
test_existing(void)
{
    struct cbf_geometry other = {
        .capacity = 5,
        .fp_rate = 0.5,
        .n_counters = 64,
        .n_probes = 1,
        .counter_bytes = 32,
        .file_bytes = 16800,
    };
    struct cbf_store s;
    struct cbf_error e;

    spew("mine", good, SMALL_BYTES);
    is_u64(cbf_store_open(&s, "mine", &other, 0666, &e), CBF_OK,
           "an existing file");
    ok(s.geometry.n_counters == 16384 && s.geometry.n_probes == 7
       && s.geometry.capacity == 1000 && s.geometry.fp_rate == 0.01,
       "... its own geometry wins");
    ok(s.alone, "... nobody else has it open");
    is_u64(mode_of("mine"), 0600, "... and its mode stays");
    cbf_store_close(&s, NULL);
    is_u64(cbf_store_open(&s, "smallest", &other, 0600, &e), CBF_OK,
           "the smallest filter");
    is_u64(size_of("smallest"), 16800, "... is 16800 bytes long");
    cbf_store_close(&s, NULL);
}

/* ---- refusals ----------------------------------------------------------- */

static void
unwritten_before_map(int fd)
{
    (void)fd;
    ok(0, "nothing is mapped before it is checked");
}

static void
test_not_a_file(void)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int sock = socket(AF_UNIX, SOCK_STREAM, 0);

    memcpy(name.sun_path, "socket", sizeof "socket");
    if (symlink("mine", "link") != 0 || symlink("nowhere", "lost") != 0
        || symlink("circle", "circle") != 0
        || mkfifo("fifo", 0600) != 0 || mkdir("directory", 0700) != 0
        || bind(sock, (struct sockaddr *)&name, sizeof name) != 0)
        give_up("special files");
    close(sock);
    before_map = unwritten_before_map;
    refused("link", CBF_E_SYMLINK, "a symbolic link");
    refused("lost", CBF_E_SYMLINK, "one to nowhere");
    ok(size_of("nowhere") < 0, "... is not followed by creating");
    refused("circle", CBF_E_SYMLINK, "one to itself");
    refused("fifo", CBF_E_NOT_REGULAR, "a FIFO, without waiting");
    refused("directory", CBF_E_NOT_REGULAR, "a directory");
    refused("socket", CBF_E_NOT_REGULAR, "a socket");
    if (make_device("device"))
        refused("device", CBF_E_NOT_REGULAR, "a device");
    refused("missing/file", CBF_E_SYSTEM, "no such directory");
    refused("mine/file", CBF_E_SYSTEM, "a file as directory");
    refused("", CBF_E_SYSTEM, "no path");
    calls_work();
}

/* A file that must be refused and stay as it is, mode and all. */
static void
left_alone(const void *bytes, size_t n, int code, const char *name)
{
    uint8_t after[SMALL_BYTES * 2];
    size_t got;

    spew("left", bytes, n);
    if (chmod("left", 0604) != 0)
        give_up("chmod");
    refused("left", code, name);
    got = slurp("left", after, sizeof after);
    ok(got == n && memcmp(after, bytes, n) == 0 && mode_of("left") == 0604,
       "... the file is as it was");
}

/* The user may have asked for another geometry: the text must help him. */
static void
test_zeros_of_another_size(void)
{
    struct cbf_store s;
    struct cbf_error e = { .what = NULL };

    zeros("sized", SMALL_BYTES + 32);
    open_at(&s, "sized", 0600, &e);
    ok(e.what && strncmp(e.what, "all zero", 8) == 0,
       "zeros of another size: %s", e.what ? e.what : "nothing");
}

static void
test_not_a_filter(void)
{
    uint8_t file[SMALL_BYTES * 2] = { 0 };
    static const size_t lengths[] = { 1, 8, 72, 256, 4096, 16768, 16799 };
    size_t i;

    for (i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        left_alone(good, lengths[i], CBF_E_TOO_SMALL, "cut short");
        left_alone(file, lengths[i], CBF_E_TOO_SMALL, "zeros, too few");
    }
    left_alone(good, SMALL_BYTES - 1, CBF_E_INVALID, "one byte short");
    left_alone(file, 16800, CBF_E_INVALID, "zeros, another size");
    left_alone(file, SMALL_BYTES - 1, CBF_E_INVALID, "zeros, one missing");
    left_alone(file, SMALL_BYTES + 1, CBF_E_INVALID, "zeros, one too many");
    file[SMALL_BYTES - 1] = 1;
    left_alone(file, SMALL_BYTES, CBF_E_INVALID, "zeros but for the last");
    file[SMALL_BYTES - 1] = 0;
    file[256] = 1;
    left_alone(file, SMALL_BYTES, CBF_E_INVALID, "zeros but for a slot");
    file[256] = 0;
    file[100] = 1;
    left_alone(file, SMALL_BYTES, CBF_E_INVALID, "zeros but for a byte");
    memset(file, 0xff, sizeof file);
    left_alone(file, SMALL_BYTES, CBF_E_INVALID, "all ones");
    memset(file, 'x', sizeof file);
    left_alone(file, SMALL_BYTES, CBF_E_INVALID, "text");
    memcpy(file, good, SMALL_BYTES);
    left_alone(file, SMALL_BYTES + 5000, CBF_E_INVALID, "something appended");
    put32(file, 0, 0);
    left_alone(file, SMALL_BYTES, CBF_E_INCOMPLETE, "without magic number");
    memset(file, 0, sizeof file);
    put32(file, 4, 2);
    left_alone(file, SMALL_BYTES, CBF_E_INCOMPLETE, "only a version");
    memcpy(file, good, SMALL_BYTES);
    file[96] = 1;
    left_alone(file, SMALL_BYTES, CBF_E_SEALED_FILE, "a frozen one");
}

/* ---- adoption ----------------------------------------------------------- */

static void
test_adopt(void)
{
    static const off_t sizes[] = { 0, SMALL_BYTES };
    uint8_t zero[SMALL_BYTES] = { 0 };
    struct cbf_store s;
    struct cbf_error e;
    size_t i;

    for (i = 0; i < 3; i++) {
        if (i < 2)
            zeros("adopt", sizes[i]);
        else
            spew("adopt", zero, SMALL_BYTES); /* without a hole */
        if (chmod("adopt", 0644) != 0)
            give_up("chmod");
        is_u64(open_at(&s, "adopt", 0460, &e), CBF_OK,
               "adopted: %s", i == 0 ? "an empty file"
               : i == 1 ? "a hole of the right size" : "written zeros");
        ok(s.alone && is_empty_filter(&s), "... is an empty filter");
        is_u64(mode_of("adopt"), 0460, "... and has the mode");
        cbf_store_close(&s, NULL);
        unlink("adopt");
    }
}

/* In a child, which is somebody else afterwards; needs root. */
static int
files_of_others(void)
{
    struct cbf_store s;
    struct cbf_error e;

    zeros("theirs", 0);
    zeros("theirs-too", SMALL_BYTES);
    spew("theirs-good", good, SMALL_BYTES);
    if (chown("theirs", 65533, 65533) != 0
        || chown("theirs-too", 65533, 65533) != 0
        || chown("theirs-good", 65533, 65533) != 0)
        return 10;
    if (open_at(&s, "theirs", 0600, &e) != CBF_E_NOT_OURS)
        return 1;
    if (open_at(&s, "theirs-too", 0600, &e) != CBF_E_NOT_OURS)
        return 2;
    if (open_at(&s, "theirs-good", 0600, &e) != CBF_OK)
        return 3;
    if (size_of("theirs") != 0 || size_of("theirs-too") != SMALL_BYTES)
        return 4;
    if (chmod("theirs", 0666) != 0 || chmod(".", 0777) != 0
        || seteuid(65534) != 0)
        return 10;
    if (open_at(&s, "theirs", 0600, &e) != CBF_E_NOT_OURS)
        return 5;
    if (open_at(&s, "ours", 0600, &e) != CBF_OK || !s.alone)
        return 6;
    return mode_of("theirs") == 0666 && size_of("theirs") == 0 ? 0 : 7;
}

static void
creator_goes_on(void)
{
    uint8_t file[SMALL_BYTES];

    if (nap_count == 2) {
        hand_made(file);
        spew("just-made", file, SMALL_BYTES);
    }
}

/* An empty file of another user may be one that he is just creating. */
static int
waits_for_creator(void)
{
    struct cbf_store s;
    struct cbf_error e;

    zeros("just-made", 0);
    if (chown("just-made", 65533, 65533) != 0)
        return 10;
    at_nap = creator_goes_on;
    if (open_at(&s, "just-made", 0600, &e) != CBF_OK)
        return 1;
    return nap_count == 2 ? 0 : 2;
}

/* ---- sizes -------------------------------------------------------------- */

/* A block that is there, and zero. */
static void
put_zero(const char *path, off_t at)
{
    int fd = open(path, O_WRONLY);

    if (pwrite(fd, "", 1, at) != 1)
        give_up(path);
    close(fd);
}

static void
test_sparse(uint64_t m)
{
    struct cbf_geometry g = {
        .capacity = m / 16,
        .fp_rate = 0.01,
        .n_counters = m,
        .n_probes = 7,
        .counter_bytes = m / 2,
        .file_bytes = 16768 + m / 2,
    };
    struct cbf_store s;
    struct cbf_error e;
    struct stat st;
    int code;

    unlink("sparse");
    code = cbf_store_open(&s, "sparse", &g, 0600, &e);
    if (code == CBF_E_SYSTEM && e.sys_errno == EFBIG) {
        diag("no files of %llu bytes here", (unsigned long long)m / 2);
        return;
    }
    is_u64(code, CBF_OK, "%llu counters", (unsigned long long)m);
    ok(s.base && ((uint8_t *)s.base)[g.file_bytes - 1] == 0,
       "... mapped to the end");
    cbf_store_close(&s, NULL);
    ok(stat("sparse", &st) == 0 && (uint64_t)st.st_size == g.file_bytes
       && st.st_blocks < 1000, "... take no room on disk");
    is_u64(cbf_store_open(&s, "sparse", &small_plan, 0600, &e), CBF_OK,
           "... opened again");
    is_u64(s.geometry.n_counters, m, "... geometry");
    cbf_store_close(&s, NULL);
    zeros("sparse", (off_t)g.file_bytes);
    put_zero("sparse", (off_t)g.file_bytes - 1);
    is_u64(cbf_store_open(&s, "sparse", &g, 0600, &e), CBF_OK,
           "... adopted, all zero");
    cbf_store_close(&s, NULL);
    if (truncate("sparse", 0) != 0)
        give_up("truncate");
}

/* ---- failures ----------------------------------------------------------- */

static void
fails_with(int code, int number, const char *what)
{
    struct cbf_store s;
    struct cbf_error e;
    unsigned before = open_descriptors();

    is_u64(open_at(&s, "failing", 0640, &e), code, "%s fails, new file",
           what);
    is_u64(e.sys_errno, code == CBF_E_SYSTEM ? number : 0, "... errno");
    ok(e.what && strcmp(e.what, what) == 0, "... step: %s",
       e.what ? e.what : "none");
    ok(size_of("failing") < 0, "... and is removed again");
    zeros("failing", 0);
    is_u64(open_at(&s, "failing", 0640, &e), code, "%s fails, empty file",
           what);
    ok(size_of("failing") == 0 && mode_of("failing") == 0600,
       "... which stays empty");
    is_u64(open_descriptors(), before, "... no descriptor is left");
    unlink("failing");
}

static void
test_failures(void)
{
    struct cbf_store s;
    struct cbf_error e;

    truncate_fails = ENOSPC;
    fails_with(CBF_E_SYSTEM, ENOSPC, "ftruncate");
    calls_work();
    chmod_fails = EPERM;
    fails_with(CBF_E_SYSTEM, EPERM, "fchmod");
    calls_work();
    map_fails = ENODEV;
    fails_with(CBF_E_SYSTEM, ENODEV, "mmap");
    map_fails = ENOMEM;
    fails_with(CBF_E_MEMORY, 0, "the mapping");
    is_u64(open_at(&s, "mine", 0600, &e), CBF_E_MEMORY,
           "no address space for an existing file");
    is_u64(size_of("mine"), SMALL_BYTES, "... which stays");
    calls_work();
}

static void
taken_from_us(int fd)
{
    (void)fd;
    if (rename("mine", "taken") != 0)
        give_up("rename");
}

/* A new file that somebody else has replaced is not ours to remove. */
static void
test_failure_after_replacement(void)
{
    struct cbf_store s;
    struct cbf_error e;

    before_map = taken_from_us;
    map_fails = ENODEV;
    is_u64(open_at(&s, "taken", 0600, &e), CBF_E_SYSTEM,
           "a creation fails after its file was replaced");
    is_u64(size_of("taken"), SMALL_BYTES, "... the other one stays");
    calls_work();
    if (rename("taken", "mine") != 0)
        give_up("rename");
}

int
main(void)
{
    enter_directory();
    hand_made(good);
    test_create();
    test_modes();
    test_mode_meanwhile();
    test_existing();
    test_not_a_file();
    test_not_a_filter();
    test_zeros_of_another_size();
    test_adopt();
    if (geteuid() == 0) {
        is_u64(in_child(files_of_others), 0, "files of other users");
        is_u64(in_child(waits_for_creator), 0,
               "another user's creation is waited for");
    } else {
        diag("not root: no files of other users");
    }
    test_sparse((uint64_t)1 << 33);
    test_sparse((uint64_t)1 << 38);
    test_failures();
    test_failure_after_replacement();
    leave_directory();
    return done_testing();
}
