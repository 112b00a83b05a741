/* The kernel of every optimizer on CUDA, over many tensors at once; see optimizer.h, and optimizer_cpu.h for the same
 * arithmetic. Only *_cuda.cu files include this. Each defines the formula for one element (update), and calls
 * optimizer_launch<N> for N states.
 *
 * Memory-bound: AdamW with fp32 states moves 28 bytes per element (bf16 weight and gradient, master) for a few dozen
 * operations. A thread block takes one chunk of one tensor. A thread moves VEC elements at a time: 16 bytes of each
 * state and of the master, and as many elements of weight and gradient; neighboring threads move neighboring bytes. If
 * an array of the set does not start on such a boundary (a shard may start at any element of a weight), a thread moves
 * single elements.
 *
 * The bits are the CPU's. Every sum is an explicit fused multiply-add, so the compiler has nothing left to fuse.
 * Division and square root are IEEE's in double, and in float if nvcc is not given --use_fast_math, -prec-div=false,
 * -prec-sqrt=false or -ftz=true. The Makefile gives none of these. */
#pragma once

#include "lib/ops/chunks.h"
#include "lib/ops/cuda.h"
#include "lib/ops/optimizer.h"

/* BLOCKS per multiprocessor: in float 1280 threads, each with 48 bytes or more in flight. */
enum { THREADS = 256, BLOCKS = sizeof(real) == 8 ? 2 : 5, VEC = 16 / sizeof(real), CHUNK = THREADS * VEC * 4 };

/* VEC elements of any type, moved in one access (double gradients of a float weight: in two). */
template <class T> struct alignas(sizeof(T) * VEC < 16 ? sizeof(T) * VEC : 16) vec { T x[VEC]; };

struct factors { real decay[2], x[OPTIMIZER_FACTORS]; };

/* The argument of one launch: up to TABLE sets. wide: the N states, then the master, from which w is read, or NULL. */
enum { TABLE = 64 };
template <int N> struct table {
    struct factors factors;
    const double *grad_multiplier;
    int n;
    int32_t first_chunk[TABLE + 1];
    int64_t length[TABLE];
    elem *weight[TABLE];
    const void *grad[TABLE];
    real *wide[N + 1][TABLE];
    uint8_t grad_dtype[TABLE], decay[TABLE], aligned[TABLE];
};
static_assert(sizeof(table<OPTIMIZER_STATES>) <= 4096, "arguments of a kernel");

/* ---- one element ---- */

/* Return the new weight. x: the row's factors; decay: the factor of w; g: the gradient times its multiplier; state[k]:
 * this element's states, changed in place. */
__device__ static inline real update(const real *x, real decay, real w, real g, real *state);

__device__ static inline real grad_get(const void *grad, int dtype, int64_t i) {
    switch (dtype) {
    case FP64: return (real)((const double *)grad)[i];
    case FP32: return ((const float *)grad)[i];
    case BF16: return __bfloat162float(((const __nv_bfloat16 *)grad)[i]);
    default: return __half2float(((const __half *)grad)[i]);
    }
}

/* ---- VEC elements ---- */

template <class T> __device__ static inline vec<T> vec_load(const T *p) { return *(const vec<T> *)p; }
template <class T> __device__ static inline void vec_store(T *p, const vec<T> &v) { *(vec<T> *)p = v; }

__device__ static inline vec<real> grad_load(const void *grad, int dtype, int64_t i) {
    vec<real> g;
    if (dtype == BF16) {
        vec<__nv_bfloat16> x = vec_load((const __nv_bfloat16 *)grad + i);
        for (int j = 0; j < VEC; j++) g.x[j] = __bfloat162float(x.x[j]);
    } else if (dtype == FP16) {
        vec<__half> x = vec_load((const __half *)grad + i);
        for (int j = 0; j < VEC; j++) g.x[j] = __half2float(x.x[j]);
    } else if (dtype == FP32) {
        vec<float> x = vec_load((const float *)grad + i);
        for (int j = 0; j < VEC; j++) g.x[j] = x.x[j];
    } else {
        vec<double> x = vec_load((const double *)grad + i);
        for (int j = 0; j < VEC; j++) g.x[j] = (real)x.x[j];
    }
    return g;
}

/* ---- a chunk ---- */

/* One tensor's arrays from the chunk's element 0 on; the gradient's is grad[first]. */
template <int N> struct place { elem *weight; const void *grad; int64_t first; int grad_dtype; real *wide[N + 1]; };

template <int N>
__device__ static inline void update_vec(const real *x, real decay, real multiplier, const place<N> &p, int i) {
    vec<real> wide[N + 1], g = grad_load(p.grad, p.grad_dtype, p.first + i), &w = wide[N];
    vec<elem> rounded;
#pragma unroll
    for (int k = 0; k < N; k++) wide[k] = vec_load(p.wide[k] + i);
    if (p.wide[N]) w = vec_load(p.wide[N] + i);
    else {
        rounded = vec_load(p.weight + i);
        for (int j = 0; j < VEC; j++) w.x[j] = load(rounded.x[j]);
    }
#pragma unroll
    for (int j = 0; j < VEC; j++) {
        real state[OPTIMIZER_STATES] = {};
        for (int k = 0; k < N; k++) state[k] = wide[k].x[j];
        w.x[j] = update(x, decay, w.x[j], multiplier * g.x[j], state);
        for (int k = 0; k < N; k++) wide[k].x[j] = state[k];
        rounded.x[j] = store(w.x[j]);
    }
#pragma unroll
    for (int k = 0; k <= N; k++)
        if (k < N || p.wide[N]) vec_store(p.wide[k] + i, wide[k]);
    vec_store(p.weight + i, rounded);
}

template <int N>
__device__ static inline void update_one(const real *x, real decay, real multiplier, const place<N> &p, int i) {
    real w = p.wide[N] ? p.wide[N][i] : load(p.weight[i]), state[OPTIMIZER_STATES] = {};
    for (int k = 0; k < N; k++) state[k] = p.wide[k][i];
    w = update(x, decay, w, multiplier * grad_get(p.grad, p.grad_dtype, p.first + i), state);
    for (int k = 0; k < N; k++) p.wide[k][i] = state[k];
    if (p.wide[N]) p.wide[N][i] = w;
    p.weight[i] = store(w);
}

template <int N> __global__ static void __launch_bounds__(THREADS, BLOCKS) optimizer_chunked(const table<N> t) {
    double multiplier = *t.grad_multiplier;
    int k = tensor_of_chunk(t.first_chunk, t.n, blockIdx.x);
    int64_t first = (int64_t)((int)blockIdx.x - t.first_chunk[k]) * CHUNK, left = t.length[k] - first;
    int n = left < CHUNK ? (int)left : CHUNK, packed = t.aligned[k] ? n / VEC * VEC : 0;
    place<N> p = {t.weight[k] + first, t.grad[k], first, t.grad_dtype[k], {}};
    for (int s = 0; s <= N; s++) p.wide[s] = t.wide[s][k] ? t.wide[s][k] + first : NULL;
    real decay = t.factors.decay[t.decay[k]];
    const real *x = t.factors.x;
    if (multiplier != multiplier) return;
    for (int i = threadIdx.x * VEC; i < packed; i += THREADS * VEC) update_vec<N>(x, decay, (real)multiplier, p, i);
#pragma unroll 1
    for (int i = packed + threadIdx.x; i < n; i += THREADS) update_one<N>(x, decay, (real)multiplier, p, i);
}

/* ---- launching ---- */

static int starts_at(const void *p, size_t bytes) { return (uintptr_t)p % bytes == 0; }

/* Can VEC elements be moved in one access in all arrays of the set? */
template <int N> static bool is_aligned(const struct optimizer_elements *e) {
    size_t grad = VEC * dtype_size(e->grad_dtype);
    bool aligned = starts_at(e->master, 16);
    for (int k = 0; k < N; k++) aligned &= starts_at(e->state[k], 16);
    return aligned && starts_at(e->weight, alignof(vec<elem>)) && starts_at(e->grad, grad < 16 ? grad : 16);
}

template <int N> static void table_add(table<N> *t, const struct optimizer_elements *e) {
    int k = t->n++;
    t->first_chunk[k + 1] = t->first_chunk[k] + (int32_t)ceil_div(e->n, CHUNK);
    t->length[k] = e->n;
    t->weight[k] = (elem *)e->weight;
    t->grad[k] = e->grad;
    for (int s = 0; s < N; s++) t->wide[s][k] = (real *)e->state[s];
    t->wide[N][k] = (real *)e->master;
    t->grad_dtype[k] = (uint8_t)e->grad_dtype;
    t->decay[k] = e->decay;
    t->aligned[k] = is_aligned<N>(e);
}

template <int N> static enum status launch(table<N> *t, void *stream) {
    if (t->n == 0) return OK;
    LAUNCH(optimizer_chunked<N>, (unsigned)t->first_chunk[t->n], THREADS, 0, stream)(*t);
    t->n = 0;
    return gpu_launched("optimizer_chunked");
}

/* Update all sets whose weights have this dtype. */
template <int N>
static enum status optimizer_launch(void *stream, const struct optimizer_factors *f, const double *grad_multiplier,
                                    const struct optimizer_elements *e, int n) {
    table<N> t = {};
    t.factors = {{(real)f->decay[0], (real)f->decay[1]}, {}};
    for (int k = 0; k < OPTIMIZER_FACTORS; k++) t.factors.x[k] = (real)f->x[k];
    t.grad_multiplier = grad_multiplier;
    for (int i = 0; i < n; i++) {
        if (e[i].weight_dtype != ELEM_DTYPE || e[i].n == 0) continue;
        if (t.n == TABLE) TRY(launch(&t, stream));
        table_add(&t, &e[i]);
    }
    return launch(&t, stream);
}
