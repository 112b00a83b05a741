/* y = residual + m (x + b). See bias_dropout_residual.h. A row is processed in pieces of COLUMNS elements, each with
 * its factors m. */
#include "lib/ops/bias_dropout_residual.h"
#include "lib/ops/dropout_cpu.h"

kernel CPU(bias_dropout_residual_forward), CPU(bias_dropout_residual_backward_input),
    CPU(bias_dropout_residual_backward_weight);

enum status CPU(bias_dropout_residual_forward)(const struct call *call) {
    const elem *x = call->in[0].data, *residual = call->in[1].data;
    const elem *b = call->step->n_weight > 0 ? call->weight[0].data : NULL;
    elem *y = call->out[0].data;
    struct rows rows = rows_of(call->in[0].type);
    struct dropout dropout = dropout_of(call);
#pragma omp parallel for
    for (int64_t r = 0; r < rows.n; r++)
        for (int64_t first = 0; first < rows.C; first += COLUMNS) {
            int64_t at = r * rows.C + first, n = min64(COLUMNS, rows.C - first);
            real m[COLUMNS], bias[COLUMNS] = {0};
            for (int64_t c = 0; c < n && b; c++) bias[c] = load(b[first + c]);
            row_factors_forward(&dropout, &rows, m, r, first, n);
#pragma omp simd /* y is x itself, or does not overlap it */
            for (int64_t c = 0; c < n; c++)
                y[at + c] = store(load(residual[at + c]) + m[c] * (load(x[at + c]) + bias[c]));
        }
    return OK;
}

/* dresidual = or += dy. Call it before dx is written, because dx may overwrite dy. */
static void residual_gradient(const struct call *call, const elem *dy, elem *dresidual) {
    int64_t n = type_n(call->in[1].type);
    int add = accumulates(call, 1);
#pragma omp parallel for
    for (int64_t i = 0; i < n; i++) put(dresidual + i, load(dy[i]), add);
}

enum status CPU(bias_dropout_residual_backward_input)(const struct call *call) {
    const elem *dy = call->dout[0].data;
    elem *dresidual = call->din[1].data;
    if (dresidual && dresidual != dy) residual_gradient(call, dy, dresidual);
    dropout_backward(call, dy, call->din[0].data);
    return OK;
}

enum status CPU(bias_dropout_residual_backward_weight)(const struct call *call) {
    const elem *dy = call->dout[0].data;
    struct rows rows = rows_of(call->in[0].type);
    struct dropout dropout = dropout_of(call);
#pragma omp parallel for
    for (int64_t first = 0; first < rows.C; first += COLUMNS) {
        int64_t n = min64(COLUMNS, rows.C - first);
        real sum[COLUMNS] = {0}, m[COLUMNS];
        for (int64_t r = 0; r < rows.n; r++) {
            row_factors_backward(&dropout, &rows, m, r, first, n);
            for (int64_t c = 0; c < n; c++) sum[c] += m[c] * load(dy[r * rows.C + first + c]);
        }
        grad_add(&call->dweight[0], first, sum, n);
    }
    return OK;
}
