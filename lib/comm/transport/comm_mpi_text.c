/* The MPI type as which a dtype is sent, and MPI's text for an error. */
#include "lib/comm/transport/comm_mpi.h"

MPI_Datatype mpi_type(enum dtype dtype) {
    switch (dtype) {
    case FP64: return MPI_DOUBLE;
    case FP32: return MPI_FLOAT;
    case INT32: return MPI_INT32_T;
    case UINT8:
    case FP8_E4M3:
    case FP8_E5M2: return MPI_UINT8_T;
    default: return MPI_UINT16_T; /* bf16, fp16: MPI only moves the bits; comm_reduce.c adds the numbers */
    }
}

const char *mpi_error_text(int code) {
    static char text[MPI_MAX_ERROR_STRING + 1];
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "unknown MPI error";
    return text;
}
