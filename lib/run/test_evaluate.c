/* ranks: 1 2  device: cpu
 *
 * Evaluation against GPT-2 in plain loops: one sequence at a time, without blocking, fusion or sharding. In every batch
 * size and layout, the validation loss must be the mean over the tokens of the split. */
#include "driver/recipe.h"
#include "lib/run/run.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- GPT-2 in plain loops. Weights are found by name in a serial run; x is (T,C) ---- */
enum { T = 8, C = 16, HEADS = 4, D = C / HEADS, V = 131, LAYERS = 2 };

static const double *weight(const struct run *r, const char *block, const char *name) {
    char full[64];
    snprintf(full, sizeof full, "%s.%s", block, name);
    for (int i = 0; i < r->program.n_params; i++)
        if (!strcmp(r->program.params[i].name, full)) return r->program.params[i].weight;
    fail_msg("no param is called %s", full);
    return NULL;
}

static void layernorm(double *y, const double *x, const double *gain, const double *bias) {
    double mean = 0, variance = 0;
    for (int c = 0; c < C; c++) mean += x[c] / C;
    for (int c = 0; c < C; c++) variance += (x[c] - mean) * (x[c] - mean) / C;
    for (int c = 0; c < C; c++) y[c] = (x[c] - mean) / sqrt(variance + 1e-5) * gain[c] + bias[c];
}

/* y[o] = bias[o] + sum_i w[o,i] x[i]; bias may be NULL */
static void product(double *y, int n_out, const double *x, int n_in, const double *w, const double *bias) {
    for (int o = 0; o < n_out; o++) {
        y[o] = bias ? bias[o] : 0;
        for (int i = 0; i < n_in; i++) y[o] += w[o * n_in + i] * x[i];
    }
}

static double gelu(double x) {
    return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

/* One head at position t: softmax over the positions 0 .. t. qkv is (T,3,H,D). */
static void attend(double *y, double qkv[T][3][HEADS][D], int t, int h) {
    double score[T], sum = 0;
    for (int j = 0; j <= t; j++) {
        score[j] = 0;
        for (int d = 0; d < D; d++) score[j] += qkv[t][0][h][d] * qkv[j][1][h][d] / sqrt(D);
        sum += exp(score[j]);
    }
    for (int d = 0; d < D; d++) {
        y[d] = 0;
        for (int j = 0; j <= t; j++) y[d] += exp(score[j]) / sum * qkv[j][2][h][d];
    }
}

static void attention_half(const struct run *r, const char *block, double x[T][C]) {
    double normed[C], qkv[T][3][HEADS][D], att[C], y[C];
    for (int t = 0; t < T; t++) {
        layernorm(normed, x[t], weight(r, block, "ln1.g"), weight(r, block, "ln1.b"));
        product(&qkv[t][0][0][0], 3 * C, normed, C, weight(r, block, "qkv.w"), weight(r, block, "qkv.b"));
    }
    for (int t = 0; t < T; t++) {
        for (int h = 0; h < HEADS; h++) attend(att + h * D, qkv, t, h);
        product(y, C, att, C, weight(r, block, "proj.w"), weight(r, block, "proj.b"));
        for (int c = 0; c < C; c++) x[t][c] += y[c];
    }
}

static void mlp_half(const struct run *r, const char *block, double x[T][C]) {
    double normed[C], hidden[4 * C], y[C];
    for (int t = 0; t < T; t++) {
        layernorm(normed, x[t], weight(r, block, "ln2.g"), weight(r, block, "ln2.b"));
        product(hidden, 4 * C, normed, C, weight(r, block, "fc.w"), weight(r, block, "fc.b"));
        for (int k = 0; k < 4 * C; k++) hidden[k] = gelu(hidden[k]);
        product(y, C, hidden, 4 * C, weight(r, block, "fc2.w"), weight(r, block, "fc2.b"));
        for (int c = 0; c < C; c++) x[t][c] += y[c];
    }
}

/* -log of the target's probability */
static double surprise(const struct run *r, const double *x, int target) {
    double normed[C], logits[V], sum = 0;
    layernorm(normed, x, weight(r, "head", "lnf.g"), weight(r, "head", "lnf.b"));
    product(logits, V, normed, C, weight(r, "embed", "wte"), NULL);
    for (int v = 0; v < V; v++) sum += exp(logits[v]);
    return log(sum) - logits[target];
}

static double sequence_loss(const struct run *r, const int32_t *tokens, const int32_t *targets) {
    double x[T][C], sum = 0;
    for (int t = 0; t < T; t++)
        for (int c = 0; c < C; c++)
            x[t][c] = weight(r, "embed", "wte")[tokens[t] * C + c] + weight(r, "embed", "wpe")[t * C + c];
    for (int l = 0; l < LAYERS; l++) {
        char block[16];
        snprintf(block, sizeof block, "h%d", l);
        attention_half(r, block, x);
        mlp_half(r, block, x);
    }
    for (int t = 0; t < T; t++) sum += surprise(r, x[t], targets[t]);
    return sum;
}

/* The mean over the first n samples of the split. This function counts the tokens itself. */
static double plain_loss(const struct run *r, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        int32_t tokens[T], targets[T];
        for (int t = 0; t < T; t++) {
            tokens[t] = data_token(r->val.file, r->val.first + i * T + t);
            targets[t] = data_token(r->val.file, r->val.first + i * T + t + 1);
        }
        sum += sequence_loss(r, tokens, targets);
    }
    return sum / (n * T);
}

/* ---- runs: the validation split is 13 samples and 5 more tokens of the demonstration text ---- */
enum { SAMPLES = 13 };

static struct plan layout(int dp, int tp, int pp, int global_batch, int micro_batch) {
    struct plan p = parity_plan();
    p.layers = LAYERS;
    p.heads = HEADS;
    p.mesh.dp = dp;
    p.mesh.tp = tp;
    p.mesh.pp = pp;
    p.global_batch = global_batch;
    p.micro_batch = micro_batch;
    return p;
}

/* Create a run with larger weights than initial ones, so that samples have different losses, and a mean over the wrong
 * samples shows. @collective{world} */
static enum status create(struct run *r, struct plan *p) {
    static struct data_file *file;
    memset(r, 0, sizeof *r);
    if (!file) TRY(data_open("configs/demo.txt", &file));
    struct data_split train = {file, 0, 4000, T, NULL}, val = {file, 4321, SAMPLES * T + 1 + 5, T, NULL};
    TRY(plan_settle(p, plan_ranks(p)));
    TRY(run_create(r, &train_recipe, p, false));
    run_set_data(r, &train, &val);
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        for (int64_t k = 0; w->present && w->decay && k < type_n(&w->type); k++) ((double *)w->weight)[k] *= 8;
    }
    return OK;
}

/* The mean over the first n samples; each process computes it alone. */
static enum status expected_loss(int n, double *loss) {
    struct run r;
    struct plan p = layout(1, 1, 1, 1, 1);
    enum status status = create(&r, &p);
    if (status == OK) *loss = plain_loss(&r, n);
    run_destroy(&r);
    return status;
}

static enum status evaluated(struct plan p, int64_t n_batches, double *loss) {
    struct run r;
    enum status status = create(&r, &p);
    if (status == OK) status = run_evaluate(&r, n_batches, loss);
    run_destroy(&r);
    return status;
}

/* Both sides do the same few thousand operations in fp64, with sums of up to 131 terms: errors are far below 1e-12. */
static void check(struct plan p, int64_t n_batches, int n_samples) {
    double expected = 0, loss = 0;
    enum status status = expected_loss(n_samples, &expected);
    if (agree_all(status == OK)) status = evaluated(p, n_batches, &loss);
    double error = agree_max(fabs(loss - expected) / expected);
    assert_ok(status);
    assert_close(error, 0, 1e-12);
}

static struct plan nth_layout(int n, int global_batch, int micro_batch) {
    int world = comm_world_size();
    return layout(n == 0 ? world : 1, n == 1 ? world : 1, n == 2 ? world : 1, global_batch, micro_batch);
}
static int n_layouts(void) { return comm_world_size() == 1 ? 1 : 3; }

/* ---- the tests ---- */
/* Of 13 samples, batches of 4 leave one over, a batch of 16 is not full, and batches of 2 also leave one over. */
TEST(test_validation_loss_is_the_plain_mean_in_every_layout_and_batch) {
    const struct { int global_batch, micro_batch; } batches[] = {{2, 1}, {4, 1}, {4, 2}, {16, 4}, {16, 8}};
    for (int n = 0; n < n_layouts(); n++)
        for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
            check(nth_layout(n, batches[i].global_batch, batches[i].micro_batch), 0, SAMPLES);
}

TEST(test_eval_batches_limits_the_mean) {
    for (int n = 0; n < n_layouts(); n++) {
        check(nth_layout(n, 4, 2), 2, 8);
        check(nth_layout(n, 4, 2), 4, SAMPLES);
        check(nth_layout(n, 4, 2), 100, SAMPLES);
    }
}

/* The two tests above would pass if all samples had one loss. */
TEST(test_samples_differ) {
    double all = 0, some = 0;
    enum status status = expected_loss(SAMPLES, &all);
    if (status == OK) status = expected_loss(SAMPLES - 1, &some);
    assert_ok(status);
    assert_true(fabs(all - some) > 1e-3);
}

static enum status two_steps(struct plan p, bool evaluate_between, double losses[2]) {
    struct run r;
    double ignored;
    enum status status = create(&r, &p);
    for (int i = 0; i < 2 && status == OK; i++) {
        status = run_step(&r);
        losses[i] = r.last.loss;
        if (status == OK && evaluate_between) status = run_evaluate(&r, 0, &ignored);
    }
    run_destroy(&r);
    return status;
}

TEST(test_evaluation_leaves_training_alone) {
    for (int n = 0; n < n_layouts(); n++) {
        double with[2] = {0}, without[2] = {0};
        enum status status = two_steps(nth_layout(n, 4, 1), true, with);
        if (agree_all(status == OK)) status = two_steps(nth_layout(n, 4, 1), false, without);
        assert_ok(status);
        assert_true(with[1] > 0);
        assert_memory_equal(with, without, sizeof with);
    }
}

TEST(test_no_validation_data_is_said) {
    struct run r;
    double loss;
    struct plan p = nth_layout(0, 4, 1);
    enum status created = create(&r, &p), status = OK;
    r.val.n_tokens = 0;
    if (created == OK) status = run_evaluate(&r, 0, &loss);
    run_destroy(&r);
    assert_ok(created);
    assert_fails(status, E_DATA, "no validation data", "val-data", "val-fraction");
}

/* ---- evaluations that do not reach their end ---- */
static enum status after_two(void *self, bool *ends) {
    int *asked = self;
    *ends = ++*asked == 2;
    return OK;
}

TEST(test_it_ends_where_the_watcher_says_so) {
    for (int n = 0; n < n_layouts(); n++) {
        struct run r;
        struct evaluated out = {0};
        int asked = 0;
        struct plan p = nth_layout(n, 4, 2);
        enum status status = create(&r, &p);
        if (agree_all(status == OK)) status = run_evaluate_until(&r, 0, after_two, &asked, &out);
        run_destroy(&r);
        assert_ok(status);
        assert_true(out.batches == 2 && out.all == 4 && asked == 2 && isnan(out.loss));
    }
}

/* Only the last rank cannot read its samples, while the other ranks are in the same batch. */
TEST(test_a_sample_that_one_rank_cannot_read_fails_all_and_training_goes_on) {
    for (int n = 0; n < n_layouts(); n++) {
        struct run r;
        double loss = 0;
        struct plan p = nth_layout(n, 4, 1);
        enum status failed = OK, checked = OK, status = create(&r, &p);
        int64_t vocab = r.plan.vocab;
        if (comm_world_rank() == comm_world_size() - 1) r.plan.vocab = 32;
        if (agree_all(status == OK)) failed = run_evaluate(&r, 0, &loss);
        char said[256];
        snprintf(said, sizeof said, "%s", status_message());
        status_clear();
        if (agree_all(status == OK)) checked = run_check_validation(&r, 0);
        r.plan.vocab = vocab;
        if (agree_all(status == OK)) status = run_step(&r);
        if (agree_all(status == OK)) status = run_evaluate(&r, 0, &loss);
        run_destroy(&r);
        assert_ok(status);
        assert_true(failed == E_DATA && checked == E_DATA && loss > 0);
        assert_non_null(strstr(said, "is not below vocab=32"));
    }
}

TESTS(unit_test(test_it_ends_where_the_watcher_says_so),
      unit_test(test_a_sample_that_one_rank_cannot_read_fails_all_and_training_goes_on),
      unit_test(test_validation_loss_is_the_plain_mean_in_every_layout_and_batch),
      unit_test(test_eval_batches_limits_the_mean), unit_test(test_samples_differ),
      unit_test(test_evaluation_leaves_training_alone), unit_test(test_no_validation_data_is_said))
