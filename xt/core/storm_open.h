/*
 * storm_open.h - the scenes of storm_table.c about files being made, opened
 * and closed, and about recoveries that are killed.
 *
 * Part of that program, in a file of its own for its length only.
 */
#ifndef STORM_OPEN_H
#define STORM_OPEN_H

#define OPENERS 3

/* ---- new and close: processes that make, open, use and close one file --- */

/* One item a time the file was open: 0 .. finished - 1 are in, the next may
 * be.  A file that another left half made is refused, by its name. */
static void
open_and_close(const struct cbf_geometry *g, struct seat *seat, unsigned me)
{
    struct cbf_error e;
    struct cbf *f;
    char text[48];
    uint64_t began;
    int changed;
    int code;
    int len;

    cbf_release32(&seat->ready, 1);
    while (!cbf_acquire32(&board->go))
        storm_wait_ns(1000);
    while (seat->begun < 200) {
        began = storm_now_ns();
        code = cbf_open_path(path, g, 0600, &f, &e);
        if (code == CBF_E_INCOMPLETE || code == CBF_E_BUSY) {
            seat->refused++;
            storm_nap();
            continue;
        }
        if (code != CBF_OK) {
            seat->failed = 1000 + (unsigned)code;
            break;
        }
        len = snprintf(text, sizeof text, "a-%u-%u", me, seat->begun);
        cbf_release32(&seat->begun, seat->begun + 1);
        if (cbf_add(f, text, (size_t)len, &changed, &e) == 0)
            cbf_release32(&seat->finished, seat->begun);
        else
            seat->failed = 2000 + (unsigned)e.code;
        cbf_unref(f);
        began = storm_now_ns() - began;
        if (began > seat->slowest_ns)
            seat->slowest_ns = began;
    }
    for (;;)
        pause();
}

/* With each item under way in or out: one of 2^OPENERS tables. */
static int
is_opened(const struct storm_model *table, const struct seat *seats)
{
    struct storm_model m = { table->n, table->n_probes, calloc(table->n, 1) };
    unsigned mask;
    unsigned i;
    int found = 0;

    for (mask = 0; !found && mask < 1u << OPENERS; mask++) {
        memset(m.value, 0, m.n);
        for (i = 0; i < OPENERS; i++)
            add_to_model(&m, i, 0,
                         mask >> i & 1 ? seats[i].begun : seats[i].finished);
        found = storm_same(&m, table);
    }
    free(m.value);
    return found;
}

static unsigned n_incomplete;

/* Everybody is dead: the file must open, or say that it was never finished. */
static void
check_opened(unsigned round, const struct cbf_geometry *g,
             struct seat *seats, struct storm_model *table)
{
    struct cbf_error e;
    struct cbf *f;
    struct stat st;
    uint64_t began = storm_now_ns();
    int exists = stat(path, &st) == 0;
    int code = cbf_open_path(path, g, 0600, &f, &e);
    unsigned used = 0;
    unsigned i;

    slow(storm_now_ns() - began);
    for (i = 0; i < OPENERS; i++)
        used += seats[i].begun;
    if (code == CBF_E_INCOMPLETE && exists && used == 0) {
        n_incomplete++;
        unlink(path);
        code = cbf_open_path(path, g, 0600, &f, &e);
    }
    if (code != CBF_OK) {
        fault("open", round, cbf_error_text(code));
        diag("code %d, what %s", code, e.what ? e.what : "-");
        unlink(path);
        return;
    }
    look("open", round, f, table);
    if (!is_opened(table, seats))
        fault("open", round, "the table is not what was added");
    for (i = 0; i < OPENERS; i++) {
        if (seats[i].failed) {
            fault("open", round, "a process was refused");
            diag("code %u", seats[i].failed);
        }
        slow(seats[i].slowest_ns);
    }
    cbf_unref(f);
    unlink(path);
}

static void
scene_open(unsigned rounds)
{
    struct seat *seats = storm_shared(OPENERS * sizeof *seats);
    struct cbf_geometry g;
    struct storm_model table;
    pid_t pid[OPENERS];
    unsigned round;
    unsigned i;
    unsigned faults = figure.faults;

    cbf_geometry_plan(600, 0.01, &g);
    table = storm_model(&g);
    for (round = 0; round < rounds; round++) {
        memset(board, 0, sizeof *board);
        memset(seats, 0, OPENERS * sizeof *seats);
        for (i = 0; i < OPENERS; i++) {
            pid[i] = child();
            if (pid[i] == 0)
                open_and_close(&g, &seats[i], i);
        }
        for (i = 0; i < OPENERS; i++)
            while (!cbf_acquire32(&seats[i].ready))
                storm_nap();
        cbf_release32(&board->go, 1);
        /* most of the time in the act of making it */
        storm_wait_ns(storm_random(round % 4 ? 120000 : 4000000));
        for (i = 0; i < OPENERS; i++) {
            storm_kill(pid[(i + round) % OPENERS]);
            figure.kills++;
            if (round % 2)
                storm_wait_ns(storm_random(200000));
        }
        check_opened(round, &g, seats, &table);
    }
    free(table.value);
    ok(figure.faults == faults,
       "make, open, close: %u kills, %u files left half made",
       rounds * OPENERS, n_incomplete);
}

/* ---- chains: who recovers is killed, and who recovers from that --------- */

#define CHAIN 4

/* Clearing this table takes long enough to be killed in, time and again. */
static void
dirty(struct cbf *f)
{
    struct cbf_fmt_header *hdr = cbf_header(f);
    size_t bytes = f->table.counter_bytes;
    struct cbf_tally t;

    memset(f->table.counters, 0x11, bytes);
    cbf_counter_tally(f->counters, bytes, &t);
    cbf_journal_tally_store(&hdr->tally, &t);
    cbf_store64(&hdr->tally_ops, cbf_load64(&hdr->ops));
}

static int
half_cleared(const struct cbf *f)
{
    const uint8_t *c = f->counters;
    size_t last = f->table.counter_bytes - 1;

    return cbf_load8(c) == 0 && cbf_load8(c + last) != 0;
}

static int
held_by(const struct cbf *f, pid_t pid)
{
    return cbf_load32(&cbf_header(f)->writer)
           == (CBF_FMT_WRITER_HELD | (uint32_t)pid);
}

/* One link: a process that clears (the first), or wants to look. */
static int
strike_link(struct cbf *f, int first)
{
    struct cbf_stats s;
    struct cbf_error e;
    uint64_t end;
    pid_t pid;

    memset(board, 0, sizeof *board);
    pid = child();
    if (pid == 0) {
        cbf_release32(&board->victim.ready, 1);
        if (first)
            cbf_clear(f, &e);
        else
            cbf_stats(f, &s, &e);
        cbf_release32(&board->victim.finished, 1);
        for (;;)
            pause();
    }
    end = storm_now_ns() + 1000000000u;
    while (!held_by(f, pid) && !cbf_acquire32(&board->victim.finished)
           && storm_now_ns() < end)
        cbf_spin_pause();
    storm_wait_ns(storm_random(200000));
    storm_kill(pid);
    figure.kills++;
    return held_by(f, pid);
}

static void
scene_chain(unsigned rounds)
{
    struct cbf_geometry g;
    struct cbf_error e;
    struct cbf_stats s;
    struct cbf *f;
    uint64_t began;
    uint32_t recovered;
    unsigned round;
    unsigned link;
    unsigned held;
    unsigned deepest = 0;
    unsigned faults = figure.faults;
    int changed;

    cbf_geometry_plan(1500000, 0.001, &g);
    if (cbf_open_anonymous(&g, &f, &e) != 0)
        bail("open");
    for (round = 0; round < rounds || (deepest < 3 && round < 9 * rounds);
         round++) {
        dirty(f);
        recovered = cbf_load32(&cbf_header(f)->recovered);
        held = 0;
        for (link = 0; link < CHAIN && held == link; link++)
            held += strike_link(f, link == 0) != 0;
        figure.inside += half_cleared(f);
        if (held > deepest)
            deepest = held;
        began = storm_now_ns();
        if (cbf_stats(f, &s, &e) != 0)
            fault("chain", round, "stats fails");
        slow(storm_now_ns() - began);
        if (s.nonzero == 0 && (s.sum || s.saturated))
            fault("chain", round, "totals at odds");
        if (s.nonzero != 0 && s.nonzero != g.n_counters)
            fault("chain", round, "cleared in part");
        cbf_add(f, "later", 5, &changed, &e);
        cbf_remove(f, "later", 5, &changed, &e);
        /* nobody may die with the lock and not be counted */
        if (s.recovered - recovered != held)
            fault("chain", round, "recovered is not the number of deaths");
    }
    cbf_unref(f);
    ok(deepest >= 3, "chains of up to %u deaths", deepest);
    ok(figure.faults == faults, "recoveries that are killed: %u chains",
       round);
}

#endif
