/*
 * storm.c - processes that add, remove, flush and look are killed at random
 * instants, and the table is compared, byte by byte, with a model.
 *
 * Each worker writes down in shared memory what it is about to do and that it
 * has done it, so after a kill the table must be: all that was finished, and
 * of the call under way the first few items, or none, or all.  Items are
 * counted, and additions commute, so the order among workers does not matter.
 * Calls on the whole table are storm_table.c's.
 */
#include "storm_calls.h"

#define WORKERS_MAX 4
#define LOG 8192u     /* calls between two looks */

/* A worker's place on the board. */
struct seat {
    uint64_t begun;      /* calls written down; the worker's */
    uint64_t finished;   /* calls that returned; the worker's */
    uint64_t replayed;   /* calls in the model; the parent's */
    uint64_t parked;     /* the odd turn at which it stands; the worker's */
    uint64_t slowest_ns; /* its slowest call; the worker's */
    uint64_t wrong;      /* answers that can't be; the worker's */
    struct call log[LOG];
};

struct board {
    uint64_t turn; /* even: work; odd: stand */
    struct seat seat[WORKERS_MAX];
};

enum backing { ANONYMOUS, MEMFD, PATH, PATH_OWN };

struct storm {
    const char *name;
    enum backing backing;
    unsigned workers;
    unsigned victims;  /* killed each time, one after the other */
    unsigned apart_us; /* up to this long one after the other */
    int stop;          /* SIGSTOP and SIGCONT instead */
    double rate;
    unsigned rounds;
};

/* The storm that is on. */
static const struct storm *storm;
static struct board *board;
static struct cbf *filter;
static struct cbf_geometry plan;
static char path[512];
static struct cbf_hash item[WORKERS_MAX][ITEMS];
static uint8_t times[WORKERS_MAX][ITEMS]; /* how often each is in */
static struct storm_model model;
static pid_t pids[WORKERS_MAX];

static struct {
    unsigned kills;
    unsigned caught;   /* of them, the lock was held */
    unsigned inside;   /* of them, a call was under way */
    unsigned partial;  /* of them, a batch was half done */
    unsigned takeovers;
    unsigned stops;
    unsigned stopped; /* of them, with the lock */
    unsigned faults;
    uint64_t calls;
    uint64_t slowest_ns;
} figure;

static void
fault(const char *what, unsigned round)
{
    figure.faults++;
    if (figure.faults < 20)
        diag("%s, round %u: %s", storm->name, round, what);
}

/* ---- what a worker does ------------------------------------------------- */

static void
work(struct seat *seat, struct cbf *f, unsigned me)
{
    uint8_t count[ITEMS];
    uint64_t turn;
    uint64_t began;
    uint64_t took;
    struct call *c;
    unsigned i;

    memcpy(count, times[me], sizeof count);
    for (;;) {
        turn = cbf_acquire64(&board->turn);
        if (turn & 1 || seat->begun - cbf_acquire64(&seat->replayed) >= LOG) {
            if (turn & 1)
                cbf_release64(&seat->parked, turn);
            storm_nap();
            continue;
        }
        c = &seat->log[seat->begun % LOG];
        *c = next_call(count);
        cbf_release64(&seat->begun, seat->begun + 1);
        began = storm_now_ns();
        seat->wrong += perform(f, c, item[me], me) != 0;
        cbf_release64(&seat->finished, seat->begun);
        took = storm_now_ns() - began;
        if (took > seat->slowest_ns)
            seat->slowest_ns = took;
        for (i = 0; i < c->n; i++)
            count[c->item[i]] = (uint8_t)(count[c->item[i]] + effect(c));
        seat->wrong += misses(f, me, count) != 0;
    }
}

static struct cbf *
open_path(void)
{
    struct cbf_error e;
    struct cbf *f;

    if (cbf_open_path(path, &plan, 0600, &f, &e) != 0)
        bail("open: %d %s", e.code, cbf_error_text(e.code));
    return f;
}

static void
start(unsigned me)
{
    unsigned luck = storm_random(1u << 30);
    struct seat *seat = &board->seat[me];

    seat->parked = 0;
    pids[me] = fork();
    if (pids[me] < 0)
        bail("fork");
    if (pids[me] > 0)
        return;
    storm_child(300);
    storm_state ^= (uint64_t)luck << 7;
    work(seat, storm->backing == PATH_OWN ? open_path() : filter, me);
}

/* ---- what the parent expects -------------------------------------------- */

static void
replay_item(unsigned me, unsigned i, int by)
{
    if (by == 0)
        return;
    storm_change(&model, item[me][i], by);
    times[me][i] = (uint8_t)(times[me][i] + by);
}

static void
replay_calls(unsigned me)
{
    struct seat *seat = &board->seat[me];
    uint64_t n;
    unsigned i;

    for (n = seat->replayed; n < seat->finished; n++) {
        const struct call *c = &seat->log[n % LOG];

        for (i = 0; i < c->n; i++)
            replay_item(me, c->item[i], effect(c));
    }
    figure.calls += seat->finished - seat->replayed;
    cbf_release64(&seat->replayed, seat->finished);
}

/* The call that a dead worker had begun and not finished, or NULL. */
static const struct call *
under_way(unsigned me)
{
    struct seat *seat = &board->seat[me];

    return seat->begun > seat->finished ? &seat->log[seat->finished % LOG]
                                        : NULL;
}

/*
 * Tries for the calls of workers me, me + 1, ... none of their items, all, or,
 * for one of them at most, the first few.  1 with the model as the table is.
 */
static int
explain(const struct storm_model *table, unsigned me, int may_split)
{
    const struct call *c;
    unsigned n;
    unsigned i;

    if (me == storm->workers)
        return storm_same(&model, table);
    c = under_way(me);
    if (!c || effect(c) == 0)
        return explain(table, me + 1, may_split);
    for (n = 0; n <= c->n; n++) {
        int split = n > 0 && n < c->n;

        if (n > 0)
            replay_item(me, c->item[n - 1], effect(c));
        if ((!split || may_split)
            && explain(table, me + 1, may_split && !split)) {
            figure.partial += split;
            return 1;
        }
    }
    for (i = c->n; i > 0; i--)
        replay_item(me, c->item[i - 1], -effect(c));
    return 0;
}

/* ---- a round ------------------------------------------------------------ */

static void
pause_all(unsigned round)
{
    uint64_t turn = cbf_fetch_add64(&board->turn, 1) + 1;
    uint64_t end = storm_now_ns() + 20000000000u;
    unsigned i;

    for (i = 0; i < storm->workers; i++) {
        while (pids[i] && cbf_acquire64(&board->seat[i].parked) != turn) {
            storm_nap();
            if (storm_now_ns() < end)
                continue;
            fault("a worker does not come back within 20 s", round);
            storm_kill(pids[i]);
            pids[i] = 0;
        }
    }
}

/* Everybody who lives must finish calls that began after the deaths. */
static void
await_progress(unsigned round)
{
    uint64_t began = storm_now_ns();
    uint64_t goal[WORKERS_MAX];
    uint64_t took;
    unsigned i;

    for (i = 0; i < storm->workers; i++)
        goal[i] = cbf_acquire64(&board->seat[i].begun) + 1;
    for (i = 0; i < storm->workers; i++) {
        struct seat *seat = &board->seat[i];

        while (pids[i] && cbf_acquire64(&seat->finished) < goal[i]
               && seat->begun - seat->replayed < LOG) {
            storm_wait_ns(20000);
            if (storm_now_ns() - began > 10000000000u) {
                fault("a worker stands still for 10 s", round);
                break;
            }
        }
    }
    took = storm_now_ns() - began;
    if (took > figure.slowest_ns && !storm->stop)
        figure.slowest_ns = took;
}

static uint32_t
holder(void)
{
    return filter ? cbf_load32(&cbf_header(filter)->writer) & 0x7fffffff : 0;
}

/* Waits a while for the lock to be held by that process: most calls are short,
 * and most random instants lie between two of them. */
static int
aim(pid_t pid, uint64_t ns)
{
    uint64_t end = storm_now_ns() + ns;

    while (filter && holder() != (uint32_t)pid)
        if (storm_now_ns() >= end)
            return 0;
    return filter != NULL;
}

static void
kill_some(unsigned round)
{
    unsigned first = storm_random(storm->workers);
    unsigned n;
    pid_t pid;
    unsigned me;

    for (n = 0; n < storm->victims; n++) {
        me = (first + n) % storm->workers;
        pid = pids[me];
        if (n > 0 && storm->apart_us)
            storm_wait_ns(storm_random(storm->apart_us) * 1000u);
        if (n == 0 && round % 2 && aim(pid, 500000))
            storm_wait_ns(storm_random(2000));
        if (!storm_kill(pid)) {
            fault("it ended otherwise than by the kill", 0);
            bail("worker lost");
        }
        pids[me] = 0;
        figure.kills++;
        figure.caught += holder() == (uint32_t)pid;
        figure.inside += under_way(me) != NULL;
    }
}

/* Nobody may take a lock from who only stands, and looking goes on. */
static void
stop_one(unsigned round)
{
    unsigned me = storm_random(storm->workers);
    uint32_t recovered = cbf_load32(&cbf_header(filter)->recovered);
    uint64_t end;
    int status;
    int held = 0;
    int tries;

    /* rarely at the first try, since it goes on until the signal arrives */
    for (tries = 0; tries < 100 && !held; tries++) {
        kill(pids[me], SIGCONT);
        aim(pids[me], 1000000);
        kill(pids[me], SIGSTOP);
        waitpid(pids[me], &status, WUNTRACED);
        held = holder() == (uint32_t)pids[me];
    }
    figure.stops++;
    figure.stopped += held;
    end = storm_now_ns() + (held ? 150u : 2u) * 1000000u;
    while (storm_now_ns() < end) {
        cbf_contains(filter, "w-0-0", 5);
        if (held && holder() != (uint32_t)pids[me])
            fault("the lock was taken from a stopped process", round);
        storm_nap();
    }
    if (cbf_load32(&cbf_header(filter)->recovered) != recovered)
        fault("a stopped process was recovered from", round);
    kill(pids[me], SIGCONT);
}

static void
check(unsigned round, uint32_t recovered, uint32_t dead)
{
    struct storm_model table = storm_model(cbf_geometry_of(filter));
    struct cbf_stats s;
    struct cbf_error e;
    uint64_t began = storm_now_ns();
    unsigned i;

    if (cbf_stats(filter, &s, &e) != 0)
        fault("stats fails", round);
    if (storm_now_ns() - began > figure.slowest_ns)
        figure.slowest_ns = storm_now_ns() - began;
    for (i = 0; i < storm->workers; i++) {
        replay_calls(i);
        if (board->seat[i].wrong)
            fault("a worker got a wrong answer", round);
        board->seat[i].wrong = 0;
    }
    storm_read(&table, filter);
    if (!explain(&table, 0, 1)) {
        fault("the table is at no boundary between items", round);
        bail("nothing after this could be compared");
    }
    if (!storm_totals(&s, &table))
        fault("the totals are not those of a recount", round);
    figure.takeovers += s.recovered - recovered;
    if (s.recovered - recovered > (storm->stop ? 0 : storm->victims))
        fault("recovered moved more often than somebody died", round);
    if (dead && s.recovered == recovered)
        fault("recovered did not move", round);
    if (storm->victims == storm->workers && !dead && filter
        && s.recovered != recovered && storm->apart_us == 0
        && storm->victims == 1)
        fault("recovered moved, though nobody died with the lock", round);
    if (holder() != 0)
        fault("the lock is held by nobody alive", round);
    free(table.value);
}

static void
strike(unsigned round)
{
    static uint32_t known;
    uint32_t recovered = known;
    uint32_t dead = 0;
    unsigned i;

    if (filter)
        recovered = cbf_load32(&cbf_header(filter)->recovered);
    storm_wait_ns(storm_random(round % 2 ? 60000 : 1500000));
    if (storm->stop)
        stop_one(round);
    else
        kill_some(round);
    await_progress(round);
    pause_all(round);
    if (storm->victims == storm->workers)
        dead = holder();
    if (!filter)
        filter = open_path();
    check(round, round ? recovered : 0, dead);
    known = cbf_load32(&cbf_header(filter)->recovered);
    for (i = 0; i < storm->workers; i++) {
        if (pids[i])
            continue;
        /* what it had begun is in the model by now, or never was */
        board->seat[i].begun = board->seat[i].finished;
    }
    if (storm->backing == PATH_OWN) {
        cbf_unref(filter);
        filter = NULL;
    }
    cbf_fetch_add64(&board->turn, 1);
    for (i = 0; i < storm->workers; i++)
        if (!pids[i])
            start(i);
}

static void
open_filter(void)
{
    struct cbf_error e;
    int code = CBF_OK;

    cbf_geometry_plan(400, storm->rate, &plan);
    if (storm->backing == ANONYMOUS)
        code = cbf_open_anonymous(&plan, &filter, &e);
    else if (storm->backing == MEMFD)
        code = cbf_open_memfd("storm", &plan, &filter, &e);
    else
        filter = open_path();
    if (code != CBF_OK)
        bail("open: %d", code);
    model = storm_model(cbf_geometry_of(filter));
    if (storm->backing == PATH_OWN) {
        cbf_unref(filter);
        filter = NULL;
    }
}

static void
rage(const struct storm *s)
{
    unsigned before = figure.kills;
    unsigned faults = figure.faults;
    unsigned rounds = storm_rounds(s->rounds);
    unsigned i;
    unsigned n;

    storm = s;
    board = storm_shared(sizeof *board);
    memset(times, 0, sizeof times);
    for (i = 0; i < s->workers; i++)
        for (n = 0; n < ITEMS; n++)
            item[i][n] = storm_item("w", i, n);
    open_filter();
    for (i = 0; i < s->workers; i++)
        start(i);
    for (n = 0; n < rounds; n++)
        strike(n);
    for (i = 0; i < s->workers; i++) {
        storm_kill(pids[i]);
        if (board->seat[i].slowest_ns > figure.slowest_ns && !s->stop)
            figure.slowest_ns = board->seat[i].slowest_ns;
    }
    ok(figure.faults == faults, "%s: %u rounds, %u kills", s->name, rounds,
       figure.kills - before);
    cbf_unref(filter);
    filter = NULL;
    unlink(path);
    free(model.value);
    munmap(board, sizeof *board);
}

int
main(void)
{
    static const struct storm storms[] = {
        { "one alone", ANONYMOUS, 1, 1, 0, 0, 0.01, 500 },
        { "one of three", ANONYMOUS, 3, 1, 0, 0, 0.01, 300 },
        { "one of three, files of their own", PATH_OWN, 3, 1, 0, 0, 0.01,
          300 },
        { "one of two, 32 probes", MEMFD, 2, 1, 0, 0, 1e-10, 300 },
        { "two of three, one shortly after the other", PATH, 3, 2, 15000, 0,
          0.01, 200 },
        { "three of four, within a moment", ANONYMOUS, 4, 3, 100, 0, 0.01,
          100 },
        { "all of four", MEMFD, 4, 4, 0, 0, 0.01, 75 },
        { "all of three, then opened alone", PATH_OWN, 3, 3, 0, 0, 0.01,
          100 },
        { "stopped, not killed", ANONYMOUS, 3, 0, 0, 1, 0.01, 60 },
    };
    size_t i;

    watchdog(3000);
    storm_seed();
    cbf_watch_signals(&storm_no_signal);
    storm_path(path, sizeof path);
    for (i = 0; i < sizeof storms / sizeof storms[0]; i++)
        rage(&storms[i]);
    ok(figure.caught > figure.kills / 50, "many died with the lock");
    ok(figure.stopped > 0, "some were stopped with the lock");
    ok(figure.partial > 0, "some died between two items of a batch");
    ok(figure.slowest_ns < 1000000000u, "nobody waits long for the dead");
    diag("figures: kills=%u with_lock=%u in_a_call=%u in_a_batch=%u "
         "takeovers=%u stops=%u stopped_with_lock=%u calls=%" PRIu64
         " slowest_ms=%.1f faults=%u",
         figure.kills, figure.caught, figure.inside, figure.partial,
         figure.takeovers, figure.stops, figure.stopped, figure.calls,
         (double)figure.slowest_ns / 1e6, figure.faults);
    return done_testing();
}
