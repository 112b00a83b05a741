/* logits = x W^T for a few rows of W. See moe_logits.h. */
#include "lib/ops/cpu.h"
#include "lib/ops/moe/moe_logits.h"

kernel CPU(moe_logits_forward), CPU(moe_logits_backward_input), CPU(moe_logits_backward_weight);

struct sizes { int64_t R, E, C; };   /* tokens, experts, channels */
static struct sizes sizes_of(const struct call *call) {
    const struct axis *w = call->weight[0].type->shape.axis;
    return (struct sizes){type_n(call->in[0].type) / w[1].n, w[0].n, w[1].n};
}

enum status CPU(moe_logits_forward)(const struct call *call) {
    const elem *x = call->in[0].data;
    const real *w = call->weight[0].data, *b = call->step->n_weight > 1 ? call->weight[1].data : NULL;
    real *logits = call->out[0].data;
    struct sizes s = sizes_of(call);
#pragma omp parallel for
    for (int64_t r = 0; r < s.R; r++)
        for (int64_t e = 0; e < s.E; e++)
            logits[r * s.E + e] = SUM_OVER(c, s.C, load(x[r * s.C + c]) * w[e * s.C + c]) + (b ? b[e] : 0);
    return OK;
}

enum status CPU(moe_logits_backward_input)(const struct call *call) {
    const real *w = call->weight[0].data, *dlogits = call->dout[0].data;
    elem *dx = call->din[0].data;
    struct sizes s = sizes_of(call);
    int add = accumulates(call, 0);
#pragma omp parallel for collapse(2)
    for (int64_t r = 0; r < s.R; r++)
        for (int64_t first = 0; first < s.C; first += COLUMNS) {
            int64_t n = min64(COLUMNS, s.C - first);
            real sum[COLUMNS] = {0};
            for (int64_t e = 0; e < s.E; e++)
                for (int64_t c = 0; c < n; c++) sum[c] += dlogits[r * s.E + e] * w[e * s.C + first + c];
            for (int64_t c = 0; c < n; c++) put(dx + r * s.C + first + c, sum[c], add);
        }
    return OK;
}

enum status CPU(moe_logits_backward_weight)(const struct call *call) {
    const elem *x = call->in[0].data;
    const real *dlogits = call->dout[0].data;
    struct sizes s = sizes_of(call);
#pragma omp parallel for collapse(2)
    for (int64_t e = 0; e < s.E; e++)
        for (int64_t first = 0; first < s.C; first += COLUMNS) {
            int64_t n = min64(COLUMNS, s.C - first);
            real sum[COLUMNS] = {0};
            for (int64_t r = 0; r < s.R; r++)
                for (int64_t c = 0; c < n; c++) sum[c] += dlogits[r * s.E + e] * load(x[r * s.C + first + c]);
            grad_add(&call->dweight[0], e * s.C + first, sum, n);
        }
    for (int64_t e = 0; e < s.E && call->step->n_weight > 1; e++) {
        real sum = 0;
        for (int64_t r = 0; r < s.R; r++) sum += dlogits[r * s.E + e];
        grad_add(&call->dweight[1], e, &sum, 1);
    }
    return OK;
}
