/* ranks: 1  device: cpu */
/* Our own products (gemm_packed.h): for every cut of the work, each number of C is computed once, and its bits do not
 * depend on the cut. */
#include "lib/base/clock.h"
#include "lib/base/rng.h"
#include "lib/ops/gemm/gemm.h"
#include "lib/ops/gemm/peak.h"
#include "lib/ops/gemm/test_gemm.h"
#include "lib/ops/vector.h"
#include "tests/test.h"
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Dtypes of the factors and of C, and how many of DEPTHS each pair tests; 16-bit numbers in each way that the program
 * and this machine have. */
static const struct { enum dtype ab, c; int n_depths; const struct gemm_narrow *way; } KINDS[] = {
    {FP32, FP32, 2, NULL},
    {BF16, FP32, 3, &gemm_amx},          {BF16, BF16, 4, &gemm_amx},
    {BF16, FP32, 3, &gemm_pairs},        {BF16, BF16, 4, &gemm_pairs},
    {BF16, FP32, 3, &gemm_widened_bf16}, {BF16, BF16, 4, &gemm_widened_bf16},
    {FP16, FP16, 3, &gemm_widened_fp16}};
enum { N_KINDS = sizeof KINDS / sizeof *KINDS };

static bool set_way(int kind) {
    way_of_test = KINDS[kind].way;
    return !way_of_test || way_of_test->can();
}

/* Depths of one pass and of several. If C is bf16 all are one pass, in which a thread packs one panel at a time, for
 * the deepest not on its stack. Odd depths end in half a pair. */
static const int64_t DEPTHS[] = {1001, 2800, 4999, 5000};

/* A product with alpha, beta and bias that round. It has enough columns that a thread takes several panels; or, with
 * which = 1, enough rows, which threads then divide. */
static struct gemm a_product(int kind, int which, int64_t k) {
    struct gemm g = odd(KINDS[kind].ab, KINDS[kind].c, which);
    const int64_t few = 27, many = 251;
    g.m = which == 1 ? many : few, g.n = which == 1 ? few : many, g.k = k;
    g.alpha = 0.7, g.beta = 0.3;
    return g;
}
static size_t size_of_c(const struct gemm *g) { return (size_t)(g->m * g->n) * dtype_size(g->c_dtype); }

/* check(g) of every kind, form and depth; 16-bit numbers have each depth in two forms, or with LONG=1 in all four */
static void for_each_product(void (*check)(struct gemm)) {
    for (int i = 0; i < N_KINDS; i++)
        for (int which = 0; which < 4 && set_way(i); which++)
            for (int d = 0; d < KINDS[i].n_depths; d++)
                if (i == 0 || (which + d) % 2 == 0 || getenv("LONG")) check(a_product(i, which, DEPTHS[d]));
    way_of_test = NULL;
}

static void same_bits_for_any_threads(struct gemm g) {
    struct product one = product_operands(g, true);
    omp_set_num_threads(1);
    assert_ok(product_run(&one, 0));
    for (int threads = 2; threads <= 7; threads += 5) {
        struct product many = product_operands(g, true);
        omp_set_num_threads(threads);
        assert_ok(product_run(&many, 0));
        assert_memory_equal(one.c, many.c, size_of_c(&g));
        product_free(&many);
    }
    product_free(&one);
}

TEST(test_gemm_packed_gives_the_same_bits_for_any_number_of_threads) {
    int most = omp_get_max_threads();
    for_each_product(same_bits_for_any_threads);
    omp_set_num_threads(most);
}

/* ---- a part of a product, made alone ---- */
struct part { int64_t i, m, j, n; };

/* x[to] = y[from] */
static void copy_element(void *x, int64_t to, const void *y, int64_t from, enum dtype d) {
    size_t size = dtype_size(d);
    memcpy((char *)x + (size_t)to * size, (const char *)y + (size_t)from * size, size);
}

static struct product part_of(const struct product *all, const struct part *at) {
    const struct gemm *g = &all->g;
    struct gemm like = *g;
    like.m = at->m, like.n = at->n;
    struct product part = product_operands(like, true);
    for (int64_t p = 0; p < g->k; p++) {
        for (int64_t r = 0; r < at->m; r++)
            copy_element(part.a, g->transpose_a ? p * at->m + r : r * g->k + p, all->a,
                         g->transpose_a ? p * g->m + at->i + r : (at->i + r) * g->k + p, g->ab_dtype);
        for (int64_t q = 0; q < at->n; q++)
            copy_element(part.b, g->transpose_b ? q * g->k + p : p * at->n + q, all->b,
                         g->transpose_b ? (at->j + q) * g->k + p : p * g->n + at->j + q, g->ab_dtype);
    }
    for (int64_t q = 0; q < at->n; q++) copy_element(part.bias, q, all->bias, at->j + q, g->ab_dtype);
    for (int64_t r = 0; r < at->m; r++)
        for (int64_t q = 0; q < at->n; q++)
            copy_element(part.c, r * at->n + q, all->c, (at->i + r) * g->n + at->j + q, g->c_dtype);
    return part;
}

static void parts_have_the_bits_of_the_whole(struct gemm g) {
    const struct part parts[] = {{0, 1, 0, g.n}, {g.m / 4, g.m / 2, 0, 7}, {0, g.m, g.n - 1, 1},
                                 {g.m - 8, 8, g.n / 3, g.n / 2}};
    struct product all = product_operands(g, true), part[4];
    size_t size = dtype_size(g.c_dtype);
    for (int i = 0; i < 4; i++) part[i] = part_of(&all, &parts[i]);
    assert_ok(product_run(&all, 0));
    for (int i = 0; i < 4; i++) {
        assert_ok(product_run(&part[i], 0));
        for (int64_t r = 0; r < parts[i].m; r++)
            assert_memory_equal((char *)part[i].c + (size_t)(r * parts[i].n) * size,
                                (char *)all.c + (size_t)((parts[i].i + r) * g.n + parts[i].j) * size,
                                (size_t)parts[i].n * size);
        product_free(&part[i]);
    }
    product_free(&all);
}

TEST(test_gemm_packed_gives_a_part_of_c_the_bits_it_has_in_the_whole) {
    for_each_product(parts_have_the_bits_of_the_whole);
}

/* ---- NaN stays in its row of C, and infinity in its column: no tile multiplies numbers of another by zero ---- */
static void not_a_number_stays_where_it_is(struct gemm g) {
    const int64_t row = g.m / 2, column = g.n / 2, last = g.k - 1;
    struct product p = product_operands(g, true), q = product_operands(g, true);
    dtype_set(p.a, g.ab_dtype, g.transpose_a ? row : row * g.k, NAN);
    for (int64_t at = 0; at <= last; at += last)
        dtype_set(p.b, g.ab_dtype, g.transpose_b ? column * g.k + at : at * g.n + column, INFINITY);
    assert_ok(product_run(&p, 0));
    assert_ok(product_run(&q, 0));
    for (int64_t i = 0; i < g.m; i++)
        for (int64_t j = 0; j < g.n; j++) {
            double x = dtype_get(p.c, g.c_dtype, i * g.n + j);
            if (i == row) assert_true(isnan(x));
            else if (j == column) assert_false(isfinite(x));
            else assert_true(x == dtype_get(q.c, g.c_dtype, i * g.n + j));
        }
    product_free(&p);
    product_free(&q);
}

TEST(test_gemm_packed_keeps_what_is_not_a_number_in_its_row_and_column) {
    for_each_product(not_a_number_stays_where_it_is);
}

/* Sizes around those of tiles, panels and tasks; more threads than tasks; tasks cut by rows, so that rounding gives
 * fewer tasks, or a last task with fewer rows than a tile of eight. */
static void every_cut_is_right(int kind, int64_t k, int threads) {
    static const int64_t rows[] = {1, 9, 65, 513, 1000}, columns[] = {1, 17, 49, 190, 300};
    omp_set_num_threads(threads);
    for (int which = 0; which < 4 && set_way(kind); which++)
        for (int i = 0; i < 25; i++) {
            if ((which + i) % 2 && !getenv("LONG")) continue;        /* each cut in two forms; LONG=1: in all four */
            struct gemm g = a_product(kind, which, k);
            g.m = rows[i / 5], g.n = columns[i % 5];
            struct product p = product_new(g, true);
            assert_ok(product_run(&p, 0));
            assert_product(&p);
            product_free(&p);
        }
}

TEST(test_gemm_packed_of_every_cut_is_right) {
    int most = omp_get_max_threads();
    for (int threads = 1; threads <= 15; threads += 7) every_cut_is_right(0, 33, threads);
    for (int kind = 1; kind < N_KINDS; kind++) {
        /* 33 and 34 end within a unit of some ways; 64 is whole units, which micro-kernels pack */
        every_cut_is_right(kind, KINDS[kind].c == FP32 ? 33 : 34, 8);
        if (KINDS[kind].c != FP32) every_cut_is_right(kind, 64, 8);
    }
    way_of_test = NULL;
    omp_set_num_threads(most);
}

/* Every depth, into C of every kind, against the formula. */
static void is_right(struct gemm g) {
    const int64_t sizes[][2] = {{19, 61}, {61, 19}};
    for (int i = 0; i < 2; i++) {
        g.m = sizes[i][0], g.n = sizes[i][1];
        struct product p = product_new(g, true);
        assert_ok(product_run(&p, 0));
        assert_product(&p);
        product_free(&p);
    }
}
TEST(test_gemm_packed_of_every_depth_is_right) {
    for_each_product(is_right);
}

/* At every depth, C in 16 bits is C in fp32, rounded once. */
static void is_rounded_once(struct gemm g) {
    if (dtype_size(g.c_dtype) != 2) return;
    struct gemm wide = g;
    g.beta = wide.beta = 0, wide.c_dtype = FP32;
    struct product p = product_operands(g, true), exact = product_operands(wide, true);
    assert_ok(product_run(&p, 0));
    assert_ok(product_run(&exact, 0));
    /* The two sums in fp32 differ by the roundings of k terms, of numbers of about sqrt(k), in random directions. */
    double sum = (double)g.k * dtype_roundoff(FP32), u = dtype_roundoff(g.c_dtype);
    for (int64_t i = 0; i < g.m * g.n; i++) {
        double x = dtype_get(exact.c, FP32, i);
        assert_true(fabs(dtype_get(p.c, g.c_dtype, i) - x) <= u * fabs(x) + sum);
    }
    product_free(&p);
    product_free(&exact);
}
TEST(test_gemm_packed_rounds_once) {
    for_each_product(is_rounded_once);
}

/* Check the scratch of a way: its numbers have `size` bytes; its padding and a thread's block have `panel` columns; a
 * depth above `deepest` has the block in `work`, and `widened` numbers of A with it. */
static void plans_scratch(const struct gemm_narrow *way, int64_t size, int64_t panel, int64_t unit, int64_t deepest,
                          int64_t widened) {
    if (!way->can()) return;
    const int threads = 3;
    struct gemm g = {.m = 100, .n = 80, .k = deepest, .transpose_a = true, .alpha = 1};
    assert_int_equal(way->work(&g, threads), size * deepest * (80 + panel));
    g.k = deepest + 1; /* the depth is padded, and each thread has a block in `work` */
    int64_t padded = deepest + unit, side = (padded * (80 + panel) + 64 / size - 1) / (64 / size) * (64 / size);
    int64_t of_threads = threads * (padded * panel + widened);
    assert_int_equal(way->work(&g, threads), size * (side + of_threads));
    g.transpose_a = false;
    assert_int_equal(way->work(&g, threads), size * of_threads);
    g.k = deepest;
    assert_int_equal(way->work(&g, threads), 0);
}
TEST(test_gemm_packed_plans_scratch_for_deep_sums_of_16_bits) {
    const int64_t rows = VECTOR_REGISTERS == 32 ? 8 : 4; /* of a micro-panel of A, which a thread widens */
    plans_scratch(&gemm_amx, 2, 64, 32, 4096, 0);
    plans_scratch(&gemm_pairs, 2, 48, 2, 4096, 0);
    plans_scratch(&gemm_widened_bf16, 4, 48, 1, 2048, rows * (2048 + 16 + 16));
    plans_scratch(&gemm_widened_fp16, 4, 48, 1, 2048, rows * (2048 + 16 + 16));
}

/* A processor that multiplies pairs at half of fp32's rate, or at the same, widens bf16; at twice the rate it does
 * not. */
TEST(test_gemm_chooses_pairs_where_they_are_faster) {
    const struct gemm_narrow *way = gemm_narrow_of(BF16);
    assert_true(way->can());
    assert_int_equal(gemm_narrow_of(FP16)->way, BY_WIDENING);
    assert_true(gemm_bf16_pairs() == (way->way != BY_WIDENING));
    if (gemm_amx.can()) assert_int_equal(way->way, BY_AMX);
    assert_int_equal(gemm_way_of_rates(230, 115, false), BY_WIDENING);
    assert_int_equal(gemm_way_of_rates(230, 230, false), BY_WIDENING);
    assert_int_equal(gemm_way_of_rates(230, 400, false), BY_PAIRS);
    assert_int_equal(gemm_way_of_rates(230, 115, true), BY_AMX);
    assert_int_equal(gemm_way_of_rates(230, 0, false), BY_WIDENING);
}

/* Processes that share few cores choose alike, or the ranks of a job would sum in different orders. */
TEST(test_gemm_every_process_of_a_full_machine_chooses_alike) {
    enum { N = 128 };
    pid_t child[N];
    int start[2];
    if (!gemm_pairs.can()) skip();
    assert_int_equal(pipe(start), 0);
    for (int i = 0; i < N; i++)
        if (!(child[i] = fork())) {
            close(start[1]);
            (void)!read(start[0], &start, 1);                        /* until all are there; each at another time */
            for (double begin = thread_s(); thread_s() < begin + 20e-6 * i;) continue;
            _exit(gemm_way_of_rates(rate_of_fma(0.003), rate_of_pairs(0.003), false) == BY_PAIRS);
        }
    close(start[0]);
    close(start[1]);
    int n_pairs = 0;
    for (int i = 0; i < N; i++) {
        int status;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        n_pairs += WEXITSTATUS(status);
    }
    assert_true(n_pairs == 0 || n_pairs == N);
}

/* Products by leaves (gemm_leaves.h): the bits do not depend on the shards of the summed axis, on m, on n or on the
 * number of threads, and the results are right. */

enum { M = 37, N = 53, LEAVES = 8 };

/* c (M,N) = a (M,k) b (k,N): k is `pieces` runs; of each run a rank has some of the LEAVES leaves of `leaf` numbers. */
struct form { int64_t pieces, leaf, depth; enum dtype dtype; bool transpose_b, plain; };

/* Row i of A, or column i of B, at depth p of the whole k. The numbers are drawn once. */
enum { DEEPEST = 9600 };
static float number(int64_t i, int64_t p, bool of_b) {
    static float *all;
    if (!all) {
        all = malloc((M + N) * DEEPEST * sizeof *all);
        for (int64_t k = 0; k < (M + N) * DEEPEST; k++)
            all[k] = (float)ldexp(rng_normal(7, 1, (uint64_t)k), (int)(k % 7) - 3);
    }
    return all[(i + (of_b ? M : 0)) * DEEPEST + p];
}

/* c = the product of a rank that has leaves first .. first + n - 1. */
static void part(const struct form *f, int first, int n, int64_t rows, float *c) {
    int64_t held = n * f->leaf, k = f->pieces * held, left = f->depth - first * f->leaf;
    struct gemm g = {.m = rows, .n = N, .k = k, .transpose_b = f->transpose_b, .alpha = 1, .ab_dtype = f->dtype,
                     .c_dtype = f->dtype, .plain = f->plain,
                     .leaves = {n, f->pieces, f->leaf, left < 0 ? 0 : left < held ? left : held}};
    size_t size = dtype_size(f->dtype);
    void *a = calloc((size_t)(rows * k), size), *b = calloc((size_t)(k * N), size);
    void *out = malloc((size_t)(rows * N) * size);
    void *work = aligned_alloc(64, (size_t)gemm_work(&g, DEVICE_CPU, omp_get_max_threads()) / 64 * 64 + 64);
    for (int64_t p = 0; p < k; p++) {
        int64_t within = first * f->leaf + p % held, global = p / held * LEAVES * f->leaf + within;
        for (int64_t i = 0; i < rows; i++) dtype_set(a, f->dtype, i * k + p, number(i, global, false));
        for (int64_t j = 0; j < N; j++)
            dtype_set(b, f->dtype, f->transpose_b ? j * k + p : p * N + j, number(j, global, true));
    }
    assert_ok(gemm_run(&g, a, b, NULL, out, work));
    dtype_convert(c, FP32, out, f->dtype, rows * N);
    free(a), free(b), free(out), free(work);
}

static float rounded(float x) { return bf16_to_float(bf16_from_float(x)); }

/* c = the sum over `ranks` ranks, which divide leaves first .. first + n - 1: pairs are added and rounded as by the
 * transport. */
static void by_ranks(const struct form *f, int first, int n, int ranks, float *c) {
    float right[M * N];
    if (ranks == 1) {
        part(f, first, n, M, c);
        return;
    }
    by_ranks(f, first, n / 2, ranks / 2, c);
    by_ranks(f, first + n / 2, n / 2, ranks / 2, right);
    for (int i = 0; i < M * N; i++) {
        c[i] += right[i];
        if (f->dtype == BF16) c[i] = rounded(c[i]);
    }
}

static double worst_error(const struct form *f, const float *c) {
    double worst = 0;
    for (int64_t i = 0; i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            double sum = 0, size = 0;
            for (int64_t p = 0; p < f->pieces * f->depth; p++) {
                int64_t global = p / f->depth * LEAVES * f->leaf + p % f->depth;
                double x = number(i, global, false), y = number(j, global, true);
                if (f->dtype == BF16) x = rounded((float)x), y = rounded((float)y);
                sum += x * y, size += fabs(x * y);
            }
            worst = fmax(worst, fabs(c[i * N + j] - sum) / size);
        }
    return worst;
}

static const struct form FORMS[] = {
    {1, 16, 128, FP32, false, false}, {3, 5, 40, FP32, false, false}, {1, 17, 131, FP32, true, false},
    {1, 1, 5, FP32, true, false},     {3, 33, 264, BF16, false, false}, {1, 17, 131, BF16, true, false},
    {3, 5, 40, FP32, true, true},     {1, 300, 2400, FP32, false, false}, {2, 600, 4800, BF16, false, false}};
enum { N_FORMS = sizeof FORMS / sizeof *FORMS };

TEST(test_any_number_of_ranks_makes_the_same_bits) {
    static float whole[M * N], c[M * N];
    for (int i = 0; i < N_FORMS; i++) {
        part(&FORMS[i], 0, LEAVES, M, whole);
        /* The bound: a leaf's length of roundings in fp32, then one rounding to the dtype, and one for each level. */
        double u = FORMS[i].dtype == BF16 ? 0x1p-8 : 0x1p-24, length = (double)(FORMS[i].pieces * FORMS[i].leaf);
        assert_true(worst_error(&FORMS[i], whole) < length * 0x1p-24 + 4 * u);
        for (int ranks = 2; ranks <= LEAVES; ranks *= 2) {
            by_ranks(&FORMS[i], 0, LEAVES, ranks, c);
            assert_memory_equal(c, whole, sizeof c);
        }
    }
}

TEST(test_rows_and_threads_change_no_bit) {
    static float whole[M * N], c[M * N];
    int threads = omp_get_max_threads();
    for (int i = 0; i < N_FORMS; i++) {
        part(&FORMS[i], 0, LEAVES, M, whole);
        omp_set_num_threads(3);
        part(&FORMS[i], 0, LEAVES, M, c);
        omp_set_num_threads(threads);
        assert_memory_equal(c, whole, sizeof c);
        for (int64_t rows = 1; rows < M; rows += 5) {
            part(&FORMS[i], 0, LEAVES, rows, c);
            assert_memory_equal(c, whole, (size_t)(rows * N) * sizeof *c);
        }
    }
}

TEST(test_a_product_by_leaves_adds_to_nothing) {
    float x[4] = {0};
    struct gemm g = {.m = 1, .n = 1, .k = 2, .alpha = 1, .beta = 1, .ab_dtype = FP32, .c_dtype = FP32,
                     .leaves = {2, 1, 1, 2}};
    assert_fails(gemm_run(&g, x, x, NULL, x, x), E_INTERNAL, "2 leaves", "beta 1", "summed alone");
}

TESTS(unit_test(test_gemm_packed_gives_the_same_bits_for_any_number_of_threads),
      unit_test(test_gemm_packed_gives_a_part_of_c_the_bits_it_has_in_the_whole),
      unit_test(test_gemm_packed_keeps_what_is_not_a_number_in_its_row_and_column),
      unit_test(test_gemm_packed_of_every_cut_is_right), unit_test(test_gemm_packed_of_every_depth_is_right),
      unit_test(test_gemm_packed_rounds_once), unit_test(test_gemm_packed_plans_scratch_for_deep_sums_of_16_bits),
      unit_test(test_gemm_chooses_pairs_where_they_are_faster),
      unit_test(test_gemm_every_process_of_a_full_machine_chooses_alike),
      unit_test(test_any_number_of_ranks_makes_the_same_bits),
      unit_test(test_rows_and_threads_change_no_bit), unit_test(test_a_product_by_leaves_adds_to_nothing))
