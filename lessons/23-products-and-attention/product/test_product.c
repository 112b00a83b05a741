/* ranks: 1  device: simt */
/* The product's numbers, and separately its traffic. A report of the memory checker fails the running test. */
#include "lessons/23-products-and-attention/product/product.h"
#include "lib/device/dtype.h"
#include "tests/simt/kernel_test.h"

#include <stdio.h>

struct matrices { int M, N, K; float *c; uint16_t *a, *b; enum status status; };

/* Numbers are multiples of 1/8 below 2, exact in bf16. Their products and sums are multiples of 1/64 below 2^18, exact
 * in fp32 in any order: so every right product has the same bits. */
static uint16_t number(size_t i) { return bf16_from_float((float)((int)(i * 7919 % 31) - 15) / 8); }

static struct matrices matrices_create(int M, int N, int K) {
    size_t m_k = (size_t)M * (size_t)K, k_n = (size_t)K * (size_t)N;
    struct matrices x = {M, N, K, device_bytes((size_t)M * (size_t)N * 4), device_bytes(m_k * 2), device_bytes(k_n * 2),
                         OK};
    for (size_t i = 0; i < m_k; i++) x.a[i] = number(i);
    for (size_t i = 0; i < k_n; i++) x.b[i] = number(i + 5);
    return x;
}
static void matrices_destroy(struct matrices *x) {
    void *all[] = {x->a, x->b, x->c};
    for (int i = 0; i < 3; i++) device_free(all[i]);
}

static void run(struct matrices *x, enum simt_order order) {
    struct kernel_run before = kernel_begin(order);
    x->status = kernel_end(before, product(x->c, x->a, x->b, x->M, x->N, x->K));
}

static const char *first_wrong(const struct matrices *x) {
    static char text[200];
    for (int i = 0; i < x->M; i++)
        for (int j = 0; j < x->N; j++) {
            float want = 0, found = x->c[i * x->N + j];
            for (int k = 0; k < x->K; k++)
                want += bf16_to_float(x->a[i * x->K + k]) * bf16_to_float(x->b[k * x->N + j]);
            if (found == want) continue;
            snprintf(text, sizeof text, "M=%d N=%d K=%d: c[%d,%d] is %.9g, and should be %.9g", x->M, x->N, x->K, i, j,
                     (double)found, (double)want);
            return text;
        }
    return NULL;
}

static void check(int M, int N, int K, enum simt_order order) {
    struct matrices x = matrices_create(M, N, K);
    run(&x, order);
    const char *wrong = x.status == OK ? first_wrong(&x) : NULL;
    enum status status = x.status;
    matrices_destroy(&x);
    assert_ok(status);
    if (wrong) fail_msg("%s", wrong);
}

static const struct { int M, N, K; } sizes[] = {{1, 1, 1}, {16, 16, 48}, {17, 16, 16}, {16, 15, 16}, {16, 16, 33},
                                                {64, 64, 64}, {65, 31, 40}, {3, 130, 7}, {100, 1, 65}};

static void check_sizes(enum simt_order order) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check(sizes[i].M, sizes[i].N, sizes[i].K, order);
}
TEST(test_product_of_every_size) {
    check_sizes(SIMT_FORWARD);
}
TEST(test_product_in_the_opposite_order) {
    check_sizes(SIMT_REVERSE);
}

/* ---- counts, without the numbers: a kernel that lacks a barrier can pass, if it does all the work ---- */
static struct simt_counts counts_of(int M, int N, int K) {
    struct matrices x = matrices_create(M, N, K);
    simt_count(1);
    run(&x, SIMT_FORWARD);
    struct simt_counts n = simt_counts();
    simt_count(0);
    enum status status = x.status;
    matrices_destroy(&x);
    assert_ok(status);
    assert_true(simt_checked());                             /* other builds count no traffic */
    long long read = ((long long)M + N) * K * 2, written = (long long)M * N * 4;
    if (n.load.bytes < read || n.store.bytes < written)
        fail_msg("of %lld bytes %lld are read, and of %lld bytes %lld written", read, (long long)n.load.bytes, written,
                 (long long)n.store.bytes);
    return n;
}
static void at_most(const char *what, int64_t count, int64_t limit) {
    if (count > limit) fail_msg("128 x 128 x 64: %s: %lld; at most %lld", what, (long long)count, (long long)limit);
}
static void at_least(const char *what, int64_t count, int64_t limit) {
    if (count < limit) fail_msg("%s: %lld; at least %lld", what, (long long)count, (long long)limit);
}

TEST(test_product_of_one_fragment) {
    check(16, 16, 16, SIMT_FORWARD);
    at_least("16 x 16 x 16: products of tensor cores", counts_of(16, 16, 16).products, 1);
}

enum { M = 128, N = 128, K = 64, PRODUCTS = M * N * K / 4096 };

TEST(test_product_is_by_tensor_cores) {
    struct simt_counts n = counts_of(M, N, K);
    at_least("128 x 128 x 64: products of tensor cores", n.products, PRODUCTS);
    at_most("products of tensor cores", n.products, PRODUCTS);
}

/* A block of 64 x 64 loads (64 + 64) K numbers of 2 bytes, and there are 4 blocks. */
TEST(test_product_reads_few_sectors) {
    at_most("sectors read", counts_of(M, N, K).load.units, M / 64 * (N / 64) * (64 + 64) * K * 2 / 32);
}

TEST(test_product_stores_whole_sectors) {
    at_most("sectors written", counts_of(M, N, K).store.units, M * N * 4 / 32);
}

/* Fragments of a and b have 512 bytes, two for each product at most 512 together; those of c are stored once. */
TEST(test_product_fragments_serve_twice) {
    struct simt_counts n = counts_of(M, N, K);
    at_least("128 x 128 x 64: products of tensor cores", n.products, PRODUCTS);
    at_most("bytes of fragments, in shared memory", n.fragment.bytes, PRODUCTS * 512 + M * N * 4);
    at_most("sectors read", n.load.units, M / 64 * (N / 64) * (64 + 64) * K * 2 / 32);
}

TEST(test_product_has_no_bank_conflicts) {
    struct simt_counts n = counts_of(M, N, K);               /* a kernel without shared memory fails, too */
    at_least("128 x 128 x 64: bytes of fragments from shared memory", n.fragment.bytes, PRODUCTS * 128);
    at_most("wavefronts that are bank conflicts", n.conflicts, 0);
}

/* 228 KiB of a multiprocessor, of which CUDA takes 1 KiB per block: 7 x 31. */
TEST(test_product_fits_seven_times) {
    struct simt_counts n = counts_of(M, N, K);
    at_least("128 x 128 x 64: bytes of shared memory per block", n.block_shared, 1);
    at_most("bytes of shared memory per block", n.block_shared, 30 << 10);
}

TESTS(unit_test(test_product_of_one_fragment), unit_test(test_product_of_every_size),
      unit_test(test_product_in_the_opposite_order), unit_test(test_product_is_by_tensor_cores),
      unit_test(test_product_reads_few_sectors), unit_test(test_product_stores_whole_sectors),
      unit_test(test_product_fragments_serve_twice), unit_test(test_product_has_no_bank_conflicts),
      unit_test(test_product_fits_seven_times))
