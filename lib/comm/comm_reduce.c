/* Reductions: sums of bf16 and fp16 in fp32, and extrema in which NaN wins.
 *
 * A pair of 16-bit numbers is added in fp32 and rounded once: round16(float(a) + float(b)). Over n ranks a number takes
 * part in at most n - 1 such additions (log2(n) in a balanced tree); test_comm_bits.c derives its bound from that.
 *
 * A comparison with > is false for NaN, so a NaN would survive only on one side of the comparison. But all ranks must
 * see an overflow in one rank's gradients, in every layout. So the maximum or minimum with a NaN is NaN. */
#include "lib/comm/comm_reduce.h"

#include <math.h>

static inline float same32(float x) { return x; }
static inline double same64(double x) { return x; }
static inline int64_t same_int(int64_t x) { return x; }

#define PLUS(a, b) ((a) + (b))
#define LARGER(a, b) (isnan(a) || (a) > (b) ? (a) : (b))
#define SMALLER(a, b) (isnan(a) || (a) < (b) ? (a) : (b))
#define LARGER_INT(a, b) ((a) > (b) ? (a) : (b))
#define SMALLER_INT(a, b) ((a) < (b) ? (a) : (b))

/* into[i] = combine(from[i], into[i]), with loads by `read` and stores by `write`. */
#define REDUCTION(name, storage, wide, read, write, combine)                                                           \
    static void name(const void *from, void *into, int64_t n) {                                                       \
        const storage *x = from;                                                                                       \
        storage *y = into;                                                                                             \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            wide a = read(x[i]), b = read(y[i]);                                                                       \
            y[i] = (storage)write(combine(a, b));                                                                      \
        }                                                                                                              \
    }
#define REDUCTIONS(name, storage, wide, read, write, larger, smaller)                                                  \
    REDUCTION(name##_sum, storage, wide, read, write, PLUS)                                                            \
    REDUCTION(name##_max, storage, wide, read, write, larger)                                                          \
    REDUCTION(name##_min, storage, wide, read, write, smaller)

REDUCTIONS(fp64, double, double, same64, same64, LARGER, SMALLER)
REDUCTIONS(fp32, float, float, same32, same32, LARGER, SMALLER)
REDUCTIONS(bf16, uint16_t, float, bf16_to_float, bf16_from_float, LARGER, SMALLER)
REDUCTIONS(fp16, uint16_t, float, fp16_to_float, fp16_from_float, LARGER, SMALLER)
REDUCTIONS(int32, int32_t, int64_t, same_int, same_int, LARGER_INT, SMALLER_INT)
REDUCTIONS(uint8, uint8_t, int64_t, same_int, same_int, LARGER_INT, SMALLER_INT)

comm_reducer *comm_reducer_of(enum dtype dtype, enum comm_reduction reduction) {
    static comm_reducer *const of[N_DTYPES][COMM_MIN + 1] = {
        [FP64] = {fp64_sum, fp64_max, fp64_min},    [FP32] = {fp32_sum, fp32_max, fp32_min},
        [BF16] = {bf16_sum, bf16_max, bf16_min},    [FP16] = {fp16_sum, fp16_max, fp16_min},
        [INT32] = {int32_sum, int32_max, int32_min}, [UINT8] = {uint8_sum, uint8_max, uint8_min}};
    return of[dtype][reduction];
}
