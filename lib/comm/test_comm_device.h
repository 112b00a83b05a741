/* Shared by the tests of communication on device memory: a GPU for each rank, memory on it, and numbers to move.
 *
 * DEVICE=cpu skips these tests. NCCL needs a GPU for each rank; on a machine with fewer GPUs the tests of NCCL are left
 * out. tests/simt emulates SIMT_GPUS=8 GPUs, and SIMT_STREAMS sets the order in which queued work runs. */
#pragma once

#include "tests/test.h"

#include "lib/comm/comm_device.h"

#include <stdlib.h>

enum { MAX_RANKS = 8, SPACE = 4 << 20 };

/* This rank's GPU, and four pieces of its memory of SPACE bytes each. A process has one set, which it never frees. */
struct gpu { const struct device *device; char *a, *b, *c, *d; };

static inline const struct gpu *test_gpu(void) {
    static struct gpu gpu;
    if (test_device()->kind == DEVICE_CPU) skip();
    if (gpu.device) return &gpu;
    void *memory;
    assert_ok(device_cuda(comm_local_rank() % device_cuda_count(), &gpu.device));
    assert_ok(gpu.device->allocate(gpu.device, 4 * SPACE, &memory));
    gpu.a = memory;
    gpu.b = gpu.a + SPACE;
    gpu.c = gpu.b + SPACE;
    gpu.d = gpu.c + SPACE;
    return &gpu;
}

static const enum comm_transport transports[] = {COMM_STAGED, COMM_NCCL};

/* Use the transport. @return false, on all ranks, if it is NCCL and ranks share a GPU. If a possible transport does not
 * open, the test fails on all ranks. */
static inline bool use(const struct gpu *gpu, enum comm_transport transport) {
    bool fits = true;
    if (transport == COMM_NCCL) assert_ok(comm_nccl_fits(gpu->device, &fits));
    if (!fits) return false;
    assert_ok(comm_use_device(gpu->device, transport));
    return true;
}

/* Small integers, which are exact in every type, as are their sums over 8 ranks. */
static inline double small(int rank, int64_t i) { return (double)((rank * 7 + i * 3) % 11 - 5); }

static inline double sum_of(int n_ranks, int64_t i) {
    double sum = 0;
    for (int r = 0; r < n_ranks; r++) sum += small(r, i);
    return sum;
}

/* Copy n numbers of rank's sequence, from `from` on, to `to` on the GPU. Waits for the copy. */
static inline bool put(const struct gpu *gpu, void *to, enum dtype dtype, int rank, int64_t from, int64_t n) {
    int64_t bytes = n * (int64_t)dtype_size(dtype);
    void *host = malloc((size_t)bytes + 8);
    for (int64_t i = 0; i < n; i++) dtype_set(host, dtype, i, small(rank, from + i));
    bool ok = gpu->device->upload(gpu->device, to, host, bytes) == OK;
    free(host);
    return ok;
}

/* Do the n numbers on the GPU equal rank's sequence from `from` on? rank -1: the sum of all ranks' sequences. */
static inline bool holds(const struct gpu *gpu, const void *at, enum dtype dtype, int rank, int64_t from, int64_t n) {
    int64_t bytes = n * (int64_t)dtype_size(dtype);
    void *host = malloc((size_t)bytes + 8);
    bool ok = gpu->device->download(gpu->device, host, at, bytes) == OK;
    for (int64_t i = 0; i < n && ok; i++)
        ok = dtype_get(host, dtype, i) == (rank < 0 ? sum_of(comm_world_size(), from + i) : small(rank, from + i));
    free(host);
    return ok;
}

/* How often the host has waited for the GPU. Only tests/simt has this function. */
extern int64_t simt_host_waits(void) __attribute__((weak));
