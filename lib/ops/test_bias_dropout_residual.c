/* ranks: 1  device: any */
#include "lib/ops/bias_dropout_residual.h"
#include "lib/ops/test_op.h"
#include "lib/ops/branch.h"
#include "lib/ops/dropout.h"

static int n_channels = 5;
static double p = 0.3;
static int first_t = 0, n_t = 7, first_b = 0, n_b = 2;   /* the case's shard of T and B */

static struct type part_type(enum dtype dtype) {
    return op_type_part(op_type_part(op_type(dtype, "BTC", 2, 7, n_channels), 'T', first_t, n_t), 'B', first_b, n_b);
}
static void make_with(struct op_case *c, enum dtype dtype, bool store) {
    op_case_start(c, &op_bias_dropout_residual, op_n_out(&op_bias_dropout_residual, store));
    c->step.dropout.p = p;
    c->settings.first_sample = first_b;
    op_case_input(c, part_type(dtype));
    op_case_input(c, part_type(dtype));
    op_case_weight(c, op_type(dtype, "C", n_channels));
    op_case_finish(c);
}
static void make(struct op_case *c, enum dtype dtype) { make_with(c, dtype, false); }
static void make_without_bias(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_dropout_residual, 1);
    c->step.dropout.p = p;
    c->settings.first_sample = first_b;
    op_case_input(c, part_type(dtype));
    op_case_input(c, part_type(dtype));
    op_case_finish(c);
}
static void make_store(struct op_case *c, enum dtype dtype) { make_with(c, dtype, true); }

TEST(test_bias_dropout_residual_gradient_is_the_slope) {
    for (n_channels = 5; n_channels <= 77; n_channels += 72) op_case_check_gradients(make);
    n_channels = 5;
    op_case_check_gradients(make_store);
}

/* The bias gradient sums 14 rows. */
TEST(test_bias_dropout_residual_in_every_precision) {
    n_channels = 77;
    op_case_check_precisions(make, 14, 0);
    op_case_check_aliases(make);
    op_case_check_threads(make);
    n_channels = 5;
}

/* dropout_residual gives the bits of bias_dropout_residual with a bias of zero. */
TEST(test_dropout_residual_has_no_bias) {
    if (test_device()->kind != DEVICE_CPU) return;
    for (n_channels = 5; n_channels <= 77; n_channels += 72) {
        struct op_case c, with;
        op_case_check_gradients(make_without_bias);
        make_without_bias(&c, FP64);
        make(&with, FP64);
        memset(with.weight[0].data, 0, (size_t)type_bytes(&with.weight_type[0]));
        op_case_run_all(&c);
        op_case_run_all(&with);
        assert_close(tensor_error(&c.out[0], &with.out[0]), 0, 0);
        assert_close(tensor_error(&c.din[0], &with.din[0]), 0, 0);
        op_case_free(&c);
        op_case_free(&with);
    }
    n_channels = 5;
}

/* The draws are those of dropout.h: key (seed, site, step), counter {c / 4, t, 0, sample}, word c % 4. */
TEST(test_dropout_draws_by_global_index) {
    n_channels = 77;
    struct op_case c;
    make(&c, FP64);
    op_case_run_all(&c);
    struct philox_key key = rng_key(7, rng_stream("test site"), 3);
    const double *dx = c.din[0].data, *dy = c.dout[0].data;
    int64_t dropped = 0;
    for (uint32_t i = 0; i < 2 * 7 * 77; i++) {
        uint32_t channel = i % 77, t = i / 77 % 7, sample = i / 77 / 7;
        struct philox_counter counter = {{channel / 4, t, 0, sample}};
        bool keep = philox(counter, key).v[channel % 4] >= 0.3 * 4294967296.0;
        assert_close(dx[i], keep ? dy[i] / 0.7 : 0, 1e-15 * fabs(dy[i]) * 2);
        dropped += !keep;
    }
    /* The number is binomial with n = 1078, so its standard deviation is sqrt(n p (1-p)) = 15. */
    assert_close((double)dropped, 0.3 * 1078, 4 * 15);
    op_case_free(&c);
    n_channels = 5;
}

TEST(test_stored_mask_is_the_redrawn_one) {
    n_channels = 77;
    op_case_check_stored_masks(make_store, make);
    op_case_check_aliases(make_store);
    op_case_check_threads(make_store);
    n_channels = 5;
}

/* Four shards, two of the sequence times two samples, give the whole: outputs, mask, dx, and the sum of the bias
 * gradients. */
TEST(test_bias_dropout_residual_shards_make_the_whole) {
    struct op_case whole, c;
    make_store(&whole, FP64);
    op_case_run_all(&whole);
    for (int i = 0; i < 4; i++) {
        first_b = i / 2, n_b = 1;
        first_t = i % 2 ? 4 : 0, n_t = i % 2 ? 3 : 4;
        make_store(&c, FP64);
        op_case_run_all(&c);
        for (int o = 0; o < 2; o++) assert_close(tensor_error(&c.out[o], &whole.out[o]), 0, 0);
        assert_close(tensor_error(&c.din[0], &whole.din[0]), 0, 0);
        tensor_subtract(&whole.dweight[0], &c.dweight[0]);
        op_case_free(&c);
    }
    first_b = first_t = 0, n_b = 2, n_t = 7;
    for (int i = 0; i < n_channels; i++) assert_close(((double *)whole.dweight[0].data)[i], 0, 1e-14);
    op_case_free(&whole);
}

TEST(test_evaluation_does_not_drop) {
    struct op_case c;
    make_store(&c, FP64);
    c.settings.training = false;
    op_case_run(&c, ROW_FORWARD);
    const double *x = c.in[0].data, *residual = c.in[1].data, *b = c.weight[0].data, *y = c.out[0].data;
    for (int i = 0; i < 70; i++) assert_close(y[i], residual[i] + x[i] + b[i % 5], 1e-15 * 8);
    for (int i = 0; i < 70; i++) assert_int_equal(((uint8_t *)c.out[1].data)[i], 1);   /* all kept */
    op_case_free(&c);
}

/* ---- The ops dropout and branch. ---- */

static void make_with_dropout(struct op_case *c, enum dtype dtype, bool store) {
    op_case_start(c, &op_dropout, op_n_out(&op_dropout, store));
    c->step.dropout.p = 0.25;
    c->settings.training = true;
    op_case_input(c, op_type(dtype, "BTC", 2, 7, 70));
    op_case_finish(c);
}
static void make_dropout(struct op_case *c, enum dtype dtype) { make_with_dropout(c, dtype, false); }
static void make_store_dropout(struct op_case *c, enum dtype dtype) { make_with_dropout(c, dtype, true); }

TEST(test_dropout_is_its_factor_both_ways) {
    op_case_check_gradients(make_dropout);
    op_case_check_precisions(make_dropout, 3, 0);
    op_case_check_aliases(make_dropout);
    op_case_check_threads(make_dropout);
    op_case_check_stored_masks(make_store_dropout, make_dropout);
}

/* Each element of y is x 4/3 or 0. Of 980 elements 735 are kept, within five standard deviations. */
TEST(test_dropout_keeps_its_share) {
    struct op_case c;
    make_dropout(&c, FP64);
    op_case_run(&c, ROW_FORWARD);
    const double *x = c.in[0].data, *y = c.out[0].data;
    int kept = 0;
    for (int i = 0; i < 980; i++) {
        assert_true(y[i] == 0 || y[i] == x[i] * (1 / 0.75));
        kept += y[i] != 0;
    }
    assert_close(kept, 735, 5 * sqrt(980 * 0.25 * 0.75));
    op_case_free(&c);
}

static void make_branch(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_branch, 1);
    op_case_input(c, op_type(dtype, "BTC", 2, 3, 5));
    op_case_finish(c);
}

TEST(test_a_branch_adds_to_what_others_made) {
    op_case_check_gradients(make_branch);
    op_case_check_precisions(make_branch, 1, 0);
}

TESTS(unit_test(test_dropout_residual_has_no_bias), unit_test(test_bias_dropout_residual_gradient_is_the_slope),
      unit_test(test_bias_dropout_residual_in_every_precision), unit_test(test_dropout_draws_by_global_index),
      unit_test(test_stored_mask_is_the_redrawn_one), unit_test(test_bias_dropout_residual_shards_make_the_whole),
      unit_test(test_evaluation_does_not_drop), unit_test(test_dropout_is_its_factor_both_ways),
      unit_test(test_dropout_keeps_its_share), unit_test(test_a_branch_adds_to_what_others_made))
