/* Softmax over rows, for you to write. softmax_rows.h is the contract; lesson 11 explains such kernels.
 *
 * You can write it in three steps, each with its own tests:
 *   1. any correct kernel, such as one with a thread per row        numbers, large numbers, bounds
 *   2. neighboring threads on neighboring columns                   coalesced loads and stores
 *   3. the row in registers between the maximum, the sum and y      each number read once
 *
 * Take care of threads without a column (what is the neutral element of a maximum, of a sum?), of lanes that must not
 * leave before a shuffle, and of shared memory that is used twice. Grade it with:
 *
 *   make grade LESSON=11 FILE=lessons/11-a-cuda-kernel/softmax/softmax_rows.cu */
#include "lib/device/gpu.h"
#include "lessons/11-a-cuda-kernel/softmax/softmax_rows.h"

/* A kernel and its launch look like this:
 *
 *   __global__ static void softmax_kernel(float *y, const float *x, int R, int C) { ... }
 *   LAUNCH(softmax_kernel, blocks, threads, 0, NULL)(y, x, R, C);
 *
 * Grid and block are unsigned or dim3. Return OK after the launch. */
enum status softmax_rows(float *y, const float *x, int R, int C) {
    (void)y, (void)x, (void)R, (void)C;
    return FAIL(E_TODO, "softmax_rows is not written yet");
}
