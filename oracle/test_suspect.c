/* ranks: 1  device: cpu
 *
 * Each signature fits a tensor spoiled in its way, and none fits a tensor with random errors. */
#include "lib/base/rng.h"
#include "oracle/suspect.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 8, SIZE = N * N * N };

/* A step of two ranks: weights of a matrix (8, 8) before and after, its gradient and moments; an activation (8, 8, 8);
 * a vector. Clipping by a half. */
struct world {
    struct evidence e;
    struct kept run, reference;
    double x[SIZE], y[SIZE], before[SIZE], gradient[N * N], m[N * N], v[N * N];
    json_t *adamw;
};
static struct world w;

static double draw(uint64_t stream, int64_t i) { return rng_normal(7, stream, (uint64_t)i); }

static double *add(struct kept *k, const char *name, int rank, int n_axes, const double *values) {
    struct kept_piece p = {.box = {.n_axes = n_axes}, .rank = rank, .parts = 1};
    for (int a = 0; a < n_axes; a++) p.box.of[a] = p.box.n[a] = N;
    snprintf(p.name, sizeof p.name, "%s", name);
    double *x = kept_add(k, &p);
    memcpy(x, values, (size_t)box_n(&p.box) * sizeof *x);
    return x;
}

static double step_of(int64_t i, double eps, double c1, double c2) {
    return 1e-2 * (w.m[i] / c1 / (sqrt(w.v[i] / c2) + eps) + 0.1 * w.before[i]);
}

/* Begin a case with x = y, which the test then spoils. The name's end tells the kind: .act has three axes, the others
 * two; a number has one element (n_axes 0). */
static void begin(const char *name, int n_axes) {
    struct box b = {.n_axes = n_axes ? n_axes : 1};
    for (int a = 0; a < b.n_axes; a++) b.of[a] = b.n[a] = n_axes ? N : 1;
    w = (struct world){.adamw = json_pack("{s:[f,f,f],s:[f,f],s:f,s:f}", "lr", 5e-3, 1e-2, 4e-3, "betas", 0.9, 0.95,
                                          "eps", 1e-8, "weight_decay", 0.1)};
    for (int i = 0; i < SIZE; i++) w.y[i] = draw(1, i), w.before[i] = draw(2, i);
    for (int i = 0; i < N * N; i++) {
        w.gradient[i] = 1e-3 * draw(3, i) * (1 + i / N), w.m[i] = 0.19 * w.gradient[i] / 2;
        w.v[i] = 0.0975 * w.gradient[i] * w.gradient[i] / 4;
    }
    if (strstr(name, ".param"))
        for (int i = 0; i < N * N; i++) w.y[i] = w.before[i] - step_of(i, 1e-8, 0.19, 0.0975);
    if (n_axes == 0) w.y[0] = 3;
    memcpy(w.x, w.y, sizeof w.x);
    int64_t n = box_n(&b);
    add(&w.reference, "layer.weight.grad", 0, 2, w.gradient);
    add(&w.reference, "layer.weight.moment1", 0, 2, w.m);
    add(&w.reference, "layer.weight.moment2", 0, 2, w.v);
    w.e = (struct evidence){.c = {.step = 2, .name = name, .verdict = TENSOR_WRONG}, .limit = 1e-7, .ranks = 2,
                            .run = &w.run, .reference = &w.reference, .adamw = w.adamw, .clip_factor = 0.4};
    w.e.x = (struct whole){name, b, w.x, n, 0, 0, 0, 0};
    w.e.y = (struct whole){name, b, w.y, n, 0, 0, 0, 0};
    if (strstr(name, ".param") || strstr(name, ".moment"))
        w.e.before = (struct whole){name, b, w.before, n, 0, 0, 0, 0};
}

/* The first suspect is this one, and its detail says `word`; id NULL: there is none. */
static void assert_suspect(const char *id, const char *word) {
    struct suspicion out[MAX_SUSPECTS];
    int n = suspect_all(&w.e, out);
    if (!id && n) fail_msg("suspects %s: %s", out[0].id, out[0].detail);
    if (id && !n) fail_msg("no suspect, and %s should be", id);
    if (id && strcmp(out[0].id, id)) fail_msg("suspects %s (%s), and not %s", out[0].id, out[0].detail, id);
    if (id && !strstr(out[0].detail, word)) fail_msg("%s says %s, and not %s", id, out[0].detail, word);
    kept_fini(&w.run);
    kept_fini(&w.reference);
    json_decref(w.adamw);
}

TEST(test_noise_is_no_suspect) {
    static const char *const NAMES[] = {"layer.weight.grad", "layer.weight.param", "layer.weight.moment1",
                                        "layer.weight.moment2"};
    for (int k = 0; k < 4; k++) {
        begin(NAMES[k], 2);
        for (int i = 0; i < N * N; i++) w.x[i] *= 1 + 0.1 * draw(9, i);
        w.e.c.step = 1;
        assert_suspect(NULL, "");
    }
    begin("layer.act", 3);
    for (int i = 0; i < SIZE; i++) w.x[i] += 0.1 * draw(9, i);
    assert_suspect(NULL, "");
    begin("grad_norm", 0);
    w.x[0] *= 1.234;
    assert_suspect(NULL, "");
}

/* A tensor with a NaN has no suspect, whatever its other elements are. */
TEST(test_nan_is_no_suspect) {
    double part[2][N * N];
    for (int where = 0; where < 2; where++) {
        begin("layer.weight.grad", 2);
        w.e.c.verdict = TENSOR_APART;
        for (int i = 0; i < N * N; i++) part[0][i] = 0.5 * w.y[i] + draw(5, i), part[1][i] = 0.5 * w.y[i] - draw(5, i);
        part[where][where ? N * N - 1 : 0] = NAN;
        for (int r = 0; r < 2; r++) add(&w.run, "layer.weight.grad", r, 2, part[r]);
        assert_suspect(NULL, "");
    }
    begin("layer.weight.moment1", 2);
    w.e.c.step = 1;
    for (int i = 0; i < N * N; i++) w.x[i] += 0.1 * 0.1 * w.before[i];
    w.x[3] = NAN;
    assert_suspect(NULL, "");
}

/* ---- factors ---- */
TEST(test_factors_have_names) {
    const struct { double factor; const char *word; } TRIED[] = {{2, "number of ranks"}, {0.5, "one by the number"},
        {-1, "sign"}, {0.4, "factor of clipping"}, {2.5, "one by the factor of clipping"}, {7, "7 times"}};
    for (size_t k = 0; k < sizeof TRIED / sizeof *TRIED; k++) {
        begin("layer.weight.grad", 2);
        for (int i = 0; i < N * N; i++) w.x[i] *= TRIED[k].factor;
        assert_suspect("ratio", TRIED[k].word);
    }
    begin("loss", 0);
    w.x[0] *= 2;
    assert_suspect("ratio", "2 times");
    begin("layer.weight.grad", 2);
    memset(w.x, 0, sizeof w.x);
    assert_suspect("zero", "64 elements");
}

/* ---- ranks ---- */
static void spoil_ranks(double of_0, double of_1) {
    double part[2][N * N];
    begin("layer.weight.grad", 2);
    w.e.c.verdict = TENSOR_APART;
    for (int i = 0; i < N * N; i++)
        part[0][i] = of_0 * w.y[i] + draw(5, i), part[1][i] = of_1 * w.y[i] - draw(5, i);
    for (int r = 0; r < 2; r++) add(&w.run, "layer.weight.grad", r, 2, part[r]);
    memcpy(w.x, part[0], sizeof part[0]);
}

TEST(test_ranks_that_were_never_summed) {
    spoil_ranks(0.4, 0.6);
    assert_suspect("unsummed", "sum of what the 2 ranks");
    spoil_ranks(0.8, 1.2);
    assert_suspect("unaveraged", "mean of what the 2 ranks");
    begin("layer.weight.grad", 2);
    w.e.c.verdict = TENSOR_APART;
    add(&w.run, "layer.weight.grad", 0, 2, w.y);
    w.x[3] += 1;
    add(&w.run, "layer.weight.grad", 1, 2, w.x);
    assert_suspect("one rank", "rank 1");
}

TEST(test_a_tied_weight_that_is_two) {
    double other[N * N];
    begin("layer.weight.grad", 2);
    for (int i = 0; i < N * N; i++) other[i] = draw(6, i), w.x[i] -= other[i];
    add(&w.run, "head.weight.grad", 0, 2, other);
    assert_suspect("untied", "head.weight.grad");
}

/* ---- another time and place ---- */
TEST(test_the_step_before) {
    begin("layer.weight.param", 2);
    memcpy(w.x, w.before, sizeof w.x);
    assert_suspect("stale", "step before");
}

TEST(test_one_place_further) {
    for (int axis = 0; axis < 3; axis++) {
        int stride = axis == 0 ? N * N : axis == 1 ? N : 1;
        begin("layer.act_grad", 3);
        for (int i = 0; i < SIZE; i++)
            if (i / stride % N > 0) w.x[i] = w.y[i - stride];
        char word[32];
        snprintf(word, sizeof word, "up along axis %d", axis);
        assert_suspect("shifted", word);
    }
}

TEST(test_another_order) {
    begin("layer.weight.grad", 2);
    for (int i = 0; i < N * N; i++) w.x[i] = w.y[i % N * N + i / N];
    assert_suspect("transposed", "rows and columns");
    begin("layer.weight.grad", 2);
    for (int i = 0; i < N * N; i++) w.x[i] = w.y[(i / N + 4) % N * N + i % N];     /* its halves are swapped */
    assert_suspect("permuted", "axis 0");
}

TEST(test_where_it_is_wrong) {
    begin("layer.act", 3);
    for (int i = 0; i < SIZE; i++) w.x[i] += (i / N % N >= 5) * 0.1 * draw(9, i);
    assert_suspect("positions", "positions 5 to 7 of 8");
    begin("layer.weight.grad", 2);
    for (int i = 2 * N; i < 4 * N; i++) w.x[i] += 0.1 * draw(9, i);
    assert_suspect("region", "places 2 to 3 of 8 along axis 0 are wrong");
}

/* A shard's last rows are missing, or were not updated. One element that has another value is neither. */
TEST(test_what_a_wrong_part_has_instead) {
    for (int old = 0; old < 2; old++)
        for (int odd = 0; odd < 2; odd++) {
            begin("layer.weight.param", 2);
            for (int i = 5 * N; i < N * N; i++) w.x[i] = old ? w.before[i] : 0;
            if (odd) w.x[6 * N] = 7;
            struct suspicion out[MAX_SUSPECTS];
            int n = suspect_all(&w.e, out);
            assert_int_equal(n, 1);
            assert_string_equal(out[0].id, "region");
            assert_non_null(strstr(out[0].detail, "places 5 to 7 of 8 along axis 0 are wrong"));
            assert_int_equal(strstr(out[0].detail, "they are 0, as a tail") != NULL, !old && !odd);
            assert_int_equal(strstr(out[0].detail, "values of the step before") != NULL, old && !odd);
            kept_fini(&w.run);
            kept_fini(&w.reference);
            json_decref(w.adamw);
        }
}

TEST(test_a_bias_too_many) {
    begin("layer.act", 3);
    for (int i = 0; i < SIZE; i++) w.x[i] += draw(8, i % N);
    assert_suspect("constant vector", "at every token");
}

TEST(test_dropout) {
    begin("layer.act", 3);
    for (int i = 0; i < SIZE; i++) w.x[i] = rng_uniform(1, 2, (uint64_t)i) < 0.25 ? 0 : w.y[i] / 0.75;
    assert_suspect("dropout", "1.33 times");
}

/* ---- norm and optimizer ---- */
TEST(test_a_norm_with_half_of_a_tensor_more_counts_nothing) {
    double squares = 0;
    begin("grad_norm", 0);
    for (int i = 0; i < N * N; i++) squares += w.gradient[i] * w.gradient[i];
    w.e.limit = 1e-9;
    w.x[0] = sqrt(w.y[0] * w.y[0] + 0.6 * squares);
    assert_suspect(NULL, "");
}

TEST(test_a_norm_that_counts_wrongly) {
    double squares = 0;
    for (int times = 0; times <= 3; times += times ? 1 : 2) {
        begin("grad_norm", 0);
        squares = 0;
        for (int i = 0; i < N * N; i++) squares += w.gradient[i] * w.gradient[i];
        w.e.limit = 1e-9;
        w.x[0] = sqrt(w.y[0] * w.y[0] + (times - 1) * squares);
        assert_suspect("norm counts", times == 0 ? "leaves out layer.weight" : times == 2 ? "2 times" : "3 times");
    }
}

TEST(test_gradients_that_were_not_clipped) {
    begin("layer.weight.moment1", 2);
    w.e.c.step = 1;
    for (int i = 0; i < N * N; i++) w.x[i] = w.y[i] / 0.4;
    assert_suspect("unclipped", "not clipped");
    begin("layer.weight.moment2", 2);
    w.e.c.step = 1;
    for (int i = 0; i < N * N; i++) w.x[i] = w.y[i] / 0.16;
    assert_suspect("unclipped", "not clipped");
}

TEST(test_decay) {
    for (int sign = -1; sign <= 1; sign += 2) {
        begin("layer.weight.param", 2);
        for (int i = 0; i < N * N; i++) w.x[i] += sign * 1e-3 * w.before[i];
        assert_suspect("decay", sign < 0 ? "should not" : "does not decay");
    }
    begin("layer.weight.moment1", 2);
    w.e.c.step = 1;
    for (int i = 0; i < N * N; i++) w.x[i] += 0.1 * 0.1 * w.before[i];
    assert_suspect("coupled decay", "Adam's");
}

TEST(test_rates) {
    const struct { double factor; const char *word; } TRIED[] = {{0.5, "step before"}, {0.4, "next step"}, {3, "0.03"}};
    for (int k = 0; k < 3; k++) {
        begin("layer.weight.param", 2);
        for (int i = 0; i < N * N; i++) w.x[i] = w.before[i] + TRIED[k].factor * (w.y[i] - w.before[i]);
        assert_suspect("rate", TRIED[k].word);
    }
}

TEST(test_adam_otherwise) {
    const struct { double eps, c1, c2; const char *id, *word; } TRIED[] = {
        {1e-8, 1, 1, "bias correction", "neither"}, {1e-8, 0.19, 1, "bias correction", "second moment"},
        {1e-8, 1, 0.0975, "bias correction", "first moment"}, {1e-4, 0.19, 0.0975, "epsilon", "0.0001"}};
    for (size_t k = 0; k < sizeof TRIED / sizeof *TRIED; k++) {
        begin("layer.weight.param", 2);
        w.e.limit = 1e-9;
        for (int i = 0; i < N * N; i++)
            w.x[i] = w.before[i] - step_of(i, TRIED[k].eps, TRIED[k].c1, TRIED[k].c2);
        assert_suspect(TRIED[k].id, TRIED[k].word);
    }
}

TESTS(unit_test(test_noise_is_no_suspect), unit_test(test_nan_is_no_suspect), unit_test(test_factors_have_names),
      unit_test(test_ranks_that_were_never_summed), unit_test(test_a_tied_weight_that_is_two),
      unit_test(test_the_step_before), unit_test(test_one_place_further), unit_test(test_another_order),
      unit_test(test_where_it_is_wrong),
      unit_test(test_what_a_wrong_part_has_instead), unit_test(test_a_bias_too_many), unit_test(test_dropout),
      unit_test(test_a_norm_that_counts_wrongly),
      unit_test(test_a_norm_with_half_of_a_tensor_more_counts_nothing), unit_test(test_gradients_that_were_not_clipped),
      unit_test(test_decay), unit_test(test_rates), unit_test(test_adam_otherwise))
