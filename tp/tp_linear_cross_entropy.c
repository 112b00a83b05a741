/* The head and its loss by chunks of tokens (lib/ops/linear_cross_entropy.h), over a vocabulary sharded over tp.
 *
 * Each rank computes the logits of its columns, a chunk of tokens at a time. Maximum, sum and hit of a chunk's tokens
 * are all-reduced as tp_cross_entropy.c does for all tokens at once: the same numbers and the same bytes, in more and
 * smaller messages. dx is a partial sum; the backward of the tp_enter before the op all-reduces it. */
#include "tp/tp.h"

#include "lib/base/integer.h"
#include "lib/comm/exchange.h"
#include "lib/ops/linear_cross_entropy.h"

static enum status reduce(const struct call *c, void *x, int64_t n, bool maximum) {
    return comm_all_reduce(c->group, x, n, dtype_accumulator(op_dtype(c)), maximum ? COMM_MAX : COMM_SUM);
}

static enum status forward(const struct call *c) {
    return c->training ? OK : linear_cross_entropy_run(c, false, reduce);
}
static enum status backward_input(const struct call *c) { return linear_cross_entropy_run(c, true, reduce); }

/* The maximum of every row, then sum and hit, each in one message per chunk. */
static int exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    struct linear_cross_entropy_sizes s = linear_cross_entropy_sizes(c);
    for (int i = 0; i < 2; i++) {
        out[i].op = COMM_ALL_REDUCE;
        out[i].count = (i + 1) * s.R;
        out[i].dtype = dtype_accumulator(op_dtype(c));
        out[i].pieces = (int)ceil_div(s.R, s.rows);
    }
    return kind == ROW_BACKWARD_INPUT ? 2 : 0;
}

#define KERNELS {forward, backward_input, NULL}
const struct op op_tp_linear_cross_entropy = {
    .name = "tp_linear_cross_entropy", .typing = TYPING_HEAD_ACROSS, .mixes = "V", .rule = RULE_HEAD,
    .shape = linear_cross_entropy_shape,
    .needs = {.bi_in = IN(0) | IN(1), .bi_out = OUT(0), .bi_weight = WEIGHT(0) | WEIGHT(1)},
    .no_grad_in = IN(1), .no_grad_out = OUT(0), .has_backward_input = true, .all_in_backward = true,
    .sets_dweight = WEIGHT(0), .work = linear_cross_entropy_work, .cost = linear_cross_entropy_cost,
    .exchanges = exchanges,
    .kernels = {[DEVICE_CPU] = {[FP64] = KERNELS, [FP32] = KERNELS, [BF16] = KERNELS, [FP16] = KERNELS}}};
