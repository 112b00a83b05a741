/* ranks: 1 2 4  device: cpu
 *
 * Weights that are gathered as codes. The reference is one process that rounds its weights before every forward, shard
 * by shard as the layout's ranks own them. In fp64, losses, gradients and exact weights equal the reference's. In every
 * precision each use of a weight has the bits of codes. Bytes of memory and wire equal their formulas. */
#include "zero/zero_quantized.h"

#include "driver/recipe.h"
#include "lib/ops/test_codec.h"
#include "mixed_precision/fp8.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp.h"
#include "zero/zero.h"
#include "zero/zero_second.h"
#include <stdlib.h>
#include <sys/stat.h>

struct trial {
    int dp, cp, ep, tp, sp, pp, codec, shard, second, offload, disk, recompute, schedule, micro;
    int precision, fp8, hidden, grad;    /* grad: the codec of gradients */
};
static const struct trial IN_FP64[] = {
    {.dp = 2, .codec = CODEC_INT8}, {.dp = 2, .codec = CODEC_BF16, .micro = 2}, {.dp = 2, .codec = CODEC_FP16},
    {.cp = 2, .codec = CODEC_INT8, .recompute = RECOMPUTE_FULL},
    {.dp = 2, .codec = CODEC_INT8, .second = 1, .micro = 4},
    {.dp = 2, .codec = CODEC_INT8, .offload = OFFLOAD_PARAMS, .micro = 4},
    {.dp = 2, .codec = CODEC_INT8, .offload = OFFLOAD_PARAMS, .disk = 1},
    {.dp = 2, .ep = 2, .codec = CODEC_INT8},                         /* one rank alone has an expert's weights */
    {.dp = 4, .codec = CODEC_INT8, .micro = 2}, {.dp = 4, .codec = CODEC_INT8, .second = 2, .micro = 2},
    {.dp = 4, .codec = CODEC_INT8, .shard = 2}, {.dp = 2, .cp = 2, .codec = CODEC_BF16, .second = 2},
    {.dp = 2, .tp = 2, .sp = 1, .codec = CODEC_INT8, .recompute = RECOMPUTE_SELECTIVE},
    {.dp = 2, .pp = 2, .codec = CODEC_INT8, .micro = 2, .schedule = SCHEDULE_INTERLEAVED},
    {.dp = 4, .codec = CODEC_INT8, .offload = OFFLOAD_PARAMS, .disk = 1}, {.dp = 4, .ep = 2, .codec = CODEC_INT8},
};
static const struct trial IN_OTHERS[] = {
    {.dp = 2, .codec = CODEC_INT8, .precision = PRECISION_FP32},
    {.dp = 2, .codec = CODEC_INT8, .precision = PRECISION_BF16, .offload = OFFLOAD_PARAMS, .disk = 1},
    {.dp = 2, .codec = CODEC_INT8, .precision = PRECISION_BF16, .fp8 = 1},
    {.dp = 2, .codec = CODEC_INT8, .precision = PRECISION_FP32, .grad = CODEC_SIGN},
    {.dp = 2, .codec = CODEC_INT8, .precision = PRECISION_FP16, .second = 1},
    {.dp = 4, .codec = CODEC_FP16, .precision = PRECISION_FP32},
    {.dp = 2, .tp = 2, .codec = CODEC_INT8, .precision = PRECISION_BF16},
    {.dp = 4, .ep = 2, .codec = CODEC_INT8, .precision = PRECISION_BF16, .second = 2},
    {.dp = 4, .codec = CODEC_INT8, .precision = PRECISION_BF16, .hidden = 12},   /* 3 elements: 6 bytes, coded 7 */
};
enum { N_IN_FP64 = sizeof IN_FP64 / sizeof *IN_FP64, N_IN_OTHERS = sizeof IN_OTHERS / sizeof *IN_OTHERS };

static int at_least_1(int n) { return n ? n : 1; }

/* On 4 ranks shards are padded: vectors have 18, 54 and 72 elements. */
static struct plan serial_plan(bool experts) {
    struct plan p = parity_plan();
    struct model_options *m = model_options(&p);
    p.layers = 4;
    p.hidden = 18, p.heads = m->kv_heads = 6;
    if (experts)
        m->experts = 8, m->experts_per_token = 2, m->moe_group = 2, m->capacity = 1, m->aux_loss = 0.05, m->ffn = 24;
    return p;
}

static struct plan plan_of(const struct trial *t, int precision) {
    struct plan p = serial_plan(t->ep > 0);
    struct offload_options *o = offload_options(&p);
    if (t->hidden) p.hidden = t->hidden;
    p.precision = precision;
    p.mesh.dp = at_least_1(t->dp), p.mesh.cp = at_least_1(t->cp), p.mesh.tp = at_least_1(t->tp);
    p.mesh.pp = at_least_1(t->pp), p.mesh.ep = at_least_1(t->ep);
    plan_set_number(&p, "sp", t->sp);
    zero_options(&p)->stage = 3;
    zero_options(&p)->weight_codec = t->codec;
    zero_options(&p)->offload = t->offload;
    zero_options(&p)->shard = t->shard, zero_options(&p)->secondary = t->second;
    recompute_options(&p)->kind = t->recompute;
    pp_options(&p)->schedule = t->schedule ? t->schedule : SCHEDULE_1F1B;
    pp_options(&p)->chunks = t->schedule == SCHEDULE_INTERLEAVED ? 2 : 1;
    p.micro_batch = t->micro ? t->micro : 16 / p.mesh.dp;
    fp8_options(&p)->on = t->fp8;
    grad_options(&p)->codec = t->grad;
    if (!t->disk) return p;
    zero_options(&p)->offload_to = OFFLOAD_TO_DISK;
    snprintf(o->path, sizeof o->path, "%s", test_path("offload"));
    mkdir(o->path, 0700);
    return p;
}

/* ---- which params are coded, and in how many bytes: by hand ---- */
static int64_t code_bytes(int codec, int64_t n) { return codec == CODEC_INT8 ? n + 4 * ((n + 255) / 256) : 2 * n; }

static int ranks_of(const struct run *r, const struct param *w) { return mesh_size(w->shard_axis, &r->plan.place); }

static bool is_coded(const struct run *r, const struct param *w) {
    int64_t shard = (type_n(&w->type) + ranks_of(r, w) - 1) / ranks_of(r, w);
    return ranks_of(r, w) > 1 &&
           code_bytes(zero_options(&r->plan)->weight_codec, shard) < shard * (int64_t)dtype_size(w->type.dtype);
}

/* x: the exact weight (n). seen: the rounded weight (n), with which all ranks compute. Both in the param's dtype. */
static void round_parts(const struct run *r, const struct param *w, const void *x, void *seen) {
    const struct codec codec = {.kind = (enum codec_kind)zero_options(&r->plan)->weight_codec};
    int64_t n = type_n(&w->type), shard = (n + ranks_of(r, w) - 1) / ranks_of(r, w);
    float *part = malloc(2 * ((size_t)shard + 1) * sizeof *part), *as = part + shard;
    for (int64_t i = 0; i < n; i++) dtype_set(seen, w->type.dtype, i, dtype_get(x, w->type.dtype, i));
    for (int64_t first = 0; first < n && is_coded(r, w); first += shard) {
        int64_t count = n - first < shard ? n - first : shard;
        for (int64_t i = 0; i < count; i++) part[i] = (float)dtype_get(x, w->type.dtype, first + i);
        codec_plain(&codec, part, count, as);
        for (int64_t i = 0; i < count; i++) dtype_set(seen, w->type.dtype, first + i, (double)as[i]);
    }
    free(part);
}

/* ---- one process that rounds weights before every forward, and updates exact weights ---- */
enum { MOST_RANKS = 4 };
struct oracle {
    struct run ghost[MOST_RANKS];        /* the layout's ranks, only compiled, for the elements that each has */
    int n_ghosts;
    double *exact[MAX_PARAMS];
};

static enum status restore(struct run *serial, void *self, const struct event *e) {
    struct oracle *o = self;
    (void)e;
    for (int i = 0; i < serial->program.n_params; i++) {
        const struct param *w = &serial->program.params[i];
        memcpy(w->weight, o->exact[i], (size_t)type_bytes(&w->type));
    }
    return OK;
}

/* Round the elements that one rank has of a param. Its elements beyond the param are zero. */
static void round_of_rank(const struct run *rank, int i, const double *exact, double *weight) {
    const struct param *w = &rank->program.params[i];
    int64_t n = type_n(&w->type);
    double *x = calloc(2 * (size_t)n + 1, sizeof *x), *seen = x + n;
    for (int64_t k = 0; k < n; k++) {
        int64_t global = shape_global_index(&w->type.shape, k);
        if (global >= 0) x[k] = exact[global];
    }
    round_parts(rank, w, x, seen);
    for (int64_t k = 0; k < n; k++) {
        int64_t global = shape_global_index(&w->type.shape, k);
        if (global >= 0) weight[global] = seen[k];
    }
    free(x);
}

static enum status round_all(struct run *serial, void *self) {
    struct oracle *o = self;
    bool first = !o->exact[0];
    for (int i = 0; i < serial->program.n_params; i++) {
        const struct param *w = &serial->program.params[i];
        if (first) o->exact[i] = malloc((size_t)type_bytes(&w->type));
        memcpy(o->exact[i], w->weight, (size_t)type_bytes(&w->type));
        for (int k = 0; k < o->n_ghosts; k++)
            if (o->ghost[k].program.params[i].present) round_of_rank(&o->ghost[k], i, o->exact[i], w->weight);
    }
    return first ? run_subscribe(serial, EVENT_BACKWARD_END, restore, o) : OK;
}

static enum status oracle_init(struct oracle *o, const struct plan *layout) {
    *o = (struct oracle){.n_ghosts = 0};
    while (o->n_ghosts < plan_ranks(layout)) {
        TRY(run_compile(&o->ghost[o->n_ghosts], &train_recipe, layout, o->n_ghosts, NULL, NULL));
        o->n_ghosts++;
    }
    return OK;
}

static void oracle_fini(struct oracle *o) {
    for (int i = 0; i < o->n_ghosts; i++) run_destroy(&o->ghost[i]);
    for (int i = 0; i < MAX_PARAMS; i++) free(o->exact[i]);
}

static bool equals_one_process(const struct trial *t) {
    static struct oracle o;
    static struct reference reference, exact;
    struct plan p = plan_of(t, PRECISION_FP64), serial = serial_plan(t->ep > 0);
    enum status status = plan_settle(&p, comm_world_size());
    if (status == OK) status = oracle_init(&o, &p);
    if (status == OK) status = reference_init_with(&reference, &serial, round_all, &o);
    bool same = layout_is_serial(&p, status, &reference);
    if (status == OK) status = reference_init(&exact, &serial);
    bool rounds = status == OK && fabs(exact.loss[0] - reference.loss[0]) > 1e-7 * exact.loss[0];
    if (!(same && rounds) && comm_is_rank_0()) print_error("%s, rounds: %d\n", codec_name(t->codec), rounds);
    oracle_fini(&o);
    reference_fini(&reference);
    reference_fini(&exact);
    return same && rounds;
}

static bool is_ours(const struct trial *t) {
    return at_least_1(t->dp) * at_least_1(t->cp) * at_least_1(t->tp) * at_least_1(t->pp) == comm_world_size();
}

TEST(test_quantized_layouts_equal_one_process_in_fp64) {
    int failed = 0;
    if (comm_world_size() == 1) return;
    for (int i = 0; i < N_IN_FP64; i++)
        if (is_ours(&IN_FP64[i])) failed += !equals_one_process(&IN_FP64[i]);
    assert_int_equal(failed, 0);
}

/* ---- the bits of every use, in every precision ---- */
struct uses { char *expected[MAX_PARAMS]; int n, n_same, n_coded; };

static bool all_zero(const char *x, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i++)
        if (x[i]) return false;
    return true;
}

static enum status look(struct run *r, void *self, const struct event *e) {
    struct uses *u = self;
    const struct param *w = &r->program.params[e->param];
    int64_t size = (int64_t)dtype_size(w->type.dtype), bytes = type_n(&w->type) * size;
    bool coded = is_coded(r, w), same = memcmp(e->buffer, u->expected[e->param], (size_t)bytes) == 0;
    same &= !coded || all_zero((const char *)e->buffer + bytes, w->padded_n * size - bytes);
    if (!same) print_error("%s of %s is not what it should be\n", w->name, e->forward ? "forward" : "backward");
    u->n++, u->n_same += same, u->n_coded += coded;
    return OK;
}

/* Gather the exact shards of all ranks, and round them: the expected weights. */
static enum status expect(struct run *r, struct uses *u) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (!w->present) continue;
        int64_t size = (int64_t)dtype_size(w->type.dtype), bytes = w->padded_n * size;
        char *own = malloc((size_t)(w->shard_n * size)), *whole = malloc((size_t)bytes);
        const struct device *device = run_tier_device(r, w->weight_tier);
        if (!u->expected[i]) u->expected[i] = malloc((size_t)bytes);
        enum status status = device->download(device, own, w->weight, w->shard_n * size);
        if (status == OK)
            status = comm_all_gather(r->mesh.group[w->shard_axis], own, whole, w->shard_n, w->type.dtype);
        round_parts(r, w, whole, u->expected[i]);
        free(own), free(whole);
        TRY(status);
    }
    return OK;
}

/* Set the padding of own shards to 1000: it must change no code. */
static void spoil_padding(const struct run *r) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        for (int64_t k = w->own_n; w->present && w->weight_tier != TIER_DISK && k < w->shard_n; k++)
            dtype_set(w->weight, w->type.dtype, k, 1000);
    }
}

static enum status run_watched(struct run *r, struct plan p, struct uses *u) {
    double loss;
    TRY(layout_open(r, p, WATCH_LIFETIMES));
    spoil_padding(r);
    TRY(run_subscribe(r, EVENT_PARAM_NEEDED, look, u));
    for (int s = 0; s < 3; s++) {
        TRY(expect(r, u));
        TRY(run_step(r));
    }
    TRY(expect(r, u));
    return run_evaluate(r, 1, &loss);
}

static bool uses_one_process_bits(const struct trial *t, int precision) {
    static struct run r;
    static struct uses u;
    memset(&r, 0, sizeof r);
    u = (struct uses){.n = 0};
    enum status status = run_watched(&r, plan_of(t, precision), &u);
    run_destroy(&r);
    status_report();
    for (int i = 0; i < MAX_PARAMS; i++) free(u.expected[i]);
    return agree_all(status == OK && u.n_same == u.n && u.n_coded > u.n / 2);
}

TEST(test_quantized_uses_have_the_codes_bits) {
    int failed = 0;
    if (comm_world_size() == 1) return;
    for (int i = 0; i < N_IN_FP64; i++)
        if (is_ours(&IN_FP64[i])) failed += !uses_one_process_bits(&IN_FP64[i], PRECISION_FP64);
    for (int i = 0; i < N_IN_OTHERS; i++)
        if (is_ours(&IN_OTHERS[i])) failed += !uses_one_process_bits(&IN_OTHERS[i], IN_OTHERS[i].precision);
    assert_int_equal(failed, 0);
}

/* ---- bytes: measured, of every precision (fp64: above) ---- */
static bool measures_what_is_planned(const struct trial *t) {
    static struct reference reference;
    struct plan p = plan_of(t, t->precision), serial = serial_plan(t->ep > 0);
    struct difference d = {0};
    serial.hidden = p.hidden, serial.precision = PRECISION_FP32;
    enum status status = reference_init(&reference, &serial);
    if (status == OK) status = plan_settle(&p, comm_world_size());
    if (status == OK) status = layout_compare(&p, &reference, &d);
    reference_fini(&reference);
    status_report();
    bool exact = agree_all(status == OK && d.memory == 0 && d.wire < 1e-12);
    if (!exact && comm_is_rank_0()) print_error("%s: %g B, wire %g\n", layout_name(&p), d.memory, d.wire);
    return exact;
}

TEST(test_quantized_memory_and_wire_are_the_planned_ones) {
    int failed = 0;
    if (comm_world_size() == 1) return;
    for (int i = 0; i < N_IN_OTHERS; i++)
        if (is_ours(&IN_OTHERS[i])) failed += !measures_what_is_planned(&IN_OTHERS[i]);
    assert_int_equal(failed, 0);
}

/* ---- by the formulas: pure ---- */
struct bytes { double wire, second; int64_t room, param; };   /* wire: sent over dp; second: sent within shards */

static struct run compiled_run(const struct trial *t, int precision, int codec) {
    struct plan p = plan_of(t, precision);
    struct run r;
    zero_options(&p)->weight_codec = codec;
    p.global_batch = 2 * p.mesh.dp * p.micro_batch;
    assert_ok(plan_settle(&p, 0));
    assert_ok(run_compile(&r, &train_recipe, &p, plan_ranks(&p) - 1, NULL, NULL));
    return r;
}

static struct bytes billed(const struct trial *t, int precision, int codec) {
    struct run r = compiled_run(t, precision, codec);
    struct bytes b = {.room = r.bill.technique_comm_bytes, .param = r.memory.bytes[TIER_DEVICE][ROLE_PARAM]};
    for (int i = 0; i < r.bill.n_exchanges; i++) {
        const struct exchange *x = &r.bill.exchanges[i];
        if (x->op == COMM_ALL_GATHER && x->axis == AXIS_DP) b.wire += exchange_bytes(x, t->dp);
        if (x->op == COMM_ALL_GATHER && x->axis == AXIS_SHARD) b.second += exchange_bytes(x, t->second);
    }
    run_destroy(&r);
    return b;
}

/* Counted row by row. The room has the longest code and a float. */
static struct bytes by_hand(const struct trial *t, int precision) {
    struct run r = compiled_run(t, precision, t->codec);
    struct bytes b = {0, 0, 0, 0};
    struct row_walk at = {0};
    for (const struct row *row; (row = schedule_next_row(&r.schedule, r.chunks, &at));) {
        const struct param *w = &r.program.params[row->id];
        if (row->kind != ROW_PARAM_AHEAD) continue;
        int64_t size = (int64_t)dtype_size(w->type.dtype), code = code_bytes(t->codec, w->shard_n);
        const struct param_array *second = at.action->kind == ACTION_F ? NULL : zero_second_of(w);
        if (second) b.second += (double)(second->n * size * (t->second - 1));
        else b.wire += (double)((t->dp - 1) * (is_coded(&r, w) ? code : w->shard_n * size));
        if (is_coded(&r, w) && arena_align(code + 4) > b.room) b.room = arena_align(code + 4);
    }
    run_destroy(&r);
    return b;
}

static void check_bytes(const struct trial *t, int precision) {
    struct bytes plain = billed(t, precision, CODEC_NONE), coded = billed(t, precision, t->codec),
                 expected = by_hand(t, precision);
    assert_close(coded.wire, expected.wire, 1e-9 * expected.wire);
    assert_close(coded.second, expected.second, 1e-9 * expected.second);
    assert_close(coded.second, plain.second, 0);
    assert_true(coded.wire < 0.7 * plain.wire);                      /* worst: int8 of bf16, with short shards */
    assert_int_equal(coded.param, plain.param);
    assert_int_equal(coded.room - plain.room, expected.room);
}

TEST(test_quantized_bytes_are_the_formulas) {
    for (int dp = 2; dp <= 8; dp++) {
        check_bytes(&(struct trial){.dp = dp, .codec = CODEC_INT8, .micro = 1}, PRECISION_FP32);
        check_bytes(&(struct trial){.dp = dp, .codec = CODEC_BF16, .micro = 1}, PRECISION_FP32);
    }
    check_bytes(&(struct trial){.dp = 4, .codec = CODEC_INT8, .micro = 2}, PRECISION_FP64);
    check_bytes(&(struct trial){.dp = 4, .codec = CODEC_INT8, .second = 2, .micro = 2}, PRECISION_FP32);
    check_bytes(&(struct trial){.dp = 4, .codec = CODEC_INT8, .micro = 2, .hidden = 12}, PRECISION_BF16);
    check_bytes(&(struct trial){.dp = 2, .pp = 2, .codec = CODEC_FP16, .micro = 2}, PRECISION_FP64);
}

/* ---- refusals ---- */
static void check_refused(struct plan p, const char *what, const char *remedy) {
    assert_ok(plan_settle(&p, 0));
    assert_fails(technique_zero.check(&p), E_CONFIG, what, remedy);
}

TEST(test_quantized_refuses) {
    const struct trial t = {.dp = 2, .codec = CODEC_INT8};
    struct plan p = plan_of(&t, PRECISION_FP32);
    for (int stage = 0; stage < 3; stage++) {
        zero_options(&p)->stage = stage;
        assert_true(technique_zero.wanted(&p));
        check_refused(p, "whole weights, of which its own shard would be exact", "use zero 3");
    }
    p = plan_of(&(struct trial){.codec = CODEC_INT8}, PRECISION_FP32);
    check_refused(p, "weight-codec=int8 codes what replicas gather from each other, and dp=1", "dp 2 or more");
    p = plan_of(&(struct trial){.dp = 2, .codec = CODEC_BF16}, PRECISION_BF16);
    check_refused(p, "so has precision=bf16", "weight-codec int8");
    p = plan_of(&(struct trial){.dp = 2, .codec = CODEC_BF16}, PRECISION_FP16);
    check_refused(p, "so has precision=fp16", "weight-codec int8");
    p = plan_of(&t, PRECISION_FP32);
    p.heads = model_options(&p)->kv_heads = 8;
    p.hidden = 16, p.vocab = 128, p.sums = PLAN_SUMS_FIXED, p.micro_batch = 1;
    check_refused(p, "sums=fixed cannot have the bits", "use sums fast");
    p = plan_of(&t, PRECISION_FP32);
    p.device = PLAN_DEVICE_CUDA;
    assert_fails(zero_quantized_check(&p), E_CONFIG, "no kernels for device=cuda", "use device cpu");
}

TESTS(unit_test(test_quantized_layouts_equal_one_process_in_fp64), unit_test(test_quantized_uses_have_the_codes_bits),
      unit_test(test_quantized_memory_and_wire_are_the_planned_ones),
      unit_test(test_quantized_bytes_are_the_formulas), unit_test(test_quantized_refuses))
