/* ranks: 1 2 4  device: cpu
 *
 * sp_enter and sp_exit against plain gathers and sums; which params get partial gradients, and what sp sends. Values
 * are integers small enough that every dtype adds them exactly, so tests compare with ==. */
#include "driver/recipe.h"
#include "lib/comm/comm_request.h"
#include "lib/program/bill.h"
#include "lib/ops/test_op.h"
#include "tests/layouts.h"
#include "tp/tp.h"
#include "tp/tp_sequence.h"
#include <stdlib.h>

enum { SHARE = 3, C = 5, MOST = 3 * 4 * SHARE * C };   /* tokens per rank; channels; at most 3 sequences on 4 ranks */
static const enum dtype DTYPES[] = {FP64, FP32, BF16, FP16};

/* Operands of one row: a whole (B,T,C) and a shard (B,T/tp,C). One is the input, the other the output. */
struct passage {
    struct type whole, shard;
    struct step step;
    struct call call;
    struct comm_request request;
    double from[MOST], to[MOST];
    void *work;
};

static bool gathers(const struct op *op, enum row_kind kind) {
    return (op == &op_sp_enter) == (kind != ROW_BACKWARD_INPUT);
}

/* value: what `rank` has at global element g. owner: the rank that holds the element's token. */
static int value(int rank, int64_t g) { return (int)(g * 7 % 11) - 5 + rank * (int)(g % 3); }
static int owner(int64_t g) { return (int)(g / C % (SHARE * comm_world_size()) / SHARE); }

static int expected(bool gathered, int64_t g) {
    if (gathered) return value(owner(g), g);
    int sum = 0;
    for (int rank = 0; rank < comm_world_size(); rank++) sum += value(rank, g);
    return sum;
}

static void exchange_init(struct passage *x, const struct op *op, enum row_kind kind, enum dtype dtype, int B) {
    int tp = comm_world_size(), rank = comm_world_rank();
    *x = (struct passage){.whole = op_type(dtype, "BTC", B, tp * SHARE, C),
                           .step = {.op = op, .n_in = 1, .n_out = 1, .parts = tp, .part = rank}};
    x->shard = op_type_part(x->whole, 'T', rank * SHARE, SHARE);
    x->step.gather.whole = *shape_axis(&x->whole.shape, 'T');
    bool enter = op == &op_sp_enter, gather = gathers(op, kind), forward = kind != ROW_BACKWARD_INPUT;
    struct tensor from = {x->from, gather ? &x->shard : &x->whole}, to = {x->to, gather ? &x->whole : &x->shard};
    x->call = (struct call){.step = &x->step, .device = device_cpu(), .group = group_world(), .request = &x->request};
    x->call.in[0] = x->call.din[0] = (struct tensor){forward ? x->from : x->to, enter ? &x->shard : &x->whole};
    x->call.out[0] = x->call.dout[0] = (struct tensor){forward ? x->to : x->from, enter ? &x->whole : &x->shard};
    for (int64_t i = 0; i < type_n(from.type); i++)
        dtype_set(x->from, dtype, i, value(rank, shape_global_index(&from.type->shape, i)));
    for (int64_t i = 0; i < type_n(to.type); i++) dtype_set(x->to, dtype, i, NAN);
    x->call.work = x->work = malloc((size_t)op_work(&x->call, kind) + 1);   /* the sanitizer finds an overrun */
}

static bool exchange_run(struct passage *x, enum row_kind kind) {
    bool ok = op_run(&x->call, kind) == OK && comm_wait(&x->request) == OK;
    free(x->work);
    return ok;
}

static bool is_right(const struct passage *x, bool gathered) {
    const struct type *type = gathered ? &x->whole : &x->shard;
    for (int64_t i = 0; i < type_n(type); i++)
        if (dtype_get(x->to, type->dtype, i) != expected(gathered, shape_global_index(&type->shape, i))) return false;
    return true;
}

/* With B = 1 the collective takes the sequence as it is stored; with B > 1 its pieces must be transposed. */
static bool exchanges_rightly(const struct op *op, enum row_kind kind) {
    bool ok = true;
    for (int d = 0; d < 4; d++)
        for (int B = 1; B <= 3; B++) {
            struct passage x;
            exchange_init(&x, op, kind, DTYPES[d], B);
            ok &= exchange_run(&x, kind) && is_right(&x, gathers(op, kind));
        }
    return agree_all(ok);
}

TEST(test_sp_enter_gathers_forward_and_scatters_sums_backward) {
    assert_true(exchanges_rightly(&op_sp_enter, ROW_FORWARD));
    assert_true(exchanges_rightly(&op_sp_enter, ROW_REPLAY));
    assert_true(exchanges_rightly(&op_sp_enter, ROW_BACKWARD_INPUT));
    assert_true(op_sp_enter.async_backward);
}

TEST(test_sp_exit_scatters_sums_forward_and_gathers_backward) {
    assert_true(exchanges_rightly(&op_sp_exit, ROW_FORWARD));
    assert_true(exchanges_rightly(&op_sp_exit, ROW_REPLAY));
    assert_true(exchanges_rightly(&op_sp_exit, ROW_BACKWARD_INPUT));
}

TEST(test_sp_ops_refuse_to_accumulate) {
    static const struct op *const ops[] = {&op_sp_enter, &op_sp_exit};
    for (int i = 0; i < 2; i++) {
        struct passage x;
        exchange_init(&x, ops[i], ROW_BACKWARD_INPUT, FP32, 1);
        x.call.accumulate = 1;
        assert_fails(op_run(&x.call, ROW_BACKWARD_INPUT), E_INTERNAL, ops[i]->name, "another consumer");
        free(x.work);
    }
}

/* On every rank: after enter the sequence is whole, after exit it is this rank's shard. */
TEST(test_sp_ops_change_the_sequence_and_nothing_else) {
    struct passage x;
    struct type out[MAX_OUT];
    exchange_init(&x, &op_sp_enter, ROW_FORWARD, BF16, 2);
    free(x.work);
    assert_ok(op_sp_enter.shape(&x.call, out));
    assert_true(out[0].dtype == BF16 && shape_same(&out[0].shape, &x.whole.shape));
    exchange_init(&x, &op_sp_exit, ROW_FORWARD, BF16, 2);
    free(x.work);
    assert_ok(op_sp_exit.shape(&x.call, out));
    assert_true(out[0].dtype == BF16 && shape_same(&out[0].shape, &x.shard.shape));
}

TEST(test_sp_ops_refuse_other_shapes) {
    struct passage x;
    struct type out[MAX_OUT], odd = op_type(FP32, "BTC", 2, 7, C), heads = op_type(FP32, "BTHD", 2, 6, 2, 3);
    exchange_init(&x, &op_sp_exit, ROW_FORWARD, FP32, 1);
    free(x.work);
    x.step.parts = 4;
    x.call.in[0].type = &odd;
    assert_fails(op_sp_exit.shape(&x.call, out), E_CONFIG, "tp=4", "the 7 tokens", "--noise and --span");
    x.call.in[0].type = &heads;
    assert_fails(op_sp_exit.shape(&x.call, out), E_CONFIG, "BTC");
    assert_fails(op_sp_enter.shape(&x.call, out), E_CONFIG, "BTC");
}

/* The bytes billed for a row equal those in the ledger: S (n-1)/n, with S the bytes of the whole tensor. */
static bool bills_what_is_sent(const struct op *op, enum row_kind kind) {
    struct passage x;
    double n = comm_world_size(), formula = 2 * n * SHARE * C * 4 * (n - 1) / n;
    enum comm_op sends = gathers(op, kind) ? COMM_ALL_GATHER : COMM_REDUCE_SCATTER;
    exchange_init(&x, op, kind, FP32, 2);
    group_ledger_reset(group_world());
    bool ok = exchange_run(&x, kind);
    return agree_all(ok && group_ledger(group_world())->entry[sends].bytes == formula &&
                     bill_row_bytes(&x.call, kind) == formula);
}

TEST(test_sp_ops_bill_what_they_send) {
    static const enum row_kind kinds[] = {ROW_FORWARD, ROW_REPLAY, ROW_BACKWARD_INPUT};
    for (int i = 0; i < 3; i++) {
        assert_true(bills_what_is_sent(&op_sp_enter, kinds[i]));
        assert_true(bills_what_is_sent(&op_sp_exit, kinds[i]));
    }
}

/* ---- the rewritten program ---- */
static struct plan plan_of(int tp, int sp) {
    struct plan plan = parity_plan();
    plan.layers = 2;
    plan.micro_batch = 4;
    plan.mesh.tp = tp;
    tp_options(&plan)->sp = sp;
    return plan;
}

static void compile(struct run *r, int tp, int sp, int rank) {
    struct plan plan = plan_of(tp, sp);
    assert_ok(plan_settle(&plan, tp));
    assert_ok(run_compile(r, &train_recipe, &plan, rank, NULL, NULL));
}

static bool is_partial_by_name(const char *name) {
    static const char *const partial[] = {"wpe", "ln1.g", "ln1.b", "ln2.g", "ln2.b", "proj.b", "fc2.b", "lnf.g",
                                          "lnf.b"};
    for (size_t i = 0; i < sizeof partial / sizeof *partial; i++)
        if (!strcmp(strchr(name, '.') + 1, partial[i])) return true;
    return false;
}

/* Layernorms, the biases after the exits and the position table see this rank's tokens only, so their gradients are
 * partial. All other params see all tokens. */
TEST(test_sp_makes_partial_what_is_whole_and_sees_a_part) {
    for (int tp = 2; tp <= 8; tp *= 2)
        for (int rank = 0; rank < tp; rank++) {
            struct run with, without;
            compile(&with, tp, 1, rank);
            compile(&without, tp, 0, rank);
            for (int i = 0; i < with.program.n_params; i++) {
                assert_int_equal(with.program.params[i].reduce >> AXIS_TP & 1,
                                 is_partial_by_name(with.program.params[i].name));
                assert_false(without.program.params[i].reduce >> AXIS_TP & 1);
            }
            run_destroy(&with);
            run_destroy(&without);
        }
}

/* Outside regions every activation has T/tp tokens; inside regions and at the loss it has all T. */
TEST(test_sp_cuts_the_residual_stream) {
    struct run r;
    compile(&r, 4, 1, 3);
    int cut = 0;
    for (int i = 0; i < r.program.n_slots; i++) {
        const struct shape *s = &r.program.slots[i].type.shape;
        const struct axis *t = shape_axis(s, 'T'), *c = shape_axis(s, 'C');
        const char *name = r.program.slots[i].name, *last = strrchr(name, '.');
        bool inside = !strcmp(last, ".in") || !strcmp(last, ".part");
        if (!c || !t) continue;
        assert_int_equal(t->n, inside ? 8 : 2);
        assert_int_equal(t->first, inside ? 0 : 6);
        cut += !inside;
    }
    assert_int_equal(cut, 2 + 2 * 6 + 1);                            /* tok pos; ln1 proj res1 ln2 fc2 res2; lnf */
    run_destroy(&r);
}

/* sp_enter and sp_exit send the bytes of tp_enter and tp_exit. sp adds a second gather at each enter, for the weight
 * gradient, and once per step an all-reduce of every partial gradient. */
TEST(test_sp_sends_two_gathers_a_layer_and_the_partial_gradients_more) {
    for (int tp = 2; tp <= 8; tp *= 2) {
        struct run with, without;
        compile(&with, tp, 1, 0);
        compile(&without, tp, 0, 0);
        double share = (tp - 1.) / tp, S = 4 * 8 * 16 * 8, m = with.plan.n_microbatches,
               gathers_again = m * (2 * 2 + 1) * S * share;
        double partial = 2 * share * 8 * (8 * 16 + 2 * 6 * 16 + 2 * 16);      /* wpe; ln1 ln2 proj.b fc2.b; lnf */
        assert_close(with.bill.wire_bytes[AXIS_TP] - without.bill.wire_bytes[AXIS_TP], gathers_again + partial, 1e-6);
        run_destroy(&with);
        run_destroy(&without);
    }
}

TEST(test_sp_refuses_what_it_cannot_cut) {
    struct plan alone = plan_of(1, 1), odd = plan_of(4, 1);
    assert_true(technique_tp.wanted(&alone));                        /* refused, not ignored */
    assert_fails(technique_tp.check(&alone), E_CONFIG, "tp=1", "use tp 2 or more");
    odd.seq = 10;
    assert_fails(technique_tp.check(&odd), E_CONFIG, "sp", "tp=4", "seq=10", "use 1, 2 (1: without sp)");
    tp_options(&odd)->sp = 0;
    assert_ok(technique_tp.check(&odd));
}

TESTS(unit_test(test_sp_enter_gathers_forward_and_scatters_sums_backward),
      unit_test(test_sp_exit_scatters_sums_forward_and_gathers_backward), unit_test(test_sp_ops_refuse_to_accumulate),
      unit_test(test_sp_ops_change_the_sequence_and_nothing_else), unit_test(test_sp_ops_refuse_other_shapes),
      unit_test(test_sp_ops_bill_what_they_send), unit_test(test_sp_makes_partial_what_is_whole_and_sees_a_part),
      unit_test(test_sp_cuts_the_residual_stream),
      unit_test(test_sp_sends_two_gathers_a_layer_and_the_partial_gradients_more),
      unit_test(test_sp_refuses_what_it_cannot_cut))
