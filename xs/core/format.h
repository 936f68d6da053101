/*
 * format.h - the file, byte by byte: structures, magic numbers, offsets.
 *
 * One mapping is one file.  Words are native-endian.  Layout version 2 is
 * shared with releases 0.01 and 0.02, which neither read nor write what stands
 * under "ours" below.  No functions here, and no knowledge of what the words
 * are used for beyond their meaning, their unit and what guards them:
 *
 *   constant     written once at creation, never again
 *   write lock   changed only by the process whose pid is in `writer`
 *   atomic       changed by anybody, by read-modify-write
 */
#ifndef CBF_FORMAT_H
#define CBF_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define CBF_FMT_MAGIC 0x53464243u
#define CBF_FMT_VERSION 2u
#define CBF_FMT_MAX_PROBES 32u
#define CBF_FMT_MIN_COUNTERS ((uint64_t)64)
#define CBF_FMT_MAX_COUNTERS ((uint64_t)1 << 38)
#define CBF_FMT_SLOTS 1024u
#define CBF_FMT_BITMAP_WORDS (CBF_FMT_SLOTS / 64)
#define CBF_FMT_SLOTS_OFFSET 256u
#define CBF_FMT_BITMAP_OFFSET 16640u
#define CBF_FMT_COUNTERS_OFFSET 16768u
#define CBF_FMT_WRITER_HELD 0x80000000u

/* `parked`: how many wait on `writer`, whether one was just woken, and whether
 * one has waited for so long that newcomers must let it go first. */
#define CBF_FMT_PARKED_WRITER 1u
#define CBF_FMT_PARKED_WRITERS 0x00007fffu
#define CBF_FMT_PARKED_READER 0x00008000u
#define CBF_FMT_PARKED_READERS 0x3fff8000u
#define CBF_FMT_PARKED_TURN 0x40000000u
#define CBF_FMT_PARKED_WOKEN 0x80000000u

#define CBF_FMT_IN_FLIGHT ((uint64_t)1 << 63)

/* Running totals over all counters; the unit is counters, or counter value. */
struct cbf_fmt_tally {
    uint64_t nonzero;   /* counters above 0 */
    uint64_t saturated; /* counters at 15 */
    uint64_t sum;       /* of all counter values */
};

/*
 * What the change under way needs to be undone or finished.  Write lock.
 * `state` is written last when a record begins and first when it ends:
 * 0 = nothing pending, else ops << 3 | kind (CBF_JOURNAL_... in journal.h).
 */
struct cbf_fmt_journal {
    uint64_t lo;                /* the item's hash; a merge: its block */
    uint64_t hi;
    uint64_t old[2];            /* value of probe i before: 4 bits each */
    struct cbf_fmt_tally tally; /* before; a merge: without its block */
    uint64_t state;
};

struct cbf_fmt_header {
    uint32_t magic;   /* constant, written last at creation */
    uint32_t version; /* constant */
    uint32_t n_probes;
    uint32_t zero;
    uint64_t n_counters;
    uint64_t mask; /* n_counters - 1 */
    uint64_t capacity;
    double fp_rate;
    uint64_t file_bytes;
    uint64_t slots_offset;
    uint64_t counters_offset;
    uint32_t writer;   /* 0 = free, else WRITER_HELD + pid; a futex; atomic */
    uint32_t parked;   /* CBF_FMT_PARKED_...; a hint, may be stale; atomic */
    uint32_t drain;    /* a futex, bumped when a reader leaves; atomic */
    uint32_t slotless; /* of 0.01 and 0.02; never counted, never waited for */
    uint64_t ops;      /* mutator calls since creation; write lock */
    uint8_t seal;      /* 0 = mutable, 1 = frozen; write lock, never back */
    uint8_t reserved[31];

    /* ours, from here to the slots */
    struct cbf_fmt_journal journal; /* a cache line of its own */
    struct cbf_fmt_tally tally;     /* write lock; valid if tally_ops == ops */
    uint64_t tally_ops; /* IN_FLIGHT + ops to be: a call is being counted */
    uint64_t writer_id;             /* identity of the holder, if writer_pid */
    uint32_t writer_pid;            /* is its pid; 0 while nobody holds */
    uint32_t recovered;             /* dead processes taken over; write lock */
    uint64_t checksum;              /* XXH3-64 of the counters when sealed */
    uint64_t checksum_ops;          /* ops * 2 + 1 at that time; 0 = none */
};

/* One process that uses the filter. */
struct cbf_fmt_slot {
    union {
        struct {
            uint32_t pid;  /* 0 = free */
            uint32_t held; /* shared locks held now */
        } part;
        uint64_t both; /* for one compare-and-swap over the two */
    } owner;
    uint64_t id; /* ours: identity of the process; claims the slot */
};

#define CBF_FMT_ASSERT(cond) _Static_assert(cond, #cond)
#define CBF_FMT_AT(field, offset)                                            \
    CBF_FMT_ASSERT(offsetof(struct cbf_fmt_header, field) == (offset))

CBF_FMT_AT(magic, 0);
CBF_FMT_AT(version, 4);
CBF_FMT_AT(n_probes, 8);
CBF_FMT_AT(zero, 12);
CBF_FMT_AT(n_counters, 16);
CBF_FMT_AT(mask, 24);
CBF_FMT_AT(capacity, 32);
CBF_FMT_AT(fp_rate, 40);
CBF_FMT_AT(file_bytes, 48);
CBF_FMT_AT(slots_offset, 56);
CBF_FMT_AT(counters_offset, 64);
CBF_FMT_AT(writer, 72);
CBF_FMT_AT(parked, 76);
CBF_FMT_AT(drain, 80);
CBF_FMT_AT(slotless, 84);
CBF_FMT_AT(ops, 88);
CBF_FMT_AT(seal, 96);
CBF_FMT_AT(journal, 128);
CBF_FMT_AT(tally, 192);
CBF_FMT_AT(tally_ops, 216);
CBF_FMT_AT(writer_id, 224);
CBF_FMT_AT(writer_pid, 232);
CBF_FMT_AT(recovered, 236);
CBF_FMT_AT(checksum, 240);
CBF_FMT_AT(checksum_ops, 248);
CBF_FMT_ASSERT(sizeof(struct cbf_fmt_header) == CBF_FMT_SLOTS_OFFSET);
CBF_FMT_ASSERT(sizeof(struct cbf_fmt_journal) == 64);
CBF_FMT_ASSERT(sizeof(struct cbf_fmt_slot) == 16);
CBF_FMT_ASSERT(CBF_FMT_SLOTS_OFFSET + CBF_FMT_SLOTS * 16
               == CBF_FMT_BITMAP_OFFSET);
CBF_FMT_ASSERT(CBF_FMT_BITMAP_OFFSET + CBF_FMT_BITMAP_WORDS * 8
               == CBF_FMT_COUNTERS_OFFSET);
CBF_FMT_ASSERT(CBF_FMT_COUNTERS_OFFSET % 64 == 0);
CBF_FMT_ASSERT(sizeof(size_t) == 8);

#endif
