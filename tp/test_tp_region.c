/* ranks: 1 2 4 8  device: cpu
 *
 * f and g: identity one way, all-reduce the other. Values are integers small enough that every dtype adds them exactly,
 * so tests compare with ==. */
#include "lib/comm/comm_request.h"
#include "lib/program/bill.h"
#include "lib/ops/test_op.h"
#include "tp/tp_region.h"

enum { B = 2, T = 3, C = 5, N = B * T * C };
static const enum dtype DTYPES[] = {FP64, FP32, BF16, FP16};
enum { N_DTYPES_HERE = 4 };

/* Operands of one row: `from` is the input and `to` the output; in place, `from` is both. */
struct region {
    struct type type;
    struct step step;
    struct call call;
    struct comm_request request;
    double from[N], to[N];
};

static int element(int rank, int i) { return i % 7 - 3 + rank; }
static int sum_of(int i) {
    int sum = 0;
    for (int rank = 0; rank < comm_world_size(); rank++) sum += element(rank, i);
    return sum;
}

/* forward: in -> out. backward: dout -> din. */
static void region_init(struct region *r, const struct op *op, enum dtype dtype, bool in_place) {
    *r = (struct region){.type = op_type(dtype, "BTC", B, T, C),
                         .step = {.op = op, .n_in = 1, .n_out = 1, .parts = comm_world_size(),
                                  .part = comm_world_rank()}};
    struct tensor from = {r->from, &r->type}, to = {in_place ? r->from : r->to, &r->type};
    r->call = (struct call){.step = &r->step, .device = device_cpu(), .group = group_world(), .request = &r->request};
    r->call.in[0] = r->call.dout[0] = from;
    r->call.out[0] = r->call.din[0] = to;
    for (int i = 0; i < N; i++) dtype_set(r->from, dtype, i, element(comm_world_rank(), i));
    for (int i = 0; i < N && !in_place; i++) dtype_set(r->to, dtype, i, NAN);
}

static bool region_run(struct region *r, enum row_kind kind) {
    bool ok = op_run(&r->call, kind) == OK && comm_wait(&r->request) == OK;
    if (!ok) print_error("%s\n", status_text());
    status_clear();
    return ok;
}

static bool is_summed(const struct region *r) {
    for (int i = 0; i < N; i++)
        if (dtype_get(r->call.out[0].data, r->type.dtype, i) != sum_of(i)) return false;
    return true;
}

/* The operand survives if the result has memory of its own. */
static bool is_unharmed(const struct region *r) {
    for (int i = 0; i < N && r->call.out[0].data != r->from; i++)
        if (dtype_get(r->from, r->type.dtype, i) != element(comm_world_rank(), i)) return false;
    return true;
}

static bool sums_everywhere(const struct op *op, enum row_kind kind) {
    bool ok = true;
    for (int d = 0; d < N_DTYPES_HERE; d++)
        for (int in_place = 0; in_place < 2; in_place++) {
            struct region r;
            region_init(&r, op, DTYPES[d], in_place);
            ok &= region_run(&r, kind) && is_summed(&r) && is_unharmed(&r);
        }
    return agree_all(ok);
}

TEST(test_tp_exit_forward_sums_over_the_ranks) {
    assert_true(sums_everywhere(&op_tp_exit, ROW_FORWARD));
    assert_true(sums_everywhere(&op_tp_exit, ROW_REPLAY));
}

TEST(test_tp_enter_backward_sums_over_the_ranks) {
    assert_true(sums_everywhere(&op_tp_enter, ROW_BACKWARD_INPUT));
    assert_true(op_tp_enter.async_backward);
}

/* Backward continues while the all-reduce is in flight. One rank alone sends nothing. */
TEST(test_tp_enter_backward_is_not_awaited) {
    struct region r;
    region_init(&r, &op_tp_enter, FP32, false);
    bool ok = op_run(&r.call, ROW_BACKWARD_INPUT) == OK, starts = comm_in_flight(COMM_ALL_REDUCE) > 0;
    ok &= comm_wait(&r.request) == OK;
    if (!ok) print_error("%s\n", status_text());
    status_clear();
    if (!agree_all(ok && (starts || comm_world_size() == 1)))
        fail_msg("the row ends, and no all-reduce is in flight: it was awaited, or never started");
}

/* The other direction is a view: the same bytes, so there is nothing to run. */
TEST(test_tp_region_other_direction_is_a_view) {
    struct region r;
    assert_true(op_tp_enter.forward_alias == ALIAS_VIEW);
    assert_true(op_tp_exit.backward_alias == ALIAS_VIEW);
    region_init(&r, &op_tp_enter, FP32, false);
    assert_fails(op_run(&r.call, ROW_FORWARD), E_INTERNAL, "tp_enter", "view");
    region_init(&r, &op_tp_exit, FP32, false);
    assert_fails(op_run(&r.call, ROW_BACKWARD_INPUT), E_INTERNAL, "tp_exit", "view");
}

/* All-reducing in place would also add up what another consumer has already written there. */
TEST(test_tp_enter_refuses_to_accumulate) {
    struct region r;
    region_init(&r, &op_tp_enter, FP32, false);
    r.call.accumulate = 1;
    assert_fails(op_run(&r.call, ROW_BACKWARD_INPUT), E_INTERNAL, "tp_enter", "another consumer");
}

TEST(test_tp_region_keeps_the_type) {
    const struct op *const ops[] = {&op_tp_enter, &op_tp_exit};
    for (int i = 0; i < 2; i++) {
        struct region r;
        struct type out[MAX_OUT];
        region_init(&r, ops[i], BF16, false);
        assert_ok(ops[i]->shape(&r.call, out));
        assert_int_equal(out[0].dtype, BF16);
        assert_true(shape_same(&out[0].shape, &r.type.shape));
    }
}

/* The bytes billed for a row equal those in its group's ledger: 2 S (n-1)/n for an all-reduce, 0 for a view. */
static bool bills_what_is_sent(const struct op *op, enum row_kind kind) {
    struct region r;
    const struct ledger *ledger = group_ledger(group_world());
    double n = comm_world_size(), formula = 2 * N * 4 * (n - 1) / n;
    region_init(&r, op, FP32, true);
    group_ledger_reset(group_world());
    bool ok = region_run(&r, kind);
    return agree_all(ok && ledger->entry[COMM_ALL_REDUCE].bytes == formula && bill_row_bytes(&r.call, kind) == formula);
}

TEST(test_tp_region_bills_what_it_sends) {
    struct region r;
    assert_true(bills_what_is_sent(&op_tp_exit, ROW_FORWARD));
    assert_true(bills_what_is_sent(&op_tp_exit, ROW_REPLAY));
    assert_true(bills_what_is_sent(&op_tp_enter, ROW_BACKWARD_INPUT));
    region_init(&r, &op_tp_enter, FP32, true);
    assert_close(bill_row_bytes(&r.call, ROW_FORWARD), 0, 0);
    region_init(&r, &op_tp_exit, FP32, true);
    assert_close(bill_row_bytes(&r.call, ROW_BACKWARD_INPUT), 0, 0);
}

TESTS(unit_test(test_tp_exit_forward_sums_over_the_ranks), unit_test(test_tp_enter_backward_sums_over_the_ranks),
      unit_test(test_tp_enter_backward_is_not_awaited),
      unit_test(test_tp_region_other_direction_is_a_view), unit_test(test_tp_enter_refuses_to_accumulate),
      unit_test(test_tp_region_keeps_the_type), unit_test(test_tp_region_bills_what_it_sends))
