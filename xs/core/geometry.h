/*
 * geometry.h - from capacity and rate to probes, counters and bytes, and from
 * the number of nonzero counters back to estimates.
 *
 * Pure arithmetic: no file, no lock, no counter is touched here.  The only
 * place that decides how large a table is.
 *
 * Sources: Bloom, CACM 1970 (the optimal k = -log2 p, m = n k / ln 2);
 * Fan et al., IEEE/ACM ToN 2000 (four-bit counters); Swamidass and Baldi,
 * J. Chem. Inf. Model. 2007 (estimate of the number of items).
 */
#ifndef CBF_GEOMETRY_H
#define CBF_GEOMETRY_H

#include <stdint.h>

struct cbf_geometry {
    uint64_t capacity;      /* items the table was sized for, >= 1 */
    double fp_rate;         /* configured rate, in (0, 1) */
    uint64_t n_counters;    /* m: a power of two, 64 .. 2^38 */
    uint32_t n_probes;      /* k: 1 .. 32 */
    uint64_t counter_bytes; /* m / 2 */
    uint64_t file_bytes;    /* of the whole file or mapping */
};

/*
 * Sizes a table.  k = round(-log2 fp_rate) within 1..32; m = the least power
 * of two >= capacity * k / ln 2, at least 64.  Returns 0, CBF_E_CAPACITY (0),
 * CBF_E_FP_RATE (not in (0, 1), NaN) or CBF_E_TOO_LARGE (m above 2^38); *g is
 * written only on success.
 */
int cbf_geometry_plan(uint64_t capacity, double fp_rate,
                      struct cbf_geometry *g);

/*
 * Completes a geometry read from a file: checks the ranges of the first four
 * fields of *g, which are set, and fills in the two byte sizes.  Returns NULL,
 * or the name of the first field out of range, a static string.
 */
const char *cbf_geometry_restore(struct cbf_geometry *g);

/*
 * Estimated number of distinct items when `nonzero` counters are above 0:
 * -(m / k) ln(1 - X / m), rounded.  X above m - 1 is taken as m - 1, where the
 * logarithm still has a value, so the estimate never falls as X grows.
 */
uint64_t cbf_geometry_count(const struct cbf_geometry *g, uint64_t nonzero);

/* The chance of a wrong yes now: (X / m) ** k, in [0, 1]. */
double cbf_geometry_fp_now(const struct cbf_geometry *g, uint64_t nonzero);

#endif
