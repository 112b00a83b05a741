/* ranks: 1  device: cpu */
/* The loss by chunks: against its slopes, in every precision, and against the ops linear and cross_entropy, for several
 * cuts of the tokens into chunks and of the vocabulary into blocks. */
#include "lib/ops/cross_entropy.h"
#include "lib/ops/linear.h"
#include "lib/ops/linear_cross_entropy.h"

#include "lib/ops/gemm/gemm.h"
#include "lib/ops/test_op.h"
#include <omp.h>
#include <stdlib.h>

static int T = 7, C = 5, V = 13, padded = 13, rows = 4;
static bool training = false, biased = false;

static void sizes(int t, int c, int v, int r) { T = t, C = c, V = padded = v, rows = r; }

/* Weights of about 1 give logits of about sqrt(C). One row has no target. */
static void make(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_linear_cross_entropy, 1);
    c->n_tokens = V;
    c->step.head.rows = rows;
    c->settings.training = training;
    c->settings.loss_weight = 1. / 14;
    c->settings.loss_scale = 8;
    op_case_input(c, op_type(dtype, "BTC", 2, T, C));
    op_case_input(c, op_type(INT32, "BT", 2, T));
    op_case_weight(c, op_type_part(op_type(dtype, "VC", V, C), 'V', 0, padded));
    if (biased) op_case_weight(c, op_type_part(op_type(dtype, "V", V), 'V', 0, padded));
    op_case_finish(c);
    ((int32_t *)c->in[1].data)[T / 2] = -1;
}

/* Chunks of 1 token, of at most 4 (the last is smaller), and of all tokens. */
TEST(test_loss_by_chunks_gradient_is_the_slope) {
    static const int chunks[] = {1, 4, 0, 100};
    for (int i = 0; i < 4; i++) {
        sizes(7, 5, 13, chunks[i]);
        op_case_check_gradients(make);
    }
}

/* The longest sums: C channels of a logit, V terms of lse and of dx, 2 T rows of dw. stored = 2: backward reads rounded
 * logits and rounded dlogits. In 16 bits there is one chunk here, because dw is rounded after each chunk (the test
 * below). */
TEST(test_loss_by_chunks_in_every_precision) {
    sizes(7, 16, 77, 0);
    op_case_check_precisions(make, 77 + 16, 2);
    op_case_check_threads(make);
    sizes(7, 16, 77, 3);
    op_case_check_precision(make, FP32, 77 + 16, 2);
    op_case_check_threads(make);
}

/* dw of k chunks is rounded k times, after each chunk. */
TEST(test_chunks_round_a_narrow_gradient_once_each) {
    sizes(7, 16, 77, 3);                                             /* 14 tokens: five chunks */
    op_case_check_precision(make, BF16, 77 + 16, 2 + 5);
    op_case_check_precision(make, FP16, 77 + 16, 2 + 5);
}

/* ---- against the two operations ---- */

struct apart { struct op_case linear, loss; };

static void give(const struct tensor *to, const struct tensor *from) {
    memcpy(to->data, from->data, (size_t)type_bytes(from->type));
}

static void run_apart(struct apart *a, const struct op_case *c) {
    op_case_start(&a->linear, &op_linear, 1);
    op_case_input(&a->linear, c->in_type[0]);
    op_case_weight(&a->linear, c->weight_type[0]);
    if (biased) op_case_weight(&a->linear, c->weight_type[1]);
    op_case_finish(&a->linear);
    give(&a->linear.in[0], &c->in[0]);
    give(&a->linear.weight[0], &c->weight[0]);
    if (biased) give(&a->linear.weight[1], &c->weight[1]);
    op_case_run(&a->linear, ROW_FORWARD);
    op_case_start(&a->loss, &op_cross_entropy, 2);
    a->loss.settings = c->settings;
    op_case_input(&a->loss, a->linear.out_type[0]);
    op_case_input(&a->loss, c->in_type[1]);
    op_case_finish(&a->loss);
    give(&a->loss.in[0], &a->linear.out[0]);
    give(&a->loss.in[1], &c->in[1]);
    op_case_run_all(&a->loss);
    give(&a->linear.dout[0], &a->loss.din[0]);
    op_case_run(&a->linear, ROW_BACKWARD_INPUT);
    op_case_run(&a->linear, ROW_BACKWARD_WEIGHT);
}

/* The bound: both sum the same terms in another order; the sums of loss and gradients have V, C and 2 T terms. */
static void check_against_two_operations(void) {
    struct op_case c;
    struct apart a;
    make(&c, FP64);
    op_case_run_all(&c);
    run_apart(&a, &c);
    double bound = 2 * op_error_bound(FP64, V + C + 2 * T, 0);
    assert_close(tensor_error(&c.out[0], &a.loss.out[0]), 0, bound);
    assert_close(tensor_error(&c.din[0], &a.linear.din[0]), 0, bound);
    for (int i = 0; i <= biased; i++) assert_close(tensor_error(&c.dweight[i], &a.linear.dweight[i]), 0, bound);
    op_case_free(&c);
    op_case_free(&a.linear);
    op_case_free(&a.loss);
}

/* One, two and three blocks, also with a small last block; chunks that divide the tokens, and chunks that do not. */
TEST(test_loss_by_chunks_is_linear_and_cross_entropy) {
    static const int vocabularies[] = {1, 77, 4096, 4097, 8200}, chunks[] = {0, 1, 5, 7};
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 4; k++) {
            sizes(7, 5, vocabularies[i], chunks[k]);
            check_against_two_operations();
        }
}

/* The same with a bias, whose gradient is summed over chunks, block by block. */
TEST(test_loss_by_chunks_with_a_bias) {
    static const int vocabularies[] = {77, 4097, 8200}, chunks[] = {0, 1, 5};
    biased = true;
    for (int i = 0; i < 3; i++) {
        sizes(7, 5, vocabularies[i], chunks[i]);
        check_against_two_operations();
    }
    sizes(7, 5, 13, 4);
    op_case_check_gradients(make);
    sizes(7, 16, 77, 0);
    op_case_check_precisions(make, 77 + 16, 2);
    op_case_check_threads(make);
    biased = false;
}

/* Columns beyond the vocabulary, here the end of the second block and the third, hold 100. They must not change any
 * result, and their gradient must be zero. */
TEST(test_loss_by_chunks_leaves_padding_out) {
    struct op_case plain, wide;
    sizes(7, 5, 4100, 5);
    make(&plain, FP64);
    padded = 8200;
    make(&wide, FP64);
    op_case_run_all(&plain);
    op_case_run_all(&wide);
    double bound = 2 * op_error_bound(FP64, 4100, 0);
    assert_close(tensor_error(&wide.out[0], &plain.out[0]), 0, bound);
    assert_close(tensor_error(&wide.din[0], &plain.din[0]), 0, bound);
    assert_close(tensor_error(&wide.dweight[0], &plain.dweight[0]), 0, bound);
    for (int i = 4100 * C; i < 8200 * C; i++) assert_close(((double *)wide.dweight[0].data)[i], 0, 0);
    op_case_free(&plain);
    op_case_free(&wide);
}

/* ---- forward and backward ---- */

/* In training forward does not write the loss, and backward computes it with the bits of evaluation. */
TEST(test_loss_by_chunks_comes_with_backward_in_training) {
    sizes(7, 5, 77, 3);
    struct op_case c, evaluation;
    make(&evaluation, FP32);
    op_case_run(&evaluation, ROW_FORWARD);
    make(&c, FP32);
    c.settings.training = true;
    struct call call = op_case_call(&c, ROW_FORWARD);
    assert_ok(op_run(&call, ROW_FORWARD));                           /* call.work is NULL */
    assert_true(isnan(*(float *)c.out[0].data));
    op_case_run(&c, ROW_BACKWARD_INPUT);
    assert_memory_equal(c.out[0].data, evaluation.out[0].data, sizeof(float));
    op_case_free(&c);
    op_case_free(&evaluation);
}

TEST(test_loss_by_chunks_needs_less_scratch_than_all_logits) {
    struct op_case c;
    sizes(512, 8, 1000, 64);
    make(&c, FP32);
    struct call call = op_case_call(&c, ROW_BACKWARD_INPUT);
    struct gemm dw = {.m = 1000, .n = 8, .k = 64, .transpose_a = true, .ab_dtype = FP32, .c_dtype = FP32};
    int64_t chunk = 64 * 1000 * 4 + gemm_work(&dw, DEVICE_CPU, omp_get_max_threads()), tokens = 5 * 1024 * 4;
    assert_true(op_work(&call, ROW_BACKWARD_INPUT) >= chunk && op_work(&call, ROW_BACKWARD_INPUT) <= chunk + tokens);
    op_case_free(&c);
}

/* In training all three products are in backward, and none in forward. */
TEST(test_loss_by_chunks_costs_three_products) {
    struct op_case c;
    sizes(7, 5, 77, 3);
    make(&c, FP32);
    struct call call = op_case_call(&c, ROW_BACKWARD_INPUT);
    assert_close(op_cost(&call, ROW_FORWARD).flops, 0, 0);
    assert_close(op_cost(&call, ROW_BACKWARD_INPUT).flops, 3 * 2 * 14 * 5 * 77, 0);
    op_case_free(&c);
}

TEST(test_loss_by_chunks_refuses_what_it_cannot) {
    struct op_case c;
    struct type out[MAX_OUT];
    sizes(7, 5, 77, 3);
    make(&c, FP32);
    struct call call = op_case_call(&c, ROW_FORWARD);
    call.on = DEVICE_CUDA;
    assert_fails(op_linear_cross_entropy.shape(&call, out), E_CONFIG, "linear_cross_entropy", "only there on the cpu",
                 "loss-chunk 0");
    call.on = DEVICE_CPU;
    c.weight_type[0].shape.axis[0].n = 40;
    assert_fails(op_linear_cross_entropy.shape(&call, out), E_CONFIG, "vocabulary is sharded");
    c.weight_type[0].shape.axis[0].n = 77;
    c.weight_type[0].dtype = BF16;
    assert_fails(op_linear_cross_entropy.shape(&call, out), E_CONFIG, "different dtypes");
    c.weight_type[0].dtype = FP32;
    c.in_type[1].shape.axis[1].n = 6;
    assert_fails(op_linear_cross_entropy.shape(&call, out), E_CONFIG, "tokens and targets differ");
    c.in_type[1].shape.axis[1].n = 7;
    op_case_free(&c);
}

TEST(test_loss_by_chunks_names_a_target_beyond_the_vocabulary) {
    struct op_case c;
    sizes(7, 5, 77, 3);
    make(&c, FP32);
    ((int32_t *)c.in[1].data)[9] = 77;
    struct call call = op_case_call(&c, ROW_FORWARD);
    call.work = malloc((size_t)op_work(&call, ROW_FORWARD));
    assert_fails(op_run(&call, ROW_FORWARD), E_DATA, "target 77", "vocabulary of 77");
    free(call.work);
    op_case_free(&c);
}

TESTS(unit_test(test_loss_by_chunks_gradient_is_the_slope), unit_test(test_loss_by_chunks_in_every_precision),
      unit_test(test_chunks_round_a_narrow_gradient_once_each),
      unit_test(test_loss_by_chunks_is_linear_and_cross_entropy), unit_test(test_loss_by_chunks_with_a_bias),
      unit_test(test_loss_by_chunks_leaves_padding_out),
      unit_test(test_loss_by_chunks_comes_with_backward_in_training),
      unit_test(test_loss_by_chunks_needs_less_scratch_than_all_logits),
      unit_test(test_loss_by_chunks_costs_three_products), unit_test(test_loss_by_chunks_refuses_what_it_cannot),
      unit_test(test_loss_by_chunks_names_a_target_beyond_the_vocabulary))
