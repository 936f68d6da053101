/*
 * cbf.c - opening, closing and describing a filter.
 *
 * Joins a store with a lock and a table into a handle.  What is done with a
 * handle stands in items.c, table.c and image.c; when to lock, in access.c.
 */
#include "handle.h"
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

/* ---- open --------------------------------------------------------------- */

void
cbf_recover_alone(struct cbf *f)
{
    struct cbf_fmt_header *hdr = cbf_header(f);

    if (cbf_load32(&hdr->writer) != 0 || cbf_journal_pending(hdr))
        cbf_store32(&hdr->recovered, cbf_load32(&hdr->recovered) + 1);
    if (cbf_load64(&hdr->journal.state) != 0)
        cbf_journal_repair(&f->table);
    if (cbf_lock_signed(&f->lock))
        cbf_journal_restamp(hdr);
    cbf_lock_reset(&f->lock);
}

/* The last process has closed the file: leave it as an older release would
 * like to find it.  Work that waits for a successor stays on record. */
static void
close_alone(void *base)
{
    struct cbf_lock lock;

    cbf_lock_init(&lock, base);
    if (cbf_load32(&lock.header->writer) == 0
        && cbf_load64(&lock.header->journal.state) == 0)
        cbf_lock_reset(&lock);
}

static struct cbf *
new_handle(struct cbf_error *e)
{
    struct cbf *f = calloc(1, sizeof *f);

    if (!f)
        cbf_error_set(e, CBF_E_MEMORY, "a handle");
    return f;
}

/* Fills in what follows from the store. */
static void
attach(struct cbf *f)
{
    uint8_t *base = f->store.base;
    const struct cbf_geometry *g = &f->store.geometry;

    f->probe = (struct cbf_probe){
        .mask = g->n_counters - 1,
        .n_probes = g->n_probes,
    };
    f->counters = base + CBF_FMT_COUNTERS_OFFSET;
    f->table = (struct cbf_journal_table){
        .header = f->store.base,
        .counters = base + CBF_FMT_COUNTERS_OFFSET,
        .counter_bytes = (size_t)g->counter_bytes,
        .probe = f->probe,
    };
    f->refs = 1;
    f->readonly = f->store.kind == CBF_STORE_READONLY;
    cbf_lock_init(&f->lock, f->store.base);
    if (!f->readonly)
        cbf_touch_begin(&f->touch, f->table.counters, f->table.counter_bytes);
}

/* Ends every constructor: the handle on success, nothing left on failure. */
static int
finish_open(struct cbf *f, int code, struct cbf **out)
{
    if (code != CBF_OK) {
        free(f);
        return code;
    }
    attach(f);
    *out = f;
    return CBF_OK;
}

/* The same for those that may be alone with their file. */
static int
finish_shared(struct cbf *f, int code, struct cbf **out, struct cbf_error *e)
{
    code = finish_open(f, code, &f);
    if (code != CBF_OK)
        return code;
    if (f->store.alone) {
        cbf_recover_alone(f);
        code = cbf_store_share(&f->store, e);
    }
    if (code != CBF_OK) {
        cbf_unref(f);
        return code;
    }
    *out = f;
    return CBF_OK;
}

int
cbf_open_path(const char *path, const struct cbf_geometry *plan,
              unsigned mode, struct cbf **out, struct cbf_error *e)
{
    struct cbf *f = new_handle(e);

    if (!f)
        return CBF_E_MEMORY;
    return finish_shared(f, cbf_store_open(&f->store, path, plan, mode, e),
                         out, e);
}

int
cbf_open_readonly(const char *path, struct cbf **out, struct cbf_error *e)
{
    struct cbf *f = new_handle(e);

    if (!f)
        return CBF_E_MEMORY;
    return finish_open(f, cbf_store_readonly(&f->store, path, e), out);
}

int
cbf_open_anonymous(const struct cbf_geometry *plan, struct cbf **out,
                   struct cbf_error *e)
{
    struct cbf *f = new_handle(e);

    if (!f)
        return CBF_E_MEMORY;
    return finish_open(f, cbf_store_anonymous(&f->store, plan, e), out);
}

int
cbf_open_memfd(const char *name, const struct cbf_geometry *plan,
               struct cbf **out, struct cbf_error *e)
{
    struct cbf *f = new_handle(e);

    if (!f)
        return CBF_E_MEMORY;
    return finish_open(f, cbf_store_memfd(&f->store, name, plan, e), out);
}

int
cbf_open_fd(int fd, struct cbf **out, struct cbf_error *e)
{
    struct cbf *f = new_handle(e);

    if (!f)
        return CBF_E_MEMORY;
    return finish_shared(f, cbf_store_from_fd(&f->store, fd, e), out, e);
}

int
cbf_refresh(const struct cbf *f, struct cbf **out, struct cbf_error *e)
{
    struct stat st;
    int code;

    *out = NULL;
    if (f->store.kind != CBF_STORE_READONLY)
        return CBF_OK;
    /* a path that names no file names no other file */
    if (lstat(f->store.path, &st) != 0)
        return errno == ENOENT ? CBF_OK : cbf_error_system(e, "stat");
    if (st.st_dev == f->store.dev && st.st_ino == f->store.ino)
        return CBF_OK;
    code = cbf_open_readonly(f->store.path, out, e);
    /* gone since: the same as if it had not been there */
    if (code == CBF_E_SYSTEM && e->sys_errno == ENOENT)
        return CBF_OK;
    return code;
}

/* ---- close -------------------------------------------------------------- */

void
cbf_ref(struct cbf *f)
{
    cbf_fetch_add32(&f->refs, 1);
}

void
cbf_unref(struct cbf *f)
{
    int saved = errno;

    if (!f || cbf_fetch_add32(&f->refs, UINT32_MAX) != 1)
        return;
    if (f->store.kind != CBF_STORE_READONLY)
        cbf_lock_leave(&f->lock);
    cbf_store_close(&f->store, close_alone);
    cbf_touch_end(&f->touch);
    free(f);
    errno = saved;
}

void
cbf_watch_signals(const volatile int *flag)
{
    cbf_lock_watch(flag);
}

/* ---- what it is --------------------------------------------------------- */

const struct cbf_geometry *
cbf_geometry_of(const struct cbf *f)
{
    return &f->store.geometry;
}

const char *
cbf_path(const struct cbf *f)
{
    return f->store.path;
}

int
cbf_fd(const struct cbf *f)
{
    int has_one = f->store.kind == CBF_STORE_MEMFD
                  || f->store.kind == CBF_STORE_FD;

    return has_one ? f->store.fd : -1;
}

int
cbf_frozen(const struct cbf *f)
{
    return cbf_is_sealed(f);
}

int
cbf_readonly(const struct cbf *f)
{
    return cbf_load32(&f->readonly) != 0;
}

/* ---- files -------------------------------------------------------------- */

int
cbf_unlink_path(const char *path, struct cbf_error *e)
{
    return cbf_store_unlink(path, e);
}

int
cbf_unlink(struct cbf *f, struct cbf_error *e)
{
    return f->store.path ? cbf_store_unlink(f->store.path, e) : CBF_OK;
}
