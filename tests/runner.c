/* build/trivium-tests [filter]: runs the suites for this number of ranks and this device.
 *
 * Each test runs by itself on all ranks, then the ranks agree: it fails if it fails on any rank. A failing rank
 * prints its reason at once; CMocka's other output is dropped. Run the program from the project's root, by
 * tests/run or by hand: the first line of each suite's source file names its numbers of ranks and its device.
 *
 *   filter   run only tests whose file or name contains it
 *   TEST_NOT=tests/   no suites whose file begins with this; several beginnings have blanks between them
 *   TEST_FILES, TEST_NAMES, TEST_NAMES_NOT   only these suites, only these tests, none of these tests; whole names,
 *                                            with blanks between them
 *   TEST_REPORT, TEST_TIMEOUT   a report for a grader (tests/report.h); seconds that a rank waits for others (60)
 *   TEST_LOCKDOWN=1   the graded code is not trusted (tests/lockdown.h)
 *   TEST_MORE=1   only the suites whose first line has this number of ranks after "more:". They take long, and a run
 *                 without a filter leaves them out
 *   TEST_STRICT=1   a test fails that leaves a request in flight or memory allocated (tests/graded.h)
 *   TEST_SEED   of the numbers that tests draw (test_drawn)
 *   TEST_CPU, TEST_WALL   limits in seconds (tests/graded.h)
 *   TEST_COLLECTIVES=1   before each collective the ranks compare their calls (lib/comm/comm_check.c)
 *   --barriers [filter]: see tests/barriers.h
 *   DEVICE   cpu (default); cuda or simt: only the suites for any device, which then run on the CUDA device */
#include "tests/barriers.h"
#include "tests/graded.h"
#include "tests/lockdown.h"
#include "tests/report.h"
#include "tests/sanitizer.h"
#include "tests/test.h"

#include "lib/base/clock.h"
#include "lib/base/status.h"
#include "lib/comm/comm.h"
#define SIMT_WEAK                     /* in a build without tests/simt there are no reports */
#include "tests/simt/simt_test.h"

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct counts { int of[3]; };

/* Agreement uses the runner's own group, because a failing test may leave ranks at different collectives of the
 * world. */
static struct group *runner_group;

/* ---- a suite's demands: "ranks: 1 2 4  more: 8  device: any  threads: 1" in its file's first line ---- */

/* threads: per rank, for models so small that more threads only wait for each other, for seconds if other programs run
 * at the same time; 0: one per core */
struct demand { bool ranks_given, wants_this_size; char device[16]; int threads; };

static bool launched_size(long n) {
    return n == 1 || n == 2 || n == 4 || n == 8; /* as tests/run starts; a suite for another number would never run */
}

static bool read_ranks(const char *text, struct demand *demand) {
    char *end;
    for (long n; (n = strtol(text, &end, 10)), end != text; text = end) {
        if (!launched_size(n)) return false;
        demand->ranks_given = true;
        demand->wants_this_size |= n == comm_world_size();
    }
    return demand->ranks_given;
}

/* The first line of a suite's source, or NULL. Static storage. */
static const char *first_line(const char *path) {
    static char line[256];
    FILE *file = fopen(path, "r");
    bool got = file && fgets(line, sizeof line, file);
    if (file) fclose(file);
    return got ? line : NULL;
}

static bool read_demand(const char *path, bool filtered, struct demand *demand) {
    *demand = (struct demand){.device = "any"};
    const char *line = first_line(path);
    const char *ranks = line ? strstr(line, "ranks:") : NULL, *more = line ? strstr(line, "more:") : NULL;
    const char *device = line ? strstr(line, "device:") : NULL, *threads = line ? strstr(line, "threads:") : NULL;
    struct demand usual = *demand, long_one = *demand;
    if (device && sscanf(device, "device: %15[a-z]", demand->device) != 1) return false;
    if (threads && (sscanf(threads, "threads: %d", &demand->threads) != 1 || demand->threads < 1)) return false;
    if (more && !read_ranks(more + strlen("more:"), &long_one)) return false;
    if (!ranks || !read_ranks(ranks + strlen("ranks:"), &usual)) return false;
    demand->ranks_given = true;
    demand->wants_this_size = getenv("TEST_MORE") ? long_one.wants_this_size
                                                  : usual.wants_this_size || (filtered && long_one.wants_this_size);
    return true;
}

static bool device_matches(const struct demand *demand) {
    const char *device = getenv("DEVICE");
    return strcmp(demand->device, "any") == 0 || strcmp(demand->device, device ? device : "cpu") == 0;
}

/* ---- one test ---- */

/* CMocka's own frame around each test; the other lines are reasons of a failure, and the test's output. */
static bool is_frame(const char *line, size_t n) {
    static const char *const starts[] = {"[====", "[ RUN", "[       OK", "[  PASSED", "[  FAILED", "[  SKIPPED"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
        if (strncmp(line, starts[i], strlen(starts[i])) == 0) return true;
    return n == 0 || strncmp(line, " 1 FAILED TEST(S)", 17) == 0;
}

/* "[  ERROR   ] --- [   LINE   ] --- file:12: error" without the tags. */
static size_t tags(const char *line) {
    static const char *const tag[] = {"[  ERROR   ] --- ", "[   LINE   ] --- "};
    size_t n = 0;
    for (int i = 0; i < 2; i++)
        if (strncmp(line + n, tag[i], strlen(tag[i])) == 0) n += strlen(tag[i]);
    return n;
}

/* Write all with one call, so that two failing ranks do not mix their lines. */
static void show_failure(const char *file, const char *name, const char *said) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return;
    fprintf(out, "FAILED %s %s", file, name);
    if (comm_world_size() > 1) fprintf(out, " on rank %d of %d", comm_world_rank(), comm_world_size());
    fputc('\n', out);
    for (const char *line = said; *line;) {
        line += tags(line);
        size_t n = strcspn(line, "\n");
        if (!is_frame(line, n)) fprintf(out, "    %.*s\n", (int)n, line);
        line += n + (line[n] == '\n');
    }
    fclose(out);
    fflush(stdout);
    ssize_t written = write(STDOUT_FILENO, text, bytes);
    (void)written;
    free(text);
}

/* CMocka and the test write into memory (glibc's stdout and stderr are variables). File descriptors stay as they are,
 * so that a sanitizer's or MPI's last words reach the terminal even if this process never returns. All tests use one
 * memory stream, which is never closed, because the first C++ library that a test loads (cuDNN's are) ties std::cout to
 * the present stdout forever. */
static char *said;                    /* the last test's output */

static enum verdict run_here(const struct CMUnitTest *test) {
    static size_t bytes;
    static FILE *memory;
    FILE *terminal[2] = {stdout, stderr};
    if (!memory && !(memory = open_memstream(&said, &bytes))) return FAILED;
    rewind(memory);
    stdout = stderr = memory;
    int reports = simt_reports ? simt_reports() : 0;
    int failures = _cmocka_run_group_tests(test->name, test, 1, NULL, NULL);
    if (simt_reports && simt_reports() > reports) failures++, fprintf(memory, "%s\n", simt_report_text());
    stdout = terminal[0], stderr = terminal[1];
    fputc('\0', memory);                                             /* older tests' output is after it */
    if (fflush(memory) != 0) return FAILED;
    return failures ? FAILED : strstr(said, "[  SKIPPED ]") ? SKIPPED : PASSED;
}

/* Runs after each test that did not fail. If this test passes, graded code has changed CMocka in memory. */
TEST(control) { _assert_true(0, "false", __FILE__, __LINE__); } /* CMocka's own, which calls its _fail */

enum verdict test_run_here(const char *file, const struct CMUnitTest *test) {
    static const struct CMUnitTest fails = unit_test(control);
    test_blocks_clear();
    graded_begin();
    enum verdict verdict = run_here(test);
    const char *left = verdict == PASSED && getenv("TEST_STRICT") ? graded_left() : NULL;
    if (left) {
        show_failure(file, test->name, left);
        return FAILED;
    }
    if (verdict == FAILED) show_failure(file, test->name, said);
    else if (run_here(&fails) != FAILED) {
        show_failure(file, test->name, "CMocka was changed in memory: what is false no longer fails\n");
        return FAILED;
    }
    return verdict;
}

/* The worst verdict of all ranks. If ranks cannot agree, the job ends here. */
static enum verdict agree(enum verdict mine, const char *name) {
    int32_t worst = mine;
    if (comm_all_reduce(runner_group, &worst, 1, INT32, COMM_MAX) == OK) return (enum verdict)worst;
    test_give_up(name);
}

static enum verdict run_everywhere(const char *file, const struct CMUnitTest *test) {
    status_clear();
    report_begin(file, test->name);
    enum verdict mine = test_run_here(file, test), verdict = agree(mine, test->name);
    status_clear();
    report_verdict(verdict, file, test->name);
    return verdict;
}

/* ---- suites ---- */

static void add(struct counts *sum, const struct counts *more) {
    for (int v = PASSED; v <= FAILED; v++) sum->of[v] += more->of[v];
}

/* Is `name` one of the words of this environment variable? Without the variable: `otherwise`. */
static bool among(const char *variable, const char *name, bool otherwise) {
    const char *word = getenv(variable);
    if (!word) return otherwise;
    for (size_t n; *word; word += n + (word[n] == ' ')) {
        n = strcspn(word, " ");
        if (n == strlen(name) && strncmp(name, word, n) == 0) return true;
    }
    return false;
}

static bool selected(const char *filter, const char *file, const char *name) {
    return (!filter || strstr(file, filter) || strstr(name, filter)) && among("TEST_NAMES", name, true) &&
           !among("TEST_NAMES_NOT", name, false);
}

/* TEST_NOT: beginnings of file names. TEST_FILES: whole file names; other suites are left out. */
static bool left_out(const char *file) {
    const char *word = getenv("TEST_NOT");
    for (size_t n; word && *word; word += n + (word[n] == ' ')) {
        n = strcspn(word, " ");
        if (n > 0 && strncmp(file, word, n) == 0) return true;
    }
    return !among("TEST_FILES", file, true);
}

static struct counts run_suite(const struct test_suite *suite, const char *filter) {
    struct counts counts = {{0}};
    double started_s = clock_s();
    int n = 0;
    test_paths_clear();
    for (size_t i = 0; i < suite->n; i++) {
        if (!selected(filter, suite->file, suite->tests[i].name)) continue;
        counts.of[run_everywhere(suite->file, &suite->tests[i])]++;
        n++;
    }
    if (n > 0 && comm_is_rank_0()) {
        printf("%-44s %3d test%s %7.2f s%s", suite->file, n, n == 1 ? " " : "s", clock_s() - started_s,
               counts.of[FAILED] ? "  FAILED" : "");
        if (counts.of[SKIPPED]) printf("  %d skipped", counts.of[SKIPPED]);
        putchar('\n');
    }
    fflush(stdout);
    return counts;
}

bool test_selected(const struct test_suite *suite, const char *name, const char *filter) {
    struct demand demand;
    return read_demand(suite->file, filter != NULL, &demand) && demand.wants_this_size && device_matches(&demand) &&
           !left_out(suite->file) && selected(filter, suite->file, name);
}

static struct counts run_suites(const char *filter) {
    struct counts total = {{0}};
    for (const struct test_suite *suite = test_suites; suite; suite = suite->next) {
        struct demand demand;
        struct counts counts = {{0}};
        if (!read_demand(suite->file, filter != NULL, &demand)) {
            if (comm_is_rank_0())
                printf("FAILED %s: its first line must read /* ranks: ...  device: any */, with ranks out of 1 2 4 8, "
                       "and the working directory must be the project's root\n", suite->file);
            counts.of[FAILED] = 1;
        } else if (demand.wants_this_size && device_matches(&demand) && !left_out(suite->file)) {
            int threads = omp_get_max_threads();
            if (demand.threads) omp_set_num_threads(demand.threads);
            counts = run_suite(suite, filter);
            omp_set_num_threads(threads);
        }
        add(&total, &counts);
    }
    return total;
}

static enum status start(int *argc, char ***argv) {
    sanitizer_ignore_leaks();
    enum status status = comm_start(argc, argv);
    sanitizer_watch_leaks();
    TRY(status);
    const char *timeout = getenv("TEST_TIMEOUT");
    bool check = getenv("TEST_COLLECTIVES") != NULL;
    comm_configure(&(struct comm_settings){.timeout_s = timeout ? atof(timeout) : 60, .check_collectives = check});
    graded_start();
    if (getenv("TEST_LOCKDOWN") && !lockdown()) return FAIL(E_CONFIG, "TEST_LOCKDOWN needs a filter of system calls");
    /* no rank leaves group_create, and begins a test, before rank 0 has called it */
    if (comm_is_rank_0() && !report_open()) return FAIL(E_CONFIG, "there is no report to write");
    return group_create("runner", 0, comm_world_rank(), &runner_group);
}

int main(int argc, char **argv) {
    if (start(&argc, &argv) != OK) {
        status_report();
        comm_finish(false, 1);
        return 1;
    }
    bool barriers = argc > 1 && strcmp(argv[1], "--barriers") == 0;
    const char *filter = argc > 1 + barriers ? argv[1 + barriers] : NULL;
    if (barriers) return barriers_run(filter);
    struct counts total = run_suites(filter);
    if (comm_is_rank_0())
        printf("%d passed, %d failed, %d skipped\n", total.of[PASSED], total.of[FAILED], total.of[SKIPPED]);
    fflush(stdout);
    report_end();
    int code = total.of[FAILED] ? 1 : 0;
    group_destroy(&runner_group);
    sanitizer_ignore_leaks();
    comm_finish(true, code);
    return code;
}
