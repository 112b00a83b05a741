/* AdamW over many tensors at once; see adamw.h, and adamw_cpu.c for the same arithmetic.
 *
 * Memory-bound: with fp32 states 28 bytes per element (bf16 weight and gradient, master) for a few dozen operations. A
 * thread block takes one chunk of one tensor; a thread moves VEC elements at a time: 16 bytes of the moments and the
 * master, side by side with its neighbors', and as many elements of weight and gradient. A set of elements that does
 * not start at such a boundary everywhere (a shard may start at any element of a weight) is moved element by element,
 * still side by side.
 *
 * The bits are the CPU's. Every sum is an explicit fused multiply-add, and no product meets a plain + or -, so there is
 * nothing left to fuse; division and square root are IEEE's in double, and in float unless options of nvcc change that
 * (--use_fast_math, -prec-div=false, -prec-sqrt=false, -ftz=true: never here). */
#include "lib/ops/adamw_factors.h"
#include "lib/ops/chunks.h"
#include "lib/ops/cuda.h"

extern "C" { adamw_cuda_launcher CUDA(adamw); }

/* BLOCKS on a multiprocessor at a time: in float 1280 threads with 48 bytes or more in flight each. */
enum { THREADS = 256, BLOCKS = sizeof(real) == 8 ? 2 : 5, VEC = 16 / sizeof(real), CHUNK = THREADS * VEC * 4 };

/* VEC elements of any type, moved as one (doubles with floats: as two). */
template <class T> struct alignas(sizeof(T) * VEC < 16 ? sizeof(T) * VEC : 16) vec { T x[VEC]; };

struct factors { real keep[2], beta1, one_minus_beta1, beta2, one_minus_beta2, step_size, denominator, eps; };

enum { TABLE = 64 };
struct adamw_table {
    struct factors factors;
    const double *grad_multiplier;
    int n;
    int32_t first_chunk[TABLE + 1];
    int64_t length[TABLE];
    elem *weight[TABLE];
    const void *grad[TABLE];
    real *m[TABLE], *v[TABLE], *master[TABLE];
    uint8_t grad_dtype[TABLE], decay[TABLE], aligned[TABLE];
};
static_assert(sizeof(struct adamw_table) <= 4096, "arguments of a kernel");

/* ---- one element ---- */

__device__ static inline real update(const struct factors &f, real keep, real multiplier, real w, real grad, real *m,
                                     real *v) {
    real g = multiplier * grad;
    *m = fma(f.beta1, *m, f.one_minus_beta1 * g);
    *v = fma(f.beta2, *v, f.one_minus_beta2 * g * g);
    real denominator = fma((real)sqrt(*v), f.denominator, f.eps);
    return fma(-f.step_size, *m / denominator, keep * w);
}

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

/* One tensor's memory from a chunk's first element on; master is NULL, or what w is read from. */
struct place { elem *weight; const void *grad; int64_t first; int grad_dtype; real *m, *v, *master; };

__device__ static inline void update_vec(const struct factors &f, real keep, real multiplier, const struct place &p,
                                         int i) {
    vec<real> m = vec_load(p.m + i), v = vec_load(p.v + i), w, g = grad_load(p.grad, p.grad_dtype, p.first + i);
    vec<elem> rounded;
    if (p.master) w = vec_load(p.master + i);
    else {
        rounded = vec_load(p.weight + i);
        for (int j = 0; j < VEC; j++) w.x[j] = load(rounded.x[j]);
    }
    for (int j = 0; j < VEC; j++) {
        w.x[j] = update(f, keep, multiplier, w.x[j], g.x[j], &m.x[j], &v.x[j]);
        rounded.x[j] = store(w.x[j]);
    }
    vec_store(p.m + i, m);
    vec_store(p.v + i, v);
    if (p.master) vec_store(p.master + i, w);
    vec_store(p.weight + i, rounded);
}

__device__ static inline void update_one(const struct factors &f, real keep, real multiplier, const struct place &p,
                                         int i) {
    real w = p.master ? p.master[i] : load(p.weight[i]), m = p.m[i], v = p.v[i];
    w = update(f, keep, multiplier, w, grad_get(p.grad, p.grad_dtype, p.first + i), &m, &v);
    p.m[i] = m;
    p.v[i] = v;
    if (p.master) p.master[i] = w;
    p.weight[i] = store(w);
}

__global__ static void __launch_bounds__(THREADS, BLOCKS) adamw_chunked(const struct adamw_table t) {
    double multiplier = *t.grad_multiplier;
    int k = tensor_of_chunk(t.first_chunk, t.n, blockIdx.x);
    int64_t first = (int64_t)((int)blockIdx.x - t.first_chunk[k]) * CHUNK, left = t.length[k] - first;
    int n = left < CHUNK ? (int)left : CHUNK, packed = t.aligned[k] ? n / VEC * VEC : 0;
    struct place p = {t.weight[k] + first, t.grad[k], first, t.grad_dtype[k], t.m[k] + first, t.v[k] + first,
                      t.master[k] ? t.master[k] + first : NULL};
    real keep = t.factors.keep[t.decay[k]];
    if (multiplier != multiplier) return;
    for (int i = threadIdx.x * VEC; i < packed; i += THREADS * VEC) update_vec(t.factors, keep, (real)multiplier, p, i);
#pragma unroll 1
    for (int i = packed + threadIdx.x; i < n; i += THREADS) update_one(t.factors, keep, (real)multiplier, p, i);
}

/* ---- launching ---- */

static struct factors rounded(const struct adamw_factors *f) {
    struct factors r = {{(real)f->keep[0], (real)f->keep[1]}, (real)f->beta1, (real)f->one_minus_beta1, (real)f->beta2,
                        (real)f->one_minus_beta2, (real)f->step_size, (real)f->denominator, (real)f->eps};
    return r;
}

static int starts_at(const void *p, size_t bytes) { return (uintptr_t)p % bytes == 0; }

/* VEC elements from the first on can be moved as one, in all arrays. */
static int is_aligned(const struct adamw_elements *e) {
    size_t grad = VEC * dtype_size(e->grad_dtype);
    return starts_at(e->m, 16) && starts_at(e->v, 16) && starts_at(e->master, 16) &&
           starts_at(e->weight, alignof(vec<elem>)) && starts_at(e->grad, grad < 16 ? grad : 16);
}

static void table_add(struct adamw_table *t, const struct adamw_elements *e) {
    int k = t->n++;
    t->first_chunk[k + 1] = t->first_chunk[k] + (int32_t)ceil_div(e->n, CHUNK);
    t->length[k] = e->n;
    t->weight[k] = (elem *)e->weight;
    t->grad[k] = e->grad;
    t->m[k] = (real *)e->m;
    t->v[k] = (real *)e->v;
    t->master[k] = (real *)e->master;
    t->grad_dtype[k] = (uint8_t)e->grad_dtype;
    t->decay[k] = e->decay;
    t->aligned[k] = (uint8_t)is_aligned(e);
}

static enum status launch(struct adamw_table *t, void *stream) {
    if (t->n == 0) return OK;
    LAUNCH(adamw_chunked, (unsigned)t->first_chunk[t->n], THREADS, 0, stream)(*t);
    t->n = 0;
    return gpu_launched("adamw_chunked");
}

enum status CUDA(adamw)(void *stream, const struct adamw_factors *f, const double *grad_multiplier,
                        const struct adamw_elements *e, int n) {
    struct adamw_table t = {};
    t.factors = rounded(f);
    t.grad_multiplier = grad_multiplier;
    for (int i = 0; i < n; i++) {
        if (e[i].weight_dtype != ELEM_DTYPE || e[i].n == 0) continue;
        if (t.n == TABLE) TRY(launch(&t, stream));
        table_add(&t, &e[i]);
    }
    return launch(&t, stream);
}
