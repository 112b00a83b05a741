/* ranks: 2 4  more: 8  device: cpu
 *
 * Training with coded gradients. Sums equal those of one process in every bit and every step. Bytes of memory and wire
 * are the planned ones. Settings that cannot work are refused. */
#include "dp/dp_bucket.h"
#include "dp/dp.h"
#include "driver/recipe.h"
#include "lib/ops/test_codec.h"
#include "mixed_precision/mixed_precision.h"
#include "tests/layouts.h"
#include "tests/test.h"

enum { STEPS = 3 };

static struct plan plan_of(enum codec_kind codec, enum plan_feedback feedback) {
    struct plan plan = parity_plan();
    struct grad_options *g = grad_options(&plan);
    plan.layers = 2;
    plan.hidden = 24;                                                /* vectors end inside a cache line: gaps follow */
    plan.precision = PRECISION_FP32;
    plan.mesh.dp = comm_world_size();
    plan.micro_batch = 1;                                            /* several microbatches with 2 and 4 ranks */
    g->bucket_mb = 0.008;                                          /* several buckets */
    g->codec = codec;
    g->feedback = feedback;
    if (codec == CODEC_TOPK) g->topk = 5;
    return plan;
}

/* ---- one process that has the gradients of all ranks ---- */
struct oracle {
    struct dp_buckets buckets;
    struct codec codec;
    float *own;                          /* this rank's gradients, laid out as the grad arena: its gaps are zero */
    float *terms, *residuals, *sum, *sum_residual;   /* (n ranks, count) of a bucket; residuals of all buckets */
    int64_t elements;                    /* of the grad arena */
};

static float *zeros(int64_t n) { return calloc((size_t)n + 1, sizeof(float)); }

static enum status oracle_init(struct oracle *o, const struct run *r) {
    int n = comm_world_size();
    *o = (struct oracle){.elements = r->memory.bytes[TIER_DEVICE][ROLE_GRAD] / (int64_t)sizeof(float)};
    o->codec = plan_codec(&r->plan);
    o->own = zeros(o->elements);
    o->terms = zeros(n * o->elements);
    o->sum = zeros(o->elements);
    if (plan_has_feedback(&r->plan)) {
        o->residuals = zeros(n * o->elements);
        o->sum_residual = zeros(o->elements);
    }
    return dp_buckets_init(&o->buckets, &r->program, plan_bucket_bytes(&r->plan));
}

static void oracle_fini(struct oracle *o) {
    float *all[] = {o->own, o->terms, o->sum, o->residuals, o->sum_residual};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    dp_buckets_fini(&o->buckets);
}

/* Copy this rank's gradient before it is summed. */
static enum status keep(struct run *r, void *self, const struct event *e) {
    struct oracle *o = self;
    const struct param *w = &r->program.params[e->param];
    if (e->final) memcpy((char *)o->own + param_grad_offset(w), w->grad, (size_t)type_bytes(&w->grad_type));
    return OK;
}

/* Gaps between gradients have no residual. */
static void forget_gaps(struct oracle *o, const struct program *p, const struct dp_bucket *b, int n) {
    int64_t count = b->bytes / (int64_t)sizeof(float), at = b->offset / (int64_t)sizeof(float);
    int64_t end = at;
    for (int i = b->first; i <= b->last; i++) {
        if (!p->params[i].present) continue;
        for (; end < param_grad_offset(&p->params[i]) / (int64_t)sizeof(float); end++) {
            o->sum_residual[end] = 0;
            for (int r = 0; r < n; r++) o->residuals[n * at + r * count + end - at] = 0;
        }
        end += type_n(&p->params[i].grad_type);
    }
}

static enum status sum_bucket(struct oracle *o, const struct run *r, const struct dp_bucket *b) {
    const struct group *group = r->mesh.group[b->axis];
    int n = group_size(group);
    int64_t count = b->bytes / (int64_t)sizeof(float), at = b->offset / (int64_t)sizeof(float);
    TRY(comm_all_gather(group, o->own + at, o->terms, count, FP32));
    if (group_rank(group) == 0)
        codec_plain_all_reduce(&o->codec, n, count, o->terms, o->residuals ? o->residuals + n * at : NULL,
                               o->sum_residual ? o->sum_residual + at : NULL, o->sum + at);
    if (o->residuals) forget_gaps(o, &r->program, b, n);
    return comm_broadcast(group, o->sum + at, count, FP32, 0);
}

/* Compares every param; gaps between params hold no gradient. */
static bool sums_are_the_oracles(const struct run *r, const struct oracle *o) {
    bool same = true;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (w->present && w->shared == AXIS_SELF) /* a shared weight's gradient is later summed over two stages */
            same &= codec_same_bits(w->grad, o->sum + param_grad_offset(w) / (int64_t)sizeof(float),
                                    type_n(&w->grad_type));
    }
    return same;
}

/* Gaps must be zero after a step, because the next step sums them. */
static bool gaps_are_zero(const struct run *r) {
    int64_t end = 0;
    for (int i = 0; i < r->program.n_params; i++) {
        if (!r->program.params[i].present) continue;
        for (; end < param_grad_offset(&r->program.params[i]); end++)
            if (*(char *)arena_at(&r->arenas[TIER_DEVICE][ROLE_GRAD], end)) return false;
        end += type_bytes(&r->program.params[i].grad_type);
    }
    return true;
}

/* Do all replicas have the same bits of all weights? */
static bool replicas_are_equal(const struct run *r) {
    uint64_t h = 1469598103934665603u;
    for (int i = 0; i < r->program.n_params; i++)
        for (int64_t k = 0, n = type_bytes(&r->program.params[i].type); r->program.params[i].present && k < n; k++)
            h = (h ^ ((const unsigned char *)r->program.params[i].weight)[k]) * 1099511628211u;
    double largest = (double)(h >> 12), smallest = largest;
    const struct group *group = r->mesh.group[AXIS_DP];
    return comm_all_reduce(group, &largest, 1, FP64, COMM_MAX) == OK &&
           comm_all_reduce(group, &smallest, 1, FP64, COMM_MIN) == OK && largest == smallest;
}

struct outcome { bool sums, gaps, replicas, fell; int n_buckets; };

static enum status train(struct run *r, struct oracle *o, struct outcome *out) {
    double first = 0;
    TRY(layout_use_demo(r));
    TRY(run_subscribe(r, EVENT_GRAD_READY, keep, o));
    out->n_buckets = o->buckets.n;
    for (int s = 0; s < STEPS; s++) {
        TRY(run_step(r));
        for (int i = 0; i < o->buckets.n; i++) TRY(sum_bucket(o, r, &o->buckets.bucket[i]));
        if (s == 0) first = r->last.loss;
        out->sums &= sums_are_the_oracles(r, o);
        out->gaps &= gaps_are_zero(r);
    }
    out->fell = r->last.loss < first;
    out->replicas = replicas_are_equal(r);
    return OK;
}

static void check_against_one_process(struct plan plan) {
    const struct grad_options *g = grad_options(&plan);
    struct run r;
    struct oracle o = {0};
    struct outcome out = {true, true, true, true, 0};
    enum status status = plan_settle(&plan, comm_world_size());
    if (status == OK) status = run_create(&r, &train_recipe, &plan, WATCH_NOTHING);
    if (status == OK) status = oracle_init(&o, &r);
    if (status == OK) status = train(&r, &o, &out);
    if (status != OK) print_error("%s\n", status_text());
    run_destroy(&r);
    oracle_fini(&o);
    bool sums = agree_all(status == OK && out.sums), gaps = agree_all(out.gaps), replicas = agree_all(out.replicas);
    if (!sums)
        print_error("%s, %s, feedback %d\n", layout_name(&plan), codec_name(g->codec), g->feedback);
    assert_true(out.n_buckets > 2);
    assert_true(sums);
    assert_true(gaps);
    assert_true(replicas);
    assert_true(out.fell);
}

TEST(test_coded_gradients_are_one_process_in_every_bit) {
    for (enum codec_kind codec = CODEC_BF16; codec <= CODEC_TOPK; codec++)
        for (enum plan_feedback feedback = FEEDBACK_ON; feedback <= FEEDBACK_OFF; feedback++)
            check_against_one_process(plan_of(codec, feedback));
}

TEST(test_coded_gradients_go_beside_a_pipeline_and_shards_of_sequences) {
    struct plan plan = plan_of(CODEC_SIGN, FEEDBACK_ON);
    plan.mesh.dp = comm_world_size() / 2;
    plan.mesh.cp = 2;
    check_against_one_process(plan);                                 /* with 2 ranks, the replicas are cp's */
    if (comm_world_size() < 4) return;
    plan = plan_of(CODEC_SIGN, FEEDBACK_ON);
    plan.mesh.dp = comm_world_size() / 2;
    plan.mesh.pp = 2;
    check_against_one_process(plan);
}

/* ---- against the serial run: bytes, and the errors of codes ---- */
/* Every term, and then the sum, is rounded by 2^-8 (bf16) or 2^-11 (fp16) of itself: twice that, if all terms have one
 * sign. Gradients of samples have both signs. A factor of two more allows magnitudes that add up to twice the sum. */
TEST(test_coded_memory_and_wire_are_the_planned_ones) {
    struct plan serial = parity_plan();
    struct reference reference;
    serial.layers = 2;
    serial.hidden = 24;
    serial.precision = PRECISION_FP32;
    enum status status = reference_init(&reference, &serial);
    struct difference d[N_CODECS][2] = {{{0}}};
    for (enum codec_kind codec = CODEC_BF16; codec <= CODEC_TOPK; codec++)
        for (int off = 0; off < 2 && status == OK; off++) {
            struct plan plan = plan_of(codec, off ? FEEDBACK_OFF : FEEDBACK_ON);
            status = plan_settle(&plan, comm_world_size());
            if (status == OK) status = layout_compare(&plan, &reference, &d[codec][off]);
        }
    reference_fini(&reference);
    if (status != OK) print_error("%s\n", status_text());
    assert_int_equal(status, OK);
    for (enum codec_kind codec = CODEC_BF16; codec <= CODEC_TOPK; codec++)
        for (int off = 0; off < 2; off++) {
            assert_close(d[codec][off].memory, 0, 0);
            assert_close(d[codec][off].wire, 0, 1e-12);
            assert_close(d[codec][off].first_loss, 0, 1e-6);
            assert_true(d[codec][off].first_grad > 1e-5);            /* codes do round */
            if (codec == CODEC_BF16) assert_close(d[codec][off].first_grad, 0, 4.0 / 256);
            if (codec == CODEC_FP16) assert_close(d[codec][off].first_grad, 0, 4.0 / 2048);
        }
}

/* ---- refusals ---- */
static enum status compiled(struct plan plan) {
    struct run r;
    TRY(plan_settle(&plan, (int)mesh_n_ranks(&plan.mesh)));
    enum status status = run_compile(&r, &train_recipe, &plan, 0, NULL, NULL);
    run_destroy(&r);
    return status;
}

/* Another technique that sums gradients, without codes. */
static bool always(const struct plan *plan) {
    (void)plan;
    return true;
}
TEST(test_coded_refuses_sums_without_codes) {
    static const struct technique other = {.name = "other", .claims = CLAIM_GRAD_SUM, .wanted = always};
    static const struct technique *const list[] = {&other, &technique_dp_coded};
    struct recipe recipe = train_recipe;
    struct plan p = plan_of(CODEC_INT8, FEEDBACK_AUTO);
    struct run r;
    recipe.techniques = list, recipe.n_techniques = 2;
    p.recipe = NULL;
    assert_ok(plan_settle(&p, comm_world_size()));
    assert_fails(run_compile(&r, &recipe, &p, 0, NULL, NULL), E_CONFIG, "grad-codec=int8", "other sums gradients");
    run_destroy(&r);
}

TEST(test_coded_refuses_what_it_cannot_do) {
    struct plan p = plan_of(CODEC_SIGN, FEEDBACK_AUTO);
    assert_ok(compiled(p));
    p.precision = PRECISION_FP64;
    assert_fails(compiled(p), E_CONFIG, "grad-codec=sign", "fp64", "precision fp32");
    p.precision = PRECISION_FP16;
    assert_fails(compiled(p), E_CONFIG, "grad-codec=sign", "fp16", "precision fp32");
    p = plan_of(CODEC_INT8, FEEDBACK_AUTO);
    p.device = PLAN_DEVICE_CUDA;
    assert_fails(compiled(p), E_CONFIG, "grad-codec=int8", "device=cuda", "device cpu");
    p = plan_of(CODEC_INT8, FEEDBACK_AUTO);
    p.mesh.dp = 1;
    assert_fails(compiled(p), E_CONFIG, "grad-codec=int8", "dp=1", "dp 2 or more");
    p.mesh.dp = p.mesh.tp = 2;
    assert_fails(compiled(p), E_CONFIG, "grad-codec=int8", "tp=2", "grad-codec none");
    p = plan_of(CODEC_INT8, FEEDBACK_AUTO);
    p.precision = PRECISION_BF16;
    assert_fails(compiled(p), E_CONFIG, "grad-codec=int8", "bf16", "grad-fp32 on");
    mixed_precision_options(&p)->grad_fp32 = true;
    assert_ok(compiled(p));
    p = plan_of(CODEC_INT8, FEEDBACK_AUTO);
    p.hidden = 64;
    p.sums = PLAN_SUMS_FIXED;
    assert_fails(compiled(p), E_CONFIG, "grad-codec=int8", "sums=fixed", "sums fast");
    p = plan_of(CODEC_NONE, FEEDBACK_ON);
    assert_fails(compiled(p), E_CONFIG, "grad-feedback", "grad-codec=none");
    p = plan_of(CODEC_BF16, FEEDBACK_AUTO);
    grad_options(&p)->topk = 2;
    assert_fails(compiled(p), E_CONFIG, "topk=2", "bf16", "grad-codec topk");
}

TESTS(unit_test(test_coded_gradients_are_one_process_in_every_bit),
      unit_test(test_coded_gradients_go_beside_a_pipeline_and_shards_of_sequences),
      unit_test(test_coded_memory_and_wire_are_the_planned_ones), unit_test(test_coded_refuses_what_it_cannot_do),
      unit_test(test_coded_refuses_sums_without_codes))
