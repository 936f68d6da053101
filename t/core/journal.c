/*
 * journal.c - records, their validity and their repair, on a table of its own.
 *
 * No processes and no lock here: who is killed where is kill.c's business.
 * The model of a table is a plain array with one element a counter.
 */
#include "journal.h"
#include "atomic.h"
#include "tap.h"
#include <string.h>
#include <sys/mman.h>

#define N_COUNTERS 131072
#define N_BYTES (N_COUNTERS / 2)
#define SEED 20240611u

static union {
    struct cbf_fmt_header header;
    char bytes[CBF_FMT_COUNTERS_OFFSET];
} head;
static uint8_t *counters; /* pages of their own */
static unsigned char model[N_COUNTERS];
static uint32_t seed = SEED;

static uint32_t
next_random(void)
{
    /* xorshift: any fixed sequence will do */
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed;
}

static struct cbf_journal_table
table(uint32_t n_probes)
{
    return (struct cbf_journal_table){
        .header = &head.header,
        .counters = counters,
        .counter_bytes = N_BYTES,
        .probe = { .mask = N_COUNTERS - 1, .n_probes = n_probes },
    };
}

/* Random counters, in the model too. */
static void
fill(void)
{
    uint32_t i;

    memset(&head, 0, sizeof head);
    for (i = 0; i < N_COUNTERS; i++)
        model[i] = (unsigned char)(next_random() % 16);
    for (i = 0; i < N_BYTES; i++)
        counters[i] = (uint8_t)(model[2 * i] | model[2 * i + 1] << 4);
}

static struct cbf_tally
model_tally(void)
{
    struct cbf_tally t = { 0, 0, 0 };
    uint32_t i;

    for (i = 0; i < N_COUNTERS; i++) {
        t.nonzero += model[i] > 0;
        t.saturated += model[i] == 15;
        t.sum += model[i];
    }
    return t;
}

static int
table_is_model(void)
{
    uint32_t i;

    for (i = 0; i < N_COUNTERS; i++)
        if (((counters[i / 2] >> (i % 2 * 4)) & 15) != model[i])
            return 0;
    return 1;
}

static int
tally_is_model(void)
{
    struct cbf_tally want = model_tally();

    return head.header.tally.nonzero == want.nonzero
           && head.header.tally.saturated == want.saturated
           && head.header.tally.sum == want.sum;
}

/* An item's counters destroyed in every way, then repaired. */
static void
test_item(uint32_t n_probes)
{
    struct cbf_journal_table t = table(n_probes);
    struct cbf_hash h = { (uint64_t)next_random() << 32 | next_random(),
                          (uint64_t)next_random() << 32 | next_random() };
    uint64_t old[2] = { 0, 0 };
    struct cbf_tally tally;
    uint64_t at;
    uint32_t i;

    fill();
    head.header.ops = next_random();
    tally = model_tally();
    for (i = 0; i < n_probes; i++) {
        at = (h.lo + i * (h.hi | 1)) % N_COUNTERS;
        old[i / 16] |= (uint64_t)model[at] << (i % 16 * 4);
    }
    cbf_journal_item(&head.header, h, old, &tally);
    ok(cbf_journal_pending(&head.header), "k %u: pending", n_probes);
    for (i = 0; i < n_probes; i++) {
        at = (h.lo + i * (h.hi | 1)) % N_COUNTERS;
        counters[at / 2] ^= (uint8_t)((1 + next_random() % 15)
                                      << (at % 2 * 4));
    }
    cbf_journal_repair(&t);
    ok(table_is_model(), "k %u: every counter has its old value", n_probes);
    ok(tally_is_model(), "k %u: and the totals theirs", n_probes);
    is_u64(head.header.journal.state, 0, "k %u: nothing pending", n_probes);
    cbf_journal_repair(&t);
    ok(table_is_model(), "k %u: repairing twice is once", n_probes);
}

/* A process that died of SIGBUS, because the disk was full, has changed
 * nothing on that page, and the repair must not try to. */
static void
test_unwritable(void)
{
    struct cbf_journal_table t = table(7);
    struct cbf_hash h = { 5, 7 };
    uint64_t old[2] = { 0, 0 };
    struct cbf_tally tally;
    uint32_t i;

    fill();
    tally = model_tally();
    for (i = 0; i < 7; i++)
        old[0] |= (uint64_t)model[5 + 7 * i] << (i * 4);
    cbf_journal_item(&head.header, h, old, &tally);
    mprotect(counters, N_BYTES, PROT_READ);
    cbf_journal_repair(&t);
    ok(table_is_model(), "what is as it was is not written");
    memset(&head, 0, sizeof head);
    mprotect(counters, N_BYTES, PROT_READ | PROT_WRITE);
    memset(counters, 0, N_BYTES);
    mprotect(counters, N_BYTES, PROT_READ);
    cbf_journal_clear(&head.header);
    cbf_journal_repair(&t);
    ok(1, "nor by a clear");
    mprotect(counters, N_BYTES, PROT_READ | PROT_WRITE);
}

static void
test_outdated(void)
{
    struct cbf_journal_table t = table(7);
    struct cbf_hash h = { 5, 7 };
    uint64_t old[2] = { 0, 0 };
    struct cbf_tally none = { 0, 0, 0 };

    fill();
    head.header.ops = 100;
    cbf_journal_item(&head.header, h, old, &none);
    head.header.ops = 101;
    ok(!cbf_journal_pending(&head.header),
       "a record is outdated when ops has moved");
    cbf_journal_repair(&t);
    ok(table_is_model(), "and not acted upon");
    is_u64(head.header.journal.state, 0, "but done with");
}

static void
test_clear(void)
{
    struct cbf_journal_table t = table(7);

    fill();
    cbf_journal_clear(&head.header);
    memset(counters, 0, 1000);
    cbf_journal_repair(&t);
    memset(model, 0, sizeof model);
    ok(table_is_model(), "a half-done clear is finished");
    ok(tally_is_model(), "with totals of 0");
}

/* Half a block merged: kept, and only the totals are put right. */
static void
test_block(uint64_t block)
{
    struct cbf_journal_table t = table(7);
    struct cbf_tally without;
    uint32_t first = (uint32_t)(block * CBF_JOURNAL_BLOCK_BYTES * 2);
    uint32_t i;

    fill();
    without = model_tally();
    for (i = first; i < first + CBF_JOURNAL_BLOCK_BYTES * 2; i++) {
        without.nonzero -= model[i] > 0;
        without.saturated -= model[i] == 15;
        without.sum -= model[i];
    }
    cbf_journal_block(&head.header, block, &without);
    for (i = first; i < first + CBF_JOURNAL_BLOCK_BYTES; i++)
        model[i] = model[i] < 15 ? model[i] + 1 : 15;
    for (i = first / 2; i < N_BYTES; i++)
        counters[i] = (uint8_t)(model[2 * i] | model[2 * i + 1] << 4);
    cbf_journal_repair(&t);
    ok(table_is_model(), "block %d of a merge stays as it is", (int)block);
    ok(tally_is_model(), "and is counted again");
}

static void
test_recount(void)
{
    struct cbf_journal_table t = table(7);

    fill();
    head.header.ops = 9;
    ok(!cbf_journal_tally_valid(&head.header), "totals of another time");
    cbf_journal_recount(&t);
    ok(cbf_journal_tally_valid(&head.header), "are valid after a recount");
    ok(tally_is_model(), "and right");
}

/* Whatever a damaged file has there: nothing outside the table is touched (a
 * sanitizer looks on), and nothing stays pending. */
static void
test_damage(void)
{
    struct cbf_journal_table t = table(32);
    uint64_t *word = (uint64_t *)(void *)&head.header.journal;
    uint32_t round;
    uint32_t i;
    int bad = 0;

    for (round = 0; round < 2000; round++) {
        for (i = 0; i < 8; i++)
            word[i] = (uint64_t)next_random() << 32 | next_random();
        if (round % 5 == 0)
            word[0] = UINT64_MAX;
        head.header.ops = next_random();
        if (round % 4 != 0)
            head.header.journal.state
                = head.header.ops << CBF_JOURNAL_KIND_BITS | round % 8;
        cbf_journal_repair(&t);
        bad += head.header.journal.state != 0;
    }
    is_u64((uint64_t)bad, 0, "random records do no harm");
}

int
main(void)
{
    uint32_t k;

    diag("seed %u", SEED);
    counters = mmap(NULL, N_BYTES, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (counters == MAP_FAILED)
        bail("mmap");
    for (k = 1; k <= 32; k++)
        test_item(k);
    test_unwritable();
    test_outdated();
    test_clear();
    test_block(0);
    test_block(N_BYTES / CBF_JOURNAL_BLOCK_BYTES - 1);
    test_recount();
    test_damage();
    return done_testing();
}
