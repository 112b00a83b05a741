/* The reductions that MPI does not have: sums of bf16 and fp16, and extrema in which NaN wins.
 *
 * A pair of 16-bit numbers is added in fp32 and rounded once: round16(float(a) + float(b)). Over n ranks a number
 * takes part in at most n - 1 such additions (log2(n) in a balanced tree); test_comm_bits.c derives its bound from
 * that.
 *
 * MPI_MAX compares with >, which is false for NaN, so whether a NaN survives depends on which side it stands. An
 * overflow in one rank's gradients must be seen by all, in every layout: here the maximum or minimum with a NaN is NaN.
 *
 * Source: MPI 3.1, section 5.9.5 (user-defined reduction operations). */
#include "lib/comm/comm_mpi.h"

#include <math.h>

static MPI_Op operations[N_DTYPES][COMM_MIN + 1]; /* only rows of floating types are used */

static inline float same32(float x) { return x; }
static inline double same64(double x) { return x; }

#define PLUS(a, b) ((a) + (b))
#define LARGER(a, b) (isnan(a) || (a) > (b) ? (a) : (b))
#define SMALLER(a, b) (isnan(a) || (a) < (b) ? (a) : (b))

/* into[i] = combine(from[i], into[i]), read from and written back to storage; the signature is MPI_User_function's. */
#define REDUCTION(name, storage, wide, read, write, combine)                                                           \
    static void name(void *from, void *into, int *n, MPI_Datatype *type) {                                             \
        (void)type;                                                                                                    \
        const storage *x = from;                                                                                       \
        storage *y = into;                                                                                             \
        for (int i = 0; i < *n; i++) {                                                                                 \
            wide a = read(x[i]), b = read(y[i]);                                                                       \
            y[i] = write(combine(a, b));                                                                               \
        }                                                                                                              \
    }

REDUCTION(bf16_sum, uint16_t, float, bf16_to_float, bf16_from_float, PLUS)
REDUCTION(bf16_max, uint16_t, float, bf16_to_float, bf16_from_float, LARGER)
REDUCTION(bf16_min, uint16_t, float, bf16_to_float, bf16_from_float, SMALLER)
REDUCTION(fp16_sum, uint16_t, float, fp16_to_float, fp16_from_float, PLUS)
REDUCTION(fp16_max, uint16_t, float, fp16_to_float, fp16_from_float, LARGER)
REDUCTION(fp16_min, uint16_t, float, fp16_to_float, fp16_from_float, SMALLER)
REDUCTION(fp32_max, float, float, same32, same32, LARGER)
REDUCTION(fp32_min, float, float, same32, same32, SMALLER)
REDUCTION(fp64_max, double, double, same64, same64, LARGER)
REDUCTION(fp64_min, double, double, same64, same64, SMALLER)

static MPI_User_function *const functions[N_DTYPES][COMM_MIN + 1] = {
    [FP64] = {NULL, fp64_max, fp64_min},
    [FP32] = {NULL, fp32_max, fp32_min},
    [BF16] = {bf16_sum, bf16_max, bf16_min},
    [FP16] = {fp16_sum, fp16_max, fp16_min},
};

enum status mpi_reductions_open(void) {
    enum { COMMUTES = 1 }; /* a + b is b + a to the bit; MPI may then choose the cheaper trees */
    for (int dtype = 0; dtype < N_DTYPES; dtype++)
        for (int reduction = COMM_SUM; reduction <= COMM_MIN; reduction++)
            if (functions[dtype][reduction])
                MPI_TRY(MPI_Op_create, functions[dtype][reduction], COMMUTES, &operations[dtype][reduction]);
    return OK;
}

void mpi_reductions_close(void) {
    for (int dtype = 0; dtype < N_DTYPES; dtype++)
        for (int reduction = COMM_SUM; reduction <= COMM_MIN; reduction++)
            if (functions[dtype][reduction]) MPI_Op_free(&operations[dtype][reduction]);
}

MPI_Op mpi_reduction(enum dtype dtype, enum comm_reduction reduction) {
    if (functions[dtype][reduction]) return operations[dtype][reduction];
    return reduction == COMM_SUM ? MPI_SUM : reduction == COMM_MAX ? MPI_MAX : MPI_MIN;
}
