/*
 * store_header.c - from the bytes of a header to a checked geometry, and from
 * a geometry to the header of an empty filter.
 *
 * Pure: no file, no descriptor.  Does not look at lock words, journal, tallies
 * or counters; whatever they hold, the file is a filter.
 */
#include "atomic.h"
#include "store_private.h"

/* The part that never changes after creation ends here. */
#define CONSTANT_END offsetof(struct cbf_fmt_header, writer)

/*
 * Whether creation stopped half way: no magic number yet, something else
 * written, and nothing that our creation would not have written.  The last
 * matters because the message tells the user to remove the file: a stranger's
 * file that happens to begin with four zeros must not get that advice.
 */
static int
begun(const struct cbf_fmt_header *h)
{
    const uint8_t *bytes = (const uint8_t *)h;
    uint64_t m = h->n_counters;

    if (h->magic != 0)
        return 0;
    if (cbf_store_all_zero(bytes + sizeof h->magic,
                           CONSTANT_END - sizeof h->magic))
        return 0;
    return (h->version == 0 || h->version == CBF_FMT_VERSION)
           && h->n_probes <= CBF_FMT_MAX_PROBES
           && h->zero == 0
           && (m & (m - 1)) == 0
           && (m == 0 || h->mask == 0 || h->mask == m - 1)
           && (h->slots_offset == 0
               || h->slots_offset == CBF_FMT_SLOTS_OFFSET)
           && (h->counters_offset == 0
               || h->counters_offset == CBF_FMT_COUNTERS_OFFSET);
}

/* Fills *g from a header; the name of the first wrong field, or NULL. */
static const char *
wrong_field(const struct cbf_fmt_header *h, size_t bytes,
            struct cbf_geometry *g)
{
    const char *field;

    if (h->magic != CBF_FMT_MAGIC)
        return "magic number";
    if (h->version != CBF_FMT_VERSION)
        return "version";
    if (h->zero != 0)
        return "zero word";
    *g = (struct cbf_geometry){
        .capacity = h->capacity,
        .fp_rate = h->fp_rate,
        .n_counters = h->n_counters,
        .n_probes = h->n_probes,
    };
    field = cbf_geometry_restore(g);
    if (field)
        return field;
    if (h->mask != h->n_counters - 1)
        return "mask";
    if (h->file_bytes != g->file_bytes)
        return "size in the header";
    if (bytes != g->file_bytes)
        return "size of the file";
    if (h->slots_offset != CBF_FMT_SLOTS_OFFSET)
        return "offset of the reader slots";
    if (h->counters_offset != CBF_FMT_COUNTERS_OFFSET)
        return "offset of the counters";
    if (h->seal > 1)
        return "seal";
    return NULL;
}

int
cbf_store_validate(const void *base, size_t bytes, struct cbf_geometry *g,
                   int *sealed, struct cbf_error *e)
{
    struct cbf_fmt_header h;
    struct cbf_geometry found;
    const char *field;

    if (bytes < CBF_STORE_MIN_BYTES)
        return cbf_error_set(e, CBF_E_TOO_SMALL, NULL);
    /* A private copy: others may write to a mapping between check and use. */
    memcpy(&h, base, sizeof h);
    if (begun(&h))
        return cbf_error_set(e, CBF_E_INCOMPLETE, NULL);
    field = wrong_field(&h, bytes, &found);
    if (field)
        return cbf_error_set(e, CBF_E_INVALID, field);
    *g = found;
    if (sealed)
        *sealed = h.seal;
    return CBF_OK;
}

void
cbf_store_format(void *base, const struct cbf_geometry *g)
{
    struct cbf_fmt_header *header = base;
    const struct cbf_fmt_header fresh = {
        .version = CBF_FMT_VERSION,
        .n_probes = g->n_probes,
        .n_counters = g->n_counters,
        .mask = g->n_counters - 1,
        .capacity = g->capacity,
        .fp_rate = g->fp_rate,
        .file_bytes = g->file_bytes,
        .slots_offset = CBF_FMT_SLOTS_OFFSET,
        .counters_offset = CBF_FMT_COUNTERS_OFFSET,
    };

    /* Slots, bitmap and counters are zero, as new memory and new files are.
     * The magic number comes last: whoever sees it sees the rest, and whoever
     * finds the file after a kill in between sees that it is not finished. */
    memcpy((uint8_t *)base + sizeof header->magic,
           (const uint8_t *)&fresh + sizeof fresh.magic,
           sizeof fresh - sizeof fresh.magic);
    cbf_kill_fence();
    cbf_release32(&header->magic, CBF_FMT_MAGIC);
}
