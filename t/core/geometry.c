/*
 * geometry.c - sizes of tables and estimates, against arithmetic of other
 * kinds: integers, for which ln 2 is given to 64 bits, and long doubles.
 *
 * Touches nothing but numbers.
 */
#include "error.h"
#include "geometry.h"
#include "tap.h"
#include <math.h>

/* floor(2^64 ln 2) */
#define LN_2_BITS ((uint64_t)0xb17217f7d1cf79ab)

/* sqrt(2) between these; 2^-(k - 1/2) is sqrt(2) * 2^-k. */
#define BELOW_SQRT_2 1.41421356237309
#define ABOVE_SQRT_2 1.41421356237310

#define HEAD_BYTES 16768

struct plan {
    uint64_t capacity;
    double fp_rate;
    uint64_t m;
    uint32_t k;
};

static void
is_plan(const struct plan *p)
{
    struct cbf_geometry g;
    int code = cbf_geometry_plan(p->capacity, p->fp_rate, &g);

    if (!ok(code == CBF_OK, "plan of %" PRIu64 " at %g", p->capacity,
            p->fp_rate)) {
        diag("code %d", code);
        return;
    }
    is_u64(g.n_counters, p->m, "its counters");
    is_u64(g.n_probes, p->k, "its probes");
    is_u64(g.capacity, p->capacity, "its capacity");
    ok(g.fp_rate == p->fp_rate, "its rate");
    is_u64(g.counter_bytes, p->m / 2, "its bytes of counters");
    is_u64(g.file_bytes, HEAD_BYTES + p->m / 2, "its bytes in all");
}

/* By hand: k = -log2 p, then capacity * k * 1.442695 up to a power of two. */
static void
test_by_hand(void)
{
    static const struct plan plans[] = {
        {1000, 0.01, 16384, 7},        /* 6.64; 10098.9 */
        {10000, 0.01, 131072, 7},      /* 100988.7 */
        {20000000, 0.01, 268435456, 7}, /* 201977305 */
        {1000000, 0.001, 16777216, 10}, /* 9.97; 14426950 */
        {1, 0.5, 64, 1},               /* 1.44 */
        {1, 1e-9, 64, 30},             /* 29.9; 43.3 */
        {2, 1e-9, 128, 30},            /* 86.6 */
        {1, 1e-300, 64, 32},           /* 46.2 */
        {1, 0.99, 64, 1},
        {45, 0.6, 128, 1},             /* 0.74; 64.9 */
        {44, 0.6, 64, 1},              /* 63.5 */
    };
    size_t i;

    for (i = 0; i < sizeof plans / sizeof plans[0]; i++)
        is_plan(&plans[i]);
}

static uint32_t
probes_of(double fp_rate)
{
    struct cbf_geometry g = {.n_probes = 0};

    cbf_geometry_plan(1, fp_rate, &g);
    return g.n_probes;
}

static void
test_probes(void)
{
    int k;

    for (k = 1; k <= 40; k++) {
        uint32_t want = k < 32 ? (uint32_t)k : 32;
        uint32_t before = k < 33 ? (uint32_t)k - 1 : 32;

        if (before == 0)
            before = 1;
        is_u64(probes_of(ldexp(1, -k)), want, "probes at 2^-%d", k);
        is_u64(probes_of(ldexp(BELOW_SQRT_2, -k)), want,
               "and just under 2^-%d.5", k - 1);
        is_u64(probes_of(ldexp(ABOVE_SQRT_2, -k)), before,
               "and just over it");
    }
    is_u64(probes_of(5e-324), 32, "the smallest rate there is");
    is_u64(probes_of(2.2250738585072014e-308), 32, "the smallest normal one");
    is_u64(probes_of(1 - 0x1p-53), 1, "the largest one");
}

/* n * k <= m ln 2, so the largest n is the whole part of the whole part of
 * m ln 2, divided by k. */
static void
test_steps(void)
{
    size_t wrong = 0;
    unsigned bits;
    uint32_t k;

    for (bits = 6; bits <= 38; bits++) {
        for (k = 1; k <= 32; k++) {
            uint64_t m = (uint64_t)1 << bits;
            uint64_t most = (LN_2_BITS >> (64 - bits)) / k;
            double rate = ldexp(1, -(int)k);
            struct cbf_geometry g = {.n_counters = 1};
            int code = cbf_geometry_plan(most, rate, &g);

            wrong += code != CBF_OK || g.n_counters != m || g.n_probes != k;
            code = cbf_geometry_plan(most + 1, rate, &g);
            if (bits < 38)
                wrong += code != CBF_OK || g.n_counters != m * 2;
            else
                wrong += code != CBF_E_TOO_LARGE || g.n_counters != m;
        }
    }
    is_u64(wrong, 0, "the last capacity of every table, and the next one");
}

static void
is_refused(uint64_t capacity, double fp_rate, int want, const char *what)
{
    struct cbf_geometry before;
    struct cbf_geometry g;

    memset(&before, 0x5a, sizeof before);
    g = before;
    is_u64((uint64_t)cbf_geometry_plan(capacity, fp_rate, &g),
           (uint64_t)want, "refused: %s", what);
    ok(memcmp(&g, &before, sizeof g) == 0, "and nothing written");
}

static void
test_refused(void)
{
    is_refused(0, 0.01, CBF_E_CAPACITY, "no capacity");
    is_refused(1, 0, CBF_E_FP_RATE, "rate 0");
    is_refused(1, -0.0, CBF_E_FP_RATE, "rate -0");
    is_refused(1, 1, CBF_E_FP_RATE, "rate 1");
    is_refused(1, 1.5, CBF_E_FP_RATE, "rate 1.5");
    is_refused(1, -0.01, CBF_E_FP_RATE, "a negative rate");
    is_refused(1, NAN, CBF_E_FP_RATE, "a rate that is not a number");
    is_refused(1, INFINITY, CBF_E_FP_RATE, "an infinite rate");
    is_refused(1, -INFINITY, CBF_E_FP_RATE, "a negative infinite rate");
    is_refused(UINT64_MAX, 0.01, CBF_E_TOO_LARGE, "the largest capacity");
    is_refused(UINT64_MAX, 5e-324, CBF_E_TOO_LARGE, "with the smallest rate");
    is_refused(UINT64_MAX, 0.99, CBF_E_TOO_LARGE, "with a large rate");
    is_refused((uint64_t)1 << 63, 0.5, CBF_E_TOO_LARGE, "2^63");
    is_refused(190530846197, 0.5, CBF_E_TOO_LARGE, "2^38 ln 2, rounded up");
}

static const struct cbf_geometry sound = {
    .capacity = 1000,
    .fp_rate = 0.01,
    .n_counters = 16384,
    .n_probes = 7,
};

static void
is_restored(struct cbf_geometry g, const char *want, const char *what)
{
    is_str(cbf_geometry_restore(&g), want, "restore: %s", what);
    if (!want) {
        is_u64(g.counter_bytes, g.n_counters / 2, "bytes of counters");
        is_u64(g.file_bytes, HEAD_BYTES + g.n_counters / 2, "bytes in all");
    }
}

static void
test_restore_counters(void)
{
    static const char field[] = "number of counters";
    static const uint64_t wrong[] = {
        0, 1, 32, 63, 65, 96, 16383, 16385, ((uint64_t)1 << 38) - 1,
        ((uint64_t)1 << 38) + 1, (uint64_t)1 << 39, (uint64_t)1 << 63,
        UINT64_MAX,
    };
    struct cbf_geometry g = sound;
    size_t i;

    for (i = 6; i <= 38; i++) {
        g.n_counters = (uint64_t)1 << i;
        is_restored(g, NULL, "a power of two");
    }
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        g.n_counters = wrong[i];
        is_restored(g, field, "a wrong number of counters");
    }
}

static void
test_restore(void)
{
    static const double wrong_rates[] = {0, 1, -1, 2, NAN, INFINITY};
    struct cbf_geometry g = sound;
    size_t i;

    is_restored(g, NULL, "a sound one");
    g.capacity = UINT64_MAX;
    is_restored(g, NULL, "the largest capacity");
    g.capacity = 0;
    is_restored(g, "capacity", "no capacity");
    g = sound;
    for (i = 0; i < sizeof wrong_rates / sizeof wrong_rates[0]; i++) {
        g.fp_rate = wrong_rates[i];
        is_restored(g, "fp_rate", "a wrong rate");
    }
    g.fp_rate = 5e-324;
    is_restored(g, NULL, "the smallest rate");
    g = sound;
    for (i = 1; i <= 32; i++) {
        g.n_probes = (uint32_t)i;
        is_restored(g, NULL, "a number of probes");
    }
    g.n_probes = 0;
    is_restored(g, "number of hashes", "no probes");
    g.n_probes = 33;
    is_restored(g, "number of hashes", "33 probes");
    g.n_probes = UINT32_MAX;
    is_restored(g, "number of hashes", "all ones");
    test_restore_counters();
}

static struct cbf_geometry
table(uint64_t m, uint32_t k)
{
    struct cbf_geometry g = sound;

    g.n_counters = m;
    g.n_probes = k;
    return g;
}

/* Worked out to 40 digits and rounded. */
static void
test_count_by_hand(void)
{
    static const struct {
        uint64_t m;
        uint64_t x;
        uint64_t count;
        uint32_t k;
    } cases[] = {
        {64, 0, 0, 1},
        {64, 63, 266, 1},  /* 266.1685 */
        {64, 64, 266, 1},  /* as with one counter left */
        {64, 65, 266, 1},
        {64, UINT64_MAX, 266, 1},
        {64, 32, 44, 1},   /* 44.3614 */
        {64, 1, 0, 7},     /* 0.1440 */
        {64, 63, 8, 32},   /* 8.3178 */
        {16384, 3173, 504, 7},  /* 503.8207 */
        {16384, 8192, 1622, 7}, /* 1622.3605 */
        {268435456, 134217728, 26580754, 7},  /* .2127 */
        {1048576, 700000, 115483, 10},        /* .0354 */
        {274877906944, 1, 1, 1},              /* 1.0000000000018 */
        {274877906944, 12345, 12345, 1},      /* .0003 */
        {274877906944, 274877906943, 7240172155465, 1},  /* .1993 */
        {274877906944, 274877906944, 7240172155465, 1},
        {274877906944, 274877906943, 226255379858, 32},  /* .2875 */
        {274877906944, 274877906942, 1007091615610, 7},  /* 609.8210 */
    };
    size_t i;

    for (i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cbf_geometry g = table(cases[i].m, cases[i].k);

        is_u64(cbf_geometry_count(&g, cases[i].x), cases[i].count,
               "count: m %" PRIu64 ", k %" PRIu32 ", X %" PRIu64,
               cases[i].m, cases[i].k, cases[i].x);
    }
}

/* Every X of small tables: the nearest whole number, and never falling. */
static void
test_count_small(void)
{
    static const uint32_t ks[] = {1, 2, 7, 13, 32};
    size_t wrong = 0;
    size_t fell = 0;
    size_t i;
    uint64_t m;
    uint64_t x;

    for (m = 64; m <= 8192; m *= 2) {
        for (i = 0; i < sizeof ks / sizeof ks[0]; i++) {
            struct cbf_geometry g = table(m, ks[i]);
            uint64_t last = 0;

            for (x = 0; x <= m + 1; x++) {
                long double left = x < m ? (long double)(m - x) : 1;
                long double exact = (logl((long double)m) - logl(left))
                                    * (long double)m / ks[i];
                uint64_t got = cbf_geometry_count(&g, x);

                wrong += fabsl((long double)got - exact) > 0.5L + 1e-9L;
                fell += got < last;
                last = got;
            }
        }
    }
    is_u64(wrong, 0, "count is the nearest whole number, m 64 to 8192");
    is_u64(fell, 0, "and never falls");
}

/* Neighbours everywhere in the largest table. */
static void
test_count_large(void)
{
    struct cbf_geometry g = table((uint64_t)1 << 38, 1);
    uint64_t step = ((uint64_t)1 << 38) / 100003;
    size_t fell = 0;
    uint64_t x;

    for (x = 0; x < g.n_counters - 1; x += step)
        fell += cbf_geometry_count(&g, x) > cbf_geometry_count(&g, x + 1);
    for (x = g.n_counters - 1000; x <= g.n_counters; x++)
        fell += cbf_geometry_count(&g, x) > cbf_geometry_count(&g, x + 1);
    is_u64(fell, 0, "count never falls in the largest table");
}

static void
test_fp_now(void)
{
    size_t wrong = 0;
    unsigned bits;
    uint32_t k;

    for (bits = 6; bits <= 38; bits++) {
        for (k = 1; k <= 32; k++) {
            uint64_t m = (uint64_t)1 << bits;
            struct cbf_geometry g = table(m, k);

            wrong += cbf_geometry_fp_now(&g, 0) != 0;
            wrong += cbf_geometry_fp_now(&g, m / 2) != ldexp(1, -(int)k);
            wrong += cbf_geometry_fp_now(&g, m / 4) != ldexp(1, -2 * (int)k);
            wrong += cbf_geometry_fp_now(&g, m) != 1;
            wrong += cbf_geometry_fp_now(&g, m + 1) != 1;
            wrong += cbf_geometry_fp_now(&g, UINT64_MAX) != 1;
        }
    }
    is_u64(wrong, 0, "the chance of a wrong yes at 0, 1/4, 1/2 and 1");
    {
        struct cbf_geometry g = table(64, 2);

        ok(cbf_geometry_fp_now(&g, 48) == 0.5625, "three quarters, squared");
    }
}

int
main(void)
{
    watchdog(60);
    test_by_hand();
    test_probes();
    test_steps();
    test_refused();
    test_restore();
    test_count_by_hand();
    test_count_small();
    test_count_large();
    test_fp_now();
    return done_testing();
}
