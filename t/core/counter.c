/*
 * counter.c - single counters and packed values, against a plain array with
 * one byte a counter.
 *
 * Every byte value for single counters, random ones for packed values, and the
 * totals of the table after each batch of changes.  Whole tables are tested in
 * counter_table.c.
 */
#include "counter_help.h"

/* The value and its neighbour, of every byte. */
static void
test_every_byte(void)
{
    size_t wrong[2] = {0, 0};
    unsigned byte;
    unsigned half;
    unsigned value;

    for (byte = 0; byte < 256; byte++) {
        for (half = 0; half < 2; half++) {
            unsigned v = half ? byte / 16 : byte % 16;
            unsigned unit = half ? 16 : 1;
            uint8_t table[3] = {0x5a, (uint8_t)byte, 0x5a};

            wrong[0] += cbf_counter_get(table, 2 + half) != v;
            wrong[0] += cbf_counter_is_set(table, 2 + half) != (v > 0);
            for (value = 0; value < 16; value++) {
                table[1] = (uint8_t)byte;
                cbf_counter_set(table, 2 + half, value);
                wrong[1] += table[1] != byte - v * unit + value * unit;
            }
            wrong[1] += table[0] != 0x5a || table[2] != 0x5a;
        }
    }
    is_u64(wrong[0], 0, "get and is_set, of every byte");
    is_u64(wrong[1], 0, "set, in every byte; the neighbours stay");
}

/* Place i of a packed word. */
static unsigned
place(uint64_t packed, uint32_t i)
{
    while (i-- > 0)
        packed /= 16;
    return (unsigned)(packed % 16);
}

/* Flags and their number, for random words in which every value is common. */
static void
test_packed_questions(void)
{
    size_t wrong[3] = {0, 0, 0};
    int round;
    uint32_t i;
    uint32_t n;

    for (round = 0; round < 20000; round++) {
        uint64_t packed = random_u64() & random_u64();
        uint64_t v = random_u64() % 16;
        uint64_t flags = cbf_packed_equal(packed, v);
        unsigned count = 0;

        for (i = 0; i < CBF_PACKED; i++) {
            wrong[0] += place(flags, i) != (place(packed, i) == v);
            count += place(packed, i) == v;
        }
        wrong[1] += cbf_packed_count(flags) != count;
    }
    for (n = 0; n <= CBF_PACKED; n++) {
        wrong[1] += cbf_packed_count(cbf_packed_first(n)) != n;
        for (i = 0; i < CBF_PACKED; i++)
            wrong[2] += place(cbf_packed_first(n), i) != (i < n);
    }
    is_u64(wrong[0], 0, "where a packed word has a value");
    is_u64(wrong[1], 0, "how many flags are set");
    is_u64(wrong[2], 0, "flags for the first places");
}

/* n different positions below range. */
static void
choose(uint64_t *pos, uint32_t n, uint64_t range)
{
    uint32_t i;
    uint32_t j;

    for (i = 0; i < n; i++) {
        do {
            pos[i] = random_u64() % range;
            for (j = 0; j < i && pos[j] != pos[i]; j++)
                continue;
        } while (j < i);
    }
}

/* Reads up to 16 counters, and steps those of them that are not at the end of
 * their range, up or down; the same on the model.  Returns what is wrong. */
static size_t
change(struct scene *s, uint64_t range)
{
    uint64_t pos[CBF_PACKED];
    uint32_t n = (uint32_t)(random_u64() % (CBF_PACKED + 1));
    int up = random_u64() % 16 < 9;
    uint64_t flags = 0;
    uint64_t packed;
    size_t wrong = 0;
    uint32_t i;

    choose(pos, n, range);
    packed = cbf_packed_get(s->table, pos, n);
    for (i = 0; i < CBF_PACKED; i++)
        wrong += place(packed, i) != (i < n ? s->model[pos[i]] : 0);
    for (i = 0; i < n; i++) {
        uint8_t *m = s->model + pos[i];

        if (*m == (up ? 15 : 0) || random_u64() % 8 == 0)
            continue;
        flags += (uint64_t)1 << 4 * i;
        *m = (uint8_t)(up ? *m + 1 : *m - 1);
    }
    cbf_packed_step(s->table, pos, n, flags, up);
    return wrong;
}

/* Random changes; a small range hits the same counters, and both halves of a
 * byte, again and again, up to 15 and down to 0. */
static void
test_random_changes(size_t bytes, uint64_t range)
{
    struct scene s = scene_new(bytes);
    size_t wrong = 0;
    int round;
    int i;

    memset(s.model, 0, bytes * 2);
    scene_write(&s);
    for (round = 0; round < 100; round++) {
        struct cbf_tally recount;
        struct cbf_tally want;
        uint64_t n[16];

        for (i = 0; i < 50; i++)
            wrong += change(&s, range);
        count_model(&s, &want, n);
        cbf_counter_tally(s.table, bytes, &recount);
        wrong += !scene_right(&s);
        wrong += !same_tally(&recount, &want);
    }
    is_u64(wrong, 0, "random changes: %zu bytes, %" PRIu64 " counters hit",
           bytes, range);
    scene_free(&s);
}

int
main(void)
{
    watchdog(120);
    diag("seed %#" PRIx64, SEED);
    test_every_byte();
    test_packed_questions();
    test_random_changes(32, 64);
    test_random_changes(32, 17);
    test_random_changes(96, 192);
    test_random_changes(1056, 2112);
    test_random_changes(4096, 100);
    return done_testing();
}
