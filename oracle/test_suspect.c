/* ranks: 1  device: cpu
 *
 * Each signature fits a tensor spoiled in its way, and none fits a tensor with random errors. */
#include "lib/base/rng.h"
#include "oracle/suspect.h"
#include "tests/test.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 8, SIZE = N * N * N };

/* A step of two ranks: weights of a matrix (8, 8) before and after, its gradient and moments; an activation (8, 8, 8);
 * a vector. Clipping by a half. */
struct world {
    struct evidence e;
    struct kept run, reference, last, older;
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
                            .run = &w.run, .reference = &w.reference, .last = &w.last, .older = &w.older,
                            .adamw = w.adamw, .clip_factor = 0.4};
    w.e.x = (struct whole){name, b, w.x, n, 0, 0, 0, 0};
    w.e.y = (struct whole){name, b, w.y, n, 0, 0, 0, 0};
    if (strstr(name, ".param") || strstr(name, ".moment"))
        w.e.before = (struct whole){name, b, w.before, n, 0, 0, 0, 0};
}

static void end(void) {
    kept_fini(&w.run);
    kept_fini(&w.reference);
    kept_fini(&w.last);
    kept_fini(&w.older);
    json_decref(w.adamw);
}

/* The first suspect is this one, and its detail says `word`; id NULL: there is none. */
static void assert_suspect(const char *id, const char *word) {
    struct suspicion out[MAX_SUSPECTS];
    int n = suspect_all(&w.e, out);
    if (!id && n) fail_msg("suspects %s: %s", out[0].id, out[0].detail);
    if (id && !n) fail_msg("no suspect, and %s should be", id);
    if (id && strcmp(out[0].id, id)) fail_msg("suspects %s (%s), and not %s", out[0].id, out[0].detail, id);
    if (id && !strstr(out[0].detail, word)) fail_msg("%s says %s, and not %s", id, out[0].detail, word);
    end();
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

/* Noise that is little beyond the limit is none, whatever is within the limit of it; a cause of that size is one. */
TEST(test_noise_at_the_limit_is_no_suspect) {
    static const double BEYOND[] = {1.02, 1.2, 1.5, 1.9, 2.5};
    static const char *const NAMES[] = {"layer.bias.grad", "layer.weight.moment2", "layer.act"};
    for (int kind = 0; kind < 3; kind++)
        for (int k = 0; k < 5; k++)
            for (int noise = 0; noise < 20; noise++) {
                double most = 0;
                begin(NAMES[kind], 1 + kind);
                for (int i = 0; i < w.e.y.n; i++) {
                    w.x[i] *= noise ? 1 + 0.1 * draw(9 + (uint64_t)noise, i) : 1.1;
                    most = fmax(most, fabs(w.x[i] - w.y[i]));
                }
                w.e.limit = most / BEYOND[k];
                assert_suspect(noise ? NULL : "ratio", "1.1 times what it should be");
            }
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

/* ranks[]: what each of four ranks has; NULL: nothing. */
static void hold(const double *of_rank[4]) {
    begin("layer.weight.grad", 2);
    w.e.c.verdict = TENSOR_APART, w.e.ranks = 4;
    for (int r = 0; r < 4; r++)
        if (of_rank[r]) add(&w.run, "layer.weight.grad", r, 2, of_rank[r]);
    memcpy(w.x, of_rank[0], N * N * sizeof *w.x);
}

/* Two by two ranks, whose gradients must be averaged over ranks (0, 2) and (1, 3), are averaged over (0, 1), (2, 3). */
TEST(test_a_sum_over_other_ranks) {
    double part[2][N * N], other[N * N];
    begin("layer.weight.grad", 2);
    for (int i = 0; i < N * N; i++) part[0][i] = w.y[i] + draw(5, i), part[1][i] = w.y[i] - draw(5, i);
    end();
    hold((const double *[]){part[0], part[0], part[1], part[1]});
    assert_suspect("wrong group", "4 ranks have 2 values of it, and the mean of these is right");
    hold((const double *[]){part[0], part[1], part[0], part[1]});
    assert_suspect("wrong group", "4 ranks have 2 values of it, and the mean of these is right");
    for (int i = 0; i < N * N; i++) other[i] = part[1][i] + 0.1 * draw(6, i);
    hold((const double *[]){part[0], part[0], part[1], other});
    assert_suspect(NULL, "");
}

/* A row-parallel weight's two shards are added to each other: both ranks have the sum. */
TEST(test_a_sum_over_shards) {
    for (int spoiled = 0; spoiled < 2; spoiled++) {
        begin("layer.weight.grad", 2);
        for (int i = 0; i < N * N / 2; i++) w.x[i] = w.x[i + N * N / 2] = w.y[i] + w.y[i + N * N / 2];
        if (spoiled) w.x[5] = w.x[5 + N * N / 2] += 0.1;
        for (int r = 0; r < 2; r++) {
            struct kept_piece p = {.box = {2, {N, N}, {r * N / 2, 0}, {N / 2, N}}, .rank = r, .parts = 1};
            snprintf(p.name, sizeof p.name, "layer.weight.grad");
            memcpy(kept_add(&w.run, &p), w.x, N * N / 2 * sizeof *w.x);
        }
        assert_suspect(spoiled ? NULL : "wrong group", "2 different parts; these are the sum of the right");
    }
}

TEST(test_a_norm_of_own_parts) {
    for (int wrong = 0; wrong < 2; wrong++) {
        begin("grad_norm", 0);
        w.e.c.verdict = TENSOR_APART;
        for (int r = 0; r < 2; r++) {
            struct kept_piece p = {.box = {1, {1}, {0}, {1}}, .rank = r, .parts = 1, .name = "grad_norm"};
            *kept_add(&w.run, &p) = sqrt(r ? 4 + wrong : 5);
        }
        w.x[0] = sqrt(5);
        assert_suspect(wrong ? NULL : "own norms", "squares of what the 2 ranks");
    }
}

TEST(test_divided_by_all_ranks_and_not_by_those_of_a_group) {
    struct call_group dp = {.label = "dp (ranks 0, 2)", .n_members = 2};
    const struct calls calls = {.group = &dp, .n_groups = 1};
    for (int right = 0; right < 2; right++) {
        begin("layer.weight.grad", 2);
        w.e.ranks = 8, w.e.calls = &calls;
        for (int i = 0; i < N * N; i++) w.x[i] *= right ? 0.3 : 0.25;
        assert_suspect("ratio", right ? "0.3 times" : "2 by 8: divided by all ranks, and not by those of dp?");
    }
    begin("layer.weight.grad", 2);
    w.e.ranks = 8, w.e.calls = &calls;
    for (int i = 0; i < N * N; i++) w.x[i] *= 2;
    assert_suspect("ratio", "the number of ranks of dp");
}

TEST(test_a_groups_number_comes_before_a_root) {
    struct call_group dp = {.label = "dp (ranks 0, 1)", .n_members = 2};
    const struct calls calls = {.group = &dp, .n_groups = 1};
    for (int norm = 0; norm < 2; norm++) {
        begin(norm ? "grad_norm" : "layer.weight.grad", norm ? 0 : 2);
        w.e.ranks = 4, w.e.calls = &calls;
        for (int i = 0; i < SIZE; i++) w.x[i] *= 2;
        assert_suspect("ratio", norm ? "the root of the number of ranks" : "the number of ranks of dp");
    }
}

TEST(test_logits_that_ranks_count_again) {
    struct call_group tp = {.label = "tp (ranks 0, 1)", .n_members = 2};
    const struct calls calls = {.group = &tp, .n_groups = 1};
    for (int ranks = 1; ranks <= 8; ranks *= 2)
        for (int off = 0; off < 2; off++) {
            int counted = ranks > 1 ? ranks : 2;
            begin("loss", 0);
            w.e.ranks = ranks, w.e.calls = ranks == 1 ? &calls : NULL;
            w.x[0] = w.y[0] + log(counted) + off * 0.01;
            assert_suspect(off ? NULL : "counted logits", "the logarithm of");
        }
}

/* ---- padding ---- */
static void add_numbers(const char *name, int n_axes, int64_t n, const double *values) {
    struct kept_piece p = {.box = {n_axes, {n, 2}, {0, 0}, {n, 2}}, .parts = 1};
    snprintf(p.name, sizeof p.name, "%s", name);
    memcpy(kept_add(&w.run, &p), values, (size_t)box_n(&p.box) * sizeof *values);
}

TEST(test_padding_is_counted) {
    for (int number = 0; number < 2; number++) {
        begin(number ? "loss" : "layer.act_grad", number ? 0 : 3);
        add_numbers("targets", 2, 2, (double[]){30, 40, 12, 40});
        for (int i = 0; i < SIZE; i++) w.x[i] *= 42.0 / 80;
        assert_suspect("ratio", "padding is counted in the mean");
    }
}

TEST(test_a_mean_of_means) {
    const double means[] = {4, 2.5}, targets[] = {30, 40, 12, 40};
    for (int wrong = 0; wrong < 2; wrong++) {
        begin("loss", 0);
        add_numbers("loss_parts", 1, 2, means);
        add_numbers("targets", 2, 2, targets);
        w.y[0] = (30 * means[0] + 12 * means[1]) / 42 + wrong * 1e-3;
        w.x[0] = (means[0] + means[1]) / 2;
        assert_suspect(wrong ? NULL : "mean of means", "of 2 means, which are of 30 and other numbers");
    }
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

TEST(test_gradients_that_were_not_zeroed) {
    for (int noise = 0; noise < 2; noise++) {
        begin("layer.weight.grad", 2);
        add(&w.last, "layer.weight.grad", 0, 2, w.before);
        for (int i = 0; i < N * N; i++) w.x[i] += 0.4 * w.before[i] + noise * 0.01 * draw(9, i);
        assert_suspect(noise ? NULL : "accumulated", "0.4 times the gradient of step 1");
    }
}

/* ---- weights of the step before ---- */
static void add_weights(const char *name, int64_t rows, int64_t columns, uint64_t stream) {
    for (int old = 0; old < 2; old++) {
        struct kept_piece p = {.box = {columns ? 2 : 1, {rows, columns}, {0, 0}, {rows, columns}}, .parts = 1};
        snprintf(p.name, sizeof p.name, "%s.param", name);
        int64_t n = box_n(&p.box);
        double *x = kept_add(old ? &w.older : &w.last, &p);
        for (int64_t i = 0; i < n; i++) x[i] = draw(stream, i) + old * 0.01 * draw(stream + 1, i);
    }
}
static double weight(const char *name, bool old, int64_t i) {
    struct whole x;
    char full[64];
    snprintf(full, sizeof full, "%s.param", name);
    assert_true(kept_sibling(old ? &w.older : &w.last, full, NULL, &x));
    double value = x.x[i];
    whole_fini(&x);
    return value;
}

/* Token i has row i * 5 mod 7 of an embedding, and its position's of another. stale: bits 1 and 2; 4: the second
 * sample alone; 8: every other row of the embedding. */
static void embed(int stale) {
    begin("model.drop.act", 3);
    add_weights("tokens.weight", 7, N, 20);
    add_weights("positions.weight", N + 1, N, 30);
    for (int i = 0; i < SIZE; i++) {
        int64_t row = i / N * 5 % 7, j = i % N, at = i / N % N;
        bool here = !(stale & 4) || i / (N * N) == 1;
        bool p = stale & 1 && here && !(stale & 8 && row % 2), q = stale & 2 && here;
        w.y[i] = weight("tokens.weight", false, row * N + j) + weight("positions.weight", false, at * N + j);
        w.x[i] = weight("tokens.weight", p, row * N + j) + weight("positions.weight", q, at * N + j);
    }
}

TEST(test_rows_of_weights_of_the_step_before) {
    for (int stale = 1; stale < 16; stale++) {
        if (!(stale & 3)) continue;
        embed(stale);
        assert_suspect("stale weights", "tokens.weight.param gives as it was a step before");
    }
    embed(1);
    for (int i = 0; i < SIZE; i++) w.x[i] += 0.01 * draw(9, i);
    assert_suspect(NULL, "");
    embed(1);
    kept_fini(&w.older);
    assert_suspect(NULL, "");
}

TEST(test_a_layer_of_weights_of_the_step_before) {
    for (int turned = 0; turned < 2; turned++)
        for (int noise = 0; noise < 2; noise++) {
            begin("layer.act", 3);
            add(&w.reference, "norm.act", 0, 3, w.before);
            add_weights("layer.weight", N, N, 20);
            add_weights("layer.bias", N, 0, 30);
            for (int i = 0; i < SIZE; i++)
                for (int old = 0; old < 2; old++) {
                    double sum = weight("layer.bias", old, i % N);
                    for (int k = 0; k < N; k++)
                        sum += w.before[i / N * N + k] *
                               weight("layer.weight", old, turned ? i % N * N + k : k * N + i % N);
                    (old ? w.x : w.y)[i] = sum + old * noise * 0.01 * draw(9, i);
                }
            assert_suspect(noise ? NULL : "stale weights", "layer.weight.param");
        }
    for (int noise = 0; noise < 2; noise++) {
        begin("layer.act", 3);
        add_weights("layer.weight", N, 0, 20);
        for (int i = 0; i < SIZE; i++)
            w.x[i] = w.y[i] / weight("layer.weight", false, i % N) * weight("layer.weight", true, i % N) +
                     noise * 0.01 * draw(9, i);
        assert_suspect(noise ? NULL : "stale weights", "layer.weight.param");
    }
}

/* Four ranks have two rows each, and give their first one for others' tokens. */
TEST(test_rows_that_are_not_masked) {
    for (int noise = 0; noise < 2; noise++) {
        begin("model.embed.act", 3);
        w.e.ranks = 4;
        add_weights("tokens.weight", N, N, 20);
        for (int i = 0; i < SIZE; i++)
            for (int r = 0, own = i / N * 5 % N / 2; r < 4; r++)
                w.x[i] += r == own ? noise * 0.01 * draw(9, i) : weight("tokens.weight", false, 2 * r * N + i % N);
        assert_suspect(noise ? NULL : "unmasked rows", "each of 4 ranks gives its first row of tokens.weight");
    }
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
    for (int gradient = 0; gradient < 2; gradient++) {
        begin(gradient ? "layer.act_grad" : "layer.act", 3);
        for (int i = 0; i < SIZE; i++) w.x[i] += (i / N % N >= 1) * 0.1 * draw(9, i);
        assert_suspect(gradient ? "positions" : "scores", gradient ? "positions 1 to 7" : "position 0, which sees");
    }
    begin("layer.weight.grad", 2);
    for (int i = 2 * N; i < 4 * N; i++) w.x[i] += 0.1 * draw(9, i);
    assert_suspect("region", "places 2 to 3 of 8 along axis 0 are wrong");
}

/* Few elements lie in one part by chance. Noise shows in large rows alone: only `others`, rows as large that are right,
 * are evidence. */
TEST(test_noise_in_one_part) {
    static const char *const NAMES[] = {"layer.weight.grad", "layer.act"};
    for (int kind = 0; kind < 2; kind++) {
        begin(NAMES[kind], 2 + kind);
        w.x[w.e.y.n - 1] += 1;
        assert_suspect(NULL, "");
    }
    begin("layer.act", 3);
    for (int t = 1; t < N; t++) w.x[(t * N + t) * N + t] += 0.1 * draw(9, t);
    assert_suspect(NULL, "");
    for (int others = 0; others < 2; others++) {
        begin("layer.weight.grad", 2);
        for (int i = 0; i < N * N; i++) {
            bool wrong = i / N == 2 || i / N == 3;
            if (wrong || others) w.y[i] = 1000 + w.y[i];
            double noise = 0.1 * draw(9, i);
            w.x[i] = w.y[i] * (wrong ? 1.1 + 0.1 * noise : others ? 1 : 1 + noise);
        }
        w.e.limit = 10;
        assert_suspect(others ? "region" : NULL, "places 2 to 3 of 8");
    }
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
            end();
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

/* In step 1, a factor of a moment is one of 1 - beta. */
TEST(test_other_betas) {
    const struct { const char *name; double factor; int step; const char *id, *word; } TRIED[] = {
        {"layer.weight.moment1", 0.5, 1, "betas", "beta1 is 0.95, and not 0.9"},
        {"layer.weight.moment2", 0.02, 1, "betas", "beta2 is 0.999, and not 0.95"},
        {"layer.weight.moment2", 0.02, 2, "ratio", "0.02 times"},
        {"layer.weight.moment1", 0.7, 1, "ratio", "0.7 times"}};
    for (size_t k = 0; k < sizeof TRIED / sizeof *TRIED; k++) {
        begin(TRIED[k].name, 2);
        w.e.c.step = TRIED[k].step;
        for (int i = 0; i < N * N; i++) w.x[i] *= TRIED[k].factor;
        assert_suspect(TRIED[k].id, TRIED[k].word);
    }
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

/* FSDP in two replicas whose gradients are not averaged over both: shards are right on no rank. Rank r of 4 has shard
 * r mod 2. And: a rank whose copy of a shard is wrong. */
TEST(test_shards_that_were_never_summed) {
    static const struct { const char *id, *word; double part; } TRIED[] = {
        {"unaveraged", "mean of what the 2 ranks", 1}, {"unsummed", "sum of what the 2 ranks", 0.5},
        {NULL, "", 0.7}, {"one rank", "3 of 4 ranks have it right; rank 2", 0}};
    for (size_t k = 0; k < sizeof TRIED / sizeof *TRIED; k++) {
        begin("layer.weight.grad", 2);
        w.e.c.verdict = TENSOR_APART, w.e.ranks = 4;
        for (int r = 0; r < 4; r++) {
            struct kept_piece p = {.box = {2, {N, N}, {r % 2 * N / 2, 0}, {N / 2, N}}, .rank = r, .parts = 1};
            snprintf(p.name, sizeof p.name, "layer.weight.grad");
            double *x = kept_add(&w.run, &p), noise;
            for (int i = 0; i < N * N / 2; i++) {
                int at = r % 2 * N * N / 2 + i;
                noise = k == 2 ? draw(5 + (uint64_t)r, at) : (r < 2 ? 1 : -1) * draw(5, at);
                x[i] = TRIED[k].part > 0 ? TRIED[k].part * w.y[at] + noise : w.y[at] + (r == 2);
            }
        }
        assert_suspect(TRIED[k].id, TRIED[k].word);
    }
}

/* Two ranks read the first samples again. Nothing fits where one sample is spoiled otherwise. */
TEST(test_other_samples) {
    for (int spoiled = 0; spoiled < 2; spoiled++) {
        begin("layer.act", 3);
        for (int i = SIZE / 2; i < SIZE; i++) w.x[i] = w.y[i - SIZE / 2];
        if (spoiled) w.x[SIZE - 1] += 0.1, w.x[0] += 0.1;
        assert_suspect(spoiled ? NULL : "other samples", "where sample 4 is wrong, it has what sample 0 should have");
    }
}

static double rounded(double x) {
    int exponent;
    double m = frexp(x, &exponent);
    return ldexp(rint(256 * m), exponent - 8);
}

/* A sum in bf16. In a run of bf16 that is no news, and of one value it may be chance. */
TEST(test_numbers_of_a_narrower_type) {
    for (int k = 0; k < 4; k++) {
        begin("layer.weight.grad", 2);
        w.e.dtype = k == 1 ? BF16 : FP32;
        if (k == 3) for (int i = 0; i < N * N; i++) w.y[i] = 1 + 1e-3 * draw(9, i);
        for (int i = 0; i < N * N; i++) w.x[i] = k == 3 ? 1 : rounded(w.y[i]);
        if (k == 2) w.x[9] += 1e-3;
        assert_suspect(k ? NULL : "rounded", "bf16, in a run of fp32");
    }
}

TEST(test_a_factor_of_each_token) {
    for (int spoiled = 0; spoiled < 2; spoiled++) {
        begin("layer.act", 3);
        for (int i = 0; i < SIZE; i++) w.x[i] *= 1 + 0.01 * (i / N % 7);
        w.x[3] += spoiled;
        assert_suspect(spoiled ? NULL : "token by token", "from 1 to 1.06");
    }
}

TEST(test_moments_that_begin_again) {
    for (int second = 0; second < 2; second++)
        for (int step = 1; step < 3; step++) {
            begin(second ? "layer.weight.moment2" : "layer.weight.moment1", 2);
            w.e.c.step = step, w.e.limit = 1e-12;
            for (int i = 0; i < N * N; i++) {
                double g = 0.4 * w.gradient[i];
                w.x[i] = second ? 0.05 * g * g : 0.1 * g;
            }
            assert_suspect(step == 1 ? NULL : "begun again", "nothing of the steps before");
        }
}

TEST(test_the_rate_of_another_step) {
    static const struct { double rate; const char *id, *word; } TRIED[] = {
        {5e-3, "rate", "step before"}, {4e-3, "rate", "next step"}, {2e-2, "ratio", "2 times"}, {7e-3, NULL, ""}};
    for (size_t k = 0; k < sizeof TRIED / sizeof *TRIED; k++) {
        begin("lr", 0);
        w.y[0] = 1e-2, w.x[0] = TRIED[k].rate, w.e.limit = 1e-9;
        assert_suspect(TRIED[k].id, TRIED[k].word);
    }
    begin("lr", 0);             /* a script's reference has the rate of the step before */
    struct kept_piece p = {.name = "lr", .box = {.n_axes = 1, .of = {1}, .n = {1}}, .parts = 1};
    *kept_add(&w.last, &p) = 1.25e-3;
    w.y[0] = 2.5e-3, w.x[0] = 1.25e-3, w.e.limit = 1e-9;
    assert_suspect("rate", "step before");
}

/* The norm of two blocks with two experts each, which leaves out what the case says, or a part of each gradient. */
TEST(test_a_norm_without_a_family) {
    static const char *const LEAVES_OUT[] = {"h.*.experts", "h.1", "h.*.router", NULL};
    for (int k = 0; k < 4; k++) {
        begin("grad_norm", 0);
        double all = 0, without = 0;
        for (int n = 0; n < 6; n++) {
            char name[32];
            double g[N * N], sum = 0;
            for (int i = 0; i < N * N; i++) g[i] = draw(20 + (uint64_t)n, i), sum += g[i] * g[i];
            if (n < 4) snprintf(name, sizeof name, "h.%d.experts.%d.w.grad", n / 2, n % 2);
            else snprintf(name, sizeof name, "h.%d.router.grad", n - 4);
            add(&w.reference, name, 0, 2, g);
            bool out = k == 0 ? n < 4 : k == 1 ? n == 2 || n == 3 || n == 5 : k == 2 && n >= 4;
            all += sum, without += out ? 0 : sum * (k == 3 ? 0.77 : 1);
        }
        w.y[0] = sqrt(all), w.x[0] = sqrt(without);
        assert_suspect(LEAVES_OUT[k] ? "norm counts" : NULL, LEAVES_OUT[k] ? LEAVES_OUT[k] : "");
    }
}

TESTS(unit_test(test_noise_is_no_suspect), unit_test(test_noise_at_the_limit_is_no_suspect),
      unit_test(test_nan_is_no_suspect), unit_test(test_factors_have_names),
      unit_test(test_ranks_that_were_never_summed), unit_test(test_a_tied_weight_that_is_two),
      unit_test(test_a_sum_over_other_ranks), unit_test(test_a_sum_over_shards),
      unit_test(test_a_norm_of_own_parts), unit_test(test_gradients_that_were_not_zeroed),
      unit_test(test_rows_that_are_not_masked), unit_test(test_other_betas),
      unit_test(test_divided_by_all_ranks_and_not_by_those_of_a_group),
      unit_test(test_a_groups_number_comes_before_a_root), unit_test(test_logits_that_ranks_count_again),
      unit_test(test_padding_is_counted),
      unit_test(test_a_mean_of_means), unit_test(test_rows_of_weights_of_the_step_before),
      unit_test(test_a_layer_of_weights_of_the_step_before),
      unit_test(test_the_step_before), unit_test(test_one_place_further), unit_test(test_another_order),
      unit_test(test_where_it_is_wrong), unit_test(test_noise_in_one_part),
      unit_test(test_what_a_wrong_part_has_instead), unit_test(test_a_bias_too_many), unit_test(test_dropout),
      unit_test(test_a_norm_that_counts_wrongly),
      unit_test(test_a_norm_with_half_of_a_tensor_more_counts_nothing), unit_test(test_gradients_that_were_not_clipped),
      unit_test(test_decay), unit_test(test_rates), unit_test(test_adam_otherwise),
      unit_test(test_shards_that_were_never_summed), unit_test(test_other_samples),
      unit_test(test_numbers_of_a_narrower_type), unit_test(test_a_factor_of_each_token),
      unit_test(test_moments_that_begin_again), unit_test(test_the_rate_of_another_step),
      unit_test(test_a_norm_without_a_family))
