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

TESTS(unit_test(test_all_reduce_sums), unit_test(test_all_gather_collects), unit_test(test_reduce_scatter_sums),
      unit_test(test_broadcast_copies), unit_test(test_reduce_sums_at_root), unit_test(test_all_to_all_transposes),
      unit_test(test_extrema), unit_test(test_extrema_of_special_numbers),
      unit_test(test_bf16_sums_within_their_bound_and_alike), unit_test(test_ledger_counts_as_for_the_host),
      unit_test(test_check_collectives_sees_device_operations))
