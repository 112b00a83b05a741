/* ranks: 1 2  more: 4  device: cpu  threads: 1 */
#include "driver/recipe.h"
#include "mixed_precision/loss_scale.h"
#include "mixed_precision/mixed_precision.h"
#include "models/gpt/gpt.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "zero/zero.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct plan plan_of(enum plan_precision precision) {
    struct plan p = parity_plan();
    p.precision = precision;
    p.micro_batch = 2;
    mixed_precision_options(&p)->init = 4096;
    mixed_precision_options(&p)->min = 1;
    mixed_precision_options(&p)->window = 1000;
    mixed_precision_options(&p)->hysteresis = 2;
    return p;
}

/* With these sizes every param fills whole cache lines, at two bytes per element. So arenas have no gaps. */
static struct plan round_plan(enum plan_precision precision) {
    struct plan p = plan_of(precision);
    p.layers = 2, p.hidden = 64, p.heads = 4, p.seq = 32, p.vocab = 256;
    return p;
}

static enum status start(struct run *r, const struct plan *plan) {
    static struct data_file *file;
    struct data_split train, val;
    struct plan p = *plan;
    TRY(plan_settle(&p, plan_ranks(&p)));
    TRY(run_create(r, &train_recipe, &p, WATCH_LIFETIMES));
    if (!file) TRY(data_open("configs/demo.txt", &file));
    TRY(data_split_tail(file, p.seq, 0.1, &train, &val));
    run_set_data(r, &train, &val);
    return OK;
}

/* Visit the layouts of this number of ranks whose dp, tp and pp are 1 or 2. */
static void each_layout(struct plan p, void (*visit)(const struct plan *)) {
    static const int layouts[][3] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 1, 2}, {2, 2, 1}, {2, 1, 2}, {1, 2, 2}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        p.mesh.dp = layouts[i][0], p.mesh.tp = layouts[i][1], p.mesh.pp = layouts[i][2];
        if (plan_ranks(&p) == comm_world_size()) visit(&p);
    }
}

/* ---- types of params and values ---- */
static void compile(struct run *r, const struct plan *plan, int rank) {
    struct plan p = *plan;
    assert_ok(plan_settle(&p, plan_ranks(&p)));
    assert_ok(run_compile(r, &train_recipe, &p, rank, NULL, NULL));
}

TEST(test_params_take_2_bytes_gradients_2_or_4_and_the_optimizer_12) {
    for (enum plan_precision precision = PRECISION_BF16; precision <= PRECISION_FP16; precision++)
        for (int grad_fp32 = 0; grad_fp32 < 2; grad_fp32++) {
            struct plan p = round_plan(precision);
            struct run r;
            mixed_precision_options(&p)->grad_fp32 = grad_fp32;
            compile(&r, &p, 0);
            int64_t n = gpt_n_params(&p);
            assert_int_equal(r.memory.bytes[TIER_DEVICE][ROLE_PARAM], 2 * n);
            assert_int_equal(r.memory.bytes[TIER_DEVICE][ROLE_GRAD], (grad_fp32 ? 4 : 2) * n);
            assert_int_equal(r.memory.bytes[TIER_DEVICE][ROLE_OPTIM], 12 * n);
            run_destroy(&r);
        }
}

TEST(test_values_are_narrow_and_statistics_wide) {
    struct plan p = round_plan(PRECISION_BF16);
    struct run r;
    compile(&r, &p, 0);
    for (int i = 0; i < r.program.n_steps; i++) {
        const struct step *s = &r.program.steps[i];
        for (int k = 0; k < s->n_out; k++) {
            bool statistic = s->op->no_grad_out >> k & 1;
            assert_int_equal(r.program.slots[s->out[k]].type.dtype, statistic ? FP32 : BF16);
        }
    }
    run_destroy(&r);
}

static int64_t bytes_of_value(const struct run *r, int value) { return r->chunks[0].values[value].bytes; }

TEST(test_neighboring_stages_agree_about_message_bytes) {
    struct plan p = round_plan(PRECISION_FP16);
    struct run first, second;
    p.mesh.pp = 2;
    compile(&first, &p, 0);
    compile(&second, &p, 1);
    int64_t bytes = p.micro_batch * p.seq * p.hidden * 2;
    assert_int_equal(bytes_of_value(&first, first.chunks[0].out[0]), bytes);
    assert_int_equal(bytes_of_value(&second, second.chunks[0].in[0]), bytes);
    assert_int_equal(bytes_of_value(&first, first.chunks[0].dout[0]), bytes);
    assert_int_equal(bytes_of_value(&second, second.chunks[0].din[0]), bytes);
    run_destroy(&first);
    run_destroy(&second);
}

/* An all-reduce of S bytes of gradients over n replicas sends 2 S (n-1)/n per rank. */
static void check_gradient_traffic(int grad_fp32) {
    struct plan p = round_plan(PRECISION_BF16);
    struct run r;
    p.mesh.dp = comm_world_size();
    mixed_precision_options(&p)->grad_fp32 = grad_fp32;
    enum status status = start(&r, &p);
    if (agree_all(status == OK)) status = run_step(&r);
    double ranks = (double)p.mesh.dp,
           sent = status == OK ? group_ledger(r.mesh.group[AXIS_DP])->entry[COMM_ALL_REDUCE].bytes : 0;
    run_destroy(&r);
    assert_ok(status);
    assert_close(sent, 2 * (grad_fp32 ? 4 : 2) * (double)gpt_n_params(&p) * (ranks - 1) / ranks, 0.5);
}

TEST(test_gradients_travel_in_their_own_precision) {
    check_gradient_traffic(0);
    check_gradient_traffic(1);
}

/* ---- the weight is the master, rounded ---- */
static bool weights_are_rounded_masters(const struct run *r) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        size_t bytes = (size_t)w->own_n * 2;
        uint16_t *rounded = w->present && w->own_n ? malloc(bytes) : NULL;
        if (!rounded) continue;
        dtype_convert(rounded, w->type.dtype, param_master(w), FP32, w->own_n);
        bool same = memcmp(rounded, param_own_weight(w), bytes) == 0;
        free(rounded);
        if (!same) return false;
    }
    return true;
}

static void check_masters(const struct plan *plan) {
    struct run r;
    enum status status = start(&r, plan);
    bool at_first = agree_all(status == OK && weights_are_rounded_masters(&r));
    for (int i = 0; i < 3 && status == OK; i++) status = run_step(&r);
    bool later = agree_all(status == OK && weights_are_rounded_masters(&r));
    run_destroy(&r);
    assert_ok(status);
    assert_true(at_first);
    assert_true(later);
}

TEST(test_weights_equal_rounded_masters_bit_for_bit) {
    each_layout(plan_of(PRECISION_BF16), check_masters);
    each_layout(plan_of(PRECISION_FP16), check_masters);
}

/* ---- the loss scale leaves no trace ---- */
struct first_step { double norm, lr; double *moments; int64_t n; };

/* The norm of the first step, and every first moment: (1 - beta1) x the clipped gradient. */
static enum status first_step_of(const struct plan *plan, struct first_step *out) {
    struct run r;
    enum status status = start(&r, plan);
    if (status == OK) status = run_step(&r);
    *out = (struct first_step){.norm = r.last.grad_norm, .lr = r.last.lr,
                               .moments = malloc((size_t)gpt_n_params(plan) * sizeof(double))};
    for (int i = 0; status == OK && i < r.program.n_params; i++)
        for (int64_t k = 0; k < r.program.params[i].own_n; k++)
            out->moments[out->n++] = dtype_get(param_state(&r.program.params[i], 0), FP32, k);
    run_destroy(&r);
    return status;
}

static double largest_difference(const struct first_step *a, const struct first_step *b) {
    double most = 0, largest = 0;
    for (int64_t i = 0; i < a->n; i++) {
        most = fmax(most, fabs(a->moments[i] - b->moments[i]));
        largest = fmax(largest, fabs(b->moments[i]));
    }
    return most / largest;
}

/* fp16 gradients differ from fp32's by less than 0.083 (derived in tests/test_parity_mixed.c); with a scale left in, by
 * a factor of 4096. Tests run with and without clipping, because clipping hides a scale that is also in the norm. The
 * window is one step, so that the scale doubles after this step, which must be unscaled by the scale before. */
static void check_unscaling(double clip) {
    struct plan half = plan_of(PRECISION_FP16), full = plan_of(PRECISION_FP32);
    struct first_step a = {0}, b = {0};
    half.clip = full.clip = clip;
    mixed_precision_options(&half)->window = 1;
    enum status status = first_step_of(&half, &a);
    if (status == OK) status = first_step_of(&full, &b);
    double norm = fabs(a.norm - b.norm) / b.norm, moments = status == OK ? largest_difference(&a, &b) : 0;
    free(a.moments);
    free(b.moments);
    assert_ok(status);
    assert_close(norm, 0, 0.083);
    assert_close(moments, 0, 0.083);
}

TEST(test_norm_and_moments_hold_unscaled_gradients) {
    check_unscaling(0);
    check_unscaling(0.5);
}

/* ---- a step is skipped by all or by none ---- */
struct poison { int rank; };                                         /* -1: none */

/* Put an overflow on one rank only. */
static enum status put_infinity(struct run *r, void *self, const struct event *e) {
    (void)e;
    const struct poison *poison = self;
    for (int i = 0; i < r->program.n_params && comm_world_rank() == poison->rank; i++) {
        const struct param *w = &r->program.params[i];
        if (w->present && w->own_n) {
            dtype_set(param_own_grad(w), w->grad_type.dtype, w->own_n - 1, INFINITY);
            break;
        }
    }
    return OK;
}

static uint64_t hash_bytes(uint64_t h, const void *data, int64_t bytes) {        /* FNV-1a */
    for (int64_t i = 0; i < bytes; i++) h = (h ^ ((const unsigned char *)data)[i]) * 1099511628211u;
    return h;
}
static const uint64_t HASH_BEGINS = 1469598103934665603u;
static uint64_t hash_states(const struct run *r) {
    const struct arena *device = &r->arenas[TIER_DEVICE][ROLE_OPTIM], *host = &r->arenas[TIER_HOST][ROLE_OPTIM];
    return hash_bytes(hash_bytes(HASH_BEGINS, device->base, device->bytes), host->base, host->bytes);
}
/* Own elements only, because with zero the next forward gathers the others. */
static uint64_t hash_weights(const struct run *r) {
    uint64_t h = HASH_BEGINS;
    for (const struct param *w = r->program.params; w < r->program.params + r->program.n_params; w++)
        if (w->present && w->own_n)
            h = hash_bytes(h, param_own_weight(w), w->own_n * (int64_t)dtype_size(w->type.dtype));
    return h;
}

struct seen { bool skipped, weights_same, states_same; int64_t n_update; double used, next, norm; };

/* One step with the given rank poisoned. */
static enum status poisoned_step(struct run *r, struct poison *poison, int rank, struct seen *out) {
    uint64_t weights = hash_weights(r), states = hash_states(r);
    poison->rank = rank;
    TRY(run_step(r));
    *out = (struct seen){r->skipped, hash_weights(r) == weights, hash_states(r) == states,
                         r->n_update, r->last.loss_scale, r->exec.loss_scale, r->last.grad_norm};
    return OK;
}

static bool was_skipped(const struct seen *s, int64_t n_update, double used, double next) {
    return s->skipped && s->weights_same && s->states_same && s->n_update == n_update && s->used == used &&
           s->next == next && isnan(s->norm);
}
static bool was_taken(const struct seen *s, int64_t n_update, double used) {
    return !s->skipped && !s->weights_same && !s->states_same && s->n_update == n_update && s->used == used &&
           s->next == used && isfinite(s->norm);
}

static void check_skipping(const struct plan *plan) {
    struct run r;
    struct poison poison = {-1};
    struct seen seen[4] = {0};
    const int poisoned[4] = {-1, comm_world_size() - 1, 0, -1};
    enum status status = start(&r, plan);
    if (status == OK) status = run_subscribe(&r, EVENT_GRAD_COMBINE, put_infinity, &poison);
    for (int i = 0; i < 4 && status == OK; i++) status = poisoned_step(&r, &poison, poisoned[i], &seen[i]);
    double next = mixed_precision_options(plan)->scale != 0 ? mixed_precision_options(plan)->scale : 2048,
           first = mixed_precision_options(plan)->scale != 0 ? mixed_precision_options(plan)->scale : 4096;
    bool ok = was_taken(&seen[0], 1, first) && was_skipped(&seen[1], 1, first, first) &&
              was_skipped(&seen[2], 1, first, next) && was_taken(&seen[3], 2, next);
    ok = agree_all(ok);
    run_destroy(&r);
    assert_ok(status);
    assert_true(ok);
}

TEST(test_one_rank_overflows_and_all_skip) {
    each_layout(plan_of(PRECISION_FP16), check_skipping);
}

/* With sharded gradients, only one rank normally has the overflow. */
TEST(test_one_rank_overflows_and_all_skip_under_zero) {
    struct plan p = plan_of(PRECISION_FP16);
    for (int stage = 1; stage <= 3; stage++) plan_set_number(&p, "zero", stage), each_layout(p, check_skipping);
    plan_set_number(&p, "zero", 3);
    zero_options(&p)->offload = OFFLOAD_PARAMS;
    each_layout(p, check_skipping);
}

TEST(test_fixed_loss_scale_skips_too) {
    struct plan p = plan_of(PRECISION_FP16);
    mixed_precision_options(&p)->scale = 1000;
    each_layout(p, check_skipping);
}

/* Warmup counts updates, so the step after a skipped one has the rate of the skipped one. */
TEST(test_a_skipped_step_keeps_its_learning_rate_for_the_next) {
    struct plan p = plan_of(PRECISION_FP16);
    struct run r;
    struct poison poison = {-1};
    struct seen seen;
    double lr[3] = {0};
    p.mesh.dp = comm_world_size();
    p.warmup = 10;
    enum status status = start(&r, &p);
    if (status == OK) status = run_subscribe(&r, EVENT_GRAD_COMBINE, put_infinity, &poison);
    for (int i = 0; i < 3 && status == OK; i++) {
        status = poisoned_step(&r, &poison, i == 1 ? 0 : -1, &seen);
        lr[i] = r.last.lr;
    }
    run_destroy(&r);
    assert_ok(status);
    assert_close(lr[0], p.lr / 10, 1e-15);
    assert_close(lr[1], 2 * p.lr / 10, 1e-15);
    assert_close(lr[2], 2 * p.lr / 10, 1e-15);
}

/* ---- no run skips forever ---- */
static enum status steps_until_refused(const struct plan *plan, int *n_steps) {
    struct run r;
    struct poison poison = {0};                                      /* replica 0 counts in the norm */
    enum status status = start(&r, plan);
    *n_steps = 0;
    if (status == OK) status = run_subscribe(&r, EVENT_GRAD_COMBINE, put_infinity, &poison);
    while (status == OK && ++*n_steps < 50) status = run_step(&r);
    run_destroy(&r);
    return status;
}

static void check_refusal(struct plan p, int expected_steps, const char *word) {
    int n_steps;
    p.mesh.dp = comm_world_size();
    enum status status = steps_until_refused(&p, &n_steps);
    bool agreed = agree_all(status == E_NUMERIC && n_steps == expected_steps);
    assert_fails(status, E_NUMERIC, word);
    assert_true(agreed);
}

TEST(test_overflow_that_no_scale_avoids_ends_the_run) {
    struct plan p = plan_of(PRECISION_FP16);
    mixed_precision_options(&p)->min = 1024; /* scales: 4096, 4096, 2048, then 4 times 1024 */
    check_refusal(p, 3 + 4, "loss-scale-min=1024");
    mixed_precision_options(&p)->scale = 512;
    check_refusal(p, 4, "loss-scale=512");
}

TEST(test_bf16_has_no_scale_and_does_not_skip) {
    check_refusal(plan_of(PRECISION_BF16), 1, "gradient norm of step 1");
}

/* ---- options, metrics ---- */
TEST(test_options_that_do_not_go_together_are_refused) {
    struct plan p = plan_of(PRECISION_BF16);
    struct run r;
    mixed_precision_options(&p)->scale = 128;
    assert_ok(plan_settle(&p, 1));
    assert_fails(run_compile(&r, &train_recipe, &p, 0, NULL, NULL), E_CONFIG, "loss-scale=128", "fp16");
    run_destroy(&r);
    p.precision = PRECISION_FP32;
    assert_fails(run_compile(&r, &train_recipe, &p, 0, NULL, NULL), E_CONFIG, "loss-scale=128", "fp16");
    run_destroy(&r);
    p = plan_of(PRECISION_FP16);
    mixed_precision_options(&p)->init = 1;
    mixed_precision_options(&p)->min = 2;
    assert_ok(plan_settle(&p, 1));
    assert_fails(run_compile(&r, &train_recipe, &p, 0, NULL, NULL), E_CONFIG, "loss-scale-init=1", "loss-scale-min=2");
    run_destroy(&r);
}

static enum status load_scale(struct run *r, struct loss_scale *s, const char *text) {
    json_t *json = json_loads(text, 0, NULL);
    enum status status = technique_mixed_precision.load(r, s, json);
    json_decref(json);
    return status;
}

TEST(test_a_checkpoints_loss_scale_is_looked_at) {
    static struct run r;
    struct loss_scale s;
    r.plan = parity_plan();
    loss_scale_init(&s, 16, 2, 3, 2);
    const char *const wrong[] = {"[]",
                                 "{}",
                                 "{\"scale\": 0, \"n_clean\": 1, \"credit\": 1, \"n_stuck\": 0}",
                                 "{\"scale\": 8, \"n_clean\": 1, \"credit\": -1, \"n_stuck\": 0}",
                                 "{\"scale\": -8, \"n_clean\": 1, \"credit\": 1, \"n_stuck\": 0}",
                                 "{\"scale\": 8, \"n_clean\": 1.5, \"credit\": 1, \"n_stuck\": 0}",
                                 "{\"scale\": \"8\", \"n_clean\": 1, \"credit\": 1, \"n_stuck\": 0}",
                                 "{\"scale\": 8, \"n_clean\": 1, \"credit\": 1}",
                                 "{\"scale\": 8, \"n_clean\": 9223372036854775807, \"credit\": 1, \"n_stuck\": 0}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(load_scale(&r, &s, wrong[i]), E_FORMAT, "loss scale");
    assert_true(s.scale == 16 && s.n_clean == 0 && s.credit == 2);   /* no refused state is kept */
    assert_ok(load_scale(&r, &s, "{\"scale\": 8, \"n_clean\": 2, \"credit\": 1, \"n_stuck\": 0}"));
    assert_true(s.scale == 8 && s.n_clean == 2 && s.credit == 1 && s.window == 3 && r.exec.loss_scale == 8);
}

TESTS(unit_test(test_params_take_2_bytes_gradients_2_or_4_and_the_optimizer_12),
      unit_test(test_values_are_narrow_and_statistics_wide),
      unit_test(test_neighboring_stages_agree_about_message_bytes),
      unit_test(test_gradients_travel_in_their_own_precision),
      unit_test(test_weights_equal_rounded_masters_bit_for_bit),
      unit_test(test_norm_and_moments_hold_unscaled_gradients), unit_test(test_one_rank_overflows_and_all_skip),
      unit_test(test_one_rank_overflows_and_all_skip_under_zero), unit_test(test_fixed_loss_scale_skips_too),
      unit_test(test_a_skipped_step_keeps_its_learning_rate_for_the_next),
      unit_test(test_overflow_that_no_scale_avoids_ends_the_run), unit_test(test_bf16_has_no_scale_and_does_not_skip),
      unit_test(test_options_that_do_not_go_together_are_refused),
      unit_test(test_a_checkpoints_loss_scale_is_looked_at))
