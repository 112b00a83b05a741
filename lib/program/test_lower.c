/* ranks: 1  device: cpu
 *
 * Lowering's decisions about values, one in each test, on programs of a few artificial ops: values that are saved,
 * views, and values that may be written over. Then the rows and their order. */
#include "lib/program/test_lower.h"

/* ---- saved values ---- */
TEST(test_a_value_that_backward_reads_crosses_into_a_frame) {
    int y = add(&op_reads_in, "y", x);
    add(&op_reads_out, "z", add(&op_plain, "t", y));
    lower(false);
    assert_true(crosses(k.in[0]));                                      /* y reads x */
    assert_true(crosses(forward_of("a.z")->out[0]));                 /* z reads itself */
    assert_int_equal(input_of("a.y")->in[0], k.in[0]);
    assert_int_equal(input_of("a.z")->out[0], forward_of("a.z")->out[0]);
}

TEST(test_a_value_that_backward_does_not_read_stays_scratch) {
    int y = add(&op_reads_in, "y", x);
    add(&op_reads_out, "z", add(&op_plain, "t", y));
    lower(false);
    assert_false(crosses(forward_of("a.y")->out[0]));
    assert_false(crosses(forward_of("a.t")->out[0]));
    assert_int_equal(k.frame_bytes[FRAME_FB], arena_align(TINY_BYTES) + TINY_BYTES);
}

/* A saved value dies with its last reader, not at the end of the tape. */
TEST(test_a_value_dies_with_its_last_reader) {
    add(&op_reads_in, "z", add(&op_plain, "y", add(&op_reads_in, "t", x)));
    lower(false);
    struct row_time death = k.values[k.in[0]].death;
    assert_int_equal(death.tape, TAPE_B);
    assert_int_equal(death.row, find(TAPE_B, ROW_BACKWARD_INPUT, step_named("a.t")));
    int between = forward_of("a.t")->out[0];
    assert_int_equal(k.values[between].birth.row, find(TAPE_F, ROW_FORWARD, step_named("a.t")));
    assert_int_equal(k.values[between].death.row, find(TAPE_F, ROW_FORWARD, step_named("a.y")));
}

/* The neighbor stages write x and dy before the first row, and read y and dx after the last row. */
TEST(test_boundary_values_live_from_before_the_first_row_to_after_the_last) {
    add(&op_plain, "y", x);
    lower(false);
    assert_int_equal(k.values[k.in[0]].birth.row, -1);
    assert_int_equal(k.values[k.dout[0]].birth.row, -1);
    assert_int_equal(k.values[k.out[0]].death.row, k.tapes[TAPE_F].n);
    assert_int_equal(k.values[k.din[0]].death.row, k.tapes[TAPE_B].n);
    assert_int_equal(k.values[k.din[0]].death.tape, TAPE_B);
    assert_true(k.data[DATA_TOKENS] == NO_VALUE && k.data[DATA_TARGETS] == NO_VALUE && k.loss == NO_VALUE);
}

TEST(test_undeclared_operands_are_no_value) {
    add_weighted(&op_bias, "y", x, tiny_param(&p, "w"));
    lower(false);
    const struct row *r = input_of("a.y"), *w = row(TAPE_B, ROW_BACKWARD_WEIGHT, step_named("a.y"));
    assert_true(r->in[0] == NO_VALUE && r->out[0] == NO_VALUE && r->weight[0] == NO_VALUE && r->dweight[0] == NO_VALUE);
    assert_true(w->in[0] == NO_VALUE && w->out[0] == NO_VALUE && w->weight[0] == NO_VALUE && w->din[0] == NO_VALUE);
    assert_true(r->dout[0] == k.dout[0] && w->dout[0] == k.dout[0] && w->dweight[0] == RESIDENT);
}

TEST(test_only_the_declared_one_of_two_inputs_is_kept) {
    int y = add(&op_plain, "y", x), z = add(&op_plain, "z", x);
    tiny_add(&p, &op_reads_second, "t", y, z, NONE);
    lower(false);
    assert_int_equal(input_of("a.t")->in[0], NO_VALUE);
    assert_int_equal(input_of("a.t")->in[1], forward_of("a.z")->out[0]);
    assert_false(crosses(forward_of("a.y")->out[0]));
}

/* ---- gradients of slots ---- */
/* x has two readers. Backward runs the later reader first, which writes dx; the other reader adds. */
TEST(test_second_gradient_of_a_slot_is_added) {
    int y = add(&op_plain, "y", x), z = add(&op_plain, "z", x);
    tiny_add(&p, &op_plain, "t", y, z, NONE);
    lower(false);
    assert_int_equal(input_of("a.z")->accumulate, 0);
    assert_int_equal(input_of("a.y")->accumulate, 1);
    assert_int_equal(input_of("a.y")->din[0], input_of("a.z")->din[0]);
    assert_int_equal(k.din[0], input_of("a.y")->din[0]);
}

/* ---- views ---- */
TEST(test_a_view_makes_no_row_and_no_value) {
    int y = add(&op_plain, "y", x);
    add(&op_reads_in, "z", add(&op_enter, "e", y));                  /* a view in forward */
    add(&op_exit, "u", add(&op_plain, "t", p.blocks[0].out[0]));        /* a view in backward */
    lower(false);
    assert_string_equal(letters(TAPE_F), "fy fz ft fu");
    assert_string_equal(letters(TAPE_B), "it iz ie .e iy");
    assert_int_equal(forward_of("a.z")->in[0], forward_of("a.y")->out[0]);
    assert_int_equal(input_of("a.z")->in[0], forward_of("a.y")->out[0]);
    assert_int_equal(input_of("a.t")->dout[0], k.dout[0]);
    for (int v = 0; v < k.n_values; v++)
        assert_false(k.values[v].birth.tape == TAPE_F && !strcmp(k.values[v].name, "a.e"));
}

/* x has another reader besides the view, which has left a gradient. So the view's kernel must add its gradient. */
TEST(test_a_view_whose_slot_has_a_gradient_already_adds) {
    int y = add(&op_exit, "y", x), z = add(&op_plain, "z", x);
    tiny_add(&p, &op_plain, "t", y, z, NONE);
    lower(false);
    assert_int_equal(input_of("a.y")->accumulate, 1);
    assert_int_equal(input_of("a.y")->din[0], input_of("a.z")->din[0]);
    assert_int_not_equal(input_of("a.y")->din[0], input_of("a.y")->dout[0]);
}

/* ---- in place ---- */
TEST(test_in_place_shares_when_the_operand_dies_there) {
    add(&op_over, "z", add(&op_plain, "y", x));
    lower(false);
    assert_true(share(forward_of("a.z")->in[0], forward_of("a.z")->out[0]));
    assert_true(share(input_of("a.z")->dout[0], input_of("a.z")->din[0]));
    assert_int_equal(storage_of(k.out[0])->death.row, k.tapes[TAPE_F].n);   /* the bytes live as long as the result */
}

TEST(test_in_place_does_not_share_what_backward_reads) {
    add(&op_over_reads_in, "z", add(&op_plain, "y", x));
    lower(false);
    assert_false(share(forward_of("a.z")->in[0], forward_of("a.z")->out[0]));
}

TEST(test_in_place_does_not_share_what_a_later_step_reads) {
    int y = add(&op_plain, "y", x), z = add(&op_over, "z", y);
    tiny_add(&p, &op_plain, "t", y, z, NONE);
    lower(false);
    assert_false(share(forward_of("a.z")->in[0], forward_of("a.z")->out[0]));
    const struct row *t = forward_of("a.t");
    assert_false(share(t->in[0], t->in[1]));
}

/* No later row reads forward's operand, so its bytes become its gradient. They stay in the operand's frame. */
TEST(test_backward_over_in_shares_when_nobody_else_reads_the_operand) {
    int y = add(&op_plain, "y", x), z = add(&op_over_in, "z", y);
    add(&op_plain, "t", z);
    lower(false);
    const struct row *r = input_of("a.z");
    assert_int_equal(r->in[0], forward_of("a.y")->out[0]);
    assert_true(share(r->in[0], r->din[0]));
    assert_true(crosses(r->in[0]));
    assert_int_equal(storage_of(r->din[0])->death.row, find(TAPE_B, ROW_BACKWARD_INPUT, step_named("a.y")));
    assert_int_equal(k.frame_bytes[FRAME_FB], TINY_BYTES);
}

TEST(test_backward_over_in_does_not_share_what_is_read_later) {
    int y = add(&op_reads_out, "y", x);                              /* y's backward reads y after z's */
    add(&op_over_in, "z", y);
    lower(false);
    assert_false(share(input_of("a.z")->in[0], input_of("a.z")->din[0]));
}

/* Another reader has already written a gradient, so the kernel adds, and its operand must be intact. */
TEST(test_backward_over_in_does_not_share_a_gradient_that_is_added_to) {
    int y = add(&op_plain, "y", x), z = add(&op_over_in, "z", y);
    tiny_add(&p, &op_plain, "t", y, z, NONE);
    lower(false);
    assert_int_equal(input_of("a.z")->accumulate, 1);
    assert_false(share(input_of("a.z")->in[0], input_of("a.z")->din[0]));
}

/* A deferred weight gradient reads dy in the third tape, so the shared bytes live until then. */
TEST(test_backward_over_in_lives_as_long_as_the_gradient) {
    int w = tiny_param(&p, "w"), y = add_weighted(&op_matrix, "y", x, w);
    add(&op_over_in, "z", y);
    lower(true);
    assert_true(share(input_of("a.z")->in[0], input_of("a.z")->din[0]));
    assert_int_equal(storage_class(storage_of(input_of("a.z")->din[0])), FRAME_FW);
}

/* A replayed value is also written over. */
TEST(test_backward_over_in_shares_what_was_replayed) {
    int y = add(&op_plain, "y", x);
    add(&op_over_in, "z", y);
    p.slots[y].replay = true;
    lower(false);
    const struct row *again = row(TAPE_B, ROW_REPLAY, step_named("a.y"));
    assert_int_equal(input_of("a.z")->in[0], again->out[0]);
    assert_true(share(again->out[0], input_of("a.z")->din[0]));
    assert_false(crosses(again->out[0]));
}

/* Three in-place ops in a row share one storage, which lives as long as the last result. */
TEST(test_in_place_chains_share_one_storage) {
    add(&op_over, "t", add(&op_over, "z", add(&op_over, "y", add(&op_plain, "u", x))));
    lower(false);
    assert_true(share(forward_of("a.y")->in[0], k.out[0]));
    assert_true(share(k.dout[0], input_of("a.y")->din[0]));
    assert_int_equal(k.scratch_bytes[TAPE_F][ROLE_ACT], arena_align(TINY_BYTES) + TINY_BYTES);   /* x and u */
}

static enum status wider_shape(const struct call *c, struct type out[MAX_OUT]) {
    *out = *c->in[0].type;
    out->shape.axis[out->shape.n_axes++] = axis_whole('2', 2);
    return OK;
}
static const struct op op_wider = {.name = "wider", .shape = wider_shape, .forward_alias = ALIAS_IN_PLACE};

TEST(test_in_place_does_not_share_another_size) {
    add(&op_wider, "z", add(&op_plain, "y", x));
    lower(false);
    assert_false(share(forward_of("a.z")->in[0], forward_of("a.z")->out[0]));
}

/* An op that adds to an existing gradient cannot write it over dy. */
TEST(test_in_place_does_not_share_when_it_accumulates) {
    int y = add(&op_over, "y", x), z = add(&op_plain, "z", x);
    tiny_add(&p, &op_plain, "t", y, z, NONE);
    lower(false);
    assert_int_equal(input_of("a.y")->accumulate, 1);
    assert_false(share(input_of("a.y")->dout[0], input_of("a.y")->din[0]));
}

/* ---- scratch of ops, chunks ---- */
static int64_t forward_work(const struct call *c, enum row_kind kind) {
    return kind == ROW_FORWARD ? 3 * type_bytes(c->in[0].type) : 0;
}
static const struct op op_works = {TINY("works"), .work = forward_work};

TEST(test_work_is_alive_for_its_row_only) {
    add(&op_works, "z", add(&op_works, "y", x));
    lower(false);
    const struct value *work = &k.values[forward_of("a.y")->work];
    assert_int_equal(work->bytes, 3 * TINY_BYTES);
    assert_int_equal(work->role, ROLE_WORK);
    assert_int_equal(work->birth.row, work->death.row);
    assert_int_equal(input_of("a.y")->work, NO_VALUE);
    assert_int_equal(k.scratch_bytes[TAPE_F][ROLE_WORK], 3 * TINY_BYTES);   /* both rows use the same bytes */
}

TEST(test_a_chunk_has_its_own_blocks_only) {
    add(&op_plain, "y", x);
    int middle = tiny_block(&p, "b");
    add(&op_reads_in, "z", middle);
    p.blocks[0].chunk = -1;                                          /* as after pp: on another stage */
    lower(false);
    assert_string_equal(letters(TAPE_F), "fz");
    assert_string_equal(k.values[k.in[0]].name, "a.y");
    assert_string_equal(k.values[k.din[0]].name, "a.y");
    chunk_fini(&k);
    assert_fails(chunk_lower(&p, 7, false, &k), E_INTERNAL, "chunk 7", "no steps");
}

/* The rows that lowering makes, and their order: recomputation, overlapping exchanges, weight gradients, parameter
 * windows. */
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

TESTS(
      lower_test(test_a_value_that_backward_reads_crosses_into_a_frame),
      lower_test(test_a_value_that_backward_does_not_read_stays_scratch),
      lower_test(test_a_value_dies_with_its_last_reader),
      lower_test(test_boundary_values_live_from_before_the_first_row_to_after_the_last),
      lower_test(test_undeclared_operands_are_no_value), lower_test(test_only_the_declared_one_of_two_inputs_is_kept),
      lower_test(test_second_gradient_of_a_slot_is_added), lower_test(test_a_view_makes_no_row_and_no_value),
      lower_test(test_a_view_whose_slot_has_a_gradient_already_adds),
      lower_test(test_in_place_shares_when_the_operand_dies_there),
      lower_test(test_in_place_does_not_share_what_backward_reads),
      lower_test(test_in_place_does_not_share_what_a_later_step_reads),
      lower_test(test_in_place_chains_share_one_storage),
      lower_test(test_backward_over_in_shares_when_nobody_else_reads_the_operand),
      lower_test(test_backward_over_in_does_not_share_what_is_read_later),
      lower_test(test_backward_over_in_does_not_share_a_gradient_that_is_added_to),
      lower_test(test_backward_over_in_lives_as_long_as_the_gradient),
      lower_test(test_backward_over_in_shares_what_was_replayed), lower_test(test_in_place_does_not_share_another_size),
      lower_test(test_in_place_does_not_share_when_it_accumulates), lower_test(test_work_is_alive_for_its_row_only),
      lower_test(test_a_chunk_has_its_own_blocks_only),
      lower_test(test_replay_emits_the_needed_producers_recursively_and_once), lower_test(test_replay_is_lazy),
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
