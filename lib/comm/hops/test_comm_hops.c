/* ranks: 2 4 8  device: cpu */
/* Sums and gathers that are large enough for hops (comm_hops.c) must equal numbers that this test computes. The numbers
 * are integers, so that every order of additions is exact. Some parts are uneven, some are empty, some have several
 * segments. */
#include "lib/base/rng.h"
#include "lib/comm/hops/comm_hops.h"
#include "tests/test.h"
#include <math.h>
#include <stdlib.h>
#include <time.h>

/* Elements of fp32: the smallest call by hops, and one more; about one segment and two, for two ranks; several. */
static const int64_t sizes[] = {16384, 16385, 131072, 131073, 262143, 262145, 700001};
enum { N_SIZES = 7, GUARD = 16 };

/* They repeat after PERIOD elements. */
enum { PERIOD = 101 };
static float term(int rank, int64_t i) { return (float)((i * 7 + rank * 13) % PERIOD - 50); }
static float sum_at(int64_t i) {
    static float sums[PERIOD];
    static bool made;
    for (int64_t k = 0; k < PERIOD && !made; k++)
        for (int r = 0; r < comm_world_size(); r++) sums[k] += term(r, k);
    made = true;
    return sums[i % PERIOD];
}

/* Terms of any size, so that each order of additions rounds differently. */
static float rounded_term(int rank, int64_t i) {
    return (float)ldexp(rng_normal(1, (uint64_t)rank, (uint64_t)i), (int)((i * 5 + rank * 3) % 9) - 4);
}

/* Allocate n elements between guards; *x: the first element. @return the allocation */
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

TEST(test_large_sums_and_gathers_are_right) {
    bool ok = true;
    for (int s = 0; s < N_SIZES; s++) {
        ok &= reduces(sizes[s]);
        ok &= scatters(sizes[s] / comm_world_size() + 1);
        ok &= gathers(sizes[s] / comm_world_size() + 1, false);
        ok &= gathers(sizes[s] / comm_world_size() + 1, true);
    }
    assert_true(agree_all(ok));
}

/* Sizes slightly above the limit, in elements of one byte: parts are whole cache lines, so the last ranks have less. */
TEST(test_parts_may_be_uneven) {
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

TEST(test_a_nan_on_one_rank_is_the_maximum_on_all) {
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

/* Even ranks wait for the first sum first, odd ranks for the last. Each sum's second phase needs ranks that wait for
 * another sum. A small sum and a message around the ring are in flight, too. */
TEST(test_ranks_may_wait_in_different_orders) {
    enum { N = 5, LARGE = 100000 };
    struct comm_request request[N], message[2];
    float *x[N], out = (float)comm_world_rank(), in = -1;
    bool ok = true;
    int n = comm_world_size(), rank = comm_world_rank();
    nanosleep(&(struct timespec){0, rank * 20000000}, NULL);         /* so that no sum ends before all have started */
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

static bool goes_by_hops(const struct group *group, const struct comm_call *call) {
    const struct comm_algorithm *algorithm;
    assert_ok(comm_hops_choose(group, call, &algorithm));
    return algorithm;
}

/* All ranks must choose the library for the same calls, because otherwise they would exchange different messages. */
TEST(test_small_calls_are_the_librarys) {
    const struct group *world = group_world();
    int64_t least = 64 << 10;
    struct comm_call call = {.op = COMM_ALL_REDUCE, .count = least / 4, .dtype = FP32};
    assert_true(goes_by_hops(world, &call));
    call.count--;
    assert_true(goes_by_hops(world, &call) != comm_has_library());
    call = (struct comm_call){.op = COMM_ALL_GATHER, .count = least / 8 / comm_world_size(), .dtype = FP64};
    assert_true(goes_by_hops(world, &call));
    call.count--;
    assert_true(goes_by_hops(world, &call) != comm_has_library());
    call = (struct comm_call){.op = COMM_BROADCAST, .count = 1 << 20, .dtype = FP32};
    assert_true(goes_by_hops(world, &call) != comm_has_library());
    call.op = COMM_ALL_REDUCE;
    assert_false(goes_by_hops(group_self(), &call));
}

/* ---- every algorithm, by its name ---- */

static bool broadcasts(int64_t n) {
    float *x = malloc((size_t)(n + 1) * sizeof *x);
    int root = comm_world_size() - 1;
    for (int64_t i = 0; i < n; i++) x[i] = term(comm_world_rank(), i);
    bool ok = comm_broadcast(group_world(), x, n, FP32, root) == OK;
    for (int64_t i = 0; i < n; i++) ok &= x[i] == term(root, i);
    free(x);
    return ok;
}

static bool reduces_to_one(int64_t n) {
    float *x = malloc((size_t)(n + 1) * sizeof *x);
    int root = comm_world_size() - 1;
    struct comm_request request;
    for (int64_t i = 0; i < n; i++) x[i] = term(comm_world_rank(), i);
    bool ok = comm_reduce_start(group_world(), x, n, FP32, COMM_SUM, root, &request) == OK && comm_wait(&request) == OK;
    for (int64_t i = 0; i < n; i++) ok &= x[i] == (comm_world_rank() == root ? sum_at(i) : term(comm_world_rank(), i));
    free(x);
    return ok;
}

static bool exchanges(int64_t n) {
    int size = comm_world_size(), rank = comm_world_rank();
    float *from = malloc((size_t)(2 * n * size + 1) * sizeof *from), *to = from + n * size;
    struct comm_request request;
    for (int64_t i = 0; i < n * size; i++) from[i] = term(rank, i);
    bool ok = comm_all_to_all_start(group_world(), from, to, n, FP32, &request) == OK && comm_wait(&request) == OK;
    for (int64_t i = 0; i < n * size; i++) ok &= to[i] == term((int)(i / n), rank * n + i % n);
    free(from);
    return ok;
}

/* Integers, so that every order gives the same sum. Operations that the algorithm does not have use the default. */
static bool does_all(int64_t n) {
    int size = comm_world_size();
    return reduces(n) & scatters(n / size + 1) & gathers(n / size + 1, false) & gathers(n / size + 1, true) &
           broadcasts(n) & reduces_to_one(n) & exchanges(n / size + 1);
}

/* Does the ledger count the messages and bytes of this rank's table for one all_reduce? Two ranks share a node. */
static bool sends_what_its_table_says(const struct comm_algorithm *algorithm, int64_t n) {
    int size = comm_world_size(), rank = comm_world_rank();
    const struct hop_shape shape = {COMM_ALL_REDUCE, size, 0, n, (256 << 10) / 4, 16, group_world()->node};
    struct hop_table table;
    if (!comm_algorithm_fits(algorithm, &shape)) return true;
    assert_ok(hops_make(algorithm, &shape, rank, &table));
    struct hop_count planned = hops_count(&table, &shape, rank, FP32);
    hop_table_free(&table);
    struct ledger_entry before = group_ledger(group_world())->entry[COMM_ALL_REDUCE];
    bool ok = reduces(n);
    struct ledger_entry after = group_ledger(group_world())->entry[COMM_ALL_REDUCE];
    for (int between = 0; between < 2; between++) {
        ok &= after.messages[between] - before.messages[between] == planned.messages[between];
        ok &= after.sent[between] - before.sent[between] == (double)planned.bytes[between];
    }
    return ok && after.library_calls == before.library_calls;
}

TEST(test_every_algorithm_over_messages) {
    static const int64_t counts[] = {1, 3, 1000, 70001, 200000};
    const struct comm_settings before = *comm_settings_in_force();
    bool ok = true;
    for (int a = 0; comm_algorithms[a]; a++) {
        struct comm_settings settings = before;
        settings.rule[0].algorithm = comm_algorithms[a];
        settings.nodes = (struct nodes){2, a % 2};
        comm_configure(&settings);
        for (int c = 0; c < 5; c++)
            ok &= does_all(counts[c]) && sends_what_its_table_says(comm_algorithms[a], counts[c]);
        comm_configure(&before);
    }
    assert_true(agree_all(ok));
}

/* The expected sum: the tree (0 + 1) + (2 + 3) over the ranks, for sums of any size and on any rank. Each rank computes
 * its share, which all_gather gives to the others. */
static float of_ranks(int first, int n, int64_t i) {
    if (n == 1) return rounded_term(first, i);
    return of_ranks(first, n / 2, i) + of_ranks(first + n / 2, n / 2, i);
}

static bool adds_as_a_tree(int64_t n) {
    int size = comm_world_size();
    int64_t share = n / size, first = share * comm_world_rank();
    float *x = malloc((size_t)n * sizeof *x), *part = malloc((size_t)n * sizeof *x);
    float *sum = malloc((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = rounded_term(comm_world_rank(), i);
    bool ok = share == 0 || comm_reduce_scatter(group_world(), x, part, share, FP32) == OK;
    for (int64_t i = 0; i < share; i++) ok &= part[i] == (sum[first + i] = of_ranks(0, size, first + i));
    for (int64_t i = share * size; i < n; i++) sum[i] = of_ranks(0, size, i);
    ok &= share == 0 || comm_all_gather(group_world(), sum + first, sum, share, FP32) == OK;
    ok &= comm_all_reduce(group_world(), x, n, FP32, COMM_SUM) == OK;
    for (int64_t i = 0; i < n; i++) ok &= x[i] == sum[i];
    free(x);
    free(part);
    free(sum);
    return ok;
}

TEST(test_fixed_sums_are_a_tree_over_the_ranks) {
    static const int64_t n[] = {1, 2, 100, 1001, 131073, 700001};
    bool ok = true;
    comm_fix_sums(true);
    for (int i = 0; i < 6; i++) ok &= adds_as_a_tree(n[i]);
    comm_fix_sums(false);
    assert_true(agree_all(ok));
}

TESTS(unit_test(test_every_algorithm_over_messages), unit_test(test_large_sums_and_gathers_are_right),
      unit_test(test_parts_may_be_uneven), unit_test(test_a_nan_on_one_rank_is_the_maximum_on_all),
      unit_test(test_ranks_may_wait_in_different_orders), unit_test(test_small_calls_are_the_librarys),
      unit_test(test_fixed_sums_are_a_tree_over_the_ranks))
