/* ranks: 1  device: any */
#include "lib/ops/cross_entropy.h"
#include "lib/ops/test_op.h"

static int n_vocab = 13, n_padded = 13;
static void make(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_cross_entropy, 2);
    c->n_tokens = n_vocab;
    c->settings.loss_scale = 1. / 14;
    c->settings.grad_scale = 8;
    op_case_input(c, op_type_part(op_type(dtype, "BTV", 2, 7, n_vocab), 'V', 0, n_padded));
    op_case_input(c, op_type(INT32, "BT", 2, 7));
    op_case_finish(c);
    ((int32_t *)c->in[1].data)[4] = -1;   /* one row that does not count */
}

static void test_cross_entropy_gradient_is_the_slope(void **state) {
    (void)state;
    op_case_check_gradients(make);
}

/* lse sums 77 terms; the loss 13 rows. */
static void test_cross_entropy_in_every_precision(void **state) {
    (void)state;
    n_vocab = n_padded = 77;
    op_case_check_precisions(make, 77, 0);
    op_case_check_threads(make);
    n_vocab = n_padded = 13;
}

/* Padded columns hold 100: they change neither loss nor lse, and their gradient is zero. */
static void test_cross_entropy_leaves_padding_out(void **state) {
    (void)state;
    struct op_case plain, padded;
    make(&plain, FP64);
    n_padded = 16;
    make(&padded, FP64);
    n_padded = 13;
    for (int r = 0; r < 14; r++)
        memcpy((double *)padded.in[0].data + r * 16, (double *)plain.in[0].data + r * 13, 13 * sizeof(double));
    op_case_run_all(&plain);
    op_case_run_all(&padded);
    assert_close(tensor_error(&padded.out[0], &plain.out[0]), 0, 0);
    assert_close(tensor_error(&padded.out[1], &plain.out[1]), 0, 0);
    const double *d = padded.din[0].data;
    for (int i = 0; i < 14 * 16; i++)
        if (i % 16 >= 13 || i / 16 == 4) assert_close(d[i], 0, 0);   /* padding, and the row that is ignored */
    op_case_free(&plain);
    op_case_free(&padded);
}

static void test_cross_entropy_survives_large_logits(void **state) {
    (void)state;
    struct op_case c;
    make(&c, FP32);
    float *x = c.in[0].data;
    for (int i = 0; i < 14 * 13; i++) x[i] = i % 13 == 2 ? 3e4f : -3e4f;
    for (int r = 0; r < 14; r++) ((int32_t *)c.in[1].data)[r] = 2;
    op_case_run_all(&c);
    assert_close(*(float *)c.out[0].data, 0, 0);
    for (int i = 0; i < 14 * 13; i++) assert_close(((float *)c.din[0].data)[i], 0, 0);
    op_case_free(&c);
}

/* dlogits over the logits themselves: the same bits. */
static void test_cross_entropy_gradient_may_overwrite_the_logits(void **state) {
    (void)state;
    struct op_case c;
    make(&c, BF16);
    op_case_run_all(&c);
    struct vocab_rows rows = {c.in[0].data, c.in[1].data, 14, axis_whole('V', 13)};
    cross_entropy_pieces_cpu(BF16)->gradient(&rows, c.out[1].data, 8. / 14, false, c.in[0].data);
    assert_memory_equal(c.in[0].data, c.din[0].data, 14 * 13 * 2);
    op_case_free(&c);
}

/* The pieces over two shards, with the maximum and the sums combined as tp does it, are the op over the whole. */
static void test_cross_entropy_pieces_over_shards_make_the_whole(void **state) {
    (void)state;
    struct op_case c;
    make(&c, FP64);
    op_case_run_all(&c);
    const struct cross_entropy_pieces *pieces = cross_entropy_pieces_cpu(FP64);
    double shard[2][14 * 8], max[2][14], sum[2][14], hit[2][14], d[14 * 8];
    struct vocab_rows rows[2];
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < 14 * 8; i++)
            shard[s][i] = s * 8 + i % 8 < 13 ? ((double *)c.in[0].data)[i / 8 * 13 + s * 8 + i % 8] : 100;
        rows[s] = (struct vocab_rows){shard[s], c.in[1].data, 14, {'V', 8, 8 * s, 13}};   /* 16 columns for 13 */
        pieces->row_max(&rows[s], max[s]);
    }
    for (int r = 0; r < 14; r++) max[0][r] = max[1][r] = fmax(max[0][r], max[1][r]);
    for (int s = 0; s < 2; s++) pieces->row_sum(&rows[s], max[s], sum[s], hit[s]);
    for (int r = 0; r < 14; r++) sum[0][r] += sum[1][r], hit[0][r] += hit[1][r];
    double loss = pieces->loss(&rows[0], max[0], sum[0], hit[0], max[0]) / 14;
    assert_close(loss, *(double *)c.out[0].data, 1e-14);
    for (int s = 0; s < 2; s++) {
        pieces->gradient(&rows[s], max[0], 8. / 14, false, d);
        for (int i = 0; i < 14 * 8; i++)
            if (s * 8 + i % 8 < 13) assert_close(d[i], ((double *)c.din[0].data)[i / 8 * 13 + s * 8 + i % 8], 1e-15);
    }
    op_case_free(&c);
}

static void test_cross_entropy_refuses_bad_targets_and_shards(void **state) {
    (void)state;
    int32_t target[2] = {1, 13};
    struct vocab_rows rows = {NULL, target, 2, axis_whole('V', 13)};
    assert_fails(cross_entropy_check_targets(&rows), E_DATA, "13", "position 1");
    struct type x = op_type_part(op_type(FP32, "BTV", 1, 2, 8), 'V', 4, 4), y = op_type(INT32, "BT", 1, 2),
                out[MAX_OUT];
    struct step step = {.op = &op_cross_entropy, .n_in = 2, .n_out = 2};
    struct call call = {.step = &step, .in = {{NULL, &x}, {NULL, &y}}};
    assert_fails(op_cross_entropy.shape(&call, out), E_CONFIG, "cross_entropy", "V 4/8@4");
}

TESTS(unit_test(test_cross_entropy_gradient_is_the_slope), unit_test(test_cross_entropy_in_every_precision),
      unit_test(test_cross_entropy_leaves_padding_out), unit_test(test_cross_entropy_survives_large_logits),
      unit_test(test_cross_entropy_gradient_may_overwrite_the_logits),
      unit_test(test_cross_entropy_pieces_over_shards_make_the_whole),
      unit_test(test_cross_entropy_refuses_bad_targets_and_shards))
