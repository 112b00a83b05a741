/* ranks: 2 4  device: cpu
 *
 * Ring attention's backward compared with attention over the whole sequence, on the same numbers: each rank has its
 * zig-zag shard of queries (B,T,H,D) and of keys and values (B,T,2,J,D), with two heads for each key head. Then three
 * steps of a small model. */
#include "cp/cp.h"
#include "cp/cp_block.h"
#include "driver/recipe.h"
#include "lib/comm/comm.h"
#include "lib/ops/attention/attention.h"
#include "lib/ops/test_op.h"
#include "lib/program/bill.h"
#include "tests/layouts.h"
#include <stdlib.h>
#include <string.h>

enum { B = 2, T = 16, H = 4, J = 2, D = 3 };

static struct type sharded(struct type type) {
    type.shape.axis[1] = axis_zigzag('T', T, comm_world_size(), comm_world_rank());
    return type;
}

/* Make the whole sequence in fp64, or this rank's shard of it. */
static void make(struct op_case *c, const struct op *op, enum dtype dtype, double p) {
    struct type q = op_type(dtype, "BTHD", B, T, H, D), kv = op_type(dtype, "BT2JD", B, T, 2, J, D);
    op_case_start(c, op, 2);
    c->step.dropout.p = p;
    c->step.parts = op == &op_cp_ring ? comm_world_size() : 1;
    c->step.part = op == &op_cp_ring ? comm_world_rank() : 0;
    c->settings.group = group_world();
    op_case_input(c, op == &op_cp_ring ? sharded(q) : q);
    op_case_input(c, op == &op_cp_ring ? sharded(kv) : kv);
    op_case_finish(c);
}

/* Run one row with scratch filled with this byte: 0, or 0xff, which makes NaN. */
static enum status run_row(struct op_case *c, enum row_kind kind, int scratch) {
    struct call call = op_case_call(c, kind);
    size_t bytes = (size_t)op_work(&call, kind);
    call.work = malloc(bytes + 1);
    memset(call.work, scratch, bytes);
    enum status status = op_case_run_call(&call, kind);
    if (status == OK) free(call.work);                               /* after a failure MPI may still write to it */
    return status;
}

struct off { enum status status; double dq, dkv; };                  /* relative errors, the maximum over ranks */

static struct off run(enum dtype dtype, double p, int scratch) {
    struct op_case whole, ring;
    struct off off = {.dq = INFINITY, .dkv = INFINITY};
    make(&whole, &op_attention_blocked, FP64, p);
    make(&ring, &op_cp_ring, dtype, p);
    op_case_run_all(&whole);
    off.status = run_row(&ring, ROW_FORWARD, scratch);
    if (off.status == OK) off.status = run_row(&ring, ROW_BACKWARD_INPUT, scratch);
    if (off.status == OK) {
        off.dq = tensor_error(&ring.din[0], &whole.din[0]);
        off.dkv = tensor_error(&ring.din[1], &whole.din[1]);
    }
    op_case_free(&whole);
    op_case_free(&ring);
    off.dq = agree_max(off.dq), off.dkv = agree_max(off.dkv);
    return off;
}

TEST(test_hop_queries_have_the_serial_gradients) {
    struct off off = run(FP64, 0.25, 0);
    assert_ok(off.status);
    assert_close(off.dq, 0, 1e-13);
}

TEST(test_hop_keys_and_values_have_the_serial_gradients) {
    for (int i = 0; i < 2; i++) {
        struct off off = run(FP64, i ? 0.25 : 0, 0);
        assert_ok(off.status);
        assert_close(off.dkv, 0, 1e-13);
    }
}

TEST(test_hop_in_bf16_sums_are_reals) {
    struct off off = run(BF16, 0, 0);
    assert_ok(off.status);
    assert_close(off.dkv, 0, op_error_bound(BF16, T + D, 2));
}

TEST(test_hop_any_scratch_will_do) {
    struct off off = run(FP32, 0, 0xff);
    assert_ok(off.status);
    assert_close(off.dq, 0, 1e-5);
    assert_close(off.dkv, 0, 1e-5);
}

/* A block has 2 B T/n J D elements. It makes n - 1 hops forward and n - 1 hops backward; its sums make n hops. */
static void check_bill(enum dtype dtype) {
    struct op_case ring;
    int n = comm_world_size();
    double block = 2. * B * T / n * J * D, size = (double)dtype_size(dtype),
           reals = (double)dtype_size(dtype_accumulator(dtype));
    make(&ring, &op_cp_ring, dtype, 0);
    enum status status = run_row(&ring, ROW_FORWARD, 0);
    group_ledger_reset(group_world());
    if (agree_all(status == OK)) status = run_row(&ring, ROW_BACKWARD_INPUT, 0);
    struct ledger_entry sent = group_ledger(group_world())->entry[COMM_SEND];
    struct call call = op_case_call(&ring, ROW_BACKWARD_INPUT);
    double billed = bill_row_bytes(&call, ROW_BACKWARD_INPUT), is = (n - 1) * block * size + n * block * reals;
    double off_ledger = agree_max(fabs(sent.bytes - is)), off_bill = agree_max(fabs(billed - is));
    int64_t calls = sent.calls;
    op_case_free(&ring);
    assert_ok(status);
    assert_close(off_ledger, 0, 0);
    assert_close(off_bill, 0, 0);
    assert_int_equal(calls, 2 * n - 1);
}

TEST(test_hop_bills_what_it_sends) {
    check_bill(FP32);
    check_bill(BF16);
}

/* ---- in a run ---- */
static enum status train(const struct reference *ref, int micro_batch, struct difference *d) {
    struct plan plan = parity_plan();
    plan.layers = 2;
    plan.mesh.cp = comm_world_size();
    plan.micro_batch = micro_batch;
    enum status status = plan_settle(&plan, comm_world_size());
    return agree_all(status == OK) ? layout_compare(&plan, ref, d) : status;
}

TEST(test_hop_training_equals_serial) {
    struct reference ref = {0};
    struct difference d[2] = {{0}};
    struct plan plan = parity_plan();
    plan.layers = 2;
    enum status status = reference_init(&ref, &plan);
    if (agree_all(status == OK)) status = train(&ref, 1, &d[0]);
    if (agree_all(status == OK)) status = train(&ref, 4, &d[1]);
    reference_fini(&ref);
    assert_ok(status);
    for (int i = 0; i < 2; i++) {
        assert_close(d[i].loss, 0, 1e-10);   /* fp64: promise 1 of docs/architecture.md */
        assert_close(d[i].norm, 0, 1e-10);
        assert_close(d[i].grad, 0, 1e-10);
        assert_close(d[i].memory, 0, 0);
        assert_close(d[i].wire, 0, 1e-12);
    }
}

TESTS(unit_test(test_hop_queries_have_the_serial_gradients),
      unit_test(test_hop_keys_and_values_have_the_serial_gradients), unit_test(test_hop_in_bf16_sums_are_reals),
      unit_test(test_hop_any_scratch_will_do), unit_test(test_hop_bills_what_it_sends),
      unit_test(test_hop_training_equals_serial))
