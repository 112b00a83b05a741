/* ranks: 1  device: any */
#include "lib/ops/add_position.h"
#include "lib/ops/embedding.h"
#include "lib/ops/test_op.h"
#include <stdlib.h>

/* ---- embedding ---- */

static int first_v = 0, n_v = 13;
static void make(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_embedding, 1);
    c->n_tokens = 13;
    op_case_input(c, op_type(INT32, "BT", 2, 7));
    op_case_weight(c, op_type_part(op_type(dtype, "VC", 13, 77), 'V', first_v, n_v));
    op_case_finish(c);
}

/* A token occurs at most 14 times, so the longest sum has 14 terms. */
TEST(test_embedding_copies_rows_and_adds_their_gradients) {
    op_case_check_gradients(make);
    op_case_check_precision(make, FP32, 14, 0);
    op_case_check_threads(make);
    struct op_case c;
    make(&c, BF16);
    op_case_run_all(&c);
    const uint16_t *w = c.weight[0].data, *y = c.out[0].data;
    const int32_t *token = c.in[0].data;
    for (int i = 0; i < 14 * 77; i++) assert_int_equal(y[i], w[token[i / 77] * 77 + i % 77]);
    op_case_free(&c);
}

/* Two shards of the vocabulary, the second padded. Tokens of the other shard give zeros, and the sum of both is the
 * whole. */
TEST(test_embedding_shards_make_the_whole) {
    struct op_case whole, c;
    make(&whole, FP64);
    op_case_run_all(&whole);
    for (int i = 0; i < 2; i++) {
        first_v = 7 * i, n_v = 7;   /* the second holds 7 .. 13 of 13: one row of padding */
        make(&c, FP64);
        op_case_run_all(&c);
        assert_close(tensor_error(&c.dweight[0], &whole.dweight[0]), 0, 0);
        tensor_subtract(&whole.out[0], &c.out[0]);
        op_case_free(&c);
    }
    first_v = 0, n_v = 13;
    for (int i = 0; i < 14 * 77; i++) assert_close(((double *)whole.out[0].data)[i], 0, 0);
    op_case_free(&whole);
}

TEST(test_embedding_refuses_a_token_beyond_the_vocabulary) {
    struct op_case c;
    make(&c, FP32);
    /* The call runs on the CPU for every test_device(), because call.on is 0. */
    struct call call = {.step = &c.step, .in = {c.in[0]}, .out = {c.out[0]}, .weight = {c.weight[0]}};
    ((int32_t *)c.in[0].data)[3] = 13;
    assert_fails(op_run(&call, ROW_FORWARD), E_DATA, "13", "position 3");
    ((int32_t *)c.in[0].data)[3] = -1;   /* padding: a row of zeros */
    assert_ok(op_run(&call, ROW_FORWARD));
    assert_close(((float *)c.out[0].data)[3 * 77], 0, 0);
    op_case_free(&c);
}

/* 700 positions over a table of 300 rows: two rows have half of the positions (all warps of a GPU's block sum these
 * rows, one after the other), some are at the ends of a block's part of the table, and many have no position. dy are
 * small integers and dW is in the accumulator's dtype, so sums are exact in any order and a missing position shows. The
 * shard starts at 40, and its last 5 rows are padding. */
static int wide_c;
static void make_crowded(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_embedding, 1);
    c->n_tokens = 300;
    op_case_input(c, op_type(INT32, "BT", 2, 350));
    op_case_weight(c, op_type_part(op_type(dtype, "VC", 300, wide_c), 'V', 40, 265));
    c->dweight_type[0].dtype = dtype_accumulator(dtype);
    op_case_finish(c);
    static const int32_t edges[] = {39, 40, 295, 296, 299, -1};
    int32_t *token = c->in[0].data;
    for (int r = 0; r < 700; r++)
        token[r] = r % 4 == 1 ? 297 : r % 4 == 3 ? 298 : r % 100 == 0 ? edges[r / 100 % 6] : token[r];
    for (int64_t i = 0; i < 700 * (int64_t)wide_c; i++)
        dtype_set(c->dout[0].data, dtype, i, (double)(i * 7 / 3 % 5 - 2));
}

static void check_crowded(struct op_case *c, enum dtype dtype) {
    const int32_t *token = c->in[0].data;
    double *expected = calloc(265 * (size_t)wide_c, sizeof *expected);
    for (int64_t r = 0; r < 700; r++)
        for (int64_t i = 0; i < wide_c && token[r] >= 40; i++)
            expected[(token[r] - 40) * (int64_t)wide_c + i] += dtype_get(c->dout[0].data, dtype, r * wide_c + i);
    for (int64_t i = 0; i < 265 * (int64_t)wide_c; i++)
        assert_close(dtype_get(c->dweight[0].data, c->dweight_type[0].dtype, i), expected[i], 0);
    free(expected);
}

TEST(test_embedding_gradient_counts_every_position) {
    static const int widths[] = {3, 264, 77};
    for (enum dtype d = FP64; d <= FP16; d++)
        for (int i = 0; i < 3; i++) {
            struct op_case c;
            wide_c = widths[i];
            make_crowded(&c, d);
            op_case_run(&c, ROW_BACKWARD_WEIGHT);
            check_crowded(&c, d);
            op_case_free(&c);
        }
    op_case_check_threads(make_crowded);
}

/* A kernel on a GPU cannot refuse a token, but reads and writes no row for it. The shard's last row is padding, so
 * token 13 has memory in the table, but must not be used. */
TEST(test_embedding_on_a_gpu_takes_a_token_beyond_the_vocabulary_for_another_shards) {
    if (test_device()->kind != DEVICE_CUDA) skip();
    struct op_case c;
    first_v = 7, n_v = 7;
    make(&c, FP32);
    static const int32_t outside[] = {13, 14, 1 << 30, INT32_MAX, INT32_MIN, -1};
    int32_t *token = c.in[0].data;
    for (int r = 0; r < 14; r++) token[r] = outside[r % 6];
    op_case_run_all(&c);
    for (int i = 0; i < 14 * 77; i++) assert_close(((float *)c.out[0].data)[i], 0, 0);
    for (int i = 0; i < 7 * 77; i++) assert_close(((float *)c.dweight[0].data)[i], 0, 0);
    op_case_free(&c);
    first_v = 0, n_v = 13;
}

/* ---- add_position ---- */

static int first_t = 0, n_t = 7;
static void make_position_with(struct op_case *c, enum dtype dtype, bool store) {
    op_case_start(c, &op_add_position, op_n_out(&op_add_position, store));
    c->step.dropout.p = 0.2;
    op_case_input(c, op_type_part(op_type(dtype, "BTC", 2, 7, 77), 'T', first_t, n_t));
    op_case_weight(c, op_type(dtype, "TC", 9, 77));
    op_case_finish(c);
}
static void make_position(struct op_case *c, enum dtype dtype) { make_position_with(c, dtype, false); }
static void make_position_store(struct op_case *c, enum dtype dtype) { make_position_with(c, dtype, true); }

TEST(test_add_position_gradient_is_the_slope) {
    op_case_check_gradients(make_position);
    op_case_check_precisions(make_position, 2, 0);   /* sums over the batch of 2 */
    op_case_check_aliases(make_position);
    op_case_check_threads(make_position);
}

TEST(test_add_position_stored_mask_is_the_redrawn_one) {
    op_case_check_gradients(make_position_store);
    op_case_check_stored_masks(make_position_store, make_position);
    op_case_check_aliases(make_position_store);
    op_case_check_threads(make_position_store);
}

TEST(test_add_position_shards_of_the_sequence_make_the_whole) {
    struct op_case whole, c;
    make_position_store(&whole, FP64);
    op_case_run_all(&whole);
    for (int i = 0; i < 2; i++) {
        first_t = 3 * i, n_t = 3 + i;
        make_position_store(&c, FP64);
        op_case_run_all(&c);
        for (int o = 0; o < 2; o++) assert_close(tensor_error(&c.out[o], &whole.out[o]), 0, 0);
        assert_close(tensor_error(&c.din[0], &whole.din[0]), 0, 0);
        tensor_subtract(&whole.dweight[0], &c.dweight[0]);
        op_case_free(&c);
    }
    first_t = 0, n_t = 7;
    for (int i = 0; i < 9 * 77; i++) assert_close(((double *)whole.dweight[0].data)[i], 0, 0);
    op_case_free(&whole);
}

TEST(test_add_position_refuses_a_sequence_beyond_its_table) {
    struct type x = op_type(FP32, "BTC", 1, 10, 77), w = op_type(FP32, "TC", 9, 77), out[MAX_OUT];
    struct step step = {.op = &op_add_position, .n_in = 1, .n_out = 1, .n_weight = 1};
    struct call call = {.step = &step, .in = {{NULL, &x}}, .weight = {{NULL, &w}}};
    assert_fails(op_add_position.shape(&call, out), E_CONFIG, "add_position", "T 10", "T 9");
}

TESTS(unit_test(test_embedding_copies_rows_and_adds_their_gradients), unit_test(test_embedding_shards_make_the_whole),
      unit_test(test_embedding_refuses_a_token_beyond_the_vocabulary),
      unit_test(test_embedding_gradient_counts_every_position),
      unit_test(test_embedding_on_a_gpu_takes_a_token_beyond_the_vocabulary_for_another_shards),
      unit_test(test_add_position_gradient_is_the_slope), unit_test(test_add_position_stored_mask_is_the_redrawn_one),
      unit_test(test_add_position_shards_of_the_sequence_make_the_whole),
      unit_test(test_add_position_refuses_a_sequence_beyond_its_table))
