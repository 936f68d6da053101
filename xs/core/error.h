/*
 * error.h - what can go wrong, as codes with their texts.
 *
 * The core never prints, exits or jumps: a function that can fail returns 0 or
 * one of these codes, and fills the caller's struct cbf_error with the
 * details.  Numbers are never reused.
 */
#ifndef CBF_ERROR_H
#define CBF_ERROR_H

#include <stddef.h>
#include <stdint.h>

enum cbf_error_code {
    CBF_OK = 0,
    CBF_E_SYSTEM = 1,          /* a system call failed: sys_errno, what */
    CBF_E_MEMORY = 2,          /* no memory for what */
    CBF_E_INTERRUPTED = 3,     /* a signal came while waiting; nothing done */
    CBF_E_CAPACITY = 10,       /* capacity is 0 */
    CBF_E_FP_RATE = 11,        /* rate not strictly between 0 and 1 */
    CBF_E_TOO_LARGE = 12,      /* more than 2^38 counters */
    CBF_E_MISMATCH = 13,       /* merge: geometries differ; mine, theirs */
    CBF_E_SYMLINK = 20,        /* the path is a symbolic link */
    CBF_E_NOT_REGULAR = 21,    /* neither a regular file nor a memfd */
    CBF_E_TOO_SMALL = 22,      /* shorter than any filter */
    CBF_E_INVALID = 23,        /* what: the first field that is wrong */
    CBF_E_INCOMPLETE = 24,     /* creation was interrupted half way */
    CBF_E_NOT_OURS = 25,       /* empty or zero file of another user */
    CBF_E_SEALED_FILE = 26,    /* opened for writing, but frozen */
    CBF_E_NOT_FROZEN = 27,     /* opened read-only, but not frozen */
    CBF_E_BUSY = 28,           /* somebody locks the file exclusively */
    CBF_E_NOT_WRITABLE = 29,   /* descriptor is not open for both */
    CBF_E_DESCRIPTOR = 30,     /* the handle's descriptor was closed */
    CBF_E_FROZEN = 40,         /* mutator on a frozen filter */
    CBF_E_READONLY = 41,       /* mutator on a read-only handle */
    CBF_E_ALREADY_FROZEN = 42, /* freeze of a filter another handle froze */
    CBF_E_OWNER = 43           /* waited 30 s for pid, which can't be judged */
};

struct cbf_error {
    int code;
    int sys_errno;    /* 0 where no system call is to blame */
    const char *what; /* a static string: the step or field; may be NULL */
    uint32_t pid;     /* CBF_E_OWNER: the process waited for */
    /* CBF_E_MISMATCH: counters and probes of the target and of the source */
    uint64_t n_counters[2];
    uint32_t n_probes[2];
};

/* Fills *e (which may be NULL) and returns code, so that failing reads as one
 * step; pid and geometries are 0 until the caller sets them.  cbf_error_system
 * takes errno as it is now, and leaves it. */
int cbf_error_set(struct cbf_error *e, int code, const char *what);
int cbf_error_system(struct cbf_error *e, const char *what);

/* The fixed text for a code: a static string, never NULL. */
const char *cbf_error_text(int code);

/*
 * Writes the reason into buf, always terminated; returns buf.  path: the path
 * to be named where the text has a place for one; may be NULL.  The text of
 * sys_errno is the caller's to append.  n >= 1.
 */
char *cbf_error_format(const struct cbf_error *e, const char *path, char *buf,
                       size_t n);

#endif
