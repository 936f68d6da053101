/* link: -Wl,--wrap=malloc,--wrap=calloc,--wrap=strdup,--wrap=strndup */
/* link: -Wl,--wrap=mmap,--wrap=madvise,--wrap=open,--wrap=openat */
/* link: -Wl,--wrap=fcntl,--wrap=fstat,--wrap=fstatat,--wrap=lstat */
/* link: -Wl,--wrap=flock,--wrap=ftruncate,--wrap=fchmod,--wrap=msync */
/* link: -Wl,--wrap=fsync,--wrap=pread,--wrap=pwrite,--wrap=renameat */
/* link: -Wl,--wrap=memfd_create,--wrap=free */
/*
 * limits.c - every allocation and every system call of every operation fails
 * in turn; descriptors and address space run out; 1,100 processes use one
 * file; 10,000 opens and closes: each gets its error, the filter is as it was,
 * and nothing leaks.
 *
 * The linker puts the functions at the end of this file in the place of the
 * C library's.  Signals that interrupt calls are for the Perl tests.
 */
#include "limits_help.h"

#define ITEMS 100u

static char dir[512];
static char live[600];
static char sealed[600];
static char fresh[600];
static char target[600];
static struct cbf *filter;  /* of live */
static struct cbf *other;   /* anonymous, of the same shape */
static struct cbf *reader;  /* of sealed */
static void *image;
static struct cbf_geometry plan;
static struct storm_model expected; /* of live */
static unsigned n_files;            /* in dir */

/* ---- the operations ----------------------------------------------------- */

/* A handle that is there only to be closed again, without faults. */
static int
opened(int code, struct cbf **f)
{
    limits_disarm();
    if (code == CBF_OK)
        cbf_unref(*f);
    return code;
}

static int
do_open(struct cbf_error *e)
{
    struct cbf *f = NULL;

    return opened(cbf_open_path(live, &plan, 0600, &f, e), &f);
}

static int
do_create(struct cbf_error *e)
{
    struct cbf *f = NULL;
    struct cbf *again;
    int code = opened(cbf_open_path(fresh, &plan, 0600, &f, e), &f);

    /* whatever is there now must not be in the way of the next try */
    if (cbf_open_path(fresh, &plan, 0600, &again, NULL) == CBF_OK)
        cbf_unref(again);
    else
        limits_fault("what a failed creation left can't be opened");
    unlink(fresh);
    return code;
}

static int
do_readonly(struct cbf_error *e)
{
    struct cbf *f = NULL;

    return opened(cbf_open_readonly(sealed, &f, e), &f);
}

static int
do_anonymous(struct cbf_error *e)
{
    struct cbf *f = NULL;

    return opened(cbf_open_anonymous(&plan, &f, e), &f);
}

static int
do_memfd(struct cbf_error *e)
{
    struct cbf *f = NULL;

    return opened(cbf_open_memfd("limits", &plan, &f, e), &f);
}

static int
do_fd(struct cbf_error *e)
{
    struct cbf *f = NULL;
    int fd = __real_open(live, O_RDWR | O_CLOEXEC);
    int code = opened(cbf_open_fd(fd, &f, e), &f);

    close(fd);
    return code;
}

static int
do_image_open(struct cbf_error *e)
{
    struct cbf *f = NULL;

    return opened(cbf_open_image(image, (size_t)plan.file_bytes, &f, e), &f);
}

/* The file under the reader is another one by now. */
static int
do_refresh(struct cbf_error *e)
{
    struct cbf *f = NULL;
    int code;
    int failed;

    limits_hold();
    failed = cbf_save(other, sealed, 0600, NULL);
    limits_resume();
    code = cbf_refresh(reader, &f, e);
    limits_disarm();
    if (failed)
        limits_fault("no new file");
    if (!cbf_contains(reader, "item-0", 6))
        limits_fault("the old file is not served any more");
    if (code == CBF_OK && f) {
        cbf_unref(reader);
        reader = f;
    }
    return code;
}

static int
do_merge(struct cbf_error *e)
{
    int code = cbf_merge(filter, other, e);
    uint32_t i;

    limits_disarm();
    for (i = 0; code == CBF_OK && i < expected.n; i++)
        expected.value[i] = 0;
    if (code == CBF_OK) {
        cbf_clear(filter, NULL);
        limits_fill(filter, &expected, ITEMS);
    }
    return code;
}

static int
do_image_write(struct cbf_error *e)
{
    return cbf_image_write(filter, image, e);
}

static int
do_save(struct cbf_error *e)
{
    struct cbf *f;
    int result = 0;
    int code = cbf_save(filter, target, 0600, e);

    limits_disarm();
    if (cbf_open_readonly(target, &f, NULL) != CBF_OK) {
        limits_fault("neither the old file nor the new one is there");
        return code;
    }
    if (cbf_verify(f, &result, NULL) != CBF_OK || result != 1)
        limits_fault("half a file is there");
    cbf_unref(f);
    return code;
}

static int
do_sync(struct cbf_error *e)
{
    return cbf_sync(filter, e);
}

static int
do_freeze(struct cbf_error *e)
{
    struct cbf *f;
    int changed;
    int result = 0;
    int code;

    limits_hold();
    code = cbf_open_path(fresh, &plan, 0600, &f, e);
    if (code == CBF_OK)
        cbf_add(f, "kept", 4, &changed, e);
    limits_resume();
    code = cbf_freeze(f, e);
    limits_disarm();
    if (!cbf_contains(f, "kept", 4))
        limits_fault("an item was lost");
    if (cbf_frozen(f) && (cbf_verify(f, &result, NULL) || result != 1))
        limits_fault("sealed with a wrong checksum");
    if (!cbf_frozen(f) && cbf_add(f, "more", 4, &changed, NULL) != CBF_OK)
        limits_fault("not sealed, and not usable");
    if (!cbf_frozen(f) && code == CBF_OK)
        limits_fault("not sealed, and no error");
    cbf_unref(f);
    unlink(fresh);
    return code;
}

static int
do_close(struct cbf_error *e)
{
    struct cbf *f;
    int code;
    int fd;

    limits_hold();
    code = cbf_open_path(fresh, &plan, 0600, &f, e);
    fd = f->store.fd;
    limits_resume();
    cbf_unref(f);
    limits_disarm();
    /* whose number it is can't be told then, so it is left open: happens on
     * network file systems only */
    if (limits_struck() && strcmp(limits.victim, "fstat") == 0)
        close(fd);
    unlink(fresh);
    return code;
}

/* A child that inherited the handle looks at its descriptor first. */
static int
do_child_add(struct cbf_error *e)
{
    int changed;
    int status;
    pid_t pid = fork();

    (void)e;
    if (pid == 0) {
        int code = cbf_add(filter, "child", 5, &changed, e);

        limits_disarm();
        if (code == CBF_OK && cbf_remove(filter, "child", 5, &changed, e))
            _exit(200);
        _exit(limits_struck() ? 100 + code : code);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status)
        || WEXITSTATUS(status) == 200) {
        limits_fault("the child was lost");
        return 0;
    }
    /* the wrappers count in the child, so it tells whether one struck */
    limits_set_struck(WEXITSTATUS(status) >= 100);
    return WEXITSTATUS(status) % 100;
}

static const struct {
    const char *name;
    int (*run)(struct cbf_error *e);
} operations[] = {
    { "new, an existing file", do_open },
    { "new, a new file", do_create },
    { "new_readonly", do_readonly },
    { "new, anonymous", do_anonymous },
    { "new_memfd", do_memfd },
    { "new_from_fd", do_fd },
    { "new_from_bytes", do_image_open },
    { "refresh", do_refresh },
    { "merge", do_merge },
    { "to_bytes", do_image_write },
    { "save", do_save },
    { "sync", do_sync },
    { "freeze", do_freeze },
    { "close", do_close },
    { "add in a fork child", do_child_add },
};

/* ---- each call fails in turn -------------------------------------------- */

static void
check_all(const struct limits_count *before)
{
    struct storm_model now;
    struct limits_count after;
    struct cbf_stats s;

    limits_measure(&after, dir);
    limits_compare(before, &after);
    now = storm_model(&plan);
    if (after.files != n_files)
        limits_fault("a file was left, or is missing");
    storm_read(&now, filter);
    if (!storm_same(&now, &expected))
        limits_fault("the counters have changed");
    if (cbf_stats(filter, &s, NULL) != CBF_OK || !storm_totals(&s, &now))
        limits_fault("the totals are wrong, or can't be had");
    if (cbf_load32(&cbf_header(filter)->writer) != 0)
        limits_fault("the lock is held");
    free(now.value);
}

static void
fail_in_turn(size_t at, unsigned *injected)
{
    struct limits_count before;
    struct cbf_error e;
    unsigned before_faults = limits_faults();
    unsigned errors = 0;
    long n;

    /* once without: so that what is made once and kept is there */
    operations[at].run(&e);
    limits_measure(&before, dir);
    for (n = 1; n < 500; n++) {
        int code;

        limits_name(operations[at].name, n);
        memset(&e, 0, sizeof e);
        limits_arm(n);
        code = operations[at].run(&e);
        limits_disarm();
        if (!limits_struck())
            break;
        ++*injected;
        errors += code != CBF_OK;
        if (code != CBF_OK && e.code != code
            && operations[at].run != do_child_add)
            limits_fault("the error is not filled in");
        check_all(&before);
    }
    if (n == 500)
        limits_fault("no end of calls");
    ok(limits_faults() == before_faults,
       "%s: %ld calls failed in turn, %u times it said so",
       operations[at].name, n - 1, errors);
}

static void
prepare(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(dir, sizeof dir, "%s/cbf-limits-XXXXXX", tmp ? tmp : P_tmpdir);
    if (!mkdtemp(dir))
        bail("mkdtemp");
    snprintf(live, sizeof live, "%s/live.cbf", dir);
    snprintf(sealed, sizeof sealed, "%s/sealed.cbf", dir);
    snprintf(fresh, sizeof fresh, "%s/fresh.cbf", dir);
    snprintf(target, sizeof target, "%s/target.cbf", dir);
    cbf_geometry_plan(300, 0.01, &plan);
    expected = storm_model(&plan);
    image = malloc((size_t)plan.file_bytes);
    if (cbf_open_path(live, &plan, 0600, &filter, NULL) != 0
        || cbf_open_anonymous(&plan, &other, NULL) != 0)
        bail("open");
    limits_fill(filter, &expected, ITEMS);
    limits_fill(other, NULL, ITEMS);
    if (cbf_save(other, sealed, 0600, NULL) != 0
        || cbf_save(other, target, 0600, NULL) != 0
        || cbf_open_readonly(sealed, &reader, NULL) != 0
        || !image || cbf_image_write(filter, image, NULL) != 0)
        bail("save");
    n_files = 3;
}

static void
clean_up(void)
{
    cbf_unref(filter);
    cbf_unref(other);
    cbf_unref(reader);
    unlink(live);
    unlink(sealed);
    unlink(target);
    unlink(fresh);
    free(image);
    free(expected.value);
    ok(rmdir(dir) == 0, "no file was left");
}

/* ---- limits of the system ----------------------------------------------- */

/* Runs body in a child; 0 and no complaint is what it should end with. */
static int
in_child(int (*body)(void))
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        storm_child(60);
        _exit(body());
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        bail("fork");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static int
goes_on(struct cbf *f)
{
    struct cbf_stats s;
    int changed;

    return cbf_add(f, "on", 2, &changed, NULL) == 0
           && cbf_contains(f, "on", 2) && cbf_stats(f, &s, NULL) == 0
           && cbf_remove(f, "on", 2, &changed, NULL) == 0;
}

static int
without_descriptors(void)
{
    struct rlimit none = { 3, 3 };
    struct cbf_error e;
    struct cbf *f = NULL;
    int bad = 0;

    setrlimit(RLIMIT_NOFILE, &none);
    bad |= cbf_open_path(live, &plan, 0600, &f, &e) != CBF_E_SYSTEM
           || e.sys_errno != EMFILE;
    bad |= (cbf_open_path(fresh, &plan, 0600, &f, &e) != CBF_E_SYSTEM
            || e.sys_errno != EMFILE) << 1;
    bad |= (cbf_open_readonly(sealed, &f, &e) != CBF_E_SYSTEM) << 2;
    bad |= (cbf_open_memfd(NULL, &plan, &f, &e) != CBF_E_SYSTEM) << 3;
    bad |= (cbf_save(filter, target, 0600, &e) != CBF_E_SYSTEM) << 4;
    bad |= (cbf_merge(other, filter, &e) != 0) << 5;
    bad |= !goes_on(filter) << 6;
    return bad;
}

static int
without_address_space(void)
{
    struct cbf_geometry large;
    struct cbf_error e;
    struct cbf *f = NULL;
    struct cbf *big = NULL;
    struct rlimit tight;
    int bad = 0;

    cbf_geometry_plan(10000000, 0.01, &large);
    if (cbf_open_memfd(NULL, &large, &big, &e) != 0)
        return 128;
    tight.rlim_cur = limits_address_space() + (1 << 20);
    tight.rlim_max = tight.rlim_cur;
    setrlimit(RLIMIT_AS, &tight);
    bad |= cbf_open_anonymous(&large, &f, &e) != CBF_E_MEMORY;
    bad |= (cbf_open_memfd(NULL, &large, &f, &e) != CBF_E_MEMORY) << 1;
    bad |= (cbf_open_path(fresh, &large, 0600, &f, &e) != CBF_E_MEMORY) << 2;
    bad |= (access(fresh, F_OK) == 0) << 3;
    bad |= (cbf_open_fd(cbf_fd(big), &f, &e) != CBF_E_MEMORY) << 4;
    bad |= (cbf_save(big, target, 0600, &e) != CBF_E_MEMORY) << 5;
    bad |= (!goes_on(big) || !goes_on(filter)) << 6;
    return bad;
}

int
main(void)
{
    unsigned injected = 0;
    size_t i;
    int bad;

    watchdog(300);
    cbf_watch_signals(&storm_no_signal);
    prepare();
    for (i = 0; i < sizeof operations / sizeof operations[0]; i++)
        fail_in_turn(i, &injected);
    bad = in_child(without_descriptors);
    ok(bad == 0, "no descriptor left: errors, and the filter goes on (%#x)",
       (unsigned)bad);
    bad = in_child(without_address_space);
    ok(bad == 0, "no address space left: likewise (%#x)", (unsigned)bad);
    limits_crowd(live, filter, &plan);
    limits_opens(live, filter, &plan, dir);
    limits_generations(filter);
    clean_up();
    diag("figures: faults_injected=%u processes=%u opens=%u faults=%u",
         injected, LIMITS_CROWD, LIMITS_OPENS, limits_faults());
    return done_testing();
}

/* ---- in the place of the C library -------------------------------------- */

LIMITS_WRAPPERS
