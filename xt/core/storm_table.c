/*
 * storm_table.c - processes are killed at random instants inside clear, merge,
 * freeze, creation and opening, while others add; and those who recover from
 * it are killed too.
 *
 * What the table may be then is worked out from what each process has said it
 * finished: see each scene.  Single items and batches are storm.c's.
 */
#include "storm.h"
#include <fcntl.h>
#include <sys/stat.h>

#define ADDERS 2
#define ADDS_MAX 3000u /* by each, so that no counter comes near 15 */

/* What a process says, in shared memory. */
struct seat {
    uint32_t ready;
    uint32_t begun;    /* its items 0 .. begun - 1 were begun */
    uint32_t finished; /* and of these, so many calls returned with 0 */
    uint32_t refused;  /* calls that said "frozen" */
    uint32_t failed;   /* calls that returned anything else */
    uint64_t slowest_ns;
};

struct board {
    uint32_t go;
    uint32_t stop; /* stand still, at the end of a call */
    struct seat victim;
    struct seat adder[ADDERS];
};

static struct board *board;
static char path[512];

static struct {
    unsigned kills;
    unsigned inside; /* of them, found half way */
    unsigned faults;
    uint64_t slowest_ns;
} figure;

static void
fault(const char *scene, unsigned round, const char *what)
{
    figure.faults++;
    if (figure.faults < 20)
        diag("%s, round %u: %s", scene, round, what);
}

static void
slow(uint64_t ns)
{
    if (ns > figure.slowest_ns)
        figure.slowest_ns = ns;
}

static void
await_go(struct seat *seat)
{
    cbf_release32(&seat->ready, 1);
    while (!cbf_acquire32(&board->go))
        storm_nap();
}

/* Adds items of its own until it is told to stop, or may not any more. */
static void
add_items(struct cbf *f, unsigned me)
{
    struct seat *seat = &board->adder[me];
    struct cbf_error e;
    char text[48];
    uint64_t began;
    int changed;
    int len;
    int code;

    await_go(seat);
    while (!cbf_acquire32(&board->stop) && seat->begun < ADDS_MAX) {
        len = snprintf(text, sizeof text, "a-%u-%u", me, seat->begun);
        cbf_release32(&seat->begun, seat->begun + 1);
        began = storm_now_ns();
        code = cbf_add(f, text, (size_t)len, &changed, &e);
        began = storm_now_ns() - began;
        if (began > seat->slowest_ns)
            seat->slowest_ns = began;
        if (code == CBF_OK)
            cbf_release32(&seat->finished, seat->finished + 1);
        else if (code == CBF_E_FROZEN || code == CBF_E_READONLY)
            seat->refused++;
        else
            seat->failed++;
        if (code != CBF_OK)
            break;
        storm_wait_ns(3000); /* so that the table does not fill at once */
    }
    _exit(0);
}

static pid_t
child(void)
{
    pid_t pid = fork();

    if (pid < 0)
        bail("fork");
    if (pid == 0)
        storm_child(60);
    return pid;
}

/* Starts the adders; the caller has started the victim. */
static void
start_adders(struct cbf *f, pid_t adder[ADDERS])
{
    unsigned i;

    for (i = 0; i < ADDERS; i++) {
        adder[i] = child();
        if (adder[i] == 0)
            add_items(f, i);
    }
}

static void
all_go(void)
{
    unsigned i;

    while (!cbf_acquire32(&board->victim.ready))
        storm_nap();
    for (i = 0; i < ADDERS; i++)
        while (!cbf_acquire32(&board->adder[i].ready))
            storm_nap();
    cbf_release32(&board->go, 1);
}

/* Lets the adders come to their end, and collects what they noticed. */
static void
end_adders(const char *scene, unsigned round, const pid_t adder[ADDERS])
{
    int status;
    unsigned i;

    cbf_release32(&board->stop, 1);
    for (i = 0; i < ADDERS; i++) {
        waitpid(adder[i], &status, 0);
        if (status != 0)
            fault(scene, round, "an adder was lost");
        if (board->adder[i].failed)
            fault(scene, round, "an add failed");
        slow(board->adder[i].slowest_ns);
    }
}

static void
add_to_model(struct storm_model *m, unsigned who, unsigned from, unsigned to)
{
    for (; from < to; from++)
        storm_change(m, storm_item("a", who, from), 1);
}

static void
look(const char *scene, unsigned round, struct cbf *f, struct storm_model *t)
{
    struct cbf_stats s;
    struct cbf_error e;
    uint64_t began = storm_now_ns();

    if (cbf_stats(f, &s, &e) != 0)
        fault(scene, round, "stats fails");
    slow(storm_now_ns() - began);
    storm_read(t, f);
    if (!storm_totals(&s, t))
        fault(scene, round, "the totals are not those of a recount");
    if (!cbf_frozen(f) && cbf_load32(&cbf_header(f)->writer) != 0)
        fault(scene, round, "the lock is still held");
}

/* ---- clear: the table holds what was added after some instant ----------- */

static void
victim_clears(struct cbf *f)
{
    struct cbf_error e;

    await_go(&board->victim);
    storm_wait_ns(300000 + storm_random(700000));
    /* what was in by then is to go */
    board->victim.refused = cbf_acquire32(&board->adder[0].finished)
                            + cbf_acquire32(&board->adder[1].finished);
    cbf_release32(&board->victim.begun, 1);
    cbf_clear(f, &e);
    cbf_release32(&board->victim.finished, 1);
    for (;;)
        pause();
}

/*
 * Adder 0's items from c on and adder 1's from d on, for some c and d: the sum
 * of all counters gives d for each c.  Walks c up and so d down.
 */
static int
is_suffix(const struct storm_model *table, unsigned *cut)
{
    unsigned n0 = board->adder[0].finished;
    unsigned n1 = board->adder[1].finished;
    struct storm_model m = { table->n, table->n_probes, calloc(table->n, 1) };
    unsigned sum = 0;
    unsigned in;
    unsigned c;
    unsigned d;
    int found = 0;
    uint32_t i;

    for (i = 0; i < table->n; i++)
        sum += table->value[i];
    in = sum / table->n_probes;
    if (sum % table->n_probes == 0 && in <= n0 + n1) {
        c = in > n0 ? 0 : n0 - in;
        d = n1 - (in - (n0 - c));
        add_to_model(&m, 0, c, n0);
        add_to_model(&m, 1, d, n1);
        found = storm_same(&m, table);
        while (!found && c < n0 && d > 0) {
            storm_change(&m, storm_item("a", 0, c++), -1);
            storm_change(&m, storm_item("a", 1, --d), 1);
            found = storm_same(&m, table);
        }
        *cut = c + d;
    }
    free(m.value);
    return found;
}

static void
scene_clear(unsigned rounds)
{
    struct cbf_geometry g;
    struct cbf_error e;
    struct storm_model table;
    struct cbf *f;
    pid_t adder[ADDERS];
    pid_t pid;
    unsigned round;
    unsigned cut = 0;
    unsigned faults = figure.faults;

    cbf_geometry_plan(6000, 0.01, &g);
    table = storm_model(&g);
    for (round = 0; round < rounds; round++) {
        memset(board, 0, sizeof *board);
        if (cbf_open_anonymous(&g, &f, &e) != 0)
            bail("open");
        pid = child();
        if (pid == 0)
            victim_clears(f);
        start_adders(f, adder);
        all_go();
        while (!cbf_acquire32(&board->victim.begun))
            cbf_spin_pause();
        storm_wait_ns(storm_random(round % 2 ? 12000 : 400));
        storm_kill(pid);
        figure.kills++;
        figure.inside += !board->victim.finished;
        storm_wait_ns(200000);
        end_adders("clear", round, adder);
        look("clear", round, f, &table);
        if (!is_suffix(&table, &cut))
            fault("clear", round, "not what was added after some instant");
        else if (board->victim.finished && cut < board->victim.refused)
            fault("clear", round, "a finished clear left something");
        else if (!board->victim.begun && cut != 0)
            fault("clear", round, "cleared before it was begun");
        cbf_unref(f);
    }
    free(table.value);
    ok(figure.faults == faults, "clear among adders: %u kills", rounds);
}

/* ---- merge: each counter with it or without, no addition lost ----------- */

static void
victim_merges(struct cbf *f, struct cbf *source)
{
    struct cbf_error e;

    await_go(&board->victim);
    storm_wait_ns(storm_random(300000));
    while (board->victim.begun < 4) {
        cbf_release32(&board->victim.begun, board->victim.begun + 1);
        cbf_merge(f, source, &e);
        cbf_release32(&board->victim.finished, board->victim.begun);
    }
    for (;;)
        pause();
}

static int
is_merged(const struct storm_model *table, const struct storm_model *source,
          const struct storm_model *added)
{
    unsigned finished = board->victim.finished;
    unsigned maybe = board->victim.begun - finished;
    int half[2] = { 0, 0 };
    uint32_t i;

    for (i = 0; i < table->n; i++) {
        unsigned least = added->value[i] + finished * source->value[i];

        if (source->value[i] == 0 || !maybe) {
            if (table->value[i] != least)
                return 0;
            continue;
        }
        if (table->value[i] != least
            && table->value[i] != least + source->value[i])
            return 0;
        half[table->value[i] != least] = 1;
    }
    figure.inside += half[0] && half[1];
    return 1;
}

static void
scene_merge(unsigned rounds)
{
    struct cbf_geometry g;
    struct cbf_error e;
    struct storm_model table;
    struct storm_model source_model;
    struct storm_model added;
    struct cbf *f;
    struct cbf *source;
    pid_t adder[ADDERS];
    pid_t pid;
    unsigned round;
    unsigned i;
    unsigned faults = figure.faults;

    cbf_geometry_plan(50000, 0.01, &g);
    table = storm_model(&g);
    added = storm_model(&g);
    source_model = storm_model(&g);
    if (cbf_open_anonymous(&g, &source, &e) != 0)
        bail("open");
    for (i = 0; i < 20000; i++) {
        struct cbf_hash h = storm_item("s", 0, i);
        size_t n;

        cbf_add_if_absent_many(source, &h, 1, NULL, &n, &e);
    }
    storm_read(&source_model, source);
    for (i = 0; i < source_model.n; i++)
        if (source_model.value[i] > 2)
            source_model.value[i] = 0;
    /* at most 2 each, so that four merges stay below 15 */
    for (i = 0; i < source_model.n; i += 2)
        source->table.counters[i / 2]
            = (uint8_t)(source_model.value[i]
                        | source_model.value[i + 1] << 4);
    for (round = 0; round < rounds; round++) {
        memset(board, 0, sizeof *board);
        if (cbf_open_anonymous(&g, &f, &e) != 0)
            bail("open");
        pid = child();
        if (pid == 0)
            victim_merges(f, source);
        start_adders(f, adder);
        all_go();
        while (!cbf_acquire32(&board->victim.begun))
            cbf_spin_pause();
        storm_wait_ns(storm_random(2000000));
        storm_kill(pid);
        figure.kills++;
        storm_wait_ns(100000);
        end_adders("merge", round, adder);
        look("merge", round, f, &table);
        memset(added.value, 0, added.n);
        for (i = 0; i < ADDERS; i++)
            add_to_model(&added, i, 0, board->adder[i].finished);
        if (!is_merged(&table, &source_model, &added))
            fault("merge", round, "a counter is not with it nor without");
        cbf_unref(f);
    }
    cbf_unref(source);
    free(table.value);
    free(added.value);
    free(source_model.value);
    ok(figure.faults == faults, "merge among adders: %u kills", rounds);
}

/* ---- freeze: sealed with a right checksum, or as if never begun --------- */

static void
victim_freezes(struct cbf *f)
{
    struct cbf_error e;

    await_go(&board->victim);
    storm_wait_ns(200000 + storm_random(100000));
    cbf_release32(&board->victim.begun, 1);
    cbf_freeze(f, &e);
    cbf_release32(&board->victim.finished, 1);
    for (;;)
        pause();
}

static void
check_frozen(unsigned round, struct cbf *f)
{
    struct cbf *reader;
    struct cbf_error e;
    int result = 0;
    int changed;
    int code;

    if (cbf_frozen(f)) {
        if (cbf_verify(f, &result, &e) != 0 || result != 1)
            fault("freeze", round, "sealed with a wrong checksum");
        if (cbf_open_readonly(path, &reader, &e) == 0)
            cbf_unref(reader);
        else
            fault("freeze", round, "sealed, and can't be opened");
        code = cbf_add(f, "later", 5, &changed, &e);
        if (code != CBF_E_FROZEN && code != CBF_E_READONLY)
            fault("freeze", round, "sealed, and can be added to");
        return;
    }
    if (board->victim.finished)
        fault("freeze", round, "finished, and not sealed");
    if (cbf_add(f, "later", 5, &changed, &e) != 0)
        fault("freeze", round, "not sealed, and can't be added to");
}

static void
scene_freeze(unsigned rounds)
{
    struct cbf_geometry g;
    struct cbf_error e;
    struct storm_model table;
    struct storm_model added;
    struct cbf *f;
    pid_t adder[ADDERS];
    pid_t pid;
    unsigned round;
    unsigned i;
    unsigned faults = figure.faults;

    cbf_geometry_plan(6000, 0.01, &g);
    table = storm_model(&g);
    added = storm_model(&g);
    for (round = 0; round < rounds; round++) {
        memset(board, 0, sizeof *board);
        if (cbf_open_path(path, &g, 0600, &f, &e) != 0)
            bail("open");
        pid = child();
        if (pid == 0)
            victim_freezes(f);
        start_adders(f, adder);
        all_go();
        while (!cbf_acquire32(&board->victim.begun))
            cbf_spin_pause();
        storm_wait_ns(storm_random(round % 2 ? 60000 : 3000));
        storm_kill(pid);
        figure.kills++;
        figure.inside += !board->victim.finished && cbf_frozen(f);
        storm_wait_ns(100000);
        end_adders("freeze", round, adder);
        look("freeze", round, f, &table);
        memset(added.value, 0, added.n);
        for (i = 0; i < ADDERS; i++)
            add_to_model(&added, i, 0, board->adder[i].finished);
        if (!storm_same(&added, &table))
            fault("freeze", round, "the table is not what was added");
        check_frozen(round, f);
        cbf_unref(f);
        unlink(path);
    }
    free(table.value);
    free(added.value);
    ok(figure.faults == faults, "freeze among adders: %u kills", rounds);
}

#include "storm_open.h"

int
main(void)
{
    watchdog(3000);
    storm_seed();
    cbf_watch_signals(&storm_no_signal);
    board = storm_shared(sizeof *board);
    storm_path(path, sizeof path);
    scene_clear(storm_rounds(150));
    scene_merge(storm_rounds(150));
    scene_freeze(storm_rounds(150));
    scene_open(storm_rounds(150));
    scene_chain(storm_rounds(60));
    ok(figure.inside > 0, "some died half way");
    ok(figure.slowest_ns < 1000000000u, "nobody waits long for the dead");
    diag("figures: kills=%u half_way=%u slowest_ms=%.1f faults=%u",
         figure.kills, figure.inside, (double)figure.slowest_ns / 1e6,
         figure.faults);
    return done_testing();
}
