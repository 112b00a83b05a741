/* ranks: 2 4 8  device: cpu */
/* Sums and gathers that are large enough to be exchanges (comm_mpi_exchange.c), against numbers worked out here. Whole
 * numbers, so that every order of adding is exact; parts that do not divide, parts that some ranks have none of,
 * several segments. */
#include "lib/comm/comm_backend.h"
#include "lib/comm/comm_mpi_exchange.h"
#include "tests/test.h"
#include <math.h>
#include <stdlib.h>

/* Elements: the smallest exchange of fp32, one more; one segment and two, for two ranks, give or take one; several. */
static const int64_t sizes[] = {16384, 16385, 131072, 131073, 262143, 262145, 700001};
enum { N_SIZES = 7, GUARD = 16 };

static float term(int rank, int64_t i) { return (float)((i * 7 + rank * 13) % 101 - 50); }
static float sum_at(int64_t i) {
    float sum = 0;
    for (int r = 0; r < comm_world_size(); r++) sum += term(r, i);
    return sum;
}

/* n elements between guards, at `*x`. */
static float *guarded(int64_t n, float **x) {
    float *all = malloc((size_t)(n + 2 * GUARD) * sizeof *all);
    for (int64_t i = 0; i < n + 2 * GUARD; i++) all[i] = -12345;
    *x = all + GUARD;
    return all;
}
static bool guards_stand(const float *all, int64_t n) {
    bool ok = true;
    for (int i = 0; i < GUARD; i++) ok &= all[i] == -12345 && all[GUARD + n + i] == -12345;
    return ok;
}

static bool reduces(int64_t n) {
    float *x, *all = guarded(n, &x);
    for (int64_t i = 0; i < n; i++) x[i] = term(comm_world_rank(), i);
    bool ok = comm_all_reduce(group_world(), x, n, FP32, COMM_SUM) == OK;
    for (int64_t i = 0; i < n; i++) ok &= x[i] == sum_at(i);
    ok &= guards_stand(all, n);
    free(all);
    return ok;
}

static bool scatters(int64_t n) {
    int64_t whole = n * comm_world_size(), first = n * comm_world_rank();
    float *x, *part, *all = guarded(whole, &x), *own = guarded(n, &part);
    for (int64_t i = 0; i < whole; i++) x[i] = term(comm_world_rank(), i);
    bool ok = comm_reduce_scatter(group_world(), x, part, n, FP32) == OK;
    for (int64_t i = 0; i < n; i++) ok &= part[i] == sum_at(first + i);
    for (int64_t i = 0; i < whole; i++) ok &= x[i] == term(comm_world_rank(), i);
    ok &= guards_stand(all, whole) && guards_stand(own, n);
    free(all);
    free(own);
    return ok;
}

static bool gathers(int64_t n, bool in_place) {
    int64_t whole = n * comm_world_size(), first = n * comm_world_rank();
    float *x, *part, *all = guarded(whole, &x), *own = guarded(n, &part);
    if (in_place) part = x + first;
    for (int64_t i = 0; i < n; i++) part[i] = term(3, first + i);
    bool ok = comm_all_gather(group_world(), part, x, n, FP32) == OK;
    for (int64_t i = 0; i < whole; i++) ok &= x[i] == term(3, i);
    ok &= guards_stand(all, whole) && guards_stand(own, n);
    free(all);
    free(own);
    return ok;
}

static void test_large_sums_and_gathers_are_right(void **state) {
    (void)state;
    bool ok = true;
    for (int s = 0; s < N_SIZES; s++) {
        ok &= reduces(sizes[s]);
        ok &= scatters(sizes[s] / comm_world_size() + 1);
        ok &= gathers(sizes[s] / comm_world_size() + 1, false);
        ok &= gathers(sizes[s] / comm_world_size() + 1, true);
    }
    assert_true(agree_all(ok));
}

/* A few bytes more than the limit, of one byte each: parts are whole cache lines, and the last ranks have less. */
static void test_parts_may_be_uneven(void **state) {
    (void)state;
    bool ok = true;
    for (int64_t n = 65536; n < 65536 + 130; n += 43) {
        uint8_t *x = malloc((size_t)n);
        for (int64_t i = 0; i < n; i++) x[i] = (uint8_t)(i % 7 == comm_world_rank() ? 200 : i % 50);
        ok &= comm_all_reduce(group_world(), x, n, UINT8, COMM_MAX) == OK;
        for (int64_t i = 0; i < n; i++) ok &= x[i] == (i % 7 < comm_world_size() ? 200 : i % 50);
        free(x);
    }
    assert_true(agree_all(ok));
}

static void test_a_nan_on_one_rank_is_the_maximum_on_all(void **state) {
    (void)state;
    enum { N = 40000 };
    bool ok = true;
    for (enum dtype d = FP64; d <= FP16; d++) {
        void *x = malloc(N * 8);
        for (int64_t i = 0; i < N; i++) dtype_set(x, d, i, i % 1000 == comm_world_rank() ? NAN : 1);
        ok &= comm_all_reduce(group_world(), x, N, d, COMM_MAX) == OK;
        for (int64_t i = 0; i < N; i++) ok &= isnan(dtype_get(x, d, i)) == (i % 1000 < comm_world_size());
        free(x);
    }
    assert_true(agree_all(ok));
}

/* Even ranks wait for the first one first, odd ranks for the last one: each sum's second phase needs those who wait for
 * another. A small one and a message round the ring are among them. */
static void test_ranks_may_wait_in_different_orders(void **state) {
    (void)state;
    enum { N = 5, LARGE = 100000 };
    struct comm_request request[N], message[2];
    float *x[N], out = (float)comm_world_rank(), in = -1;
    bool ok = true;
    int n = comm_world_size(), rank = comm_world_rank();
    for (int k = 0; k < N; k++) {
        x[k] = malloc(LARGE * sizeof(float));
        for (int64_t i = 0; i < LARGE; i++) x[k][i] = term(rank, i + k);
        ok &= comm_all_reduce_start(group_world(), x[k], k == 2 ? 10 : LARGE - k, FP32, COMM_SUM, &request[k]) == OK;
    }
    ok &= comm_recv_start(group_world(), &in, 1, FP32, (rank + n - 1) % n, 16383, &message[0]) == OK;
    ok &= comm_send_start(group_world(), &out, 1, FP32, (rank + 1) % n, 16383, &message[1]) == OK;
    for (int k = 0; k < N; k++) ok &= comm_wait(&request[rank % 2 ? N - 1 - k : k]) == OK;
    for (int k = 0; k < 2; k++) ok &= comm_wait(&message[k]) == OK;
    ok &= in == (float)((rank + n - 1) % n);
    for (int k = 0; k < N; k++) {
        for (int64_t i = 0; i < (k == 2 ? 10 : LARGE - k); i++) ok &= x[k][i] == sum_at(i + k);
        free(x[k]);
    }
    assert_true(agree_all(ok));
}

/* What is left to MPI is the same on all ranks, or they would wait for each other in different ways. */
static void test_small_calls_are_mpis(void **state) {
    (void)state;
    const struct group *world = group_world();
    int64_t least = 64 << 10;
    struct comm_call call = {.op = COMM_ALL_REDUCE, .count = least / 4, .dtype = FP32};
    assert_true(comm_exchange_takes(world, &call));
    call.count--;
    assert_false(comm_exchange_takes(world, &call));
    call = (struct comm_call){.op = COMM_ALL_GATHER, .count = least / 8 / comm_world_size(), .dtype = FP64};
    assert_true(comm_exchange_takes(world, &call));
    call.count--;
    assert_false(comm_exchange_takes(world, &call));
    call = (struct comm_call){.op = COMM_BROADCAST, .count = 1 << 20, .dtype = FP32};
    assert_false(comm_exchange_takes(world, &call));
    call.op = COMM_ALL_REDUCE;
    assert_false(comm_exchange_takes(group_self(), &call));
}

TESTS(unit_test(test_large_sums_and_gathers_are_right), unit_test(test_parts_may_be_uneven),
      unit_test(test_a_nan_on_one_rank_is_the_maximum_on_all), unit_test(test_ranks_may_wait_in_different_orders),
      unit_test(test_small_calls_are_mpis))
