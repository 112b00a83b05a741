/* ranks: 1 2 4 8  device: any
 *
 * The loss over a sharded vocabulary against op_cross_entropy over the whole one, which every rank runs by itself. No
 * tp > 1 divides the vocabularies. With 13 over 4 ranks the last rank has columns 12 .. 15, three of them padding; with
 * 5 over 4, or 1 over 2, it has only padding. Every logit of padding is 100, so that reading one changes the result. */
#include "lib/comm/comm.h"
#include "lib/program/bill.h"
#include "lib/ops/cross_entropy.h"
#include "lib/ops/test_op.h"
#include "tp/tp_cross_entropy.h"
#include <stdlib.h>

enum { B = 2, T = 7, N_ROWS = B * T };
static const int VOCABULARIES[] = {1, 5, 13, 131};
enum { N_VOCABULARIES = 4 };
static const double LOSS_SCALE = 1. / N_ROWS, GRAD_SCALE = 8;

static void make(struct op_case *c, const struct op *op, enum dtype dtype, int vocab, int parts, int part) {
    int n = (vocab + parts - 1) / parts;
    op_case_start(c, op, 2);
    c->n_tokens = vocab;
    c->settings.loss_weight = LOSS_SCALE;
    c->settings.loss_scale = GRAD_SCALE;
    c->settings.group = group_world();
    c->step.parts = parts;
    c->step.part = part;
    op_case_input(c, op_type_part(op_type(dtype, "BTV", B, T, vocab), 'V', n * part, n));
    op_case_input(c, op_type(INT32, "BT", B, T));
    op_case_finish(c);
    ((int32_t *)c->in[1].data)[4] = -1;   /* two rows that do not count */
    ((int32_t *)c->in[1].data)[9] = -7;
}

struct pair { struct op_case whole, cut; };

static void pair_init(struct pair *p, enum dtype dtype, int vocab) {
    make(&p->whole, &op_cross_entropy, dtype, vocab, 1, 0);
    make(&p->cut, &op_tp_cross_entropy, dtype, vocab, comm_world_size(), comm_world_rank());
}
static void pair_free(struct pair *p) {
    op_case_free(&p->whole);
    op_case_free(&p->cut);
}

/* Returns false instead of asserting, so that no rank leaves the others in a collective. */
static bool run(struct op_case *c, enum row_kind kind, unsigned accumulate) {
    struct call call = op_case_call(c, kind);
    call.device = device_cpu();
    call.work = malloc((size_t)op_work(&call, kind) + 1);
    call.accumulate = accumulate;
    bool ok = op_run(&call, kind) == OK;
    free(call.work);
    return ok;
}
static bool run_both(struct pair *p) {
    bool ok = run(&p->whole, ROW_FORWARD, 0) && run(&p->whole, ROW_BACKWARD_INPUT, 0);
    return run(&p->cut, ROW_FORWARD, 0) && run(&p->cut, ROW_BACKWARD_INPUT, 0) && ok;
}

/* max|value - reference| over this shard's elements; padding must be zero. Absolute, because with V = 1 all are 0. */
static double difference(const struct tensor *value, const struct tensor *whole) {
    double max = 0;
    for (int64_t i = 0; i < type_n(value->type); i++) {
        int64_t at = shape_global_index(&value->type->shape, i);
        double reference = at < 0 ? 0 : dtype_get(whole->data, whole->type->dtype, at);
        double d = fabs(dtype_get(value->data, value->type->dtype, i) - reference);
        if (!(d <= max)) max = d;
    }
    return max;
}

/* u: roundoff. Logits are normal, so below 6; lse is below 6 + log 131 < 11. A sum of V positive terms, each exact to
 * 4 u (subtract, exp), has a relative error of at most (V + 4) u, which is the logarithm's absolute error. Rounding
 * lse, hit and their difference adds 3 x 11 u. The two computations may be off in opposite directions: (V + 37) u
 * twice. The mean over rows has no larger error, and adds N_ROWS roundings of 11 u. A gradient is e^(x - lse) <= 1 with
 * the absolute error of its exponent, times its scale. */
static double bound(enum dtype dtype, int vocab) { return 2 * (vocab + 37 + 11 * N_ROWS) * dtype_roundoff(dtype); }

struct errors { bool ran; double loss, lse, gradient; };

static struct errors compare(enum dtype dtype, int vocab) {
    struct pair p;
    pair_init(&p, dtype, vocab);
    struct errors e = {.ran = agree_all(run_both(&p))};
    e.loss = agree_max(difference(&p.cut.out[0], &p.whole.out[0]));
    e.lse = agree_max(difference(&p.cut.out[1], &p.whole.out[1]));
    e.gradient = agree_max(difference(&p.cut.din[0], &p.whole.din[0]));
    pair_free(&p);
    return e;
}

static void check_dtype(enum dtype dtype) {
    for (int i = 0; i < N_VOCABULARIES; i++) {
        struct errors e = compare(dtype, VOCABULARIES[i]);
        double limit = bound(dtype, VOCABULARIES[i]);
        assert_true(e.ran);
        assert_close(e.loss, 0, limit);
        assert_close(e.lse, 0, limit);
        assert_close(e.gradient, 0, LOSS_SCALE * GRAD_SCALE * limit);
    }
}

TEST(test_tp_cross_entropy_equals_the_whole_vocabularys_fp64) {
    check_dtype(FP64);
}
TEST(test_tp_cross_entropy_equals_the_whole_vocabularys_fp32) {
    check_dtype(FP32);
}

/* Adding a constant to all logits changes nothing, however large; e^5000 would be infinite. Rounding x + 5000 to a
 * multiple of 2^-40 moves each logit by at most 2^-41, and lse by no more. */
TEST(test_tp_cross_entropy_survives_large_logits) {
    struct pair p;
    pair_init(&p, FP64, 13);
    double *x = p.cut.in[0].data;
    for (int64_t i = 0; i < type_n(&p.cut.in_type[0]); i++) x[i] += 5000;
    bool ran = agree_all(run_both(&p));
    double loss = agree_max(difference(&p.cut.out[0], &p.whole.out[0]));
    double gradient = agree_max(difference(&p.cut.din[0], &p.whole.din[0]));
    pair_free(&p);
    assert_true(ran);
    assert_close(loss, 0, 8 * ldexp(1, -41));
    assert_close(gradient, 0, 8 * ldexp(1, -41));
}

/* All ranks must have the same bits of the loss, because the run takes the loss of one rank. */
TEST(test_tp_cross_entropy_is_the_same_on_every_rank) {
    struct pair p;
    pair_init(&p, FP32, 131);
    bool ran = agree_all(run_both(&p));
    double loss = dtype_get(p.cut.out[0].data, FP32, 0), largest = agree_max(loss), smallest = -agree_max(-loss);
    pair_free(&p);
    assert_true(ran);
    assert_close(largest, smallest, 0);
}

TEST(test_tp_cross_entropy_ignores_negative_targets) {
    struct op_case c;
    make(&c, &op_tp_cross_entropy, FP64, 13, comm_world_size(), comm_world_rank());
    bool ok = run(&c, ROW_FORWARD, 0) && run(&c, ROW_BACKWARD_INPUT, 0);
    int64_t n = c.in_type[0].shape.axis[2].n;
    for (int64_t k = 0; k < n; k++)
        ok &= ((double *)c.din[0].data)[4 * n + k] == 0 && ((double *)c.din[0].data)[9 * n + k] == 0;
    for (int r = 0; r < N_ROWS; r++) ((int32_t *)c.in[1].data)[r] = -1;
    ok &= run(&c, ROW_FORWARD, 0) && dtype_get(c.out[0].data, FP64, 0) == 0;   /* no row counts: the loss is 0 */
    op_case_free(&c);
    assert_true(agree_all(ok));
}

TEST(test_tp_cross_entropy_accumulates) {
    struct pair p;
    pair_init(&p, FP64, 13);
    bool ran = run_both(&p) && run(&p.cut, ROW_BACKWARD_INPUT, 1);
    for (int64_t i = 0; i < type_n(&p.cut.in_type[0]); i++) ((double *)p.cut.din[0].data)[i] /= 2;
    double gradient = agree_max(difference(&p.cut.din[0], &p.whole.din[0]));
    pair_free(&p);
    assert_true(agree_all(ran));
    assert_close(gradient, 0, LOSS_SCALE * GRAD_SCALE * bound(FP64, 13));
}

/* A shard in a group of one, on the device under test. */
static void make_on_one_rank(struct op_case *c, enum dtype dtype) { make(c, &op_tp_cross_entropy, dtype, 131, 1, 0); }

TEST(test_tp_cross_entropy_siblings_agree) {
    if (comm_world_size() == 1) op_case_check_siblings(make_on_one_rank, 131, 0);
}

/* The op sends B T numbers for the maximum and 2 B T for sum and hit, not B T V. */
TEST(test_tp_cross_entropy_bills_what_it_sends) {
    struct op_case c;
    make(&c, &op_tp_cross_entropy, FP32, 131, comm_world_size(), comm_world_rank());
    struct call call = op_case_call(&c, ROW_FORWARD);
    double n = comm_world_size(), formula = 2 * (3 * N_ROWS * 4) * (n - 1) / n;
    group_ledger_reset(group_world());
    bool ok = run(&c, ROW_FORWARD, 0);
    double sent = group_ledger(group_world())->entry[COMM_ALL_REDUCE].bytes;
    double forward = bill_row_bytes(&call, ROW_FORWARD), backward = bill_row_bytes(&call, ROW_BACKWARD_INPUT);
    op_case_free(&c);
    assert_true(agree_all(ok && sent == formula && forward == formula && backward == 0));
}

/* The planned scratch must be exact: sum and hit of every row, in the accumulator's precision. */
TEST(test_tp_cross_entropy_wants_two_numbers_a_row) {
    static const enum dtype dtypes[] = {FP64, FP32, BF16};
    for (int i = 0; i < 3; i++) {
        struct op_case c;
        make(&c, &op_tp_cross_entropy, dtypes[i], 131, comm_world_size(), comm_world_rank());
        struct call call = op_case_call(&c, ROW_FORWARD);
        assert_int_equal(op_work(&call, ROW_FORWARD), 2 * N_ROWS * (i == 0 ? 8 : 4));
        assert_int_equal(op_work(&call, ROW_BACKWARD_INPUT), 0);
        op_case_free(&c);
    }
}

/* All ranks have the same targets, so all refuse the same one, before they send anything. */
TEST(test_tp_cross_entropy_refuses_a_target_beyond_the_vocabulary) {
    struct op_case c;
    make(&c, &op_tp_cross_entropy, FP32, 13, comm_world_size(), comm_world_rank());
    ((int32_t *)c.in[1].data)[3] = 13;   /* a column of padding, if the vocabulary is sharded; never a token */
    struct call call = op_case_call(&c, ROW_FORWARD);
    call.device = device_cpu();
    call.work = malloc((size_t)op_work(&call, ROW_FORWARD));
    enum status status = op_run(&call, ROW_FORWARD);
    free(call.work);
    op_case_free(&c);
    assert_fails(status, E_DATA, "target 13", "position 3", "vocabulary of 13");
}

TESTS(unit_test(test_tp_cross_entropy_equals_the_whole_vocabularys_fp64),
      unit_test(test_tp_cross_entropy_equals_the_whole_vocabularys_fp32),
      unit_test(test_tp_cross_entropy_survives_large_logits),
      unit_test(test_tp_cross_entropy_is_the_same_on_every_rank),
      unit_test(test_tp_cross_entropy_ignores_negative_targets), unit_test(test_tp_cross_entropy_accumulates),
      unit_test(test_tp_cross_entropy_siblings_agree), unit_test(test_tp_cross_entropy_bills_what_it_sends),
      unit_test(test_tp_cross_entropy_wants_two_numbers_a_row),
      unit_test(test_tp_cross_entropy_refuses_a_target_beyond_the_vocabulary))
