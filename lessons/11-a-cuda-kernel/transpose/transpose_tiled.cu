/* The transpose of a matrix, for you to write: transpose.h says what it has to do.
 *
 * Straight from x to y either the loads or the stores of a warp lie R or C floats apart, a sector each. So go by way of
 * shared memory: a block takes a tile of 32 x 32, reads it row by row, and writes it column by column; the tile is
 * turned where that costs nothing. Then count wavefronts: word w of shared memory lies in bank w % 32. What is the bank
 * of tile[i][0], i = 0 ... 31? Lesson 11, "Sectors".
 *
 *   make grade LESSON=11 FILE=lessons/11-a-cuda-kernel/transpose/transpose_tiled.cu */
#include "lib/device/gpu.h"
#include "lessons/11-a-cuda-kernel/transpose/transpose.h"

enum status transpose(float *y, const float *x, int R, int C) {
    (void)y, (void)x, (void)R, (void)C;
    return FAIL(E_TODO, "transpose is not written yet");
}
