/* ranks: 1  device: any */
/* Every op's CUDA kernels against its CPU kernels, over shapes drawn with a fixed seed: odd lengths; rows longer and
 * shorter than a warp, than a block, and than the registers of a block; shards that start anywhere. A new op needs a
 * maker and a row of the table. */
#include "lib/ops/add_position.h"
#include "lib/ops/bias_dropout_residual.h"
#include "lib/ops/branch.h"
#include "lib/ops/dropout.h"
#include "lib/ops/embedding.h"
#include "lib/ops/gelu.h"
#include "lib/ops/layernorm.h"
#include "lib/ops/mla.h"
#include "lib/ops/activation.h"
#include "lib/ops/rmsnorm.h"
#include "lib/ops/rope.h"
#include "lib/ops/swiglu.h"
#include "lib/ops/test_op.h"

/* The shape under test: this rank's shard is (B, T, C), positions from first_t on, channels from first_c on. */
static struct { int B, T, C, first_t, first_c, store; double p; bool training, two_runs; } s;

static int rows(void) { return s.B * s.T; }

static struct type part(enum dtype d) {
    struct type t = op_type_part(op_type(d, "BTC", s.B, s.first_t + s.T + 2, s.first_c + s.C + 3), 'T', s.first_t, s.T);
    if (s.two_runs) t.shape.axis[1] = axis_zigzag('T', 2 * s.T, 2, s.T / 2 % 2);
    return op_type_part(t, 'C', s.first_c, s.C);
}

static void make_layernorm(struct op_case *c, enum dtype d) {
    op_case_start(c, &op_layernorm, 2);
    c->step.norm.eps = s.T % 4 == 1 ? 1e-3 : 0;             /* 0: LAYERNORM_EPS */
    if (s.C <= 2) c->din_scale = 1 / sqrt(LAYERNORM_EPS);   /* dx = rstd (d - mean d - n mean(d n)) is only a rounding
                                                             * error */
    op_case_input(c, op_type(d, "BTC", s.B, s.T, s.C));
    op_case_weight(c, op_type(d, "C", s.C));
    op_case_weight(c, op_type(d, "C", s.C));
    op_case_finish(c);
}
/* The longest sum: over C or over the rows. At least 64, because rstd, up to 316 < 64^1.5, multiplies a rounding of
 * x. */
static double layernorm_sum(void) { return fmax(64, fmax(s.C, rows())); }

static void make_rmsnorm(struct op_case *c, enum dtype d) {
    op_case_start(c, &op_rmsnorm, 2);
    if (s.C == 1) c->din_scale = 1 / sqrt(RMSNORM_EPS);     /* dx = rstd (d - n (d n)) is only a rounding error */
    op_case_input(c, op_type(d, "BTC", s.B, s.T, s.C));
    op_case_weight(c, op_type(d, "C", s.C));
    op_case_finish(c);
}

/* Queries, or keys and values; norms of a head, or of all. */
static void make_rmsnorm_heads(struct op_case *c, enum dtype d) {
    int heads = 1 + s.C % 3, D = s.C / heads + 1;
    bool keys = s.T / 2 % 2, all = s.T / 4 % 2;
    op_case_start(c, all ? &op_rmsnorm_heads : &op_rmsnorm_head, 2);
    if (D * heads <= 3) c->din_scale = 1 / sqrt(RMSNORM_EPS);
    op_case_input(c, keys ? op_type(d, "BT2JD", s.B, s.T, 2, heads, D) : op_type(d, "BTHD", s.B, s.T, heads, D));
    op_case_weight(c, all ? op_type(d, keys ? "JD" : "HD", heads, D) : op_type(d, "D", D));
    op_case_finish(c);
}
static double heads_sum(void) { return fmax(64, fmax(s.C + 3, 3 * rows())); }

static void make_swiglu(struct op_case *c, enum dtype d) {
    op_case_start(c, &op_swiglu, 1);
    op_case_input(c, op_type(d, "BT2K", s.B, s.T, 2, s.C));
    op_case_finish(c);
}

static void make_geglu(struct op_case *c, enum dtype d) {
    op_case_start(c, &op_geglu, 1);
    op_case_input(c, op_type(d, "BT2K", s.B, s.T, 2, s.C));
    op_case_finish(c);
}

static void make_swiglu_clamped(struct op_case *c, enum dtype d) {
    op_case_start(c, &op_swiglu_clamped, 1);
    c->step.clamp.limit = 0.35;
    op_case_input(c, op_type(d, "BT2K", s.B, s.T, 2, s.C));
    op_case_finish(c);
}

/* Heads of an even number of channels, at most 256. T selects queries, or keys and values. */
static void make_rope(struct op_case *c, enum dtype d) {
    int heads = 1 + s.C / 256, D = 2 * ((s.C / heads + 1) / 2);
    op_case_start(c, &op_rope, 1);
    c->step.rope = (struct rope_rule){100, s.T % 4 == 3 ? ROPE_YARN : ROPE_UNSCALED, 4, 16, 0.5, 8, 1.2, 0, false};
    struct type x = s.T % 4 == 1 ? op_type(d, "BTHD", s.B, s.first_t + s.T + 2, heads, D)
                                 : op_type(d, "BT2JD", s.B, s.first_t + s.T + 2, 2, heads, D);
    x = op_type_part(x, 'T', s.first_t, s.T);
    if (s.two_runs) x.shape.axis[1] = axis_zigzag('T', 2 * s.T, 2, s.T / 2 % 2);
    op_case_input(c, x);
    op_case_finish(c);
}
static double rope_sum(void) { return 8; }                  /* no sum; roundings of an angle and two products */

static void make_gelu(struct op_case *c, enum dtype d) {
    op_case_start(c, &op_gelu, 1);
    op_case_input(c, part(d));
    op_case_finish(c);
}
static void make_relu(struct op_case *c, enum dtype d) {
    op_case_start(c, &op_relu, 1);
    op_case_input(c, part(d));
    op_case_finish(c);
}
static double gelu_sum(void) { return 16; }                 /* no sum, some roundings: test_gelu.c */

static void dropout_settings(struct op_case *c) {
    c->step.dropout.p = s.p;
    c->settings.training = s.training;
    c->settings.first_sample = 5;
}

static void make_bias_dropout_residual(struct op_case *c, enum dtype d) {
    op_case_start(c, &op_bias_dropout_residual, op_n_out(&op_bias_dropout_residual, s.store));
    dropout_settings(c);
    op_case_input(c, part(d));
    op_case_input(c, part(d));
    op_case_weight(c, op_type_part(op_type(d, "C", s.first_c + s.C + 3), 'C', s.first_c, s.C));
    op_case_finish(c);
}
static double bias_sum(void) { return rows(); }

static void make_dropout_residual(struct op_case *c, enum dtype d) {
    op_case_start(c, &op_dropout_residual, op_n_out(&op_dropout_residual, s.store));
    dropout_settings(c);
    op_case_input(c, part(d));
    op_case_input(c, part(d));
    op_case_finish(c);
}

static void make_add_position(struct op_case *c, enum dtype d) {
    op_case_start(c, &op_add_position, op_n_out(&op_add_position, s.store));
    dropout_settings(c);
    op_case_input(c, part(d));
    struct type table = op_type(d, "TC", s.first_t + 2 * s.T + 3, s.first_c + s.C + 3);
    op_case_weight(c, op_type_part(table, 'C', s.first_c, s.C));
    op_case_finish(c);
}
static double batch_sum(void) { return s.B + 2; }           /* a sum over B, and two roundings of a term */

/* The CPU rounds a gradient in the element type once for each position of its token, at most 4 + rows / 4 times in
 * these draws. stored = 2 allows 2 sqrt(n) such roundings, which is enough. */
static void make_embedding(struct op_case *c, enum dtype d) {
    int V = 7 + 2 * rows();
    op_case_start(c, &op_embedding, 1);
    c->n_tokens = V;
    op_case_input(c, op_type(INT32, "BT", s.B, s.T));
    op_case_weight(c, op_type_part(op_type(d, "VC", V, s.C), 'V', s.first_t, V - s.first_t / 2));   /* with padding */
    op_case_finish(c);
}

static void make_gelu_erf(struct op_case *c, enum dtype d) {
    op_case_start(c, &op_gelu_erf, 1);
    op_case_input(c, part(d));
    op_case_finish(c);
}

static void make_dropout(struct op_case *c, enum dtype d) {
    op_case_start(c, &op_dropout, op_n_out(&op_dropout, s.store));
    dropout_settings(c);
    op_case_input(c, part(d));
    op_case_finish(c);
}

static void make_branch(struct op_case *c, enum dtype d) {
    op_case_start(c, &op_branch, 1);
    op_case_input(c, part(d));
    op_case_finish(c);
}

/* The moves of latent attention: C of a latent, of a head's channels, and of its value; 2 to 4 heads. */
static void make_mla(struct op_case *c, enum dtype d, const struct op *op) {
    int heads = 2 + s.T % 3, shared = 2 * (1 + s.C % 5), before = s.C, value = 1 + s.C * (s.T % 4) / 4;
    op_case_start(c, op, op == &op_mla_split ? 2 : 1);
    c->step.mla = (struct mla_rule){s.C, value};
    if (op == &op_mla_split) op_case_input(c, op_type(d, "BTA", s.B, s.T, s.C + shared));
    if (op == &op_mla_values) op_case_input(c, op_type(d, "BTHD", s.B, s.T, heads, before + shared));
    if (op == &op_mla_keys) {
        op_case_input(c, op_type(d, "BTJW", s.B, s.T, heads, before + value));
        op_case_input(c, op_type(d, "BTS", s.B, s.T, shared));
    }
    op_case_finish(c);
}
static void make_mla_split(struct op_case *c, enum dtype d) { make_mla(c, d, &op_mla_split); }
static void make_mla_keys(struct op_case *c, enum dtype d) { make_mla(c, d, &op_mla_keys); }
static void make_mla_values(struct op_case *c, enum dtype d) { make_mla(c, d, &op_mla_values); }

static const struct { const char *name; op_case_maker *make; double (*longest_sum)(void); int stored; } ops[] = {
    {"layernorm", make_layernorm, layernorm_sum, 0},
    {"gelu", make_gelu, gelu_sum, 0},
    {"bias_dropout_residual", make_bias_dropout_residual, bias_sum, 0},
    {"add_position", make_add_position, batch_sum, 0},
    {"embedding", make_embedding, bias_sum, 2},
    {"rmsnorm", make_rmsnorm, layernorm_sum, 0},
    {"swiglu", make_swiglu, gelu_sum, 0},
    {"rope", make_rope, rope_sum, 0},
    {"dropout_residual", make_dropout_residual, gelu_sum, 0},
    {"relu", make_relu, gelu_sum, 0},
    {"gelu_erf", make_gelu_erf, gelu_sum, 0},
    {"dropout", make_dropout, gelu_sum, 0},
    {"branch", make_branch, gelu_sum, 0},
    {"rmsnorm_heads", make_rmsnorm_heads, heads_sum, 0},
    {"geglu", make_geglu, gelu_sum, 0},
    {"mla_split", make_mla_split, gelu_sum, 0},
    {"mla_keys", make_mla_keys, gelu_sum, 0},
    {"mla_values", make_mla_values, gelu_sum, 0},
    {"swiglu_clamped", make_swiglu_clamped, gelu_sum, 0},
};

static void check_op(int i) {
    print_message("%s B %d T %d@%d C %d@%d p %.1f%s%s%s\n", ops[i].name, s.B, s.T, s.first_t, s.C, s.first_c, s.p,
                  s.store ? " stored" : "", s.training ? "" : " evaluation", s.two_runs ? " two runs" : "");
    op_case_check_siblings(ops[i].make, ops[i].longest_sum(), ops[i].stored);
}

enum { N_SHAPES = 30, MOST_ELEMENTS = 2000 };   /* MOST_ELEMENTS: T is reduced to fit, but not below 2 */

static int draw(int shape, int what, int n) {
    return (int)(rng_uniform(11, rng_stream("shapes"), (uint64_t)(shape * 16 + what)) * n);
}

static void draw_shape(int i) {
    static const int C[] = {1, 2, 3, 7, 8, 31, 33, 63, 64, 65, 127, 384, 768, 1023, 1600}, B[] = {1, 3, 5};
    static const int first_c[] = {0, 0, 0, 3, 4, 8};
    s.C = C[i % 15];                                        /* every length twice */
    s.B = B[draw(i, 0, 3)];
    s.two_runs = draw(i, 7, 3) == 0;
    s.T = 1 + s.two_runs + 2 * draw(i, 1, 20);
    while (s.T > 2 && rows() * s.C > MOST_ELEMENTS) s.T -= 2;
    s.first_t = draw(i, 2, 2) * 3;
    s.first_c = first_c[draw(i, 3, 6)];
    s.store = draw(i, 4, 2);
    s.p = draw(i, 5, 4) * 0.3;
    s.training = draw(i, 6, 8) > 0;
}

/* On the CPU every op is compared with itself, so three shapes are enough to test the makers. */
static void check_drawn_shapes(int op) {
    for (int i = 0; i < (test_device()->kind == DEVICE_CPU ? 3 : N_SHAPES); i++) {
        draw_shape(i);
        check_op(op);
    }
}

TEST(test_siblings_layernorm) { check_drawn_shapes(0); }
TEST(test_siblings_gelu) { check_drawn_shapes(1); }
TEST(test_siblings_bias_dropout_residual) { check_drawn_shapes(2); }
TEST(test_siblings_add_position) { check_drawn_shapes(3); }
TEST(test_siblings_embedding) { check_drawn_shapes(4); }
TEST(test_siblings_rmsnorm) { check_drawn_shapes(5); }
TEST(test_siblings_swiglu) { check_drawn_shapes(6); }
TEST(test_siblings_rope) { check_drawn_shapes(7); }
TEST(test_siblings_dropout_residual) { check_drawn_shapes(8); }
TEST(test_siblings_relu) { check_drawn_shapes(9); }
TEST(test_siblings_gelu_erf) { check_drawn_shapes(10); }
TEST(test_siblings_dropout) { check_drawn_shapes(11); }
TEST(test_siblings_branch) { check_drawn_shapes(12); }
TEST(test_siblings_rmsnorm_heads) { check_drawn_shapes(13); }
TEST(test_siblings_geglu) { check_drawn_shapes(14); }
TEST(test_siblings_swiglu_clamped) { check_drawn_shapes(18); }
TEST(test_siblings_of_latent_attention) {
    for (int op = 15; op < 18; op++) check_drawn_shapes(op);
}

/* Rows longer than a block's registers: 8192 columns in fp32 and fp64, 16384 in bf16 and fp16. 8196 is no multiple of
 * 8. */
TEST(test_siblings_of_long_rows) {
    for (s.C = 8196; s.C <= 16400; s.C += 16400 - 8196) {
        s.B = 1, s.T = 2, s.two_runs = false;
        check_op(0);
        check_op(5);
        check_op(13);
    }
}

/* Many rows of few columns: column sums over many slices, whose number is not a multiple of the warps that add them. */
TEST(test_siblings_of_many_rows) {
    s.B = 3, s.T = 701, s.C = 4, s.first_c = s.first_t = 0, s.store = 0, s.p = 0.3, s.training = true;
    s.two_runs = false;
    check_op(0);
    check_op(2);
    check_op(5);
}

TESTS(unit_test(test_siblings_layernorm), unit_test(test_siblings_gelu), unit_test(test_siblings_bias_dropout_residual),
      unit_test(test_siblings_add_position), unit_test(test_siblings_embedding), unit_test(test_siblings_rmsnorm),
      unit_test(test_siblings_swiglu), unit_test(test_siblings_rope), unit_test(test_siblings_dropout_residual),
      unit_test(test_siblings_relu), unit_test(test_siblings_gelu_erf), unit_test(test_siblings_dropout),
      unit_test(test_siblings_branch), unit_test(test_siblings_rmsnorm_heads), unit_test(test_siblings_geglu),
      unit_test(test_siblings_of_latent_attention), unit_test(test_siblings_swiglu_clamped),
      unit_test(test_siblings_of_long_rows), unit_test(test_siblings_of_many_rows))
