/*
 * image.c - copies of a filter in the file format, and the checksum that says
 * whether a sealed one is whole.
 */
#include "access.h"
#include <stdlib.h>
#include <string.h>

/* The bytes before the counters, at rest: no lock word, no slot, no record. */
static void
write_head(const struct cbf *f, void *head, const struct cbf_tally *t,
           uint64_t ops)
{
    struct cbf_fmt_header *hdr = head;

    memset(head, 0, CBF_FMT_COUNTERS_OFFSET);
    cbf_store_format(head, cbf_geometry_of(f));
    hdr->ops = ops;
    cbf_journal_tally_store(&hdr->tally, t);
    hdr->tally_ops = ops;
}

/*
 * Seals a copy.  One of a filter that was sealed with a checksum keeps that:
 * if the source is damaged, so is the copy, and a new checksum would hide it.
 */
static void
seal_head(const struct cbf *f, void *head, const uint8_t *counters)
{
    const struct cbf_fmt_header *from = cbf_header(f);
    struct cbf_fmt_header *hdr = head;

    if (cbf_is_sealed(f)
        && cbf_load64(&from->checksum_ops) == hdr->ops * 2 + 1)
        hdr->checksum = cbf_load64(&from->checksum);
    else
        hdr->checksum = cbf_hash_checksum(counters, f->table.counter_bytes);
    hdr->checksum_ops = hdr->ops * 2 + 1;
    hdr->seal = 1;
}

int
cbf_image_write(struct cbf *f, void *image, struct cbf_error *e)
{
    size_t bytes = f->table.counter_bytes;
    uint8_t *counters = (uint8_t *)image + CBF_FMT_COUNTERS_OFFSET;
    struct cbf_tally t;
    enum cbf_scan how;
    uint64_t ops;
    int sealed;
    int code = cbf_scan_begin(f, &how, e);

    if (code != CBF_OK)
        return code;
    sealed = cbf_is_sealed(f);
    memcpy(counters, f->counters, bytes);
    ops = cbf_load64(&cbf_header(f)->ops);
    cbf_scan_end(f, how);
    cbf_counter_tally(counters, bytes, &t);
    write_head(f, image, &t, ops);
    if (sealed)
        seal_head(f, image, counters);
    return CBF_OK;
}

int
cbf_open_image(const void *image, size_t bytes, struct cbf **out,
               struct cbf_error *e)
{
    struct cbf_geometry g;
    struct cbf_fmt_header *hdr;
    struct cbf *f;
    int code = cbf_store_validate(image, bytes, &g, NULL, e);

    if (code == CBF_OK)
        code = cbf_open_anonymous(&g, &f, e);
    if (code != CBF_OK)
        return code;
    /* it may be the copy of a live file, with somebody's work half done */
    memcpy(f->store.base, image, bytes);
    cbf_recover_alone(f);
    hdr = cbf_header(f);
    cbf_store8(&hdr->seal, 0);
    cbf_store64(&hdr->checksum_ops, 0);
    cbf_store32(&hdr->recovered, 0);
    /* and its totals are believed no more than anything else in it */
    cbf_journal_recount(&f->table);
    *out = f;
    return CBF_OK;
}

/* Counters that nobody changes, and the ops that they go with. */
struct moment {
    const uint8_t *counters;
    uint64_t ops;
};

static int
save_moment(struct cbf *f, const char *path, unsigned mode, struct moment m,
            struct cbf_error *e)
{
    size_t bytes = f->table.counter_bytes;
    struct cbf_tally t;
    void *head = malloc(CBF_FMT_COUNTERS_OFFSET);
    int code;

    if (!head)
        return cbf_error_set(e, CBF_E_MEMORY, "the header of an image");
    cbf_counter_tally(m.counters, bytes, &t);
    write_head(f, head, &t, m.ops);
    seal_head(f, head, m.counters);
    code = cbf_store_replace(path, mode, head, CBF_FMT_COUNTERS_OFFSET,
                             m.counters, bytes, e);
    free(head);
    return code;
}

int
cbf_save(struct cbf *f, const char *path, unsigned mode, struct cbf_error *e)
{
    struct moment m = { .counters = f->counters };
    uint8_t *copy = NULL;
    int code = CBF_OK;

    /* a sealed filter is its own snapshot */
    if (cbf_is_sealed(f))
        m.ops = cbf_load64(&cbf_header(f)->ops);
    else {
        code = cbf_snapshot(f, &copy, &m.ops, e);
        m.counters = copy;
    }
    if (code == CBF_OK)
        code = save_moment(f, path, mode, m, e);
    if (copy)
        cbf_snapshot_free(f, copy);
    return code;
}

int
cbf_verify(struct cbf *f, int *result, struct cbf_error *e)
{
    const struct cbf_fmt_header *hdr = cbf_header(f);

    (void)e;
    *result = -1;
    if (!cbf_is_sealed(f)
        || cbf_load64(&hdr->checksum_ops) != cbf_load64(&hdr->ops) * 2 + 1)
        return CBF_OK;
    *result = cbf_load64(&hdr->checksum)
              == cbf_hash_checksum(f->counters, f->table.counter_bytes);
    return CBF_OK;
}
