/* ranks: 1  device: cpu
 *
 * Wrong programs, each made from a right one by one mistake, are refused with the name of the slot or param. The checks
 * of types do not infer shapes again, so each test shows the refusal by types alone. */
#include "driver/recipe.h"
#include "lib/ops/cross_entropy.h"
#include "lib/ops/gelu.h"
#include "lib/ops/rmsnorm.h"
#include "lib/types/types.h"
#include "pp/pp.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp.h"
#include "tp/tp_region.h"
#include <stdlib.h>
#include <string.h>

static struct run run;

static struct program *compile(const struct plan *asked, int rank) {
    struct plan p = *asked;
    assert_ok(plan_settle(&p, plan_ranks(&p)));
    assert_ok(run_compile(&run, &train_recipe, &p, rank, NULL, NULL));
    return &run.program;
}
static struct plan plan_of(int dp, int cp, int tp, int pp) {
    struct plan p = parity_plan();
    p.mesh.dp = dp, p.mesh.cp = cp, p.mesh.tp = tp, p.mesh.pp = pp, p.micro_batch = 1;
    return p;
}
static struct program *compile_mesh(int dp, int cp, int tp, int pp, int rank) {
    struct plan p = plan_of(dp, cp, tp, pp);
    return compile(&p, rank);
}
#define assert_refused(program, ...)                                                                                   \
    do {                                                                                                               \
        assert_fails(types_check(program, "a mistake"), E_INTERNAL, "after a mistake", __VA_ARGS__);                   \
        run_destroy(&run);                                                                                             \
    } while (0)

/* ---- finding and changing entries ---- */
static int slot_named(const struct program *p, const char *name) {
    for (int i = 0; i < p->n_slots; i++)
        if (!strcmp(p->slots[i].name, name)) return i;
    fail_msg("no slot %s", name);
    return -1;
}
static struct param *param_named(struct program *p, const char *name) {
    for (int i = 0; i < p->n_params; i++)
        if (!strcmp(p->params[i].name, name)) return &p->params[i];
    fail_msg("no param %s", name);
    return NULL;
}
static int maker_of(const struct program *p, const char *name) {
    for (int i = 0, slot = slot_named(p, name); i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_out; k++)
            if (p->steps[i].out[k] == slot) return i;
    fail_msg("no step makes %s", name);
    return -1;
}
static void read_instead(struct program *p, int from, int slot, int other) {
    for (int i = from; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_in; k++)
            if (p->steps[i].in[k] == slot) p->steps[i].in[k] = other;
}
/* Remove the step that makes this slot; the slot's readers then read the step's input. */
static void leave_out(struct program *p, const char *name) {
    int at = maker_of(p, name);
    read_instead(p, at + 1, p->steps[at].out[0], p->steps[at].in[0]);
    memmove(p->steps + at, p->steps + at + 1, (size_t)(p->n_steps - at - 1) * sizeof *p->steps);
    p->n_steps--;
}
/* Insert a step like `model` between the slot and its readers. */
static void insert_after(struct program *p, const char *name, const struct step *model) {
    int at = maker_of(p, name), slot = slot_named(p, name), more = program_add_slot(p, "extra", "slot");
    struct step s = *model;
    p->slots[more].type = p->slots[more].grad_type = p->slots[slot].type;
    read_instead(p, at + 1, slot, more);
    s.in[0] = slot, s.out[0] = more, s.n_out = 1;
    program_insert(p, at + 1, &s);
}

/* ---- forward ---- */
TEST(test_types_refuse_a_missing_sum) {
    struct program *p = compile_mesh(1, 1, 2, 1, 0);
    leave_out(p, "h0.proj");
    assert_refused(p, "h0.proj.part over tp", "P, a partial sum", "makes h0.res1", "rule local");
    p = compile_mesh(1, 1, 2, 1, 1);
    leave_out(p, "embed.tok");
    assert_refused(p, "embed.tok.part over tp", "P, a partial sum");
}

TEST(test_types_refuse_to_sum_twice) {
    struct program *p = compile_mesh(1, 1, 2, 1, 0);
    const struct step exit = p->steps[maker_of(p, "h0.proj")];
    insert_after(p, "h0.proj", &exit);
    assert_refused(p, "h0.proj over tp: R, and it must be P", "once per rank", "tp_exit");
}

TEST(test_types_refuse_a_bias_before_the_sum) {
    struct program *p = compile_mesh(1, 1, 2, 1, 0);
    struct step *proj = &p->steps[maker_of(p, "h0.proj.part")];
    proj->weight[proj->n_weight++] = (int)(param_named(p, "h0.proj.b") - p->params);
    assert_refused(p, "h0.proj.b over tp", "bias", "h0.proj.part", "rule product");
}

TEST(test_types_refuse_a_norm_of_a_partial_sum) {
    struct program *p = compile_mesh(1, 1, 2, 1, 0);
    p->steps[maker_of(p, "h0.ln2")].in[0] = slot_named(p, "h0.proj.part");
    assert_refused(p, "h0.proj.part over tp", "P, a partial sum", "layernorm makes h0.ln2");
}

TEST(test_types_refuse_a_norm_of_some_heads) {
    struct plan plan = plan_of(1, 1, 2, 1);
    assert_ok(recipe_arch(&plan, "llama"));
    plan_set_word(&plan, "qk-norm", "all", 0);
    struct program *p = compile(&plan, 0);
    p->steps[maker_of(p, "h0.k.norm")].op = &op_rmsnorm_heads;
    assert_refused(p, "h0.kv over tp: S(J)", "all of axis J", "rmsnorm_heads makes h0.k.norm");
    p = compile(&plan, 0);
    p->steps[maker_of(p, "h0.k.norm")].in[0] = slot_named(p, "embed.tok");
    assert_refused(p, "embed.tok over tp: R, and it must be S(H): its shards meet here");
}

TEST(test_types_refuse_a_missing_scatter) {
    struct plan plan = plan_of(1, 1, 2, 1);
    plan_set_number(&plan, "sp", 1);
    struct program *p = compile(&plan, 1);
    leave_out(p, "h0.proj");
    assert_refused(p, "h0.proj.part over tp", "P, a partial sum");
    p = compile(&plan, 1);
    leave_out(p, "h0.ln1.in");
    assert_refused(p, "h0.ln1 over tp", "S(T)", "h0.qkv.w is S(H)", "rule product");
}

TEST(test_types_refuse_the_plain_loss_of_sharded_logits) {
    struct plan plan = plan_of(1, 1, 2, 1);
    plan.loss_chunk = 0;
    struct program *p = compile(&plan, 0);
    p->steps[maker_of(p, "head.loss")].op = &op_cross_entropy;
    assert_refused(p, "head.logits over tp", "S(V)", "all of axis V", "rule loss");
    p = compile(&plan, 0);
    struct axis *vocab = &param_named(p, "embed.wte")->type.shape.axis[0];
    *vocab = axis_whole('V', vocab->n);
    struct step *look_up = &p->steps[maker_of(p, "embed.tok.part")];
    look_up->weight[0] = (int)(param_named(p, "embed.wpe") - p->params);   /* so that only the loss's rule refuses */
    leave_out(p, "embed.tok");
    p->slots[slot_named(p, "head.logits")].type.shape.axis[2] = *vocab;
    assert_refused(p, "head.logits over tp: R, and the loss would add it up as S(V)");
}

TEST(test_types_refuse_attention_over_a_shard) {
    struct plan plan = plan_of(1, 2, 1, 1);
    plan.mesh.cp_heads = 2;
    struct program *p = compile(&plan, 0);
    leave_out(p, "h0.qkv.heads");
    assert_refused(p, "h0.qkv over cp", "S(T)", "all of axis T", "makes h0.att.heads");
}

static struct plan plan_with_experts(void) {
    struct plan plan = plan_of(4, 1, 1, 1);
    struct model_options *m = model_options(&plan);
    m->experts = 8, m->experts_per_token = 2, m->moe_group = 2, plan.mesh.ep = 2;
    return plan;
}
TEST(test_types_refuse_experts_without_their_exchange) {
    struct plan plan = plan_with_experts();
    struct program *p = compile(&plan, 3);
    leave_out(p, "h0.sent");
    assert_refused(p, "h0.sent.out over ep", "S(P)", "h0.experts.up.w is S(E)");
    p = compile(&plan, 1);
    leave_out(p, "h0.experts.down.back");
    assert_refused(p, "h0.experts.down over ep", "S(E)", "rows of this rank's tokens are S(P)");
}

/* ---- data and params with another rank's shard ---- */
TEST(test_types_refuse_shards_in_another_order) {
    struct program *p = compile_mesh(1, 4, 1, 1, 1);
    struct axis *t = &p->slots[p->data[DATA_TARGETS]].type.shape.axis[1], was = *t;
    *t = axis_zigzag('T', t->global, 4, 2);
    t->cut = was.cut;
    assert_refused(p, "data.targets", "another shard of axis T");
    p = compile_mesh(1, 1, 2, 1, 1);
    param_named(p, "h0.fc.w")->type.shape.axis[0].first = 0;
    assert_refused(p, "h0.fc.w", "another shard of axis K");
    p = compile_mesh(1, 1, 2, 1, 1);
    param_named(p, "h0.fc.w")->type.shape.axis[0].cut = 0;
    assert_refused(p, "h0.fc.w", "no shard over the ranks that its cut names");
}

TEST(test_types_refuse_a_shape_that_says_otherwise) {
    struct program *p = compile_mesh(1, 1, 2, 1, 0);
    p->slots[slot_named(p, "h0.qkv")].type.shape.axis[3].cut = 0;
    assert_refused(p, "h0.qkv differs over tp by the rules", "nothing by its shape");
}

/* ---- backward ---- */
TEST(test_types_refuse_a_missing_sum_of_gradients) {
    struct program *p = compile_mesh(1, 1, 2, 1, 0);
    leave_out(p, "h0.ln1.in");
    assert_refused(p, "embed.pos over tp", "its gradient from h0.ln1 is P", "from other steps R", "cannot be added");
    p = compile_mesh(1, 1, 2, 2, 3);                                 /* the second stage: head, no embedding */
    leave_out(p, "head.lnf.in");
    assert_refused(p, "h7.fc2 over tp: P, and it must be R", "its gradient is not added up");
}

TEST(test_types_refuse_to_sum_whole_gradients) {
    struct program *p = compile_mesh(1, 1, 2, 1, 0);
    const struct step enter = p->steps[maker_of(p, "h0.ln1.in")];
    insert_after(p, "h0.ln1", &enter);
    assert_refused(p, "extra.slot over tp: R, and it must be P", "tp_enter");
}

TEST(test_types_refuse_gradients_that_are_not_summed) {
    struct program *p = compile_mesh(2, 1, 2, 1, 0);
    param_named(p, "h0.ln1.g")->reduce = 0;
    assert_refused(p, "h0.ln1.g over dp: its gradient is P", "not summed there");
    p = compile_mesh(2, 1, 2, 1, 0);
    param_named(p, "h0.ln1.g")->reduce |= 1u << AXIS_TP;
    assert_refused(p, "h0.ln1.g over tp: its gradient is R", "counts it once per rank");
    struct plan plan = plan_with_experts();
    p = compile(&plan, 0);
    param_named(p, "h0.experts.up.w")->reduce = 1u << AXIS_DP;
    assert_refused(p, "h0.experts.up.w over ep: its gradient is S(E)", "counts it once per rank");
}

TEST(test_types_refuse_a_tied_param_that_is_not_shared) {
    struct program *p = compile_mesh(1, 1, 1, 2, 1);
    param_named(p, "embed.wte")->shared = AXIS_SELF;
    assert_refused(p, "embed.wte", "1 of the 2 steps", "no other stage shares it");
    p = compile_mesh(1, 1, 1, 2, 1);
    param_named(p, "embed.wte")->reduce = 0;
    assert_refused(p, "embed.wte is shared over tie", "not summed there");
}

TEST(test_types_refuse_to_count_copies) {
    struct program *p = compile_mesh(1, 1, 2, 1, 1);
    param_named(p, "h0.ln1.g")->counted = true;
    assert_refused(p, "h0.ln1.g is counted on this rank, which is not the first");
    struct plan plan = plan_of(4, 1, 1, 1);
    plan_set_number(&plan, "zero", 1);
    p = compile(&plan, 2);
    param_named(p, "h0.qkv.w")->own_first = 0;
    assert_refused(p, "h0.qkv.w: own elements from 0", "over dp");
}

TEST(test_types_refuse_losses_counted_by_all) {
    struct plan plan = plan_with_experts();
    plan.mesh.tp = 2;
    struct program *p = compile(&plan, 1);                           /* tp rank 1; rank 0 counts the losses */
    assert_ok(types_check_losses(p, 0));
    assert_fails(types_check_losses(p, 8), E_INTERNAL, "adds 8 losses", "the first that has 0");
    run_destroy(&run);
}

/* ---- ops ---- */
TEST(test_types_refuse_an_op_without_a_rule) {
    struct program *p = compile_mesh(1, 1, 2, 1, 0);
    struct op silent = op_gelu;
    silent.typing = TYPING_NONE;
    p->steps[maker_of(p, "h0.gelu")].op = &silent;
    assert_refused(p, "h0.gelu is made by gelu", "states no rule", "add its typing");
}

TEST(test_types_refuse_an_op_that_states_two_things) {
    struct program *p = compile_mesh(1, 1, 2, 1, 0);
    struct op enter = op_tp_enter;
    enter.backward_alias = ALIAS_VIEW;
    p->steps[maker_of(p, "h0.ln1.in")].op = &enter;
    assert_refused(p, "h0.ln1.in is made by tp_enter", "sum backward", "view");
    p = compile_mesh(1, 1, 2, 1, 0);
    enter = op_tp_enter;
    enter.exchanges = NULL;
    p->steps[maker_of(p, "h0.ln1.in")].op = &enter;
    assert_refused(p, "h0.ln1.in is made by tp_enter", "backward it exchanges something else");
}

/* ---- factors ---- */
static void check_factors(struct mesh_sizes sizes, int rank, const char *expected) {
    const struct mesh_place place = mesh_place_of(&sizes, rank);
    const struct factors f = factors_of(&place);
    char text[256] = "";
    for (int i = 0; i < f.n; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s %d@%d", i ? ", " : "", f.at[i].name,
                 f.at[i].size, f.at[i].index);
    assert_string_equal(text, expected);
}
TEST(test_types_split_the_mesh_into_factors) {
    check_factors((struct mesh_sizes){.dp = 1}, 0, "");
    check_factors((struct mesh_sizes){.tp = 2, .cp = 2, .dp = 2, .pp = 2}, 13, "tp 2@1, cp 2@0, dp 2@1");
    check_factors((struct mesh_sizes){.tp = 2, .dp = 4, .ep = 2}, 5, "tp 2@1, ep 2@0, edp 2@1");
    check_factors((struct mesh_sizes){.cp = 4, .cp_heads = 2, .dp = 2}, 6, "heads 2@0, cp 2@1, dp 2@1");
    check_factors((struct mesh_sizes){.tp = 2, .cp = 2, .dp = 4, .ep = 4}, 14, "tp 2@0, cp 2@1, dp/2 2@1, edp 2@1");
    check_factors((struct mesh_sizes){.cp = 3, .dp = 2, .ep = 2}, 5, "cp 3@2, dp 2@1");
}

/* Groups of experts straddle cp, so tensors over them have no type, and are not refused. */
TEST(test_types_leave_open_what_is_no_product) {
    struct plan plan = plan_of(2, 3, 1, 1);
    struct model_options *m = model_options(&plan);
    m->experts = 8, m->experts_per_token = 2, m->moe_group = 2, plan.mesh.ep = 2, plan.seq = 12;
    for (int rank = 0; rank < 6; rank++) {
        struct program *p = compile(&plan, rank);
        struct types t;
        assert_ok(types_infer(p, "all", &t));
        assert_string_equal(spread_text(t.slot[slot_named(p, "h0.sent")].at[0]), "V");
        assert_string_equal(spread_text(t.slot[slot_named(p, "h0.ln2")].at[0]), "S(T)");
        types_fini(&t);
        run_destroy(&run);
    }
}

/* ---- as a table ---- */
TEST(test_types_print_slots_and_params) {
    struct program *p = compile_mesh(2, 1, 2, 1, 0);
    struct types t;
    char *text = NULL;
    size_t bytes;
    assert_ok(types_infer(p, "all", &t));
    FILE *f = open_memstream(&text, &bytes);
    types_print(p, &t, f);
    fclose(f);
    assert_non_null(strstr(text, "h0.qkv                       S(H)  S(B)              S(H)  S(B)"));
    assert_non_null(strstr(text, "h0.proj.part                 P     S(B)              R     S(B)"));
    assert_non_null(strstr(text, "h0.ln1.in                    R     S(B)              P     S(B)"));
    assert_non_null(strstr(text, "h0.qkv.w                     S(H)  R                 S(H)  P       dp"));
    free(text);
    types_fini(&t);
    run_destroy(&run);
}

TESTS(unit_test(test_types_refuse_a_missing_sum), unit_test(test_types_refuse_to_sum_twice),
      unit_test(test_types_refuse_a_bias_before_the_sum), unit_test(test_types_refuse_a_norm_of_a_partial_sum),
      unit_test(test_types_refuse_a_norm_of_some_heads),
      unit_test(test_types_refuse_a_missing_scatter), unit_test(test_types_refuse_the_plain_loss_of_sharded_logits),
      unit_test(test_types_refuse_attention_over_a_shard),
      unit_test(test_types_refuse_experts_without_their_exchange),
      unit_test(test_types_refuse_shards_in_another_order),
      unit_test(test_types_refuse_a_shape_that_says_otherwise),
      unit_test(test_types_refuse_a_missing_sum_of_gradients), unit_test(test_types_refuse_to_sum_whole_gradients),
      unit_test(test_types_refuse_gradients_that_are_not_summed),
      unit_test(test_types_refuse_a_tied_param_that_is_not_shared), unit_test(test_types_refuse_to_count_copies),
      unit_test(test_types_refuse_losses_counted_by_all),
      unit_test(test_types_refuse_an_op_without_a_rule), unit_test(test_types_refuse_an_op_that_states_two_things),
      unit_test(test_types_split_the_mesh_into_factors), unit_test(test_types_leave_open_what_is_no_product),
      unit_test(test_types_print_slots_and_params))
