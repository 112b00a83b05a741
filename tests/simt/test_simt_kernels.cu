/* Correct kernels that use CUDA's features. See test_simt.h; test_simt.c has the expected results. */
#include "lib/device/gpu.h"
#include "tests/simt/test_simt.h"

enum { ALL = ~0 };

__global__ static void shuffles(int *out, int width) {
    int lane = threadIdx.x, mine = 100 + lane;
    out[lane] = __shfl_sync(ALL, mine, 3, width);
    out[32 + lane] = __shfl_up_sync(ALL, mine, 1, width);
    out[64 + lane] = __shfl_down_sync(ALL, mine, 1, width);
    out[96 + lane] = __shfl_xor_sync(ALL, mine, 1, width);
}
void simt_test_shuffles(int *out, int width) { LAUNCH(shuffles, 1, 32, 0, NULL)(out, width); }

__global__ static void votes(unsigned *out) {
    int lane = threadIdx.x;
    unsigned ballot = __ballot_sync(ALL, lane % 3 == 0);
    unsigned some[] = {ballot, (unsigned)__any_sync(ALL, lane % 3 == 0), (unsigned)__all_sync(ALL, lane % 3 == 0),
                       (unsigned)__any_sync(ALL, 0), (unsigned)__all_sync(ALL, lane < 32)};
    if (lane < 16) some[4] += __ballot_sync(0xffff, lane >= 8);      /* half of the warp alone: ff00 */
    if (lane == 0)
        for (int i = 0; i < 5; i++) out[i] = some[i];
}
void simt_test_votes(unsigned *out) { LAUNCH(votes, 1, 32, 0, NULL)(out); }

__global__ static void atomics(unsigned *c) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, old = 0, seen;
    atomicAdd(&c[0], i);
    atomicSub(&c[1], 1u);
    atomicMax(&c[2], i);
    atomicMin(&c[3], i);
    atomicAnd(&c[4], ~(1u << i % 32));
    atomicOr(&c[5], 1u << i % 32);
    atomicXor(&c[6], i);
    atomicInc(&c[7], 99u);
    while ((seen = atomicCAS(&c[8], old, old + 2)) != old) old = seen;
    atomicAdd((float *)&c[9], 0.5f);
}
void simt_test_atomics(unsigned *counters) { LAUNCH(atomics, 4, 64, 0, NULL)(counters); }

__global__ static void turns(unsigned *taken, unsigned *counter) {
    taken[blockIdx.x * blockDim.x + threadIdx.x] = atomicAdd(counter, 1u);
}
void simt_test_turns(unsigned *taken, unsigned *counter, int blocks, int threads) {
    LAUNCH(turns, blocks, threads, 0, NULL)(taken, counter);
}

__global__ static void turn_around_static(int *x, int n) {
    __shared__ int turned[1024];
    if ((int)threadIdx.x < n) turned[n - 1 - threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if ((int)threadIdx.x < n) x[threadIdx.x] = turned[threadIdx.x];
}
__global__ static void turn_around_dynamic(int *x, int n) {
    SHARED_DYNAMIC(int, turned);
    if ((int)threadIdx.x < n) turned[n - 1 - threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if ((int)threadIdx.x < n) x[threadIdx.x] = turned[threadIdx.x];
}
void simt_test_turn_around(int *x, int n, int dynamic) {
    if (dynamic) LAUNCH(turn_around_dynamic, 1, n, n * sizeof(int), NULL)(x, n);
    else LAUNCH(turn_around_static, 1, n, 0, NULL)(x, n);
}

__global__ static void counts(int *out, int n) {
    int i = threadIdx.x;
    int count = __syncthreads_count(i < n), any = __syncthreads_or(i < n), all = __syncthreads_and(i < n);
    if (i == 0) out[0] = count, out[1] = any, out[2] = all;
}
void simt_test_counts(int *out, int n) { LAUNCH(counts, 1, 96, 0, NULL)(out, n); }

template <class T, class Layout> __device__ static void product_of(const uint16_t *a, const uint16_t *b, float *c) {
    using namespace nvcuda;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, T, Layout> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::load_matrix_sync(fa, (const T *)a, 16);
    wmma::load_matrix_sync(fb, (const T *)b, 16);
    wmma::load_matrix_sync(sum, c, 16, wmma::mem_row_major);
    wmma::mma_sync(sum, fa, fb, sum);
    wmma::store_matrix_sync(c, sum, 16, wmma::mem_row_major);
}
__global__ static void product(const uint16_t *a, const uint16_t *b, float *c, int bfloat16, int columns) {
    if (bfloat16 && columns) product_of<__nv_bfloat16, nvcuda::wmma::col_major>(a, b, c);
    else if (bfloat16) product_of<__nv_bfloat16, nvcuda::wmma::row_major>(a, b, c);
    else if (columns) product_of<__half, nvcuda::wmma::col_major>(a, b, c);
    else product_of<__half, nvcuda::wmma::row_major>(a, b, c);
}
void simt_test_product(const uint16_t *a, const uint16_t *b, float *c, int bfloat16, int columns) {
    LAUNCH(product, 1, 32, 0, NULL)(a, b, c, bfloat16, columns);
}

__global__ static void indices(unsigned *out) {
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned said[] = {threadIdx.x, threadIdx.y, threadIdx.z, blockIdx.x, blockIdx.y, blockIdx.z,
                       blockDim.x, blockDim.y, blockDim.z, gridDim.x, gridDim.y, gridDim.z};
    for (int i = 0; i < 12; i++) out[12 * (block * blockDim.x * blockDim.y * blockDim.z + thread) + i] = said[i];
}
void simt_test_indices(unsigned *out, const unsigned g[3], const unsigned b[3]) {
    LAUNCH(indices, dim3(g[0], g[1], g[2]), dim3(b[0], b[1], b[2]), 0, NULL)(out);
}

__global__ static void convert(const float *x, int n, __half *h, __nv_bfloat16 *b, float *from_h, float *from_b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    h[i] = __float2half(x[i]);
    b[i] = __float2bfloat16(x[i]);
    from_h[i] = __half2float(h[i]);
    from_b[i] = __bfloat162float(b[i]);
}
void simt_test_convert(const float *x, int n, uint16_t *half, uint16_t *bfloat16, float *half_back,
                       float *bfloat16_back) {
    LAUNCH(convert, (n + 255) / 256, 256, 0, NULL)
    (x, n, (__half *)half, (__nv_bfloat16 *)bfloat16, half_back, bfloat16_back);
}

__global__ static void nothing(void) {}
void simt_test_launch(unsigned threads, unsigned blocks, unsigned blocks_y, size_t shared_bytes, int allow) {
    if (allow) GPU_ALLOW_SHARED(nothing, shared_bytes);
    LAUNCH(nothing, dim3(blocks, blocks_y), threads, shared_bytes, NULL)();
}

/* Each thread writes its byte of a word and, after a __syncwarp, reads its neighbor's; lane 0 gives a word to all. */
__global__ static void warp_synchronous(int *x, unsigned char *bytes) {
    __shared__ int row[128];
    __shared__ unsigned char part[128];
    int i = threadIdx.x, lane = i % 32, neighbor = i - lane + (lane + 1) % 32;
    row[i] = 10 * i;
    part[i] = (unsigned char)i;
    __syncwarp();
    int value = row[neighbor] + part[neighbor];
    __syncwarp();
    if (lane == 0) row[i] = 7;
    __syncwarp();
    x[i] = value + row[i - lane];
    bytes[i] = part[i];
}
void simt_test_warp_synchronous(int *x, unsigned char *bytes) { LAUNCH(warp_synchronous, 1, 128, 0, NULL)(x, bytes); }

__global__ static void move_floats(float *y, const float *x, int stride, int n) {
    for (int j = 0; j < n; j++) y[stride * threadIdx.x + j] = x[stride * threadIdx.x + j];
}
__global__ static void move_vectors(float *y, const float *x, int stride) {
    float4 v = *(const float4 *)(x + stride * threadIdx.x);
    v.x += 1, v.y += 1, v.z += 1, v.w += 1;         /* so that the compiler may take it apart */
    *(float4 *)(y + stride * threadIdx.x) = v;
}
void simt_test_traffic(float *y, const float *x, int stride, int n, int vector) {
    if (vector) LAUNCH(move_vectors, 1, 32, 0, NULL)(y, x, stride);
    else LAUNCH(move_floats, 1, 32, 0, NULL)(y, x, stride, n);
}

__global__ static void banks(float *y, int stride) {
    __shared__ float words[32 * 33];
    words[stride * threadIdx.x] = (float)threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = words[0];
}
void simt_test_banks(float *y, int stride) { LAUNCH(banks, 1, 32, 0, NULL)(y, stride); }

__global__ static void fragments(float *y, int ld) {
    using namespace nvcuda;
    __shared__ __align__(32) __nv_bfloat16 rows[16 * 72];
    for (int i = threadIdx.x; i < 16 * ld; i += 32) rows[i] = __float2bfloat16(1);
    __syncthreads();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::load_matrix_sync(a, rows, ld);
    wmma::load_matrix_sync(b, rows, ld);
    wmma::fill_fragment(sum, 0.0f);
    wmma::mma_sync(sum, a, b, sum);
    wmma::store_matrix_sync(y, sum, 16, wmma::mem_row_major);
}
void simt_test_fragments(float *y, int ld) { LAUNCH(fragments, 1, 32, 0, NULL)(y, ld); }

__global__ static void rounds(float *y, const float *x) {
    float sum = 0;
    for (int i = 0; i < 2; i++) {
        int n = threadIdx.x < 16 ? 2 : 1;
        for (int k = 0; k < n; k++) sum += x[64 * i + 8 * k];
        __syncthreads();
    }
    y[threadIdx.x] = sum;
}
void simt_test_rounds(float *y, const float *x) { LAUNCH(rounds, 1, 32, 0, NULL)(y, x); }
