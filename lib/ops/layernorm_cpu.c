/* y = (x - mean) rstd g + b over rows of C elements. See layernorm.h. */
#include "lib/ops/cpu.h"
#include "lib/ops/layernorm.h"

kernel CPU(layernorm_forward), CPU(layernorm_backward_input), CPU(layernorm_backward_weight);

struct statistics { real mean, rstd; };   /* one element of out[1] */

static int64_t row_length(const struct call *call) { return call->weight[0].type->shape.axis[0].n; }

/* Two passes: the mean first, so that the variance does not lose digits where the mean is large. */
static struct statistics row_statistics(const elem *x, int64_t C, real eps) {
    real mean = SUM_OVER(c, C, load(x[c])) / (real)C;
    real variance = SUM_OVER(c, C, (load(x[c]) - mean) * (load(x[c]) - mean)) / (real)C;
    struct statistics s = {mean, 1 / (real)sqrt(variance + eps)};
    return s;
}

enum status CPU(layernorm_forward)(const struct call *call) {
    const elem *x = call->in[0].data, *g = call->weight[0].data, *b = call->weight[1].data;
    elem *y = call->out[0].data;
    struct statistics *statistics = call->out[1].data;
    int64_t C = row_length(call), R = type_n(call->in[0].type) / C;
    real eps = (real)layernorm_eps(call);
#pragma omp parallel for
    for (int64_t r = 0; r < R; r++) {
        struct statistics s = statistics[r] = row_statistics(x + r * C, C, eps);
#pragma omp simd /* y is x itself, or does not overlap it */
        for (int64_t c = 0; c < C; c++)
            y[r * C + c] = store((load(x[r * C + c]) - s.mean) * s.rstd * load(g[c]) + load(b[c]));
    }
    return OK;
}

static void row_backward(const elem *x, const elem *dy, const elem *g, struct statistics s, elem *dx, int64_t C,
                         int add) {
    real mean_d = SUM_OVER(c, C, load(dy[c]) * load(g[c])) / (real)C;
    real mean_dn = SUM_OVER(c, C, load(dy[c]) * load(g[c]) * ((load(x[c]) - s.mean) * s.rstd)) / (real)C;
#pragma omp simd /* dx may be dy */
    for (int64_t c = 0; c < C; c++) {
        real n = (load(x[c]) - s.mean) * s.rstd;
        put(dx + c, s.rstd * (load(dy[c]) * load(g[c]) - mean_d - n * mean_dn), add);
    }
}

enum status CPU(layernorm_backward_input)(const struct call *call) {
    const elem *x = call->in[0].data, *dy = call->dout[0].data, *g = call->weight[0].data;
    const struct statistics *s = call->out[1].data;
    elem *dx = call->din[0].data;
    int64_t C = row_length(call), R = type_n(call->in[0].type) / C;
    int add = accumulates(call, 0);
#pragma omp parallel for
    for (int64_t r = 0; r < R; r++) row_backward(x + r * C, dy + r * C, g, s[r], dx + r * C, C, add);
    return OK;
}

/* dg[c] += sum_r dy[r,c] n[r,c]     db[c] += sum_r dy[r,c]     for columns first .. first + n-1 */
static void columns_backward(const struct call *call, int64_t R, int64_t C, int64_t first, int64_t n) {
    const elem *x = call->in[0].data, *dy = call->dout[0].data;
    const struct statistics *s = call->out[1].data;
    real dg[COLUMNS] = {0}, db[COLUMNS] = {0};
    for (int64_t r = 0; r < R; r++)
        for (int64_t c = 0; c < n; c++) {
            real d = load(dy[r * C + first + c]);
            dg[c] += d * ((load(x[r * C + first + c]) - s[r].mean) * s[r].rstd);
            db[c] += d;
        }
    grad_add(&call->dweight[0], first, dg, n);
    grad_add(&call->dweight[1], first, db, n);
}

enum status CPU(layernorm_backward_weight)(const struct call *call) {
    int64_t C = row_length(call), R = type_n(call->in[0].type) / C;
#pragma omp parallel for
    for (int64_t first = 0; first < C; first += COLUMNS) columns_backward(call, R, C, first, min64(COLUMNS, C - first));
    return OK;
}
