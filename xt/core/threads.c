/*
 * threads.c - threads of one process hammer one filter through cbf.h, for
 * ThreadSanitizer.
 *
 * Every writer owns a range of items and leaves it in a known state; readers
 * ask for items that are never removed, and must never miss one; a scanner
 * takes consistent moments and checks sums; one thread takes and drops
 * references.  At the end every count is compared.  Prints TAP.  Locks between
 * processes are tested elsewhere: a sanitizer can't see those.
 */
#include "cbf.h"
#include "tap.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define WRITERS 3
#define READERS 2
#define RANGE 200u
#define STABLE 300u
#define ROUNDS 60u

static struct cbf *filter;
static struct cbf *side;
static pthread_barrier_t gate;
static uint32_t stop;      /* atomic */
static uint64_t n_wrong;   /* atomic: answers that can't be */
static uint64_t n_failed;  /* atomic: calls that returned a code */

static void
count_wrong(int wrong)
{
    if (wrong)
        __atomic_fetch_add(&n_wrong, 1, __ATOMIC_RELAXED);
}

static void
count_failed(int code)
{
    if (code != CBF_OK)
        __atomic_fetch_add(&n_failed, 1, __ATOMIC_RELAXED);
}

static int
stopping(void)
{
    return __atomic_load_n(&stop, __ATOMIC_RELAXED) != 0;
}

struct name {
    char text[32];
    size_t len;
};

static struct name
name_of(const char *kind, unsigned owner, unsigned i)
{
    struct name n;
    int len = snprintf(n.text, sizeof n.text, "%s-%u-%u", kind, owner, i);

    n.len = (size_t)len;
    return n;
}

static void
single_round(unsigned owner)
{
    unsigned i;
    int changed;

    for (i = 0; i < RANGE; i++) {
        struct name n = name_of("own", owner, i);

        count_failed(cbf_add(filter, n.text, n.len, &changed, NULL));
        count_wrong(!cbf_contains(filter, n.text, n.len));
    }
    for (i = 0; i < RANGE; i++) {
        struct name n = name_of("own", owner, i);

        count_wrong(cbf_count_of(filter, n.text, n.len) == 0);
        count_failed(cbf_remove(filter, n.text, n.len, &changed, NULL));
        count_wrong(!changed);
    }
}

static void
batch_round(unsigned owner)
{
    struct cbf_hash items[RANGE];
    size_t changed;
    size_t n_done = 0;
    unsigned i;

    for (i = 0; i < RANGE; i++) {
        struct name n = name_of("batch", owner, i);

        items[i] = cbf_hash_item(n.text, n.len);
    }
    count_failed(cbf_add_many(filter, items, RANGE, &changed, NULL));
    count_wrong(cbf_contains_many(filter, items, RANGE, NULL) != RANGE);
    count_failed(cbf_remove_many(filter, items, RANGE, &changed, NULL));
    count_wrong(changed != RANGE);
    count_failed(cbf_add_bulk(filter, items, RANGE, &n_done, NULL));
    count_wrong(cbf_contains_many(filter, items, RANGE, NULL) != RANGE);
    count_failed(cbf_remove_many(filter, items, RANGE, &changed, NULL));
    count_wrong(changed != RANGE);
}

/* Everything is undone in each round, but for one add an item at the end. */
static void *
write_items(void *arg)
{
    unsigned owner = *(unsigned *)arg;
    unsigned i;
    int changed;

    pthread_barrier_wait(&gate);
    for (i = 0; i < ROUNDS; i++) {
        single_round(owner);
        batch_round(owner);
    }
    for (i = 0; i < RANGE; i++) {
        struct name n = name_of("own", owner, i);

        count_failed(cbf_add(filter, n.text, n.len, &changed, NULL));
    }
    return NULL;
}

static void *
read_items(void *arg)
{
    struct cbf_hash items[STABLE];
    uint8_t each[STABLE];
    unsigned i;

    (void)arg;
    for (i = 0; i < STABLE; i++) {
        struct name n = name_of("stable", 0, i);

        items[i] = cbf_hash_item(n.text, n.len);
    }
    pthread_barrier_wait(&gate);
    while (!stopping()) {
        for (i = 0; i < STABLE; i++) {
            struct name n = name_of("stable", 0, i);

            count_wrong(!cbf_contains(filter, n.text, n.len));
        }
        count_wrong(cbf_contains_many(filter, items, STABLE, each)
                    != STABLE);
        count_wrong(cbf_count_of_many(filter, items, STABLE, each)
                    != STABLE);
    }
    return NULL;
}

/* At each moment the totals are those of a whole number of items. */
static void *
scan_table(void *arg)
{
    const struct cbf_geometry *g = cbf_geometry_of(filter);
    struct cbf_stats stats;
    uint64_t n[16];

    (void)arg;
    pthread_barrier_wait(&gate);
    while (!stopping()) {
        count_failed(cbf_stats(filter, &stats, NULL));
        count_wrong(stats.sum % g->n_probes != 0);
        count_wrong(stats.nonzero > stats.sum);
        count_failed(cbf_histogram(filter, n, NULL));
        count_wrong(n[0] > g->n_counters);
        count_failed(cbf_merge(side, filter, NULL));
        count_failed(cbf_clear(side, NULL));
    }
    return NULL;
}

static void *
hold_references(void *arg)
{
    (void)arg;
    pthread_barrier_wait(&gate);
    while (!stopping()) {
        cbf_ref(filter);
        count_wrong(cbf_frozen(filter));
        count_wrong(cbf_readonly(filter));
        cbf_unref(filter);
    }
    return NULL;
}

static void
add_stable(void)
{
    unsigned i;
    int changed;

    for (i = 0; i < STABLE; i++) {
        struct name n = name_of("stable", 0, i);

        count_failed(cbf_add(filter, n.text, n.len, &changed, NULL));
    }
}

static void
check_end(void)
{
    const struct cbf_geometry *g = cbf_geometry_of(filter);
    struct cbf_stats stats = { 0 };
    unsigned owner;
    unsigned i;
    unsigned missing = 0;

    for (owner = 0; owner < WRITERS; owner++)
        for (i = 0; i < RANGE; i++) {
            struct name n = name_of("own", owner, i);

            missing += !cbf_contains(filter, n.text, n.len);
        }
    is_u64(missing, 0, "every item that was left in is there");
    count_failed(cbf_stats(filter, &stats, NULL));
    is_u64(stats.saturated, 0, "nothing saturated, so sums are exact");
    is_u64(stats.sum, (uint64_t)g->n_probes * (STABLE + WRITERS * RANGE),
           "nothing is there but those");
    is_u64(n_wrong, 0, "no answer was wrong meanwhile");
    is_u64(n_failed, 0, "no call failed");
}

int
main(void)
{
    pthread_t threads[WRITERS + READERS + 2];
    unsigned owners[WRITERS];
    struct cbf_geometry g;
    unsigned n = 0;
    unsigned i;

    if (cbf_geometry_plan(20000, 0.01, &g) != CBF_OK
        || cbf_open_anonymous(&g, &filter, NULL) != CBF_OK
        || cbf_open_memfd(NULL, &g, &side, NULL) != CBF_OK) {
        ok(0, "two filters");
        return done_testing();
    }
    add_stable();
    pthread_barrier_init(&gate, NULL, WRITERS + READERS + 2);
    for (i = 0; i < WRITERS; i++) {
        owners[i] = i;
        pthread_create(&threads[n++], NULL, write_items, &owners[i]);
    }
    for (i = 0; i < READERS; i++)
        pthread_create(&threads[n++], NULL, read_items, NULL);
    pthread_create(&threads[n++], NULL, scan_table, NULL);
    pthread_create(&threads[n++], NULL, hold_references, NULL);
    for (i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (i = WRITERS; i < n; i++)
        pthread_join(threads[i], NULL);
    check_end();
    cbf_unref(filter);
    cbf_unref(side);
    return done_testing();
}
