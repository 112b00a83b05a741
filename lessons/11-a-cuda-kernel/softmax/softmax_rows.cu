/* Softmax over rows, for you to write: softmax_rows.h says what it has to do, lesson 11 how such kernels are made.
 *
 * A way to it, each step with its own reward:
 *   1. any kernel that is right: a thread for each row will do        numbers, large numbers, bounds
 *   2. neighboring threads on neighboring columns                   coalesced loads and stores
 *   3. the row in registers between the maximum, the sum and y        each number read once
 *
 * Watch out for threads that have no column (what is the neutral element of a maximum, of a sum?), for lanes that must
 * not leave before a shuffle, and for shared memory that is used twice. Try it:
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
