/*
 * store_replace.c - a whole new file in the place of an old one: contents,
 * mode, holes, and that every failure leaves the old file and nothing else.
 */
#include "store_help.h"
#include <dirent.h>
#include <sys/resource.h>

#define HEAD_BYTES 16768u
#define TABLE_BYTES ((size_t)1 << 20)
#define ALL_BYTES (HEAD_BYTES + TABLE_BYTES)

static uint8_t image[ALL_BYTES];
static uint8_t found[ALL_BYTES + 1];

static int
replace(const char *path, unsigned mode, struct cbf_error *e)
{
    return cbf_store_replace(path, mode, image, HEAD_BYTES,
                             image + HEAD_BYTES, TABLE_BYTES, e);
}

static int
holds_image(const char *path)
{
    return slurp(path, found, sizeof found) == ALL_BYTES
           && memcmp(found, image, ALL_BYTES) == 0;
}

/* Every file beside the target, that is: what was left behind. */
static unsigned
files_in(const char *path)
{
    DIR *dir = opendir(path);
    unsigned n = 0;
    struct dirent *entry;

    if (!dir)
        give_up(path);
    for (entry = readdir(dir); entry; entry = readdir(dir))
        n += strcmp(entry->d_name, ".") != 0
             && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return n;
}

static void
fill(unsigned seed)
{
    size_t i;

    for (i = 0; i < ALL_BYTES; i++) {
        seed = seed * 1103515245 + 12345;
        image[i] = (uint8_t)(seed >> 16);
    }
    /* some zeros: a hole in the middle, and at the very end */
    memset(image + 300000, 0, 200000);
    memset(image + ALL_BYTES - 70000, 0, 70000);
}

static void
test_contents(void)
{
    struct cbf_error e;

    is_u64(replace("d/new", 0640, &e), CBF_OK, "a new file");
    ok(holds_image("d/new"), "... holds what was given");
    is_u64(mode_of("d/new"), 0640, "... has the mode");
    fill(2);
    is_u64(replace("d/new", 0604, &e), CBF_OK, "replaced");
    ok(holds_image("d/new"), "... holds the new bytes");
    is_u64(mode_of("d/new"), 0604, "... and the new mode");
    is_u64(files_in("d"), 1, "... and nothing is beside it");
    write_most = 1000;
    fill(3);
    is_u64(replace("d/new", 0600, &e), CBF_OK, "by short writes");
    ok(holds_image("d/new"), "... it is whole");
    calls_work();
    umask(077);
    is_u64(replace("d/mode", 07777, &e), CBF_OK, "any mode");
    is_u64(mode_of("d/mode"), 07777, "... whatever the umask");
    umask(022);
    unlink("d/mode");
    is_u64(replace("here", 0400, &e), CBF_OK, "in the current directory");
    ok(holds_image("here") && mode_of("here") == 0400, "... is there");
    is_u64(replace("./here", 0600, &e), CBF_OK,
           "a file without write permission is replaced");
    ok(mode_of("here") == 0600, "... mode");
    unlink("here");
}

/* Who has the old file open keeps it. */
static void
test_old_file_lives_on(void)
{
    uint8_t byte = 0;
    int fd;
    uint8_t old;
    struct stat st;

    replace("d/new", 0600, NULL);
    old = image[0];
    fd = open("d/new", O_RDONLY);
    fill(old + 1000);
    image[0] = (uint8_t)(old + 1);
    is_u64(replace("d/new", 0600, NULL), CBF_OK, "replaced while open");
    ok(pread(fd, &byte, 1, 0) == 1 && byte == old, "... the old is whole");
    ok(fstat(fd, &st) == 0 && st.st_nlink == 0, "... and has no name");
    ok(holds_image("d/new"), "... the new one is there");
    close(fd);
}

static void
test_holes(void)
{
    size_t bytes = (size_t)64 << 20;
    uint8_t *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct stat st;

    if (table == MAP_FAILED)
        give_up("mmap");
    table[bytes / 2] = 1;
    is_u64(cbf_store_replace("d/holes", 0600, image, HEAD_BYTES, table,
                             bytes, NULL), CBF_OK, "a nearly empty table");
    ok(stat("d/holes", &st) == 0
       && (size_t)st.st_size == HEAD_BYTES + bytes, "... size");
    ok(st.st_blocks < 1000, "... takes little room: %ld blocks",
       (long)st.st_blocks);
    unlink("d/holes");
    munmap(table, bytes);
}

static void
refused(const char *path, int code, const char *name)
{
    struct cbf_error e;
    unsigned before = open_descriptors();

    is_u64(replace(path, 0600, &e), code, "%s", name);
    is_u64(open_descriptors(), before, "... no descriptor is left");
}

static void
test_targets(void)
{
    struct stat st;
    unsigned n;

    if (mkdir("d/directory", 0700) != 0 || mkfifo("d/fifo", 0600) != 0
        || symlink("new", "d/link") != 0)
        give_up("special files");
    n = files_in("d");
    refused("d/directory", CBF_E_NOT_REGULAR, "a directory");
    refused("d/directory/", CBF_E_NOT_REGULAR, "a directory, slash");
    refused("d/fifo", CBF_E_NOT_REGULAR, "a FIFO");
    if (make_device("device"))
        refused("device", CBF_E_NOT_REGULAR, "a device");
    refused("", CBF_E_NOT_REGULAR, "no path");
    refused("missing/new", CBF_E_SYSTEM, "no such directory");
    refused("d/new/x", CBF_E_SYSTEM, "a file as directory");
    is_u64(files_in("d"), n, "nothing is left behind");
    replace("d/new", 0600, NULL);
    fill(77);
    is_u64(replace("d/link", 0600, NULL), CBF_OK, "a link");
    ok(lstat("d/link", &st) == 0 && S_ISREG(st.st_mode)
       && holds_image("d/link"), "... is replaced itself");
    ok(!holds_image("d/new"), "... not what it points to");
    unlink("d/link");
    rmdir("d/directory");
    unlink("d/fifo");
}

static void
test_long_names(void)
{
    char path[300] = "d/";
    struct cbf_error e;

    memset(path + 2, 'n', 255);
    path[257] = '\0';
    is_u64(replace(path, 0600, &e), CBF_OK, "a name of 255 bytes");
    ok(holds_image(path), "... is there");
    unlink(path);
    path[257] = 'n';
    path[258] = '\0';
    is_u64(replace(path, 0600, &e), CBF_E_SYSTEM, "256 are too many");
    is_u64(e.sys_errno, ENAMETOOLONG, "... says the system");
    is_u64(files_in("d"), 1, "... nothing is left behind");
}

/* A file of an earlier process, killed, with the name that we would take. */
static void
test_leftovers(void)
{
    char path[64];

    snprintf(path, sizeof path, "d/.new.%ld.0.tmp", (long)getpid());
    spew(path, "old", 3);
    fill(5);
    is_u64(replace("d/new", 0600, NULL), CBF_OK, "beside a leftover");
    ok(holds_image("d/new") && size_of(path) == 3, "... which stays");
    unlink(path);
    if (symlink("new", path) != 0)
        give_up("symlink");
    fill(6);
    is_u64(replace("d/new", 0600, NULL), CBF_OK, "beside a planted link");
    ok(holds_image("d/new"), "... which is not followed");
    unlink(path);
}

static void
fails(int number, const char *what)
{
    struct cbf_error e;
    unsigned before = open_descriptors();

    is_u64(replace("d/new", 0640, &e), CBF_E_SYSTEM, "%s fails", what);
    ok(e.sys_errno == number && e.what && strcmp(e.what, what) == 0,
       "... is told: %s, %d", e.what ? e.what : "nothing", e.sys_errno);
    fill(8);
    ok(holds_image("d/new") && mode_of("d/new") == 0600,
       "... the old file is whole");
    is_u64(files_in("d"), 1, "... and alone");
    is_u64(open_descriptors(), before, "... no descriptor is left");
    fill(9);
    calls_work();
}

static void
test_failures(void)
{
    fill(8);
    replace("d/new", 0600, NULL);
    fill(9);
    truncate_fails = EFBIG;
    fails(EFBIG, "ftruncate");
    write_fails = ENOSPC;
    fails(ENOSPC, "write");
    chmod_fails = EPERM;
    fails(EPERM, "fchmod");
    sync_fails = EIO;
    fails(EIO, "fsync");
}

/* The rename is done then, and the new file whole: only a crash of the machine
 * could still bring the old one back, and the caller is told. */
static void
test_directory_flush(void)
{
    struct cbf_error e;

    fill(10);
    directory_sync_fails = EIO;
    is_u64(replace("d/new", 0600, &e), CBF_E_SYSTEM,
           "the directory can't be flushed");
    ok(e.sys_errno == EIO && holds_image("d/new") && files_in("d") == 1,
       "... the new file is whole");
    fill(11);
    directory_sync_fails = EINVAL;
    is_u64(replace("d/new", 0600, &e), CBF_OK,
           "a file system that knows no such thing is fine");
    ok(holds_image("d/new") && files_in("d") == 1, "... replaced");
    calls_work();
}

static int
under_a_limit(void)
{
    struct rlimit limit = { 500000, 500000 };
    struct cbf_error e;

    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return 9;
    if (replace("d/new", 0600, &e) != CBF_E_SYSTEM || e.sys_errno != EFBIG)
        return 1;
    return files_in("d") == 1 ? 0 : 2;
}

/* A directory that may be searched and written, but not read; one that may not
 * be written. */
static int
as_somebody(void)
{
    struct cbf_error e;

    if (geteuid() == 0
        && (chmod(".", 0755) != 0 || chown("d", 65534, 65534) != 0
            || seteuid(65534) != 0))
        return 9;
    if (chmod("d", 0300) != 0)
        return 9;
    if (replace("d/blind", 0600, &e) != CBF_OK)
        return 1;
    if (!holds_image("d/blind") || unlink("d/blind") != 0)
        return 2;
    if (chmod("d", 0500) != 0)
        return 9;
    if (replace("d/new", 0600, &e) != CBF_E_SYSTEM || e.sys_errno != EACCES)
        return 3;
    return chmod("d", 0700) != 0 ? 9 : 0;
}

/* Who opens the path over and over finds one whole file or the other. */
static int
reader(int ready)
{
    uint8_t first;
    size_t i;
    unsigned rounds;

    for (rounds = 0; rounds < 200; rounds++) {
        if (slurp("d/new", found, sizeof found) != ALL_BYTES)
            return 1;
        first = found[0];
        if (first != 1 && first != 2)
            return 2;
        for (i = 1; i < ALL_BYTES; i++)
            if (found[i] != first)
                return 3;
        if (rounds == 0 && write(ready, "r", 1) != 1)
            return 4;
    }
    return 0;
}

static void
test_atomic(void)
{
    int up[2];
    char c;
    int status = 0;
    pid_t pid;
    unsigned n = 0;

    memset(image, 1, sizeof image);
    replace("d/new", 0600, NULL);
    if (pipe(up) != 0)
        give_up("pipe");
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        alarm(30);
        _exit(reader(up[1]));
    }
    close(up[1]);
    ok(read(up[0], &c, 1) == 1, "a reader is at work");
    while (waitpid(pid, &status, WNOHANG) == 0) {
        n++;
        memset(image, 1 + (int)(n % 2), sizeof image);
        if (replace("d/new", 0600, NULL) != CBF_OK)
            break;
    }
    close(up[0]);
    is_u64(status, 0, "it sees one whole file or the other, %u times", n);
    ok(n > 1, "... while it is replaced");
}

int
main(void)
{
    enter_directory();
    if (mkdir("d", 0700) != 0)
        give_up("d");
    fill(1);
    test_contents();
    test_old_file_lives_on();
    test_holes();
    test_targets();
    test_long_names();
    test_leftovers();
    test_failures();
    test_directory_flush();
    is_u64(in_child(under_a_limit), 0, "a limit on file sizes is an error");
    is_u64(in_child(as_somebody), 0, "directories with few rights");
    test_atomic();
    leave_directory();
    return done_testing();
}
