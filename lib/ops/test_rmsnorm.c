/* ranks: 1  device: any */
#include "lib/ops/rmsnorm.h"
#include "lib/ops/test_op.h"

static int n_channels = 5;
static void make(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_rmsnorm, 2);
    op_case_input(c, op_type(dtype, "BTC", 2, 7, n_channels));
    op_case_weight(c, op_type(dtype, "C", n_channels));
    op_case_finish(c);
}

/* 5 channels are fewer than a vector; 77 are whole vectors and a remainder, and more than one block of columns. */
TEST(test_rmsnorm_gradient_is_the_slope) {
    n_channels = 5;
    op_case_check_gradients(make);
    n_channels = 77;
    op_case_check_gradients(make);
}

/* Sums over C = 77 channels and R = 14 rows. stored = 0: rstd is kept in fp32, so backward reads no result rounded to
 * the element type. */
TEST(test_rmsnorm_in_every_precision) {
    n_channels = 77;
    op_case_check_precisions(make, 77, 0);
    op_case_check_aliases(make);
    op_case_check_threads(make);
}

/* By hand: a row of 3 and -4 has the mean square 12.5. */
TEST(test_rmsnorm_is_its_formula) {
    struct op_case c;
    n_channels = 2;
    make(&c, FP64);
    double *x = c.in[0].data, *g = c.weight[0].data, *y = c.out[0].data, *rstd = c.out[1].data;
    x[0] = 3, x[1] = -4, g[0] = 2, g[1] = 0.5;
    op_case_run(&c, ROW_FORWARD);
    assert_close(rstd[0], 1 / sqrt(12.5 + 1e-5), 1e-15);
    assert_close(y[0], 6 / sqrt(12.5 + 1e-5), 1e-15);
    assert_close(y[1], -2 / sqrt(12.5 + 1e-5), 1e-15);
    op_case_free(&c);
}

TEST(test_rmsnorm_refuses_a_sharded_row) {
    struct type x = op_type_part(op_type(FP32, "BTC", 1, 2, 8), 'C', 4, 4), w = op_type(FP32, "C", 8), out[MAX_OUT];
    struct step step = {.op = &op_rmsnorm, .n_in = 1, .n_out = 2, .n_weight = 1};
    struct call call = {.step = &step, .in = {{NULL, &x}}, .weight = {{NULL, &w}}};
    assert_fails(op_rmsnorm.shape(&call, out), E_CONFIG, "rmsnorm", "sharded", "C 4/8@4");
    x = op_type(FP32, "BTC", 1, 2, 4);
    assert_fails(op_rmsnorm.shape(&call, out), E_CONFIG, "rmsnorm", "C 4", "C 8");
}

/* ---- norms of queries and keys ---- */
enum { HEADS = 3 };
static void start(struct op_case *c, const struct op *op, enum dtype dtype, bool keys) {
    op_case_start(c, op, 2);
    op_case_input(c, keys ? op_type(dtype, "BT2JD", 2, 4, 2, HEADS, n_channels)
                          : op_type(dtype, "BTHD", 2, 4, HEADS, n_channels));
}
static void finish(struct op_case *c, struct type weight) {
    op_case_weight(c, weight);
    op_case_finish(c);
}
static void make_q_head(struct op_case *c, enum dtype dtype) {
    start(c, &op_rmsnorm_head, dtype, false);
    finish(c, op_type(dtype, "D", n_channels));
}
static void make_k_head(struct op_case *c, enum dtype dtype) {
    start(c, &op_rmsnorm_head, dtype, true);
    finish(c, op_type(dtype, "D", n_channels));
}
static void make_q_heads(struct op_case *c, enum dtype dtype) {
    start(c, &op_rmsnorm_heads, dtype, false);
    finish(c, op_type(dtype, "HD", HEADS, n_channels));
}
static void make_k_heads(struct op_case *c, enum dtype dtype) {
    start(c, &op_rmsnorm_heads, dtype, true);
    finish(c, op_type(dtype, "JD", HEADS, n_channels));
}
static op_case_maker *const makers[] = {make_q_head, make_k_head, make_q_heads, make_k_heads};
enum { N_MAKERS = sizeof makers / sizeof *makers };

TEST(test_norms_of_heads_have_the_slope) {
    for (n_channels = 6; n_channels <= 70; n_channels += 64)
        for (int i = 0; i < N_MAKERS; i++) op_case_check_gradients(makers[i]);
}

TEST(test_norms_of_heads_in_every_precision) {
    n_channels = 70;
    for (int i = 0; i < N_MAKERS; i++) {
        op_case_check_precisions(makers[i], HEADS * 70, 0);
        op_case_check_aliases(makers[i]);
        op_case_check_threads(makers[i]);
    }
}

/* What the plain norm makes of the same rows, with each head's own part of g; values are copied. */
TEST(test_norms_of_heads_are_norms_of_their_rows) {
    enum { TOKENS = 8, D = 6 };
    n_channels = D;
    for (int i = 0; i < N_MAKERS; i++) {
        struct op_case c;
        makers[i](&c, FP64);
        c.step.norm.eps = 0.003;
        op_case_run(&c, ROW_FORWARD);
        bool keys = i % 2, all = i >= 2;
        int row = all ? HEADS * D : D, token = (keys ? 2 : 1) * HEADS * D;
        const double *x = c.in[0].data, *g = c.weight[0].data, *y = c.out[0].data;
        for (int e = 0; e < TOKENS * token; e++) {
            int in_token = e % token, first = e - in_token + in_token / row * row;
            double squares = 0;
            for (int k = 0; k < row; k++) squares += x[first + k] * x[first + k];
            double normal = x[e] / sqrt(squares / row + 0.003) * g[in_token % row];
            assert_close(y[e], in_token >= HEADS * D ? x[e] : normal, 1e-14);
        }
        op_case_free(&c);
    }
}

static enum status shape_of(const struct op *op, struct type x, struct type w) {
    struct type out[MAX_OUT];
    struct step step = {.op = op, .n_in = 1, .n_out = 2, .n_weight = 1};
    struct call call = {.step = &step, .in = {{NULL, &x}}, .weight = {{NULL, &w}}};
    return op->shape(&call, out);
}

/* A shard of heads has the norm of each of its heads, and not that of all. */
TEST(test_norms_of_heads_refuse_what_they_do_not_see) {
    struct type x = op_type(FP32, "BTHD", 1, 2, 4, 6), half = op_type_part(x, 'H', 2, 2);
    struct type g = op_type(FP32, "HD", 4, 6), head = op_type(FP32, "D", 6);
    assert_ok(shape_of(&op_rmsnorm_head, half, head));
    assert_fails(shape_of(&op_rmsnorm_heads, half, op_type_part(g, 'H', 2, 2)), E_CONFIG, "rmsnorm_heads", "sharded");
    assert_fails(shape_of(&op_rmsnorm_head, op_type_part(x, 'D', 0, 3), op_type_part(head, 'D', 0, 3)), E_CONFIG,
                 "rmsnorm_head", "sharded");
    assert_fails(shape_of(&op_rmsnorm_head, x, g), E_CONFIG, "that of a head");
    assert_fails(shape_of(&op_rmsnorm_heads, x, op_type(FP32, "HD", 2, 6)), E_CONFIG, "last of in[0]");
    assert_fails(shape_of(&op_rmsnorm_heads, op_type(FP32, "BTC", 1, 2, 24), g), E_CONFIG, "must be BTHD");
}

TESTS(unit_test(test_norms_of_heads_have_the_slope), unit_test(test_norms_of_heads_in_every_precision),
      unit_test(test_norms_of_heads_are_norms_of_their_rows),
      unit_test(test_norms_of_heads_refuse_what_they_do_not_see),
      unit_test(test_rmsnorm_gradient_is_the_slope), unit_test(test_rmsnorm_in_every_precision),
      unit_test(test_rmsnorm_is_its_formula), unit_test(test_rmsnorm_refuses_a_sharded_row))
