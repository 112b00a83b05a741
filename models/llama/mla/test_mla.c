/* ranks: 1 2 4  more: 8  device: cpu  threads: 1
 *
 * Latent attention: the moves are their formulas; a model of them has the published sizes, costs what the
 * formula says, and equals its serial run in every layout. */
#include "models/llama/mla/mla.h"
#include "driver/recipe.h"
#include "lib/ops/attention/attention_cached.h"
#include "lib/ops/mla.h"
#include "lib/ops/rmsnorm.h"
#include "lib/ops/rope.h"
#include "lib/ops/test_op.h"
#include "lib/types/types.h"
#include "models/llama/llama.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp.h"
#include "tp/tp_region.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the moves ---- */
static struct { int B, T, J, latent, shared, before, value; } s = {2, 7, 3, 5, 4, 3, 6};

static void make_split(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_mla_split, 2);
    c->step.mla = (struct mla_rule){s.latent, s.value};
    op_case_input(c, op_type(dtype, "BTA", s.B, s.T, s.latent + s.shared));
    op_case_finish(c);
}
static void make_keys(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_mla_keys, 1);
    c->step.mla = (struct mla_rule){s.latent, s.value};
    op_case_input(c, op_type(dtype, "BTJW", s.B, s.T, s.J, s.before + s.value));
    op_case_input(c, op_type(dtype, "BTS", s.B, s.T, s.shared));
    op_case_finish(c);
}
static void make_values(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_mla_values, 1);
    c->step.mla = (struct mla_rule){s.latent, s.value};
    op_case_input(c, op_type(dtype, "BTHD", s.B, s.T, s.J, s.before + s.shared));
    op_case_finish(c);
}
static op_case_maker *const MOVES[] = {make_split, make_keys, make_values};

TEST(test_mla_moves_have_their_slopes) {
    for (int i = 0; i < 3; i++) {
        op_case_check_gradients(MOVES[i]);
        op_case_check_threads(MOVES[i]);
        op_case_check_precisions(MOVES[i], s.J, 0);
    }
}

/* Keys are [own ; shared], values [own ; 0], and the shared key's gradient is the sum of all heads'. */
TEST(test_mla_keys_are_own_and_shared_channels) {
    struct op_case c;
    make_keys(&c, FP64);
    const double *x = c.in[0].data, *shared = c.in[1].data, *kv = c.out[0].data, *dkv = c.dout[0].data;
    int D = s.before + s.shared, W = s.before + s.value;
    op_case_run_all(&c);
    for (int t = 0; t < s.B * s.T; t++)
        for (int d = 0; d < D; d++) {
            double sum = 0;
            for (int j = 0; j < s.J; j++) {
                int k = (2 * t * s.J + j) * D + d, v = k + s.J * D, own = (t * s.J + j) * W;
                assert_close(kv[k], d < s.before ? x[own + d] : shared[t * s.shared + d - s.before], 0);
                assert_close(kv[v], d < s.value ? x[own + s.before + d] : 0, 0);
                sum += dkv[k];
            }
            if (d >= s.before) assert_close(((double *)c.din[1].data)[t * s.shared + d - s.before], sum, 1e-14);
        }
    op_case_free(&c);
}

/* ---- the products of decoding ---- */
static int first_t = 0, n_t = 7;                 /* the new tokens */

static void make_absorb(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_mla_absorb, 1);
    c->step.mla = (struct mla_rule){s.latent, s.value};
    op_case_input(c, op_type(dtype, "BTHD", s.B, s.T, s.J, s.before + s.shared));
    op_case_weight(c, op_type(dtype, "JWL", s.J, s.before + s.value, s.latent));
    op_case_finish(c);
}
static void make_expand(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_mla_expand, 1);
    c->step.mla = (struct mla_rule){s.latent, s.value};
    op_case_input(c, op_type(dtype, "BTHL", s.B, s.T, s.J, s.latent));
    op_case_weight(c, op_type(dtype, "JWL", s.J, s.before + s.value, s.latent));
    op_case_finish(c);
}
static void make_latent(struct op_case *c, enum dtype dtype) {
    struct type latent = op_type_part(op_type(dtype, "BTL", s.B, s.T, s.latent), 'T', first_t, n_t);
    struct type shared = op_type_part(op_type(dtype, "BTS", s.B, s.T, s.shared), 'T', first_t, n_t);
    op_case_start(c, &op_attention_latent, 1);
    c->step.attention = (struct attention_rule){.unscaled = true, .factor = 0.4};
    op_case_input(c, op_type_part(op_type(dtype, "BTHA", s.B, s.T, s.J, s.latent + s.shared), 'T', first_t, n_t));
    op_case_input(c, latent);
    op_case_input(c, shared);
    op_case_weight(c, attention_latent_cache_type(&latent, &shared));
    op_case_finish(c);
}

/* The longest sum: over a latent's channels, or a head's; in attention also over the keys. */
TEST(test_mla_products_of_decoding_are_exact) {
    op_case_maker *const products[] = {make_absorb, make_expand, make_latent};
    const int latents[] = {5, 67, 130};              /* fewer and more than a thread sums at a time */
    for (int i = 0; i < 9; i++) {
        s.latent = latents[i / 3];
        op_case_check_threads(products[i % 3]);
        op_case_check_precisions(products[i % 3], s.T + s.latent + s.shared + 16, 0);
    }
    s.latent = 5;
}

/* A row of the cache is [c ; s] of its token, and rows of other tokens stay; the scores are of whole rows, the values
 * their first channels. */
TEST(test_mla_attention_is_over_the_rows_of_the_cache) {
    struct op_case c;
    first_t = 2, n_t = 3;
    make_latent(&c, FP64);
    int A = s.latent + s.shared;
    const double *q = c.in[0].data, *latent = c.in[1].data, *shared = c.in[2].data, *o = c.out[0].data;
    double *rows = c.weight[0].data, before = rows[A];
    op_case_run(&c, ROW_FORWARD);
    assert_close(rows[A], before, 0);
    for (int i = 0; i < s.B * n_t * s.J; i++) {
        int b = i / s.J / n_t, t = i / s.J % n_t;
        double *row = rows + (b * s.T + first_t + t) * A, sum = 0, mean[5] = {0};
        for (int a = 0; a < A; a++)
            assert_close(row[a], a < s.latent ? latent[(b * n_t + t) * s.latent + a]
                                              : shared[(b * n_t + t) * s.shared + a - s.latent], 0);
        for (int j = 0; j <= first_t + t; j++) {
            double score = 0, *key = rows + (b * s.T + j) * A;
            for (int a = 0; a < A; a++) score += 0.4 * q[i * A + a] * key[a];
            sum += exp(score);
            for (int l = 0; l < s.latent; l++) mean[l] += exp(score) * key[l];
        }
        for (int l = 0; l < s.latent; l++) assert_close(o[i * s.latent + l], mean[l] / sum, 1e-14);
    }
    op_case_free(&c);
    first_t = 0, n_t = 7;
}

static enum status shape_with(struct op_case *c, int in, struct type type) {
    struct type out[MAX_OUT];
    struct call call = op_case_call(c, ROW_FORWARD);
    call.in[in].type = &type;
    enum status status = c->step.op->shape(&call, out);
    op_case_free(c);
    return status;
}

TEST(test_mla_products_of_decoding_refuse_other_shapes) {
    struct op_case c;
    struct type heads = op_type_part(op_type(FP64, "BTHD", s.B, s.T, s.J, s.before + s.shared), 'H', 1, 1);
    make_absorb(&c, FP64), assert_fails(shape_with(&c, 0, heads), E_CONFIG, "its own rows");
    make_absorb(&c, FP64), heads = op_type(FP64, "BTHD", s.B, s.T, s.J, s.before);
    assert_fails(shape_with(&c, 0, heads), E_CONFIG, "channels of the shared key");
    make_expand(&c, FP64), heads = op_type(FP64, "BTHL", s.B, s.T, s.J, s.latent + 1);
    assert_fails(shape_with(&c, 0, heads), E_CONFIG, "different widths");
    make_latent(&c, FP64), heads = op_type(FP64, "BTHA", s.B, s.T, s.J, s.latent);
    assert_fails(shape_with(&c, 0, heads), E_CONFIG, "channels of a latent and of a shared key");
    make_latent(&c, FP64), heads = op_type(FP64, "BTS", s.B, s.T - 1, s.shared);
    assert_fails(shape_with(&c, 2, heads), E_CONFIG, "different samples or positions");
    make_latent(&c, FP64), heads = op_type(FP32, "BTL", s.B, s.T, s.latent);
    assert_fails(shape_with(&c, 1, heads), E_CONFIG, "the cache must be");
}

/* A point (1, 0) of neighbors becomes (cos, sin) of the angle; the channels before are unchanged. */
TEST(test_rope_turns_neighbors_behind_the_first_channels) {
    enum { FIRST = 3, PAIRS = 70, D = FIRST + 2 * PAIRS };           /* more pairs than a thread processes at a time */
    struct op_case c;
    op_case_start(&c, &op_rope, 1);
    c.step.rope = (struct rope_rule){.theta = 100, .first = FIRST, .neighbors = true};
    op_case_input(&c, op_type(FP64, "BTHD", 2, 7, 2, D));
    op_case_finish(&c);
    double *x = c.in[0].data, *y = c.out[0].data;
    for (int i = 0; i < 2 * 7 * 2 * D; i++) x[i] = i % D < FIRST ? i : (i % D - FIRST) % 2 == 0;
    op_case_run(&c, ROW_FORWARD);
    for (int i = 0; i < 2 * 7 * 2 * D; i++) {
        int d = i % D - FIRST, t = i / D / 2 % 7;
        double angle = t * pow(100, -(double)(d / 2) / PAIRS);
        assert_close(y[i], d < 0 ? i : d % 2 ? sin(angle) : cos(angle), 1e-15);
    }
    op_case_free(&c);
}

/* ---- models ---- */

/* 8 heads of 10 channels, of which 4 have positions, with values of 5; positions slowed as DeepSeek's. */
static struct plan padded_plan(void) {
    struct plan p = parity_plan();
    struct model_options *m = model_options(&p);
    p.arch = &model_llama;
    p.hidden = 32;
    m->ffn = 24, m->head_dim = 10, m->tie = 0;
    plan_set_number(&p, "rope-theta", 100);
    plan_set_word(&p, "rope-scaling", "yarn:4:16:0.5:8:1.1", 0);
    struct llama_options *o = plan_own(&p, &model_llama.options);
    o->mla.kv_lora_rank = 12, o->mla.q_lora_rank = 14, o->mla.rope_head_dim = 4, o->mla.v_head_dim = 5;
    o->mla.mscale_all_dim = 0.7, o->mla.rope_interleave = 1;
    return p;
}

/* Queries of the input, values as wide as keys, halves that turn, a window. */
static struct plan plain_plan(void) {
    struct plan p = padded_plan();
    struct llama_options *o = plan_own(&p, &model_llama.options);
    o->mla.q_lora_rank = 0, o->mla.v_head_dim = 10, o->mla.rope_interleave = 0, o->mla.mscale_all_dim = 0;
    o->window = 3;
    strcpy(o->rope_scaling, "none");
    return p;
}

static const struct mla_options *of(const struct plan *p) { return &llama_options(p)->mla; }

static double flops_of_rows(const struct plan *p) {
    struct run r;
    double sum = 0;
    assert_ok(run_compile(&r, &train_recipe, p, 0, NULL, NULL));
    for (int k = 0; k < N_ROW_KINDS; k++) sum += r.bill.flops[k];
    assert_int_equal(program_n_params(&r.program), llama_n_params(p));
    run_destroy(&r);
    return sum / (double)(p->global_batch * p->seq);
}

/* The bill's rows are the formula and the padding, D - U channels of each value: in a product of scores with values,
 * and in two backward, 2 flops a channel: 6 H (D - U) T a layer and token. */
TEST(test_mla_costs_its_formula_and_the_padding) {
    struct plan plans[] = {padded_plan(), plain_plan()};
    for (int i = 0; i < 2; i++) {
        struct plan p = plans[i];
        p.device = PLAN_DEVICE_CPU;
        assert_ok(plan_settle(&p, 1));
        double padding = i ? 0 : 6. * 8 * (10 - 5) * (double)(p.layers * p.seq);
        assert_close(flops_of_rows(&p), llama_flops_per_token(&p) + padding, 1e-9 * llama_flops_per_token(&p));
    }
}

/* Sizes of a layer by hand, with and without the queries' latent. */
TEST(test_mla_params_are_counted) {
    struct plan p = padded_plan(), q = plain_plan();
    assert_int_equal(mla_matrices(&p, of(&p)), 14 * 32 + 8 * 10 * 14 + (12 + 4) * 32 + 8 * (6 + 5) * 12 + 32 * 8 * 5);
    assert_int_equal(mla_matrices(&q, of(&q)), 8 * 10 * 32 + (12 + 4) * 32 + 8 * (6 + 10) * 12 + 32 * 8 * 10);
    assert_int_equal(mla_norms(of(&p)), 12 + 14);
    const struct rope_rule yarn = {.scaling = ROPE_YARN, .factor = 4};
    double scale = 0.1 * 0.7 * log(4) + 1;
    assert_close(mla_factor(of(&p), &yarn), scale * scale, 1e-15);
    assert_close(mla_factor(of(&q), &yarn), 1, 0);
}

/* tp enters behind the latents: queries', keys' and the shared key; the MLP; the head. */
TEST(test_tp_enters_behind_the_latents) {
    struct plan p = padded_plan();
    struct run r;
    p.device = PLAN_DEVICE_CPU, p.mesh.tp = 2;
    assert_ok(plan_settle(&p, 2));
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    int n = 0;
    for (int i = 0; i < r.program.n_steps; i++) {
        const struct step *x = &r.program.steps[i];
        if (x->op != &op_tp_enter || strncmp(r.program.slots[x->in[0]].name, "h0.", 3) != 0) continue;
        static const char *const entered[] = {"h0.q.a.norm", "h0.kv.a.norm", "h0.k.turned", "h0.norm2"};
        assert_true(n < 4);
        assert_string_equal(r.program.slots[x->in[0]].name, entered[n++]);
    }
    assert_int_equal(n, 4);
    run_destroy(&r);
}

/* A shared key whose gradient no rank adds up is refused by its type. */
TEST(test_types_of_a_shared_input) {
    struct plan p = padded_plan();
    struct run r;
    p.device = PLAN_DEVICE_CPU, p.mesh.tp = 2;
    assert_ok(plan_settle(&p, 2));
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    assert_ok(types_check(&r.program, "nothing"));
    for (int i = 0; i < r.program.n_steps; i++) {
        struct step *x = &r.program.steps[i];
        if (x->op == &op_tp_enter && !strcmp(r.program.slots[x->in[0]].name, "h0.k.turned"))
            for (int k = i; k < r.program.n_steps; k++)
                if (r.program.steps[k].op == &op_mla_keys && r.program.steps[k].in[1] == x->out[0])
                    r.program.steps[k].in[1] = x->in[0];
    }
    assert_fails(types_check(&r.program, "a mistake"), E_INTERNAL, "h0.k.turned");
    run_destroy(&r);
}

/* Latents' norms have 1e-6, the others the model's eps; queries turn behind their first channels, and neighbors. */
TEST(test_mla_steps_are_the_references) {
    struct plan p = padded_plan();
    struct program program;
    int latents = 0, norms = 0, turned = 0;
    p.layers = 1;
    model_options(&p)->norm_eps = 0.003;
    program_init(&program);
    assert_ok(llama_build(&p, &program));
    for (int i = 0; i < program.n_steps; i++) {
        const struct step *x = &program.steps[i];
        latents += x->op == &op_rmsnorm && x->norm.eps == 1e-6;
        norms += x->op == &op_rmsnorm && x->norm.eps == 0.003;
        turned += x->op == &op_rope && x->rope.neighbors && x->rope.theta == 100 && x->rope.factor == 4 &&
                  x->rope.first == (strcmp(program.slots[x->out[0]].name, "h0.q.turned") ? 0 : 6);
        if (x->op->rule == RULE_ATTENTION) assert_close(x->attention.factor, pow(0.07 * log(4) + 1, 2), 1e-15);
    }
    assert_true(latents == 2 && norms == 3 && turned == 2);
    program_fini(&program);
}

/* Another project's name of a slot is that of a module, with samples, and not of a param: the oracle records both. */
TEST(test_mla_slots_have_names_of_their_own) {
    struct plan p = padded_plan();
    struct program program;
    int found = 0, layer;
    p.layers = 1;
    program_init(&program);
    assert_ok(llama_build(&p, &program));
    for (int i = 0; i < program.n_slots; i++) {
        const struct published *row = published_find(llama_published, program.slots[i].name, &layer);
        if (row) assert_int_equal(row->axes[0], 'B');
        found += row && strstr(row->theirs[0], "_b_proj");
    }
    assert_int_equal(found, 2);
    program_fini(&program);
}

static enum status build_with(const char *option, double value) {
    struct plan p = padded_plan();
    struct program program;
    if (!strcmp(option, "sums")) p.sums = PLAN_SUMS_FIXED;
    else if (!strcmp(option, "kv-heads")) model_options(&p)->kv_heads = (int64_t)value;
    else if (!strcmp(option, "head-dim")) model_options(&p)->head_dim = (int64_t)value;
    else if (!strcmp(option, "rope-scaling")) plan_set_word(&p, option, "none", 0);
    else plan_set_number(&p, option, (int64_t)value);
    program_init(&program);
    enum status status = llama_build(&p, &program);
    program_fini(&program);
    return status;
}

TEST(test_impossible_latents_are_refused) {
    assert_fails(build_with("rope-head-dim", 0), E_CONFIG, "rope-head-dim=0", "10 channels", "use 4");
    assert_fails(build_with("rope-head-dim", 3), E_CONFIG, "rope-head-dim=3", "use 4");
    assert_fails(build_with("rope-head-dim", 10), E_CONFIG, "rope-head-dim=10", "use 4");
    assert_fails(build_with("head-dim", 2), E_CONFIG, "head-dim=2", "--head-dim 4 --rope-head-dim 2");
    assert_fails(build_with("v-head-dim", 11), E_CONFIG, "v-head-dim=11", "use at most 10");
    assert_fails(build_with("kv-heads", 2), E_CONFIG, "kv-heads=2", "use --kv-heads 8");
    assert_fails(build_with("qk-norm", 1), E_CONFIG, "kv-lora-rank=12", "--qk-norm none");
    assert_fails(build_with("attention-bias", 1), E_CONFIG, "kv-lora-rank=12", "--attention-bias none");
    assert_fails(build_with("rope-scaling", 0), E_CONFIG, "mscale-all-dim=0.7", "--rope-scaling yarn");
    assert_fails(build_with("sums", 0), E_CONFIG, "sums=fixed", "kv-lora-rank=12", "sums=fast");
    assert_fails(build_with("kv-lora-rank", 0), E_CONFIG, "q-lora-rank=14", "give --kv-lora-rank");
    assert_ok(build_with("v-head-dim", 10));
    assert_ok(build_with("kv-heads", 8));
}

/* ---- parity ---- */
/* Shard the sequence: cp 2, and other axes as far as the world has ranks. */
static void try_cp(struct layout_tally *t, layout_try *try) {
    static const char *const BY[] = {"ring", "ulysses", "gather"};
    int world = comm_world_size();
    for (int by = 0; world > 1 && by < 3; by++) {
        struct plan p = t->reference->run.plan;
        p.settled = false;
        p.mesh.cp = 2, p.mesh.tp = world >= 4 ? 2 : 1, p.mesh.dp = world / (2 * p.mesh.tp);
        plan_set_word(&p, "cp-by", BY[by], 0);
        plan_set_number(&p, "sp", p.mesh.tp > 1);
        plan_set_number(&p, "zero", by == 0 ? 3 : 1);
        p.micro_batch = p.global_batch < 2 * p.mesh.dp ? 1 : 2;
        try(t, p);
    }
}

static bool take_all(const struct plan *p) { return p != NULL; }

static void try_layouts(struct plan serial) {
    static const struct layout_tries tries = {layout_try_settled, try_cp, take_all};
    assert_int_equal(layouts_differ(&serial, &tries), 0);
}

TEST(test_every_layout_of_latent_attention_equals_serial_fp64) { try_layouts(padded_plan()); }
TEST(test_every_layout_of_latents_without_padding_equals_serial_fp64) { try_layouts(plain_plan()); }

/* Materialised attention, and in fp8: of each a layout. */
TEST(test_latents_with_other_products_equal_serial) {
    for (int fp8 = 0; fp8 < 2; fp8++) {
        struct reference reference;
        struct plan serial = padded_plan(), p;
        plan_set_number(&serial, "fp8", fp8);
        enum status status = reference_init(&reference, &serial);
        struct layout_tally t = {&reference, 0};
        p = serial;
        if (!fp8) model_options(&p)->attention = ATTENTION_MATERIALISED;
        p.mesh.tp = comm_world_size() > 1 ? 2 : 1;
        p.mesh.dp = comm_world_size() / p.mesh.tp;
        p.micro_batch = 1;
        if (agree_all(status == OK)) layout_try_settled(&t, p);
        reference_fini(&reference);
        assert_ok(status);
        assert_int_equal(t.failed, 0);
    }
}

TESTS(unit_test(test_mla_moves_have_their_slopes),
      unit_test(test_mla_keys_are_own_and_shared_channels),
      unit_test(test_mla_products_of_decoding_are_exact),
      unit_test(test_mla_attention_is_over_the_rows_of_the_cache),
      unit_test(test_mla_products_of_decoding_refuse_other_shapes),
      unit_test(test_rope_turns_neighbors_behind_the_first_channels),
      unit_test(test_mla_costs_its_formula_and_the_padding), unit_test(test_mla_params_are_counted),
      unit_test(test_tp_enters_behind_the_latents), unit_test(test_types_of_a_shared_input),
      unit_test(test_mla_steps_are_the_references),
      unit_test(test_mla_slots_have_names_of_their_own), unit_test(test_impossible_latents_are_refused),
      unit_test(test_every_layout_of_latent_attention_equals_serial_fp64),
      unit_test(test_every_layout_of_latents_without_padding_equals_serial_fp64),
      unit_test(test_latents_with_other_products_equal_serial))
