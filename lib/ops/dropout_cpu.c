/* y = m x. See dropout.h. A row is processed in pieces of COLUMNS elements, each with its factors m. */
#include "lib/ops/dropout_cpu.h"

kernel CPU(dropout_forward), CPU(dropout_backward_input);

enum status CPU(dropout_forward)(const struct call *call) {
    const elem *x = call->in[0].data;
    elem *y = call->out[0].data;
    struct rows rows = rows_of(call->in[0].type);
    struct dropout dropout = dropout_of(call);
#pragma omp parallel for
    for (int64_t r = 0; r < rows.n; r++)
        for (int64_t first = 0; first < rows.C; first += COLUMNS) {
            int64_t at = r * rows.C + first, n = min64(COLUMNS, rows.C - first);
            real m[COLUMNS];
            row_factors_forward(&dropout, &rows, m, r, first, n);
#pragma omp simd /* y is x itself, or does not overlap it */
            for (int64_t c = 0; c < n; c++) y[at + c] = store(m[c] * load(x[at + c]));
        }
    return OK;
}

enum status CPU(dropout_backward_input)(const struct call *call) {
    dropout_backward(call, call->dout[0].data, call->din[0].data);
    return OK;
}
