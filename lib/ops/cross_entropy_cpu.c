/* Softmax cross-entropy: passes over the rows of a vocabulary shard, and the op, which runs them on the whole
 * vocabulary. See cross_entropy.h. */
#include "lib/ops/cpu.h"
#include "lib/ops/cross_entropy.h"
#include "lib/ops/exp.h"

kernel CPU(cross_entropy_forward), CPU(cross_entropy_backward_input);
extern const struct cross_entropy_pieces CPU(cross_entropy_pieces);

/* Columns of the shard that are not padding. */
static int64_t real_columns(const struct axis *vocab) {
    int64_t n = min64(vocab->n, vocab->global - vocab->first);
    return n > 0 ? n : 0;
}
static const elem *row_of(const struct vocab_rows *rows, int64_t r) {
    return (const elem *)rows->logits + r * rows->vocab.n;
}

/* The target's column in this shard, or -1. */
static int64_t target_column(const struct vocab_rows *rows, int64_t r) {
    int64_t k = rows->target[r] - rows->vocab.first;
    return rows->target[r] >= 0 && k >= 0 && k < real_columns(&rows->vocab) ? k : -1;
}

static enum status row_max(const struct device *device, const struct vocab_rows *rows, void *max) {
    int64_t n = real_columns(&rows->vocab);
    (void)device;
    TRY(cross_entropy_check_targets(rows));
#pragma omp parallel for
    for (int64_t r = 0; r < rows->n_rows; r++) {
        const elem *x = row_of(rows, r);
        ((real *)max)[r] = MAX_OVER(k, n, load(x[k]));
    }
    return OK;
}

/* The sum of e^(x - m) over the columns of leaves first .. first + n-1, added by halves. Padding begins at column
 * `end`; a leaf has `leaf` columns. */
static real sum_leaves(const elem *x, int64_t end, real m, int64_t leaf, int first, int n) {
    if (n > 1)
        return sum_leaves(x, end, m, leaf, first, n / 2) + sum_leaves(x, end, m, leaf, first + n / 2, n / 2);
    int64_t from = first * leaf, columns = max64(0, min64(leaf, end - from));
    return SUM_OVER(k, columns, real_exp(load(x[from + k]) - m));
}

static enum status row_sum(const struct device *device, const struct vocab_rows *rows, const void *max, void *sum,
                           void *hit) {
    int64_t n = real_columns(&rows->vocab);
    int leaves = rows->vocab.leaves ? axis_leaves_here(&rows->vocab) : 0;
    (void)device;
#pragma omp parallel for
    for (int64_t r = 0; r < rows->n_rows; r++) {
        const elem *x = row_of(rows, r);
        real m = ((const real *)max)[r];
        int64_t target = target_column(rows, r);
        ((real *)sum)[r] = rows->vocab.leaves ? sum_leaves(x, n, m, axis_leaf(&rows->vocab), 0, leaves)
                                              : SUM_OVER(k, n, real_exp(load(x[k]) - m));
        ((real *)hit)[r] = target >= 0 ? load(x[target]) : 0;
    }
    return OK;
}

/* One thread adds the rows in order, because a row is only three numbers. */
static enum status loss(const struct device *device, const struct vocab_rows *rows, const void *max, const void *sum,
                        const void *hit, void *lse, double scale, void *loss_out) {
    double total = 0;
    (void)device;
    for (int64_t r = 0; r < rows->n_rows; r++) {
        real l = ((const real *)max)[r] + (real)log(((const real *)sum)[r]);
        if (rows->target[r] >= 0) total += (double)l - (double)((const real *)hit)[r];
        ((real *)lse)[r] = l;
    }
    *(real *)loss_out = (real)(scale * total);
    return OK;
}

static void row_gradient(const struct vocab_rows *rows, int64_t r, real lse, real scale, int add, elem *dx) {
    const elem *x = row_of(rows, r);
    int64_t n = real_columns(&rows->vocab), target = target_column(rows, r);
    if (rows->target[r] < 0) scale = 0;
    real at_target = target >= 0 ? scale * (real_exp(load(x[target]) - lse) - 1) : 0;
    real before = target >= 0 && add ? load(dx[target]) : 0;
    if (add)
#pragma omp simd
        for (int64_t k = 0; k < n; k++) dx[k] = store(load(dx[k]) + scale * real_exp(load(x[k]) - lse));
    else
#pragma omp simd /* dx may be x */
        for (int64_t k = 0; k < n; k++) dx[k] = store(scale * real_exp(load(x[k]) - lse));
    if (target >= 0) dx[target] = store(before + at_target);
    for (int64_t k = n; k < rows->vocab.n && !add; k++) dx[k] = store(0);
}

static enum status gradient(const struct device *device, const struct vocab_rows *rows, const void *lse, double scale,
                            bool add, void *dlogits) {
    (void)device;
#pragma omp parallel for
    for (int64_t r = 0; r < rows->n_rows; r++)
        row_gradient(rows, r, ((const real *)lse)[r], (real)scale, add, (elem *)dlogits + r * rows->vocab.n);
    return OK;
}

const struct cross_entropy_pieces CPU(cross_entropy_pieces) = {row_max, row_sum, loss, gradient};

/* ---- the op: one shard, the whole vocabulary ---- */

static struct vocab_rows rows_of_call(const struct call *call) {
    struct vocab_rows rows = {call->in[0].data, call->in[1].data, type_n(call->in[1].type),
                              call->in[0].type->shape.axis[2]};
    return rows;
}

static enum status whole_loss(const struct call *call) {
    struct vocab_rows rows = rows_of_call(call);
    real *sum = call->work, *hit = sum + rows.n_rows, *lse = call->out[1].data;
    TRY(row_max(call->device, &rows, lse));
    TRY(row_sum(call->device, &rows, lse, sum, hit));
    return loss(call->device, &rows, lse, sum, hit, lse, call->loss_weight, call->out[0].data);
}

enum status CPU(cross_entropy_forward)(const struct call *call) { return call->training ? OK : whole_loss(call); }

enum status CPU(cross_entropy_backward_input)(const struct call *call) {
    struct vocab_rows rows = rows_of_call(call);
    TRY(whole_loss(call));
    return gradient(call->device, &rows, call->out[1].data, call->loss_weight * call->loss_scale, accumulates(call, 0),
                    call->din[0].data);
}
