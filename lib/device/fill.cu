/* to[i] = pattern. The runtime's own memset has patterns of one byte only. */
#include "lib/device/fill.h"
#include "lib/base/integer.h"
#include "lib/device/gpu.h"

enum { THREADS = 256, MAX_BLOCKS = 4096 };

__global__ static void __launch_bounds__(THREADS) fill_words_stride(uint64_t *to, uint64_t pattern, int64_t n) {
    int64_t threads = (int64_t)gridDim.x * blockDim.x;
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads) to[i] = pattern;
}

enum status fill_words(void *to, uint64_t pattern, int64_t n_words, void *stream) {
    if (n_words <= 0) return OK;
    int64_t blocks = ceil_div(n_words, THREADS);
    return LAUNCHED(fill_words_stride, (unsigned)(blocks < MAX_BLOCKS ? blocks : MAX_BLOCKS), THREADS, 0, stream,
                    (uint64_t *)to, pattern, n_words);
}
