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

/* sum_c d[c] n[c] */
static real row_products(const elem *x, const elem *dy, const elem *g, real rstd, int64_t C) {
    return SUM_OVER(c, C, load(dy[c]) * load(g[c]) * (load(x[c]) * rstd));
}

static void row_backward(const elem *x, const elem *dy, const elem *g, real rstd, real mean_dn, elem *dx, int64_t C,
                         int add) {
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
    for (int64_t r = 0; r < R; r++) {
        real mean_dn = row_products(x + r * C, dy + r * C, g, rstd[r], C) / (real)C;
        row_backward(x + r * C, dy + r * C, g, rstd[r], mean_dn, dx + r * C, C, add);
    }
    return OK;
}

static int64_t row_at(const struct rmsnorm_rows *rows, int64_t r) {
    return r / rows->of_token * rows->stride + r % rows->of_token * rows->C;
}

/* dg[c] += sum_r dy[r,c] n[r,c] for columns first .. first + n-1 */
static void columns_backward(const struct call *call, const struct rmsnorm_rows *rows, int64_t first, int64_t n) {
    const elem *x = call->in[0].data, *dy = call->dout[0].data;
    const real *rstd = call->out[1].data;
    real dg[COLUMNS] = {0};
    for (int64_t r = 0; r < rows->n; r++) {
        int64_t at = row_at(rows, r) + first;
        for (int64_t c = 0; c < n; c++) dg[c] += load(dy[at + c]) * (load(x[at + c]) * rstd[r]);
    }
    grad_add(&call->dweight[0], first, dg, n);
}

enum status CPU(rmsnorm_backward_weight)(const struct call *call) {
    struct rmsnorm_rows rows = rmsnorm_rows(call);
#pragma omp parallel for
    for (int64_t first = 0; first < rows.C; first += COLUMNS)
        columns_backward(call, &rows, first, min64(COLUMNS, rows.C - first));
    return OK;
}

/* ---- norms of queries and keys ---- */
static enum status squares(const struct call *call, void *sum) {
    struct rmsnorm_rows rows = rmsnorm_rows(call);
    const elem *x = call->in[0].data;
#pragma omp parallel for
    for (int64_t r = 0; r < rows.n; r++) {
        const elem *row = x + row_at(&rows, r);
        ((real *)sum)[r] = SUM_OVER(c, rows.C, load(row[c]) * load(row[c]));
    }
    return OK;
}

/* The values of all tokens: to = or += from. */
static void copy_values(const struct rmsnorm_rows *rows, elem *to, const elem *from, int add) {
    int64_t keys = rows->of_token * rows->C;
    if (to == from && !add) return;
#pragma omp parallel for
    for (int64_t t = 0; t < rows->n / rows->of_token; t++)
        for (int64_t i = t * rows->stride + keys; i < (t + 1) * rows->stride; i++) put(to + i, load(from[i]), add);
}

static enum status scale(const struct call *call) {
    struct rmsnorm_rows rows = rmsnorm_rows(call);
    const elem *x = call->in[0].data, *g = call->weight[0].data;
    elem *y = call->out[0].data;
    real *rstd = call->out[1].data, eps = (real)rmsnorm_eps(call);
#pragma omp parallel for
    for (int64_t r = 0; r < rows.n; r++) {
        int64_t at = row_at(&rows, r);
        real s = rstd[r] = 1 / (real)sqrt(rstd[r] / (real)rows.all + eps);
#pragma omp simd /* y is x itself, or does not overlap it */
        for (int64_t c = 0; c < rows.C; c++) y[at + c] = store(load(x[at + c]) * s * load(g[c]));
    }
    copy_values(&rows, y, x, false);
    return OK;
}

static enum status products(const struct call *call, void *sum) {
    struct rmsnorm_rows rows = rmsnorm_rows(call);
    const elem *x = call->in[0].data, *dy = call->dout[0].data, *g = call->weight[0].data;
    const real *rstd = call->out[1].data;
#pragma omp parallel for
    for (int64_t r = 0; r < rows.n; r++) {
        int64_t at = row_at(&rows, r);
        ((real *)sum)[r] = row_products(x + at, dy + at, g, rstd[r], rows.C);
    }
    return OK;
}

static enum status gradient(const struct call *call, const void *sum) {
    struct rmsnorm_rows rows = rmsnorm_rows(call);
    const elem *x = call->in[0].data, *dy = call->dout[0].data, *g = call->weight[0].data;
    const real *rstd = call->out[1].data, *dn = sum;
    elem *dx = call->din[0].data;
    int add = accumulates(call, 0);
#pragma omp parallel for
    for (int64_t r = 0; r < rows.n; r++) {
        int64_t at = row_at(&rows, r);
        row_backward(x + at, dy + at, g, rstd[r], dn[r] / (real)rows.all, dx + at, rows.C, add);
    }
    copy_values(&rows, dx, dy, add);
    return OK;
}

extern const struct rmsnorm_pieces CPU(rmsnorm_pieces);
const struct rmsnorm_pieces CPU(rmsnorm_pieces) = {squares, scale, products, gradient, CPU(rmsnorm_backward_weight)};
