/* ranks: 1  device: cpu
 *
 * Marked slots, saved bytes and replayed rows of compiled programs, on any rank of a layout. */
#include "driver/recipe.h"
#include "lib/cost/activations.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 8, MICRO = 2 };

static struct plan plan_of(int recompute, int n) {
    struct plan plan = parity_plan();
    plan.layers = LAYERS;
    plan.micro_batch = MICRO;
    recompute_options(&plan)->kind = recompute;
    recompute_options(&plan)->n = n;
    return plan;
}

static void compile(struct run *r, const struct plan *plan, int rank) {
    struct plan settled = *plan;
    assert_ok(plan_settle(&settled, plan_ranks(plan)));
    assert_ok(run_compile(r, &train_recipe, &settled, rank, NULL, NULL));
}

/* ---- which slots ---- */
/* "ln1 ln2 gelu": the marked slots of a block, without its name, in the order in which they are made. */
static void list_marked(const struct program *p, const char *block, char text[512]) {
    size_t n = strlen(block);
    text[0] = 0;
    for (int i = 0; i < p->n_steps; i++)
        for (int o = 0; o < p->steps[i].n_out; o++) {
            const struct slot *s = &p->slots[p->steps[i].out[o]];
            if (!s->replay || strncmp(s->name, block, n) || s->name[n] != '.') continue;
            snprintf(text + strlen(text), 512 - strlen(text), "%s%s", text[0] ? " " : "", s->name + n + 1);
        }
}

static void check_marked(const struct plan *plan, const char *in_a_layer) {
    static const char *const elsewhere[] = {"embed", "head"};
    struct run r;
    char text[512];
    compile(&r, plan, 0);
    for (int i = 0; i < 2; i++) {
        list_marked(&r.program, elsewhere[i], text);
        assert_string_equal(text, "");
    }
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        snprintf(name, sizeof name, "h%d", i);
        list_marked(&r.program, name, text);
        assert_string_equal(text, in_a_layer);
    }
    run_destroy(&r);
}

TEST(test_recompute_selective_marks_the_cheap_and_large) {
    struct plan plan = plan_of(RECOMPUTE_SELECTIVE, 0);
    check_marked(&plan, "ln1 ln2 gelu");
    model_options(&plan)->attention = ATTENTION_MATERIALISED;
    check_marked(&plan, "att.probs");
    model_options(&plan)->dropout_masks = MASKS_STORE;
    check_marked(&plan, "att.probs att.mask att.dropped");
}

TEST(test_recompute_full_marks_all_but_the_output) {
    struct plan plan = plan_of(RECOMPUTE_FULL, 0);
    check_marked(&plan, "ln1 ln1.stat qkv att att.stat proj res1 ln2 ln2.stat fc gelu fc2");
    model_options(&plan)->dropout_masks = MASKS_STORE;
    check_marked(&plan, "ln1 ln1.stat qkv att att.stat proj res1 res1.mask ln2 ln2.stat fc gelu fc2 res2.mask");
}

TEST(test_recompute_none_marks_nothing) {
    struct plan plan = plan_of(RECOMPUTE_NONE, 0);
    assert_false(technique_recompute.wanted(&plan));
    check_marked(&plan, "");
}

/* ---- groups of layers ---- */
/* A layer's sign. 'o': its output is kept; '.': its output is recomputed; '-': nothing of the layer is recomputed. */
static char layer_sign(const struct program *p, int block) {
    char text[512];
    list_marked(p, p->blocks[block].name, text);
    if (!text[0]) return '-';
    return p->slots[p->blocks[block].out[0]].replay ? '.' : 'o';
}

static void check_groups(const struct plan *plan, int rank, const char *expected) {
    struct run r;
    char text[64] = "";
    compile(&r, plan, rank);
    for (int k = 0; k < r.program.n_chunks; k++) {
        if (k) strcat(text, " ");
        for (int b = 0; b < r.program.n_blocks; b++)
            if (r.program.blocks[b].is_layer && r.program.blocks[b].chunk == k)
                snprintf(text + strlen(text), sizeof text - strlen(text), "%c", layer_sign(&r.program, b));
    }
    assert_string_equal(text, expected);
    run_destroy(&r);
}

TEST(test_recompute_uniform_keeps_one_input_a_group) {
    static const char *const whole[] = {"oooooooo", ".o.o.o.o", "..o..o.o", "...o...o", "....o..o", ".....o.o",
                                        "......oo", ".......o"};
    for (int n = 1; n <= LAYERS; n++) {
        struct plan plan = plan_of(RECOMPUTE_UNIFORM, n);
        check_groups(&plan, 0, whole[n - 1]);
    }
}

/* Groups start again with each stage and chunk, because a rank cannot recompute an input that a neighbor sends. */
TEST(test_recompute_uniform_groups_end_with_the_chunk) {
    static const char *const stages[] = {"oooo", ".o.o", "..oo", "...o"};
    for (int n = 1; n <= 4; n++)
        for (int rank = 0; rank < 2; rank++) {
            struct plan plan = plan_of(RECOMPUTE_UNIFORM, n);
            plan.mesh.pp = 2;
            check_groups(&plan, rank, stages[n - 1]);
        }
    struct plan plan = plan_of(RECOMPUTE_UNIFORM, 3);
    plan.mesh.pp = 2;
    snprintf(pp_options(&plan)->split, sizeof pp_options(&plan)->split, "3,5");
    check_groups(&plan, 0, "..o");
    check_groups(&plan, 1, "..o.o");
    pp_options(&plan)->split[0] = 0;
    pp_options(&plan)->schedule = SCHEDULE_INTERLEAVED;
    pp_options(&plan)->chunks = 2;
    for (int rank = 0; rank < 2; rank++) check_groups(&plan, rank, ".o .o");
}

TEST(test_recompute_block_takes_the_first_layers_of_each_chunk) {
    struct plan plan = plan_of(RECOMPUTE_BLOCK, 3);
    check_groups(&plan, 0, "ooo-----");
    plan.mesh.pp = 2;
    for (int rank = 0; rank < 2; rank++) check_groups(&plan, rank, "ooo-");
    pp_options(&plan)->schedule = SCHEDULE_INTERLEAVED;
    pp_options(&plan)->chunks = 2;
    recompute_options(&plan)->n = 1;
    for (int rank = 0; rank < 2; rank++) check_groups(&plan, rank, "o- o-");
}

/* ---- saved bytes ---- */
static int64_t saved_bytes(const struct plan *plan, int64_t layer[LAYERS]) {
    struct run r;
    struct activations blocks[LAYERS + 2] = {{0}};
    int64_t sum = 0;
    compile(&r, plan, 0);
    assert_int_equal(r.program.n_blocks, LAYERS + 2);
    assert_ok(activations_count(&r.program, &r.chunks[0], blocks));
    for (int i = 0; i < LAYERS; i++) sum += layer[i] = blocks[i + 1].bytes + blocks[i + 1].statistics;
    run_destroy(&r);
    return sum;
}

TEST(test_recompute_saves_less_the_more_it_drops) {
    static const struct { int attention, masks; } cores[] = {
        {ATTENTION_BLOCKED, MASKS_REDRAW}, {ATTENTION_MATERIALISED, MASKS_REDRAW},
        {ATTENTION_MATERIALISED, MASKS_STORE}};
    for (int i = 0; i < 3; i++) {
        static const int kinds[] = {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL};
        int64_t layer[LAYERS], bytes[3], peak[3];
        for (int k = 0; k < 3; k++) {
            struct run r;
            struct plan plan = plan_of(kinds[k], 0);
            model_options(&plan)->attention = cores[i].attention;
            model_options(&plan)->dropout_masks = cores[i].masks;
            bytes[k] = saved_bytes(&plan, layer);
            compile(&r, &plan, 0);
            peak[k] = r.memory.bytes[TIER_DEVICE][ROLE_ACT];
            run_destroy(&r);
        }
        assert_true(bytes[0] > bytes[1] && bytes[1] > bytes[2]);
        assert_true(peak[0] > peak[1] && peak[1] > peak[2]);         /* scratch grows less than frames shrink */
    }
}

/* full: each layer keeps only its input, (B,T,C) in fp64. uniform: each group keeps only its first layer's input. */
TEST(test_recompute_full_saves_the_input_alone) {
    int64_t layer[LAYERS], input = MICRO * 8 * 16 * 8;
    struct plan full = plan_of(RECOMPUTE_FULL, 0), uniform = plan_of(RECOMPUTE_UNIFORM, 3),
                block = plan_of(RECOMPUTE_BLOCK, 3);
    saved_bytes(&full, layer);
    for (int i = 0; i < LAYERS; i++) assert_int_equal(layer[i], input);
    saved_bytes(&uniform, layer);
    for (int i = 0; i < LAYERS; i++) assert_int_equal(layer[i], i % 3 == 0 ? input : 0);
    saved_bytes(&block, layer);
    for (int i = 0; i < LAYERS; i++) assert_true(i < 3 ? layer[i] == input : layer[i] > 10 * input);
}

/* A marked value of forward is freed by the end of forward. */
TEST(test_recompute_drops_what_is_marked) {
    struct run r;
    int marked = 0;
    struct plan plan = plan_of(RECOMPUTE_UNIFORM, 3);
    compile(&r, &plan, 0);
    const struct chunk *k = &r.chunks[0];
    for (int i = 0; i < k->tapes[TAPE_F].n; i++) {
        const struct row *row = &k->tapes[TAPE_F].rows[i];
        if (row->kind != ROW_FORWARD) continue;
        for (int o = 0; o < r.program.steps[row->id].n_out; o++) {
            if (!r.program.slots[r.program.steps[row->id].out[o]].replay) continue;
            assert_int_equal(k->values[row->out[o]].death.tape, TAPE_F);
            marked++;
        }
    }
    assert_true(marked > 10 * LAYERS);
    run_destroy(&r);
}

/* ---- replayed rows ---- */
/* times[step]: how often one backward replays the step. */
static void count_replays(const struct run *r, int *times) {
    for (int k = 0; k < r->program.n_chunks; k++)
        for (int i = 0; i < r->chunks[k].tapes[TAPE_B].n; i++)
            if (r->chunks[k].tapes[TAPE_B].rows[i].kind == ROW_REPLAY) times[r->chunks[k].tapes[TAPE_B].rows[i].id]++;
}

static const char *slot_name(const struct program *p, const struct step *s) {
    const char *dot = strchr(p->slots[s->out[0]].name, '.');
    return dot ? dot + 1 : "";
}

/* Check that each step in `steps` is replayed once in its block, and no other step. A step is named by its output. */
static void check_replays(const struct plan *plan, const char *steps) {
    struct run r;
    compile(&r, plan, 0);
    int *times = calloc((size_t)r.program.n_steps, sizeof *times);
    count_replays(&r, times);
    for (int i = 0; i < r.program.n_steps; i++) {
        const struct step *s = &r.program.steps[i];
        char name[64];
        snprintf(name, sizeof name, " %s ", slot_name(&r.program, s));
        assert_int_equal(times[i], strstr(steps, name) != NULL);
    }
    free(times);
    run_destroy(&r);
}

/* Backward reads neither fc2's product, nor its all-reduce over tp, nor the layer's output: none is recomputed. */
TEST(test_recompute_replays_each_step_at_most_once) {
    struct plan plan = plan_of(RECOMPUTE_SELECTIVE, 0);
    struct model_options *m = model_options(&plan);
    check_replays(&plan, " ln1 ln2 gelu ");
    m->attention = ATTENTION_MATERIALISED;
    check_replays(&plan, " att ");
    plan = plan_of(RECOMPUTE_FULL, 0);
    check_replays(&plan, " ln1 qkv att proj res1 ln2 fc gelu ");
    m->dropout_masks = MASKS_STORE;                                /* res2 is replayed for its mask */
    check_replays(&plan, " ln1 qkv att proj res1 ln2 fc gelu fc2 res2 ");
}

/* With tp, proj's all-reduce is replayed and fc2's is not; tp_enter is a view and has no row. With sp, its gathers are
 * replayed, also the head's, with or without recomputation. */
TEST(test_recompute_replays_collectives_only_when_wanted) {
    struct plan plan = plan_of(RECOMPUTE_FULL, 0);
    plan.mesh.tp = 2;
    check_replays(&plan, " ln1 qkv att proj.part proj res1 ln2 fc gelu ");
    plan_set_number(&plan, "sp", 1);
    check_replays(&plan, " ln1 ln1.in qkv att proj.part proj res1 ln2 ln2.in fc gelu lnf.in ");
    recompute_options(&plan)->kind = RECOMPUTE_NONE;
    check_replays(&plan, " ln1.in ln2.in lnf.in ");
}

/* In a group, the replay of a layer reads the output of the layer before. So fc2 is replayed, except in the last. */
TEST(test_recompute_uniform_replays_whole_layers_but_the_last) {
    struct run r;
    struct plan plan = plan_of(RECOMPUTE_UNIFORM, 4);
    compile(&r, &plan, 0);
    int *times = calloc((size_t)r.program.n_steps, sizeof *times), fc2 = 0;
    count_replays(&r, times);
    for (int i = 0; i < r.program.n_steps; i++) {
        assert_in_range(times[i], 0, 1);
        fc2 += times[i] && !strcmp(slot_name(&r.program, &r.program.steps[i]), "fc2");
    }
    assert_int_equal(fc2, LAYERS - LAYERS / 4);
    free(times);
    run_destroy(&r);
}

/* ---- the bill ---- */
static struct bill bill_of(const struct plan *plan) {
    struct run r;
    compile(&r, plan, 0);
    struct bill bill = r.bill;
    run_destroy(&r);
    return bill;
}

/* Per token: a product of (n,k) is 2 n k flops, attention 4 T C. full replays a layer's forward without fc2 (4C,C):
 *   qkv 2 x 3 C^2 + attention 4 T C + proj 2 C^2 + fc 2 x 4 C^2 = 16 C^2 + 4 T C
 * The layer's whole forward is 24 C^2 + 4 T C. */
TEST(test_recompute_flops_are_the_layers_forward_without_fc2) {
    struct plan none = plan_of(RECOMPUTE_NONE, 0), full = plan_of(RECOMPUTE_FULL, 0),
                uniform = plan_of(RECOMPUTE_UNIFORM, 4);
    none.loss_chunk = full.loss_chunk = uniform.loss_chunk = 0;      /* so that the head's product is in forward */
    double C = 16, T = 8, V = 131, tokens = (double)none.global_batch * T, layer = 24 * C * C + 4 * T * C;
    assert_close(bill_of(&none).flops[ROW_REPLAY], 0, 0);
    assert_close(bill_of(&full).flops[ROW_FORWARD], tokens * (LAYERS * layer + 2 * C * V), 1e-6);
    assert_close(bill_of(&full).flops[ROW_REPLAY], tokens * LAYERS * (layer - 8 * C * C), 1e-6);
    assert_close(bill_of(&uniform).flops[ROW_REPLAY], tokens * (LAYERS * layer - LAYERS / 4 * 8 * C * C), 1e-6);
}

/* Selective replays only one op with flops in the bill: the core of materialised attention. */
TEST(test_recompute_selective_flops) {
    struct plan plan = plan_of(RECOMPUTE_SELECTIVE, 0);
    double tokens = (double)plan.global_batch * 8;
    assert_close(bill_of(&plan).flops[ROW_REPLAY], 0, 0);
    model_options(&plan)->attention = ATTENTION_MATERIALISED;
    assert_close(bill_of(&plan).flops[ROW_REPLAY], tokens * LAYERS * 4 * 8 * 16, 1e-6);
}

/* full sends one more all-reduce per layer and microbatch, of proj's (B,T,C), S bytes: 2 S (tp-1)/tp. */
TEST(test_recompute_full_sends_projs_sum_again) {
    struct plan none = plan_of(RECOMPUTE_NONE, 0), full = plan_of(RECOMPUTE_FULL, 0);
    none.mesh.tp = full.mesh.tp = 4;
    double S = (double)MICRO * 8 * 16 * 8, m = (double)none.global_batch / MICRO;
    assert_close(bill_of(&full).wire_bytes[AXIS_TP] - bill_of(&none).wire_bytes[AXIS_TP], m * LAYERS * 2 * S * 3 / 4,
                 1e-6);
}

/* ---- refusals ---- */
TEST(test_recompute_refuses_groups_larger_than_the_model) {
    struct plan uniform = plan_of(RECOMPUTE_UNIFORM, LAYERS + 1), block = plan_of(RECOMPUTE_BLOCK, LAYERS + 1);
    assert_fails(technique_recompute.check(&uniform), E_CONFIG, "recompute=uniform:9", "layers=8",
                 "use recompute uniform:8");
    assert_fails(technique_recompute.check(&block), E_CONFIG, "recompute=block:9", "layers=8", "use recompute block:8");
    recompute_options(&uniform)->n = recompute_options(&block)->n = LAYERS;
    assert_ok(technique_recompute.check(&uniform));
    assert_ok(technique_recompute.check(&block));
}

TESTS(unit_test(test_recompute_selective_marks_the_cheap_and_large),
      unit_test(test_recompute_full_marks_all_but_the_output), unit_test(test_recompute_none_marks_nothing),
      unit_test(test_recompute_uniform_keeps_one_input_a_group),
      unit_test(test_recompute_uniform_groups_end_with_the_chunk),
      unit_test(test_recompute_block_takes_the_first_layers_of_each_chunk),
      unit_test(test_recompute_saves_less_the_more_it_drops), unit_test(test_recompute_full_saves_the_input_alone),
      unit_test(test_recompute_drops_what_is_marked), unit_test(test_recompute_replays_each_step_at_most_once),
      unit_test(test_recompute_replays_collectives_only_when_wanted),
      unit_test(test_recompute_uniform_replays_whole_layers_but_the_last),
      unit_test(test_recompute_flops_are_the_layers_forward_without_fc2), unit_test(test_recompute_selective_flops),
      unit_test(test_recompute_full_sends_projs_sum_again),
      unit_test(test_recompute_refuses_groups_larger_than_the_model))
