/* ranks: 1  device: any */
#define SIMT_WEAK                     /* a build without tests/simt counts nothing */
#include "lib/ops/cross_entropy.h"
#include "lib/device/arena.h"
#include "lib/ops/test_op.h"
#include "tests/simt/simt_test.h"
#include <stdlib.h>

static int n_vocab = 13, n_padded = 13;
static void make(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_cross_entropy, 2);
    c->n_tokens = n_vocab;
    c->settings.training = false;        /* so that forward computes the loss */
    c->settings.loss_weight = 1. / 14;
    c->settings.loss_scale = 8;
    op_case_input(c, op_type_part(op_type(dtype, "BTV", 2, 7, n_vocab), 'V', 0, n_padded));
    op_case_input(c, op_type(INT32, "BT", 2, 7));
    op_case_finish(c);
    ((int32_t *)c->in[1].data)[4] = -1;   /* a row without a target */
}

TEST(test_cross_entropy_gradient_is_the_slope) {
    op_case_check_gradients(make);
}

/* lse sums 77 terms; the loss 13 rows. */
TEST(test_cross_entropy_in_every_precision) {
    n_vocab = n_padded = 77;
    op_case_check_precisions(make, 77, 0);
    op_case_check_threads(make);
    n_vocab = n_padded = 13;
}

/* Rows at any address, shorter than 16 bytes, longer than one round of a GPU's threads, padded or not. The longest sum
 * is over the vocabulary, but 77 bounds it: its terms e^(x - max) are at most 1, and most are far smaller. */
TEST(test_cross_entropy_siblings_agree) {
    static const int sizes[][2] = {{1, 1}, {13, 13}, {77, 80}, {1003, 1003}, {5003, 5008}, {5120, 5120}};
    for (int i = 0; i < 6; i++) {
        n_vocab = sizes[i][0], n_padded = sizes[i][1];
        op_case_check_siblings(make, 77, 0);
    }
    n_vocab = n_padded = 13;
}

/* Padded columns hold 100. They must not change loss or lse, and their gradient must be zero. On a GPU a row's
 * alignment changes the order of its sum; each order of 13 positive terms has an error of at most 13 roundings. */
TEST(test_cross_entropy_leaves_padding_out) {
    struct op_case plain, padded;
    make(&plain, FP64);
    n_padded = 16;
    make(&padded, FP64);
    n_padded = 13;
    for (int r = 0; r < 14; r++)
        memcpy((double *)padded.in[0].data + r * 16, (double *)plain.in[0].data + r * 13, 13 * sizeof(double));
    op_case_run_all(&plain);
    op_case_run_all(&padded);
    double order = test_device()->kind == DEVICE_CPU ? 0 : 2 * 13 * ldexp(1, -53);
    assert_close(tensor_error(&padded.out[0], &plain.out[0]), 0, order);
    assert_close(tensor_error(&padded.out[1], &plain.out[1]), 0, order);
    const double *d = padded.din[0].data;
    for (int i = 0; i < 14 * 16; i++)
        if (i % 16 >= 13 || i / 16 == 4) assert_close(d[i], 0, 0);   /* padding, and the row without a target */
    op_case_free(&plain);
    op_case_free(&padded);
}

TEST(test_cross_entropy_survives_large_logits) {
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

/* If dlogits overwrite the logits, the bits stay the same. */
TEST(test_cross_entropy_gradient_may_overwrite_the_logits) {
    for (enum dtype d = FP64; d <= FP16; d++) {
        struct op_case c;
        make(&c, d);
        op_case_run_all(&c);
        void *apart = c.din[0].data;
        c.din[0].data = c.in[0].data;
        op_case_run(&c, ROW_BACKWARD_INPUT);
        c.din[0].data = apart;
        assert_memory_equal(c.in[0].data, apart, (size_t)type_bytes(&c.in_type[0]));
        op_case_free(&c);
    }
}

/* In training forward does nothing, and backward computes the same loss and lse. On a GPU their bits may differ,
 * because backward uses more threads. */
TEST(test_cross_entropy_makes_the_loss_in_backward) {
    for (enum dtype d = FP64; d <= FP16; d++) {
        struct op_case evaluated, trained;
        make(&evaluated, d), make(&trained, d);
        trained.settings.training = true;
        op_case_run(&evaluated, ROW_FORWARD);
        op_case_run(&trained, ROW_FORWARD);
        assert_true(isnan(dtype_get(trained.out[0].data, trained.out_type[0].dtype, 0)));
        op_case_run(&trained, ROW_BACKWARD_INPUT);
        double bound = 2 * 14 * dtype_roundoff(trained.out_type[0].dtype);
        for (int i = 0; i < 2; i++) assert_close(tensor_error(&trained.out[i], &evaluated.out[i]), 0, bound);
        op_case_free(&evaluated), op_case_free(&trained);
    }
}

/* A step reads the logits once and writes their gradient once, counted in sectors of 32 bytes. A row moves a few
 * numbers more; each of its warps reads the target. */
TEST(test_cross_entropy_moves_the_logits_twice) {
    if (!simt_checked || !simt_checked() || test_device()->kind != DEVICE_CUDA) skip();
    static const int sizes[] = {5120, 5003};
    for (int i = 0; i < 2; i++) {
        struct op_case c;
        n_vocab = n_padded = sizes[i];
        make(&c, BF16);
        c.settings.training = true;
        simt_count(1);
        op_case_run(&c, ROW_FORWARD);
        op_case_run(&c, ROW_BACKWARD_INPUT);
        struct simt_counts n = simt_counts();
        simt_count(0);
        /* For 5003 columns a warp's 512 bytes may begin inside a sector. */
        int64_t row = n_vocab * 2 / 32 + 2 + (i ? n_vocab * 2 / 512 + 2 : 0);
        assert_true(n.load.units <= 14 * (row + 32));
        assert_true(n.store.units <= 14 * (row + 8));
        op_case_free(&c);
    }
    n_vocab = n_padded = 13;
}

/* ---- the pieces, over two shards ---- */

/* 14 rows of 13 columns and 3 of padding, cut into two shards, and the pieces' results, in one structure for one copy
 * to the device. */
struct shards {
    double logits[2][14 * 8], max[2][14], sum[2][14], hit[2][14], gradient[2][14 * 8 + 1], loss;
    int32_t target[14];
};

static struct vocab_rows rows_of(const struct shards *there, int s) {
    return (struct vocab_rows){there->logits[s], there->target, 14, {.tag = 'V', .n = 8, .first = 8 * s, .global = 13}};
}

static void transfer(struct shards *here, struct shards *there, bool up) {
    const struct device *d = test_device();
    assert_ok(up ? d->upload(d, there, here, sizeof *here) : d->download(d, here, there, sizeof *here));
}

/* The all-reduces between the pieces. */
static void combine_max(struct shards *x) {
    for (int r = 0; r < 14; r++) x->max[0][r] = x->max[1][r] = fmax(x->max[0][r], x->max[1][r]);
}
static void combine_sums(struct shards *x) {
    for (int r = 0; r < 14; r++) x->sum[0][r] += x->sum[1][r], x->hit[0][r] += x->hit[1][r];
}

/* offset: elements before the gradient's first row. With 1, its rows are aligned differently from the logits'. */
static void run_pieces(struct shards *x, int offset) {
    const struct device *d = test_device();
    const struct cross_entropy_pieces *pieces = cross_entropy_pieces(d->kind, FP64);
    struct shards *there;
    void *memory;
    assert_ok(d->allocate(d, sizeof *x, &memory));
    transfer(x, there = memory, true);
    struct vocab_rows rows[] = {rows_of(there, 0), rows_of(there, 1)};
    for (int s = 0; s < 2; s++) assert_ok(pieces->row_max(d, &rows[s], there->max[s]));
    transfer(x, there, false);
    combine_max(x);
    transfer(x, there, true);
    for (int s = 0; s < 2; s++) assert_ok(pieces->row_sum(d, &rows[s], there->max[s], there->sum[s], there->hit[s]));
    transfer(x, there, false);
    combine_sums(x);
    transfer(x, there, true);
    assert_ok(
        pieces->loss(d, &rows[0], there->max[0], there->sum[0], there->hit[0], there->max[0], 1. / 14, &there->loss));
    for (int s = 0; s < 2; s++)
        assert_ok(pieces->gradient(d, &rows[s], there->max[0], 8. / 14, false, there->gradient[s] + offset));
    transfer(x, there, false);
    d->release(d, memory, sizeof *x);
}

/* The pieces of two shards, with maximum and sums combined as tp does, give the op's results over the whole. */
TEST(test_cross_entropy_pieces_over_shards_make_the_whole) {
    struct op_case c;
    make(&c, FP64);
    op_case_run_all(&c);
    for (int offset = 0; offset < 2; offset++) {
        static struct shards x;
        memset(&x, 0xff, sizeof x);
        memcpy(x.target, c.in[1].data, sizeof x.target);
        for (int i = 0; i < 14 * 16; i++)
            x.logits[i / 8 % 2][i / 16 * 8 + i % 8] =
                i % 16 < 13 ? ((double *)c.in[0].data)[i / 16 * 13 + i % 16] : 100;
        run_pieces(&x, offset);
        assert_close(x.loss, *(double *)c.out[0].data, 1e-14);
        for (int i = 0; i < 14 * 16; i++) {
            double d = x.gradient[i / 8 % 2][offset + i / 16 * 8 + i % 8];
            assert_close(d, i % 16 < 13 ? ((double *)c.din[0].data)[i / 16 * 13 + i % 16] : 0, 1e-15);
        }
    }
    op_case_free(&c);
}

/* A shard that is all padding has maximum -infinity and sum 0, so it does not change the other ranks' results. */
TEST(test_cross_entropy_pieces_of_padding_count_nothing) {
    static struct shards x;
    const struct device *d = test_device();
    const struct cross_entropy_pieces *pieces = cross_entropy_pieces(d->kind, FP64);
    struct shards *there;
    void *memory;
    assert_ok(d->allocate(d, sizeof x, &memory));
    for (int r = 0; r < 14; r++) x.max[1][r] = 3, x.target[r] = r % 8;
    transfer(&x, there = memory, true);
    struct vocab_rows rows = {there->logits[0], there->target, 14, {.tag = 'V', .n = 8, .first = 8, .global = 8}};
    assert_ok(pieces->row_max(d, &rows, there->max[0]));
    assert_ok(pieces->row_sum(d, &rows, there->max[1], there->sum[0], there->hit[0]));
    transfer(&x, there, false);
    for (int r = 0; r < 14; r++) {
        assert_true(isinf(x.max[0][r]) && x.max[0][r] < 0);
        assert_close(x.sum[0][r], 0, 0);
        assert_close(x.hit[0][r], 0, 0);
    }
    d->release(d, memory, sizeof x);
}

/* ---- refusals ---- */

/* The CPU returns E_DATA. On a GPU the loss is NaN, nothing is read out of bounds, and other rows are unchanged. */
TEST(test_cross_entropy_refuses_a_target_beyond_the_vocabulary) {
    static const int32_t beyond[] = {13, 2147483647};
    for (int i = 0; i < 2; i++) {
        struct op_case good, bad;
        make(&good, FP32);
        make(&bad, FP32);
        op_case_run(&good, ROW_FORWARD);
        ((int32_t *)bad.in[1].data)[7] = beyond[i];
        struct call call = op_case_call(&bad, ROW_FORWARD);
        call.on = test_device()->kind;
        call.work = calloc(1, (size_t)op_work(&call, ROW_FORWARD) + 2 * ARENA_ALIGN);
        enum status status = op_case_run_call(&call, ROW_FORWARD);
        if (call.on == DEVICE_CPU) {
            assert_fails(status, E_DATA, "position 7", "vocabulary of 13");
        } else {
            assert_ok(status);
            assert_true(isnan(*(float *)bad.out[0].data));
            assert_memory_equal(bad.out[1].data, good.out[1].data, 14 * sizeof(float));
        }
        free(call.work);
        op_case_free(&good);
        op_case_free(&bad);
    }
}

TEST(test_cross_entropy_refuses_bad_targets_and_shards) {
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
      unit_test(test_cross_entropy_siblings_agree), unit_test(test_cross_entropy_leaves_padding_out),
      unit_test(test_cross_entropy_survives_large_logits),
      unit_test(test_cross_entropy_gradient_may_overwrite_the_logits),
      unit_test(test_cross_entropy_makes_the_loss_in_backward), unit_test(test_cross_entropy_moves_the_logits_twice),
      unit_test(test_cross_entropy_pieces_over_shards_make_the_whole),
      unit_test(test_cross_entropy_pieces_of_padding_count_nothing),
      unit_test(test_cross_entropy_refuses_a_target_beyond_the_vocabulary),
      unit_test(test_cross_entropy_refuses_bad_targets_and_shards))
