/* ranks: 1  device: cpu
 *
 * Every gather and every scatter of a param sends its padded bytes (N-1)/N. This test counts gathers and scatters by
 * hand, from the params' names, for several numbers of microbatches m:
 *
 *   stage 1    scattered once, gathered once                           2
 *   stage 2    scattered in each microbatch, gathered once             m + 1
 *   stage 3    scattered, and gathered twice, in each microbatch       3 m
 *
 * A tied weight is sent once per use: the embedding's table also makes the logits. At stage 3 a weight is gathered for
 * backward only if backward reads it: dx of a product reads the matrix, dx of a layernorm its gain. Backward reads no
 * bias and no position table, and the embedding has no dx. */
#include "driver/recipe.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "zero/zero.h"
#include <string.h>

static struct plan plan_of(int zero, int dp, int pp, int m) {
    struct plan plan = parity_plan();
    plan.layers = 4;
    zero_options(&plan)->stage = zero;
    plan.mesh.dp = dp;
    plan.mesh.pp = pp;
    plan.micro_batch = 1;
    plan.global_batch = dp * m;
    return plan;
}

/* ---- how often ---- */
static bool has(const char *name, const char *part) { return strstr(name, part) != NULL; }
static bool is_tied(const char *name) { return has(name, "wte"); }

/* The tied table is used twice: by the embedding on the first stage, by the logits on the last. */
static int uses(const char *name, const struct mesh_place *at) {
    if (!is_tied(name)) return 1;
    return (at->rank.pp == 0) + (at->rank.pp == at->n.pp - 1);
}
static int uses_in_backward(const char *name, const struct mesh_place *at) {
    if (is_tied(name)) return at->rank.pp == at->n.pp - 1;
    return has(name, ".g") || (has(name, ".w") && !has(name, "wpe"));
}

static int transfers(const char *name, const struct plan *plan, int m) {
    int n = uses(name, &plan->place);
    if (zero_options(plan)->stage == 1) return 2;
    if (zero_options(plan)->stage == 2) return m * n + 1;
    return m * (n + uses_in_backward(name, &plan->place) + n);
}

/* ---- against the bill ---- */
static double expected_bytes(const struct run *r, int m) {
    double bytes = 0, N = (double)r->plan.mesh.dp;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        int64_t shard = (type_n(&w->type) + r->plan.mesh.dp - 1) / r->plan.mesh.dp;
        if (w->present)
            bytes +=
                transfers(w->name, &r->plan, m) * (double)shard * N * (double)dtype_size(w->type.dtype) * (N - 1) / N;
    }
    return bytes;
}

static void check_bill(struct plan plan, int m) {
    for (int rank = 0; rank < plan_ranks(&plan); rank++) {
        struct run r;
        assert_ok(plan_settle(&plan, plan_ranks(&plan)));
        assert_ok(run_compile(&r, &train_recipe, &plan, rank, NULL, NULL));
        assert_int_equal(r.plan.n_microbatches, m);
        assert_close(r.bill.wire_bytes[AXIS_DP], expected_bytes(&r, m), 1e-9 * expected_bytes(&r, m));
        run_destroy(&r);
    }
}

TEST(test_zero_wire_counts_gathers_and_scatters) {
    for (int zero = 1; zero <= 3; zero++)
        for (int dp = 1; dp <= 5; dp++)
            for (int m = 1; m <= 4; m++)
                for (int pp = 1; pp <= 2; pp++) check_bill(plan_of(zero, dp, pp, m), m);
}

TEST(test_zero_wire_counts_in_every_precision) {
    static const int precisions[] = {PRECISION_FP32, PRECISION_BF16};
    for (int zero = 1; zero <= 3; zero++)
        for (int i = 0; i < 2; i++) {
            struct plan plan = plan_of(zero, 3, 1, 2);
            plan.precision = precisions[i];
            check_bill(plan, 2);
        }
}

/* The bytes do not depend on buckets. Stage 1 sends the bytes of dp's all-reduce, plus padding. */
static double bill_of(int zero, double bucket_mb) {
    struct run r;
    struct plan plan = plan_of(zero, 4, 1, 2);
    grad_options(&plan)->bucket_mb = bucket_mb;
    assert_ok(plan_settle(&plan, 4));
    assert_ok(run_compile(&r, &train_recipe, &plan, 0, NULL, NULL));
    double bytes = r.bill.wire_bytes[AXIS_DP];
    run_destroy(&r);
    return bytes;
}

TEST(test_zero_wire_does_not_depend_on_buckets) {
    for (int zero = 1; zero <= 3; zero++) assert_close(bill_of(zero, 1e-6), bill_of(zero, 100), 1e-6);
    assert_close(bill_of(1, 1) / bill_of(0, 1), 1, 0.01);
}

TESTS(unit_test(test_zero_wire_counts_gathers_and_scatters), unit_test(test_zero_wire_counts_in_every_precision),
      unit_test(test_zero_wire_does_not_depend_on_buckets))
