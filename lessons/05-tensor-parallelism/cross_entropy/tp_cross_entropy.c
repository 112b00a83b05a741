/* Exercise: softmax cross-entropy over a vocabulary that is cut over the ranks (lesson 05, "A loss without the
 * logits").
 *
 * Each rank has V/tp columns of the logits. Gathering them would move B T V numbers. The loss
 *
 *   loss = loss_weight sum_r (lse[r] - x[r, target[r]])        lse[r] = log sum_k e^x[r,k], k over the whole vocabulary
 *
 * needs only three numbers per token from every rank. Which numbers are these, and how are they reduced?
 * tp/tp_cross_entropy.h has the passes over a rank's own columns: tp_rows_max, tp_rows_sum, tp_rows_loss and
 * tp_rows_gradient. Add the exchanges between ranks. Two all-reduces are enough. Backward needs none.
 *
 * There are two types:
 *
 *   struct call       (lib/ops/op.h) one row's operands: in[0] the logits, in[1] the targets, out[0] the loss, out[1]
 *                     lse, each with data; work, the scratch; group, the tp group; loss_weight, loss_scale, accumulate
 *   struct exchange   (lib/comm/exchange.h) what a row sends, for the bill: op, count, dtype
 *
 * tp_n_rows(c) is the number of rows, B T, and tp_accumulator(c) the type of a row's numbers. Steps 1 and 2 are one
 * line each, and a claim holds after each. */
#include "tp/tp_cross_entropy.h"

#include "lib/comm/exchange.h"

/* TODO 1: bytes of scratch (c->work) that a row needs: the sums of all rows, after them the hits of all rows (the
 * logits of the targets). The maxima can be in out[1] until lse replaces them. dtype_size(dtype) is an element's. */
int64_t tp_loss_work(const struct call *c, bool forward) {
    (void)c, (void)forward;
    return 0;
}

/* TODO 2: -> din[0]: tp_rows_gradient with its scale, the product of loss_weight and loss_scale. c->accumulate & 1: add
 * to what is in din[0]. */
enum status tp_loss_backward(const struct call *c) {
    (void)c;
    return FAIL(E_TODO, "the gradient of the loss is still to be written");
}

/* TODO 3: out[0] = the loss, the same on every rank; out[1] = lse. comm_all_reduce takes COMM_MAX or COMM_SUM. Return
 * what tp_rows_max returns for a target beyond the vocabulary. The columns that pad the vocabulary to a multiple of tp
 * are left out by the passes. */
enum status tp_loss_forward(const struct call *c) {
    (void)c;
    return FAIL(E_TODO, "the loss is still to be written");
}

/* TODO 4: set op, count and dtype of each exchange of a row, and return the number of exchanges. */
int tp_loss_exchanges(const struct call *c, bool forward, struct exchange out[MAX_EXCHANGES]) {
    (void)c, (void)forward, (void)out;
    return 0;
}
