/* ranks: 1  device: cpu
 *
 * The program after tp's rewrite, for every rank of a layout. The rewrite is pure, so one process checks all ranks. */
#include "lib/ops/linear.h"
#include "models/gpt/gpt.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp.h"
#include "tp/tp_cross_entropy.h"
#include "tp/tp_region.h"
#include <stdlib.h>
#include <string.h>

/* 8 heads, 64 hidden units of the MLP, and a vocabulary of 131 that no tp divides. */
static struct plan plan_of(int tp, int rank) {
    struct plan plan = parity_plan();
    plan.layers = 2;
    plan.mesh.tp = tp;
    plan.place = mesh_place_of(&plan.mesh, rank);
    return plan;
}

static void rewritten(struct program *p, int tp, int rank) {
    struct plan plan = plan_of(tp, rank);
    program_init(p);
    p->place = plan.place;
    assert_ok(gpt_build(&plan, p));
    assert_ok(program_infer(p));
    assert_ok(technique_tp.rewrite(&plan, p));
    assert_ok(program_infer(p));
}

/* ---- positions of enter and exit ---- */
static const char *const EMBEDDING = " embedding tp_exit add_position";
static const char *const LAYER = " layernorm tp_enter linear attention_blocked linear tp_exit bias_dropout_residual"
                                 " layernorm tp_enter linear gelu linear tp_exit bias_dropout_residual";
static const char *const HEAD = " layernorm tp_enter linear tp_cross_entropy";

TEST(test_tp_rewrite_puts_enter_and_exit_around_what_is_cut) {
    char expected[1024], text[1024] = "";
    struct program p;
    snprintf(expected, sizeof expected, "%s%s%s%s", EMBEDDING, LAYER, LAYER, HEAD);
    rewritten(&p, 4, 1);
    for (int i = 0; i < p.n_steps; i++) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, " %s", p.steps[i].op->name);
    }
    assert_string_equal(text, expected);
    program_fini(&p);
}

static bool communicates(const struct step *s) {
    return s->op == &op_tp_enter || s->op == &op_tp_exit || s->op == &op_tp_cross_entropy;
}

/* A new step reads the output of the step before it, and the step after it reads its output. Axis and index are set. */
TEST(test_tp_rewrite_connects_the_new_steps) {
    struct program p;
    rewritten(&p, 4, 3);
    for (int i = 0; i < p.n_steps; i++) {
        const struct step *s = &p.steps[i];
        if (!communicates(s)) continue;
        assert_int_equal(s->mesh_axis, AXIS_TP);
        assert_int_equal(s->parts, 4);
        assert_int_equal(s->part, 3);
        assert_int_equal(s->in[0], p.steps[i - 1].out[0]);
        if (s->op != &op_tp_cross_entropy) assert_int_equal(s->out[0], p.steps[i + 1].in[0]);
        assert_int_equal(s->block, s->op == &op_tp_enter ? p.steps[i + 1].block : p.steps[i - 1].block);
    }
    program_fini(&p);
}

/* A new slot is named after its neighbor; slots that other steps read keep their name and index. */
TEST(test_tp_rewrite_names_the_new_slots) {
    struct program p;
    rewritten(&p, 2, 0);
    assert_string_equal(p.slots[p.steps[0].out[0]].name, "embed.tok.part");
    assert_string_equal(p.slots[p.steps[1].out[0]].name, "embed.tok");
    assert_string_equal(p.slots[p.steps[4].out[0]].name, "h0.ln1.in");
    assert_string_equal(p.slots[p.steps[7].out[0]].name, "h0.proj.part");
    for (int i = 0; i < p.n_blocks; i++)
        if (p.blocks[i].out[0] >= 0) assert_null(strstr(p.slots[p.blocks[i].out[0]].name, ".part"));
    program_fini(&p);
}

/* Between enter and exit slots are sharded, outside they are whole. */
TEST(test_tp_rewrite_keeps_the_residual_stream_whole) {
    struct program p;
    rewritten(&p, 4, 2);
    for (int i = 0; i < p.n_slots; i++) {
        const struct shape *s = &p.slots[i].type.shape;
        const struct axis *c = shape_axis(s, 'C'), *h = shape_axis(s, 'H'), *k = shape_axis(s, 'K'),
                          *v = shape_axis(s, 'V');
        if (c) assert_int_equal(c->n, c->global);
        if (h) assert_true(h->n == 2 && h->first == 4 && h->global == 8);
        if (k) assert_true(k->n == 16 && k->first == 32 && k->global == 64);
        if (v) assert_true(v->n == 33 && v->first == 66 && v->global == 131);
    }
    program_fini(&p);
}

/* ---- params: conservation over the ranks ---- */
/* held[e]: the number of ranks that have global element e; counted[e]: the number that count it in the norm. */
struct tally { int held[131 * 16], counted[131 * 16]; };

static bool is_cut_by_name(const char *name) {
    static const char *const cut[] = {"wte", "qkv.w", "qkv.b", "proj.w", "fc.w", "fc.b", "fc2.w"};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++)
        if (!strcmp(strchr(name, '.') + 1, cut[i])) return true;
    return false;
}

static void tally_param(struct tally *t, const struct param *w, bool cut) {
    assert_int_equal(shape_cuts(&w->type.shape) >> AXIS_TP & 1, cut);
    for (int64_t i = 0; i < type_n(&w->type); i++) {
        int64_t at = shape_global_index(&w->type.shape, i);
        if (at < 0) continue;
        t->held[at]++;
        t->counted[at] += w->counted;
    }
}

static void check_conserved(struct program *ranks, int tp, int param) {
    struct tally *t = calloc(1, sizeof *t);
    bool cut = is_cut_by_name(ranks[0].params[param].name);
    for (int rank = 0; rank < tp; rank++) tally_param(t, &ranks[rank].params[param], cut);
    for (int64_t e = 0; e < shape_global_n(&ranks[0].params[param].type.shape); e++) {
        assert_int_equal(t->held[e], cut ? 1 : tp);
        assert_int_equal(t->counted[e], 1);
    }
    free(t);
}

TEST(test_tp_rewrite_holds_each_cut_element_once_and_counts_all_once) {
    for (int tp = 2; tp <= 8; tp *= 2) {
        struct program ranks[8] = {0};
        for (int rank = 0; rank < tp; rank++) rewritten(&ranks[rank], tp, rank);
        for (int i = 0; i < ranks[0].n_params; i++) check_conserved(ranks, tp, i);
        for (int rank = 0; rank < tp; rank++) program_fini(&ranks[rank]);
    }
}

/* The vocabulary is rounded up to equal shards, on CUDA to multiples of 64; the last ranks' extra rows are padding. */
static void check_padding(enum plan_device device, int64_t rows) {
    int64_t padding = 0;
    for (int rank = 0; rank < 4; rank++) {
        struct plan plan = plan_of(4, rank);
        struct program p;
        plan.device = device;
        program_init(&p);
        assert_ok(gpt_build(&plan, &p));
        assert_ok(technique_tp.rewrite(&plan, &p));
        const struct shape *wte = &p.params[0].type.shape;
        assert_string_equal(p.params[0].name, "embed.wte");
        assert_int_equal(wte->axis[0].n, rows);
        for (int64_t i = 0; i < shape_n(wte); i++) padding += shape_global_index(wte, i) < 0;
        program_fini(&p);
    }
    assert_int_equal(padding, (4 * rows - 131) * 16);
}
TEST(test_tp_rewrite_pads_the_vocabulary) {
    check_padding(PLAN_DEVICE_CPU, 33);
    check_padding(PLAN_DEVICE_CUDA, 64);
}

/* 3 tokens over 8 ranks: three ranks have one row each, five have only padding. */
TEST(test_tp_rewrite_takes_a_vocabulary_smaller_than_tp) {
    struct plan plan = plan_of(8, 7);
    struct program p;
    plan.vocab = 3;
    program_init(&p);
    assert_ok(gpt_build(&plan, &p));
    assert_ok(technique_tp.rewrite(&plan, &p));
    assert_ok(program_infer(&p));
    assert_int_equal(p.params[0].type.shape.axis[0].n, 1);
    assert_int_equal(shape_global_index(&p.params[0].type.shape, 0), -1);
    program_fini(&p);
}

/* ---- wanted, refused ---- */
TEST(test_tp_is_wanted_above_one) {
    struct plan one = plan_of(1, 0), two = plan_of(2, 0);
    assert_false(technique_tp.wanted(&one));
    assert_true(technique_tp.wanted(&two));
}

TEST(test_tp_check_refuses_what_does_not_divide_the_heads) {
    static const int good[] = {1, 2, 4, 8}, bad[] = {3, 5, 6, 7, 16};
    for (int i = 0; i < 4; i++) {
        struct plan plan = plan_of(good[i], 0);
        assert_ok(technique_tp.check(&plan));
    }
    for (int i = 0; i < 5; i++) {
        struct plan plan = plan_of(bad[i], 0);
        char value[16];
        snprintf(value, sizeof value, "tp=%d", bad[i]);
        assert_fails(technique_tp.check(&plan), E_CONFIG, value, "heads=8", "use 1, 2, 4, 8");
    }
}

TESTS(unit_test(test_tp_rewrite_puts_enter_and_exit_around_what_is_cut),
      unit_test(test_tp_rewrite_connects_the_new_steps), unit_test(test_tp_rewrite_names_the_new_slots),
      unit_test(test_tp_rewrite_keeps_the_residual_stream_whole),
      unit_test(test_tp_rewrite_holds_each_cut_element_once_and_counts_all_once),
      unit_test(test_tp_rewrite_pads_the_vocabulary), unit_test(test_tp_rewrite_takes_a_vocabulary_smaller_than_tp),
      unit_test(test_tp_is_wanted_above_one), unit_test(test_tp_check_refuses_what_does_not_divide_the_heads))
