/* ranks: 1  device: simt */
#include "tests/simt/test_simt.h"
#include "lib/device/dtype.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

/* Kernels of these tests run when they are launched, not when a stream comes to them. */
static void (*submit)(void *, void (*)(void *), void *, size_t);
static int at_once(void **state) {
    (void)state;
    submit = simt_submit;
    simt_submit = NULL;
    return 0;
}
static int as_before(void **state) {
    (void)state;
    simt_submit = submit;
    simt_set_order(SIMT_FORWARD);
    return 0;
}
#define simt_unit_test(f) cmocka_unit_test_setup_teardown(f, at_once, as_before)

/* Memory that kernels may touch, all zero. */
static void *device_zeros(size_t bytes) {
    void *at = aligned_alloc(256, (bytes + 255) / 256 * 256);
    assert_non_null(at);
    memset(at, 0, bytes);
    simt_memory_allocated(at, bytes);
    return at;
}
static void device_free(void *at) {
    simt_memory_freed(at);
    free(at);
}

/* CUDA C++ programming guide, "Warp shuffle functions": segments of `width` lanes; a lane that looks beyond gets its
 * own value. */
TEST(test_shuffles_stay_in_their_segment) {
    int *out = device_zeros(128 * sizeof *out);
    for (int width = 1; width <= 32; width *= 2) {
        simt_test_shuffles(out, width);
        for (int lane = 0; lane < 32; lane++) {
            int first = lane / width * width, last = first + width - 1;
            assert_int_equal(out[lane], 100 + first + 3 % width);
            assert_int_equal(out[32 + lane], 100 + (lane > first ? lane - 1 : lane));
            assert_int_equal(out[64 + lane], 100 + (lane < last ? lane + 1 : lane));
            /* xor may look into an earlier segment, not into a later one */
            assert_int_equal(out[96 + lane], 100 + ((lane ^ 1) > last ? lane : lane ^ 1));
        }
    }
    device_free(out);
}

TEST(test_votes) {
    unsigned *out = device_zeros(5 * sizeof *out);
    simt_test_votes(out);
    assert_int_equal(out[0], 0x49249249);                   /* every third of 32 */
    assert_int_equal(out[1], 1);
    assert_int_equal(out[2], 0);
    assert_int_equal(out[3], 0);
    assert_int_equal(out[4], 1 + 0xff00);
    device_free(out);
}

/* 256 threads, i = 0 .. 255. */
TEST(test_atomics_lose_nothing) {
    unsigned *c = device_zeros(10 * sizeof *c);
    float tenth;
    c[1] = 1000, c[3] = 77, c[4] = ~0u, c[6] = 5, c[7] = 0;
    simt_test_atomics(c);
    memcpy(&tenth, &c[9], sizeof tenth);
    assert_int_equal(c[0], 255 * 256 / 2);
    assert_int_equal(c[1], 1000 - 256);
    assert_int_equal(c[2], 255);
    assert_int_equal(c[3], 0);
    assert_int_equal(c[4], 0);
    assert_int_equal(c[5], ~0u);
    assert_int_equal(c[6], 5);                              /* 0 ^ 1 ^ ... ^ 255 = 0 */
    assert_int_equal(c[7], 256 % 100);                      /* counts 0 .. 99 and begins again */
    assert_int_equal(c[8], 2 * 256);
    assert_close(tenth, 128, 0);
    device_free(c);
}

TEST(test_both_orders_show) {
    enum { BLOCKS = 3, THREADS = 70, N = BLOCKS * THREADS };
    unsigned *taken = device_zeros((N + 1) * sizeof *taken), *counter = taken + N;
    for (enum simt_order order = SIMT_FORWARD; order <= SIMT_REVERSE; order++) {
        simt_set_order(order);
        *counter = 0;
        simt_test_turns(taken, counter, BLOCKS, THREADS);
        for (unsigned i = 0; i < N; i++) assert_int_equal(taken[i], order == SIMT_FORWARD ? i : N - 1 - i);
    }
    device_free(taken);
}

TEST(test_shared_memory_static_and_dynamic) {
    static const int sizes[] = {1, 2, 31, 33, 777, 1024};
    int *x = device_zeros(1024 * sizeof *x);
    for (int i = 0; i < 12; i++) {
        int n = sizes[i / 2];
        simt_set_order(i % 4 < 2 ? SIMT_FORWARD : SIMT_REVERSE);
        for (int j = 0; j < n; j++) x[j] = j;
        simt_test_turn_around(x, n, i % 2);
        for (int j = 0; j < n; j++) assert_int_equal(x[j], n - 1 - j);
    }
    device_free(x);
}

TEST(test_barriers_that_count) {
    int *out = device_zeros(3 * sizeof *out);
    static const int n[] = {0, 1, 95, 96};
    for (int i = 0; i < 4; i++) {
        simt_test_counts(out, n[i]);
        assert_int_equal(out[0], n[i]);
        assert_int_equal(out[1], n[i] > 0);
        assert_int_equal(out[2], n[i] == 96);
    }
    device_free(out);
}

static float from_bits(uint16_t x, bool bfloat16) { return bfloat16 ? bf16_to_float(x) : fp16_to_float(x); }

/* Multiples of 1/8 below 2: products and their sums are exact in fp32 in any order, so every bit must agree. */
TEST(test_wmma_is_a_plain_product) {
    uint16_t *a = device_zeros(512 * sizeof *a), *b = a + 256;
    float *c = device_zeros(256 * sizeof *c);
    for (int way = 0; way < 4; way++) {
        bool bfloat16 = way & 1, columns = way & 2;
        for (int i = 0; i < 512; i++) {
            float x = (float)((i * 37 + way) % 31 - 15) / 8;
            a[i] = bfloat16 ? bf16_from_float(x) : fp16_from_float(x);
        }
        for (int i = 0; i < 256; i++) c[i] = (float)i;
        simt_test_product(a, b, c, bfloat16, columns);
        for (int row = 0; row < 16; row++)
            for (int column = 0; column < 16; column++) {
                float sum = (float)(16 * row + column);
                for (int k = 0; k < 16; k++)
                    sum += from_bits(a[16 * row + k], bfloat16) *
                           from_bits(b[columns ? 16 * column + k : 16 * k + column], bfloat16);
                assert_close(c[16 * row + column], sum, 0);
            }
    }
    device_free(a);
    device_free(c);
}

TEST(test_indices) {
    static const unsigned grid[3] = {3, 2, 2}, block[3] = {5, 3, 2};
    unsigned *out = device_zeros(12 * 12 * 30 * sizeof *out), *at = out;
    simt_test_indices(out, grid, block);
    for (unsigned b = 0; b < 12; b++)
        for (unsigned t = 0; t < 30; t++, at += 12) {
            unsigned want[12] = {t % 5, t / 5 % 3, t / 15, b % 3, b / 3 % 2, b / 6, 5, 3, 2, 3, 2, 2};
            assert_memory_equal(at, want, sizeof want);
        }
    device_free(out);
}

/* All halves, and the values between and next to two neighbors, are converted as by lib/device, bit by bit. */
TEST(test_16_bit_floats_round_as_the_cpus) {
    enum { N = 5 * 65536 };
    float *x = device_zeros(3 * N * sizeof *x), *h_back = x + N, *b_back = x + 2 * N;
    uint16_t *h = device_zeros(2 * N * sizeof *h), *b = h + N;
    for (int i = 0; i < 65536; i++) {
        float y = fp16_to_float((uint16_t)i), next = fp16_to_float((uint16_t)(i + 1)), middle = y + (next - y) / 2;
        float some[5] = {y, middle, nextafterf(middle, y), nextafterf(middle, next),
                         bf16_to_float((uint16_t)i) * 1.00390625f};
        for (int j = 0; j < 5; j++) x[5 * i + j] = some[j];
    }
    simt_test_convert(x, N, h, b, h_back, b_back);
    for (int i = 0; i < N; i++) {
        if (isnan(x[i])) {
            assert_true(isnan(h_back[i]) && isnan(b_back[i]));
            continue;
        }
        assert_int_equal(h[i], fp16_from_float(x[i]));
        assert_int_equal(b[i], bf16_from_float(x[i]));
        assert_close(h_back[i], fp16_to_float(h[i]), 0);
        assert_close(b_back[i], bf16_to_float(b[i]), 0);
    }
    device_free(x);
    device_free(h);
}

static const struct { unsigned threads, blocks, blocks_y; size_t shared_bytes; int allow; const char *value,
                      *limit; } refused[] = {
    {1025, 1, 1, 0, 0, "1025", "1024"}, {0, 1, 1, 0, 0, "(0,1,1)", "size of zero"},
    {32, 0, 1, 0, 0, "(0,1,1)", "size of zero"},
    {32, 1, 65536, 0, 0, "65536", "65535"}, {32, 1, 1, (48 << 10) + 4, 0, "49156", "49152"},
    {32, 1, 1, (227 << 10) + 4, 1, "232452", "232448"}};

TEST(test_launches_beyond_a_limit_are_refused) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        simt_test_launch(refused[i].threads, refused[i].blocks, refused[i].blocks_y, refused[i].shared_bytes,
                         refused[i].allow);
        assert_int_not_equal(simt_take_error(), 0);
        assert_non_null(strstr(simt_error_text(), "nothing"));
        assert_non_null(strstr(simt_error_text(), refused[i].value));
        assert_non_null(strstr(simt_error_text(), refused[i].limit));
    }
    simt_test_launch(1024, 2, 65535 / 5000, 48 << 10, 0);
    simt_test_launch(32, 1, 1, 227 << 10, 1);
    assert_int_equal(simt_take_error(), 0);
}

/* The runner fails a test that leaves a report; this kernel must leave none. */
TEST(test_warp_synchronous_code_is_right) {
    int *x = device_zeros(128 * sizeof *x);
    unsigned char *bytes = device_zeros(128);
    for (enum simt_order order = SIMT_FORWARD; order <= SIMT_REVERSE; order++) {
        simt_set_order(order);
        simt_test_warp_synchronous(x, bytes);
        for (int i = 0; i < 128; i++) {
            int neighbor = i / 32 * 32 + (i + 1) % 32;
            assert_int_equal(x[i], 11 * neighbor + 7);
            assert_int_equal(bytes[i], i);
        }
    }
    assert_int_equal(simt_reports(), 0);
    device_free(x);
    device_free(bytes);
}

/* One warp. Stride 1: 32 x 4 bytes are 4 sectors; stride 32: a sector per float. Four floats per thread: one by one,
 * each of the four requests touches all 16 sectors; as one vector, one request does. */
static const struct { int stride, n, vector; int64_t requests, sectors, bytes; } traffic[] = {
    {1, 1, 0, 1, 4, 128}, {2, 1, 0, 1, 8, 128}, {32, 1, 0, 1, 32, 128}, {4, 4, 0, 4, 64, 512}, {4, 4, 1, 1, 16, 512},
    {36, 4, 1, 1, 32, 512}};

TEST(test_traffic_is_counted_in_sectors) {
    float *x = device_zeros(2 * 2048 * sizeof *x), *y = x + 2048;
    for (size_t i = 0; i < sizeof traffic / sizeof *traffic; i++) {
        simt_count(1);
        simt_test_traffic(y, x, traffic[i].stride, traffic[i].n, traffic[i].vector);
        struct simt_counts c = simt_counts();
        simt_count(0);
        int seen = simt_checked();
        assert_int_equal(c.load.requests, seen * traffic[i].requests);
        assert_int_equal(c.load.units, seen * traffic[i].sectors);
        assert_int_equal(c.load.bytes, seen * traffic[i].bytes);
        assert_memory_equal(&c.store, &c.load, sizeof c.load);
        assert_int_equal(c.shared.requests, 0);
    }
    device_free(x);
}

/* Word stride i is in bank stride i % 32: gcd(stride, 32) threads meet in a bank. The read of one word by all is one
 * wavefront. */
TEST(test_bank_conflicts_are_counted_in_wavefronts) {
    static const int strides[] = {1, 2, 8, 31, 32, 33}, meet[] = {1, 2, 8, 1, 32, 1};
    float *y = device_zeros(32 * sizeof *y);
    for (int i = 0; i < 6; i++) {
        simt_count(1);
        simt_test_banks(y, strides[i]);
        struct simt_counts c = simt_counts();
        simt_count(0);
        assert_int_equal(c.shared.requests, simt_checked() * 2);
        assert_int_equal(c.shared.units, simt_checked() * (meet[i] + 1));
    }
    device_free(y);
}

/* A fragment is 16 rows of 8 words. 64 bfloat16 apart, all rows lie in the same 8 banks, 16 words in each; 16 or 72
 * apart, in all 32, 4 words in each. Stored to global memory, 16 x 16 floats are 32 sectors. */
TEST(test_fragments_are_counted_as_requests) {
    static const int strides[] = {16, 64, 72}, each[] = {4, 16, 4};
    float *y = device_zeros(256 * sizeof *y);
    for (int i = 0; i < 3; i++) {
        simt_count(1);
        simt_test_fragments(y, strides[i]);
        struct simt_counts c = simt_counts();
        simt_count(0);
        int seen = simt_checked();
        assert_int_equal(c.fragment.requests, seen * 2);
        assert_int_equal(c.fragment.units, seen * 2 * each[i]);
        assert_int_equal(c.fragment.bytes, seen * 1024);
        assert_int_equal(c.conflicts, seen * 2 * (each[i] - 4));
        assert_int_equal(c.products, seen);
        assert_int_equal(c.store.requests, seen);
        assert_int_equal(c.store.units, seen * 32);
        assert_int_equal(c.block_shared, seen * 16 * 72 * 2);
        for (int j = 0; j < 256; j++) assert_close(y[j], 16, 0);
    }
    device_free(y);
}

/* Four requests of one sector each. Lanes that skip an access are a request behind only until the next barrier, where
 * all begin again. */
TEST(test_requests_begin_again_behind_a_barrier) {
    float *x = device_zeros(256 * sizeof *x), *y = x + 128;
    simt_count(1);
    simt_test_rounds(y, x);
    struct simt_counts c = simt_counts();
    simt_count(0);
    assert_int_equal(c.load.requests, simt_checked() * 4);
    assert_int_equal(c.load.units, simt_checked() * 4);
    device_free(x);
}

TESTS(simt_unit_test(test_requests_begin_again_behind_a_barrier), simt_unit_test(test_traffic_is_counted_in_sectors),
      simt_unit_test(test_bank_conflicts_are_counted_in_wavefronts),
      simt_unit_test(test_fragments_are_counted_as_requests),
      simt_unit_test(test_shuffles_stay_in_their_segment), simt_unit_test(test_votes),
      simt_unit_test(test_atomics_lose_nothing), simt_unit_test(test_both_orders_show),
      simt_unit_test(test_shared_memory_static_and_dynamic), simt_unit_test(test_barriers_that_count),
      simt_unit_test(test_wmma_is_a_plain_product), simt_unit_test(test_indices),
      simt_unit_test(test_16_bit_floats_round_as_the_cpus), simt_unit_test(test_launches_beyond_a_limit_are_refused),
      simt_unit_test(test_warp_synchronous_code_is_right))
