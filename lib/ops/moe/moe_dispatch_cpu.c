/* Copy rows of C channels to their places and back. See moe_dispatch.h. */
#include "lib/ops/cpu.h"
#include "lib/ops/moe/moe_dispatch.h"
#include "lib/ops/moe/moe_pack.h"
#include <string.h>

kernel CPU(moe_dispatch_forward), CPU(moe_dispatch_backward_input), CPU(moe_combine_forward),
    CPU(moe_combine_backward_input);

struct sizes { int64_t tokens, k, g, rows, S, C; };   /* rows: of a box */
static struct sizes sizes_of(const struct call *call, const struct type *places) {
    int64_t k = call->step->moe.k, tokens = type_n(call->in[1].type) / k;
    struct moe_boxes boxes = moe_boxes(call->step, tokens);
    return (struct sizes){tokens, k, boxes.group, boxes.rows, boxes.places, places->shape.axis[3].n};
}

/* Index of the first element of the place of choice j of token t; -1: the choice was dropped. */
static inline int64_t place_of(const struct sizes *s, const int32_t *picks, int64_t t, int64_t j) {
    int32_t pick = picks[t * s->k + j];
    return pick < 0 ? -1 : (pick / s->S * s->rows + t / s->g * s->S + pick % s->S) * s->C;
}

enum status CPU(moe_dispatch_forward)(const struct call *call) {
    struct sizes s = sizes_of(call, call->out[0].type);
    const elem *x = call->in[0].data;
    elem *out = call->out[0].data;
    memset(out, 0, (size_t)type_bytes(call->out[0].type));
#pragma omp parallel for
    for (int64_t t = 0; t < s.tokens; t++)
        for (int64_t j = 0; j < s.k; j++) {
            int64_t at = place_of(&s, call->in[1].data, t, j);
            if (at >= 0) memcpy(out + at, x + t * s.C, (size_t)s.C * sizeof *out);
        }
    return OK;
}

/* to[c] = or += sum_j weight_j from[place of j, c], in blocks of columns; weight NULL: 1. */
static void gather_token(const struct sizes *s, const int32_t *picks, int64_t t, const elem *from, const real *weight,
                         elem *to, int add) {
    for (int64_t first = 0; first < s->C; first += COLUMNS) {
        int64_t n = min64(COLUMNS, s->C - first);
        real sum[COLUMNS] = {0};
        for (int64_t j = 0; j < s->k; j++) {
            int64_t at = place_of(s, picks, t, j);
            real factor = weight ? weight[j] : 1;
            for (int64_t c = 0; at >= 0 && c < n; c++) sum[c] += factor * load(from[at + first + c]);
        }
        for (int64_t c = 0; c < n; c++) put(to + first + c, sum[c], add);
    }
}

enum status CPU(moe_dispatch_backward_input)(const struct call *call) {
    struct sizes s = sizes_of(call, call->dout[0].type);
    elem *dx = call->din[0].data;
    int add = accumulates(call, 0);
#pragma omp parallel for
    for (int64_t t = 0; t < s.tokens; t++)
        gather_token(&s, call->in[1].data, t, call->dout[0].data, NULL, dx + t * s.C, add);
    return OK;
}

enum status CPU(moe_combine_forward)(const struct call *call) {
    struct sizes s = sizes_of(call, call->in[0].type);
    const real *gates = call->in[2].data;
    elem *out = call->out[0].data;
#pragma omp parallel for
    for (int64_t t = 0; t < s.tokens; t++)
        gather_token(&s, call->in[1].data, t, call->in[0].data, gates + t * s.k, out + t * s.C, 0);
    return OK;
}

enum status CPU(moe_combine_backward_input)(const struct call *call) {
    struct sizes s = sizes_of(call, call->in[0].type);
    const elem *y = call->in[0].data, *dout = call->dout[0].data;
    const real *gates = call->in[2].data;
    elem *dy = call->din[0].data;
    real *dgates = call->din[2].data;
    int add = accumulates(call, 0), add_gates = accumulates(call, 2);
    if (!add) memset(dy, 0, (size_t)type_bytes(call->in[0].type));
#pragma omp parallel for
    for (int64_t i = 0; i < s.tokens * s.k; i++) {
        int64_t t = i / s.k, at = place_of(&s, call->in[1].data, t, i % s.k);
        const elem *d = dout + t * s.C;
        real sum = at < 0 ? 0 : SUM_OVER(c, s.C, load(y[at + c]) * load(d[c]));
        dgates[i] = add_gates ? dgates[i] + sum : sum;
        for (int64_t c = 0; at >= 0 && c < s.C; c++) put(dy + at + c, gates[i] * load(d[c]), add);
    }
    return OK;
}
