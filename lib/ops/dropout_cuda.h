/* Dropout factors for the CUDA kernels; see dropout.h. Only *_cuda.cu files include this.
 *
 * One Philox block draws for four neighboring channels, counted from global channel 0. Groups (groups_cuda.h) start at
 * global multiples of GROUP, which is a multiple of four, so that no two lanes draw the same Philox block. If a shard
 * starts between two multiples of GROUP, its first group starts before its first column, at -shift.
 *
 * Cost: 20 multiplications of 32 x 32 bits for four elements, about 12 instructions per element. Memory traffic of 3
 * elements hides them. With a traffic of 1 element (a bias gradient that draws again) they are the larger part, and a
 * stored mask is faster. */
#pragma once

#include "lib/ops/groups_cuda.h"
#include "lib/ops/dropout.h"

/* A (B,T,C) tensor by rows, and its dropout. Global indices are 32 bits, as in Philox counters. */
struct dropped_rows {
    int64_t R;
    int C, shift, n_groups;       /* columns of group i start at i GROUP - shift */
    uint32_t T, first_sample, first_t, first_block;   /* first_block: first Philox block, group 0's channel / 4 */
    uint32_t turn, jump;          /* the T positions may be two runs: axis_global */
    int on, packed;
    uint32_t highest_dropped;     /* keep draws above it: threshold - 1, which fits in 32 bits */
    real scale;
    struct philox_key key;
    uint8_t *mask;
};

/* type: a (B,T,C) operand. a, b, c, d: the operands that the kernel moves by groups; NULL: none. */
static inline struct dropped_rows dropped_rows_of(const struct call *call, const struct type *type, const void *a,
                                                  const void *b, const void *c, const void *d) {
    const struct axis *axis = type->shape.axis;
    struct dropout dropout = dropout_of(call);
    int64_t C = axis[2].n, shift = axis[2].first % GROUP;
    struct dropped_rows rows;
    rows.R = axis[0].n * axis[1].n;
    rows.C = (int)C;
    rows.shift = (int)shift;
    rows.n_groups = (int)ceil_div(shift + C, GROUP);
    rows.T = (uint32_t)axis[1].n;
    rows.first_sample = (uint32_t)dropout.first_sample;
    rows.first_t = (uint32_t)axis[1].first;
    rows.turn = (uint32_t)axis[1].turn;
    rows.jump = (uint32_t)axis[1].jump;
    rows.first_block = (uint32_t)((axis[2].first - shift) / 4);
    rows.on = dropout.on;
    rows.packed = shift == 0 && packs(C, a, b, c, d) && aligned(dropout.mask);
    rows.highest_dropped = dropout.threshold > 0 ? (uint32_t)(dropout.threshold - 1) : 0;
    rows.scale = (real)dropout.scale;
    rows.key = dropout.key;
    rows.mask = dropout.mask;
    return rows;
}

/* Position and sample of a row. A 32-bit division is enough, because no memory holds 2^32 rows. */
struct place { uint32_t t, sample; };
__device__ static inline struct place place_of(const struct dropped_rows &rows, int64_t r) {
    uint32_t sample = (uint32_t)r / rows.T, t = (uint32_t)r - sample * rows.T;
    struct place p = {rows.first_t + t + (t >= rows.turn ? rows.jump : 0), rows.first_sample + sample};
    return p;
}

/* m[j] = 0 or 1 / (1-p) for the columns of group i; 1 if dropout is off. */
__device__ static inline void draw_factors(real *m, const struct dropped_rows &rows, struct place p, int i) {
    for (int q = 0; q < GROUP / 4; q++) {
        struct philox_counter c = {{rows.first_block + (uint32_t)(i * (GROUP / 4) + q), p.t, 0, p.sample}};
        if (rows.on) c = philox(c, rows.key);
        for (int l = 0; l < 4; l++) m[4 * q + l] = !rows.on ? 1 : c.v[l] > rows.highest_dropped ? rows.scale : 0;
    }
}

/* ---- the mask: a byte for each element, GROUP bytes moved in one access ---- */
struct __align__(GROUP) mask_group { uint8_t x[GROUP]; };

__device__ static inline void mask_put(const struct dropped_rows &rows, int64_t r, int c, const real *m) {
    uint8_t *row = rows.mask + r * rows.C;
    if (rows.packed) {
        mask_group g;
        for (int j = 0; j < GROUP; j++) g.x[j] = m[j] != 0;
        *(mask_group *)(row + c) = g;
    } else {
        for (int j = 0; j < GROUP; j++)
            if (c + j >= 0 && c + j < rows.C) row[c + j] = m[j] != 0;
    }
}

/* If the mask's memory is overwritten, a byte other than 0 or 1 gives a factor that no draw gives. */
__device__ static inline void mask_factors(real *m, const struct dropped_rows &rows, int64_t r, int c) {
    const uint8_t *row = rows.mask + r * rows.C;
    if (rows.packed) {
        mask_group g = *(const mask_group *)(row + c);
        for (int j = 0; j < GROUP; j++) m[j] = g.x[j] * rows.scale;
    } else {
        for (int j = 0; j < GROUP; j++) m[j] = c + j >= 0 && c + j < rows.C ? row[c + j] * rows.scale : 0;
    }
}

/** Draw the factors of group i of row r for forward, and store their mask if the step keeps one. */
__device__ static inline void factors_forward(real *m, const struct dropped_rows &rows, struct place p, int64_t r,
                                              int i) {
    draw_factors(m, rows, p, i);
    if (rows.mask) mask_put(rows, r, i * GROUP - rows.shift, m);
}

/** The same factors for backward: from the stored mask, or drawn again. */
__device__ static inline void factors_backward(real *m, const struct dropped_rows &rows, struct place p, int64_t r,
                                               int i) {
    if (rows.on && rows.mask) mask_factors(m, rows, r, i * GROUP - rows.shift);
    else draw_factors(m, rows, p, i);
}

/* dx = or += m dy. If dresidual is not NULL, also dresidual = or += dy. dx may be dy. */
__global__ static void __launch_bounds__(ROW_THREADS)
    dropout_backward_warp_per_row(elem *dx, elem *dresidual, const elem *dy, struct dropped_rows rows, int add,
                                  int add_residual) {
    FOR_ROWS_OF_WARP(r, rows.R) {
        struct place p = place_of(rows, r);
        int64_t at = r * rows.C;
        for (int i = threadIdx.x % 32; i < rows.n_groups; i += 32) {
            int c = i * GROUP - rows.shift;
            group d = group_load(dy + at, c, rows.C, rows.packed);
            real m[GROUP], v[GROUP];
            for (int j = 0; j < GROUP; j++) v[j] = load(d.x[j]);
            if (dresidual) group_put(dresidual + at, c, rows.C, rows.packed, v, add_residual);
            factors_backward(m, rows, p, r, i);
            for (int j = 0; j < GROUP; j++) v[j] *= m[j];
            group_put(dx + at, c, rows.C, rows.packed, v, add);
        }
    }
}

/** backward_input of every op that ends in dropout. dresidual NULL: the op has no residual, or its gradient is dy. */
static inline enum status dropout_backward(const struct call *call, elem *dresidual) {
    const elem *dy = (const elem *)call->dout[0].data;
    elem *dx = (elem *)call->din[0].data;
    struct dropped_rows rows = dropped_rows_of(call, call->in[0].type, dx, dy, dresidual, NULL);
    return LAUNCHED(dropout_backward_warp_per_row, row_grid(rows.R), ROW_THREADS, 0, stream_of(call), dx, dresidual, dy,
                    rows, accumulates(call, 0), accumulates(call, 1));
}

/* residual + m (x + bias). fma is explicit, so that every kernel that computes this has the same bits. */
__device__ static inline real dropped_sum(elem residual, real m, elem x, elem bias) {
    return fma(m, load(x) + load(bias), load(residual));
}
