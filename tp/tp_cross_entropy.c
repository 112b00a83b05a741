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

#include "lib/base/exact.h"
#include "lib/comm/exchange.h"
#include "lib/ops/cross_entropy.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

static enum status shape(const struct call *c, struct type out[MAX_OUT]) {
    TRY(shape_expect_tags(c, 0, "BTV"));
    TRY(shape_expect_tags(c, 1, "BT"));
    out[0].dtype = out[1].dtype = dtype_accumulator(c->in[0].type->dtype);
    out[0].shape = (struct shape){1, {axis_whole('1', 1)}};
    out[1].shape = c->in[1].type->shape;
    return OK;
}

static int64_t n_rows(const struct call *c) { return type_n(c->in[1].type); }
static enum dtype accumulator(const struct call *c) { return dtype_accumulator(c->in[0].type->dtype); }
static bool is_forward(enum row_kind kind) { return kind == ROW_FORWARD || kind == ROW_REPLAY; }

/* sum and hit are contiguous, so that one all-reduce adds both. out[1] has the maximum until lse replaces it. */
static int64_t work(const struct call *c, enum row_kind kind) {
    return is_forward(kind) ? 2 * n_rows(c) * (int64_t)dtype_size(accumulator(c)) : 0;
}

static struct cost cost(const struct call *c, enum row_kind kind) {
    (void)kind;
    return (struct cost){.bytes = (double)type_bytes(c->in[0].type)};
}

/* First the maximum of every row, then sum and hit. */
static int exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    for (int i = 0; i < 2; i++) {
        out[i].op = COMM_ALL_REDUCE;
        out[i].count = (i + 1) * n_rows(c);
        out[i].dtype = accumulator(c);
    }
    return is_forward(kind) ? 2 : 0;
}

static struct vocab_rows rows_of(const struct call *c) {
    return (struct vocab_rows){c->in[0].data, c->in[1].data, n_rows(c), c->in[0].type->shape.axis[2]};
}

static const struct cross_entropy_pieces *pieces_of(const struct call *c) {
    return cross_entropy_pieces(c->on, c->in[0].type->dtype);
}

static enum status forward(const struct call *c) {
    const struct cross_entropy_pieces *pieces = pieces_of(c);
    struct vocab_rows rows = rows_of(c);
    int64_t n = n_rows(c);
    void *max = c->out[1].data, *sum = c->work, *hit = (char *)c->work + n * (int64_t)dtype_size(accumulator(c));
    TRY(pieces->row_max(c->device, &rows, max));
    TRY(comm_all_reduce(c->group, max, n, accumulator(c), COMM_MAX));
    TRY(pieces->row_sum(c->device, &rows, max, sum, hit));
    TRY(comm_all_reduce(c->group, sum, 2 * n, accumulator(c), COMM_SUM));
    return pieces->loss(c->device, &rows, max, sum, hit, c->out[1].data, c->loss_weight, c->out[0].data);
}

/* Forward. If loss_sum is set, also add the loss of every token to it, exactly. */
static enum status forward_counted(const struct call *c) {
    const int32_t *target = c->in[1].data;
    enum dtype dtype = accumulator(c);
    int64_t n = n_rows(c);
    TRY(forward(c));
    for (int64_t r = 0; c->loss_sum && r < n; r++)
        if (target[r] >= 0)
            exact_add(c->loss_sum, dtype_get(c->out[1].data, dtype, r) - dtype_get(c->work, dtype, n + r));   /* hit */
    return OK;
}

static enum status backward_input(const struct call *c) {
    struct vocab_rows rows = rows_of(c);
    return pieces_of(c)->gradient(c->device, &rows, c->out[1].data, c->loss_weight * c->loss_scale, c->accumulate & 1,
                                  c->din[0].data);
}

const struct op op_tp_cross_entropy = {
    .name = "tp_cross_entropy", .typing = TYPING_LOSS_ACROSS, .mixes = "V", .shape = shape,
    .needs = {.bi_in = IN(0) | IN(1), .bi_out = OUT(1)},
    .no_grad_in = IN(1), .no_grad_out = OUT(0) | OUT(1), .statistic_out = OUT(1),
    .backward_over_in = true, .has_backward_input = true, .work = work, .cost = cost, .exchanges = exchanges,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({forward_counted, backward_input, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({forward_counted, backward_input, NULL}))}};
