/* Shared by tests: registration, assertions that CMocka lacks, agreement between ranks, scratch files. */
#define _GNU_SOURCE /* nftw */
#include "tests/test.h"

#include "lib/base/rng.h"
#include "lib/base/status.h"
#include "lib/comm/comm.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- registration: constructors run in link order, so the list is kept sorted by file ---- */

struct test_suite *test_suites;

void test_suite_register(struct test_suite *suite) {
    struct test_suite **place = &test_suites;
    while (*place && strcmp((*place)->file, suite->file) < 0) place = &(*place)->next;
    suite->next = *place;
    *place = suite;
}

/* ---- assertions ---- */

void expect_number_(const char *name, long long value, const char *than, long long right, const char *file, int line) {
    if (value == right) return;
    print_error("%s %lld,%s %lld\n", name, value, than, right);
    _fail(file, line);
}

void assert_in_range_(const char *text, long long value, long long low, long long high, const char *file, int line) {
    if (low <= value && value <= high) return;
    print_error("%s is %lld, which is not in %lld to %lld\n", text, value, low, high);
    _fail(file, line);
}

void assert_holds_(bool holds, const char *text, const char *file, int line) {
    if (holds) return;
    print_error("%s\n", text);
    _fail(file, line);
}

void assert_close_(double value, double reference, double bound, const char *text, const char *file, int line) {
    if (fabs(value - reference) <= bound || value == reference) return; /* the latter for infinities; NaN fails both */
    print_error("%s is %.17g, not %.17g: differs by %.3g, and the bound is %.3g\n", text, value, reference,
                fabs(value - reference), bound);
    _fail(file, line);
}

/* Return and clear the recorded line, so that the next failure is not mistaken for this one. */
static const char *take_status_text(void) {
    static char text[4096];
    snprintf(text, sizeof text, "%s", status_text());
    status_clear();
    return text;
}

void assert_fails_(int status, int code, const char *const *words, const char *text, const char *file, int line) {
    const char *said = take_status_text();
    if (status != code) {
        print_error("%s gave %s, not %s%s%s\n", text, status_name((enum status)status), status_name((enum status)code),
                    *said ? ": " : "", said);
        _fail(file, line);
    }
    for (; *words; words++)
        if (!strstr(said, *words)) {
            print_error("%s failed as it should, but does not say \"%s\": %s\n", text, *words, said);
            _fail(file, line);
        }
}

void assert_ok_(int status, const char *text, const char *file, int line) {
    if (status == OK) return;
    const char *said = take_status_text();
    print_error("%s gave %s: %s\n", text, status_name((enum status)status), *said ? said : "another rank may say why");
    _fail(file, line);
}

/* ---- agreement ---- */

void test_give_up(const char *what) {
    dprintf(STDERR_FILENO, "FAILED %s: rank %d waits for the others in vain\n", what, comm_world_rank());
    status_report();
    comm_finish(false, 1);
    exit(1);
}

/* If ranks cannot even agree, there is nothing to assert; an assert would blame the tested code. */
static void all_reduce_max(double *x, int n) {
    if (comm_all_reduce(group_world(), x, n, FP64, COMM_MAX) != OK) test_give_up("agreement");
}

double agree_max(double x) {
    /* MPI libraries differ in their maximum of NaN, so NaN travels as a number of its own */
    double both[2] = {isnan(x) ? 1 : 0, isnan(x) ? -INFINITY : x};
    all_reduce_max(both, 2);
    return both[0] > 0 ? NAN : both[1];
}

bool agree_all(bool mine) {
    return agree_max(mine ? 0 : 1) == 0;
}

/* ---- exact blocks, and drawn numbers ---- */

struct exact_block { void *pages; size_t bytes; struct exact_block *next; };
static struct exact_block *exact_blocks;

/* The block ends where a page begins that no one may touch. */
static void *map_block(const void *from, size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    struct exact_block *b = malloc(sizeof *b);
    char *at = b ? mmap(NULL, whole + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    if (at == MAP_FAILED) fail_msg("no memory for a block of %zu bytes", bytes);
    *b = (struct exact_block){at, whole + page, exact_blocks};
    exact_blocks = b;
    memset(at, 0x7f, whole);
    if (from && bytes) memcpy(at + whole - bytes, from, bytes);
    if (mprotect(at + whole, page, PROT_NONE) != 0 || (from && whole && mprotect(at, whole, PROT_READ) != 0))
        fail_msg("a block of %zu bytes cannot be protected", bytes);
    return at + whole - bytes;
}

void *test_block(size_t bytes) { return map_block(NULL, bytes); }
const void *test_block_of(const void *bytes, size_t n) { return map_block(bytes, n); }

static uint64_t n_drawn;

void test_blocks_clear(void) {
    n_drawn = 0;
    while (exact_blocks) {
        struct exact_block *b = exact_blocks;
        exact_blocks = b->next;
        munmap(b->pages, b->bytes);
        free(b);
    }
}

int64_t test_drawn(int64_t from, int64_t to) {
    const char *seed = getenv("TEST_SEED");
    double u = rng_uniform(seed ? strtoull(seed, NULL, 10) : 1, rng_stream("test_drawn"), n_drawn++);
    return from + (int64_t)(u * (double)(to - from + 1));
}

/* ---- standard error ---- */

static int terminal = -1;
static FILE *kept, *stream;

void test_stderr_keep(void) {
    kept = tmpfile();
    if (!kept) fail_msg("no temporary file for standard error");
    terminal = dup(STDERR_FILENO);
    dup2(fileno(kept), STDERR_FILENO);
    stream = stderr;                         /* the runner's memory stream (runner.c) */
    setvbuf(stderr = kept, NULL, _IONBF, 0);
}

const char *test_stderr_text(void) {
    static char text[16384];
    stderr = stream;
    dup2(terminal, STDERR_FILENO);
    close(terminal);
    rewind(kept);
    text[fread(text, 1, sizeof text - 1, kept)] = 0;
    fclose(kept);
    return text;
}

/* ---- scratch files ---- */

static char directory[64];
static pid_t owner; /* a forked child shares the name, and must not remove the directory when it exits */

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    return remove(path);
}

static void remove_directory(void) {
    if (getpid() == owner) nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_directory(void) {
    owner = getpid();
    snprintf(directory, sizeof directory, "/tmp/trivium-test-%d", (int)owner);
    remove_directory(); /* a killed process of this number may have left one */
    if (mkdir(directory, 0700) != 0) {
        perror(directory);
        exit(1);
    }
    atexit(remove_directory);
}

const char *test_path(const char *name) {
    static char paths[8][512];
    static int turn;
    if (!*directory) make_directory();
    char *path = paths[turn++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static int clearings;

void test_paths_clear(void) {
    clearings++;
    if (!*directory) return;
    remove_directory();
    mkdir(directory, 0700);
}

int test_paths_clearings(void) { return clearings; }

const struct device *test_device(void) {
    const char *name = getenv("DEVICE");
    const struct device *device = device_cpu();
    if (name && strcmp(name, "cpu") != 0) assert_ok(device_cuda(0, &device));
    return device;
}

bool test_same_files(const char *a, const char *b) {
    FILE *f = fopen(a, "rb"), *g = fopen(b, "rb");
    bool same = f && g;
    for (int c = 0; same && c != EOF;) same = (c = fgetc(f)) == fgetc(g);
    if (f) fclose(f);
    if (g) fclose(g);
    return same;
}
