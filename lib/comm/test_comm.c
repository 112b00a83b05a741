/* ranks: 1 2 4 8  device: cpu */
/* The result of every operation must equal values that each rank computes by itself, because each rank can compute the
 * input of any rank. */
#include "tests/test.h"

#include "lib/base/clock.h"
#include "lib/base/rng.h"
#include "lib/comm/comm_backend.h"
#include "lib/comm/transport/host_transport.h"

#include <limits.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_RANKS = 8, N_SIZES = 4 };
static const int64_t sizes[N_SIZES] = {0, 1, 13, 20011}; /* the last is long enough for other algorithms inside MPI */
static const enum dtype floats[] = {FP64, FP32, BF16, FP16};

/* Small integers, which are exact in every type, as are their sums over 8 ranks. */
static double small(int rank, int64_t i) { return (double)((rank * 7 + i * 3) % 11 - 5); }

static void fill(void *x, enum dtype dtype, int rank, int64_t from, int64_t n) {
    for (int64_t i = 0; i < n; i++) dtype_set(x, dtype, i, small(rank, from + i));
}

static double sum_of(int n_ranks, int64_t i) {
    double sum = 0;
    for (int r = 0; r < n_ranks; r++) sum += small(r, i);
    return sum;
}

/* The input of one test: a part for this rank, room for the parts of all ranks, and the shape. */
struct work { const struct group *group; int n, rank; enum dtype dtype; int64_t count; void *part, *full, *other; };
typedef bool operation_test(struct work *);

/* Run a test for every type and size. @return whether it passed on all ranks */
static bool for_all(operation_test *test) {
    bool ok = true;
    struct work w = {.group = group_world(), .n = comm_world_size(), .rank = comm_world_rank()};
    for (int d = 0; d < 4; d++)
        for (int s = 0; s < N_SIZES; s++) {
            w.dtype = floats[d];
            w.count = sizes[s];
            w.part = calloc((size_t)w.count + 1, 8);
            w.full = calloc((size_t)w.count * MAX_RANKS + 1, 8);
            w.other = calloc((size_t)w.count * MAX_RANKS + 1, 8);
            fill(w.part, w.dtype, w.rank, 0, w.count);
            ok &= test(&w);
            free(w.part);
            free(w.full);
            free(w.other);
        }
    return agree_all(ok);
}

static bool all_reduce_sums(struct work *w) {
    bool ok = comm_all_reduce(w->group, w->part, w->count, w->dtype, COMM_SUM) == OK;
    for (int64_t i = 0; i < w->count; i++) ok &= dtype_get(w->part, w->dtype, i) == sum_of(w->n, i);
    return ok;
}

static bool all_reduce_finds_extrema(struct work *w) {
    memcpy(w->other, w->part, (size_t)w->count * 8);
    bool ok = comm_all_reduce(w->group, w->part, w->count, w->dtype, COMM_MAX) == OK;
    ok &= comm_all_reduce(w->group, w->other, w->count, w->dtype, COMM_MIN) == OK;
    for (int64_t i = 0; i < w->count; i++) {
        double largest = -100, smallest = 100;
        for (int r = 0; r < w->n; r++) {
            largest = fmax(largest, small(r, i));
            smallest = fmin(smallest, small(r, i));
        }
        ok &= dtype_get(w->part, w->dtype, i) == largest && dtype_get(w->other, w->dtype, i) == smallest;
    }
    return ok;
}

static bool holds_all_parts(const struct work *w, const void *full) {
    bool ok = true;
    for (int r = 0; r < w->n; r++)
        for (int64_t i = 0; i < w->count; i++) ok &= dtype_get(full, w->dtype, r * w->count + i) == small(r, i);
    return ok;
}

static bool all_gather_collects(struct work *w) {
    size_t bytes = (size_t)w->count * dtype_size(w->dtype);
    bool ok = comm_all_gather(w->group, w->part, w->full, w->count, w->dtype) == OK;
    void *own = (char *)w->other + (size_t)w->rank * bytes; /* in place: the shard's place in the result */
    memcpy(own, w->part, bytes);
    ok &= comm_all_gather(w->group, own, w->other, w->count, w->dtype) == OK;
    return ok && holds_all_parts(w, w->full) && holds_all_parts(w, w->other);
}

static bool reduce_scatter_sums_own_part(struct work *w) {
    fill(w->full, w->dtype, w->rank, 0, w->count * w->n);
    bool ok = comm_reduce_scatter(w->group, w->full, w->part, w->count, w->dtype) == OK;
    for (int64_t i = 0; i < w->count; i++)
        ok &= dtype_get(w->part, w->dtype, i) == sum_of(w->n, w->rank * w->count + i);
    return ok;
}

static bool broadcast_copies_from_every_root(struct work *w) {
    bool ok = true;
    for (int root = 0; root < w->n; root++) {
        fill(w->part, w->dtype, w->rank, 0, w->count);
        ok &= comm_broadcast(w->group, w->part, w->count, w->dtype, root) == OK;
        for (int64_t i = 0; i < w->count; i++) ok &= dtype_get(w->part, w->dtype, i) == small(root, i);
    }
    return ok;
}

static bool reduce_sums_at_the_root_only(struct work *w) {
    int root = w->n - 1;
    struct comm_request request;
    bool ok = comm_reduce_start(w->group, w->part, w->count, w->dtype, COMM_SUM, root, &request) == OK;
    ok = comm_wait(&request) == OK && ok;
    for (int64_t i = 0; i < w->count; i++)
        ok &= dtype_get(w->part, w->dtype, i) == (w->rank == root ? sum_of(w->n, i) : small(w->rank, i));
    return ok;
}

/* Rank a's part for rank b is the numbers of a's sequence from b * count on. */
static bool all_to_all_transposes(struct work *w) {
    struct comm_request request;
    fill(w->full, w->dtype, w->rank, 0, w->count * w->n);
    bool ok = comm_all_to_all_start(w->group, w->full, w->other, w->count, w->dtype, &request) == OK;
    ok = comm_wait(&request) == OK && ok;
    for (int r = 0; r < w->n; r++)
        for (int64_t i = 0; i < w->count; i++)
            ok &= dtype_get(w->other, w->dtype, r * w->count + i) == small(r, w->rank * w->count + i);
    return ok;
}

/* Two messages of one tag go around the ring at once and arrive in order. In a group of one a rank sends to
 * itself. */
static bool messages_keep_their_order(struct work *w) {
    int next = (w->rank + 1) % w->n, before = (w->rank + w->n - 1) % w->n;
    struct comm_request in[2], out[2];
    char *first = w->full, *second = w->other;
    bool ok = comm_recv_start(w->group, first, w->count, w->dtype, before, 5, &in[0]) == OK;
    ok &= comm_recv_start(w->group, second, 1, FP64, before, 5, &in[1]) == OK;
    double mark = 100 + w->rank;
    ok &= comm_send_start(w->group, w->part, w->count, w->dtype, next, 5, &out[0]) == OK;
    ok &= comm_send_start(w->group, &mark, 1, FP64, next, 5, &out[1]) == OK;
    for (int i = 0; i < 2; i++) ok = comm_wait(&in[i]) == OK && comm_wait(&out[i]) == OK && ok;
    for (int64_t i = 0; i < w->count; i++) ok &= dtype_get(first, w->dtype, i) == small(before, i);
    return ok && dtype_get(second, FP64, 0) == 100 + before;
}

TEST(test_all_reduce_sums) { assert_true(for_all(all_reduce_sums)); }
TEST(test_all_reduce_finds_extrema) { assert_true(for_all(all_reduce_finds_extrema)); }
TEST(test_all_gather_collects) { assert_true(for_all(all_gather_collects)); }
TEST(test_reduce_scatter_sums) { assert_true(for_all(reduce_scatter_sums_own_part)); }
TEST(test_broadcast_copies) { assert_true(for_all(broadcast_copies_from_every_root)); }
TEST(test_reduce_sums_at_root) { assert_true(for_all(reduce_sums_at_the_root_only)); }
TEST(test_all_to_all_transposes) { assert_true(for_all(all_to_all_transposes)); }
TEST(test_messages_keep_order) { assert_true(for_all(messages_keep_their_order)); }

/* Many operations are in flight on one group, and are waited for in reverse order. */
TEST(test_operations_overlap) {
    enum { N = 16 };
    static double x[N][501];
    struct comm_request request[N];
    bool ok = true;
    for (int k = 0; k < N; k++) {
        fill(x[k], FP64, comm_world_rank(), k, 501);
        ok &= comm_all_reduce_start(group_world(), x[k], 501, FP64, COMM_SUM, &request[k]) == OK;
        comm_progress();
    }
    for (int k = N - 1; k >= 0; k--)
        ok &= comm_wait(&request[k]) == OK && !request[k].handle && comm_wait(&request[k]) == OK;
    for (int k = 0; k < N; k++)
        for (int i = 0; i < 501; i++) ok &= x[k][i] == sum_of(comm_world_size(), k + i);
    assert_true(agree_all(ok));
}

/* A NaN on any one rank is the result on all ranks, whichever side of a comparison it is on. */
TEST(test_nan_wins_in_extrema) {
    bool ok = true;
    for (int d = 0; d < 4; d++)
        for (int who = 0; who < comm_world_size(); who++)
            for (enum comm_reduction reduction = COMM_SUM; reduction <= COMM_MIN; reduction++) {
                double x[1];
                dtype_set(x, floats[d], 0, comm_world_rank() == who ? (double)NAN : 1.0);
                ok &= comm_all_reduce(group_world(), x, 1, floats[d], reduction) == OK;
                ok &= isnan(dtype_get(x, floats[d], 0));
            }
    assert_true(agree_all(ok));
}

TEST(test_refuses_what_cannot_be) {
    struct comm_request request;
    char x[8] = {0};
    int n = comm_world_size();
    assert_fails(comm_broadcast(group_world(), x, 1, UINT8, n), E_INTERNAL, "broadcast", "world");
    assert_fails(comm_send_start(group_world(), x, -1, UINT8, 0, 0, &request), E_INTERNAL, "send", "-1");
    assert_fails(comm_send_start(group_world(), x, 1, UINT8, 0, -3, &request), E_INTERNAL, "tag -3");
    if (n == 1) return; /* a group of one moves any number of bytes */
    int64_t count = (int64_t)INT_MAX / n + 1;
    assert_fails(comm_all_gather(group_world(), x, x, count, UINT8), E_COMM, "all_gather", "split the buffer");
    assert_fails(comm_all_reduce(group_world(), x, 3000000000, UINT8, COMM_SUM), E_COMM, "3000000000", "2147483647");
}

/* Rank 0 is busy for longer than the deadline. Meanwhile all other ranks stand by, and use almost no processor time. */
TEST(test_idle_has_patience_and_sleeps) {
    enum { BUSY_MS = 600 };
    struct comm_settings before = *comm_settings_in_force();
    comm_configure(&(struct comm_settings){.timeout_s = 0.2});
    struct timespec busy = {0, BUSY_MS * 1000000L};
    clock_t used = clock();
    bool ok = true;
    if (comm_is_rank_0()) {
        nanosleep(&busy, NULL);
        comm_configure(&before);
        ok = comm_barrier(group_world()) == OK;
    } else {
        ok = comm_idle(group_world()) == OK;
    }
    comm_configure(&before);
    double used_ms = 1e3 * (double)(clock() - used) / CLOCKS_PER_SEC;
    assert_true(agree_all(ok));
    assert_true(agree_max(used_ms) < BUSY_MS / 4.0);
}

/* With TRIVIUM_NAPS a rank that waits for long sleeps between two checks. */
TEST(test_a_long_wait_naps_where_that_is_asked_for) {
    if (!getenv("TRIVIUM_NAPS") || comm_world_size() == 1) skip();
    struct timespec late = {0, 300000000L};
    double used_s = processor_s();
    if (comm_is_rank_0()) nanosleep(&late, NULL);
    bool ok = comm_barrier(group_world()) == OK;
    used_s = processor_s() - used_s;
    assert_true(agree_all(ok));
    assert_true(agree_max(used_s) < 0.15);
}

/* All other ranks wait for rank 0, and check all the time. This time is not work; time outside of comm is. */
TEST(test_waiting_is_not_work) {
    struct comm_settings before = *comm_settings_in_force(), timed = before;
    struct timespec late = {0, 100000000L};
    timed.time_work = true;
    double start_s = comm_work_s();
    bool ok = comm_barrier(group_world()) == OK && comm_work_s() == start_s;     /* time_work is off */
    comm_configure(&timed);
    clock_t used = clock();
    if (comm_is_rank_0()) nanosleep(&late, NULL);
    ok = comm_barrier(group_world()) == OK && ok;
    double used_s = (double)(clock() - used) / CLOCKS_PER_SEC, comm_s = comm_work_s() - start_s;
    comm_configure(&before);
    bool waited = comm_world_size() > 1 && !comm_is_rank_0();
    ok = ok && comm_s > 0 && comm_s < used_s + 1e-3 && (!waited || comm_s > 0.8 * used_s - 1e-3);
    assert_true(agree_all(ok));
}

/* A new epoch needs equal settings on all ranks, also on a new spare, so it has the defaults. The deadline stays. */
TEST(test_an_epoch_keeps_the_deadline_alone) {
    if (comm_host_transport() != &transport_mpi) skip(); /* the direct transport's ranks would have to enter an epoch */
    const struct comm_settings before = *comm_settings_in_force();
    comm_configure(&(struct comm_settings){.timeout_s = 7, .check_collectives = true, .rule[1].library = true});
    comm_epoch_leave();
    const struct comm_settings kept = *comm_settings_in_force();
    comm_configure(&before);
    assert_true(kept.timeout_s == 7);
    assert_false(kept.check_collectives || kept.rule[1].library);
}

TESTS(unit_test(test_all_reduce_sums), unit_test(test_all_reduce_finds_extrema), unit_test(test_all_gather_collects),
      unit_test(test_reduce_scatter_sums), unit_test(test_broadcast_copies), unit_test(test_reduce_sums_at_root),
      unit_test(test_all_to_all_transposes), unit_test(test_messages_keep_order), unit_test(test_operations_overlap),
      unit_test(test_nan_wins_in_extrema), unit_test(test_refuses_what_cannot_be),
      unit_test(test_idle_has_patience_and_sleeps), unit_test(test_a_long_wait_naps_where_that_is_asked_for),
      unit_test(test_waiting_is_not_work), unit_test(test_an_epoch_keeps_the_deadline_alone))
