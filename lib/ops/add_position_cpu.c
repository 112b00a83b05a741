/* y[b,t] = m (x[b,t] + P[t]). See add_position.h. A row is processed in pieces of COLUMNS elements, each with its
 * factors m. */
#include "lib/ops/add_position.h"
#include "lib/ops/dropout_cpu.h"

kernel CPU(add_position_forward), CPU(add_position_backward_input), CPU(add_position_backward_weight);

/* Local row of P for local position t. */
static int64_t table_row(const struct call *call, const struct rows *rows, int64_t t) {
    return axis_global(rows->t, t) - call->weight[0].type->shape.axis[0].first;
}

enum status CPU(add_position_forward)(const struct call *call) {
    const elem *x = call->in[0].data, *table = call->weight[0].data;
    elem *y = call->out[0].data;
    struct rows rows = rows_of(call->in[0].type);
    struct dropout dropout = dropout_of(call);
#pragma omp parallel for
    for (int64_t r = 0; r < rows.n; r++) {
        const elem *p = table + table_row(call, &rows, r % rows.T) * rows.C;
        for (int64_t first = 0; first < rows.C; first += COLUMNS) {
            int64_t at = r * rows.C + first, n = min64(COLUMNS, rows.C - first);
            real m[COLUMNS];
            row_factors_forward(&dropout, &rows, m, r, first, n);
#pragma omp simd /* y is x itself, or does not overlap it */
            for (int64_t c = 0; c < n; c++) y[at + c] = store(m[c] * (load(x[at + c]) + load(p[first + c])));
        }
    }
    return OK;
}

enum status CPU(add_position_backward_input)(const struct call *call) {
    dropout_backward(call, call->dout[0].data, call->din[0].data);
    return OK;
}

/* Add to up to COLUMNS elements of row t of dP: the sum over the batch, in order. */
static void position_gradient(const struct call *call, const struct rows *rows, const struct dropout *dropout,
                              int64_t t, int64_t first) {
    const elem *dy = call->dout[0].data;
    int64_t n = min64(COLUMNS, rows->C - first);
    real sum[COLUMNS] = {0}, m[COLUMNS];
    for (int64_t b = 0; b < rows->B; b++) {
        int64_t r = b * rows->T + t;
        row_factors_backward(dropout, rows, m, r, first, n);
        for (int64_t c = 0; c < n; c++) sum[c] += m[c] * load(dy[r * rows->C + first + c]);
    }
    grad_add(&call->dweight[0], table_row(call, rows, t) * rows->C + first, sum, n);
}

enum status CPU(add_position_backward_weight)(const struct call *call) {
    struct rows rows = rows_of(call->in[0].type);
    struct dropout dropout = dropout_of(call);
#pragma omp parallel for
    for (int64_t t = 0; t < rows.T; t++)
        for (int64_t first = 0; first < rows.C; first += COLUMNS) position_gradient(call, &rows, &dropout, t, first);
    return OK;
}
