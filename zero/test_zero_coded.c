/* ranks: 2 4  device: cpu
 *
 * Gradients that are sent to their owners as codes. Their sums equal one process's sums in every bit and every step, at
 * all stages and with a pipeline. Bytes of memory and wire are the planned ones. Checkpoints keep residuals. */
#include "driver/recipe.h"
#include "lib/checkpoint/checkpoint_terms.h"
#include "lib/ops/test_codec.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "zero/zero.h"
#include "zero/zero_bucket.h"

enum { STEPS = 3 };

static struct plan plan_of(int stage, enum codec_kind codec, enum plan_feedback feedback) {
    struct plan plan = parity_plan();
    struct grad_options *g = grad_options(&plan);
    plan.layers = 2;
    plan.hidden = 18;                                                /* on 4 ranks biases have padding */
    plan.heads = model_options(&plan)->kv_heads = 3;
    plan.precision = PRECISION_FP32;
    plan.mesh.dp = comm_world_size();
    plan.micro_batch = 1;
    g->bucket_mb = 0.008;                                          /* some buckets have several params; both slots */
    g->codec = codec;
    g->feedback = feedback;
    if (codec == CODEC_TOPK) g->topk = 5;
    zero_options(&plan)->stage = stage;
    return plan;
}

/* ---- one process that has the gradients of all ranks ---- */
enum { MOST_RANKS = 4 };
struct oracle {
    struct zero_buckets order;           /* the sequence of gradients, and their buckets */
    bool every;
    int at;
    float **gradient;                    /* [order.n_params]: this rank's gradients, (padded_n), padding zero */
    float *residual[MOST_RANKS][MAX_PARAMS];   /* of every rank of the group, (padded_n); NULL: no feedback */
    float *own[MAX_PARAMS];              /* this rank's own gradients, (shard_n) */
};

static float *zeros(int64_t n) { return calloc((size_t)n + 1, sizeof(float)); }

static enum status oracle_init(struct oracle *o, const struct run *r) {
    const struct compiled compiled = {&r->program, r->chunks, &r->schedule};
    *o = (struct oracle){.every = zero_options(&r->plan)->stage > 1};
    TRY(zero_buckets_init(&o->order, &compiled, o->every, plan_bucket_bytes(&r->plan)));
    o->gradient = calloc((size_t)o->order.n_params + 1, sizeof *o->gradient);
    for (int i = 0; i < o->order.n_params; i++)
        o->gradient[i] = zeros(r->program.params[o->order.params[i]].padded_n);
    for (int i = 0; i < r->program.n_params; i++) {
        o->own[i] = zeros(r->program.params[i].shard_n);
        for (int k = 0; k < MOST_RANKS && plan_has_feedback(&r->plan); k++)
            o->residual[k][i] = zeros(r->program.params[i].padded_n);
    }
    return OK;
}

static void oracle_fini(struct oracle *o) {
    for (int i = 0; o->gradient && i < o->order.n_params; i++) free(o->gradient[i]);
    for (int i = 0; i < MAX_PARAMS; i++) {
        free(o->own[i]);
        for (int k = 0; k < MOST_RANKS; k++) free(o->residual[k][i]);
    }
    free(o->gradient);
    zero_buckets_fini(&o->order);
}

/* Copy this rank's gradient when it is ready. */
static enum status keep(struct run *r, void *self, const struct event *e) {
    struct oracle *o = self;
    if (!o->every && !e->final) return OK;
    if (o->at < o->order.n_params)
        memcpy(o->gradient[o->at], e->buffer, (size_t)type_n(&r->program.params[e->param].type) * sizeof(float));
    o->at++;
    return OK;
}

/* y (count): shard `shard` of the bucket of rank `from`, plus its residual. seen (count): y encoded and decoded. */
static void term(struct oracle *o, const struct program *p, const struct zero_bucket *b, const struct codec *codec,
                 int from, int shard, const float *bucket, float *y, float *seen) {
    int64_t at = 0;
    for (int i = b->first; i < b->first + b->n; i++) {
        const struct param *w = &p->params[o->order.params[i]];
        float *left = o->residual[from][o->order.params[i]];
        for (int64_t k = 0; k < w->shard_n; k++, at++) {
            y[at] = bucket[shard * b->count + at] + (left ? left[shard * w->shard_n + k] : 0);
            if (left) left[shard * w->shard_n + k] = 0;
        }
    }
    codec_plain(codec, y, b->count, seen);
    at = 0;
    for (int i = b->first; i < b->first + b->n; i++) {
        const struct param *w = &p->params[o->order.params[i]];
        float *left = o->residual[from][o->order.params[i]];
        for (int64_t k = 0; k < w->shard_n; k++, at++)
            if (left && shard * w->shard_n + k < type_n(&w->type)) left[shard * w->shard_n + k] += y[at] - seen[at];
    }
}

static enum status sum_bucket(struct oracle *o, const struct run *r, const struct zero_bucket *b) {
    const struct group *group = r->mesh.group[b->axis];
    const struct codec codec = plan_codec(&r->plan);
    int64_t whole = b->count * b->n_ranks, at = 0;
    float *mine = zeros(whole), *all = zeros(whole * b->n_ranks), *y = zeros(b->count), *seen = zeros(b->count),
          *sum = zeros(b->count);
    for (int i = b->first; i < b->first + b->n; i++) {
        const struct param *w = &r->program.params[o->order.params[i]];
        for (int k = 0; k < b->n_ranks; k++)
            memcpy(mine + k * b->count + at, o->gradient[i] + k * w->shard_n, (size_t)w->shard_n * sizeof(float));
        at += w->shard_n;
    }
    enum status status = comm_all_gather(group, mine, all, whole, FP32);
    for (int shard = 0; shard < b->n_ranks && status == OK; shard++)
        for (int from = 0; from < b->n_ranks; from++) {
            term(o, &r->program, b, &codec, from, shard, all + from * whole, y, seen);
            for (int64_t k = 0; k < b->count && shard == group_rank(group); k++)
                sum[k] = from ? sum[k] + seen[k] : seen[k];
        }
    at = 0;
    for (int i = b->first; i < b->first + b->n; i++) {
        const struct param *w = &r->program.params[o->order.params[i]];
        float *own = o->own[o->order.params[i]];
        for (int64_t k = 0; k < w->shard_n; k++, at++) own[k] = o->every ? own[k] + sum[at] : sum[at];
    }
    free(mine), free(all), free(y), free(seen), free(sum);
    return status;
}

static enum status sum_all(struct oracle *o, const struct run *r) {
    if (o->at != o->order.n_params) return FAIL(E_INTERNAL, "%d gradients of %d", o->at, o->order.n_params);
    for (int i = 0; i < r->program.n_params; i++)
        memset(o->own[i], 0, (size_t)r->program.params[i].shard_n * sizeof(float));
    for (int i = 0; i < o->order.n; i++) TRY(sum_bucket(o, r, &o->order.buckets[i]));
    o->at = 0;
    return OK;
}

/* Skip a weight on two stages of a pipeline, whose gradient is later summed over both. */
static bool sums_are_the_oracles(const struct run *r, const struct oracle *o) {
    int n = 0, n_same = 0;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (!w->present || w->shared != AXIS_SELF) continue;
        n++;
        n_same += codec_same_bits(param_own_grad(w), o->own[i], w->own_n);
    }
    return n_same == n && n > 10;
}

struct outcome { bool sums, fell; int n_buckets; };

static enum status train(struct run *r, struct oracle *o, struct outcome *out) {
    double first = 0;
    TRY(layout_use_demo(r));
    TRY(run_subscribe(r, EVENT_GRAD_READY, keep, o));
    out->n_buckets = o->order.n;
    for (int s = 0; s < STEPS; s++) {
        TRY(run_step(r));
        TRY(sum_all(o, r));
        if (s == 0) first = r->last.loss;
        out->sums &= sums_are_the_oracles(r, o);
    }
    out->fell = r->last.loss < first;
    return OK;
}

static void check_against_one_process(struct plan plan) {
    const struct grad_options *g = grad_options(&plan);
    struct run r;
    struct oracle o = {0};
    struct outcome out = {true, true, 0};
    enum status status = plan_settle(&plan, comm_world_size());
    if (status == OK) status = run_create(&r, &train_recipe, &plan, WATCH_LIFETIMES);
    if (status == OK) status = oracle_init(&o, &r);
    if (status == OK) status = train(&r, &o, &out);
    if (status != OK) print_error("%s\n", status_text());
    run_destroy(&r);
    oracle_fini(&o);
    bool sums = agree_all(status == OK && out.sums);
    if (!sums)
        print_error("%s, %s, feedback %d\n", layout_name(&plan), codec_name(g->codec), g->feedback);
    assert_true(sums);
    assert_true(out.n_buckets > 2);
    assert_true(out.fell);
}

TEST(test_zero_coded_is_one_process_in_every_bit) {
    for (enum codec_kind codec = CODEC_BF16; codec <= CODEC_TOPK; codec++)
        check_against_one_process(plan_of(2, codec, codec == CODEC_FP16 ? FEEDBACK_OFF : FEEDBACK_ON));
    check_against_one_process(plan_of(1, CODEC_SIGN, FEEDBACK_ON));
    check_against_one_process(plan_of(1, CODEC_INT8, FEEDBACK_OFF));
    check_against_one_process(plan_of(3, CODEC_SIGN, FEEDBACK_ON));
    check_against_one_process(plan_of(3, CODEC_INT8, FEEDBACK_OFF));
}

TEST(test_zero_coded_goes_beside_a_pipeline_and_shards_of_sequences) {
    struct plan plan = plan_of(3, CODEC_SIGN, FEEDBACK_ON);
    plan.mesh.dp = comm_world_size() / 2;
    plan.mesh.cp = 2;
    check_against_one_process(plan);
    if (comm_world_size() < 4) return;
    for (int stage = 1; stage <= 3; stage++) {
        plan = plan_of(stage, CODEC_INT8, FEEDBACK_ON);
        plan.mesh.dp = plan.mesh.pp = 2;
        check_against_one_process(plan);
    }
}

/* ---- against the serial run: bytes, and the errors of codes ---- */
TEST(test_zero_coded_memory_and_wire_are_the_planned_ones) {
    static const enum codec_kind codecs[] = {CODEC_BF16, CODEC_INT8, CODEC_SIGN};
    enum { N = sizeof codecs / sizeof *codecs };
    struct plan serial = parity_plan();
    struct reference reference;
    serial.layers = 2;
    serial.hidden = 18;
    serial.heads = model_options(&serial)->kv_heads = 3;
    serial.precision = PRECISION_FP32;
    enum status status = reference_init(&reference, &serial);
    struct difference d[4][N] = {{{0}}};
    for (int stage = 1; stage <= 3; stage++)
        for (int i = 0; i < N && status == OK; i++) {
            struct plan plan = plan_of(stage, codecs[i], FEEDBACK_AUTO);
            if (stage == 2 && comm_world_size() == 4) plan.mesh.dp = plan.mesh.pp = 2;
            if (stage == 3 && comm_world_size() == 4) zero_options(&plan)->shard = 2;
            status = plan_settle(&plan, comm_world_size());
            if (status == OK) status = layout_compare(&plan, &reference, &d[stage][i]);
        }
    reference_fini(&reference);
    if (status != OK) print_error("%s\n", status_text());
    assert_int_equal(status, OK);
    for (int stage = 1; stage <= 3; stage++)
        for (int i = 0; i < N; i++) {
            assert_close(d[stage][i].memory, 0, 0);
            assert_close(d[stage][i].wire, 0, 1e-12);
            assert_close(d[stage][i].first_loss, 0, 1e-6);
            assert_true(d[stage][i].first_grad > 1e-5);              /* codes do round */
            /* each term is off by 2^-8 of itself; terms with opposite signs may be 4 times larger than their sum */
            if (codecs[i] == CODEC_BF16) assert_close(d[stage][i].first_grad, 0, 4.0 / 256);
        }
}

/* ---- checkpoints ---- */
static uint64_t hash_of(const struct run *r) {
    uint64_t h = 1469598103934665603u;
    struct rank_term t;
    for (int i = 0; i < r->program.n_params; i++)
        for (int64_t k = 0, n = r->program.params[i].own_n * (int64_t)sizeof(float); k < n; k++)
            h = (h ^ ((const unsigned char *)param_own_weight(&r->program.params[i]))[k]) * 1099511628211u;
    for (int i = 0; checkpoint_term(r, i, &t); i++)
        for (int64_t k = 0; k < t.piece.n * (int64_t)sizeof(float); k++)
            h = (h ^ ((const unsigned char *)t.at)[k]) * 1099511628211u;
    return h;
}

static enum status steps(struct run *r, int n) {
    for (int i = 0; i < n; i++) TRY(run_step(r));
    return OK;
}

static enum status open_run(struct run *r, struct plan p) {
    memset(r, 0, sizeof *r);
    TRY(plan_settle(&p, comm_world_size()));
    TRY(run_create(r, &train_recipe, &p, WATCH_NOTHING));
    return layout_use_demo(r);
}

/* Sum all residuals, and their magnitudes, over all ranks. With pp, a weight on two stages counts on both. */
static enum status sum_of_residuals(const struct run *r, double *sum, double *magnitude) {
    double both[2] = {0, 0};
    struct rank_term t;
    for (int i = 0; checkpoint_term(r, i, &t); i++)
        for (int64_t k = 0; k < t.piece.n; k++) both[0] += (double)t.at[k], both[1] += fabs((double)t.at[k]);
    TRY(comm_all_reduce(r->mesh.group[AXIS_MESH], both, 2, FP64, COMM_SUM));
    *sum = both[0], *magnitude = both[1];
    return OK;
}

TEST(test_zero_coded_checkpoints_keep_residuals) {
    char folder[CHECKPOINT_PATH_MAX], step[CHECKPOINT_PATH_MAX];
    struct run r;
    struct plan p = plan_of(2, CODEC_SIGN, FEEDBACK_ON), other = plan_of(1, CODEC_INT8, FEEDBACK_ON);
    uint64_t expected = 0, found = 1;
    double sum = 0, magnitude = 0, after = 0, unused;
    if (comm_world_size() == 4) other.mesh.dp = other.mesh.pp = 2;
    else other = plan_of(0, CODEC_SIGN, FEEDBACK_ON);                /* dp has other kinds of residuals */
    snprintf(folder, sizeof folder, "%s", test_path("residuals"));
    (void)comm_broadcast(group_world(), folder, sizeof folder, UINT8, 0);
    enum status status = open_run(&r, p);
    if (status == OK) status = steps(&r, 2);
    if (status == OK) status = checkpoint_save(&r, folder, 0);
    if (status == OK) status = sum_of_residuals(&r, &sum, &magnitude);
    if (status == OK) status = steps(&r, 2);
    if (status == OK) expected = hash_of(&r);
    run_destroy(&r);
    if (status == OK) status = open_run(&r, p);
    if (status == OK) status = checkpoint_resolve(folder, step);
    if (status == OK) status = checkpoint_load(&r, step, CHECKPOINT_ALL);
    if (status == OK) status = steps(&r, 2);
    if (status == OK) found = hash_of(&r);
    run_destroy(&r);
    if (status == OK) status = open_run(&r, other);
    if (status == OK) status = checkpoint_load(&r, step, CHECKPOINT_ALL);
    if (status == OK) status = sum_of_residuals(&r, &after, &unused);
    if (status == OK) status = steps(&r, 1);
    run_destroy(&r);
    if (status != OK) print_error("%s\n", status_text());
    assert_true(agree_all(status == OK && found == expected));
    assert_true(magnitude > 0);
    /* each element is a sum of one float per rank */
    assert_close(after, sum, comm_world_size() * ldexp(magnitude, -24));
}

TESTS(unit_test(test_zero_coded_is_one_process_in_every_bit),
      unit_test(test_zero_coded_goes_beside_a_pipeline_and_shards_of_sequences),
      unit_test(test_zero_coded_memory_and_wire_are_the_planned_ones),
      unit_test(test_zero_coded_checkpoints_keep_residuals))
