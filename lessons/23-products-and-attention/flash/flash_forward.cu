/* Causal attention forward, for you to write. flash.h is the contract; lesson 23 explains such kernels.
 *
 * You can write it in four steps, each with its own tests:
 *   1. a thread per query, two loops over its keys              the first claim: fifteen minutes
 *   2. one loop: largest score, sum and weighted values so far  every length, large scores, lse, no array of scores
 *   3. a block of 32 queries and tiles of 32 keys               few sectors read, masked tiles left out
 *   4. rows of tiles an odd number of words apart               no bank conflicts
 *
 * Steps 1 and 2 keep the weighted values in float out[FLASH_MAX_D], which are registers if all loops over it are
 * unrolled. In step 3 a warp may have 4 queries: for scores a lane is a key,
 * and for the sums over keys a lane is a channel, or two. Take care of the first tile (there is no largest score yet),
 * of queries after T, and of shared memory that is used twice. Grade it with:
 *
 *   make grade LESSON=23 FILE=lessons/23-products-and-attention/flash/flash_forward.cu */
#include "lib/device/gpu.h"
#include "lessons/23-products-and-attention/flash/flash.h"

enum status flash(float *y, float *lse, const float *q, const float *k, const float *v, int T, int D, float scale) {
    (void)y, (void)lse, (void)q, (void)k, (void)v, (void)T, (void)D, (void)scale;
    return FAIL(E_TODO, "flash is not written yet");
}
