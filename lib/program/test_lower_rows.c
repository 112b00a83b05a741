/* ranks: 1  device: cpu
 *
 * The rows that lowering makes, and their order: recomputation, overlapping exchanges, weight gradients, parameter
 * windows. */
#include "lib/program/test_lower.h"

/* ---- recomputation ---- */
static void mark_replay(const char *slot) { p.slots[p.steps[step_named(slot)].out[0]].replay = true; }

/* t reads z, z is computed from y, and y from x. x is kept; y and z are replayed in order, once for both readers. */
TEST(test_replay_emits_the_needed_producers_recursively_and_once) {
    int z = add(&op_plain, "z", add(&op_plain, "y", x));
    add(&op_reads_in, "u", add(&op_reads_in, "t", z));
    tiny_add(&p, &op_reads_second, "v", p.blocks[0].out[0], z, NONE);
    mark_replay("a.y");
    mark_replay("a.z");
    lower(false);
    assert_string_equal(letters(TAPE_B), "ry rz iv iu it iz iy");
    assert_true(crosses(k.in[0]));
    assert_false(crosses(forward_of("a.z")->out[0]));
    const struct row *again = row(TAPE_B, ROW_REPLAY, step_named("a.z"));
    assert_int_equal(input_of("a.t")->in[0], again->out[0]);
    assert_int_equal(input_of("a.v")->in[1], again->out[0]);
    assert_int_equal(again->in[0], row(TAPE_B, ROW_REPLAY, step_named("a.y"))->out[0]);
}

TEST(test_replay_is_lazy) {
    int z = add(&op_plain, "z", add(&op_reads_in, "y", x));
    add(&op_plain, "t", z);
    mark_replay("a.y");
    mark_replay("a.z");
    mark_replay("a.t");
    lower(false);
    assert_string_equal(letters(TAPE_B), "it iz iy");                /* no step reads y, z or t */
}

TEST(test_replay_stops_at_a_kept_slot) {
    int z = add(&op_plain, "z", add(&op_plain, "y", x));
    add(&op_reads_in, "t", z);
    mark_replay("a.z");
    lower(false);
    assert_string_equal(letters(TAPE_B), "rz it iz iy");
    assert_int_equal(row(TAPE_B, ROW_REPLAY, step_named("a.z"))->in[0], forward_of("a.y")->out[0]);
    assert_true(crosses(forward_of("a.y")->out[0]));
    assert_false(crosses(k.in[0]));
}

/* A replay of a view replays the slot below the view, and opens the window of the param of that slot's step. */
TEST(test_replay_passes_views_and_opens_param_windows) {
    int w = tiny_param(&p, "w"), y = add_weighted(&op_bias, "y", x, w);
    add(&op_reads_in, "z", add(&op_enter, "e", y));
    mark_replay("a.y");
    mark_replay("a.e");
    lower(false);
    assert_string_equal(letters(TAPE_B), "Nw ry iz ie .e wy iy Gw Dw");
    assert_int_equal(input_of("a.z")->in[0], row(TAPE_B, ROW_REPLAY, step_named("a.y"))->out[0]);
}

/* A slot that a neighbor stage sent cannot be recomputed here, so it is kept even if a technique marks it. */
TEST(test_an_incoming_slot_marked_replay_is_kept) {
    add(&op_reads_in, "y", x);
    p.slots[x].replay = true;
    lower(false);
    assert_int_equal(input_of("a.y")->in[0], k.in[0]);
    assert_true(crosses(k.in[0]));
}

/* ---- asynchronous backward ---- */
TEST(test_weight_gradient_runs_between_exchange_and_wait) {
    int w = tiny_param(&p, "w"), v = tiny_param(&p, "v"), y = add_weighted(&op_matrix, "y", x, w);
    add_weighted(&op_matrix, "z", add(&op_enter, "e", y), v);
    lower(false);
    assert_string_equal(letters(TAPE_B), "Nv iz ie wz .e Nw iy wy Gw Dw Gv Dv");
    assert_int_equal(input_of("a.e")->wait, find(TAPE_B, ROW_WAIT, step_named("a.e")));
    assert_int_equal(input_of("a.y")->wait, -1);
}

/* While y's dx is in flight, no new value may use its bytes. This also holds if dx shares its storage in place. */
static void check_flies_until_wait(const struct op *enter) {
    int w = tiny_param(&p, "w"), y = add(&op_plain, "y", x);
    add_weighted(&op_matrix, "z", add(enter, "e", y), w);
    lower(false);
    const struct row *r = input_of("a.e");
    assert_true(r->wait > find(TAPE_B, ROW_BACKWARD_WEIGHT, step_named("a.z")));
    assert_true(storage_of(r->din[0])->death.row >= r->wait);
    assert_true(storage_of(r->dout[0])->death.row >= r->wait);
}

TEST(test_operands_of_an_exchange_live_until_its_wait) {
    static struct op apart;                                          /* not in place: two buffers in flight */
    apart = op_enter;
    apart.backward_alias = ALIAS_NONE;
    check_flies_until_wait(&op_enter);
    assert_true(share(input_of("a.e")->dout[0], input_of("a.e")->din[0]));
    end(NULL);
    begin(NULL);
    check_flies_until_wait(&apart);
    assert_false(share(input_of("a.e")->dout[0], input_of("a.e")->din[0]));
}

/* ---- weight gradients ---- */
TEST(test_light_weight_gradient_precedes_dx_and_heavy_follows) {
    int w = tiny_param(&p, "w"), v = tiny_param(&p, "v");
    add_weighted(&op_bias, "z", add_weighted(&op_matrix, "y", x, w), v);
    lower(false);
    assert_string_equal(letters(TAPE_B), "wz iz Nw iy wy Gw Dw Gv");
    assert_int_equal(k.tapes[TAPE_W].n, 0);
}

TEST(test_split_weight_moves_only_heavy_gradients) {
    int w = tiny_param(&p, "w"), v = tiny_param(&p, "v");
    add_weighted(&op_bias, "z", add_weighted(&op_matrix, "y", x, w), v);
    lower(true);
    assert_string_equal(letters(TAPE_B), "wz iz Nw iy Dw Gv");
    assert_string_equal(letters(TAPE_W), "wy Gw");
    assert_int_equal(storage_class(storage_of(k.in[0])), FRAME_FW);     /* W reads x and dy */
    assert_int_equal(storage_class(storage_of(input_of("a.z")->din[0])), FRAME_BW);
}

/* Both tapes need z's replay; only W reads t's input. */
TEST(test_weight_tape_uses_replays_of_backward_but_provides_none) {
    int w = tiny_param(&p, "w"), v = tiny_param(&p, "v");
    int z = add(&op_plain, "z", x), y = add(&op_reads_in, "y", z);
    y = tiny_add(&p, &op_plain, "s", add_weighted(&op_matrix, "m", z, w), y, NONE);
    add_weighted(&op_matrix, "t", add(&op_plain, "u", y), v);
    mark_replay("a.z");
    mark_replay("a.u");
    lower(true);
    assert_string_equal(letters(TAPE_B), "Nv it iu is Nw im rz iy iz Dw Dv");
    assert_string_equal(letters(TAPE_W), "ru wt wm Gw Gv");
    int again = row(TAPE_B, ROW_REPLAY, step_named("a.z"))->out[0];
    assert_int_equal(row(TAPE_W, ROW_BACKWARD_WEIGHT, step_named("a.m"))->in[0], again);
    assert_int_equal(storage_class(storage_of(again)), FRAME_BW);
}

/* ---- parameter windows ---- */
TEST(test_windows_open_at_first_use_and_close_with_the_block) {
    int w = tiny_param(&p, "w");
    add_weighted(&op_matrix, "z", add_weighted(&op_matrix, "y", add(&op_plain, "t", x), w), w);
    tiny_block(&p, "b");
    int v = tiny_param(&p, "v");
    add_weighted(&op_bias, "u", add_weighted(&op_matrix, "s", p.blocks[0].out[0], w), v);
    lower(false);
    assert_string_equal(letters(TAPE_F), "ft Nw fy fz Dw Nw fs Nv fu Dw Dv");
    assert_string_equal(letters(TAPE_B), "wu iu Nw is ws Gw Dw Gv Nw iz wz iy wy it Gw Dw");
}

/* The gathered copy of a sharded param, and its gradient, live from the first use to the end of the block. */
TEST(test_sharded_params_are_gathered_into_values) {
    int w = tiny_param(&p, "w");
    p.params[w].weight_residence = p.params[w].grad_residence = RESIDENT_OWN;
    p.params[w].padded_n = TINY_N + 1;
    add_weighted(&op_matrix, "z", add_weighted(&op_matrix, "y", x, w), w);
    add(&op_plain, "t", p.blocks[0].out[0]);
    lower(false);
    const struct row *y = forward_of("a.y"), *z = forward_of("a.z");
    const struct value *gathered = &k.values[y->weight[0]];
    assert_int_equal(y->weight[0], z->weight[0]);
    assert_int_equal(row(TAPE_F, ROW_PARAM_NEEDED, w)->weight[0], y->weight[0]);
    assert_int_equal(gathered->bytes, 8 * (TINY_N + 1));
    assert_int_equal(gathered->role, ROLE_COMM);
    assert_int_equal(gathered->birth.row, find(TAPE_F, ROW_PARAM_AHEAD, w));
    assert_int_equal(gathered->death.row, find(TAPE_F, ROW_PARAM_DONE, w));
    assert_int_not_equal(input_of("a.y")->weight[0], y->weight[0]);  /* backward gathers again */
    assert_int_equal(k.values[input_of("a.y")->weight[0]].role, ROLE_COMM);
}

TEST(test_gradients_of_sharded_params_are_cleared_once_and_live_until_ready) {
    int w = tiny_param(&p, "w");
    p.params[w].grad_residence = RESIDENT_OWN;
    p.params[w].padded_n = TINY_N + 1;
    add_weighted(&op_matrix, "z", add_weighted(&op_matrix, "y", x, w), w);
    lower(false);
    const struct row *first = row(TAPE_B, ROW_BACKWARD_WEIGHT, step_named("a.z"));
    const struct row *second = row(TAPE_B, ROW_BACKWARD_WEIGHT, step_named("a.y"));
    assert_int_equal(first->fresh, 1);
    assert_int_equal(second->fresh, 0);
    assert_int_equal(first->dweight[0], second->dweight[0]);
    assert_int_equal(first->weight[0], NO_VALUE);
    const struct value *grad = &k.values[first->dweight[0]];
    assert_int_equal(grad->role, ROLE_COMM);
    assert_int_equal(grad->birth.row, find(TAPE_B, ROW_BACKWARD_WEIGHT, step_named("a.z")));
    assert_int_equal(grad->death.row, find(TAPE_B, ROW_GRAD_READY, w));
    assert_int_equal(row(TAPE_B, ROW_GRAD_READY, w)->dweight[0], first->dweight[0]);
}

TESTS(lower_test(test_replay_emits_the_needed_producers_recursively_and_once), lower_test(test_replay_is_lazy),
      lower_test(test_replay_stops_at_a_kept_slot), lower_test(test_replay_passes_views_and_opens_param_windows),
      lower_test(test_an_incoming_slot_marked_replay_is_kept),
      lower_test(test_weight_gradient_runs_between_exchange_and_wait),
      lower_test(test_operands_of_an_exchange_live_until_its_wait),
      lower_test(test_light_weight_gradient_precedes_dx_and_heavy_follows),
      lower_test(test_split_weight_moves_only_heavy_gradients),
      lower_test(test_weight_tape_uses_replays_of_backward_but_provides_none),
      lower_test(test_windows_open_at_first_use_and_close_with_the_block),
      lower_test(test_sharded_params_are_gathered_into_values),
      lower_test(test_gradients_of_sharded_params_are_cleared_once_and_live_until_ready))
