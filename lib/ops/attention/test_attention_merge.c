/* ranks: 1  device: any
 *
 * The merged results of several pairs of queries and keys, on test_device(), against the formula in fp64:
 *
 *   lse = log sum_s e^lse_s     y = sum_s e^(lse_s - lse) y_s
 *
 * Also vectors that are copied to a dense array and back. */
#include "lib/ops/attention/attention_pair.h"
#include "lib/ops/test_op.h"
#include <math.h>
#include <stdlib.h>

enum { B = 2, T = 5, H = 3, D = 33, ROWS = B * T * H, N = ROWS * D, FIRST = 2, PAIRS = 3 };

/* n numbers of a dtype on the device. */
struct numbers { void *at; enum dtype dtype; int64_t n; };

static struct numbers numbers_new(enum dtype dtype, int64_t n, const double *from) {
    const struct device *d = test_device();
    struct numbers x = {NULL, dtype, n};
    int64_t bytes = n * (int64_t)dtype_size(dtype);
    void *host = malloc((size_t)bytes);
    for (int64_t i = 0; i < n; i++) dtype_set(host, dtype, i, from ? from[i] : NAN);
    assert_ok(d->allocate(d, bytes, &x.at));
    assert_ok(d->upload(d, x.at, host, bytes));
    free(host);
    return x;
}

static void numbers_read(const struct numbers *x, double *to) {
    const struct device *d = test_device();
    int64_t bytes = x->n * (int64_t)dtype_size(x->dtype);
    void *host = malloc((size_t)bytes);
    assert_ok(d->download(d, host, x->at, bytes));
    for (int64_t i = 0; i < x->n; i++) to[i] = dtype_get(host, x->dtype, i);
    free(host);
}

static void numbers_free(struct numbers *x) {
    test_device()->release(test_device(), x->at, x->n * (int64_t)dtype_size(x->dtype));
}

/* In [-1, 1), rounded to the dtype, so that the reference has the same numbers. */
static double drawn(uint64_t i, enum dtype dtype) {
    char one[8];
    dtype_set(one, dtype, 0, 2 * rng_uniform(7, rng_stream("merge"), i) - 1);
    return dtype_get(one, dtype, 0);
}

/* For element i of y: the index of its lse; does the pair have its query? Later pairs have queries from FIRST on. */
static int64_t lse_of(int64_t i) { return (i / D / H / T * H + i / D % H) * T + i / D / H % T; }
static bool is_met(int pair, int64_t i) { return pair == 0 || i / D / H % T >= FIRST; }

static void check_merge(enum dtype dtype) {
    const struct attention_pair_kernels *k = attention_pair_kernels(test_device()->kind, dtype);
    enum dtype real = dtype_accumulator(dtype);
    static double y[PAIRS][N], lse[PAIRS][ROWS], found[N], found_lse[ROWS];
    struct numbers sum = numbers_new(real, N, NULL), sum_lse = numbers_new(real, ROWS, NULL);
    struct numbers out = numbers_new(dtype, N, NULL), out_lse = numbers_new(real, ROWS, NULL);
    struct attention_merge m = {B, T, H, D, 0, sum.at, sum_lse.at, NULL, NULL, 2, test_device()};
    assert_ok(k->merge_begin(&m));
    for (int s = 0; s < PAIRS; s++) {
        for (int64_t i = 0; i < N; i++) y[s][i] = drawn((uint64_t)(s * N + i), dtype);
        for (int64_t i = 0; i < ROWS; i++) lse[s][i] = (s ? 1 : 40) * drawn((uint64_t)(PAIRS * N + s * ROWS + i), real);
        struct numbers pair = numbers_new(dtype, N, y[s]), pair_lse = numbers_new(real, ROWS, lse[s]);
        m.first = s ? FIRST : 0, m.y_pair = pair.at, m.lse_pair = pair_lse.at;
        assert_ok(k->merge(&m));
        assert_ok(test_device()->finish(test_device()));
        numbers_free(&pair), numbers_free(&pair_lse);
    }
    assert_ok(k->merge_end(&m, out.at, out_lse.at));
    numbers_read(&out, found), numbers_read(&out_lse, found_lse);
    double bound = op_error_bound(dtype, 4 * PAIRS, 0);
    for (int64_t i = 0; i < N; i++) {
        double sum_of_exp = 0, value = 0;
        for (int s = 0; s < PAIRS; s++)
            if (is_met(s, i)) sum_of_exp += exp(lse[s][lse_of(i)]), value += exp(lse[s][lse_of(i)]) * y[s][i];
        assert_close(found[i], value / sum_of_exp, bound * 40);      /* e^lse: an error of lse, up to 40, times 40 */
        assert_close(found_lse[lse_of(i)], log(sum_of_exp), op_error_bound(real, 4 * PAIRS, 0) * 40);
    }
    numbers_free(&sum), numbers_free(&sum_lse), numbers_free(&out), numbers_free(&out_lse);
}

TEST(test_merge_is_its_formula) {
    for (enum dtype dtype = FP64; dtype <= FP16; dtype++) check_merge(dtype);
}

/* Copies of vectors with others between them: width 7 of rows of 10, of samples with a row more. */
static void check_copy(enum dtype dtype) {
    enum { WIDTH = 7, ROW = 10, SAMPLE = (T + 1) * ROW, ALL = B * SAMPLE, DENSE = B * T * WIDTH };
    const struct attention_pair_kernels *k = attention_pair_kernels(test_device()->kind, dtype);
    static double all[ALL], found[ALL], dense[DENSE], sums[DENSE];
    for (int i = 0; i < ALL; i++) all[i] = drawn((uint64_t)i, dtype);
    for (int i = 0; i < DENSE; i++) sums[i] = drawn((uint64_t)(ALL + i), dtype);
    struct numbers among = numbers_new(dtype, ALL, all), packed = numbers_new(dtype, DENSE, NULL);
    struct numbers reals = numbers_new(dtype_accumulator(dtype), DENSE, sums);
    struct attention_copy c = {{among.at, SAMPLE, ROW, 1}, packed.at, B, T, WIDTH, test_device()};
    assert_ok(k->pack(&c));
    numbers_read(&packed, dense);
    c.dense = reals.at;
    for (int add = 0; add < 2; add++) {
        assert_ok(k->unpack(&c, add));
        numbers_read(&among, found);
        for (int i = 0; i < ALL; i++) {
            int b = i / SAMPLE, t = i % SAMPLE / ROW, w = i % ROW, at = (b * T + t) * WIDTH + w;
            bool is_vector = t < T && w < WIDTH;
            if (is_vector) assert_close(dense[at], all[i], 0);
            assert_close(found[i], is_vector ? (1 + add) * sums[at] : all[i], 0);    /* twice a number is exact */
        }
    }
    numbers_free(&among), numbers_free(&packed), numbers_free(&reals);
}

TEST(test_vectors_are_packed_and_brought_back) {
    for (enum dtype dtype = FP64; dtype <= FP16; dtype++) check_copy(dtype);
}

TESTS(unit_test(test_merge_is_its_formula), unit_test(test_vectors_are_packed_and_brought_back))
