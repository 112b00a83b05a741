/* ranks: 1 2 4 8  device: any */
/* The order of operations on device memory and work on the compute stream: an operation runs after the work issued
 * before it, and before the work issued after comm_wait. If a wait is missing, each test gives wrong numbers in
 * tests/simt, which runs streams late. */
#include "lib/comm/test_comm_device.h"

enum { N = 3001, BYTES = N * 4 };

static bool for_transports(bool (*test)(const struct gpu *)) {
    const struct gpu *gpu = test_gpu();
    bool ok = true;
    for (int t = 0; t < 2; t++) {
        bool fine = !use(gpu, transports[t]) || test(gpu);
        if (!fine) print_message("over transport %d\n", transports[t]);
        ok &= fine;
    }
    return agree_all(ok);
}

/* When the operation starts, the work that fills its buffer is only queued. */
static bool starts_behind_the_compute_stream(const struct gpu *g) {
    const struct device *d = g->device;
    struct comm_request request;
    bool ok = put(g, g->b, FP32, comm_world_rank(), 0, N) && put(g, g->a, FP32, 3, 100, N);
    ok &= d->fill(d, g->a, UINT64_C(0x4242424242424242), BYTES / 8 * 8) == OK;
    ok &= d->copy(d, g->a, g->b, BYTES) == OK;
    ok &= comm_all_reduce_start(group_world(), g->a, N, FP32, COMM_SUM, &request) == OK;
    ok &= comm_wait(&request) == OK;
    return holds(g, g->a, FP32, -1, 0, N) && ok;
}

/* A copy of the result is issued right after comm_wait. Then the buffer is overwritten, and sent again. */
static bool ends_before_what_comes_after(const struct gpu *g) {
    const struct device *d = g->device;
    bool ok = put(g, g->a, FP32, comm_world_rank(), 0, N) && put(g, g->b, FP32, 1, 50, N) &&
              put(g, g->d, FP32, comm_world_rank(), 9, N);
    ok &= comm_all_reduce(group_world(), g->a, N, FP32, COMM_SUM) == OK;
    ok &= d->copy(d, g->b, g->a, BYTES) == OK;
    ok &= d->copy(d, g->a, g->d, BYTES) == OK;
    ok &= comm_all_reduce(group_world(), g->a, N, FP32, COMM_SUM) == OK;
    ok &= d->copy(d, g->c, g->a, BYTES) == OK;
    ok &= d->fill(d, g->a, 0, BYTES / 8 * 8) == OK;
    return holds(g, g->b, FP32, -1, 0, N) && holds(g, g->c, FP32, -1, 9, N) && ok;
}

/* Gather and scatter into a buffer that older work still reads: the result must not overwrite it too early. */
static bool waits_for_readers_of_the_target(const struct gpu *g) {
    const struct device *d = g->device;
    int n = comm_world_size(), rank = comm_world_rank();
    bool ok = put(g, g->a, FP32, rank, 0, N) && put(g, g->b, FP32, 5, 7, (int64_t)N * n);
    ok &= d->copy(d, g->c, g->b, (int64_t)BYTES * n) == OK;
    ok &= comm_all_gather(group_world(), g->a, g->b, N, FP32) == OK;
    ok &= holds(g, g->c, FP32, 5, 7, (int64_t)N * n);
    for (int r = 0; r < n; r++) ok &= holds(g, g->b + (int64_t)BYTES * r, FP32, r, 0, N);
    return ok;
}

/* Many operations are in flight, with work in between, and are waited for in reverse order. */
static bool many_overlap(const struct gpu *g) {
    enum { M = 16, EACH = 4096 };
    const struct device *d = g->device;
    struct comm_request request[M];
    bool ok = true;
    for (int k = 0; k < M; k++) {
        ok &= put(g, g->b + k * EACH, FP64, comm_world_rank(), k, 501);
        ok &= d->copy(d, g->a + k * EACH, g->b + k * EACH, 501 * 8) == OK;
        ok &= comm_all_reduce_start(group_world(), g->a + k * EACH, 501, FP64, COMM_SUM, &request[k]) == OK;
        comm_progress();
    }
    for (int k = M - 1; k >= 0; k--) {
        ok &= comm_wait(&request[k]) == OK && !request[k].handle && comm_wait(&request[k]) == OK;
        ok &= d->copy(d, g->c + k * EACH, g->a + k * EACH, 501 * 8) == OK;
    }
    for (int k = 0; k < M; k++) ok &= holds(g, g->c + k * EACH, FP64, -1, k, 501);
    return ok;
}

/* The receiver of a broadcast has no data to download, so the broadcast is ready at once. It must still enter MPI after
 * the older sum, because other ranks enter the sum first. */
static bool nothing_overtakes(const struct gpu *g) {
    struct comm_request sum, broadcast;
    bool ok = true;
    for (int root = 0; root < comm_world_size(); root++) {
        ok &= put(g, g->a, FP32, comm_world_rank(), root, N) && put(g, g->b, FP32, comm_world_rank(), 0, N);
        ok &= comm_all_reduce_start(group_world(), g->a, N, FP32, COMM_SUM, &sum) == OK;
        ok &= comm_broadcast_start(group_world(), g->b, N, FP32, root, &broadcast) == OK;
        ok &= comm_wait(&broadcast) == OK && comm_wait(&sum) == OK;
        ok &= holds(g, g->a, FP32, -1, root, N) && holds(g, g->b, FP32, root, 0, N);
    }
    return ok;
}

/* Operations on host memory and on device memory may alternate in the same group. */
static bool host_and_device_mix(const struct gpu *g) {
    struct comm_request request;
    bool ok = put(g, g->a, FP32, comm_world_rank(), 0, N);
    for (int k = 0; k < 8; k++) {
        double x = comm_world_rank() + k;
        ok &= put(g, g->a, FP32, comm_world_rank(), k, N);
        ok &= comm_all_reduce_start(group_world(), g->a, N, FP32, COMM_SUM, &request) == OK;
        if (k % 2) ok &= comm_wait(&request) == OK;
        ok &= comm_all_reduce(group_world(), &x, 1, FP64, COMM_MAX) == OK && x == comm_world_size() - 1 + k;
        ok &= comm_wait(&request) == OK;
        ok &= holds(g, g->a, FP32, -1, k, N);
    }
    return ok;
}

/* The operations of a step: over NCCL the host does not wait before the mark at the end of the step. */
static bool the_host_goes_on(const struct gpu *g) {
    const struct device *d = g->device;
    struct device_mark mark = {0};
    struct comm_request request[4];
    bool ok = put(g, g->a, FP32, comm_world_rank(), 0, N) &&
              put(g, g->b, FP32, comm_world_rank(), 0, (int64_t)N * comm_world_size());
    int64_t before = simt_host_waits ? simt_host_waits() : 0;
    for (int k = 0; k < 4; k++) {
        ok &= comm_reduce_scatter_start(group_world(), g->b, g->c + k * BYTES / 4 * 4, N, FP32, &request[k]) == OK;
        ok &= comm_wait(&request[k]) == OK;
        comm_progress();
    }
    ok &= comm_all_reduce(group_world(), g->a, N, FP32, COMM_SUM) == OK;
    ok &= d->copy(d, g->d, g->a, BYTES) == OK && d->mark_set(d, &mark) == OK;
    ok &= comm_wait_device(&mark, "a step") == OK;
    if (simt_host_waits) ok &= simt_host_waits() == before;
    d->mark_fini(d, &mark);
    for (int k = 0; k < 4; k++) ok &= holds(g, g->c + k * BYTES / 4 * 4, FP32, -1, (int64_t)comm_world_rank() * N, N);
    return holds(g, g->d, FP32, -1, 0, N) && ok;
}

TEST(test_starts_behind_the_compute_stream) {
    assert_true(for_transports(starts_behind_the_compute_stream));
}
TEST(test_ends_before_what_comes_after) {
    assert_true(for_transports(ends_before_what_comes_after));
}
TEST(test_waits_for_readers_of_the_target) {
    assert_true(for_transports(waits_for_readers_of_the_target));
}
TEST(test_many_overlap) { assert_true(for_transports(many_overlap)); }
TEST(test_nothing_overtakes) { assert_true(for_transports(nothing_overtakes)); }
TEST(test_host_and_device_mix) { assert_true(for_transports(host_and_device_mix)); }
TEST(test_the_host_goes_on) { assert_true(for_transports(the_host_goes_on)); }

/* ---- messages ---- */

static struct group *ring;

static bool ring_of_all(void) {
    return group_create("ring", 0, comm_world_rank(), &ring) == OK && group_carry_messages(ring, 2) == OK &&
           group_carry_messages(ring, 4) == OK;
}

/* Two messages in each direction at once, and every rank sends before it receives. On one NCCL stream this would hang.
 * Then again, with the buffers overwritten as soon as comm_wait allows. */
static bool ways_round_the_ring(const struct gpu *g, int n_tags) {
    int n = comm_world_size(), rank = comm_world_rank(), next = (rank + 1) % n, before = (rank + n - 1) % n;
    const int to[4] = {next, before, before, next}, from[4] = {before, next, next, before};
    struct comm_request out[4], in[4];
    bool ok = ring_of_all();
    for (int turn = 0; turn < 2 && ok; turn++) {
        for (int m = 0; m < 4; m++) ok &= put(g, g->a + m * BYTES, FP32, rank, 10 * turn + m, N);
        for (int m = 0; m < 4; m++)
            ok &= comm_send_start(ring, g->a + m * BYTES, BYTES, UINT8, to[m % n_tags], m % n_tags, &out[m]) == OK;
        for (int m = 0; m < 4; m++)
            ok &= comm_recv_start(ring, g->b + m * BYTES, BYTES, UINT8, from[m % n_tags], m % n_tags, &in[m]) == OK;
        for (int m = 0; m < 4; m++) ok &= comm_wait(&in[m]) == OK && comm_wait(&out[m]) == OK;
        ok &= g->device->clear(g->device, g->a, 4 * BYTES) == OK;
        for (int m = 0; m < 4; m++) ok &= holds(g, g->b + m * BYTES, FP32, from[m % n_tags], 10 * turn + m, N);
    }
    group_destroy(&ring);
    return ok;
}

static bool both_ways_round_the_ring(const struct gpu *g) { return ways_round_the_ring(g, 2); }
static bool four_channels_round_the_ring(const struct gpu *g) { return ways_round_the_ring(g, 4); }

/* A chain, like a pipeline without interleaving: each rank waits for its input, changes it, and sends it on. */
static bool down_a_chain(const struct gpu *g) {
    int n = comm_world_size(), rank = comm_world_rank();
    struct comm_request in = {0}, out[3] = {{0}};
    bool ok = ring_of_all();
    for (int m = 0; m < 3 && ok; m++) {
        char *here = g->a + m * BYTES;
        if (rank == 0) ok &= put(g, here, FP32, 2, m, N);
        else ok &= comm_recv_start(ring, here, N, FP32, rank - 1, 0, &in) == OK && comm_wait(&in) == OK;
        ok &= g->device->copy(g->device, g->b + m * BYTES, here, BYTES) == OK;
        if (rank < n - 1) ok &= comm_send_start(ring, g->b + m * BYTES, N, FP32, rank + 1, 0, &out[m]) == OK;
    }
    for (int m = 0; m < 3; m++) ok &= comm_wait(&out[m]) == OK && holds(g, g->b + m * BYTES, FP32, 2, m, N);
    group_destroy(&ring);
    return ok;
}

/* A pipeline of one rank: for each tag, a message is kept until it is received, or copied to the receive that waits. */
static bool messages_to_oneself(const struct gpu *g) {
    struct comm_request in[2], out[3], first;
    const struct group *self = group_self();
    bool ok =
        put(g, g->a, FP32, 1, 0, N) && put(g, g->a + BYTES, FP32, 2, 0, N) && put(g, g->a + 2 * BYTES, FP32, 3, 0, N);
    ok &= comm_recv_start(self, g->b, N, FP32, 0, 1, &first) == OK && first.handle;
    for (int m = 0; m < 3; m++) ok &= comm_send_start(self, g->a + m * BYTES, N, FP32, 0, m == 1, &out[m]) == OK;
    ok &= g->device->clear(g->device, g->a, 3 * BYTES) == OK;
    for (int m = 0; m < 2; m++)
        ok &= comm_recv_start(self, g->c + m * BYTES, N, FP32, 0, 0, &in[m]) == OK && comm_wait(&in[m]) == OK;
    for (int m = 0; m < 3; m++) ok &= comm_wait(&out[m]) == OK;
    ok &= comm_wait(&first) == OK;
    return holds(g, g->b, FP32, 2, 0, N) && holds(g, g->c, FP32, 1, 0, N) && holds(g, g->c + BYTES, FP32, 3, 0, N) &&
           ok;
}

TEST(test_both_ways_round_the_ring) { assert_true(for_transports(both_ways_round_the_ring)); }
TEST(test_four_channels_round_the_ring) {
    assert_true(for_transports(four_channels_round_the_ring));
}
TEST(test_down_a_chain) { assert_true(for_transports(down_a_chain)); }
TEST(test_messages_to_oneself) { assert_true(for_transports(messages_to_oneself)); }

TESTS(unit_test(test_starts_behind_the_compute_stream), unit_test(test_ends_before_what_comes_after),
      unit_test(test_waits_for_readers_of_the_target), unit_test(test_many_overlap), unit_test(test_nothing_overtakes),
      unit_test(test_host_and_device_mix), unit_test(test_the_host_goes_on), unit_test(test_both_ways_round_the_ring),
      unit_test(test_four_channels_round_the_ring),
      unit_test(test_down_a_chain), unit_test(test_messages_to_oneself))
