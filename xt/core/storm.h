/*
 * storm.h - what the kill storms share: random numbers from a printed seed,
 * time, a model of the counters, children that are killed and waited for.
 *
 * The model is an array with one element a counter; only the hash of an item
 * is taken from the code under test.  Knows nothing of what the storms do.
 */
#ifndef STORM_H
#define STORM_H

#include "cbf.h"
#include "handle.h"
#include "tap.h"
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

/* No handlers here: waits go on until they are over. */
static const volatile int storm_no_signal;

static uint64_t storm_state;

static inline void
storm_seed(void)
{
    const char *text = getenv("CBF_STORM_SEED");

    storm_state = text ? strtoull(text, NULL, 0)
                       : (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();
    storm_state |= 1;
    diag("CBF_STORM_SEED=%" PRIu64, storm_state);
}

/* xorshift64*: 0 .. n - 1. */
static inline unsigned
storm_random(unsigned n)
{
    storm_state ^= storm_state >> 12;
    storm_state ^= storm_state << 25;
    storm_state ^= storm_state >> 27;
    return (unsigned)((storm_state * 0x2545F4914F6CDD1Du) >> 33) % n;
}

/* How many rounds, from what one asks for and CBF_STORM_PERCENT. */
static inline unsigned
storm_rounds(unsigned wanted)
{
    const char *text = getenv("CBF_STORM_PERCENT");
    unsigned long percent = text ? strtoul(text, NULL, 10) : 100;
    unsigned n = (unsigned)(wanted * percent / 100);

    return n ? n : 1;
}

static inline uint64_t
storm_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Short times by looking at the clock, which a sleep could not keep. */
static inline void
storm_wait_ns(uint64_t ns)
{
    uint64_t end = storm_now_ns() + ns;
    struct timespec nap = { .tv_sec = 0, .tv_nsec = 100000 };

    while (storm_now_ns() < end)
        if (ns > 400000)
            nanosleep(&nap, NULL);
}

static inline void
storm_nap(void)
{
    struct timespec nap = { .tv_sec = 0, .tv_nsec = 50000 };

    nanosleep(&nap, NULL);
}

static inline void *
storm_shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        bail("mmap");
    return p;
}

/* SIGKILL, and whether it was that which ended it. */
static inline int
storm_kill(pid_t pid)
{
    int status = 0;

    kill(pid, SIGKILL);
    if (waitpid(pid, &status, 0) != pid)
        bail("waitpid");
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* In a child: dies with its parent, and in any case some time. */
static inline void
storm_child(unsigned seconds)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(seconds);
    cbf_watch_signals(&storm_no_signal);
}

/* A name for a file that is not there. */
static inline void
storm_path(char *path, size_t size)
{
    const char *dir = getenv("TMPDIR");
    int fd;

    snprintf(path, size, "%s/cbf-storm-XXXXXX", dir ? dir : P_tmpdir);
    fd = mkstemp(path);
    if (fd < 0)
        bail("mkstemp %s", path);
    close(fd);
    unlink(path);
}

/* ---- the model ---------------------------------------------------------- */

struct storm_model {
    uint32_t n;       /* counters */
    uint32_t n_probes;
    uint8_t *value;   /* of each */
};

static inline struct storm_model
storm_model(const struct cbf_geometry *g)
{
    struct storm_model m = {
        .n = (uint32_t)g->n_counters,
        .n_probes = g->n_probes,
        .value = calloc((size_t)g->n_counters, 1),
    };

    if (!m.value)
        bail("memory");
    return m;
}

static inline void
storm_copy(struct storm_model *to, const struct storm_model *from)
{
    memcpy(to->value, from->value, from->n);
}

static inline uint32_t
storm_position(const struct storm_model *m, struct cbf_hash h, uint32_t i)
{
    return (uint32_t)((h.lo + i * (h.hi | 1)) % m->n);
}

/* One item more, or one less; nothing here ever reaches 15 or is absent. */
static inline void
storm_change(struct storm_model *m, struct cbf_hash h, int by)
{
    uint32_t i;

    for (i = 0; i < m->n_probes; i++) {
        uint8_t *v = m->value + storm_position(m, h, i);

        if ((by > 0 && *v >= 14) || (by < 0 && *v == 0))
            bail("the model left 0..14");
        *v = (uint8_t)(*v + by);
    }
}

static inline void
storm_read(struct storm_model *m, const struct cbf *f)
{
    uint32_t i;

    for (i = 0; i < m->n; i += 2) {
        m->value[i] = f->counters[i / 2] & 15;
        m->value[i + 1] = f->counters[i / 2] >> 4;
    }
}

static inline int
storm_same(const struct storm_model *a, const struct storm_model *b)
{
    return memcmp(a->value, b->value, a->n) == 0;
}

/* Whether the totals that the filter tells are those of the model. */
static inline int
storm_totals(const struct cbf_stats *s, const struct storm_model *m)
{
    uint64_t nonzero = 0;
    uint64_t saturated = 0;
    uint64_t sum = 0;
    uint32_t i;

    for (i = 0; i < m->n; i++) {
        nonzero += m->value[i] > 0;
        saturated += m->value[i] == 15;
        sum += m->value[i];
    }
    return s->nonzero == nonzero && s->saturated == saturated
           && s->sum == sum;
}

static inline struct cbf_hash
storm_item(const char *kind, unsigned a, unsigned b)
{
    char text[48];
    int len = snprintf(text, sizeof text, "%s-%u-%u", kind, a, b);

    return cbf_hash_item(text, (size_t)len);
}

#endif
