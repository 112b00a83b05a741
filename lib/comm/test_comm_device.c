/* ranks: 1 2 4 8  device: any */
/* Every operation on memory of a GPU, over both transports, must give the expected result. */
#include "lib/comm/test_comm_device.h"

static const enum dtype floats[] = {FP64, FP32, BF16, FP16};
static const int64_t sizes[] = {1, 13, 20011};

struct work { const struct gpu *gpu; const struct group *group; int n, rank; enum dtype dtype; int64_t count, bytes; };
typedef bool operation_test(struct work *);

static bool finish(enum status started, struct comm_request *request) {
    return started == OK && comm_wait(request) == OK;
}

static bool for_all(operation_test *test) {
    struct work w = {.gpu = test_gpu(), .group = group_world(), .n = comm_world_size(), .rank = comm_world_rank()};
    bool ok = true;
    for (int t = 0; t < 2; t++) {
        if (!use(w.gpu, transports[t])) continue;
        for (int d = 0; d < 4; d++)
            for (int s = 0; s < 3; s++) {
                w.dtype = floats[d];
                w.count = sizes[s];
                w.bytes = w.count * (int64_t)dtype_size(w.dtype);
                bool fine = test(&w);
                if (!fine)
                    print_message("%s of %lld over transport %d\n", dtype_name(w.dtype), (long long)w.count,
                                  transports[t]);
                ok &= fine;
            }
    }
    return agree_all(ok);
}

static bool all_reduce_sums(struct work *w) {
    bool ok = put(w->gpu, w->gpu->a, w->dtype, w->rank, 0, w->count);
    ok &= comm_all_reduce(w->group, w->gpu->a, w->count, w->dtype, COMM_SUM) == OK;
    return holds(w->gpu, w->gpu->a, w->dtype, -1, 0, w->count) && ok;
}

static bool all_gather_collects(struct work *w) {
    const struct gpu *g = w->gpu;
    char *own = g->b + w->rank * w->bytes;                  /* in place: the shard's place in the result */
    bool ok = put(g, g->d, w->dtype, w->rank, 0, w->count) && put(g, own, w->dtype, w->rank, 0, w->count);
    ok &= comm_all_gather(w->group, g->d, g->a, w->count, w->dtype) == OK;
    ok &= comm_all_gather(w->group, own, g->b, w->count, w->dtype) == OK;
    for (int r = 0; r < w->n; r++)
        ok &= holds(g, g->a + r * w->bytes, w->dtype, r, 0, w->count) &&
              holds(g, g->b + r * w->bytes, w->dtype, r, 0, w->count);
    return ok;
}

static bool reduce_scatter_sums_own_part(struct work *w) {
    const struct gpu *g = w->gpu;
    bool ok = put(g, g->a, w->dtype, w->rank, 0, w->count * w->n);
    ok &= comm_reduce_scatter(w->group, g->a, g->b, w->count, w->dtype) == OK;
    ok &= holds(g, g->b, w->dtype, -1, w->rank * w->count, w->count);
    return ok && holds(g, g->a, w->dtype, w->rank, 0, w->count * w->n);
}

static bool broadcast_copies_from_every_root(struct work *w) {
    bool ok = true;
    for (int root = 0; root < w->n; root++) {
        ok &= put(w->gpu, w->gpu->a, w->dtype, w->rank, 0, w->count);
        ok &= comm_broadcast(w->group, w->gpu->a, w->count, w->dtype, root) == OK;
        ok &= holds(w->gpu, w->gpu->a, w->dtype, root, 0, w->count);
    }
    return ok;
}

static bool reduce_sums_at_the_root_only(struct work *w) {
    int root = w->n - 1;
    struct comm_request request;
    bool ok = put(w->gpu, w->gpu->a, w->dtype, w->rank, 0, w->count);
    ok &= finish(comm_reduce_start(w->group, w->gpu->a, w->count, w->dtype, COMM_SUM, root, &request), &request);
    return holds(w->gpu, w->gpu->a, w->dtype, w->rank == root ? -1 : w->rank, 0, w->count) && ok;
}

static bool all_to_all_transposes(struct work *w) {
    const struct gpu *g = w->gpu;
    struct comm_request request;
    bool ok = put(g, g->a, w->dtype, w->rank, 0, w->count * w->n);
    ok &= finish(comm_all_to_all_start(w->group, g->a, g->b, w->count, w->dtype, &request), &request);
    for (int r = 0; r < w->n; r++) ok &= holds(g, g->b + r * w->bytes, w->dtype, r, w->rank * w->count, w->count);
    return ok;
}

/* Maxima and minima; of 16-bit types none, because comm.h has none on a device. */
static bool all_reduce_finds_extrema(struct work *w) {
    const struct gpu *g = w->gpu;
    if (w->dtype == BF16 || w->dtype == FP16) return true;
    bool ok = put(g, g->a, w->dtype, w->rank, 0, w->count) && put(g, g->b, w->dtype, w->rank, 0, w->count);
    ok &= comm_all_reduce(w->group, g->a, w->count, w->dtype, COMM_MAX) == OK;
    ok &= comm_all_reduce(w->group, g->b, w->count, w->dtype, COMM_MIN) == OK;
    char *host = malloc(2 * (size_t)w->bytes);
    ok &= g->device->download(g->device, host, g->a, w->bytes) == OK;
    ok &= g->device->download(g->device, host + w->bytes, g->b, w->bytes) == OK;
    for (int64_t i = 0; i < w->count; i++) {
        double largest = -100, smallest = 100;
        for (int r = 0; r < w->n; r++) {
            largest = fmax(largest, small(r, i));
            smallest = fmin(smallest, small(r, i));
        }
        ok &= dtype_get(host, w->dtype, i) == largest && dtype_get(host + w->bytes, w->dtype, i) == smallest;
    }
    free(host);
    return ok;
}

TEST(test_all_reduce_sums) { assert_true(for_all(all_reduce_sums)); }
TEST(test_all_gather_collects) { assert_true(for_all(all_gather_collects)); }
TEST(test_reduce_scatter_sums) { assert_true(for_all(reduce_scatter_sums_own_part)); }
TEST(test_broadcast_copies) { assert_true(for_all(broadcast_copies_from_every_root)); }
TEST(test_reduce_sums_at_root) { assert_true(for_all(reduce_sums_at_the_root_only)); }
TEST(test_all_to_all_transposes) { assert_true(for_all(all_to_all_transposes)); }
TEST(test_extrema) { assert_true(for_all(all_reduce_finds_extrema)); }

/* Each rank in turn has an infinity, a zero, a subnormal or NaN. The encoding keeps their order, and NaN wins. */
TEST(test_extrema_of_special_numbers) {
    static const double special[] = {(double)INFINITY, -(double)INFINITY, (double)NAN, 0.0, 1e-40, -1e-40};
    const struct gpu *g = test_gpu();
    bool ok = true;
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < 6 * 2 * 2 && use(g, transports[t]); i++) {
            enum dtype dtype = i % 2 ? FP32 : FP64;
            enum comm_reduction reduction = i / 2 % 2 ? COMM_MAX : COMM_MIN;
            int64_t bytes = (int64_t)dtype_size(dtype);
            double host, mine = comm_world_rank() == i % comm_world_size() ? special[i / 4] : 0.0, x = special[i / 4];
            dtype_set(&host, dtype, 0, mine);
            dtype_set(&x, dtype, 0, x);
            double given = dtype_get(&x, dtype, 0);          /* fp32 rounds 1e-40 */
            double expected = comm_world_size() == 1 || isnan(given) ? given
                              : reduction == COMM_MAX                ? fmax(given, 0)
                                                                     : fmin(given, 0);
            ok &= g->device->upload(g->device, g->a, &host, bytes) == OK;
            ok &= comm_all_reduce(group_world(), g->a, 1, dtype, reduction) == OK;
            ok &= g->device->download(g->device, &host, g->a, bytes) == OK;
            double got = dtype_get(&host, dtype, 0);
            ok &= isnan(expected) ? isnan(got) : got == expected;
        }
    assert_true(agree_all(ok));
}

/* bf16 has 8 bits. n numbers in [1, 2) are added in fp32 pairs, each rounded to bf16. So there are at most n - 1
 * roundings of a sum below 2n, each with an error of at most half a unit, 2n 2^-9. The GPUs' order of additions is not
 * fixed, so the bits are not tested, except that all ranks have the same. */
TEST(test_bf16_sums_within_their_bound_and_alike) {
    enum { N = 4096 };
    static uint16_t x[N], first[N];
    const struct gpu *g = test_gpu();
    int n = comm_world_size();
    bool ok = true;
    for (int t = 0; t < 2; t++) {
        if (!use(g, transports[t])) continue;
        for (int i = 0; i < N; i++) x[i] = bf16_from_float(1 + (float)((i * 31 + comm_world_rank() * 17) % 128) / 128);
        ok &= g->device->upload(g->device, g->a, x, sizeof x) == OK;
        ok &= comm_all_reduce(group_world(), g->a, N, BF16, COMM_SUM) == OK;
        ok &= g->device->download(g->device, x, g->a, sizeof x) == OK;
        memcpy(first, x, sizeof x);
        ok &= comm_broadcast(group_world(), first, N / 2, FP32, 0) == OK;   /* on host memory, so over MPI */
        ok &= memcmp(first, x, sizeof x / 2) == 0;
        for (int i = 0; i < N; i++) {
            double exact = 0;
            for (int r = 0; r < n; r++) exact += 1 + ((i * 31 + r * 17) % 128) / 128.0;
            ok &= fabs((double)bf16_to_float(x[i]) - exact) <= (n - 1) * 2.0 * n / 512;
        }
    }
    assert_true(agree_all(ok));
}

/* The ledger counts the same for device memory as for host memory. */
TEST(test_ledger_counts_as_for_the_host) {
    const struct gpu *g = test_gpu();
    struct group *group;
    static float x[8 * 100], y[8 * 100];
    bool ok = true;
    for (int t = 0; t < 2; t++) {
        if (!use(g, transports[t])) continue;
        struct ledger ledger[2];
        for (int side = 0; side < 2; side++) {
            float *from = side ? (float *)g->a : x, *to = side ? (float *)g->b : y;
            ok &= group_create("count", 0, comm_world_rank(), &group) == OK;
            ok &= comm_all_reduce(group, from, 100, FP32, COMM_SUM) == OK;
            ok &= comm_all_gather(group, to, from, 100, FP32) == OK;
            ok &= comm_reduce_scatter(group, from, to, 100, BF16) == OK;
            ok &= comm_broadcast(group, from, 7, FP64, 0) == OK;
            ledger[side] = *group_ledger(group);
            group_destroy(&group);
        }
        for (enum comm_op op = 0; op < N_COMM_OPS; op++)
            ok &= ledger[0].entry[op].calls == ledger[1].entry[op].calls &&
                  ledger[0].entry[op].bytes == ledger[1].entry[op].bytes;
        ok &= ledger[1].entry[COMM_ALL_REDUCE].calls == 1 && ledger[1].entry[COMM_BROADCAST].calls == 1;
    }
    assert_true(agree_all(ok));
}

/* With --check-collectives, a mismatch is found before any member queues its operation. */
TEST(test_check_collectives_sees_device_operations) {
    const struct gpu *g = test_gpu();
    struct comm_settings before = *comm_settings_in_force(), checked = before;
    bool ok = true;
    checked.check_collectives = true;
    for (int t = 0; t < 2; t++) {
        if (!use(g, transports[t])) continue;
        comm_configure(&checked);
        ok &= put(g, g->a, FP32, comm_world_rank(), 0, 5) &&
              comm_all_reduce(group_world(), g->a, 5, FP32, COMM_SUM) == OK;
        ok &= holds(g, g->a, FP32, -1, 0, 5);
        enum status status = comm_all_reduce(group_world(), g->a, 5 + (comm_world_rank() == 1), FP32, COMM_SUM);
        ok &= status == (comm_world_size() > 1 ? E_COMM : OK);
        status_clear();
        comm_configure(&before);
    }
    assert_true(agree_all(ok));
}

/* The order of operations on device memory and work on the compute stream: an operation runs after the work issued
 * before it, and before the work issued after comm_wait. If a wait is missing, each test gives wrong numbers in
 * tests/simt, which runs streams late. */

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

TESTS(unit_test(test_all_reduce_sums), unit_test(test_all_gather_collects), unit_test(test_reduce_scatter_sums),
      unit_test(test_broadcast_copies), unit_test(test_reduce_sums_at_root), unit_test(test_all_to_all_transposes),
      unit_test(test_extrema), unit_test(test_extrema_of_special_numbers),
      unit_test(test_bf16_sums_within_their_bound_and_alike), unit_test(test_ledger_counts_as_for_the_host),
      unit_test(test_check_collectives_sees_device_operations), unit_test(test_starts_behind_the_compute_stream),
      unit_test(test_ends_before_what_comes_after), unit_test(test_waits_for_readers_of_the_target),
      unit_test(test_many_overlap), unit_test(test_nothing_overtakes), unit_test(test_host_and_device_mix),
      unit_test(test_the_host_goes_on), unit_test(test_both_ways_round_the_ring),
      unit_test(test_four_channels_round_the_ring), unit_test(test_down_a_chain), unit_test(test_messages_to_oneself))
