/* Copy shards into a bucket, and add reduced shards to the owner's gradient; see zero_pack.h.
 *
 * Both kernels are bound by memory bandwidth. A gradient begins in a bucket where the one before it ends, so the copy
 * uses the widest words that the addresses allow. A thread adds 16 bytes if the addresses are aligned, otherwise one
 * element; both are coalesced. */
#include "zero/zero_pack.h"

#include "lib/base/integer.h"
#include "lib/device/gpu.h"

enum { THREADS = 256, MOST_BLOCKS = 4096 };

static unsigned blocks_of(int64_t n, int64_t most) {
    int64_t blocks = ceil_div(n, THREADS);
    return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

/* ---- copy into a bucket ---- */

struct __align__(16) word16 { uint64_t half[2]; };

/* Shard blockIdx.y; blocks along x share its words. */
template <class Word> __global__ static void __launch_bounds__(THREADS)
zero_pack_words(Word *__restrict__ bucket, int64_t stride, const Word *__restrict__ gradient, int64_t words) {
    const Word *from = gradient + blockIdx.y * words;
    Word *to = bucket + blockIdx.y * stride;
    int64_t step = (int64_t)gridDim.x * blockDim.x;
#pragma unroll 4
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < words; i += step) to[i] = from[i];
}

template <class Word>
static void launch_pack(void *stream, void *bucket, int64_t stride, const void *gradient, int64_t bytes, int n_ranks) {
    const int64_t size = sizeof(Word), words = bytes / size;
    dim3 grid(blocks_of(words, MOST_BLOCKS / n_ranks + 1), (unsigned)n_ranks);
    LAUNCH(zero_pack_words<Word>, grid, THREADS, 0, stream)
    ((Word *)bucket, stride / size, (const Word *)gradient, words);
}

enum status zero_pack_cuda(void *stream, void *bucket, int64_t stride, const void *gradient, int64_t bytes,
                           int n_ranks) {
    if (bytes == 0) return OK;
    uintptr_t boundary = (uintptr_t)bucket | (uintptr_t)stride | (uintptr_t)gradient | (uintptr_t)bytes;
    if (boundary % 16 == 0) launch_pack<struct word16>(stream, bucket, stride, gradient, bytes, n_ranks);
    else if (boundary % 8 == 0) launch_pack<uint64_t>(stream, bucket, stride, gradient, bytes, n_ranks);
    else if (boundary % 4 == 0) launch_pack<uint32_t>(stream, bucket, stride, gradient, bytes, n_ranks);
    else launch_pack<uint16_t>(stream, bucket, stride, gradient, bytes, n_ranks);
    return gpu_launched("zero_pack_words");
}

/* ---- add out of a bucket ---- */

__device__ static inline double sum_of(double a, double b) { return a + b; }
__device__ static inline float sum_of(float a, float b) { return a + b; }
__device__ static inline __nv_bfloat16 sum_of(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __float2bfloat16(__bfloat162float(a) + __bfloat162float(b));
}
__device__ static inline __half sum_of(__half a, __half b) { return __float2half(__half2float(a) + __half2float(b)); }

template <class T> struct __align__(16) pack_of { T x[16 / sizeof(T)]; };

/* The first `packed` elements are added 16 bytes at a time. */
template <class T> __global__ static void __launch_bounds__(THREADS)
zero_add_packed(T *own, const T *sum, int64_t n, int64_t packed) {
    const int width = 16 / sizeof(T);
    int64_t thread = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = thread * width; i < packed; i += threads * width) {
        pack_of<T> a = *(const pack_of<T> *)(own + i), b = *(const pack_of<T> *)(sum + i);
        for (int j = 0; j < width; j++) a.x[j] = sum_of(a.x[j], b.x[j]);
        *(pack_of<T> *)(own + i) = a;
    }
    for (int64_t i = packed + thread; i < n; i += threads) own[i] = sum_of(own[i], sum[i]);
}

template <class T> static void launch_add(void *stream, void *own, const void *sum, int64_t n) {
    const int64_t width = 16 / sizeof(T);
    int64_t packed = ((uintptr_t)own | (uintptr_t)sum) % 16 == 0 ? n / width * width : 0;
    LAUNCH(zero_add_packed<T>, blocks_of(packed ? n / width : n, MOST_BLOCKS), THREADS, 0, stream)
    ((T *)own, (const T *)sum, n, packed);
}

enum status zero_add_cuda(void *stream, void *own, const void *sum, int64_t n, enum dtype dtype) {
    if (n == 0) return OK;
    if (dtype == FP64) launch_add<double>(stream, own, sum, n);
    else if (dtype == FP32) launch_add<float>(stream, own, sum, n);
    else if (dtype == BF16) launch_add<__nv_bfloat16>(stream, own, sum, n);
    else launch_add<__half>(stream, own, sum, n);
    return gpu_launched("zero_add_packed");
}
