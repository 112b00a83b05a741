/* One mistake in each kernel; AT marks its line. See test_simt.h; what has to be reported is in test_simt_faults.c. */
#include "lib/device/gpu.h"
#include "tests/simt/test_simt.h"

enum { ALL = ~0, LANES = 32 };
static int line;
#define AT line = __LINE__;

__global__ static void race_shared(int *global) {
    __shared__ int row[64];
    int i = threadIdx.x;
    row[i] = i;
    AT global[blockIdx.x * 64 + i] = row[i % 32];
}
__global__ static void race_warp(int *global) {
    __shared__ int row[64];
    int i = threadIdx.x;
    row[i] = i;
    AT global[blockIdx.x * 64 + i] = row[i & ~1];
}
__global__ static void race_blocks(int *global) {
    AT global[threadIdx.x] = (int)blockIdx.x;
}
__global__ static void race_atomic(int *global) {
    if (threadIdx.x < 32) atomicAdd(&global[blockIdx.x], 1);
    else { AT global[blockIdx.x] = 0; }
}
__global__ static void race_tensor(int *global) {
    using namespace nvcuda;
    __shared__ __align__(32) float tile[2][256];
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 1.0f);
    int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    wmma::store_matrix_sync(tile[warp], sum, 16, wmma::mem_row_major);
    AT global[blockIdx.x * 64 + threadIdx.x] = (int)tile[warp][lane];
}
__global__ static void beyond_global(int *global) {
    AT global[blockIdx.x * 64 + threadIdx.x + 1] = 0;
}
__global__ static void beyond_shared(int *global) {
    __shared__ int row[60];
    int i = threadIdx.x;
    AT row[i] = i;
    global[blockIdx.x * 64 + i] = i;
}
__global__ static void beyond_dynamic(int *global) {
    SHARED_DYNAMIC(int, row);
    int i = threadIdx.x;
    AT row[i] = i;
    global[blockIdx.x * 64 + i] = i;
}
__global__ static void uninitialised(int *global) {
    __shared__ int row[64];
    int i = threadIdx.x;
    if (i < 63) row[i] = i;
    __syncthreads();
    AT global[blockIdx.x * 64 + i] = row[i];
}
__global__ static void misaligned(int *global) {
    long long *to = (long long *)(global + 8 * blockIdx.x);
    if (threadIdx.x == 0) { AT *to = *(const long long *)(global + 33); }
}
__global__ static void barrier_elsewhere(int *global) {
    if (threadIdx.x < 32) __syncthreads();
    else { AT __syncthreads(); }
    global[blockIdx.x * 64 + threadIdx.x] = 0;
}
__global__ static void barrier_ended(int *global) {
    if (threadIdx.x == 40) return;
    AT __syncthreads();
    global[blockIdx.x * 64 + threadIdx.x] = 0;
}
__global__ static void lane_ended(int *global) {
    if (threadIdx.x == 4) return;
    AT int sum = __shfl_xor_sync(ALL, (int)threadIdx.x, 1);
    global[blockIdx.x * 64 + threadIdx.x] = sum;
}
__global__ static void lane_unnamed(int *global) {
    AT __syncwarp(0x0000ffff);
    global[blockIdx.x * 64 + threadIdx.x] = 0;
}
__global__ static void lane_source(int *global) {
    if (threadIdx.x % LANES < 16) {
        AT global[blockIdx.x * 64 + threadIdx.x] = __shfl_down_sync(0xffff, (int)threadIdx.x, 8);
    }
}
__global__ static void lanes_apart(int *global) {
    if (threadIdx.x % 2) __syncwarp();
    else { AT __syncwarp(); }
    global[blockIdx.x * 64 + threadIdx.x] = 0;
}
__global__ static void stuck(int *global) {
    if (threadIdx.x == 32) { AT __syncwarp(); }
    __syncthreads();
    global[blockIdx.x * 64 + threadIdx.x] = 0;
}
__global__ static void trapped(int *global) {
    if (threadIdx.x == 9) { AT __trap(); }
    global[blockIdx.x * 64 + threadIdx.x] = 0;
}

#define ONE(NAME, kernel, bytes) case NAME: LAUNCH(kernel, 2, 64, bytes, NULL)(global); break;
int simt_test_fault(enum simt_fault fault, int *global) {
    switch (fault) {
        ONE(RACE_SHARED, race_shared, 0) ONE(RACE_WARP, race_warp, 0) ONE(RACE_BLOCKS, race_blocks, 0)
        ONE(RACE_ATOMIC, race_atomic, 0) ONE(RACE_TENSOR, race_tensor, 0) ONE(BEYOND_GLOBAL, beyond_global, 0)
        ONE(BEYOND_SHARED, beyond_shared, 0) ONE(BEYOND_DYNAMIC, beyond_dynamic, 60 * sizeof(int))
        ONE(UNINITIALISED, uninitialised, 0) ONE(MISALIGNED, misaligned, 0) ONE(BARRIER_ELSEWHERE, barrier_elsewhere, 0)
        ONE(BARRIER_ENDED, barrier_ended, 0) ONE(LANE_ENDED, lane_ended, 0) ONE(LANE_UNNAMED, lane_unnamed, 0)
        ONE(LANE_SOURCE, lane_source, 0) ONE(LANES_APART, lanes_apart, 0) ONE(STUCK, stuck, 0) ONE(TRAPPED, trapped, 0)
    default: return 0;
    }
    return line;
}
