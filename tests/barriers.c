/* Every barrier of every kernel, taken away. See barriers.h.
 *
 * Each run is a process of its own, forked before any test runs, so that a report ends it at once and no run sees
 * another's leftovers. First every test runs with all barriers, for at most LIMIT_S seconds of processor time, and
 * notes the barriers that it passes. Then for each barrier the tests that pass it run without it, those that reach it
 * soonest first. */
#include "tests/barriers.h"

#include "lib/comm/comm.h"
#define SIMT_WEAK
#include "tests/simt/simt_test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_TESTS = 1024, MAX_BARRIERS = 512, LIMIT_S = 2 };
enum ending { WELL, REPORTED, TEST_FAILED, OUT_OF_TIME, DIED }; /* the end of a run; the first four are exit codes */

struct one_test { const char *file; const struct CMUnitTest *test; };
struct missed_by { int test; double after_s; };                 /* a test that passes a barrier, and the time of its
                                                                 * first pass */
struct site { struct simt_barrier barrier; struct missed_by by[MAX_TESTS]; int n; };

static struct one_test tests[MAX_TESTS];
static struct site sites[MAX_BARRIERS];
static int n_tests, n_sites;

/* A run's notes for its parent, which is the same program, so that the table's pointers are valid there, too. */
static struct notes { int n; struct simt_barrier barrier[MAX_BARRIERS]; double after_s[MAX_BARRIERS]; } *notes;

static double used_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double children_s(void) {
    struct rusage u;
    getrusage(RUSAGE_CHILDREN, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* ---- inside a run ---- */
static void end_reported(void) { _exit(REPORTED); }
static void end_out_of_time(int signal) { (void)signal, _exit(OUT_OF_TIME); }

/* Note barriers that are new since the last call. A timer calls this, and the end of a run. */
static void look(int signal) {
    (void)signal;
    for (int n = simt_barriers(); notes->n < n && notes->n < MAX_BARRIERS; notes->n++) {
        notes->barrier[notes->n] = *simt_barrier(notes->n);
        notes->after_s[notes->n] = used_s();
    }
    if (used_s() > LIMIT_S) _exit(OUT_OF_TIME);
}

static void every(double seconds, void (*handler)(int)) {
    struct itimerval interval = {.it_value = {(time_t)seconds,
                                              (suseconds_t)(1e6 * (seconds - (double)(time_t)seconds))}};
    interval.it_interval = interval.it_value;
    signal(SIGPROF, handler);
    setitimer(ITIMER_PROF, &interval, NULL);
}

static enum ending run_in_child(const struct one_test *t) {
    simt_reports_show(0);
    simt_on_report(end_reported);
    enum verdict verdict = test_run_here(t->file, t->test);
    return verdict == FAILED ? TEST_FAILED : WELL;
}

/* ---- outside of a run ---- */
static enum ending wait_for(pid_t child) {
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("barriers: a run could not be started");
        exit(1);
    }
    return WIFEXITED(status) && WEXITSTATUS(status) <= OUT_OF_TIME ? (enum ending)WEXITSTATUS(status) : DIED;
}

/* A failing test, or a crash, prints its reason; here failures are expected. */
static void hush(void) {
    if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(DIED);
}

static enum ending run_as_it_is(const struct one_test *t) {
    fflush(NULL);
    notes->n = 0;
    pid_t child = fork();
    if (child == 0) {
        every(0.02, look);
        enum ending ending = run_in_child(t);
        signal(SIGPROF, SIG_IGN);
        look(0);
        _exit(ending);
    }
    return wait_for(child);
}

static enum ending run_without(const struct one_test *t, const struct simt_barrier *b, enum simt_order order,
                               double limit_s) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        char name[1024];
        snprintf(name, sizeof name, "%s:%d,%s", b->file, b->line, b->kernel);
        setenv("SIMT_NO_BARRIER", name, 1);
        simt_set_order(order);
        hush();
        every(limit_s, end_out_of_time);
        _exit(run_in_child(t));
    }
    return wait_for(child);
}

/* ---- the tables ---- */
static void collect_tests(const char *filter) {
    for (const struct test_suite *suite = test_suites; suite; suite = suite->next)
        for (size_t i = 0; i < suite->n && n_tests < MAX_TESTS; i++)
            if (test_selected(suite, suite->tests[i].name,
                              filter)) tests[n_tests++] = (struct one_test){suite->file, &suite->tests[i]};
}

static bool same(const struct simt_barrier *a, const struct simt_barrier *b) {
    return a->line == b->line && strcmp(a->file, b->file) == 0 && strcmp(a->kernel, b->kernel) == 0 &&
           strcmp(a->what, b->what) == 0;
}

static struct site *site_of(const struct simt_barrier *b) {
    for (int i = 0; i < n_sites; i++)
        if (same(&sites[i].barrier, b)) return &sites[i];
    if (n_sites == MAX_BARRIERS) {
        fprintf(stderr, "barriers: more than %d; raise MAX_BARRIERS in tests/barriers.c\n", MAX_BARRIERS);
        exit(1);
    }
    sites[n_sites].barrier = *b;
    return &sites[n_sites++];
}

/* Insert a test, soonest first; the search for its place begins at the end. */
static void add(struct site *s, int test, double after_s) {
    int i = s->n++;
    for (; i > 0 && s->by[i - 1].after_s > after_s; i--) s->by[i] = s->by[i - 1];
    s->by[i] = (struct missed_by){test, after_s};
}

/* @return the number of tests that fail with all barriers */
static int pass_all(void) {
    int n_ill = 0;
    for (int i = 0; i < n_tests; i++) {
        enum ending ending = run_as_it_is(&tests[i]);
        if (ending != WELL && ending != OUT_OF_TIME) {
            printf("FAILED %s %s, with all barriers\n", tests[i].file, tests[i].test->name);
            n_ill++;
            continue;
        }
        for (int j = 0; j < notes->n; j++) add(site_of(&notes->barrier[j]), i, notes->after_s[j]);
    }
    return n_ill;
}

/* ---- every barrier in turn ---- */
static bool is_missed(const struct site *s, double limit_s, int ways[DIED + 1]) {
    for (int i = 0; i < s->n; i++)
        for (enum simt_order order = SIMT_FORWARD; order <= SIMT_REVERSE; order++) {
            enum ending ending = run_without(&tests[s->by[i].test], &s->barrier, order, limit_s);
            ways[ending]++;
            if (ending != WELL && ending != OUT_OF_TIME) return true;
        }
    return false;
}

/* Some tests reach a barrier's effect late, so barriers that no test misses soon are run to the end. */
static bool is_missed_soon_or_late(const struct site *s, int ways[DIED + 1]) {
    int late = ways[OUT_OF_TIME];
    return is_missed(s, 2 * LIMIT_S, ways) || (ways[OUT_OF_TIME] > late && is_missed(s, 30 * LIMIT_S, ways));
}

static void show(const struct site *s) {
    const struct simt_barrier *b = &s->barrier;
    printf("FAILED no test misses %s of %s: SIMT_NO_BARRIER='%s:%d,%s', %d test%s, soonest %s\n", b->what, b->kernel,
           b->file, b->line, b->kernel, s->n, s->n == 1 ? "" : "s", tests[s->by[0].test].test->name);
    fflush(stdout);
}

int barriers_run(const char *filter) {
    if (!simt_checked || !simt_checked() || comm_world_size() != 1) {
        fprintf(stderr, "--barriers needs the checked build (make SIMT=check) and one rank\n");
        return 1;
    }
    notes = mmap(NULL, sizeof *notes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (notes == MAP_FAILED) {
        perror("barriers: no memory");
        return 1;
    }
    collect_tests(filter);
    int n_ill = pass_all(), n_missed = 0, ways[DIED + 1] = {0};
    printf("%d tests pass %d barriers (%.0f s)\n", n_tests, n_sites, children_s());
    fflush(stdout);
    for (int i = 0; i < n_sites; i++) {
        bool missed = is_missed_soon_or_late(&sites[i], ways);
        if (!missed) show(&sites[i]);
        n_missed += missed;
    }
    printf("%d of %d barriers are missed when they are off: %d by a report, %d by a test, %d by a crash (%.0f s)\n",
           n_missed, n_sites, ways[REPORTED], ways[TEST_FAILED], ways[DIED], children_s());
    printf("%d passed, %d failed, 0 skipped\n", n_missed, n_sites - n_missed + n_ill);
    fflush(stdout);
    comm_finish(true, 0);
    return n_missed < n_sites || n_ill > 0 ? 1 : 0;
}
