/* ranks: 1  device: cpu */
#include "lib/program/test_tiny.h"
#include <stdlib.h>
#include <string.h>

/* The output has the axes of the input and those of the weight, so that a change of the weight changes later shapes. */
static enum status outer_shape(const struct call *c, struct type out[MAX_OUT]) {
    const struct shape *w = &c->weight[0].type->shape;
    out[0] = *c->in[0].type;
    for (int i = 0; i < w->n_axes; i++) out[0].shape.axis[out[0].shape.n_axes++] = w->axis[i];
    return OK;
}
static enum status refusing_shape(const struct call *c, struct type out[MAX_OUT]) {
    (void)out;
    return FAIL(E_CONFIG, "%s takes nothing", c->step->op->name);
}

static const struct op op_copy = {.name = "copy", .shape = tiny_shape};
static const struct op op_outer = {.name = "outer", .shape = outer_shape};
static const struct op op_refuse = {.name = "refuse", .shape = refusing_shape};

static struct type matrix_type(int64_t n, int64_t first, int64_t global) {
    return (struct type){FP32, {2, {{.tag = 'K', .n = n, .first = first, .global = global}, axis_whole('D', 3)}}};
}

/* x -> copy -> outer with w, which has 2 of 5 rows -> copy */
static void make(struct program *p) {
    program_init(p);
    int x = tiny_block(p, "h0"), y = tiny_add(p, &op_copy, "y", x, NONE, NONE);
    int w = program_add_param(p, "h0", "w", matrix_type(2, 2, 5), 0.02, 0, true);
    tiny_block(p, "h1");
    y = tiny_add(p, &op_outer, "z", y, NONE, w);
    tiny_add(p, &op_copy, "out", y, NONE, NONE);
}

/* ---- building ---- */
TEST(test_builders_name_by_block_and_return_indices) {
    struct program p;
    make(&p);
    assert_int_equal(p.n_slots, 4);
    assert_int_equal(p.n_steps, 3);
    assert_int_equal(p.n_blocks, 2);
    assert_string_equal(p.slots[1].name, "h0.y");
    assert_string_equal(p.params[0].name, "h0.w");
    assert_string_equal(p.blocks[1].name, "h1");
    assert_int_equal(p.blocks[1].in[0], p.blocks[0].out[0]);
    program_fini(&p);
}

/* The tables move while they grow. Early entries must survive, and a step may be copied from the table itself. */
TEST(test_tables_keep_their_rows_while_they_grow) {
    struct program p;
    char name[16], expected[24];
    make(&p);
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "s%d", i);
        assert_int_equal(program_add_slot(&p, "b", name), 4 + i);
        assert_int_equal(program_insert(&p, p.n_steps, &p.steps[1]), 3 + i);
    }
    for (int i = 0; i < 1000; i++) {
        snprintf(expected, sizeof expected, "b.s%d", i);
        assert_string_equal(p.slots[4 + i].name, expected);
        assert_ptr_equal(p.steps[3 + i].op, &op_outer);
    }
    program_fini(&p);
}

TEST(test_insert_shifts_what_is_behind) {
    struct program p;
    make(&p);
    struct step first = {.op = &op_refuse, .n_in = 1, .n_out = 1};
    assert_int_equal(program_insert(&p, 1, &first), 1);
    const struct op *const expected[] = {&op_copy, &op_refuse, &op_outer, &op_copy};
    assert_int_equal(p.n_steps, 4);
    for (int i = 0; i < 4; i++) assert_ptr_equal(p.steps[i].op, expected[i]);
    assert_int_equal(program_insert(&p, 0, &first), 0);
    assert_ptr_equal(p.steps[0].op, &op_refuse);
    assert_ptr_equal(p.steps[4].op, &op_copy);
    program_insert(&p, 0, &p.steps[3]);                              /* the step is in the table, which moves */
    assert_ptr_equal(p.steps[0].op, &op_outer);
    program_fini(&p);
}

TEST(test_long_names_are_cut) {
    struct program p;
    program_init(&p);
    const char *longer = "0123456789012345678901234567890123456789012345678901234567890123456789";
    int slot = program_add_slot(&p, longer, "y"), block = program_add_block(&p, longer, NONE, false);
    int param = program_add_param(&p, "h0", longer, tiny_type(), 0, 0, false);
    assert_int_equal(strlen(p.slots[slot].name), NAME_MAX_LEN - 1);
    assert_int_equal(strlen(p.params[param].name), NAME_MAX_LEN - 1);
    assert_int_equal(strlen(p.blocks[block].name), sizeof p.blocks->name - 1);
    assert_memory_equal(p.params[param].name, "h0.0123456789", 13);
    program_fini(&p);
}

/* Optimizer states are at least fp32. */
TEST(test_param_starts_whole_counted_and_with_full_states) {
    struct program p;
    make(&p);
    struct type half = tiny_type();
    half.dtype = BF16;
    int half_param = program_add_param(&p, "h0", "half", half, 0, 1, false);
    const struct param *w = &p.params[half_param];
    assert_true(w->counted && w->shared == AXIS_SELF && !w->master && !w->decay);
    assert_int_equal(w->weight_residence, RESIDENT_WHOLE);
    assert_int_equal(w->state_dtype, FP32);
    assert_int_equal(w->grad_type.dtype, BF16);
    program_fini(&p);
}

/* ---- inferring ---- */
TEST(test_infer_runs_shapes_in_order) {
    struct program p;
    make(&p);
    assert_ok(program_infer(&p));
    const struct shape *out = &p.slots[p.blocks[1].out[0]].type.shape;
    assert_int_equal(out->n_axes, 3);
    assert_true(out->axis[1].tag == 'K' && out->axis[1].n == 2 && out->axis[1].first == 2 && out->axis[1].global == 5);
    program_fini(&p);
}

/* A technique's change of a param reaches every later slot, and the param's gradient. */
TEST(test_infer_after_a_rewrite_follows_the_new_shapes) {
    struct program p;
    make(&p);
    assert_ok(program_infer(&p));
    p.params[0].type = matrix_type(5, 0, 5);
    assert_ok(program_infer(&p));
    assert_int_equal(type_n(&p.slots[p.blocks[1].out[0]].type), TINY_N * 5 * 3);
    assert_int_equal(type_n(&p.params[0].grad_type), 5 * 3);
    assert_int_equal(p.params[0].own_n, 5 * 3);
    program_fini(&p);
}

TEST(test_infer_marks_which_params_are_present) {
    struct program p;
    make(&p);
    assert_ok(program_infer(&p));
    assert_true(p.params[0].present);
    assert_int_equal(p.params[0].own_n, 2 * 3);
    p.n_steps = 1;                                                   /* as pp does: other steps are elsewhere */
    assert_ok(program_infer(&p));
    assert_false(p.params[0].present);
    assert_int_equal(p.params[0].own_n, 0);
    program_fini(&p);
}

/* A technique that shards a param sets its own elements; program_infer must not change them. */
TEST(test_infer_leaves_shards_alone) {
    struct program p;
    make(&p);
    p.params[0].own_first = 4;
    p.params[0].own_n = 2;
    p.params[0].padded_n = 8;
    p.params[0].shard_axis = AXIS_DP;
    assert_ok(program_infer(&p));
    assert_int_equal(p.params[0].own_first, 4);
    assert_int_equal(p.params[0].own_n, 2);
    program_fini(&p);
}

TEST(test_infer_passes_a_refusal_on) {
    struct program p;
    make(&p);
    tiny_add(&p, &op_refuse, "no", p.blocks[1].out[0], NONE, NONE);
    assert_fails(program_infer(&p), E_CONFIG, "refuse takes nothing");
    program_fini(&p);
}

/* The model has the same number of parameters in every layout. Padding is not learned, so it does not
 * count. */
TEST(test_parameters_are_counted_globally) {
    struct program p;
    make(&p);
    program_add_param(&p, "h1", "padded", (struct type){FP32, {1, {{.tag = 'V', .n = 4, .first = 8, .global = 11}}}}, 0,
                      0, true);
    assert_int_equal(program_n_params(&p), 5 * 3 + 11);
    p.params[0].type = matrix_type(1, 4, 5);
    assert_int_equal(program_n_params(&p), 5 * 3 + 11);
    program_fini(&p);
}

/* ---- as text ---- */
TEST(test_print_shows_blocks_steps_params_and_marks) {
    struct program p;
    char *text = NULL;
    size_t bytes;
    make(&p);
    assert_ok(program_infer(&p));
    p.slots[p.steps[1].out[0]].replay = true;
    struct op dropping = *p.steps[2].op;
    dropping.rule = RULE_DROPOUT;
    p.steps[2].op = &dropping;
    p.steps[2].dropout.p = 0.25;
    FILE *f = open_memstream(&text, &bytes);
    assert_non_null(f);
    program_print(&p, f);
    fclose(f);
    assert_non_null(strstr(text, "h1\n   1  outer"));
    assert_non_null(strstr(text, "h0.y | h0.w"));
    assert_non_null(strstr(text, "-> h1.z"));
    assert_non_null(strstr(text, "(C 11, K 2/5@2, D 3) replay\n"));
    assert_non_null(strstr(text, "dropout 0.25\n"));
    free(text);
    program_fini(&p);
}

TESTS(unit_test(test_builders_name_by_block_and_return_indices), unit_test(test_tables_keep_their_rows_while_they_grow),
      unit_test(test_insert_shifts_what_is_behind), unit_test(test_long_names_are_cut),
      unit_test(test_param_starts_whole_counted_and_with_full_states), unit_test(test_infer_runs_shapes_in_order),
      unit_test(test_infer_after_a_rewrite_follows_the_new_shapes),
      unit_test(test_infer_marks_which_params_are_present), unit_test(test_infer_leaves_shards_alone),
      unit_test(test_infer_passes_a_refusal_on), unit_test(test_parameters_are_counted_globally),
      unit_test(test_print_shows_blocks_steps_params_and_marks))
