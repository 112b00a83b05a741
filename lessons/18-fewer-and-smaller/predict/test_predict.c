/* ranks: 1  device: cpu
 *
 * Predictions compared with the program's numbers: counts and simulations of tables of hops (lib/comm/hops/hops.h),
 * codes (lib/ops/codec.h), and the bill of a compiled step, exchange by exchange (lib/run/sent.h). */
#include "driver/recipe.h"
#include "lib/base/integer.h"
#include "lib/comm/coded.h"
#include "lib/comm/hops/hop_simulate.h"
#include "lib/run/run.h"
#include "lib/run/sent.h"
#include "tests/test.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the file ---- */
/* "1.5*1024*8" */
static bool read_product(const char *text, double *out) {
    *out = 1;
    for (;;) {
        char *end;
        *out *= strtod(text, &end);
        if (end == text) return false;
        text = end + strspn(end, " \t\r\n");
        if (*text != '*') return *text == '\0' && isfinite(*out);
        text++;
    }
}

static enum status read_answer(const char *name, double *out) {
    const char *path = getenv("SUBMISSION");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[256], text[256] = "";
    size_t n = strlen(name);
    if (!file) return FAIL(E_IO, "cannot open the table %s", path ? path : "(SUBMISSION is not set)");
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, name, n) && line[n] == ':') snprintf(text, sizeof text, "%s", line + n + 1);
    fclose(file);
    if (!text[0]) return FAIL(E_FORMAT, "there is no line \"%s: ...\"", name);
    if (strchr(text, '?')) return FAIL(E_TODO, "%s is yours to predict", name);
    return read_product(text, out) ? OK : FAIL(E_FORMAT, "%s: a number, or a product of numbers, has to stand there",
                                               name);
}

/* Check all names of a claim, and report the wrong ones in one sentence. */
struct answers { char wrong[512]; enum status status; };

static void compare(struct answers *a, const char *name, double right, double tolerance) {
    double said;
    if (a->status == OK) a->status = read_answer(name, &said);
    if (a->status != OK) return;
    if (fabs(said - right) <= tolerance * right) return;
    size_t at = strlen(a->wrong);
    snprintf(a->wrong + at, sizeof a->wrong - at, "%s%s is too %s", at ? ", " : "", name,
             said > right ? "large" : "small");
}
static void judge(const struct answers *a) {
    assert_ok(a->status);
    if (a->wrong[0]) fail_msg("%s", a->wrong);
}

/* ---- one operation ---- */
enum { MIB = 1 << 20, RANKS = 8, HOMES = 4 };

static struct hop_shape fp32_sum(int n, int64_t bytes, const int *node) {
    return (struct hop_shape){COMM_ALL_REDUCE, n, 0, bytes / 4, 0, HOP_LINE_BYTES / 4, node};
}

/* Rank 0's count; in these algorithms rank 0 sends most. */
static struct hop_count count_of(const char *algorithm, const struct hop_shape *shape) {
    struct hop_table table;
    assert_ok(hops_make(comm_algorithm_find(algorithm), shape, 0, &table));
    struct hop_count count = hops_count(&table, shape, 0, FP32);
    hop_table_free(&table);
    return count;
}

static void compare_operation(struct answers *a, const char *algorithm, const struct hop_shape *shape) {
    struct hop_count count = count_of(algorithm, shape);
    char name[64];
    snprintf(name, sizeof name, "%s_bytes", algorithm);
    compare(a, name, (double)count.bytes[0], 1e-3);
    snprintf(name, sizeof name, "%s_messages", algorithm);
    compare(a, name, (double)count.messages[0], 0);
}

TEST(test_predict_1_an_all_reduce) {
    struct answers a = {.status = OK};
    const struct hop_shape shape = fp32_sum(RANKS, MIB, NULL);
    compare_operation(&a, "ring", &shape);
    compare_operation(&a, "doubling", &shape);
    compare_operation(&a, "main", &shape);
    judge(&a);
}

static const struct codec INT8_CODE = {CODEC_INT8, 0}, SIGN_CODE = {CODEC_SIGN, 0}, TOPK_CODE = {CODEC_TOPK, 1};

/* Bytes of the two exchanges of lib/comm/coded.h: each sends the whole code, except the rank's own part. */
static double coded_bytes(const struct codec *codec, int n, int64_t elements) {
    double whole = (double)coded_wire_bytes(codec, elements, n);
    return comm_algorithm_bytes(COMM_ALL_TO_ALL, n, whole) + comm_algorithm_bytes(COMM_ALL_GATHER, n, whole);
}

TEST(test_predict_2_codes) {
    struct answers a = {.status = OK};
    compare(&a, "int8_bytes", coded_bytes(&INT8_CODE, RANKS, MIB / 4), 1e-3);
    compare(&a, "sign_bytes", coded_bytes(&SIGN_CODE, RANKS, MIB / 4), 1e-3);
    compare(&a, "topk_bytes", coded_bytes(&TOPK_CODE, RANKS, MIB / 4), 1e-3);
    judge(&a);
}

/* ---- a step of a model ---- */
/* Bytes that a rank sends inside its node and to other nodes, the mean over n_steps. */
static enum status step_of(const char *options, int n_ranks, int rank, int64_t n_steps, double sent[2]) {
    char text[512], *argv[64];
    int argc = 0;
    struct plan plan = {0};
    struct options *o = NULL;
    struct run r;
    struct sent_rules rules;
    snprintf(text, sizeof text, "%s", options);
    for (char *word = strtok(text, " "); word && argc < 64; word = strtok(NULL, " ")) argv[argc++] = word;
    TRY(recipe_options_create(NULL, &plan, &o));
    enum status status = options_parse(o, argc, argv);
    if (status == OK) status = recipe_preset(&plan, o);
    options_destroy(&o);
    if (status == OK) status = plan_settle(&plan, n_ranks);
    TRY(status);
    status = run_compile(&r, &train_recipe, &plan, rank, NULL, NULL);
    if (status == OK) status = sent_rules_of(&plan, &rules);
    sent[0] = sent[1] = 0;
    for (enum mesh_axis axis = 0; axis < N_MESH_AXES && status == OK; axis++) {
        struct sent sum[2];
        status = sent_by_axis(&rules, &plan.mesh, rank, &r.bill, axis, n_steps, sum);
        for (int b = 0; b < 2 && status == OK; b++)
            sent[b] += (double)(sum[0].count.bytes[b] + sum[1].count.bytes[b]) / (double)n_steps;
    }
    run_destroy(&r);
    return status;
}

static void compare_step(struct answers *a, const char *name, const char *options, int n_ranks, int rank,
                         int64_t n_steps, int where, double tolerance) {
    double sent[2];
    assert_ok(step_of(options, n_ranks, rank, n_steps, sent));
    compare(a, name, sent[where], tolerance);
}

TEST(test_predict_3_who_adds_and_how_often) {
    struct answers a = {.status = OK};
    compare_step(&a, "main_rank_0", "--model gpt2-124m --dp 4 --dp-style main", 4, 0, 1, 0, 0.01);
    compare_step(&a, "servers_rank_0", "--model gpt2-124m --dp 4 --servers 2", 4, 0, 1, 0, 0.01);
    compare_step(&a, "servers_rank_3", "--model gpt2-124m --dp 4 --servers 2", 4, 3, 1, 0, 0.01);
    compare_step(&a, "local_50", "--model gpt2-124m --dp 4 --local-steps 50", 4, 0, 50, 0, 0.01);
    judge(&a);
}

#define SHARDED                                                                                                        \
    "--layers 8 --hidden 512 --heads 8 --seq 64 --vocab 256 --dp 8 --global-batch 8 --micro-batch 1 "                  \
    "--ranks-per-node 4 --comm-algorithm pairwise --zero 3"
TEST(test_predict_4_what_leaves_a_node) {
    struct answers a = {.status = OK};
    compare_step(&a, "zero_3", SHARDED, 8, 0, 1, 1, 0.03);
    compare_step(&a, "shard_node", SHARDED " --shard node", 8, 0, 1, 1, 0.03);
    compare_step(&a, "zero_secondary", SHARDED " --zero-secondary node", 8, 0, 1, 1, 0.03);
    judge(&a);
}

/* ---- seconds ---- */
static double seconds_of(const char *algorithm, struct hop_shape shape, int64_t element_bytes, double latency_s,
                         double bytes_per_s, double s_per_byte_added) {
    const struct hop_links links = {{latency_s, latency_s}, {1 / bytes_per_s, 1 / bytes_per_s}, s_per_byte_added,
                                    false};
    double seconds;
    assert_ok(hop_simulate(comm_algorithm_find(algorithm), &shape, element_bytes, &links, NULL, NULL, &seconds));
    return seconds;
}

static double coded_seconds(const struct codec *codec, int64_t bytes, int n, const int *node, double latency_s,
                            double bytes_per_s, double s_per_byte_added) {
    static const enum comm_op ops[] = {COMM_ALL_TO_ALL, COMM_ALL_GATHER};
    int64_t part = codec_bytes(codec, ceil_div(bytes / 4, n));
    double seconds = 3 * (double)bytes * s_per_byte_added;
    for (int i = 0; i < 2; i++)
        seconds += seconds_of("pairwise", (struct hop_shape){ops[i], n, 0, part, 0, 1, node}, 1, latency_s, bytes_per_s,
                              0);
    return seconds;
}

TEST(test_predict_5_homes) {
    static const int node[HOMES] = {0, 1, 2, 3};
    const int64_t S = 3337216;
    const double latency = 0.05, bandwidth = 2.5e6;
    struct answers a = {.status = OK};
    double plain = seconds_of("pairwise", fp32_sum(HOMES, S, node), 4, latency, bandwidth, 0);
    compare(&a, "plain_seconds", plain, 0.02);
    compare(&a, "sign_seconds", coded_seconds(&SIGN_CODE, S, HOMES, node, latency, bandwidth, 0), 0.02);
    compare(&a, "local_20_seconds", plain / 20, 0.02);
    judge(&a);
}

/* The bandwidth below which the codec beats a ring, between 1 MB/s and 1 TB/s. */
static double crossing_of(const struct codec *codec) {
    static const int node[RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};
    const double latency = 20e-6, added = 0.125e-9;
    double low = 1e6, high = 1e12;
    for (int i = 0; i < 40; i++) {
        double middle = sqrt(low * high);
        bool beats = coded_seconds(codec, 25 * MIB, RANKS, node, latency, middle, added) <
                     seconds_of("ring", fp32_sum(RANKS, 25 * MIB, node), 4, latency, middle, added);
        if (beats) low = middle;
        else high = middle;
    }
    assert_true(low > 2e6 && high < 5e11);
    return low;
}

TEST(test_predict_6_crossings) {
    struct answers a = {.status = OK};
    compare(&a, "int8_crossing", crossing_of(&INT8_CODE), 0.05);
    compare(&a, "sign_crossing", crossing_of(&SIGN_CODE), 0.05);
    judge(&a);
}

TESTS(unit_test(test_predict_1_an_all_reduce), unit_test(test_predict_2_codes),
      unit_test(test_predict_3_who_adds_and_how_often), unit_test(test_predict_4_what_leaves_a_node),
      unit_test(test_predict_5_homes), unit_test(test_predict_6_crossings))
