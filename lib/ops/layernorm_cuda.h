/* Functions that layernorm's CUDA kernels share, for rows in a block's registers. Only *_cuda.cu files include this.
 * See layernorm_cuda.cu. */
#pragma once

#include "lib/ops/layernorm.h"
#include "lib/ops/rows_cuda.h"

struct __align__(2 * sizeof(real)) statistics { real mean, rstd; };   /* one element of out[1] */

__device__ static inline real normal(elem x, struct statistics s) { return (load(x) - s.mean) * s.rstd; }
__device__ static inline real scaled(real n, elem scale, elem shift) { return fma(n, load(scale), load(shift)); }

/* ---- backward ---- */

struct sums { real d, dn; };   /* over a row: the sum of d = dy g, and of d n */

__device__ static inline void add_to_sums(struct sums *sums, const group &x, const group &dy, struct statistics s,
                                          const elem *g, int c, int C, int packed) {
    group scale = group_load(g, c, C, packed);
    for (int j = 0; j < GROUP; j++) {       /* dy and g are zero beyond the row */
        real gradient = load(dy.x[j]), weight = load(scale.x[j]);
        sums->d = fma(gradient, weight, sums->d);
        sums->dn = fma(gradient * weight, normal(x.x[j], s), sums->dn);
    }
}

/* dx may be dy. */
__device__ static inline void write_gradient(elem *dx, const group &x, const group &dy, struct statistics s,
                                             struct sums mean, const elem *g, int c, int C, int packed,
                                             int accumulate) {
    group scale = group_load(g, c, C, packed);
    real v[GROUP];
    for (int j = 0; j < GROUP; j++)
        v[j] = s.rstd * fma(-normal(x.x[j], s), mean.dn, fma(load(dy.x[j]), load(scale.x[j]), -mean.d));
    group_put(dx, c, C, packed, v, accumulate);
}

/* dg[c] += dy[r,c] n[r,c]   db[c] += dy[r,c]   of one row */
__device__ static inline void add_row(real *dg, real *db, const group &x, const group &dy, struct statistics s) {
    for (int j = 0; j < GROUP; j++) {
        dg[j] = fma(load(dy.x[j]), normal(x.x[j], s), dg[j]);
        db[j] += load(dy.x[j]);
    }
}
