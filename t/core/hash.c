/*
 * hash.c - item hashes and checksums against recorded values, and the way from
 * a hash to counters against schoolbook arithmetic.
 *
 * The recorded values were printed by the program xxhsum of Debian's package
 * xxhash 0.8.1 (-H2 for 128 bits, -H3 for 64), fed with the bytes of `fill`.
 */
#include "hash.h"
#include "tap.h"
#include <stdlib.h>

#define LONGEST 100003

struct vector {
    size_t len;
    uint64_t lo;
    uint64_t hi;
};

/* The lengths are on both sides of each place where XXH3 changes its way. */
static const struct vector vectors[] = {
    {0, 0x6001c324468d497f, 0x99aa06d3014798d8},
    {1, 0x929e358d27ae3ee2, 0xe1325e21416bcdb2},
    {2, 0x5f54949a22a6fa65, 0x03430718a8616e6e},
    {3, 0x5c9daccd118a197a, 0x1eb657dd7eebd4fd},
    {4, 0xa853507ecd0cf9af, 0xb9d22041289a15b6},
    {5, 0xb14a6348aada4bfe, 0x23a9597ef16792e2},
    {8, 0xf1b3fc4a2f19210b, 0xa51cd37501d8b78f},
    {9, 0x5a183647cfb3c87a, 0x05efcfd4cda533c9},
    {15, 0xef071a618e99eb0a, 0x016de9c74063cc47},
    {16, 0x193b3a7140bdf15d, 0x8b8e2f79d072934e},
    {17, 0xb247899fde126f2e, 0x178446d810c64675},
    {32, 0x80ff3006bc34ab9c, 0x83c1232af626732a},
    {33, 0xb27bcd5f8f256dab, 0x954643d8e9a9a2e2},
    {64, 0x3af93c4882a4ce41, 0x9c2278c7468e6148},
    {65, 0xe70b032c2254ae91, 0x3ce58da47cf081c5},
    {96, 0xe87acfe8bcf8fffc, 0x9800509fbbadf7b5},
    {97, 0x0aa5059eac71bcde, 0x2ad1b4add690e0b5},
    {127, 0xdfc38b2336783e5d, 0xcf70696b8a6dc4a1},
    {128, 0x70976f95acdd9246, 0x1d23086659bee8b9},
    {129, 0x12679c53c385d99e, 0x974525c1e76c9b29},
    {144, 0x592d3c3e7caf38e1, 0x8881f515200dcad2},
    {145, 0xcae4b1a669e87474, 0x2fa2eb33802b1109},
    {192, 0xe79f0380928eb353, 0x18bc0259b8e0e076},
    {239, 0xdc5b90df820ac9f6, 0x11ae57f5c2935584},
    {240, 0x726b98dfe0aba9b8, 0x543bd8568a88f87d},
    {241, 0x237fa3542b957867, 0xfc48c7d255a35d45},
    {256, 0x909ed0d761b2c618, 0x138b77536aa6a484},
    {257, 0xd371e51d118972fa, 0xb6478ee655413bc4},
    {511, 0xfcf7d61e7b23d43a, 0x9a6ade4986400b97},
    {512, 0x9b0451761b395c60, 0x8cb2b0ad8337edf2},
    {513, 0xea0e16ccc68972cb, 0xcff3e15cd65d0eb5},
    {1023, 0xad8d475f35f757f2, 0x2f42dd0f85936957},
    {1024, 0x52d9b609b65bc577, 0xd5d74f87dd994acc},
    {1025, 0x48ffcd12789946e3, 0x3ff6f68f99fabf95},
    {1087, 0xb338c5360a70d36a, 0x986619d5b8955c4f},
    {1088, 0x60db3f99bc965356, 0x8e4ecefe9970ff35},
    {1089, 0x5f42ff44ca7588ca, 0x591844565d88f7a5},
    {1299, 0xc07a25b74686a1ba, 0x0960087d81cfd4c4},
    {1300, 0x7ad5d63f56a59b1e, 0x8b5b453cbc86609f},
    {2048, 0x5a40ddb7763dabd4, 0xe6a2e1fb394c43b4},
    {2049, 0x6a80d20a54a86e12, 0x4f2a2c5008925ea7},
    {4096, 0x02edf90e5de60eb6, 0xf4fbaa8362b9f3dd},
    {65536, 0x2c9af38e3830694e, 0xc80b8e73b2800244},
    {100003, 0xde4480907654d2e9, 0x456cd76ad748bffa},
};

/* XXH3-64, which is not a half of the above below 241 bytes. */
static const struct vector checksums[] = {
    {0, 0x2d06800538d394c2, 0},    {1, 0x929e358d27ae3ee2, 0},
    {32, 0xf461a05693ad8616, 0},   {64, 0x2978df1d884b5dfe, 0},
    {96, 0x2297e3383fb484d6, 0},   {128, 0x791758c2a56ee13f, 0},
    {240, 0x8539d56158afce0b, 0},  {241, 0x237fa3542b957867, 0},
    {1024, 0x52d9b609b65bc577, 0}, {8192, 0xe7c8a22bd9d2329f, 0},
    {65536, 0x2c9af38e3830694e, 0}, {100003, 0xde4480907654d2e9, 0},
};

/* Real items: text, NUL bytes, every byte. */
static const struct {
    const char *item;
    struct vector hash;
} items[] = {
    {"a", {1, 0xe6c632b61e964e1f, 0xa96faf705af16834}},
    {"abc", {3, 0x78af5f94892f3950, 0x06b05ab6733a6185}},
    {"a\0b", {3, 0xd5a06cd078125351, 0x39797789ed4c7ea0}},
    {"\0", {1, 0xc44bdff4074eecdb, 0xa6cd5e9392000f6a}},
    {"item-1", {6, 0x5fc2a74144e85517, 0x9adbc06b2447e5ed}},
};

static void
fill(uint8_t *bytes, size_t len)
{
    size_t i;

    for (i = 0; i < len; i++)
        bytes[i] = (uint8_t)(i * i * 31 + i * 7 + (i >> 8) * 13 + 5);
}

static void
is_hash(struct cbf_hash got, const struct vector *want, const char *what)
{
    is_u64(got.lo, want->lo, "%s, %zu bytes: low half", what, want->len);
    is_u64(got.hi, want->hi, "%s, %zu bytes: high half", what, want->len);
}

static void
test_vectors(const uint8_t *bytes)
{
    uint8_t all[256];
    size_t i;

    for (i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
        is_hash(cbf_hash_item(bytes, vectors[i].len), &vectors[i], "pattern");
    for (i = 0; i < sizeof items / sizeof items[0]; i++)
        is_hash(cbf_hash_item(items[i].item, items[i].hash.len),
                &items[i].hash, "item");
    for (i = 0; i < sizeof all; i++)
        all[i] = (uint8_t)i;
    is_hash(cbf_hash_item(all, sizeof all),
            &(struct vector){256, 0x9408a4433b952d71, 0xf1f8a93f50849ac3},
            "all bytes in order");
    is_hash(cbf_hash_item(NULL, 0), &vectors[0], "NULL");
    for (i = 0; i < sizeof checksums / sizeof checksums[0]; i++)
        is_u64(cbf_hash_checksum(bytes, checksums[i].len), checksums[i].lo,
               "checksum, %zu bytes", checksums[i].len);
}

static uint64_t
mix(uint64_t digest, uint64_t value)
{
    return (digest << 1 | digest >> 63) ^ value;
}

/* All lengths up to 1300, folded into one recorded number. */
static void
test_every_length(const uint8_t *bytes)
{
    uint64_t digest = 0;
    size_t len;

    for (len = 0; len <= 1300; len++) {
        struct cbf_hash h = cbf_hash_item(bytes, len);

        digest = mix(mix(digest, h.lo), h.hi);
    }
    is_u64(digest, 0x1efab3d65943abbb, "every length from 0 to 1300");
}

/* The place of the bytes does not matter, nor what stands around them. */
static void
test_alignment(const uint8_t *bytes)
{
    static const size_t lens[] = {1, 3, 8, 16, 100, 200, 240, 241, 1025};
    uint8_t *room = malloc(1025 + 64 + 1);
    size_t wrong = 0;
    size_t i;
    size_t at;

    if (!room)
        bail("malloc");
    for (i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        struct cbf_hash want = cbf_hash_item(bytes, lens[i]);

        for (at = 0; at < 64; at++) {
            struct cbf_hash got;

            memset(room, (int)at, 1025 + 64 + 1);
            memcpy(room + at, bytes, lens[i]);
            got = cbf_hash_item(room + at, lens[i]);
            wrong += got.lo != want.lo || got.hi != want.hi;
        }
    }
    is_u64(wrong, 0, "64 alignments of %zu lengths", i);
    free(room);
}

static int
compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Both ways to get positions, against additions of remainders, which never
 * leave 64 bits since m is at most 2^38. */
static void
is_walk(struct cbf_probe probe, struct cbf_hash h, size_t wrong[2])
{
    uint64_t m = probe.mask + 1;
    uint64_t step = (h.hi % 2 == 0 ? h.hi + 1 : h.hi) % m;
    uint64_t want = h.lo % m;
    struct cbf_walk walk = cbf_walk_begin(&probe, h);
    uint64_t all[32];
    uint32_t i;

    for (i = 0; i < probe.n_probes; i++) {
        wrong[0] += cbf_probe_position(&probe, h, i) != want;
        all[i] = cbf_walk_next(&walk);
        wrong[0] += all[i] != want;
        want = (want + step) % m;
    }
    /* An odd step through a power of two meets no counter twice in 64. */
    qsort(all, probe.n_probes, sizeof all[0], compare);
    for (i = 1; i < probe.n_probes; i++)
        wrong[1] += all[i] == all[i - 1];
}

static void
test_positions(void)
{
    static const struct cbf_hash edges[] = {
        {0, 0}, {0, 1}, {UINT64_MAX, UINT64_MAX}, {UINT64_MAX, 0},
        {0, UINT64_MAX}, {0, UINT64_MAX - 1}, {1, (uint64_t)1 << 63},
        {(uint64_t)1 << 63, (uint64_t)1 << 38},
    };
    struct cbf_probe probe;
    size_t wrong[2] = {0, 0};
    unsigned bits;
    size_t i;

    for (bits = 6; bits <= 38; bits++) {
        probe.mask = ((uint64_t)1 << bits) - 1;
        for (probe.n_probes = 1; probe.n_probes <= 32; probe.n_probes++) {
            for (i = 0; i < sizeof edges / sizeof edges[0]; i++)
                is_walk(probe, edges[i], wrong);
            for (i = 0; i < sizeof vectors / sizeof vectors[0]; i++)
                is_walk(probe, (struct cbf_hash){vectors[i].lo,
                                                 vectors[i].hi}, wrong);
        }
    }
    is_u64(wrong[0], 0, "positions for every m and k");
    is_u64(wrong[1], 0, "no counter twice in one item");
}

static void
is_positions(struct cbf_hash h, const uint64_t want[4])
{
    struct cbf_probe probe = {.mask = 63, .n_probes = 4};
    uint32_t i;

    for (i = 0; i < probe.n_probes; i++)
        is_u64(cbf_probe_position(&probe, h, i), want[i],
               "by hand: lo %" PRIu64 ", hi %" PRIu64 ", probe %" PRIu32,
               h.lo, h.hi, i);
}

int
main(void)
{
    uint8_t *bytes = malloc(LONGEST);

    watchdog(60);
    if (!bytes)
        bail("malloc");
    fill(bytes, LONGEST);
    test_vectors(bytes);
    test_every_length(bytes);
    test_alignment(bytes);
    /* An even hi is made odd, an odd one is taken as it is. */
    is_positions((struct cbf_hash){60, 4}, (uint64_t[]){60, 1, 6, 11});
    is_positions((struct cbf_hash){60, 5}, (uint64_t[]){60, 1, 6, 11});
    is_positions((struct cbf_hash){130, 0}, (uint64_t[]){2, 3, 4, 5});
    is_positions((struct cbf_hash){1, 191}, (uint64_t[]){1, 0, 63, 62});
    test_positions();
    free(bytes);
    return done_testing();
}
