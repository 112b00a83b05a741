/* The transpose of a matrix, for you to write. transpose.h is the contract.
 *
 * In a direct copy from x to y, either the loads or the stores of a warp are R or C floats apart, and each takes a
 * sector. So copy by way of shared memory: a block reads a tile of 32 x 32 row by row, and writes it column by column.
 * Then count wavefronts: word w of shared memory is in bank w % 32. What is the bank of tile[i][0], i = 0 ... 31? See
 * lesson 11, "Sectors".
 *
 *   make grade LESSON=11 FILE=lessons/11-a-cuda-kernel/transpose/transpose_tiled.cu */
#include "lib/device/gpu.h"
#include "lessons/11-a-cuda-kernel/transpose/transpose.h"

enum status transpose(float *y, const float *x, int R, int C) {
    (void)y, (void)x, (void)R, (void)C;
    return FAIL(E_TODO, "transpose is not written yet");
}
