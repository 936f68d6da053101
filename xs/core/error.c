/*
 * error.c - the texts of the error codes, all of them, in one table.
 *
 * Words only: what a code means stands in error.h, and what the system says
 * about an errno is added by the caller, who knows the user's locale.
 */
#include "error.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/*
 * A text, and where the path goes in it.  Programs match words of these texts:
 * they may be made longer, not changed.
 */
struct entry {
    int code;
    const char *text;
    size_t path_at; /* offset in text; NO_PATH = it says nothing of a file */
};

#define NO_PATH SIZE_MAX
#define PLAIN(code, text) {code, text, NO_PATH}
#define NAMING(code, before, after) {code, before after, sizeof before - 1}

static const struct entry entries[] = {
    PLAIN(CBF_OK, "no error"),
    NAMING(CBF_E_SYSTEM, "system call failed", ""),
    PLAIN(CBF_E_MEMORY, "out of memory"),
    PLAIN(CBF_E_INTERRUPTED,
          "interrupted by a signal while waiting; nothing was changed"),
    PLAIN(CBF_E_CAPACITY, "capacity must be a whole number of at least 1"),
    PLAIN(CBF_E_FP_RATE, "fp_rate must lie strictly between 0 and 1"),
    PLAIN(CBF_E_TOO_LARGE, "too large: a filter has at most 2^38 counters"),
    PLAIN(CBF_E_MISMATCH, "geometry mismatch"),
    NAMING(CBF_E_SYMLINK, "file", " is a symbolic link"),
    NAMING(CBF_E_NOT_REGULAR, "file",
           " is neither a regular file nor a memfd"),
    NAMING(CBF_E_TOO_SMALL, "invalid counting Bloom filter file",
           ": too small"),
    NAMING(CBF_E_INVALID, "invalid counting Bloom filter file", ""),
    NAMING(CBF_E_INCOMPLETE, "incomplete counting Bloom filter file",
           "; remove it and retry"),
    NAMING(CBF_E_NOT_OURS, "file",
           " has no contents yet and belongs to another user"),
    NAMING(CBF_E_SEALED_FILE, "file",
           " is frozen; open it with new_readonly"),
    NAMING(CBF_E_NOT_FROZEN, "file", " is not frozen; open it with new"),
    NAMING(CBF_E_BUSY, "file",
           " is still locked exclusively by another process after 30 s"),
    PLAIN(CBF_E_NOT_WRITABLE,
          "descriptor is not open for both reading and writing"),
    NAMING(CBF_E_DESCRIPTOR, "file",
           " cannot be used on: its descriptor was closed"),
    NAMING(CBF_E_FROZEN, "filter", " is frozen"),
    NAMING(CBF_E_READONLY, "filter", " is read-only"),
    NAMING(CBF_E_ALREADY_FROZEN, "filter", " is already frozen"),
    NAMING(CBF_E_OWNER, "filter", " is locked by another process"),
};

static const struct entry unknown = PLAIN(-1, "unknown error");

static const struct entry *
find(int code)
{
    size_t i;

    for (i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        if (entries[i].code == code)
            return &entries[i];
    }
    return &unknown;
}

int
cbf_error_set(struct cbf_error *e, int code, const char *what)
{
    if (e)
        *e = (struct cbf_error){.code = code, .what = what};
    return code;
}

int
cbf_error_system(struct cbf_error *e, const char *what)
{
    int cause = errno;

    cbf_error_set(e, CBF_E_SYSTEM, what);
    if (e)
        e->sys_errno = cause;
    return CBF_E_SYSTEM;
}

const char *
cbf_error_text(int code)
{
    return find(code)->text;
}

/* Text under construction; what does not fit is cut. */
struct writer {
    char *buf;
    size_t size;
    size_t used;
};

__attribute__((format(printf, 2, 3))) static void
append(struct writer *w, const char *pattern, ...)
{
    va_list args;
    int n;

    va_start(args, pattern);
    n = vsnprintf(w->buf + w->used, w->size - w->used, pattern, args);
    va_end(args);
    if (n > 0)
        w->used += (size_t)n;
    if (w->used >= w->size)
        w->used = w->size - 1;
}

/* The table's text, with the path where it belongs. */
static void
append_text(struct writer *w, const struct entry *entry, const char *path)
{
    if (!path || entry->path_at == NO_PATH) {
        append(w, "%s", entry->text);
        return;
    }
    append(w, "%.*s '%s'%s", (int)entry->path_at, entry->text, path,
           entry->text + entry->path_at);
}

static void
append_mismatch(struct writer *w, const struct cbf_error *e)
{
    append(w, ": %" PRIu64 " counters and %" PRIu32 " hashes here, %" PRIu64
           " counters and %" PRIu32 " hashes in the other filter",
           e->n_counters[0], e->n_probes[0],
           e->n_counters[1], e->n_probes[1]);
}

char *
cbf_error_format(const struct cbf_error *e, const char *path, char *buf,
                 size_t n)
{
    struct writer w = {.buf = buf, .size = n};

    buf[0] = '\0';
    if (e->code == CBF_E_SYSTEM && e->what) {
        append(&w, "%s failed", e->what);
        if (path)
            append(&w, " for '%s'", path);
        return buf;
    }
    append_text(&w, find(e->code), path);
    if (e->code == CBF_E_MISMATCH)
        append_mismatch(&w, e);
    else if (e->code == CBF_E_OWNER)
        append(&w, ", pid %" PRIu32 ": waited 30 s for it, and whether it "
               "still lives cannot be judged from here", e->pid);
    else if (e->code == CBF_E_INVALID && e->what)
        append(&w, ": %s", e->what);
    else if (e->code == CBF_E_MEMORY && e->what)
        append(&w, " for %s", e->what);
    return buf;
}
