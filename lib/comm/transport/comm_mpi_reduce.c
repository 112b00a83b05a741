/* The reductions that MPI does not have, for its collectives: sums of 16-bit numbers, and extrema in which NaN wins
 * (comm_reduce.c). Source: MPI 3.1, section 5.9.5 (user-defined reduction operations). */
#include "lib/comm/comm_reduce.h"
#include "lib/comm/transport/comm_mpi.h"

static MPI_Op operations[N_DTYPES][COMM_MIN + 1];

/* MPI_User_function's signature. */
#define AS_MPI(dtype, reduction)                                                                                       \
    static void dtype##_##reduction(void *from, void *into, int *n, MPI_Datatype *type) {                              \
        (void)type;                                                                                                    \
        comm_reducer_of(dtype, reduction)(from, into, *n);                                                             \
    }
AS_MPI(BF16, COMM_SUM) AS_MPI(BF16, COMM_MAX) AS_MPI(BF16, COMM_MIN)
AS_MPI(FP16, COMM_SUM) AS_MPI(FP16, COMM_MAX) AS_MPI(FP16, COMM_MIN)
AS_MPI(FP32, COMM_MAX) AS_MPI(FP32, COMM_MIN)
AS_MPI(FP64, COMM_MAX) AS_MPI(FP64, COMM_MIN)

static MPI_User_function *const functions[N_DTYPES][COMM_MIN + 1] = {
    [FP64] = {NULL, FP64_COMM_MAX, FP64_COMM_MIN},
    [FP32] = {NULL, FP32_COMM_MAX, FP32_COMM_MIN},
    [BF16] = {BF16_COMM_SUM, BF16_COMM_MAX, BF16_COMM_MIN},
    [FP16] = {FP16_COMM_SUM, FP16_COMM_MAX, FP16_COMM_MIN},
};

enum status mpi_reductions_open(void) {
    enum { COMMUTES = 1 }; /* a + b and b + a have the same bits, so MPI may use cheaper trees */
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
