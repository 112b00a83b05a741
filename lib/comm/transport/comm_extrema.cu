/* Floating-point numbers as integers of the same order.
 *
 * The bits of a positive number, read as an integer, grow with the number. A negative number has the sign bit set, and
 * its other bits grow with its absolute value, so flipping them reverses their order. So with b the bits as a signed
 * integer
 *
 *   encode(b) = b >= 0 ? b : b ^ 0x7fffffff         decode is the same function
 *
 * The bits of NaN are beyond those of infinity. For a maximum each NaN becomes 0x7fffffff, a NaN above all numbers; for
 * a minimum 0x80000000, which decodes to 0xffffffff, a NaN below all. -0 is the number below +0. The kernels are
 * limited by memory bandwidth, and faster than the links. */
#include "lib/comm/transport/comm_extrema.h"
#include "lib/base/integer.h"
#include "lib/device/gpu.h"

enum { THREADS = 256, MAX_BLOCKS = 1024 };

__device__ static inline int32_t encode32(int32_t b, int is_max) {
    if ((b & 0x7fffffff) > 0x7f800000) return is_max ? 0x7fffffff : (int32_t)0x80000000;
    return b >= 0 ? b : b ^ 0x7fffffff;
}
__device__ static inline int64_t encode64(int64_t b, int is_max) {
    if ((b & INT64_MAX) > INT64_C(0x7ff0000000000000)) return is_max ? INT64_MAX : INT64_MIN;
    return b >= 0 ? b : b ^ INT64_MAX;
}

__global__ static void __launch_bounds__(THREADS) extrema_encode32(int32_t *x, int64_t n, int is_max) {
    int64_t threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) x[i] = encode32(x[i], is_max);
}
__global__ static void __launch_bounds__(THREADS) extrema_encode64(int64_t *x, int64_t n, int is_max) {
    int64_t threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) x[i] = encode64(x[i], is_max);
}
__global__ static void __launch_bounds__(THREADS) extrema_decode32(int32_t *x, int64_t n) {
    int64_t threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads)
        if (x[i] < 0) x[i] ^= 0x7fffffff;
}
__global__ static void __launch_bounds__(THREADS) extrema_decode64(int64_t *x, int64_t n) {
    int64_t threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads)
        if (x[i] < 0) x[i] ^= INT64_MAX;
}

static unsigned blocks_for(int64_t n) {
    int64_t blocks = ceil_div(n, THREADS);
    return (unsigned)(blocks < MAX_BLOCKS ? blocks : MAX_BLOCKS);
}

enum status extrema_encode(void *x, int element_bytes, int64_t n, enum comm_reduction reduction, void *stream) {
    int is_max = reduction == COMM_MAX;
    if (n <= 0) return OK;
    if (element_bytes == 4) LAUNCH(extrema_encode32, blocks_for(n), THREADS, 0, stream)((int32_t *)x, n, is_max);
    else LAUNCH(extrema_encode64, blocks_for(n), THREADS, 0, stream)((int64_t *)x, n, is_max);
    return gpu_launched("extrema_encode");
}

enum status extrema_decode(void *x, int element_bytes, int64_t n, void *stream) {
    if (n <= 0) return OK;
    if (element_bytes == 4) LAUNCH(extrema_decode32, blocks_for(n), THREADS, 0, stream)((int32_t *)x, n);
    else LAUNCH(extrema_decode64, blocks_for(n), THREADS, 0, stream)((int64_t *)x, n);
    return gpu_launched("extrema_decode");
}
