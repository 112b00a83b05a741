/* ranks: 1 2  more: 4 8  device: cpu  threads: 1
 *
 * BERT has the published sizes, costs what the formula says, masks as many tokens as it should, and equals its serial
 * run in every layout. Every technique with every other: tests/test_matrix.c. */
#include "models/bert/bert.h"
#include "cp/cp.h"
#include "models/decode/decode.h"
#include "driver/recipe.h"
#include "lib/ops/branch.h"
#include "lib/ops/attention/attention.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <math.h>
#include <stdlib.h>
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

/* BertForMaskedLM of bert-base-uncased and bert-large-uncased, as PyTorch counts its parameters. */
TEST(test_bert_sizes_have_exactly_the_published_parameters) {
    const struct { const char *name; int64_t n; } sizes[] = {{"bert-base", 109514298}, {"bert-large", 335174458}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct plan p;
        struct program program;
        assert_ok(preset(&p, sizes[i].name));
        assert_ptr_equal(p.arch, &model_bert);
        assert_int_equal(bert_own_tokens(&p).first, 103);
        p.vocab--;
        assert_int_equal(bert_own_tokens(&p).first, 30520);
        p.vocab++;
        assert_true(bert_n_params(&p) == sizes[i].n);
        program_init(&program);
        assert_ok(bert_build(&p, &program));
        assert_true(program_n_params(&program) == sizes[i].n);
        program_fini(&program);
    }
}

/* The MFU formula and the bill count the same things: see models/gpt/test_gpt.c. */
TEST(test_bert_flops_are_the_formula) {
    struct plan p;
    struct run r;
    assert_ok(preset(&p, "bert-base"));
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    double sum = 0;
    for (int k = 0; k < N_ROW_KINDS; k++) sum += r.bill.flops[k];
    assert_close(sum / (double)(p.global_batch * p.seq), bert_flops_per_token(&p), 0);
    run_destroy(&r);
}

/* ---- the masks ---- */
static struct plan serial_plan(void) {
    struct plan p = parity_plan();
    p.arch = &model_bert;
    return p;
}

struct sample { int32_t text[512], tokens[512], targets[512], segments[512]; };

static void make_sample(const struct plan *p, int64_t number, struct sample *s) {
    int32_t *const whole[N_DATA] = {
        [DATA_TOKENS] = s->tokens, [DATA_TARGETS] = s->targets, [DATA_SEGMENTS] = s->segments};
    for (int t = 0; t < p->seq; t++) s->tokens[t] = s->text[t] = (int32_t)((7 * t + number + 1000) % (p->vocab - 1));
    assert_ok(bert_sample(p, number, whole));
}

/* 77 of 512 tokens are targets in each sample. The shares of masked and kept tokens hold over 200 x 77 draws within
 * five deviations; a random token sometimes equals the text's. */
TEST(test_exactly_fifteen_percent_are_targets) {
    static struct sample s;
    struct plan p = serial_plan();
    int n_mask = 0, n_kept = 0, all = 200 * 77;
    p.seq = 512, p.vocab = 1001;
    assert_int_equal(bert_n_masked(&p), 77);
    for (int64_t number = -100; number < 100; number++) {
        int n = 0, second = 0;
        make_sample(&p, number, &s);
        for (int t = 0; t < p.seq; t++) {
            assert_true(s.targets[t] == -1 || s.targets[t] == s.text[t]);
            assert_true(s.targets[t] >= 0 || s.tokens[t] == s.text[t]);
            assert_true(s.tokens[t] >= 0 && s.tokens[t] < p.vocab);
            assert_true(t == 0 || s.segments[t] >= s.segments[t - 1]);
            n += s.targets[t] >= 0;
            second += s.segments[t];
            n_mask += s.tokens[t] == p.vocab - 1;                    /* the text has none */
            n_kept += s.targets[t] >= 0 && s.tokens[t] == s.text[t];
        }
        assert_int_equal(n, 77);
        assert_true(s.segments[0] == 0 && second > 0 && second < 512);
    }
    assert_close(n_mask, 0.8 * all + 0.1 * all / 1001, 5 * sqrt(0.16 * all));
    assert_close(n_kept, 0.1 * all + 0.1 * all / 1001, 5 * sqrt(0.09 * all));
}

TEST(test_the_same_text_has_other_masks_in_another_epoch) {
    static struct sample a, b;
    struct plan p = serial_plan();
    p.seq = 512, p.vocab = 1001;
    make_sample(&p, 3, &a);
    make_sample(&p, 3, &b);
    assert_memory_equal(&a, &b, sizeof a);
    make_sample(&p, 1003, &b);
    assert_memory_equal(a.text + 1, b.text + 1, 4);                  /* 1003 and 3 are one residue of 1000 */
    assert_memory_not_equal(a.targets, b.targets, sizeof a.targets);
}

TEST(test_bert_refuses) {
    static struct sample s;
    struct plan p = serial_plan();
    struct model_options *m = model_options(&p);
    struct program program;
    struct run r;
    program_init(&program);
    m->kv_heads = 2;
    assert_fails(bert_build(&p, &program), E_CONFIG, "kv-heads=2", "arch llama");
    m->kv_heads = 0, m->experts = 4;
    assert_fails(bert_build(&p, &program), E_CONFIG, "experts=4", "arch gpt");
    program_fini(&program);
    p = serial_plan();
    bert_options(&p)->mask_token = 131;
    int32_t *const whole[N_DATA] = {s.tokens, s.targets, s.segments};
    assert_fails(bert_sample(&p, 0, whole), E_CONFIG, "mask-token=131", "vocab=131");
    p = serial_plan();
    generate_plan(&p, 1);
    assert_ok(plan_settle(&p, 1));
    assert_fails(run_compile(&r, &generate_recipe, &p, 0, NULL, NULL), E_CONFIG, "arch=bert", "later tokens",
                 "gpt, llama, mixtral, moe or gpt_oss");
    run_destroy(&r);
}

/* ---- the loss is the mean over the masked places ----
 * Fresh weights predict nothing, so the loss is log 131 in training and evaluation. Each of the 16 samples of 8 tokens
 * has 2 masked places, so a mean over all places would be a quarter of log 131. */
TEST(test_the_loss_begins_at_log_vocabulary) {
    struct run r;
    struct plan p = serial_plan();
    double val;
    p.micro_batch = 0, p.mesh.dp = comm_world_size();
    assert_ok(layout_open(&r, p, WATCH_NOTHING));
    assert_ok(run_evaluate(&r, 0, &val));
    assert_ok(run_step(&r));
    assert_close(val, log(131), 0.02);
    assert_close(r.last.loss, log(131), 0.02);
    run_destroy(&r);
}

/* ---- the program ---- */

/* The residual reads each region's input, too, except the head's. */
TEST(test_bert_sees_all_tokens_and_enters_by_branches) {
    struct plan p;
    struct run r;
    int branches = 0, attentions = 0;
    assert_ok(preset(&p, "bert-base"));
    p.mesh.tp = 2;
    assert_ok(plan_settle(&p, 2));
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    for (const struct step *s = r.program.steps; s < r.program.steps + r.program.n_steps; s++) {
        branches += s->op == &op_branch;
        if (s->op == &op_attention_blocked) attentions += s->attention.mask == MASK_FULL;
    }
    assert_int_equal(attentions, 12);
    assert_int_equal(branches, 2 * 12);
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

/* Shard the sequence in all three ways: cp 2 or 4, tp as far as the world has ranks. */
static void try_cp(struct tally *t, struct plan serial) {
    int world = comm_world_size();
    for (int by = 0; world > 1 && by < 3; by++) {
        struct plan p = serial;
        p.mesh.cp = world >= 8 ? 4 : 2, p.mesh.tp = world >= 4 ? 2 : 1, p.mesh.dp = 1;
        cp_options(&p)->by = by;
        plan_set_number(&p, "sp", p.mesh.tp > 1);
        plan_set_number(&p, "zero", by == CP_BY_RING ? 3 : 1);
        p.micro_batch = 2;
        try_settled(t, &p);
    }
}

TEST(test_layouts_of_bert_equal_serial_fp64) {
    struct reference reference;
    struct plan serial = serial_plan();
    enum status status = reference_init(&reference, &serial);
    struct tally t = {&reference, 0, 0};
    bool ready = agree_all(status == OK);
    for (int i = comm_world_size() % 3; ready && i < N_COMPANIES; i += layouts_want_all() ? 1 : 3) {
        struct plan p = layout_in_company(serial, i);
        try_settled(&t, &p);
    }
    if (ready) try_cp(&t, serial);
    if (ready && layouts_want_all()) layouts_each(&serial, comm_world_size(), try_settled, &t);
    reference_fini(&reference);
    assert_ok(status);
    assert_int_equal(t.failed, 0);
}

TESTS(unit_test(test_bert_sizes_have_exactly_the_published_parameters), unit_test(test_bert_flops_are_the_formula),
      unit_test(test_exactly_fifteen_percent_are_targets),
      unit_test(test_the_same_text_has_other_masks_in_another_epoch), unit_test(test_bert_refuses),
      unit_test(test_the_loss_begins_at_log_vocabulary),
      unit_test(test_bert_sees_all_tokens_and_enters_by_branches), unit_test(test_layouts_of_bert_equal_serial_fp64))
