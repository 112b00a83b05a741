/* ranks: 1 2 4 8  device: any
 *
 * Promise 1 between devices: training on the CUDA device, in layouts that cover every technique, equals the serial run
 * on the CPU. Promise 2 there: planned bytes are the high-water marks, and the ledger is the bill. On a machine
 * with no GPU tests/simt runs the kernels, and the libraries are fakes (DEVICE=simt). In fp64 everything agrees to
 * 1e-10; in 16 bits within the bounds of test_parity_mixed.c, which hold for any order of sums. */
#include "cp/cp.h"
#include "driver/recipe.h"
#include "mixed_precision/mixed_precision.h"
#include "pp/pp.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_exact(const struct difference *d, double unused) {
    (void)unused;
    return d->loss < 1e-10 && d->norm < 1e-10 && d->grad < 1e-10 && d->weight < 1e-10;
}

static bool is_close(const struct difference *d, double u) {
    const double k = PARITY_STEPS, lr = 1e-2, q = 6;
    double gradient = q * sqrt(2 * 405) * u, loss = 2 * q * sqrt(2 * 197) * 0.5 * u / log(131);
    return d->first_loss < loss && d->first_grad < gradient && d->weight_absolute <= 2 * lr * k + 2 * u * (1 + k * lr);
}

static bool bytes_agree(const struct difference *d) { return d->memory == 0 && d->wire < 1e-12 && d->padding == 0; }

static void report(const struct plan *p, const struct difference *d, enum status status) {
    if (!comm_is_rank_0()) return;
    fprintf(stderr,
            "%s: %s, loss %.1e norm %.1e grad %.1e weight %.1e | first loss %.1e first grad %.1e weight %.1e | memory "
            "%g B wire %.1e padding %g\n",
            layout_name(p), status_name(status), d->loss, d->norm, d->grad, d->weight, d->first_loss, d->first_grad,
            d->weight_absolute, d->memory, d->wire, d->padding);
}

struct trial {
    const struct reference *reference;
    bool (*accept)(const struct difference *, double);
    double u;
    int failed;
};

static void try_layout(struct trial *t, const struct plan *p) {
    struct difference d = {0};
    enum status status = layout_compare(p, t->reference, &d);
    bool ok = agree_all(status == OK && t->accept(&d, t->u) && bytes_agree(&d));
    t->failed += !ok;
    if (!ok || getenv("PARITY")) report(p, &d, status);
    status_report();
}

/* Every `stride`-th company; each world size begins with another one. With a stride of 4 every company is tried on one
 * of 1, 2, 4 and 8 ranks; with 2, on two of them. On one rank most companies are alike, so half as many are tried. */
static void check(struct plan plan, bool (*accept)(const struct difference *, double), double u, int first,
                  int stride) {
    struct reference ref;
    struct trial t = {&ref, accept, u, 0};
    enum status status = reference_init(&ref, &plan);
    if (comm_world_size() == 1) stride *= 2;
    for (int world = comm_world_size(); world > 1; world /= 2) first++;
    for (int i = first % stride; i < N_COMPANIES && agree_all(status == OK); i += stride) {
        struct plan p = layout_in_company(plan, i);
        if (plan.optimizer == OPTIMIZER_MUON) plan_set_word(&p, "offload", "none", 0);          /* refused */
        if (plan.optimizer == OPTIMIZER_MUON) plan_set_word(&p, "optim-sync", "wait", 0);
        p.device = test_device()->kind == DEVICE_CUDA ? PLAN_DEVICE_CUDA : PLAN_DEVICE_CPU;
        p.comm = i / 2 % 2 && p.device == PLAN_DEVICE_CUDA ? PLAN_COMM_MPI : PLAN_COMM_AUTO;
        status = plan_settle(&p, comm_world_size());
        if (status == OK && (!getenv("PARITY") || strstr(layout_name(&p), getenv("PARITY")))) try_layout(&t, &p);
    }
    reference_fini(&ref);
    assert_ok(status);
    assert_int_equal(t.failed, 0);
}

static void skip_on_cpu(void) {
    if (test_device()->kind == DEVICE_CPU) skip();
}

static struct plan small_plan(enum plan_precision precision) {
    struct plan p = parity_plan();
    p.precision = precision;
    mixed_precision_options(&p)->init = 4096; /* no gradient of this model is above 16: no overflow */
    mixed_precision_options(&p)->min = 1;
    mixed_precision_options(&p)->window = 1000;
    mixed_precision_options(&p)->hysteresis = 2;
    return p;
}

TEST(test_cuda_equals_cpu_in_fp64) {
    skip_on_cpu();
    check(small_plan(PRECISION_FP64), is_exact, 0, 0, 2);
}

/* Newton-Schulz by cuBLASLt's products, and exchanges of pieces of matrices. */
TEST(test_muon_on_the_device_equals_cpu) {
    skip_on_cpu();
    struct plan p = small_plan(PRECISION_FP64);
    p.optimizer = OPTIMIZER_MUON;
    check(p, is_exact, 0, 1, 4);
}

/* Shared keys, rotary positions and the other ops of Llama, with both kinds of norms of queries and keys, composed. */
TEST(test_llama_on_the_device_equals_cpu) {
    skip_on_cpu();
    struct plan p = small_plan(PRECISION_FP64);
    struct model_options *m = model_options(&p);
    assert_ok(recipe_arch(&p, "llama"));
    p.hidden = 32, m->kv_heads = 2, m->ffn = 24, m->tie = 0;
    plan_set_word(&p, "qk-norm", "all", 0);
    plan_set_number(&p, "post-norm", 1);
    check(p, is_exact, 0, 0, 6);
    plan_set_word(&p, "qk-norm", "head", 0);
    plan_set_number(&p, "post-norm", 0);
    m->attention = ATTENTION_MATERIALISED;
    check(p, is_exact, 0, 3, 14);
}

/* BERT: attention without a mask, three kinds of data, a residual that branches, a norm after it. */
TEST(test_bert_on_the_device_equals_cpu) {
    skip_on_cpu();
    struct plan p = small_plan(PRECISION_FP64);
    assert_ok(recipe_arch(&p, "bert"));
    p.hidden = 32, p.layers = 4;
    check(p, is_exact, 0, 1, 6);
    model_options(&p)->attention = ATTENTION_MATERIALISED;
    check(p, is_exact, 0, 4, 14);
}

/* A sharded sequence: keys of other ranks are attended to in full, in part or not at all, over NCCL and staged in
 * turns. With 16 positions, shards have four keys (a Philox block) or two. */
TEST(test_shards_of_a_sequence_on_the_device_equal_cpu) {
    skip_on_cpu();
    int world = comm_world_size();
    if (world == 1 || world == 8) skip();
    struct reference ref;
    struct plan plan = small_plan(PRECISION_FP64);
    struct model_options *m = model_options(&plan);
    assert_ok(recipe_arch(&plan, "llama"));
    plan.hidden = 32, m->kv_heads = 4, m->ffn = 24, m->tie = 0, plan.seq = 16, plan.layers = 2;
    struct trial t = {&ref, is_exact, 0, 0};
    enum status status = reference_init(&ref, &plan);
    for (int by = 0; by < 3 && agree_all(status == OK); by++) {
        struct plan p = plan;
        p.device = PLAN_DEVICE_CUDA;
        p.comm = by == CP_BY_GATHER ? PLAN_COMM_MPI : PLAN_COMM_AUTO;
        p.mesh.cp = world, p.micro_batch = 4;
        cp_options(&p)->by = by;
        status = plan_settle(&p, world);
        if (status == OK) try_layout(&t, &p);
    }
    reference_fini(&ref);
    assert_ok(status);
    assert_int_equal(t.failed, 0);
}

/* Heads of 224 channels, and of 160, have kernels with other tiles: numbers are the same, and memory is as planned. */
TEST(test_large_heads_on_the_device_equal_cpu) {
    skip_on_cpu();
    int world = comm_world_size();
    if (world > 2) skip();
    struct reference ref;
    struct plan p = small_plan(PRECISION_FP64);
    struct trial t = {&ref, is_exact, 0, 0};
    p.heads = 2, p.hidden = p.heads * (world == 1 ? 224 : 160), p.layers = 1;
    p.steps = 3, p.global_batch = p.micro_batch = 4;
    enum status status = reference_init(&ref, &p);
    p.device = PLAN_DEVICE_CUDA, p.mesh.tp = world;
    if (status == OK) status = plan_settle(&p, world);
    if (agree_all(status == OK)) try_layout(&t, &p);
    reference_fini(&ref);
    assert_ok(status);
    assert_int_equal(t.failed, 0);
}

/* Experts on every rank, shared by pairs and by all, among replicas and with every other way to shard. Groups of two
 * tokens compete for one place of an expert, so a third of the choices is dropped. In odd trials rows are packed. */
TEST(test_experts_on_the_device_equal_cpu) {
    skip_on_cpu();
    static const struct { int dp, cp, tp, pp, ep, sp, zero; } TRIALS[] = {
        {1, 1, 1, 1, 1, 0, 0}, {2, 1, 1, 1, 2, 0, 1}, {1, 2, 1, 1, 2, 0, 0}, {1, 1, 2, 1, 1, 1, 0},
        {4, 1, 1, 1, 2, 0, 3}, {2, 2, 1, 1, 4, 0, 2}, {2, 1, 2, 1, 2, 1, 0}, {2, 1, 1, 2, 2, 0, 1},
        {8, 1, 1, 1, 8, 0, 1}, {2, 1, 2, 2, 2, 1, 1},
    };
    struct reference ref;
    struct plan plan = small_plan(PRECISION_FP64);
    struct model_options *m = model_options(&plan);
    assert_ok(recipe_arch(&plan, "mixtral"));
    plan.hidden = 32, m->kv_heads = 2, m->ffn = 24, m->tie = 0;
    m->experts = 8, m->experts_per_token = 2, m->moe_group = 2, m->capacity = 1;
    m->aux_loss = 0.05, m->z_loss = 0.01, plan.layers = 2;
    struct trial t = {&ref, is_exact, 0, 0};
    enum status status = reference_init(&ref, &plan);
    for (size_t j = 0; j < 2 * (sizeof TRIALS / sizeof *TRIALS) && agree_all(status == OK); j++) {
        struct plan p = plan;
        size_t i = j / 2;
        p.mesh.dp = TRIALS[i].dp, p.mesh.cp = TRIALS[i].cp, p.mesh.tp = TRIALS[i].tp, p.mesh.pp = TRIALS[i].pp;
        p.mesh.ep = TRIALS[i].ep, model_options(&p)->moe_packed = j % 2;
        if (mesh_n_ranks(&p.mesh) != comm_world_size()) continue;
        plan_set_number(&p, "sp", TRIALS[i].sp), plan_set_number(&p, "zero", TRIALS[i].zero);
        p.device = PLAN_DEVICE_CUDA, p.comm = i % 2 ? PLAN_COMM_MPI : PLAN_COMM_AUTO, p.micro_batch = 2;
        status = plan_settle(&p, comm_world_size());
        if (status == OK) try_layout(&t, &p);
    }
    reference_fini(&ref);
    assert_ok(status);
    assert_int_equal(t.failed, 0);
}

/* Every pipeline schedule, over NCCL and staged in turns: four channels, and messages of a rank to itself. */
TEST(test_every_schedule_on_the_device_equals_cpu) {
    skip_on_cpu();
    if (comm_world_size() == 1) skip();
    struct reference ref;
    struct plan plan = small_plan(PRECISION_FP64);
    struct trial t = {&ref, is_exact, 0, 0};
    enum status status = reference_init(&ref, &plan);
    for (int k = 0; k < N_SYNCHRONOUS && agree_all(status == OK); k++) {
        struct plan p = plan;
        p.device = PLAN_DEVICE_CUDA;
        p.comm = k % 2 ? PLAN_COMM_MPI : PLAN_COMM_AUTO;
        p.mesh.pp = comm_world_size(), p.micro_batch = 4;
        pp_options(&p)->schedule = k;
        pp_options(&p)->chunks = pp_schedule_at(k)->chunked && 2 * p.mesh.pp <= p.layers ? 2 : 1;
        status = plan_settle(&p, comm_world_size());
        if (pp_schedule_at(k)->grouped && p.n_microbatches % p.mesh.pp) continue;
        if (pp_schedule_at(k)->place == &pp_vee && 2 * p.mesh.pp > p.layers) continue;
        if (status == OK) try_layout(&t, &p);
    }
    reference_fini(&ref);
    assert_ok(status);
    assert_int_equal(t.failed, 0);
}

TEST(test_cuda_equals_cpu_with_materialised_attention_and_stored_masks) {
    skip_on_cpu();
    struct plan p = small_plan(PRECISION_FP64);
    model_options(&p)->attention = ATTENTION_MATERIALISED;
    model_options(&p)->dropout_masks = MASKS_STORE;
    check(p, is_exact, 0, 1, 6);
}

TEST(test_cuda_equals_cpu_within_bf16_bounds) {
    skip_on_cpu();
    check(small_plan(PRECISION_BF16), is_close, 0x1p-8, 0, 4);
}

TEST(test_cuda_equals_cpu_within_fp16_bounds) {
    skip_on_cpu();
    check(small_plan(PRECISION_FP16), is_close, 0x1p-11, 2, 4);
}

TESTS(unit_test(test_cuda_equals_cpu_in_fp64), unit_test(test_muon_on_the_device_equals_cpu),
      unit_test(test_llama_on_the_device_equals_cpu),
      unit_test(test_bert_on_the_device_equals_cpu),
      unit_test(test_shards_of_a_sequence_on_the_device_equal_cpu),
      unit_test(test_large_heads_on_the_device_equal_cpu),
      unit_test(test_experts_on_the_device_equal_cpu), unit_test(test_every_schedule_on_the_device_equals_cpu),
      unit_test(test_cuda_equals_cpu_with_materialised_attention_and_stored_masks),
      unit_test(test_cuda_equals_cpu_within_bf16_bounds), unit_test(test_cuda_equals_cpu_within_fp16_bounds))
