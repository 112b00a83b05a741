/* The kernels that test tests/simt. A test runs a kernel at once, on memory that the test registers for
 * kernels. */
#pragma once

#include "tests/simt/simt_test.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- test_simt_kernels.cu: correct kernels ---- */
/** One warp; lane l brings 100 + l. out: 32 results of each of shuffle idx (from lane 3 of a segment), up by 1, down
 *  by 1, xor 1. */
void simt_test_shuffles(int *out, int width);
/** One warp, lane l votes l % 3 == 0; out: ballot, any, all, then any and all with no votes, with all votes. */
void simt_test_votes(unsigned *out);
/** 4 blocks of 64 threads on counters[10]: add, sub, max, min, and, or, xor, inc, CAS-add, float add (as bits). */
void simt_test_atomics(unsigned *counters);
/** Each thread takes a number from a counter: taken[block * threads + thread]. */
void simt_test_turns(unsigned *taken, unsigned *counter, int blocks, int threads);
/** One block reverses x, through static or dynamic shared memory. n <= 1024 */
void simt_test_turn_around(int *x, int n, int dynamic);
/** One block of 96 threads: the number of threads with an index below n; any; all. Ended threads do not
 *  count. */
void simt_test_counts(int *out, int n);
/** c = a b + c, 16 x 16, by one warp; bfloat16: a and b in that, else half. columns: b is column-major. */
void simt_test_product(const uint16_t *a, const uint16_t *b, float *c, int bfloat16, int columns);
/** threadIdx, blockIdx, blockDim and gridDim of each thread: 12 numbers. */
void simt_test_indices(unsigned *out, const unsigned grid[3], const unsigned block[3]);
/** float -> half, bfloat16 -> float. */
void simt_test_convert(const float *x, int n, uint16_t *half, uint16_t *bfloat16, float *half_back,
                       float *bfloat16_back);
/** Launch a kernel that does nothing, with these sizes. */
void simt_test_launch(unsigned threads, unsigned blocks, unsigned blocks_y, size_t shared_bytes, int allow);
/** Threads exchange values with no more than a __syncwarp, also within one word; 4 warps. n = 128 */
void simt_test_warp_synchronous(int *x, unsigned char *bytes);
/** Thread i of 32 copies n floats, at `stride` i + j for j = 0 ... n - 1, to the same places of y; with vector (n = 4)
 *  as one float4. */
void simt_test_traffic(float *y, const float *x, int stride, int n, int vector);
/** Thread i of 32 writes word `stride` i of shared memory, and all read word 0. stride <= 33 */
void simt_test_banks(float *y, int stride);
/** One warp fills 16 rows of `ld` bfloat16 in shared memory, loads a and b from them, and stores a b, 16 x 16.
 *  ld <= 72 */
void simt_test_fragments(float *y, int ld);
/** 32 threads, rounds i = 0 and 1 with a barrier after each: all read float 64 i of x, then the first 16 read
 *  float 64 i + 8. */
void simt_test_rounds(float *y, const float *x);

/* ---- test_simt_faults.cu: kernels with one mistake each ---- */
enum simt_fault {
    RACE_SHARED,
    RACE_WARP,
    RACE_BLOCKS,
    RACE_ATOMIC,
    RACE_TENSOR,
    BEYOND_GLOBAL,
    BEYOND_SHARED,
    BEYOND_DYNAMIC,
    UNINITIALISED,
    MISALIGNED,
    BARRIER_ELSEWHERE,
    BARRIER_ENDED,
    LANE_ENDED,
    LANE_UNNAMED,
    LANE_SOURCE,
    LANES_APART,
    STUCK,
    TRAPPED,
    FAULTS
};
/** Two blocks of 64 threads on global[128]. Returns the line with the mistake. */
int simt_test_fault(enum simt_fault, int *global);

#ifdef __cplusplus
}
#endif
