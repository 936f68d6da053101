/*
 * store_header.c - the header of a filter: its bytes when it is new, and every
 * field damaged in turn, in every way to open a file.
 *
 * Expected bytes are written by hand from the documented offsets.
 */
#include "store_help.h"

/* ---- damage ------------------------------------------------------------- */

struct damage {
    const char *field;
    size_t offset;
    size_t width;
    uint64_t value;
    int code;
    const char *what; /* NULL: any text, but some */
};

#define DOUBLE_ONE 0x3ff0000000000000u
#define DOUBLE_NAN 0x7ff8000000000000u
#define DOUBLE_MINUS 0xbf847ae147ae147bu

static const struct damage damages[] = {
    { "magic", 0, 4, 0x43424653, CBF_E_INVALID, "magic number" },
    { "magic", 0, 4, 0x53464244, CBF_E_INVALID, "magic number" },
    { "magic", 0, 4, 0, CBF_E_INCOMPLETE, NULL },
    { "version", 4, 4, 0, CBF_E_INVALID, "version" },
    { "version", 4, 4, 1, CBF_E_INVALID, "version" },
    { "version", 4, 4, 3, CBF_E_INVALID, "version" },
    { "probes", 8, 4, 0, CBF_E_INVALID, NULL },
    { "probes", 8, 4, 33, CBF_E_INVALID, NULL },
    { "probes", 8, 4, 0xffffffff, CBF_E_INVALID, NULL },
    { "zero", 12, 4, 1, CBF_E_INVALID, "zero word" },
    { "counters", 16, 8, 0, CBF_E_INVALID, NULL },
    { "counters", 16, 8, 32, CBF_E_INVALID, NULL },
    { "counters", 16, 8, 16383, CBF_E_INVALID, NULL },
    { "counters", 16, 8, 16386, CBF_E_INVALID, NULL },
    { "counters", 16, 8, (uint64_t)1 << 39, CBF_E_INVALID, NULL },
    { "counters", 16, 8, (uint64_t)1 << 63, CBF_E_INVALID, NULL },
    { "counters", 16, 8, 8192, CBF_E_INVALID, "mask" },
    { "mask", 24, 8, 0, CBF_E_INVALID, "mask" },
    { "mask", 24, 8, 16384, CBF_E_INVALID, "mask" },
    { "mask", 24, 8, UINT64_MAX, CBF_E_INVALID, "mask" },
    { "capacity", 32, 8, 0, CBF_E_INVALID, NULL },
    { "rate", 40, 8, 0, CBF_E_INVALID, NULL },
    { "rate", 40, 8, DOUBLE_ONE, CBF_E_INVALID, NULL },
    { "rate", 40, 8, DOUBLE_NAN, CBF_E_INVALID, NULL },
    { "rate", 40, 8, DOUBLE_MINUS, CBF_E_INVALID, NULL },
    { "size", 48, 8, 0, CBF_E_INVALID, "size in the header" },
    { "size", 48, 8, 24961, CBF_E_INVALID, "size in the header" },
    { "size", 48, 8, UINT64_MAX, CBF_E_INVALID, "size in the header" },
    { "slots", 56, 8, 0, CBF_E_INVALID, "offset of the reader slots" },
    { "slots", 56, 8, 264, CBF_E_INVALID, "offset of the reader slots" },
    { "table", 64, 8, 0, CBF_E_INVALID, "offset of the counters" },
    { "table", 64, 8, 16640, CBF_E_INVALID, "offset of the counters" },
    { "seal", 96, 1, 2, CBF_E_INVALID, "seal" },
    { "seal", 96, 1, 255, CBF_E_INVALID, "seal" },
};

#define N_DAMAGES (sizeof damages / sizeof *damages)

static void
damage(uint8_t *file, const struct damage *d)
{
    uint32_t half = (uint32_t)d->value;
    uint8_t byte = (uint8_t)d->value;

    if (d->width == 8)
        memcpy(file + d->offset, &d->value, 8);
    else if (d->width == 4)
        memcpy(file + d->offset, &half, 4);
    else
        memcpy(file + d->offset, &byte, 1);
}

static int
opened_by_fd(struct cbf_store *s, const char *path, struct cbf_error *e)
{
    int fd = open(path, O_RDWR);
    int code;

    if (fd < 0)
        give_up(path);
    code = cbf_store_from_fd(s, fd, e);
    close(fd);
    return code;
}

/* A refusal: the code, the text, nothing left open, the store closed. */
static void
refused(const struct damage *d, const char *mode, int code,
        const struct cbf_error *e, const struct cbf_store *s)
{
    ok(code == d->code && e->code == d->code, "%s = %llx, %s: code %d",
       d->field, (unsigned long long)d->value, mode, code);
    if (d->code == CBF_E_INVALID)
        ok(e->what && (!d->what || strcmp(e->what, d->what) == 0),
           "... which names it: %s", e->what ? e->what : "nothing");
    if (s)
        ok(!s->base && s->fd == -1 && !s->path, "... and nothing is held");
}

static void
test_damaged_fields(void)
{
    uint8_t file[SMALL_BYTES];
    uint8_t after[SMALL_BYTES + 1];
    struct cbf_geometry g;
    struct cbf_store s;
    struct cbf_error e;
    unsigned before = open_descriptors();
    size_t i;

    for (i = 0; i < N_DAMAGES; i++) {
        const struct damage *d = &damages[i];

        memcpy(file, good, SMALL_BYTES);
        file[20000] = 0x21;
        damage(file, d);
        refused(d, "validate",
                cbf_store_validate(file, SMALL_BYTES, &g, NULL, &e), &e,
                NULL);
        spew("damaged", file, SMALL_BYTES);
        refused(d, "open",
                cbf_store_open(&s, "damaged", &small_plan, 0640, &e), &e,
                &s);
        refused(d, "fd", opened_by_fd(&s, "damaged", &e), &e, &s);
        file[96] = file[96] ? file[96] : 1;
        spew("sealed", file, SMALL_BYTES);
        refused(d, "readonly", cbf_store_readonly(&s, "sealed", &e), &e, &s);
        file[96] = file[96] == 1 ? 0 : file[96];
        ok(slurp("damaged", after, sizeof after) == SMALL_BYTES
           && memcmp(after, file, SMALL_BYTES) == 0
           && mode_of("damaged") == 0600, "... the file is as it was");
    }
    is_u64(open_descriptors(), before, "no refusal leaves a descriptor");
}

/* ---- header ------------------------------------------------------------- */

static void
test_format(void)
{
    uint8_t *bytes = calloc(1, SMALL_BYTES);
    size_t i;
    int same = 1;

    cbf_store_format(bytes, &small_plan);
    for (i = 0; i < SMALL_BYTES; i++) {
        if (bytes[i] != good[i]) {
            ok(0, "byte %u is %02x, not %02x", (unsigned)i, bytes[i],
               good[i]);
            same = 0;
        }
    }
    ok(same, "a formatted filter has the documented bytes");
    free(bytes);
}

static void
test_validate(void)
{
    /* at an odd address: an image may stand anywhere */
    uint8_t *room = malloc(SMALL_BYTES + 1);
    uint8_t *file = room + 1;
    struct cbf_geometry g;
    struct cbf_error e;
    int sealed = 7;

    memcpy(file, good, SMALL_BYTES);
    memset(&g, 0xff, sizeof g);
    is_u64(cbf_store_validate(file, SMALL_BYTES, &g, &sealed, &e), CBF_OK,
           "a good header is good");
    is_u64(sealed, 0, "... not sealed");
    is_u64(g.capacity, 1000, "... capacity");
    ok(g.fp_rate == 0.01, "... rate");
    is_u64(g.n_counters, 16384, "... counters");
    is_u64(g.n_probes, 7, "... probes");
    is_u64(g.counter_bytes, 8192, "... bytes of counters");
    is_u64(g.file_bytes, 24960, "... bytes in all");
    file[96] = 1;
    is_u64(cbf_store_validate(file, SMALL_BYTES, &g, &sealed, NULL), CBF_OK,
           "a sealed one too, without a place for errors");
    is_u64(sealed, 1, "... sealed");
    /* all that other processes or releases may leave there */
    memset(file + 72, 0xee, 24);
    memset(file + 97, 0xee, 16768 - 97);
    is_u64(cbf_store_validate(file, SMALL_BYTES, &g, &sealed, &e), CBF_OK,
           "lock words, journal and slots don't matter");
    free(room);
}

static void
test_sizes(void)
{
    static const size_t cut[] = { 0, 1, 4, 255, 256, 4096, 16768, 16799 };
    uint8_t *file = calloc(1, SMALL_BYTES + 8192);
    struct cbf_geometry g = { .capacity = 42 };
    struct cbf_error e;
    size_t i;

    memcpy(file, good, SMALL_BYTES);
    for (i = 0; i < sizeof cut / sizeof *cut; i++)
        is_u64(cbf_store_validate(file, cut[i], &g, NULL, &e),
               CBF_E_TOO_SMALL, "%u bytes are too few", (unsigned)cut[i]);
    for (i = SMALL_BYTES - 8160; i <= SMALL_BYTES + 8192; i += 32)
        if (i != SMALL_BYTES
            && (cbf_store_validate(file, i, &g, NULL, &e) != CBF_E_INVALID
                || strcmp(e.what, "size of the file") != 0))
            ok(0, "%u bytes are not refused as they should", (unsigned)i);
    ok(1, "other sizes than the header's are refused");
    is_u64(g.capacity, 42, "a refusal leaves the geometry alone");
    free(file);
}

static int
code_of(const uint8_t *file)
{
    struct cbf_geometry g;

    return cbf_store_validate(file, SMALL_BYTES, &g, NULL, NULL);
}

/* A header is begun if it is ours as far as it goes. */
static void
test_begun(void)
{
    static const size_t field[] = { 4, 8, 16, 24, 32, 40, 48, 56, 64 };
    static const size_t width[] = { 4, 4, 8, 8, 8, 8, 8, 8, 8 };
    static const struct { uint32_t offset; uint32_t value; } wrong[] = {
        { 4, 1 }, { 4, 3 }, { 8, 33 }, { 12, 1 }, { 16, 16385 }, { 56, 255 },
        { 64, 16769 },
    };
    uint8_t file[SMALL_BYTES] = { 0 };
    size_t i;

    is_u64(code_of(file), CBF_E_INVALID, "all zero is not a header begun");
    for (i = 0; i < sizeof field / sizeof *field; i++) {
        memcpy(file + field[i], good + field[i], width[i]);
        is_u64(code_of(file), CBF_E_INCOMPLETE, "begun, up to byte %u",
               (unsigned)(field[i] + width[i]));
    }
    memset(file, 0, sizeof file);
    memcpy(file + 4, "ftyp", 4);
    is_u64(code_of(file), CBF_E_INVALID,
           "a stranger's file that begins with zeros is invalid instead");
    for (i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memset(file, 0, sizeof file);
        put32(file, 4, 2);
        put32(file, wrong[i].offset, wrong[i].value);
        is_u64(code_of(file), CBF_E_INVALID, "... so is %u at byte %u",
               wrong[i].value, wrong[i].offset);
    }
    memcpy(file, good, 72);
    put32(file, 0, 0);
    put64(file, 24, 16384);
    is_u64(code_of(file), CBF_E_INVALID, "... and a mask of another size");
    memset(file, 0, sizeof file);
    file[300] = 1;
    is_u64(code_of(file), CBF_E_INVALID, "... and one without a header");
}

int
main(void)
{
    enter_directory();
    hand_made(good);
    test_format();
    test_validate();
    test_sizes();
    test_begun();
    test_damaged_fields();
    leave_directory();
    return done_testing();
}
