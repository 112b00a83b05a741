/* Maxima and minima in NCCL: NCCL drops NaN, but comm.h demands that NaN wins. Part of comm_nccl.c. */
#pragma once

#include "lib/comm/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Turn n floats (element_bytes 4) or doubles (8) into integers of that size in the same order, with NaN above all
 *  numbers (COMM_MAX) or below (COMM_MIN); and back. In the order of the stream. @errors E_DEVICE */
enum status extrema_encode(void *x, int element_bytes, int64_t n, enum comm_reduction, void *stream);
enum status extrema_decode(void *x, int element_bytes, int64_t n, void *stream);

#ifdef __cplusplus
}
#endif
