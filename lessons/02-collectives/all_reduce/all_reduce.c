/* Your all-reduce. The contract, with the formulas: all_reduce.h; the theory: lesson 02, "Ring", "Tree" and "Halving
 * and doubling".
 *
 * You need comm_send_start, comm_recv_start and comm_wait (lib/comm/comm.h), and a struct comm_request for each message
 * in flight. All messages are FP32; any tag will do. Begin with reduce_scatter_ring on two ranks. */
#include "lessons/02-collectives/all_reduce/all_reduce.h"

#include "lib/comm/comm_request.h"

/* n - 1 steps. In each: send one part to the right neighbor, take another from the left one into scratch, add it to x.
 * Which part goes in step s follows from where it has to end: part p at rank p. */
enum status reduce_scatter_ring(const struct group *g, float *x, int64_t count, float *scratch) {
    (void)g, (void)x, (void)count, (void)scratch;
    return FAIL(E_TODO, "reduce_scatter_ring is not written yet");
}

/* n - 1 steps again: what came in the last step goes on in this one; nothing is added, so nothing needs scratch. */
enum status all_gather_ring(const struct group *g, float *x, int64_t count) {
    (void)g, (void)x, (void)count;
    return FAIL(E_TODO, "all_gather_ring is not written yet");
}

enum status all_reduce_ring(const struct group *g, float *x, int64_t count, float *scratch) {
    (void)g, (void)x, (void)count, (void)scratch;
    return FAIL(E_TODO, "all_reduce_ring is not written yet");
}

/* Up: distances 1, 2, 4, ...: a rank whose bit d is set hands its sum to rank - d, and only waits for the result from
 * then on. Down: the same edges, the other way round, from the longest. A partner from n on is not there. */
enum status all_reduce_tree(const struct group *g, float *x, int64_t count, float *scratch) {
    (void)g, (void)x, (void)count, (void)scratch;
    return FAIL(E_TODO, "all_reduce_tree is not written yet");
}

/* First for n a power of two: distances n/2, n/4, ... 1, each time with rank ^ d; then back. Then for any n. */
enum status all_reduce_halving_doubling(const struct group *g, float *x, int64_t count, float *scratch) {
    (void)g, (void)x, (void)count, (void)scratch;
    return FAIL(E_TODO, "all_reduce_halving_doubling is not written yet");
}
