/* y = x rstd g over rows of C elements. See rmsnorm.h. */
#include "lib/ops/cpu.h"
#include "lib/ops/rmsnorm.h"

kernel CPU(rmsnorm_forward), CPU(rmsnorm_backward_input), CPU(rmsnorm_backward_weight);

static int64_t row_length(const struct call *call) { return call->weight[0].type->shape.axis[0].n; }

enum status CPU(rmsnorm_forward)(const struct call *call) {
    const elem *x = call->in[0].data, *g = call->weight[0].data;
    elem *y = call->out[0].data;
    real *rstd = call->out[1].data, eps = (real)rmsnorm_eps(call);
    int64_t C = row_length(call), R = type_n(call->in[0].type) / C;
#pragma omp parallel for
    for (int64_t r = 0; r < R; r++) {
        real square = SUM_OVER(c, C, load(x[r * C + c]) * load(x[r * C + c])) / (real)C;
        real s = rstd[r] = 1 / (real)sqrt(square + eps);
#pragma omp simd /* y is x itself, or does not overlap it */
        for (int64_t c = 0; c < C; c++) y[r * C + c] = store(load(x[r * C + c]) * s * load(g[c]));
    }
    return OK;
}

static void row_backward(const elem *x, const elem *dy, const elem *g, real rstd, elem *dx, int64_t C, int add) {
    real mean_dn = SUM_OVER(c, C, load(dy[c]) * load(g[c]) * (load(x[c]) * rstd)) / (real)C;
#pragma omp simd /* dx may be dy */
    for (int64_t c = 0; c < C; c++)
        put(dx + c, rstd * (load(dy[c]) * load(g[c]) - load(x[c]) * rstd * mean_dn), add);
}

enum status CPU(rmsnorm_backward_input)(const struct call *call) {
    const elem *x = call->in[0].data, *dy = call->dout[0].data, *g = call->weight[0].data;
    const real *rstd = call->out[1].data;
    elem *dx = call->din[0].data;
    int64_t C = row_length(call), R = type_n(call->in[0].type) / C;
    int add = accumulates(call, 0);
#pragma omp parallel for
    for (int64_t r = 0; r < R; r++) row_backward(x + r * C, dy + r * C, g, rstd[r], dx + r * C, C, add);
    return OK;
}

/* dg[c] += sum_r dy[r,c] n[r,c] for columns first .. first + n-1 */
static void columns_backward(const struct call *call, int64_t R, int64_t C, int64_t first, int64_t n) {
    const elem *x = call->in[0].data, *dy = call->dout[0].data;
    const real *rstd = call->out[1].data;
    real dg[COLUMNS] = {0};
    for (int64_t r = 0; r < R; r++)
        for (int64_t c = 0; c < n; c++)
            dg[c] += load(dy[r * C + first + c]) * (load(x[r * C + first + c]) * rstd[r]);
    grad_add(&call->dweight[0], first, dg, n);
}

enum status CPU(rmsnorm_backward_weight)(const struct call *call) {
    int64_t C = row_length(call), R = type_n(call->in[0].type) / C;
#pragma omp parallel for
    for (int64_t first = 0; first < C; first += COLUMNS) columns_backward(call, R, C, first, min64(COLUMNS, C - first));
    return OK;
}
