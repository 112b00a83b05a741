/* ranks: 1  device: cpu */
/* Our own fp32 product (gemm_fp32.h): every number of C is made, once, however the work is cut, and no bit depends on the cut. */
#include "lib/ops/test_gemm.h"
#include <omp.h>

/* Depths of one pass and of several; alpha, beta and bias that round. */
static struct gemm fp32_product(int which, int64_t k) {
    struct gemm g = odd(FP32, FP32, which);
    g.m = 203, g.n = 331, g.k = k;
    g.alpha = 0.7, g.beta = 0.3;
    return g;
}

static void test_gemm_fp32_gives_the_same_bits_for_any_number_of_threads(void **state) {
    (void)state;
    int most = omp_get_max_threads();
    for (int which = 0; which < 4; which++)
        for (int64_t k = 100; k < 3000; k += 2700) {
            struct product one = product_operands(fp32_product(which, k), true);
            omp_set_num_threads(1);
            assert_ok(product_run(&one, 0));
            for (int threads = 2; threads <= 7; threads += 5) {
                struct product many = product_operands(one.g, true);
                omp_set_num_threads(threads);
                assert_ok(product_run(&many, 0));
                assert_memory_equal(one.c, many.c, (size_t)(one.g.m * one.g.n) * 4);
                product_free(&many);
            }
            product_free(&one);
        }
    omp_set_num_threads(most);
}

/* rows i .. i+m-1 and columns j .. j+n-1 of a product, made alone */
static void check_part(const struct product *all, const float *whole, int64_t i, int64_t m, int64_t j, int64_t n) {
    const struct gemm *g = &all->g;
    struct product part = product_operands((struct gemm){.m = m, .n = n, .k = g->k, .transpose_a = g->transpose_a, .transpose_b = g->transpose_b,
                                                         .alpha = g->alpha, .beta = g->beta, .ab_dtype = FP32, .c_dtype = FP32}, true);
    for (int64_t p = 0; p < g->k; p++) {
        for (int64_t r = 0; r < m; r++)
            ((float *)part.a)[g->transpose_a ? p * m + r : r * g->k + p] = ((float *)all->a)[g->transpose_a ? p * g->m + i + r : (i + r) * g->k + p];
        for (int64_t q = 0; q < n; q++)
            ((float *)part.b)[g->transpose_b ? q * g->k + p : p * n + q] = ((float *)all->b)[g->transpose_b ? (j + q) * g->k + p : p * g->n + j + q];
    }
    memcpy(part.bias, (float *)all->bias + j, (size_t)n * 4);
    for (int64_t r = 0; r < m; r++) memcpy((float *)part.c + r * n, (float *)all->c + (i + r) * g->n + j, (size_t)n * 4);
    assert_ok(product_run(&part, 0));
    for (int64_t r = 0; r < m; r++) assert_memory_equal((float *)part.c + r * n, whole + (i + r) * g->n + j, (size_t)n * 4);
    product_free(&part);
}

static void test_gemm_fp32_gives_a_part_of_c_the_bits_it_has_in_the_whole(void **state) {
    (void)state;
    const int64_t parts[][4] = {{0, 1, 0, 331}, {5, 8, 48, 96}, {100, 103, 0, 7}, {0, 203, 330, 1}, {7, 50, 13, 200}};
    for (int which = 0; which < 4; which++)
        for (int64_t k = 100; k < 3000; k += 2700) {
            struct product all = product_operands(fp32_product(which, k), true);
            size_t bytes = (size_t)(all.g.m * all.g.n) * 4;
            void *before = memcpy(malloc(bytes), all.c, bytes), *whole = malloc(bytes);
            assert_ok(product_run(&all, 0));
            memcpy(whole, all.c, bytes);
            memcpy(all.c, before, bytes);
            for (int i = 0; i < 5; i++) check_part(&all, whole, parts[i][0], parts[i][1], parts[i][2], parts[i][3]);
            free(before), free(whole);
            product_free(&all);
        }
}

/* Sizes around those of tiles, panels and tasks; more threads than there are tasks; tasks cut by rows, where rounding leaves fewer tasks, or a
 * last one with fewer rows than a tile of eight. */
static void test_gemm_fp32_of_every_cut_is_right(void **state) {
    static const int64_t rows[] = {1, 9, 65, 513, 1000}, columns[] = {1, 17, 49, 190, 300};
    int most = omp_get_max_threads();
    (void)state;
    for (int threads = 1; threads <= 15; threads += 7)
        for (int which = 0; which < 4; which++)
            for (int i = 0; i < 25; i++) {
                struct gemm g = fp32_product(which, 33);
                g.m = rows[i / 5], g.n = columns[i % 5];
                omp_set_num_threads(threads);
                struct product p = product_new(g, true);
                assert_ok(product_run(&p, 0));
                assert_product(&p);
                product_free(&p);
            }
    omp_set_num_threads(most);
}

TESTS(unit_test(test_gemm_fp32_gives_the_same_bits_for_any_number_of_threads),
      unit_test(test_gemm_fp32_gives_a_part_of_c_the_bits_it_has_in_the_whole), unit_test(test_gemm_fp32_of_every_cut_is_right))
