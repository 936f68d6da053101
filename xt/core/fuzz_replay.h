/*
 * fuzz_replay.h - a main for fuzz.c where there is no libFuzzer: the inputs
 * kept in a file, and others made from them by a fixed seed.
 *
 * Not a fuzzer: it does not look at what an input reaches.
 */
#ifndef FUZZ_REPLAY_H
#define FUZZ_REPLAY_H

#define INPUT_MAX 4096u
#define INPUTS_MAX 4096u

static uint8_t *kept[INPUTS_MAX];
static size_t kept_bytes[INPUTS_MAX];
static unsigned n_kept;

static int
digit(int c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

static void
keep_line(const char *line)
{
    size_t n = 0;
    uint8_t *to;

    if (n_kept == INPUTS_MAX)
        return;
    to = malloc(INPUT_MAX);
    if (!to)
        bail("memory");
    while (n < INPUT_MAX && digit(line[2 * n]) >= 0
           && digit(line[2 * n + 1]) >= 0) {
        to[n] = (uint8_t)(digit(line[2 * n]) << 4 | digit(line[2 * n + 1]));
        n++;
    }
    kept[n_kept] = to;
    kept_bytes[n_kept++] = n;
}

static void
read_inputs(const char *name)
{
    FILE *file = fopen(name, "r");
    static char line[2 * INPUT_MAX + 16];

    if (!file)
        bail("%s can't be read", name);
    while (fgets(line, sizeof line, file))
        if (line[0] != '#')
            keep_line(line);
    fclose(file);
}

static uint64_t replay_state = 0x9E3779B97F4A7C15u;

static unsigned
replay_random(unsigned n)
{
    replay_state ^= replay_state << 13;
    replay_state ^= replay_state >> 7;
    replay_state ^= replay_state << 17;
    return (unsigned)(replay_state >> 32) % n;
}

/* Two inputs joined, a few bytes changed, most often to a telling value, and a
 * replacement somewhere in the header, the journal or the slots. */
static void
run_made(void)
{
    static const uint8_t telling[] = { 0, 1, 2, 0x7f, 0x80, 0xff };
    uint8_t made[2 * INPUT_MAX];
    unsigned a = replay_random(n_kept);
    unsigned b = replay_random(n_kept);
    size_t n = kept_bytes[a];
    unsigned changes = replay_random(8);
    size_t more = replay_random((unsigned)kept_bytes[b] + 1);

    memcpy(made, kept[a], n);
    memcpy(made + n, kept[b] + kept_bytes[b] - more, more);
    n += more;
    while (n > 0 && changes-- > 0)
        made[replay_random((unsigned)n)]
            = replay_random(2) ? telling[replay_random(sizeof telling)]
                               : (uint8_t)replay_random(256);
    if (n > 0 && replay_random(2)) {
        unsigned at = replay_random(4) ? replay_random(256)
                                       : replay_random(17000);
        unsigned i;

        made[n++] = (uint8_t)at;
        made[n++] = (uint8_t)(at >> 8);
        made[n++] = 15;
        for (i = 0; i < 16; i++)
            made[n++] = (uint8_t)replay_random(256);
    }
    LLVMFuzzerTestOneInput(made, n);
}

int
main(int argc, char **argv)
{
    const char *text = getenv("CBF_FUZZ_MADE");
    unsigned n_made = text ? (unsigned)strtoul(text, NULL, 10) : 2000;
    const char *files = getenv("CBF_FUZZ_INPUTS");
    unsigned i;

    watchdog(3600);
    for (i = 1; i < (unsigned)argc; i++)
        read_inputs(argv[i]);
    if (files)
        read_inputs(files);
    ok(n_kept > 0, "%u inputs kept", n_kept);
    for (i = 0; i < n_kept; i++)
        LLVMFuzzerTestOneInput(kept[i], kept_bytes[i]);
    ok(1, "all of them");
    for (i = 0; n_kept && i < n_made; i++)
        run_made();
    ok(1, "and %u made from them", n_made);
    for (i = 0; i < n_kept; i++)
        free(kept[i]);
    return done_testing();
}

#endif
