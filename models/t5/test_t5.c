/* ranks: 1 2 4  more: 8  device: cpu  threads: 1
 *
 * T5 has the published sizes, costs what the formula says, removes and writes the right spans, and equals its serial
 * run in every layout. Every technique with every other: tests/test_matrix.c. Against PyTorch: tests/hf.sh. */
#include "models/t5/t5.h"
#include "driver/recipe.h"
#include "lib/ops/activation.h"
#include "lib/ops/attention/attention.h"
#include "lib/ops/branch.h"
#include "lib/ops/rmsnorm.h"
#include "pp/pp.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp.h"
#include "zero/zero.h"
#include <math.h>
#include <string.h>

/* ---- counting ---- */
static enum status preset(struct plan *p, const char *name) {
    struct options *o;
    TRY(recipe_options_create(NULL, p, &o));
    snprintf(p->model, sizeof p->model, "%s", name);
    enum status status = recipe_preset(p, o);
    options_destroy(&o);
    p->device = PLAN_DEVICE_CPU;
    return status == OK ? plan_settle(p, 1) : status;
}

/* T5ForConditionalGeneration, as PyTorch counts its parameters. */
TEST(test_t5_sizes_have_exactly_the_published_parameters) {
    const struct { const char *name; int64_t n; } sizes[] = {
        {"t5-small", 60506624}, {"t5-base", 222903552}, {"t5-large", 737668096}, {"t5-3b", 2851598336},
        {"t5-11b", 11307321344}, {"t5-v1_1-small", 76961152}, {"t5-v1_1-base", 247577856},
        {"t5-v1_1-large", 783150080}, {"t5-v1_1-xl", 2849757184}, {"t5-v1_1-xxl", 11135332352},
        {"flan-t5-small", 76961152}, {"flan-t5-base", 247577856}, {"flan-t5-large", 783150080},
        {"flan-t5-xl", 2849757184}, {"flan-t5-xxl", 11135332352}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct plan p;
        struct program program;
        assert_ok(preset(&p, sizes[i].name));
        assert_ptr_equal(p.arch, &model_t5);
        assert_true(t5_n_params(&p) == sizes[i].n);
        program_init(&program);
        assert_ok(t5_build(&p, &program));
        assert_true(program_n_params(&program) == sizes[i].n);
        program_fini(&program);
    }
}

/* The MFU formula and the bill count the same things: see models/gpt/test_gpt.c. */
TEST(test_t5_flops_are_the_formula) {
    const char *const names[] = {"t5-small", "flan-t5-small", "t5-3b"};
    for (int i = 0; i < 3; i++) {
        struct plan p;
        struct run r;
        assert_ok(preset(&p, names[i]));
        assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
        double sum = 0;
        for (int k = 0; k < N_ROW_KINDS; k++) sum += r.bill.flops[k];
        assert_close(sum / (double)(p.global_batch * p.seq) / t5_flops_per_token(&p), 1, 1e-12);
        run_destroy(&r);
    }
}

/* Initial deviations of transformers' T5: of q (C D)^-1/2, of o (H D)^-1/2, of the MLP's first matrices C^-1/2. */
TEST(test_t5_begins_as_published) {
    struct plan p;
    struct program program;
    const struct { const char *name; double std; } params[] = {
        {"e0.q.w", 512 * 64}, {"e0.o.w", 6 * 64}, {"d0.xo.w", 6 * 64}, {"e0.up.w", 512}, {"e0.fc2.w", 1024}};
    int seen = 0;
    assert_ok(preset(&p, "flan-t5-small"));
    program_init(&program);
    assert_ok(t5_build(&p, &program));
    for (int i = 0; i < program.n_params; i++)
        for (size_t k = 0; k < sizeof params / sizeof *params; k++) {
            if (strcmp(program.params[i].name, params[k].name) != 0) continue;
            assert_close(program.params[i].init_std, 1 / sqrt(params[k].std), 1e-15);
            seen++;
        }
    assert_int_equal(seen, 5);
    program_fini(&program);
}

/* ---- spans ---- */
static struct plan serial_plan(void) {
    struct plan p = parity_plan();
    p.arch = &model_t5;
    p.seq = 16, t5_options(&p)->noise = 0.25, t5_options(&p)->span = 1;   /* 16 tokens to encode, 8 to decode */
    return p;
}

enum { SEQ = 512 };
struct sample { int32_t text[SEQ], tokens[SEQ], targets[SEQ], scratch[SEQ], decoder[SEQ]; };

static void make_sample(const struct plan *p, int64_t number, struct sample *s) {
    int32_t *const whole[N_DATA] = {[DATA_TOKENS] = s->tokens, [DATA_TARGETS] = s->targets,
                                    [DATA_SEGMENTS] = s->scratch, [DATA_DECODER] = s->decoder};
    for (int t = 0; t < p->seq; t++) s->tokens[t] = s->text[t] = (int32_t)((7 * t + number + 1000) % 900);
    assert_ok(t5_sample(p, number, whole));
}

static struct plan long_plan(void) {
    struct plan p = serial_plan();
    p.seq = SEQ, p.vocab = 1001, t5_options(&p)->noise = 0.15, t5_options(&p)->span = 3;
    return p;
}

/* Joined again, sentinel by sentinel, the encoder's and the decoder's tokens give the text. */
static void check_restores(const struct plan *p, const struct sample *s) {
    struct t5_lengths l = t5_lengths(p);
    int64_t at = 0, target = 0, spans = 0;
    for (int64_t i = 0; i < l.encoder; i++) {
        if (s->tokens[i] < 900) {
            assert_int_equal(s->tokens[i], s->text[at++]);
            continue;
        }
        assert_int_equal(s->tokens[i], p->vocab - 1 - spans++);
        assert_int_equal(s->targets[target++], s->tokens[i]);
        assert_true(i > 0 && target < l.decoder && s->targets[target] < 900);
        while (target < l.decoder && s->targets[target] < 900) assert_int_equal(s->targets[target++], s->text[at++]);
    }
    assert_true(spans == l.spans && target == l.decoder && at == p->seq);
}

TEST(test_every_sample_has_the_same_lengths_and_restores_its_text) {
    static struct sample s;
    struct plan p = long_plan();
    struct t5_lengths l = t5_lengths(&p);
    assert_true(l.noise == 77 && l.spans == 26 && l.encoder == 461 && l.decoder == 103);
    assert_int_equal(t5_n_targets(&p), 103);
    for (int64_t number = -50; number < 50; number++) {
        make_sample(&p, number, &s);
        check_restores(&p, &s);
        assert_int_equal(s.decoder[0], 0);
        for (int t = 1; t < l.decoder; t++) assert_int_equal(s.decoder[t], s.targets[t - 1]);
    }
}

/* The published tokenizer's <extra_id_i> is token 32099 - i. */
TEST(test_sentinels_are_the_published_ones_or_as_said) {
    static struct sample s;
    struct plan p = long_plan();
    p.vocab = 32128;
    make_sample(&p, 0, &s);
    assert_int_equal(s.targets[0], 32099);
    for (int t = 0; t < t5_lengths(&p).decoder; t++) assert_true(s.targets[t] < 900 || s.targets[t] >= 32099 - 25);
    t5_options(&p)->sentinels = 1000;
    make_sample(&p, 0, &s);
    assert_int_equal(s.targets[0], 1000);
    p.vocab = 32127, t5_options(&p)->sentinels = -1;
    make_sample(&p, 0, &s);
    assert_int_equal(s.targets[0], 32126);
    assert_ok(preset(&p, "t5-base"));
    assert_int_equal(t5_own_tokens(&p).first, 32099);
}

/* With a mean length of 3, spans have many lengths; and another number has other spans. */
TEST(test_spans_are_drawn) {
    static struct sample a, b;
    struct plan p = long_plan();
    int lengths[SEQ] = {0}, different = 0;
    for (int64_t number = 0; number < 100; number++) {
        make_sample(&p, number, &a);
        for (int t = 0, n = 0; t < 103; t++) {
            n = a.targets[t] < 900 ? n + 1 : 0;
            if (n && (t == 102 || a.targets[t + 1] >= 900)) lengths[n]++;
        }
    }
    for (int n = 1; n < SEQ; n++) different += lengths[n] > 0;
    assert_true(different > 5 && lengths[1] > lengths[3] && lengths[3] > lengths[8]);
    make_sample(&p, 3, &a);
    make_sample(&p, 3, &b);
    assert_memory_equal(&a, &b, sizeof a);
    make_sample(&p, 903, &b);
    assert_memory_equal(a.text, b.text, sizeof a.text);
    assert_memory_not_equal(a.tokens, b.tokens, sizeof a.tokens);
}

/* ---- refused ---- */
TEST(test_t5_refuses) {
    static struct sample s;
    struct plan p = serial_plan();
    struct program program;
    struct run r;
    program_init(&program);
    p.layers = 7;
    assert_fails(t5_build(&p, &program), E_CONFIG, "layers=7", "use layers 8");
    p = serial_plan(), model_options(&p)->kv_heads = 2;
    assert_fails(t5_build(&p, &program), E_CONFIG, "kv-heads=2", "arch llama");
    p = serial_plan(), model_options(&p)->experts = 4;
    assert_fails(t5_build(&p, &program), E_CONFIG, "experts=4", "arch gpt");
    p = serial_plan(), p.mesh.cp = 2;
    assert_fails(t5_build(&p, &program), E_CONFIG, "cp=2", "two sequences");
    p = serial_plan(), p.sums = PLAN_SUMS_FIXED;
    assert_fails(t5_build(&p, &program), E_CONFIG, "sums=fixed", "sums=fast");
    program_fini(&program);
    p = serial_plan(), p.vocab = 4;
    int32_t *const whole[N_DATA] = {s.tokens, s.targets, s.scratch, s.decoder};
    assert_fails(t5_sample(&p, 0, whole), E_CONFIG, "vocab=4", "4 spans");
    p = serial_plan(), t5_options(&p)->sentinels = 131;
    assert_fails(t5_sample(&p, 0, whole), E_CONFIG, "sentinels=131", "vocab=131", "4 to 130");
    t5_options(&p)->sentinels = 3;                                   /* the fourth would be token 0 */
    assert_fails(t5_sample(&p, 0, whole), E_CONFIG, "sentinels=3", "4 to 130");
    p = serial_plan();
    generate_plan(&p, 1);
    assert_ok(plan_settle(&p, 1));
    assert_fails(run_compile(&r, &generate_recipe, &p, 0, NULL, NULL), E_CONFIG, "arch=t5", "later tokens");
    run_destroy(&r);
    p = serial_plan(), p.device = PLAN_DEVICE_CUDA, p.precision = PRECISION_FP32, p.mesh.dp = 1;
    p.settled = true;
    program_init(&program);
    program.device = DEVICE_CUDA;
    assert_ok(t5_build(&p, &program));
    assert_fails(program_infer(&program), E_CONFIG, "relative bias", "use the cpu");
    program_fini(&program);
}

/* ---- the loss is the mean over the decoder's 8 tokens of 16 of text. Fresh logits have variance 1, so the loss is
 * about log 131 plus half the variance ---- */
TEST(test_the_loss_begins_as_that_of_random_logits) {
    struct run r;
    struct plan p = serial_plan();
    double val;
    p.micro_batch = 0, p.mesh.dp = comm_world_size();
    assert_ok(layout_open(&r, p, WATCH_NOTHING));
    assert_ok(run_evaluate(&r, 0, &val));
    assert_ok(run_step(&r));
    assert_close(val, log(131) + 0.5, 0.6);
    assert_close(r.last.loss, log(131) + 0.5, 0.6);
    run_destroy(&r);
}

/* ---- the program ---- */
static void compile(struct run *r, int tp, int pp, int rank) {
    struct plan p;
    assert_ok(preset(&p, "t5-small"));
    p.mesh.tp = tp, p.mesh.pp = pp, p.mesh.dp = 1, p.settled = false;
    p.micro_batch = 1, p.global_batch = 8;
    assert_ok(plan_settle(&p, tp * pp));
    assert_ok(run_compile(r, &train_recipe, &p, rank, NULL, NULL));
}

TEST(test_who_sees_whom) {
    struct run r;
    int whole = 0, causal = 0, cross = 0, branches = 0;
    compile(&r, 2, 1, 0);
    for (const struct step *s = r.program.steps; s < r.program.steps + r.program.n_steps; s++) {
        branches += s->op == &op_branch;
        if (s->op == &op_rmsnorm) assert_close(s->norm.eps, 1e-6, 0);
        if (s->op != &op_attention_blocked) continue;
        const struct attention_rule *a = &s->attention;
        assert_true(a->unscaled && s->n_weight == !a->cross);
        whole += !a->cross && a->mask == MASK_FULL && r.program.blocks[s->block].name[0] == 'e';
        causal += !a->cross && a->mask == MASK_CAUSAL && r.program.blocks[s->block].name[0] == 'd';
        cross += a->cross && a->mask == MASK_FULL && r.program.blocks[s->block].name[0] == 'd';
    }
    assert_true(whole == 6 && causal == 6 && cross == 6);
    assert_int_equal(branches, 6);                                   /* a decoder layer reads the encoder's output */
    run_destroy(&r);
}

/* Both streams pass from stage to stage: 461 and 103 tokens of 512 channels. */
TEST(test_two_streams_cross_each_boundary) {
    for (int stage = 0; stage < 4; stage++) {
        struct run r;
        compile(&r, 1, 4, stage);
        const struct chunk *k = &r.chunks[0];
        for (int i = 0; i < 2; i++) {
            int64_t n = (i ? 103 : 461) * 512 * (int64_t)dtype_size(plan_dtype(&r.plan));
            if (stage > 0) assert_int_equal(k->values[k->in[i]].bytes, n);
            if (stage < 3) assert_int_equal(k->values[k->out[i]].bytes, n);
        }
        assert_int_equal(stage > 0 && stage < 2, k->in[1] >= 0 && k->in[1] == k->out[1]);
        assert_int_equal(stage == 2, k->in[0] >= 0 && k->in[0] == k->out[0]);
        run_destroy(&r);
    }
}

static const struct param *param_of(const struct run *r, const char *name) {
    for (int i = 0; i < r->program.n_params; i++)
        if (r->program.params[i].present && !strcmp(r->program.params[i].name, name)) return &r->program.params[i];
    return NULL;
}

/* wte is on both end stages, each bias on the stages of its half. */
TEST(test_stages_share_what_their_layers_read) {
    for (int stage = 0; stage < 4; stage++) {
        struct run r;
        compile(&r, 1, 4, stage);
        const struct param *wte = param_of(&r, "embed.wte"), *e = param_of(&r, "e0.bias"), *d = param_of(&r, "d0.bias");
        assert_int_equal(wte != NULL, stage == 0 || stage == 3);
        assert_true((e != NULL) == (stage < 2) && (d != NULL) == (stage >= 2));
        if (wte) assert_int_equal(wte->shared, AXIS_TIE);
        assert_int_equal((e ? e : d)->shared, AXIS_HALF);
        assert_int_equal((e ? e : d)->counted, stage % 2 == 0);
        run_destroy(&r);
    }
}

TEST(test_stages_that_are_no_halves_are_refused) {
    struct plan p;
    struct run r;
    assert_ok(preset(&p, "t5-small"));
    p.mesh.pp = 3, p.mesh.dp = 1, p.settled = false, p.micro_batch = 1, p.global_batch = 8;
    assert_ok(plan_settle(&p, 3));
    assert_fails(run_compile(&r, &train_recipe, &p, 0, NULL, NULL), E_CONFIG, "e0.bias", "pp=3", "half");
    run_destroy(&r);
}

/* ---- parity ---- */
struct tally { const struct reference *reference; int seen, failed; };

static void try_settled(void *self, const struct plan *plan) {
    struct tally *t = self;
    struct plan p = *plan;
    enum status settled = plan_settle(&p, comm_world_size());
    t->seen++;
    t->failed += !layout_is_serial(&p, settled, t->reference);
}

static void try_layouts(struct plan serial) {
    struct reference reference;
    enum status status = reference_init(&reference, &serial);
    struct tally t = {&reference, 0, 0};
    bool ready = agree_all(status == OK);
    for (int i = comm_world_size() % 3; ready && i < N_COMPANIES; i += layouts_want_all() ? 1 : 3) {
        struct plan p = layout_in_company(serial, i);
        if (i % 2) model_options(&p)->attention = ATTENTION_MATERIALISED;
        try_settled(&t, &p);
    }
    reference_fini(&reference);
    assert_ok(status);
    assert_true(t.seen >= 5);
    assert_int_equal(t.failed, 0);
}

TEST(test_layouts_of_t5_equal_serial_fp64) { try_layouts(serial_plan()); }

/* Heads of 3 channels, which are not hidden / heads; a gated MLP; a head of its own. */
TEST(test_layouts_of_a_gated_t5_equal_serial_fp64) {
    struct plan serial = serial_plan();
    struct model_options *m = model_options(&serial);
    m->activation = ACTIVATION_GEGLU, m->head_dim = 3, m->ffn = 24, m->tie = 0;
    try_layouts(serial);
}

TESTS(unit_test(test_t5_sizes_have_exactly_the_published_parameters), unit_test(test_t5_flops_are_the_formula),
      unit_test(test_t5_begins_as_published),
      unit_test(test_every_sample_has_the_same_lengths_and_restores_its_text), unit_test(test_spans_are_drawn),
      unit_test(test_sentinels_are_the_published_ones_or_as_said),
      unit_test(test_t5_refuses), unit_test(test_the_loss_begins_as_that_of_random_logits),
      unit_test(test_who_sees_whom), unit_test(test_two_streams_cross_each_boundary),
      unit_test(test_stages_share_what_their_layers_read), unit_test(test_stages_that_are_no_halves_are_refused),
      unit_test(test_layouts_of_t5_equal_serial_fp64), unit_test(test_layouts_of_a_gated_t5_equal_serial_fp64))
