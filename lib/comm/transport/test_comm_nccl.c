/* ranks: 1  device: any */
/* NCCL on one GPU: comm_nccl.c makes, uses, destroys and aborts a communicator of one rank. Other tests on one GPU call
 * no NCCL, because groups of one rank do not use it. On several GPUs test_comm_device.c tests more than a sum over one
 * rank can show. */
#include "tests/test.h"

#ifdef TRIVIUM_CUDA
#include "lib/comm/test_comm_device.h"
#include "lib/comm/transport/comm_lanes.h"

#include <stdatomic.h>
#include <time.h>

enum { MOST = 20011, GUARD = 64 };
static const enum dtype all_types[] = {FP64, FP32, BF16, FP16, INT32, UINT8};
static const int64_t sizes[] = {1, 13, MOST};

static const struct gpu *nccl_of_one(void) {
    const struct gpu *g = test_gpu();
    comm_device_serve_one(true);
    assert_ok(comm_use_device(g->device, COMM_STAGED));      /* closes all lanes of an earlier test */
    assert_ok(comm_use_device(g->device, COMM_NCCL));
    return g;
}
static void back_to_staged(const struct gpu *g) {
    comm_device_serve_one(false);
    assert_ok(comm_use_device(g->device, COMM_STAGED));
}

/* Bytes below 0x40, which are finite numbers in every type. */
static char byte_of(int64_t i, int salt) { return (char)((i * 37 + salt) % 0x3f); }

static void fill(const struct gpu *g, char *at, int salt) {
    static char host[MOST * 8 + GUARD];
    for (int64_t i = 0; i < (int64_t)sizeof host; i++) host[i] = byte_of(i, salt);
    assert_ok(g->device->upload(g->device, at, host, sizeof host));
}
/* Are the first n bytes those of `salt`, and the bytes after them those of `beyond`, which were not overwritten? */
static bool is_filled(const struct gpu *g, const char *at, int64_t n, int salt, int beyond) {
    static char host[MOST * 8 + GUARD];
    assert_ok(g->device->download(g->device, host, at, sizeof host));
    for (int64_t i = 0; i < (int64_t)sizeof host; i++)
        if (host[i] != byte_of(i, i < n ? salt : beyond)) return false;
    return true;
}

/* Run an operation from one buffer to another, because in place one rank would do nothing. */
static enum status run_op(const struct gpu *g, enum comm_op op, int64_t count, enum dtype dtype) {
    struct comm_call call = {.op = op, .from = g->a, .to = g->b, .count = count, .dtype = dtype,
                             .reduction = COMM_SUM};
    struct comm_request request = {.backend = &comm_nccl.backend, .group = group_world(), .op = op};
    TRY(comm_nccl.backend.start(&call, &request));
    return comm_wait(&request);
}

TEST(test_nccl_of_one_rank_does_every_operation) {
    static const enum comm_op ops[] = {COMM_ALL_REDUCE, COMM_ALL_GATHER, COMM_REDUCE_SCATTER,
                                       COMM_BROADCAST, COMM_REDUCE, COMM_ALL_TO_ALL};
    const struct gpu *g = nccl_of_one();
    bool ok = true;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        for (size_t d = 0; d < sizeof all_types / sizeof *all_types; d++)
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
                fill(g, g->a, 7), fill(g, g->b, 41);
                assert_ok(run_op(g, ops[i], sizes[s], all_types[d]));
                bool fine = is_filled(g, g->b, sizes[s] * (int64_t)dtype_size(all_types[d]), 7, 41) &&
                            is_filled(g, g->a, 0, 0, 7);
                if (!fine) print_message("%s of %lld %s\n", comm_op_name(ops[i]), (long long)sizes[s],
                                         dtype_name(all_types[d]));
                ok &= fine;
            }
    back_to_staged(g);
    assert_true(ok);
}

/* Encoding and decoding returns the same numbers. Every NaN, whatever its payload, becomes the last integer. */
static void check_extrema(const struct gpu *g, enum dtype dtype, enum comm_reduction reduction) {
    static const double special[] = {-INFINITY, -3.5, -1e-40, -0.0, 0.0, 1e-40, 2.25, INFINITY};
    enum { N = 1000 };
    const int64_t bytes = (int64_t)dtype_size(dtype);
    static char before[8 * N], after[8 * N];
    for (int i = 0; i < N; i++) dtype_set(before, dtype, i, i % 9 == 8 ? NAN : special[i % 9]);
    assert_ok(g->device->upload(g->device, g->a, before, N * bytes));
    assert_ok(comm_all_reduce(group_world(), g->a, N, dtype, reduction));
    assert_ok(g->device->download(g->device, after, g->a, N * bytes));
    for (int i = 0; i < N; i++) {
        const char *x = before + i * bytes, *y = after + i * bytes;
        unsigned char top = (unsigned char)y[bytes - 1], last = reduction == COMM_MAX ? 0x7f : 0xff;
        if (i % 9 != 8) assert_memory_equal(x, y, (size_t)bytes);
        else assert_true(top == last && (unsigned char)y[0] == 0xff);
    }
}

TEST(test_nccl_of_one_rank_finds_extrema) {
    const struct gpu *g = nccl_of_one();
    for (int i = 0; i < 4; i++) check_extrema(g, i % 2 ? FP32 : FP64, i / 2 ? COMM_MAX : COMM_MIN);
    assert_fails(comm_all_reduce(group_world(), g->a, 1, BF16, COMM_MAX), E_INTERNAL, "bf16", "NaN", "fp32");
    back_to_staged(g);
}

/* Communication that is ready runs before kernels that are ready. */
TEST(test_nccl_runs_on_a_stream_of_the_highest_priority) {
    const struct gpu *g = nccl_of_one();
    const struct lanes *lanes = group_world()->side;
    int least, greatest, lane = 0, compute = 0;
    assert_non_null(lanes);
    assert_int_equal(cudaDeviceGetStreamPriorityRange(&least, &greatest), cudaSuccess);
    assert_int_equal(cudaStreamGetPriority(lanes->collectives.stream, &lane), cudaSuccess);
    assert_int_equal(cudaStreamGetPriority((cudaStream_t)g->device->stream, &compute), cudaSuccess);
    assert_int_equal(lane, greatest);
    assert_true(lane < compute);
    back_to_staged(g);
}

/* ---- a blocked compute stream ---- */

/* Block the stream like long kernels: on a GPU until `released`, or for a second; emulated, until a caller waits. */
static atomic_bool released, was_late;
static void stand(void *unused) {
    const struct timespec pause = {0, 1000000};
    (void)unused;
    if (simt_host_waits) return;
    for (int ms = 0; ms < 1000 && !atomic_load(&released); ms++) nanosleep(&pause, NULL);
    atomic_store(&was_late, !atomic_load(&released));
}
static void hold(const struct gpu *g) {
    atomic_store(&released, false), atomic_store(&was_late, false);
    assert_int_equal(cudaLaunchHostFunc((cudaStream_t)g->device->stream, stand, NULL), cudaSuccess);
}

/* A copy on the compute stream, an NCCL operation, and another copy: the host waits for none of them. */
TEST(test_nccl_of_one_rank_is_in_order_and_holds_no_host) {
    const struct gpu *g = nccl_of_one();
    const struct device *d = g->device;
    assert_ok(run_op(g, COMM_ALL_GATHER, MOST, FP32));       /* load kernels before the test */
    fill(g, g->c, 5), fill(g, g->a, 7), fill(g, g->b, 41), fill(g, g->d, 23);
    assert_ok(d->copy(d, g->d, g->d + SPACE / 2, 4));
    int64_t waits = simt_host_waits ? simt_host_waits() : 0;
    hold(g);
    assert_ok(d->copy(d, g->a, g->c, MOST * 4));
    assert_ok(run_op(g, COMM_ALL_GATHER, MOST, FP32));
    assert_ok(d->copy(d, g->d, g->b, MOST * 4));
    if (simt_host_waits) assert_int_equal(simt_host_waits(), waits);
    atomic_store(&released, true);
    assert_ok(d->finish(d));
    assert_false(atomic_load(&was_late));
    assert_true(is_filled(g, g->d, MOST * 4, 5, 23));
    back_to_staged(g);
}

/* If a group is destroyed with an operation in flight, the operation ends first. */
TEST(test_nccl_of_one_rank_is_destroyed) {
    const struct gpu *g = nccl_of_one();
    struct group *group;
    struct comm_request request;
    fill(g, g->a, 7), fill(g, g->b, 41);
    assert_ok(group_create("one", 0, 0, &group));
    assert_non_null(group->side);
    assert_ok(comm_all_gather_start(group, g->a, g->b, MOST, FP64, &request));
    assert_ok(comm_wait(&request));
    group_destroy(&group);
    assert_true(is_filled(g, g->b, MOST * 8, 7, 41));
    assert_ok(run_op(g, COMM_ALL_GATHER, 13, FP32));         /* the world has another communicator */
    back_to_staged(g);
}

/* ---- aborted with work in flight ---- */

static void start_behind_a_held_stream(const struct gpu *g) {
    assert_ok(run_op(g, COMM_ALL_GATHER, MOST, FP64));
    assert_ok(g->device->finish(g->device));
    hold(g);
    assert_ok(run_op(g, COMM_ALL_GATHER, MOST, FP64));
}

static void works_again(const struct gpu *g) {
    assert_ok(comm_use_device(g->device, COMM_NCCL));
    fill(g, g->a, 11), fill(g, g->b, 41);
    assert_ok(run_op(g, COMM_REDUCE_SCATTER, MOST, BF16));
    assert_true(is_filled(g, g->b, MOST * 2, 11, 41));
}

/* After a deadline no operation can be started until the device comes into use again. */
TEST(test_nccl_is_broken_off_under_a_held_stream) {
    const struct gpu *g = nccl_of_one();
    start_behind_a_held_stream(g);
    comm_device_abort();                                     /* may wait for the GPU, where `stand` ends by itself */
    assert_fails(comm_all_reduce(group_world(), g->a, 1, FP32, COMM_SUM), E_COMM, "deadline", "broken off");
    assert_ok(g->device->finish(g->device));
    assert_ok(comm_use_device(g->device, COMM_STAGED));
    works_again(g);
    back_to_staged(g);
}

/* After the ranks have changed, each rank leaves by itself, and communicators are made again. */
TEST(test_nccl_is_left_under_a_held_stream) {
    const struct gpu *g = nccl_of_one();
    start_behind_a_held_stream(g);
    comm_device_leave();
    assert_null(comm_device());
    assert_null(group_world()->side);
    works_again(g);
    back_to_staged(g);
}

TESTS(unit_test(test_nccl_of_one_rank_does_every_operation), unit_test(test_nccl_of_one_rank_finds_extrema),
      unit_test(test_nccl_runs_on_a_stream_of_the_highest_priority),
      unit_test(test_nccl_of_one_rank_is_in_order_and_holds_no_host), unit_test(test_nccl_of_one_rank_is_destroyed),
      unit_test(test_nccl_is_broken_off_under_a_held_stream), unit_test(test_nccl_is_left_under_a_held_stream))
#else
static void test_nccl_is_not_in_this_build(void **state) { (void)state, skip(); }
TESTS(unit_test(test_nccl_is_not_in_this_build))
#endif
