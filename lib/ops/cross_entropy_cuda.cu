/* lse[r] = log sum_k e^x[r,k], the loss, and dx[r,k] = scale (e^(x[r,k] - lse[r]) - [k = target]). See cross_entropy.h.
 *
 * Memory-bound: the logits are the largest tensor of a step. A thread block takes one row, and neighboring threads read
 * neighboring packs of 16 bytes, from the first 16-byte boundary on (rows of an odd vocabulary start anywhere).
 *
 * Over the whole vocabulary, maximum and sum take one read of the logits together (Milakov and Gimelshein 2018): a
 * thread keeps the maximum m so far and s = sum e^(x - m); a larger x rescales s by e^(m - x). At the end the block
 * combines its threads' m and s:
 *
 *   M = max m      S = sum s e^(m - M)      lse = M + log S
 *
 * In training the same block then computes the gradient. It keeps its row in shared memory (100 KB of bf16 for GPT-2's
 * vocabulary, two rows a multiprocessor), so that a row moves 2 V elements: V logits read once, V gradients written
 * once. A row that does not fit is read again, as in llm.c's fused_classifier. The largest GPU works on 264 rows at a
 * time, and much of them is still in its second-level cache.
 *
 * Over shards of the vocabulary, maximum and sum are separate passes, with an all-reduce over the ranks after each. */
#include "lib/ops/cross_entropy.h"
#include "lib/ops/cuda.h"
#include "lib/ops/sum_double.h"
#include <float.h>

extern "C" {
kernel CUDA(cross_entropy_forward), CUDA(cross_entropy_backward_input);
extern const struct cross_entropy_pieces CUDA(cross_entropy_pieces);
}

/* BLOCKS per multiprocessor fill it with its 2048 threads; in double with half as many, because more would spill
 * registers. */
enum { MOST_THREADS = 256, BLOCKS = sizeof(real) == 8 ? 4 : 8, TOTAL_THREADS = 1024, UNROLL = 4 };
enum { TRAIN_THREADS = sizeof(real) == 8 ? 512 : 768, TRAIN_BLOCKS = sizeof(real) == 8 ? 1 : 2 };
enum { MOST_KEPT = 226 * 1024 };   /* bytes; an H100 block has 227 KiB, an A100 block 163 KiB (see bytes_kept) */

#if defined ELEM_fp64
#define LOWEST (-DBL_MAX)
#else
#define LOWEST (-FLT_MAX)
#endif

/* e^x for x <= 0. With 16-bit logits the hardware computes 2^(x log2 e), with a relative error of (2 + 1.2 |x|) 2^-24.
 * Where e^x is above 2^-24 (x > -17), the error is at most 2^-19, far below the result's own rounding of 2^-12 or 2^-9.
 * With other logits, exp is as exact as on the CPU. */
#if defined ELEM_bf16 || defined ELEM_fp16
__device__ static inline real row_exp(real x) { return __expf(x); }
#else
__device__ static inline real row_exp(real x) { return exp(x); }
#endif

/* ---- walking a row ---- */

/* The number of elements before the first 16-byte boundary, at most n. */
__device__ static inline int to_boundary(const elem *x, int n) {
    int k = (int)((16 - (uintptr_t)x % 16) % 16 / sizeof(elem));
    return k < n ? k : n;
}

template <class Fold> __device__ static inline void take_one(const elem *x, int k, Fold *fold, elem *kept) {
    elem v = x[k];
    if (kept) kept[k] = v;
    fold->take(load(v));
}

/* Pass this thread's share of the n columns to `fold`; two loads are in flight at a time. kept receives a copy of the
 * row, and must have x's offset from a 16-byte boundary. NULL: no copy. */
template <class Fold> __device__ static inline void over_row(const elem *x, int n, Fold *fold, elem *kept = NULL) {
    int head = to_boundary(x, n), packs = (n - head) / PACK, i = threadIdx.x, step = blockDim.x;
    const elem *p = x + head;
    if ((int)threadIdx.x < head) take_one(x, threadIdx.x, fold, kept);
    for (; i + step < packs; i += 2 * step) {
        pack a = pack_load(p + (int64_t)i * PACK), b = pack_load(p + (int64_t)(i + step) * PACK);
        if (kept) pack_store(kept + head + i * PACK, a), pack_store(kept + head + (i + step) * PACK, b);
        fold->take_pack(a);
        fold->take_pack(b);
    }
    if (i < packs) {
        pack a = pack_load(p + (int64_t)i * PACK);
        if (kept) pack_store(kept + head + i * PACK, a);
        fold->take_pack(a);
    }
    int k = head + packs * PACK + threadIdx.x;
    if (k < n) take_one(x, k, fold, kept);
}

/* The largest of a pack. A NaN after the first element is skipped, because the sum becomes NaN anyway. */
__device__ static inline real largest_of(const pack &v) {
    real m = load(v.x[0]);
    for (int j = 1; j < PACK; j++) m = load(v.x[j]) > m ? load(v.x[j]) : m;
    return m;
}

/* Each element type compiles its own version of these structures. Without the nameless namespace, the linker would take
 * their equally named members for one function. */
namespace {
struct largest {
    real max;
    __device__ inline void take(real x) { max = x > max ? x : max; }
    __device__ inline void take_pack(const pack &v) { take(largest_of(v)); }
};

/* sum e^(x - max), for a maximum that is known */
struct exponentials {
    real max, sum;
    __device__ inline void take(real x) { sum += row_exp(x - max); }
    __device__ inline void take_pack(const pack &v) {
        real s = 0;
        for (int j = 0; j < PACK; j++) s += row_exp(load(v.x[j]) - max);
        sum += s;
    }
};

/* The same sum for the maximum so far. The maximum starts at the lowest number: with -infinity, a logit of -infinity
 * would give e^(-inf + inf) = NaN in place of 0. */
struct online {
    struct exponentials e;
    __device__ inline void raise(real m) {
        if (m > e.max) {
            e.sum *= row_exp(e.max - m);
            e.max = m;
        }
    }
    __device__ inline void take(real x) {
        raise(x);
        e.take(x);
    }
    __device__ inline void take_pack(const pack &v) {
        raise(largest_of(v));
        e.take_pack(v);
    }
};
}

/* ---- where the target is ---- */

/* Rows of a shard, as an argument of the kernels. global: the whole vocabulary's size. */
struct rows { const elem *x; const int32_t *target; int64_t n_rows; int stride, n; int64_t first, global; };

/* The target's column in this shard, or -1. */
__device__ static inline int target_column(const struct rows &t, int64_t r) {
    int64_t k = (int64_t)t.target[r] - t.first;
    return t.target[r] >= 0 && k >= 0 && k < t.n ? (int)k : -1;
}

/* x[target]; 0 if the target is not in this shard; NaN if it is at or beyond the global vocabulary. */
__device__ static inline real target_logit(const struct rows &t, int64_t r) {
    int k = target_column(t, r);
    if (t.target[r] >= t.global) return (real)NAN;
    return k >= 0 ? load(t.x[r * t.stride + k]) : (real)0;
}

/* ---- forward ---- */

__global__ static void __launch_bounds__(MOST_THREADS, BLOCKS)
cross_entropy_forward_online(const struct rows t, real *lse, double *row_loss) {
    __shared__ real shared[32];
    int64_t r = blockIdx.x;
    struct online a = {{LOWEST, 0}};
    over_row(t.x + r * t.stride, t.n, &a);
    real max = block_max(a.e.max, shared);
    __syncthreads();
    real sum = block_sum(a.e.sum * row_exp(a.e.max - max), shared);
    if (threadIdx.x > 0) return;
    real l = max + (real)log(sum);
    lse[r] = l;
    row_loss[r] = t.target[r] >= 0 ? (double)l - (double)target_logit(t, r) : 0.;
}

__global__ static void __launch_bounds__(TOTAL_THREADS)
cross_entropy_total_one_block(const double *row_loss, int64_t n_rows, double scale, real *loss) {
    __shared__ double shared[32];
    double sum = 0;
#pragma unroll 4
    for (int64_t r = threadIdx.x; r < n_rows; r += TOTAL_THREADS) sum += row_loss[r];
    sum = block_sum_double(sum, shared);
    if (threadIdx.x == 0) *loss = (real)(scale * sum);
}

/* ---- forward, over a shard ---- */

__global__ static void __launch_bounds__(MOST_THREADS, BLOCKS)
    cross_entropy_max_row_per_block(const struct rows t, real *max) {
    __shared__ real shared[32];
    struct largest a = {-(real)INFINITY};
    over_row(t.x + (int64_t)blockIdx.x * t.stride, t.n, &a);
    real m = block_max(a.max, shared);
    if (threadIdx.x == 0) max[blockIdx.x] = m;
}

__global__ static void __launch_bounds__(MOST_THREADS, BLOCKS)
cross_entropy_sum_row_per_block(const struct rows t, const real *max, real *sum, real *hit) {
    __shared__ real shared[32];
    int64_t r = blockIdx.x;
    struct exponentials a = {max[r], 0};
    over_row(t.x + r * t.stride, t.n, &a);
    real s = block_sum(a.sum, shared);
    if (threadIdx.x > 0) return;
    sum[r] = s;
    hit[r] = target_logit(t, r);
}

/* Read UNROLL rows before the first write. lse may be max, so the compiler may not move a read before a write. */
__global__ static void __launch_bounds__(TOTAL_THREADS)
    cross_entropy_loss_one_block(const struct rows t, const real *max, const real *sum, const real *hit, real *lse,
                                 double scale, real *loss) {
    __shared__ double shared[32];
    double total = 0;
    for (int64_t first = threadIdx.x; first < t.n_rows; first += UNROLL * TOTAL_THREADS) {
        real m[UNROLL], s[UNROLL], h[UNROLL];
        int32_t target[UNROLL];
#pragma unroll
        for (int i = 0; i < UNROLL; i++) {
            int64_t r = first + i * TOTAL_THREADS;
            bool there = r < t.n_rows;
            m[i] = there ? max[r] : 0, s[i] = there ? sum[r] : 1, h[i] = there ? hit[r] : 0;
            target[i] = there ? t.target[r] : -1;
        }
#pragma unroll
        for (int i = 0; i < UNROLL; i++) {
            int64_t r = first + i * TOTAL_THREADS;
            real l = m[i] + (real)log(s[i]);
            if (target[i] >= 0) total += (double)l - (double)h[i];
            if (r < t.n_rows) lse[r] = l;
        }
    }
    total = block_sum_double(total, shared);
    if (threadIdx.x == 0) *loss = (real)(scale * total);
}

/* ---- backward ---- */

/* Row r's gradient, from its logits x. Columns that pad the vocabulary get zero. dx may be x, because a thread reads
 * its elements before it writes them. If x and dx have different offsets from a 16-byte boundary, elements are moved
 * one by one. */
__device__ static inline void row_gradient(const struct rows &t, int64_t r, const elem *x, elem *dx, real l, real scale,
                                           int accumulate) {
    int column = target_column(t, r), tid = threadIdx.x, step = blockDim.x;
    int congruent = (uintptr_t)x % 16 == (uintptr_t)dx % 16, head = congruent ? to_boundary(x, t.n) : t.n;
    int packed_end = head + (t.n - head) / PACK * PACK;
    real s = t.target[r] < 0 ? (real)0 : scale;
    for (int k = head + tid * PACK; k < packed_end; k += step * PACK) {
        pack v = pack_load(x + k), d = v;
        real p[PACK];
        if (accumulate) d = pack_load(dx + k);
        for (int j = 0; j < PACK; j++) p[j] = row_exp(load(v.x[j]) - l);
        if ((unsigned)(column - k) < (unsigned)PACK)
            for (int j = 0; j < PACK; j++) p[j] -= k + j == column ? 1 : 0;
        for (int j = 0; j < PACK; j++) put(&d.x[j], s * p[j], accumulate);
        pack_store(dx + k, d);
    }
    for (int k = tid; k < head + (t.n - packed_end); k += step) {
        int at = k < head ? k : packed_end + (k - head);
        put(dx + at, s * (row_exp(load(x[at]) - l) - (at == column ? 1 : 0)), accumulate);
    }
    for (int k = t.n + tid; k < t.stride && !accumulate; k += step) dx[k] = store((real)0);
}

__global__ static void __launch_bounds__(MOST_THREADS, BLOCKS)
cross_entropy_gradient_row_per_block(const struct rows t, const real *lse, real scale, int accumulate, elem *dlogits) {
    int64_t r = blockIdx.x;
    row_gradient(t, r, t.x + r * t.stride, dlogits + r * t.stride, lse[r], scale, accumulate);
}

/* Loss and gradient of a row. dlogits may be the logits: thread 0 reads the target's logit before the block's barriers,
 * and threads write after them. */
__global__ static void __launch_bounds__(TRAIN_THREADS, TRAIN_BLOCKS)
cross_entropy_train_row_per_block(const struct rows t, real *lse, double *row_loss, real scale, int accumulate,
                                  elem *dlogits, int keeps) {
    __shared__ real shared[32];
    SHARED_DYNAMIC(elem, row);
    int64_t r = blockIdx.x;
    const elem *x = t.x + r * t.stride;
    elem *kept = keeps ? row + (uintptr_t)x % 16 / sizeof(elem) : NULL;
    real hit = threadIdx.x == 0 ? target_logit(t, r) : (real)0;
    struct online a = {{LOWEST, 0}};
    over_row(x, t.n, &a, kept);
    real max = block_max(a.e.max, shared);
    __syncthreads();
    real l = max + (real)log(block_sum(a.e.sum * row_exp(a.e.max - max), shared));
    if (threadIdx.x == 0) {
        lse[r] = l;
        row_loss[r] = t.target[r] >= 0 ? (double)l - (double)hit : 0.;
    }
    row_gradient(t, r, keeps ? kept : x, dlogits + r * t.stride, l, scale, accumulate);
}

/* ---- launching ---- */

/* Threads for a row: whole warps, one pack per thread or more. */
static int threads_of(const struct vocab_rows *rows, int most = MOST_THREADS) {
    int64_t warps = ceil_div(rows->vocab.n, 32 * PACK);
    return warps < most / 32 ? (int)warps * 32 : most;
}

static struct rows rows_of(const struct vocab_rows *rows) {
    int64_t n = min64(rows->vocab.n, rows->vocab.global - rows->vocab.first);
    struct rows t = {(const elem *)rows->logits, rows->target, rows->n_rows, (int)rows->vocab.n, n > 0 ? (int)n : 0,
                     rows->vocab.first, rows->vocab.global};
    return t;
}

static enum status row_max(const struct device *device, const struct vocab_rows *rows, void *max) {
    return LAUNCHED(cross_entropy_max_row_per_block, (unsigned)rows->n_rows, threads_of(rows), 0, device->stream,
                    rows_of(rows), (real *)max);
}

static enum status row_sum(const struct device *device, const struct vocab_rows *rows, const void *max, void *sum,
                           void *hit) {
    return LAUNCHED(cross_entropy_sum_row_per_block, (unsigned)rows->n_rows, threads_of(rows), 0, device->stream,
                    rows_of(rows), (const real *)max, (real *)sum, (real *)hit);
}

static enum status loss(const struct device *device, const struct vocab_rows *rows, const void *max, const void *sum,
                        const void *hit, void *lse, double scale, void *loss_out) {
    return LAUNCHED(cross_entropy_loss_one_block, 1, TOTAL_THREADS, 0, device->stream, rows_of(rows), (const real *)max,
                    (const real *)sum, (const real *)hit, (real *)lse, scale, (real *)loss_out);
}

static enum status gradient(const struct device *device, const struct vocab_rows *rows, const void *lse, double scale,
                            bool accumulate, void *dlogits) {
    return LAUNCHED(cross_entropy_gradient_row_per_block, (unsigned)rows->n_rows, threads_of(rows), 0, device->stream,
                    rows_of(rows), (const real *)lse, (real)scale, accumulate, (elem *)dlogits);
}

const struct cross_entropy_pieces CUDA(cross_entropy_pieces) = {row_max, row_sum, loss, gradient};

/* ---- the op: one shard, the whole vocabulary ---- */

static struct vocab_rows rows_of_call(const struct call *call) {
    struct vocab_rows rows = {call->in[0].data, (const int32_t *)call->in[1].data, type_n(call->in[1].type),
                              call->in[0].type->shape.axis[2]};
    return rows;
}

static enum status total(const struct call *call, int64_t n_rows) {
    return LAUNCHED(cross_entropy_total_one_block, 1, TOTAL_THREADS, 0, stream_of(call), (const double *)call->work,
                    n_rows, call->loss_weight, (real *)call->out[0].data);
}

enum status CUDA(cross_entropy_forward)(const struct call *call) {
    struct vocab_rows rows = rows_of_call(call);
    if (call->training) return OK;
    TRY(LAUNCHED(cross_entropy_forward_online, (unsigned)rows.n_rows, threads_of(&rows), 0, stream_of(call),
                 rows_of(&rows), (real *)call->out[1].data, (double *)call->work));
    return total(call, rows.n_rows);
}

/* Bytes of shared memory for a row at any offset from a 16-byte boundary; 0 if the device does not have as much. */
static size_t bytes_kept(const struct vocab_rows *rows) {
    size_t bytes = (size_t)(rows->vocab.n + PACK) * sizeof(elem);
    const void *kernel = (const void *)cross_entropy_train_row_per_block;
    enum cudaFuncAttribute most = cudaFuncAttributeMaxDynamicSharedMemorySize;
    if (bytes <= MOST_KEPT && cudaFuncSetAttribute(kernel, most, (int)bytes) == cudaSuccess) return bytes;
    (void)cudaGetLastError();
    return 0;
}

enum status CUDA(cross_entropy_backward_input)(const struct call *call) {
    struct vocab_rows rows = rows_of_call(call);
    size_t bytes = bytes_kept(&rows);
    int threads = threads_of(&rows, TRAIN_THREADS);
    TRY(LAUNCHED(cross_entropy_train_row_per_block, (unsigned)rows.n_rows, threads, bytes, stream_of(call),
                 rows_of(&rows), (real *)call->out[1].data, (double *)call->work,
                 (real)(call->loss_weight * call->loss_scale), accumulates(call, 0), (elem *)call->din[0].data,
                 bytes > 0));
    return total(call, rows.n_rows);
}
