/* ranks: 1 2 4  more: 8  device: cpu
 *
 * Context parallelism equals the serial run, together with every other technique. */
#include "cp/cp.h"
#include "cp/cp_block.h"
#include "driver/recipe.h"
#include "lib/ops/test_op.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp.h"
#include "zero/zero.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct trial { int cp, heads, dp, tp, pp, sp, zero, offload, recompute, schedule, micro; } TRIALS[] = {
    {.cp = 2}, {.cp = 2, .zero = 1, .micro = 4}, {.cp = 2, .zero = 2}, {.cp = 2, .zero = 3, .micro = 8},
    {.cp = 2, .recompute = RECOMPUTE_FULL}, {.cp = 2, .recompute = RECOMPUTE_SELECTIVE},
    {.cp = 4}, {.cp = 4, .zero = 3}, {.cp = 2, .dp = 2}, {.cp = 2, .dp = 2, .zero = 1}, {.cp = 2, .dp = 2, .zero = 3},
    {.cp = 4, .heads = 2}, {.cp = 4, .heads = 2, .zero = 3, .micro = 4}, {.cp = 4, .heads = 4},
    {.cp = 2, .tp = 2}, {.cp = 2, .tp = 2, .sp = 1}, {.cp = 2, .tp = 2, .sp = 1, .zero = 2, .micro = 4},
    {.cp = 2, .pp = 2, .micro = 4}, {.cp = 2, .pp = 2, .micro = 2, .schedule = SCHEDULE_ZB_V},
    {.cp = 2, .dp = 2, .zero = 1, .offload = OFFLOAD_OPTIMIZER},
    {.cp = 8}, {.cp = 4, .dp = 2, .zero = 2}, {.cp = 4, .tp = 2}, {.cp = 2, .dp = 2, .tp = 2, .sp = 1, .zero = 3},
    {.cp = 8, .heads = 2}, {.cp = 4, .heads = 2, .tp = 2, .sp = 1, .zero = 1},
    {.cp = 4, .heads = 2, .pp = 2, .micro = 4},
    {.cp = 2, .tp = 2, .pp = 2, .sp = 1, .micro = 4, .recompute = RECOMPUTE_FULL},
    {.cp = 2, .dp = 2, .pp = 2, .micro = 2, .zero = 1, .schedule = SCHEDULE_INTERLEAVED},
    {.cp = 2, .pp = 4, .micro = 2, .schedule = SCHEDULE_CHIMERA},
};
enum { N_TRIALS = sizeof TRIALS / sizeof *TRIALS };

static int at_least_1(int n) { return n ? n : 1; }

static struct plan plan_of(const struct trial *t, int by) {
    struct plan p = parity_plan();
    p.mesh.cp = t->cp, p.mesh.dp = at_least_1(t->dp), p.mesh.tp = at_least_1(t->tp), p.mesh.pp = at_least_1(t->pp);
    cp_options(&p)->by = by;
    p.mesh.cp_heads = at_least_1(t->heads);
    p.micro_batch = t->micro ? t->micro : 16 / p.mesh.dp;
    plan_set_number(&p, "sp", t->sp);
    plan_set_number(&p, "zero", t->zero);
    zero_options(&p)->offload = t->offload;
    recompute_options(&p)->kind = t->recompute;
    pp_options(&p)->schedule = t->schedule ? t->schedule : SCHEDULE_1F1B;
    pp_options(&p)->chunks = t->schedule == SCHEDULE_INTERLEAVED ? 2 : 1;
    return p;
}

TEST(test_every_layout_with_cp_equals_serial_fp64) {
    struct plan serial = parity_plan();
    struct reference reference;
    int seen = 0, failed = 0;
    enum status status = reference_init(&reference, &serial);
    for (int k = 0; agree_all(status == OK) && k < 3 * N_TRIALS; k++) {
        int i = k / 3, by = k % 3;
        struct plan p = plan_of(&TRIALS[i], by);
        if (mesh_n_ranks(&p.mesh) != comm_world_size() || (by != CP_BY_ULYSSES && p.mesh.cp == 8) ||
            (by == CP_BY_ULYSSES && TRIALS[i].heads))
            continue;
        enum status tried = plan_settle(&p, comm_world_size());
        failed += !layout_is_serial(&p, tried, &reference);
        seen++;
    }
    reference_fini(&reference);
    assert_ok(status);
    assert_true(seen > 0 || comm_world_size() == 1);
    assert_int_equal(failed, 0);
}

static void check_refused(struct plan p, const char *what, const char *remedy) {
    assert_ok(plan_settle(&p, 0));
    assert_fails(technique_cp.check(&p), E_CONFIG, what, remedy);
}

TEST(test_cp_refuses) {
    struct plan p = plan_of(&(struct trial){.cp = 8}, CP_BY_RING);
    check_refused(p, "cp=8 makes 16 pieces", "seq=8");
    p = plan_of(&(struct trial){.cp = 4, .tp = 4}, CP_BY_ULYSSES);
    check_refused(p, "heads=8", "cp-by ring");
    p = plan_of(&(struct trial){.cp = 4, .heads = 3}, CP_BY_RING);
    check_refused(p, "cp-heads=3 does not divide cp=4", "1, 2, 4");
    p = plan_of(&(struct trial){.cp = 4, .heads = 2}, CP_BY_ULYSSES);
    check_refused(p, "cp-by=ulysses", "leave cp-by out, or cp-heads");
    p = plan_of(&(struct trial){.cp = 2}, CP_BY_GATHER);
    model_options(&p)->attention = ATTENTION_MATERIALISED;
    check_refused(p, "cp-by=gather", "attention=blocked");
    p = plan_of(&(struct trial){.cp = 2}, CP_BY_RING);
    assert_ok(plan_settle(&p, 0));
    p.attention_core = ATTENTION_CORE_CUDNN;                         /* a plan for the CPU is refused earlier */
    assert_fails(technique_cp.check(&p), E_CONFIG, "cp-by=ring", "attention-core auto");
}

/* Check the pairs given to the kernels: numbers of queries and keys. */
static void check_meetings(int part, enum attention_mask mask, int n, const int64_t sizes[][2]) {
    struct type x = op_type(BF16, "BT3HD", 2, 64, 3, 4, 16);
    x.shape.axis[1] = axis_zigzag('T', 64, 4, part);
    struct step step = {.op = &op_cp_ring, .n_in = 1, .n_out = 2, .parts = 4, .part = part, .attention.mask = mask};
    const struct call call = {.step = &step, .in = {{NULL, &x}}, .training = true};
    for (int backward = 0; backward < 2; backward++) {
        struct attention_pair pairs[ATTENTION_PAIRS];
        assert_int_equal(cp_meetings(&call, backward, pairs), n);
        for (int i = 0; i < n; i++) {
            assert_int_equal(pairs[i].Tq, sizes[i][0]);
            assert_int_equal(pairs[i].Tk, sizes[i][1]);
            assert_int_equal(pairs[i].causal, mask == MASK_CAUSAL && sizes[i][0] == sizes[i][1]);
            assert_int_equal(pairs[i].sums, backward);
        }
    }
}

TEST(test_cp_meets_earlier_own_and_later_keys) {
    const int64_t first[][2] = {{16, 16}, {8, 16}}, middle[][2] = {{16, 8}, {16, 16}, {8, 16}},
                  last[][2] = {{16, 8}, {16, 16}}, whole[][2] = {{16, 16}, {16, 16}, {16, 16}};
    check_meetings(0, MASK_CAUSAL, 2, first);
    check_meetings(1, MASK_CAUSAL, 3, middle);
    check_meetings(3, MASK_CAUSAL, 2, last);
    check_meetings(1, MASK_FULL, 3, whole);
}

TESTS(unit_test(test_every_layout_with_cp_equals_serial_fp64), unit_test(test_cp_refuses),
      unit_test(test_cp_meets_earlier_own_and_later_keys))
