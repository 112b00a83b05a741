/* build/bench-allreduce: the speed of all-reduce algorithms on this machine, by size, as CSV.
 *
 *   mpirun --oversubscribe -n 4 build/bench-allreduce [--smallest BYTES] [--largest BYTES] [--only NAME] [--samples N]
 *       [--algorithms] [--ranks-per-node N] [--placement block|cyclic] [--link-inside LINK] [--link-between LINK]
 *
 * One line per algorithm and size: algorithm, ranks, bytes, seconds, bus_bandwidth, least_seconds, simulated_seconds.
 * simulated_seconds is for emulated links and lib/comm's named algorithms: the time of their tables, in which additions
 * are free. Each algorithm first sums small whole numbers; a wrong sum ends the job. Then it takes samples: a barrier,
 * and enough runs in a row to take some milliseconds, timed on the slowest rank. seconds is the median of the samples,
 * least_seconds the smallest: their difference shows what other load the machine had.
 *
 * Bus bandwidth, the formula of nccl-tests (PERFORMANCE.md). An all-reduce of S bytes on n ranks has to move 2 S
 * (n-1)/n in and out of every rank: each of the S/elements sums needs n-1 additions somewhere, and its result n-1
 * copies, which is 2 (n-1) transfers of an element for n ranks that can send at the same time. So
 *
 *     bus_bandwidth = (S / seconds) 2 (n-1)/n            bytes/s
 *
 * is what a rank's wire carries if nothing is sent twice, so it can be compared with the wire's speed for every n.
 * Bytes that an algorithm sends beyond that (a tree does) do not raise it. */
#include "driver/compare/compare_measure.h"
#include "lessons/02-collectives/all_reduce/all_reduce.h"
#include "lib/base/clock.h"
#include "lib/base/option.h"
#include "lib/comm/hops/comm_links.h"
#include "lib/comm/hops/hop_simulate.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct buffers { float *x, *scratch; int64_t count; };               /* count: of the size that is measured */
struct request {
    int64_t smallest, largest, samples, ranks_per_node;
    int algorithms, cyclic;
    char only[OPTION_TEXT_MAX], link_inside[OPTION_TEXT_MAX], link_between[OPTION_TEXT_MAX];
};

#define AT(field) offsetof(struct request, field)
static const struct option OPTIONS[] = {
    {"smallest", OPTION_INT, "1024", 4, 1 << 30, NULL, "bytes", "the first size; each is four times the one before",
     "bench", AT(smallest)},
    {"largest", OPTION_INT, "16777216", 4, 1 << 30, NULL, "bytes", "no size above", "bench", AT(largest)},
    {"samples", OPTION_INT, "7", 1, 1000, NULL, "", "of which the median is taken", "bench", AT(samples)},
    {"algorithms", OPTION_BOOL, "off", 0, 0, NULL, "", "also lib/comm by each of its algorithms, and the MPI library",
     "bench", AT(algorithms)},
    {"only", OPTION_TEXT, "", 0, 0, NULL, "", "this way alone", "bench", AT(only)},
    {"ranks-per-node", OPTION_INT, "0", 0, 1000, NULL, "ranks", "emulate nodes", "bench", AT(ranks_per_node)},
    {"placement", OPTION_CHOICE, "block", 0, 0, "block|cyclic", "", "of ranks on them", "bench", AT(cyclic)},
    {"link-inside", OPTION_TEXT, "", 0, 0, NULL, "", "emulate slow links, as in train", "bench", AT(link_inside)},
    {"link-between", OPTION_TEXT, "", 0, 0, NULL, "", "the same", "bench", AT(link_between)},
};

/* ---- the algorithms: one per line ---- */
typedef enum status reducer(const struct group *, float *x, int64_t count, float *scratch);

static enum status library(const struct group *g, float *x, int64_t count, float *scratch) {
    (void)scratch;
    return comm_all_reduce(g, x, count, FP32, COMM_SUM);
}

/* algorithm: of lib/comm, whose table can be simulated; else NULL */
static const struct way { const char *name; reducer *run; const struct comm_algorithm *algorithm; } WAYS[] = {
    {"lib/comm", library, NULL},
    {"ring", all_reduce_ring, NULL},
    {"tree", all_reduce_tree, NULL},
    {"halving-doubling", all_reduce_halving_doubling, NULL},
};
enum { N_WAYS = sizeof WAYS / sizeof *WAYS };
static const double SAMPLE_S = 4e-3;

/* ---- one algorithm, one size ---- */

/* Whole numbers below 2^24: exact in any order. Element i of rank r is r + i mod 7. */
static enum status check(const struct way *way, struct buffers *b) {
    int n = comm_world_size(), base = n * (n - 1) / 2;
    for (int64_t i = 0; i < b->count; i++) b->x[i] = (float)(comm_world_rank() + i % 7);
    TRY(way->run(group_world(), b->x, b->count, b->scratch));
    for (int64_t i = 0; i < b->count; i++)
        if (b->x[i] != (float)(base + n * (int)(i % 7)))
            return FAIL(E_INTERNAL, "%s: element %" PRId64 " of %" PRId64 " is %g, not %d", way->name, i, b->count,
                        (double)b->x[i], base + n * (int)(i % 7));
    return OK;
}

static enum status sample(const struct way *way, struct buffers *b, int runs, double *seconds) {
    TRY(comm_barrier(group_world()));
    double start = clock_s();
    for (int i = 0; i < runs; i++) TRY(way->run(group_world(), b->x, b->count, b->scratch));
    *seconds = (clock_s() - start) / runs;
    return comm_all_reduce(group_world(), seconds, 1, FP64, COMM_MAX);
}

/* samples: sorted afterwards */
static enum status measure(const struct way *way, struct buffers *b, int64_t n_samples, double *seconds,
                           double *samples) {
    memset(b->x, 0, (size_t)b->count * sizeof *b->x);                /* sums stay zero, however often they are taken */
    TRY(sample(way, b, 1, seconds));
    int runs = (int)fmin(1000, fmax(1, ceil(SAMPLE_S / *seconds)));  /* the same on all ranks, as seconds is */
    for (int64_t i = 0; i < n_samples; i++) TRY(sample(way, b, runs, &samples[i]));
    *seconds = compare_median(samples, n_samples);
    return OK;
}

/* The simulated seconds of the algorithm's table on the emulated links; "" without links or without a table. */
static enum status simulate(const struct way *way, int64_t count, char *text, size_t bytes) {
    const int element = sizeof(float), n = comm_world_size();
    const struct hop_links *links = comm_links_emulated();
    double seconds;
    *text = 0;
    if (!links || !way->algorithm) return OK;
    int *node = malloc((size_t)n * sizeof *node);
    if (!node) return FAIL(E_MEMORY, "no memory for the nodes of %d ranks", n);
    for (int r = 0; r < n; r++) node[r] = comm_node(r);
    const struct hop_shape shape = {COMM_ALL_REDUCE, n, 0, count, (256 << 10) / element, 64 / element, node};
    enum status status = hop_simulate(way->algorithm, &shape, element, links, NULL, NULL, &seconds);
    free(node);
    snprintf(text, bytes, "%.9g", seconds);
    return status;
}

static enum status run_way(const struct way *way, const struct request *q, struct buffers *b, double *samples) {
    for (int64_t bytes = q->smallest; bytes <= q->largest; bytes *= 4) {
        double n = comm_world_size(), seconds;
        char simulated[32];
        b->count = bytes / (int64_t)sizeof *b->x;
        TRY(fail_agree(group_world(), check(way, b)));
        TRY(simulate(way, b->count, simulated, sizeof simulated));
        TRY(measure(way, b, q->samples, &seconds, samples));
        double bandwidth = (double)bytes / seconds * 2 * (n - 1) / n;
        if (comm_is_rank_0())
            printf("%s,%.0f,%" PRId64 ",%.9g,%.6g,%.9g,%s\n", way->name, n, bytes, seconds, bandwidth, samples[0],
                   simulated);
        fflush(stdout);
    }
    return OK;
}

/* ---- all of them ---- */
static struct comm_settings settings_of(const struct request *q) {
    return (struct comm_settings){.timeout_s = 600, .nodes = {(int)q->ranks_per_node, q->cyclic}};
}

static enum status use_links(const struct request *q) {
    struct hop_links links = {0};
    const struct comm_settings settings = settings_of(q);
    if (q->link_inside[0]) TRY(comm_link_parse("link-inside", q->link_inside, 0, &links));
    if (q->link_between[0]) TRY(comm_link_parse("link-between", q->link_between, 1, &links));
    comm_configure(&settings);
    return comm_emulate_links(q->link_inside[0] || q->link_between[0] ? &links : NULL, 1);
}

/* lib/comm under one rule: an algorithm, or the library. */
static enum status run_rule(const char *name, const struct comm_rule *rule, const struct request *q, struct buffers *b,
                            double *samples, bool *any) {
    char text[64];
    const struct way way = {text, library, rule->algorithm};
    snprintf(text, sizeof text, "lib/comm %s", name);
    if (q->only[0] && strcmp(q->only, text)) return OK;
    *any = true;
    struct comm_settings settings = settings_of(q);
    settings.rule[0] = *rule;
    comm_configure(&settings);
    TRY(run_way(&way, q, b, samples));
    settings.rule[0] = (struct comm_rule){0};
    comm_configure(&settings);
    return OK;
}

static enum status run_ways(const struct request *q, struct buffers *b, double *samples) {
    bool any = false;
    if (comm_is_rank_0()) printf("algorithm,ranks,bytes,seconds,bus_bandwidth,least_seconds,simulated_seconds\n");
    for (int i = 0; i < N_WAYS; i++) {
        if (q->only[0] && strcmp(q->only, WAYS[i].name)) continue;
        TRY(run_way(&WAYS[i], q, b, samples));
        any = true;
    }
    if (q->algorithms && !comm_links_emulated())             /* the library's messages cannot be slowed */
        TRY(run_rule("library", &(struct comm_rule){.library = true}, q, b, samples, &any));
    for (int i = 0; comm_algorithms[i] && q->algorithms; i++)
        TRY(run_rule(comm_algorithms[i]->name, &(struct comm_rule){.algorithm = comm_algorithms[i]}, q, b, samples,
                     &any));
    return fail_agree(
        group_world(),
        any ? OK : FAIL(E_USAGE, "no way is called only=%s; use lib/comm, ring, tree or halving-doubling", q->only));
}

static enum status read_request(struct options *o, int argc, char **argv, const struct request *q) {
    TRY(options_parse(o, argc - 1, argv + 1));
    if (q->smallest <= q->largest) return OK;
    return FAIL(E_CONFIG, "smallest=%" PRId64 " is above largest=%" PRId64 "; lower it, or raise largest", q->smallest,
                q->largest);
}

static enum status bench(int argc, char **argv) {
    const struct option_table table = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS};
    struct request q = {0};
    struct options *o = NULL;
    TRY(options_create(&table, 1, &q, &o));
    enum status status = fail_agree(group_world(), read_request(o, argc, argv, &q));
    options_destroy(&o);
    TRY(status);
    struct buffers b = {malloc((size_t)q.largest), malloc((size_t)q.largest), 0};
    double *samples = malloc((size_t)q.samples * sizeof *samples);
    status =
        b.x && b.scratch && samples ? OK : FAIL(E_MEMORY, "no memory for two buffers of %" PRId64 " bytes", q.largest);
    status = fail_agree(group_world(), status);
    if (status == OK) status = use_links(&q);
    if (status == OK) status = run_ways(&q, &b, samples);
    free(b.x);
    free(b.scratch);
    free(samples);
    return status;
}

int main(int argc, char **argv) {
    alarm(600);                                                      /* MPI can wait forever for a process that does
                                                                      * not come */
    enum status status = comm_start(&argc, &argv);
    if (status == OK) status = bench(argc, argv);
    status_report();
    int code = status_exit_code(status);
    comm_finish(code == 0 || code == 2, code);                        /* all ranks agree on a bad request */
    return code;
}
