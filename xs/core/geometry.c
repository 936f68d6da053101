/*
 * geometry.c - the arithmetic that sizes a filter and reads estimates from its
 * fill.
 *
 * Pure: touches no file, no lock and no counter.  Knows the limits and the
 * fixed sizes of the file format, nothing else of it.
 */
#include "geometry.h"
#include "error.h"
#include "format.h"
#include <math.h>
#include <stddef.h>

#define LN_2 0.693147180559945309417232121458176568

static void
fill_sizes(struct cbf_geometry *g)
{
    g->counter_bytes = g->n_counters / 2;
    g->file_bytes = CBF_FMT_COUNTERS_OFFSET + g->counter_bytes;
}

/* Written so that a NaN is no rate. */
static int
is_rate(double p)
{
    return p > 0 && p < 1;
}

/* Clamped before it becomes an integer: log2 of the smallest rate is -1074. */
static uint32_t
probes_for(double fp_rate)
{
    double k = round(-log2(fp_rate));

    if (k < 1)
        return 1;
    if (k > CBF_FMT_MAX_PROBES)
        return CBF_FMT_MAX_PROBES;
    return (uint32_t)k;
}

int
cbf_geometry_plan(uint64_t capacity, double fp_rate, struct cbf_geometry *g)
{
    uint64_t m = CBF_FMT_MIN_COUNTERS;
    uint32_t k;
    double need;

    if (capacity == 0)
        return CBF_E_CAPACITY;
    if (!is_rate(fp_rate))
        return CBF_E_FP_RATE;
    k = probes_for(fp_rate);
    /* In doubles, where the largest capacity is far from overflow.  What they
     * round away matters to nobody: multiples of 1 / ln 2 that decide between
     * two tables lie much further from a power of two. */
    need = (double)capacity * k / LN_2;
    while (m < CBF_FMT_MAX_COUNTERS && (double)m < need)
        m *= 2;
    if ((double)m < need)
        return CBF_E_TOO_LARGE;
    *g = (struct cbf_geometry){
        .capacity = capacity,
        .fp_rate = fp_rate,
        .n_counters = m,
        .n_probes = k,
    };
    fill_sizes(g);
    return CBF_OK;
}

const char *
cbf_geometry_restore(struct cbf_geometry *g)
{
    uint64_t m = g->n_counters;

    if (g->capacity == 0)
        return "capacity";
    if (!is_rate(g->fp_rate))
        return "fp_rate";
    if (m < CBF_FMT_MIN_COUNTERS || m > CBF_FMT_MAX_COUNTERS
        || (m & (m - 1)) != 0)
        return "number of counters";
    if (g->n_probes < 1 || g->n_probes > CBF_FMT_MAX_PROBES)
        return "number of hashes";
    fill_sizes(g);
    return NULL;
}

uint64_t
cbf_geometry_count(const struct cbf_geometry *g, uint64_t nonzero)
{
    double m = (double)g->n_counters;
    double x = (double)nonzero;

    if (nonzero >= g->n_counters)
        x = m - 1;
    /* log1p, because with few items x / m is small and 1 - x / m has lost it.
     * Its steps are wider than its error, so the result never falls. */
    return (uint64_t)round(-log1p(-x / m) * m / g->n_probes);
}

double
cbf_geometry_fp_now(const struct cbf_geometry *g, uint64_t nonzero)
{
    if (nonzero >= g->n_counters)
        return 1;
    return pow((double)nonzero / (double)g->n_counters, g->n_probes);
}
