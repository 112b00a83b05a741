/* logits = x W^T for a few rows of W. See moe_logits.h. No library has this product, because x and W have different
 * types. A tile is TOKENS x EXPERTS, so that each x that is loaded serves EXPERTS products, and each weight TOKENS. In
 * forward a warp's lanes hold different channels of one sum, in backward_input different results; dW is a column sum
 * over the tokens for each expert (columns_cuda.h), and db a sum by one block. */
#include "lib/ops/columns_cuda.h"
#include "lib/ops/moe/moe_logits.h"

extern "C" { kernel CUDA(moe_logits_forward), CUDA(moe_logits_backward_input), CUDA(moe_logits_backward_weight); }

enum { TOKENS = 4, EXPERTS = 4 };

struct sizes { int64_t R; int E, C; };   /* tokens, experts, channels */
static struct sizes sizes_of(const struct call *call) {
    const struct axis *w = call->weight[0].type->shape.axis;
    struct sizes s = {type_n(call->in[0].type) / w[1].n, (int)w[0].n, (int)w[1].n};
    return s;
}

/* Tokens r .. r + TOKENS-1, experts e .. e + EXPERTS-1. If there are fewer, the last one is read again.
 * Two kernels, since one that asks for b at run time needs half as many registers again. */
template <bool HAS_BIAS>
__global__ static void __launch_bounds__(ROW_THREADS)
moe_logits_forward_tile_per_warp(real *logits, const elem *x, const real *w, const real *b, struct sizes s) {
    int lane = threadIdx.x % 32, e = (int)blockIdx.y * EXPERTS;
    FOR_ROWS_OF_WARP(tile, (s.R + TOKENS - 1) / TOKENS) {
        int64_t r = tile * TOKENS;
        real sum[TOKENS][EXPERTS] = {{0}};
        for (int c = lane; c < s.C; c += 32) {
            real xs[TOKENS], ws[EXPERTS];
            for (int i = 0; i < TOKENS; i++) xs[i] = load(x[(r + i < s.R ? r + i : s.R - 1) * s.C + c]);
            for (int j = 0; j < EXPERTS; j++) ws[j] = w[(int64_t)(e + j < s.E ? e + j : s.E - 1) * s.C + c];
            for (int i = 0; i < TOKENS; i++)
                for (int j = 0; j < EXPERTS; j++) sum[i][j] += xs[i] * ws[j];
        }
        for (int i = 0; i < TOKENS; i++)
            for (int j = 0; j < EXPERTS; j++) {
                real logit = warp_sum(sum[i][j]);
                if (lane == 0 && r + i < s.R && e + j < s.E)
                    logits[(r + i) * s.E + e + j] = HAS_BIAS ? logit + b[e + j] : logit;
            }
    }
}

/* dx[r,c] of TOKENS tokens and a column for each thread */
__global__ static void __launch_bounds__(SUM_THREADS)
moe_logits_backward_column_per_thread(elem *dx, const real *dlogits, const real *w, struct sizes s, int accumulate) {
    int c = (int)blockIdx.y * SUM_THREADS + threadIdx.x;
    if (c >= s.C) return;
    for (int64_t r = (int64_t)blockIdx.x * TOKENS; r < s.R; r += (int64_t)gridDim.x * TOKENS) {
        real sum[TOKENS] = {0};
        for (int e = 0; e < s.E; e++) {
            real weight = w[(int64_t)e * s.C + c];
            for (int i = 0; i < TOKENS; i++)
                sum[i] += dlogits[(r + i < s.R ? r + i : s.R - 1) * s.E + e] * weight;
        }
        for (int i = 0; i < TOKENS && r + i < s.R; i++) put(dx + (r + i) * s.C + c, sum[i], accumulate);
    }
}

/* Block (tile of columns, slice of tokens, EXPERTS experts): partial[slice,e,c] = sum of dlogits[r,e] x[r,c] */
__global__ static void __launch_bounds__(SUM_THREADS)
moe_logits_backward_weight_slices(real *partial, const elem *x, const real *dlogits, struct sizes s, int packed) {
    __shared__ real shared[SUM_SHARED];
    int warp = threadIdx.x / 32, c = ((int)blockIdx.x * 32 + threadIdx.x % 32) * GROUP, e = (int)blockIdx.z * EXPERTS;
    struct rows_range rows = slice_rows(s.R, blockIdx.y, gridDim.y);
    real dw[EXPERTS][GROUP] = {{0}};
    for (int64_t r = rows.first + warp; r < rows.last && c < s.C; r += SUM_WARPS) {
        group v = group_load(x + r * s.C, c, s.C, packed);
        for (int i = 0; i < EXPERTS; i++) {
            real d = e + i < s.E ? dlogits[r * s.E + e + i] : (real)0;
            for (int j = 0; j < GROUP; j++) dw[i][j] += d * load(v.x[j]);
        }
    }
    for (int i = 0; i < EXPERTS && e + i < s.E; i++) {
        block_sum_groups(dw[i], shared);
        slice_store(partial, (int64_t)blockIdx.y * s.E + e + i, c, s.C, dw[i]);
        __syncthreads();   /* before the next expert's sums */
    }
}

/* A block for each expert. The gradient's dtype is that of b, real. */
__global__ static void __launch_bounds__(SUM_THREADS)
moe_logits_backward_bias_block_per_expert(real *db, const real *dlogits, struct sizes s) {
    __shared__ real shared[32];
    int e = (int)blockIdx.x;
    real sum = 0;
    for (int64_t r = threadIdx.x; r < s.R; r += SUM_THREADS) sum += dlogits[r * s.E + e];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) db[e] += sum;
}

/* ---- launchers ---- */

template <bool HAS_BIAS> static enum status forward(const struct call *call, const real *b) {
    struct sizes s = sizes_of(call);
    dim3 grid(row_grid(ceil_div(s.R, TOKENS)), (unsigned)ceil_div(s.E, EXPERTS));
    return LAUNCHED(moe_logits_forward_tile_per_warp<HAS_BIAS>, grid, ROW_THREADS, 0, stream_of(call),
                    (real *)call->out[0].data, (const elem *)call->in[0].data, (const real *)call->weight[0].data, b,
                    s);
}

enum status CUDA(moe_logits_forward)(const struct call *call) {
    return call->step->n_weight > 1 ? forward<true>(call, (const real *)call->weight[1].data)
                                    : forward<false>(call, NULL);
}

enum status CUDA(moe_logits_backward_input)(const struct call *call) {
    struct sizes s = sizes_of(call);
    dim3 grid(grid_of(s.R, TOKENS), (unsigned)ceil_div(s.C, SUM_THREADS));
    return LAUNCHED(moe_logits_backward_column_per_thread, grid, SUM_THREADS, 0, stream_of(call),
                    (elem *)call->din[0].data, (const real *)call->dout[0].data, (const real *)call->weight[0].data, s,
                    accumulates(call, 0));
}

enum status CUDA(moe_logits_backward_weight)(const struct call *call) {
    struct sizes s = sizes_of(call);
    const elem *x = (const elem *)call->in[0].data;
    int64_t EC = (int64_t)s.E * s.C, n_slices = column_slices(s.R, EC, ELEM_DTYPE);
    dim3 grid((unsigned)ceil_div(s.C, WARP_COLUMNS), (unsigned)n_slices, (unsigned)ceil_div(s.E, EXPERTS));
    TRY(LAUNCHED(moe_logits_backward_weight_slices, grid, SUM_THREADS, 0, stream_of(call), (real *)call->work, x,
                 (const real *)call->dout[0].data, s, packs(s.C, x, NULL, NULL, NULL)));
    TRY(columns_finish(call, 1, n_slices, EC));
    if (call->step->n_weight < 2) return OK;
    return LAUNCHED(moe_logits_backward_bias_block_per_expert, (unsigned)s.E, SUM_THREADS, 0, stream_of(call),
                    (real *)call->dweight[1].data, (const real *)call->dout[0].data, s);
}
