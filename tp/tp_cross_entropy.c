/* Vocabulary-parallel softmax cross-entropy.
 *
 * Each rank has V/tp columns of the logits. Gathering them would send B T V numbers. The loss needs only three numbers
 * per token from every rank. For token r with logits x[r,k]:
 *
 *   max[r]  = max over ranks of max_k x[r,k]                          all-reduce of B T, maximum
 *   sum[r]  = sum over ranks of sum_k e^(x[r,k] - max[r])             all-reduce of 2 B T, sum,
 *   hit[r]  = x[r, target[r]], 0 on ranks without that column         both in one
 *   loss    = loss_weight sum_r (lse[r] - hit[r])                     lse[r] = max[r] + log sum[r]
 *
 * Backward needs no communication. Each rank computes dx[r,k] = e^(x[r,k] - lse[r]) - [k = target] of its own columns.
 * Columns that pad the vocabulary to a multiple of tp are not in the sum, and their gradient is zero.
 *
 * Source: Shoeybi et al. 2019, section 3 (fusing the parallel logits with the cross-entropy loss). */
#include "tp/tp_cross_entropy.h"


/* sum and hit are contiguous, so that one all-reduce adds both. out[1] has the maximum until lse replaces it. */
int64_t tp_loss_work(const struct call *c, bool forward) {
    return forward ? 2 * tp_n_rows(c) * (int64_t)dtype_size(tp_accumulator(c)) : 0;
}

/* First the maximum of every row, then sum and hit. */
int tp_loss_exchanges(const struct call *c, bool forward, struct exchange out[MAX_EXCHANGES]) {
    for (int i = 0; i < 2; i++) {
        out[i].op = COMM_ALL_REDUCE;
        out[i].count = (i + 1) * tp_n_rows(c);
        out[i].dtype = tp_accumulator(c);
    }
    return forward ? 2 : 0;
}

enum status tp_loss_forward(const struct call *c) {
    int64_t n = tp_n_rows(c);
    void *max = c->out[1].data, *sum = c->work, *hit = (char *)c->work + n * (int64_t)dtype_size(tp_accumulator(c));
    TRY(tp_rows_max(c, max));
    TRY(comm_all_reduce(c->group, max, n, tp_accumulator(c), COMM_MAX));
    TRY(tp_rows_sum(c, max, sum, hit));
    TRY(comm_all_reduce(c->group, sum, 2 * n, tp_accumulator(c), COMM_SUM));
    return tp_rows_loss(c, max, sum, hit);
}

enum status tp_loss_backward(const struct call *c) {
    return tp_rows_gradient(c, c->loss_weight * c->loss_scale, c->accumulate & 1);
}
