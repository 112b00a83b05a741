/* Your all-reduce. all_reduce.h has the contract and the formulas. The theory is in lesson 02, "Ring", "Tree" and
 * "Halving and doubling".
 *
 * You need comm_send_start, comm_recv_start and comm_wait (lib/comm/comm.h), and a struct comm_request for each message
 * in flight. All messages are FP32; any tag works. Begin with reduce_scatter_ring on two ranks. */
#include "lessons/02-collectives/all_reduce/all_reduce.h"

#include "lib/comm/comm_request.h"

/* n - 1 steps. In each step, send one part to the right neighbor, receive another part from the left neighbor into
 * scratch, and add it to x. Part p must end at rank p; the parts of step s follow from this. */
enum status reduce_scatter_ring(const struct group *g, float *x, int64_t count, float *scratch) {
    (void)g, (void)x, (void)count, (void)scratch;
    return FAIL(E_TODO, "reduce_scatter_ring is not written yet");
}

/* n - 1 steps again. Send the part that the step before has received. Nothing is added, so there is no scratch. */
enum status all_gather_ring(const struct group *g, float *x, int64_t count) {
    (void)g, (void)x, (void)count;
    return FAIL(E_TODO, "all_gather_ring is not written yet");
}

enum status all_reduce_ring(const struct group *g, float *x, int64_t count, float *scratch) {
    (void)g, (void)x, (void)count, (void)scratch;
    return FAIL(E_TODO, "all_reduce_ring is not written yet");
}

/* Up, for distances d = 1, 2, 4, ...: a rank whose bit d is set sends its sum to rank - d, and then waits for the
 * result. Down: the same edges in the opposite direction, the longest first. Skip partners >= n. */
enum status all_reduce_tree(const struct group *g, float *x, int64_t count, float *scratch) {
    (void)g, (void)x, (void)count, (void)scratch;
    return FAIL(E_TODO, "all_reduce_tree is not written yet");
}

/* Start with n a power of two: exchange with rank ^ d at distances d = n/2, n/4, ... 1; then 1, 2, ... n/2. Then
 * support any n. */
enum status all_reduce_halving_doubling(const struct group *g, float *x, int64_t count, float *scratch) {
    (void)g, (void)x, (void)count, (void)scratch;
    return FAIL(E_TODO, "all_reduce_halving_doubling is not written yet");
}
