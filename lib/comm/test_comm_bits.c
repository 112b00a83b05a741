/* ranks: 1 2 4 8  device: cpu */
/* A sum has the same bits on every rank and every time, and its error is at most that of a tree of roundings. */
#include "tests/test.h"

#include "lib/base/rng.h"
#include "lib/comm/comm_backend.h"

#include <stdlib.h>
#include <time.h>

enum { N_SIZES = 5, N_REPEATS = 6 };
static const int64_t sizes[N_SIZES] = {1, 7, 1000, 30011, 300007};   /* the last is large enough for exchanges of
                                                                      * several segments */
static const enum dtype types[] = {FP64, FP32, BF16, FP16};

/* Numbers of very different size, so that each order of additions rounds differently. */
static double term(int rank, int64_t i) {
    double x = rng_normal(1, (uint64_t)rank, (uint64_t)i);
    return ldexp(x, (int)((i * 5 + rank * 3) % 9) - 4);
}

static void fill(void *x, enum dtype dtype, int rank, int64_t n) {
    for (int64_t i = 0; i < n; i++) dtype_set(x, dtype, i, term(rank, i));
}

/* FNV-1a: equal buffers have equal hashes, and 52 bits fit a double exactly. */
static double hash(const void *x, size_t bytes) {
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++) h = (h ^ ((const unsigned char *)x)[i]) * 1099511628211u;
    return (double)(h >> 12);
}

/* Delay each rank differently, in an order that changes from one repetition to the next. */
static void come_late(int repeat) {
    struct timespec nap = {0, 700000L * ((comm_world_rank() * 5 + repeat * 3) % comm_world_size())};
    nanosleep(&nap, NULL);
}

static bool same_on_all_ranks(double x) {
    double largest = agree_max(x), smallest = -agree_max(-x); /* every rank must call both, and && would skip the
                                                               * second */
    return largest == smallest;
}

/* Repeat a sum of the same terms. @return whether all results are equal; *result: the hash of the first */
static bool repeats(bool scatter, enum dtype dtype, int64_t count, double *result) {
    size_t part_bytes = (size_t)count * dtype_size(dtype),
           bytes = part_bytes * (scatter ? (size_t)comm_world_size() : 1);
    char *terms = malloc(bytes), *x = malloc(bytes), *part = malloc(part_bytes);
    bool ok = terms && x && part;
    fill(terms, dtype, comm_world_rank(), (int64_t)(bytes / dtype_size(dtype)));
    for (int repeat = 0; repeat < N_REPEATS; repeat++) {
        memcpy(x, terms, bytes);
        come_late(repeat);
        if (scatter) ok &= comm_reduce_scatter(group_world(), x, part, count, dtype) == OK;
        else ok &= comm_all_reduce(group_world(), x, count, dtype, COMM_SUM) == OK;
        double h = hash(scatter ? part : x, part_bytes);
        if (repeat == 0) *result = h;
        ok &= h == *result;
    }
    free(terms);
    free(x);
    free(part);
    return ok;
}

TEST(test_sum_has_the_same_bits_everywhere_and_always) {
    bool ok = true;
    for (int d = 0; d < 4; d++)
        for (int s = 0; s < N_SIZES; s++) {
            double result = 0;
            ok &= repeats(false, types[d], sizes[s], &result);
            ok &= same_on_all_ranks(result);
        }
    assert_true(agree_all(ok));
}

TEST(test_scattered_sum_has_the_same_bits_always) {
    bool ok = true;
    for (int d = 0; d < 4; d++)
        for (int s = 0; s < N_SIZES; s++) {
            double result;
            ok &= repeats(true, types[d], (sizes[s] + comm_world_size() - 1) / comm_world_size(), &result);
        }
    assert_true(agree_all(ok));
}

/* Half an ulp of 1: the relative error of one rounding to nearest. */
static double unit_roundoff(enum dtype dtype) {
    switch (dtype) {
    case FP64: return 0x1p-53;
    case FP32: return 0x1p-24;
    case FP16: return 0x1p-11;
    default: return 0x1p-8; /* bf16 */
    }
}

/* A tree over n terms has at most n - 1 additions on a path. The error of each is at most u times a partial sum, which
 * is at most S = sum |x|. So |error| <= (n - 1) u S, times 1.1 for higher orders. The addition of a 16-bit pair in fp32
 * adds 2^-24, which the 1.1 covers; fp16 subnormals are multiples of 2^-24, so their sums are exact. fp64 is its own
 * reference, so its bound is doubled. */
TEST(test_sum_is_within_its_bound) {
    enum { COUNT = 3001 };
    static double x[COUNT];
    int n = comm_world_size();
    bool ok = true;
    for (int d = 0; d < 4; d++) {
        fill(x, types[d], comm_world_rank(), COUNT);
        ok &= comm_all_reduce(group_world(), x, COUNT, types[d], COMM_SUM) == OK;
        for (int64_t i = 0; i < COUNT; i++) {
            double exact = 0, magnitude = 0, rounded;
            for (int r = 0; r < n; r++) {
                dtype_set(&rounded, types[d], 0, term(r, i));
                exact += dtype_get(&rounded, types[d], 0);
                magnitude += fabs(dtype_get(&rounded, types[d], 0));
            }
            double bound = 1.1 * (n - 1) * unit_roundoff(types[d]) * magnitude * (types[d] == FP64 ? 2 : 1);
            ok &= fabs(dtype_get(x, types[d], i) - exact) <= bound;
        }
    }
    assert_true(agree_all(ok));
}

TESTS(unit_test(test_sum_has_the_same_bits_everywhere_and_always),
      unit_test(test_scattered_sum_has_the_same_bits_always), unit_test(test_sum_is_within_its_bound))
