/*
 * tap.h - a few lines of TAP for the C tests: no Perl, no framework.
 *
 * One program is one test file; it says what it checked on standard output and
 * ends with "return done_testing();" in main.  Output is flushed line by line,
 * so that a fork child has nothing of its parent's to print.  Only one process
 * of a program may report.
 *
 * A program that has these in its first ten lines is built for the tests in
 * another way:
 *
 *   kill-points in a comment of its own: with -DCBF_TESTING
 *   variant: FLAGS in a comment of its own: once more, with these flags
 */
#ifndef CBF_TAP_H
#define CBF_TAP_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct {
    unsigned run;
    unsigned failed;
} tap;

/* A remark on standard output that the harness shows. */
__attribute__((format(printf, 1, 2))) static inline void
diag(const char *pattern, ...)
{
    va_list args;

    printf("# ");
    va_start(args, pattern);
    vprintf(pattern, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
}

__attribute__((format(printf, 4, 0))) static inline int
tap_report(int passed, const char *file, int line, const char *pattern,
           va_list args)
{
    tap.run++;
    printf("%sok %u - ", passed ? "" : "not ", tap.run);
    vprintf(pattern, args);
    printf("\n");
    fflush(stdout);
    if (!passed) {
        tap.failed++;
        diag("  failed at %s line %d", file, line);
    }
    return passed;
}

__attribute__((format(printf, 4, 5))) static inline int
tap_ok(int passed, const char *file, int line, const char *pattern, ...)
{
    va_list args;

    va_start(args, pattern);
    tap_report(passed, file, line, pattern, args);
    va_end(args);
    return passed;
}

struct tap_u64 {
    uint64_t got;
    uint64_t want;
};

__attribute__((format(printf, 4, 5))) static inline int
tap_is_u64(struct tap_u64 v, const char *file, int line, const char *pattern,
           ...)
{
    va_list args;

    va_start(args, pattern);
    tap_report(v.got == v.want, file, line, pattern, args);
    va_end(args);
    if (v.got != v.want) {
        diag("       got: %" PRIu64 " (%#" PRIx64 ")", v.got, v.got);
        diag("  expected: %" PRIu64 " (%#" PRIx64 ")", v.want, v.want);
    }
    return v.got == v.want;
}

struct tap_str {
    const char *got;
    const char *want;
};

/* NULL equals NULL. */
__attribute__((format(printf, 4, 5))) static inline int
tap_is_str(struct tap_str v, const char *file, int line, const char *pattern,
           ...)
{
    int same = v.got == v.want;
    va_list args;

    if (v.got && v.want)
        same = strcmp(v.got, v.want) == 0;
    va_start(args, pattern);
    tap_report(same, file, line, pattern, args);
    va_end(args);
    if (!same) {
        diag("       got: %s", v.got ? v.got : "(NULL)");
        diag("  expected: %s", v.want ? v.want : "(NULL)");
    }
    return same;
}

/* Each returns whether it passed; the name is a printf pattern. */
#define ok(cond, ...) tap_ok(!!(cond), __FILE__, __LINE__, __VA_ARGS__)
#define is_u64(got, want, ...)                                               \
    tap_is_u64((struct tap_u64){(got), (want)}, __FILE__, __LINE__,          \
               __VA_ARGS__)
#define is_str(got, want, ...)                                               \
    tap_is_str((struct tap_str){(got), (want)}, __FILE__, __LINE__,          \
               __VA_ARGS__)

/* In place of a test that can't be made here. */
static inline void
skip(const char *name, const char *why)
{
    tap.run++;
    printf("ok %u - %s # skip %s\n", tap.run, name, why);
    fflush(stdout);
}

/* In place of all tests; main returns what this returns. */
static inline int
skip_all(const char *why)
{
    printf("1..0 # SKIP %s\n", why);
    fflush(stdout);
    return 0;
}

/* Nothing after this could be believed: ends the program. */
__attribute__((format(printf, 1, 2), noreturn)) static inline void
bail(const char *pattern, ...)
{
    va_list args;

    printf("Bail out!  ");
    va_start(args, pattern);
    vprintf(pattern, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
    _exit(255);
}

/* The program dies by SIGALRM unless it is done in time.  Fork children don't
 * inherit it: each sets its own. */
static inline void
watchdog(unsigned seconds)
{
    alarm(seconds);
}

/* The plan; main returns what this returns. */
static inline int
done_testing(void)
{
    printf("1..%u\n", tap.run);
    fflush(stdout);
    if (tap.failed)
        diag("%u of %u failed", tap.failed, tap.run);
    return tap.failed || tap.run == 0;
}

#endif
