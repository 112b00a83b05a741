/* Copy rows of C channels to their places and back. See moe_dispatch.h. Memory-bound: a warp has a token, and a lane
 * copies 16 bytes of it at a time. A place has one choice, so no two warps write the same element, and no sum has a
 * random order. */
#include "lib/ops/groups_cuda.h"
#include "lib/ops/moe/moe_dispatch.h"
#include "lib/ops/moe/moe_pack.h"

extern "C" {
kernel CUDA(moe_dispatch_forward), CUDA(moe_dispatch_backward_input), CUDA(moe_combine_forward),
    CUDA(moe_combine_backward_input);
}

/* Groups of g tokens have S places each in a box of `rows` rows (moe_pack.h). */
struct sizes { int64_t tokens, rows; int k, g, S, C; };
static struct sizes sizes_of(const struct call *call, const struct type *places) {
    int64_t k = call->step->moe.k, tokens = type_n(call->in[1].type) / k;
    struct moe_boxes boxes = moe_boxes(call->step, tokens);
    struct sizes s = {tokens, boxes.rows, (int)k, (int)boxes.group, (int)boxes.places, (int)places->shape.axis[3].n};
    return s;
}

/* Index of the first element of the place of choice j of token t; -1: the choice was dropped. t fits an int,
 * because there are fewer than 2^31 tokens; a 64-bit division would be a function call. */
__device__ static inline int64_t place_of(const struct sizes &s, const int32_t *picks, int64_t t, int j) {
    int32_t pick = picks[t * s.k + j];
    return pick < 0 ? -1 : (pick / s.S * s.rows + (int)t / s.g * s.S + pick % s.S) * s.C;
}

#define FOR_GROUPS_OF_LANE(c, C) for (int c = threadIdx.x % 32 * GROUP; c < (C); c += WARP_COLUMNS)

__global__ static void __launch_bounds__(ROW_THREADS)
moe_scatter_warp_per_token(elem *out, const elem *x, const int32_t *picks, struct sizes s, int packed) {
    FOR_ROWS_OF_WARP(t, s.tokens)
    FOR_GROUPS_OF_LANE(c, s.C) {
        group v = group_load(x + t * s.C, c, s.C, packed);
        for (int j = 0; j < s.k; j++) {
            int64_t at = place_of(s, picks, t, j);
            if (at >= 0) group_store(out + at, v, c, s.C, packed);
        }
    }
}

/* to[t] = or += sum_j weight[t,j] from[place of j]; weight NULL: 1 */
__global__ static void __launch_bounds__(ROW_THREADS)
moe_gather_warp_per_token(elem *to, const elem *from, const int32_t *picks, const real *weight, struct sizes s,
                          int packed, int accumulate) {
    FOR_ROWS_OF_WARP(t, s.tokens)
    FOR_GROUPS_OF_LANE(c, s.C) {
        real sum[GROUP] = {0};
        for (int j = 0; j < s.k; j++) {
            int64_t at = place_of(s, picks, t, j);
            if (at < 0) continue;
            group v = group_load(from + at, c, s.C, packed);
            real factor = weight ? weight[t * s.k + j] : (real)1;
            for (int i = 0; i < GROUP; i++) sum[i] += factor * load(v.x[i]);
        }
        group_put(to + t * s.C, c, s.C, packed, sum, accumulate);
    }
}

/* dy = or += gate dout of one place; returns the lane's part of y . dout */
__device__ static inline real place_backward(elem *dy, const elem *y, const elem *dout, real gate, int C, int packed,
                                             int accumulate) {
    real dot = 0;
    FOR_GROUPS_OF_LANE(c, C) {
        group v = group_load(y, c, C, packed), d = group_load(dout, c, C, packed);
        real product[GROUP];
        for (int i = 0; i < GROUP; i++) {
            dot += load(v.x[i]) * load(d.x[i]);
            product[i] = gate * load(d.x[i]);
        }
        group_put(dy, c, C, packed, product, accumulate);
    }
    return dot;
}

__global__ static void __launch_bounds__(ROW_THREADS)
moe_combine_backward_warp_per_token(elem *dy, real *dgates, const elem *y, const int32_t *picks, const real *gates,
                                    const elem *dout, struct sizes s, int packed, int add, int add_gates) {
    FOR_ROWS_OF_WARP(t, s.tokens)
    for (int j = 0; j < s.k; j++) {
        int64_t i = t * s.k + j, at = place_of(s, picks, t, j);
        real dot = at < 0 ? (real)0 : place_backward(dy + at, y + at, dout + t * s.C, gates[i], s.C, packed, add);
        dot = warp_sum(dot);
        if (threadIdx.x % 32 == 0) dgates[i] = add_gates ? dgates[i] + dot : dot;
    }
}

/* ---- launchers ---- */

static enum status gather(const struct call *call, const struct tensor *from, const real *weight,
                          const struct tensor *to, int accumulate) {
    struct sizes s = sizes_of(call, from->type);
    return LAUNCHED(moe_gather_warp_per_token, row_grid(s.tokens), ROW_THREADS, 0, stream_of(call), (elem *)to->data,
                    (const elem *)from->data, (const int32_t *)call->in[1].data, weight, s,
                    packs(s.C, from->data, to->data, NULL, NULL), accumulate);
}

enum status CUDA(moe_dispatch_forward)(const struct call *call) {
    struct sizes s = sizes_of(call, call->out[0].type);
    elem *out = (elem *)call->out[0].data;
    const elem *x = (const elem *)call->in[0].data;
    TRY(call->device->clear(call->device, out, type_bytes(call->out[0].type)));
    return LAUNCHED(moe_scatter_warp_per_token, row_grid(s.tokens), ROW_THREADS, 0, stream_of(call), out, x,
                    (const int32_t *)call->in[1].data, s, packs(s.C, x, out, NULL, NULL));
}

enum status CUDA(moe_dispatch_backward_input)(const struct call *call) {
    return gather(call, &call->dout[0], NULL, &call->din[0], accumulates(call, 0));
}

enum status CUDA(moe_combine_forward)(const struct call *call) {
    return gather(call, &call->in[0], (const real *)call->in[2].data, &call->out[0], 0);
}

enum status CUDA(moe_combine_backward_input)(const struct call *call) {
    struct sizes s = sizes_of(call, call->in[0].type);
    const elem *y = (const elem *)call->in[0].data, *dout = (const elem *)call->dout[0].data;
    elem *dy = (elem *)call->din[0].data;
    int add = accumulates(call, 0);
    if (!add) TRY(call->device->clear(call->device, dy, type_bytes(call->in[0].type)));
    return LAUNCHED(moe_combine_backward_warp_per_token, row_grid(s.tokens), ROW_THREADS, 0, stream_of(call), dy,
                    (real *)call->din[2].data, y, (const int32_t *)call->in[1].data, (const real *)call->in[2].data,
                    dout, s, packs(s.C, y, dout, dy, NULL), add, accumulates(call, 2));
}
