/*
 * error.c - the words that the errors promise to contain, the place of the
 * path in them, and buffers of any size.
 */
#include "error.h"
#include "tap.h"
#include <errno.h>
#include <stdlib.h>

#define LONG_PATH 4096

/* The whole reason, with a path and without. */
static const struct {
    int code;
    const char *what;
    const char *with;
    const char *without;
} texts[] = {
    {CBF_E_SYSTEM, "unlink", "unlink failed for '/p'", "unlink failed"},
    {CBF_E_SYSTEM, NULL, "system call failed '/p'", "system call failed"},
    {CBF_E_MEMORY, "the mapping", "out of memory for the mapping",
     "out of memory for the mapping"},
    {CBF_E_MEMORY, NULL, "out of memory", "out of memory"},
    {CBF_E_INVALID, "magic number",
     "invalid counting Bloom filter file '/p': magic number",
     "invalid counting Bloom filter file: magic number"},
    {CBF_E_INVALID, NULL, "invalid counting Bloom filter file '/p'",
     "invalid counting Bloom filter file"},
    {CBF_E_TOO_SMALL, NULL,
     "invalid counting Bloom filter file '/p': too small",
     "invalid counting Bloom filter file: too small"},
    {CBF_E_INCOMPLETE, NULL,
     "incomplete counting Bloom filter file '/p'; remove it and retry",
     "incomplete counting Bloom filter file; remove it and retry"},
    {CBF_E_SEALED_FILE, NULL,
     "file '/p' is frozen; open it with new_readonly",
     "file is frozen; open it with new_readonly"},
    {CBF_E_FROZEN, NULL, "filter '/p' is frozen", "filter is frozen"},
};

/* Words that others match, for the rest of the codes. */
static const struct {
    int code;
    const char *words;
} promised[] = {
    {CBF_E_INTERRUPTED, "signal"},
    {CBF_E_CAPACITY, "capacity"},
    {CBF_E_FP_RATE, "fp_rate"},
    {CBF_E_TOO_LARGE, "too large"},
    {CBF_E_MISMATCH, "geometry mismatch"},
    {CBF_E_SYMLINK, "symbolic link"},
    {CBF_E_NOT_REGULAR, "regular file"},
    {CBF_E_NOT_OURS, "another user"},
    {CBF_E_NOT_FROZEN, "not frozen"},
    {CBF_E_BUSY, "locked"},
    {CBF_E_NOT_WRITABLE, "writing"},
    {CBF_E_DESCRIPTOR, "descriptor"},
    {CBF_E_READONLY, "read-only"},
    {CBF_E_ALREADY_FROZEN, "already frozen"},
    {CBF_E_OWNER, "cannot be judged"},
};

static void
test_set(void)
{
    static const struct cbf_error zero = {.code = 0};
    struct cbf_error e;

    memset(&e, 0x5a, sizeof e);
    is_u64((uint64_t)cbf_error_set(&e, CBF_E_OWNER, "it"), CBF_E_OWNER,
           "set returns the code");
    is_u64((uint64_t)e.code, CBF_E_OWNER, "and stores it");
    is_str(e.what, "it", "and what");
    ok(e.sys_errno == 0 && e.pid == 0, "errno and pid are not left over");
    ok(memcmp(e.n_counters, zero.n_counters, sizeof e.n_counters) == 0
       && memcmp(e.n_probes, zero.n_probes, sizeof e.n_probes) == 0,
       "nor are geometries");
    errno = ENOSPC;
    is_u64((uint64_t)cbf_error_system(&e, "write"), CBF_E_SYSTEM,
           "system returns its code");
    is_u64((uint64_t)e.sys_errno, ENOSPC, "and stores errno");
    is_u64((uint64_t)errno, ENOSPC, "and leaves it");
    is_str(e.what, "write", "and what");
    is_u64((uint64_t)cbf_error_set(NULL, CBF_E_BUSY, NULL), CBF_E_BUSY,
           "set without a place for it");
    is_u64((uint64_t)cbf_error_system(NULL, NULL), CBF_E_SYSTEM,
           "system without a place for it");
}

static void
test_texts(void)
{
    char buf[512];
    size_t i;

    for (i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct cbf_error e = {.code = texts[i].code, .what = texts[i].what};

        ok(cbf_error_format(&e, "/p", buf, sizeof buf) == buf,
           "returns the buffer");
        is_str(buf, texts[i].with, "code %d with a path", e.code);
        is_str(cbf_error_format(&e, NULL, buf, sizeof buf),
               texts[i].without, "code %d without", e.code);
    }
    for (i = 0; i < sizeof promised / sizeof promised[0]; i++) {
        struct cbf_error e = {.code = promised[i].code};

        cbf_error_format(&e, "/p", buf, sizeof buf);
        ok(strstr(buf, promised[i].words), "code %d says what it promises",
           e.code);
        cbf_error_format(&e, NULL, buf, sizeof buf);
        ok(strstr(buf, promised[i].words), "without a path too");
        ok(strstr(buf, "unknown") == NULL, "and has a text of its own");
        ok(strncmp(buf, cbf_error_text(e.code),
                   strlen(cbf_error_text(e.code))) == 0,
           "which the reason begins with");
    }
}

static void
test_details(void)
{
    struct cbf_error e = {
        .code = CBF_E_MISMATCH,
        .n_counters = {16384, 274877906944},
        .n_probes = {7, 32},
    };
    char buf[512];

    cbf_error_format(&e, "/p", buf, sizeof buf);
    is_str(buf, "geometry mismatch: 16384 counters and 7 hashes here, "
                "274877906944 counters and 32 hashes in the other filter",
           "both geometries");
    e = (struct cbf_error){.code = CBF_E_OWNER, .pid = 4000000000u};
    cbf_error_format(&e, NULL, buf, sizeof buf);
    ok(strstr(buf, "4000000000"), "the holder's pid");
    ok(strstr(buf, "30 s"), "and how long we waited");
    cbf_error_format(&e, "/p", buf, sizeof buf);
    ok(strstr(buf, "'/p'"), "and for which filter");
    e.code = 12345;
    cbf_error_format(&e, "/p", buf, sizeof buf);
    is_str(buf, "unknown error", "a code that is none");
    is_str(cbf_error_text(-5), "unknown error", "another");
    is_str(cbf_error_text(CBF_OK), "no error", "no error");
}

/* Cut at the end of the buffer, never past it, and a prefix of the whole. */
static void
test_buffers(void)
{
    struct cbf_error e = {.code = CBF_E_OWNER, .pid = 77};
    char *path = malloc(LONG_PATH + 1);
    char *whole = malloc(LONG_PATH + 512);
    char *cut = malloc(LONG_PATH + 512);
    size_t wrong = 0;
    size_t len;
    size_t n;

    if (!path || !whole || !cut)
        bail("malloc");
    memset(path, '%', LONG_PATH);
    path[LONG_PATH] = '\0';
    cbf_error_format(&e, path, whole, LONG_PATH + 512);
    ok(strstr(whole, path), "a path of %d bytes, whole", LONG_PATH);
    ok(strstr(whole, "cannot be judged from here"), "and all that follows");
    len = strlen(whole);
    for (n = 1; n <= len + 1; n++) {
        memset(cut, 'x', LONG_PATH + 512);
        cbf_error_format(&e, path, cut, n);
        wrong += cut[n] != 'x' || strlen(cut) != n - 1
                 || memcmp(cut, whole, n - 1) != 0;
    }
    is_u64(wrong, 0, "every size of buffer");
    free(path);
    free(whole);
    free(cut);
}

int
main(void)
{
    watchdog(60);
    test_set();
    test_texts();
    test_details();
    test_buffers();
    return done_testing();
}
