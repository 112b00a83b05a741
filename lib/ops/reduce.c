#include "lib/ops/reduce_kernels.h"

#include "lib/base/integer.h"
#include "lib/ops/kernels.h"

enum { ALONE = 16 << 10 };   /* up to this many elements one thread is faster */
enum { BLOCK = 1024, BLOCKS = 4096, LANES = 16 };   /* elements in a block; blocks in one parallel loop; partial sums */

static const void *at(const void *x, enum dtype dtype, int64_t i) {
    return (const char *)x + i * (int64_t)dtype_size(dtype);
}

/* ---- on the CPU ---- */

/* The sum of term for i < n. LANES partial sums, added in order at the end, let the compiler vectorise the loop. */
#define SUM_LANES(i, n, term)                                                                                          \
    ({                                                                                                                 \
        double lane[LANES] = {0}, sum = 0;                                                                             \
        int64_t i = 0;                                                                                                 \
        while (i + LANES <= (n))                                                                                       \
            for (int l = 0; l < LANES; l++, i++) lane[l] += (term);                                                    \
        for (int l = 0; i < (n); l++, i++) lane[l] += (term);                                                          \
        for (int l = 0; l < LANES; l++) sum += lane[l];                                                                \
        sum;                                                                                                           \
    })

/* The sum of squares of a block, or 1 if an element is not finite: x - x is 0 for a finite x, and NaN for others. fp32
 * is squared without a conversion, because gradient norms, which read all gradients, are nearly always in fp32. */
static double reduce_block(enum reduction what, const void *x, enum dtype dtype, int64_t n) {
    const float *narrow = x;
    double wide[BLOCK];
    if (what == REDUCE_SQUARES && dtype == FP32) return SUM_LANES(i, n, (double)narrow[i] * (double)narrow[i]);
    dtype_convert(wide, FP64, x, dtype, n);
    if (what == REDUCE_SQUARES) return SUM_LANES(i, n, wide[i] * wide[i]);
    return SUM_LANES(i, n, wide[i] - wide[i]) == 0 ? 0 : 1;
}

/* The sum over all blocks. */
static double sum_blocks(enum reduction what, const void *x, enum dtype dtype, int64_t n) {
    double total = 0;
    for (int64_t first = 0; first < n; first += BLOCK * BLOCKS) {
        double partial[BLOCKS];
        int64_t end = min64(n, first + BLOCK * BLOCKS), n_blocks = (end - first + BLOCK - 1) / BLOCK;
#pragma omp parallel for
        for (int64_t b = 0; b < n_blocks; b++) {
            int64_t from = first + b * BLOCK;
            partial[b] = reduce_block(what, at(x, dtype, from), dtype, min64(BLOCK, end - from));
        }
        for (int64_t b = 0; b < n_blocks; b++) total += partial[b];
    }
    return total;
}

static enum status reduce_cpu(const struct device *device, enum reduction what, const struct reduce_buffer *b, int n,
                              double *out, void *work) {
    double sum = 0;
    (void)device, (void)work;
    for (int i = 0; i < n; i++)
        sum += sum_blocks(what, b[i].x, b[i].dtype, b[i].n);
    *out = sum;
    return OK;
}

static enum status add_cpu(const struct device *device, double *sum, const void *x, enum dtype dtype) {
    (void)device;
    *sum += dtype_get(x, dtype, 0);
    return OK;
}

/* ---- on any device ---- */

static const struct reducers { reducer *reduce; adder *add; } reducers[N_DEVICES] = {
    [DEVICE_CPU] = {reduce_cpu, add_cpu}, WITH_CUDA([DEVICE_CUDA] = {reduce_cuda, reduce_add_cuda})};

static enum status check(const struct device *device, enum dtype dtype) {
    if (dtype == INT32 || dtype == UINT8 || dtype_is_fp8(dtype))
        return FAIL(E_CONFIG, "cannot reduce %s; use fp64, fp32, bf16 or fp16", dtype_name(dtype));
    if (!reducers[device->kind].reduce) return FAIL(E_CONFIG, "this build has no reductions for %s", device->name);
    return OK;
}

static enum status reduce(const struct device *device, enum reduction what, const struct reduce_buffer *b, int n,
                          double *out, void *work) {
    for (int i = 0; i < n; i++) TRY(check(device, b[i].dtype));
    return reducers[device->kind].reduce(device, what, b, n, out, work);
}

enum status reduce_sum_of_squares(const struct device *device, const struct reduce_buffer *b, int n, double *sum,
                                  void *work) {
    return reduce(device, REDUCE_SQUARES, b, n, sum, work);
}

enum status reduce_non_finite(const struct device *device, const struct reduce_buffer *b, int n, double *count,
                              void *work) {
    return reduce(device, REDUCE_NON_FINITE, b, n, count, work);
}

enum status reduce_add(const struct device *device, double *sum, const void *x, enum dtype dtype) {
    TRY(check(device, dtype));
    return reducers[device->kind].add(device, sum, x, dtype);
}

static void accumulate_fp32(float *sum, const float *x, int64_t n) {
#pragma omp parallel for simd if (n > ALONE)
    for (int64_t i = 0; i < n; i++) sum[i] += x[i];
}
static void accumulate_fp64(double *sum, const double *x, int64_t n) {
#pragma omp parallel for simd if (n > ALONE)
    for (int64_t i = 0; i < n; i++) sum[i] += x[i];
}
static void accumulate_16_bits(void *sum, const void *x, int64_t n, enum dtype dtype) {
#pragma omp parallel for if (n > ALONE)
    for (int64_t i = 0; i < n; i++) dtype_set(sum, dtype, i, dtype_get(sum, dtype, i) + dtype_get(x, dtype, i));
}

enum status reduce_accumulate(const struct device *device, void *sum, const void *x, int64_t n, enum dtype dtype) {
    TRY(check(device, dtype));
    if (device->kind != DEVICE_CPU) return FAIL(E_CONFIG, "%s adds no arrays in place; use the CPU", device->name);
    if (dtype == FP32) accumulate_fp32(sum, x, n);
    else if (dtype == FP64) accumulate_fp64(sum, x, n);
    else accumulate_16_bits(sum, x, n, dtype);
    return OK;
}

int64_t reduce_work(enum device_kind kind) {
    return kind == DEVICE_CUDA ? REDUCE_PARTIALS * (int64_t)sizeof(double) : 0;
}
