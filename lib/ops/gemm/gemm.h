/* Matrix product: C = alpha op(A) op(B) + beta C + bias, all row-major.
 *
 *   c[i,j] = alpha sum_p a[i,p] b[p,j] + beta c[i,j] + bias[j]        op(A) is (m,k), op(B) is (k,n), C is (m,n)
 *
 * The three products of a linear layer with W (K,N), x (R,N), y (R,K):
 *   y  = x W^T      m R, n K, k N, B transposed
 *   dx = dy W       m R, n N, k K
 *   dW = dy^T x     m K, n N, k R, A transposed
 *
 * Sums are taken in fp64 for fp64, else in fp32, and rounded once.
 *
 * What multiplies on the CPU: in fp32, and in bf16 where the processor that this is compiled for multiplies pairs of it
 * (AVX512_BF16, AMX), a packed kernel of our own (gemm_packed.h), at about nine tenths of the peak in every form
 * (docs/benchmarks/); fp16, and bf16 elsewhere, in blocks that are widened into scratch and multiplied in fp32; in fp64
 * OpenBLAS. For a product that is easy to read and slow, give `--gemm plain`: gemm_plain_cpu.c, the formula in
 * three loops. On a GPU cuBLASLt (gemm_cuda.c). A bias goes with the product in all but fp64, where C starts from it.
 * gelu does not: its backward reads what was before it, and a kernel that writes both would save no arithmetic. */
#pragma once

#include "lib/base/status.h"
#include "lib/device/device.h"
#include "lib/device/dtype.h"
#include <stdbool.h>

/* k is `pieces` equal runs. Of each the first `depth` numbers count, and leaf s takes numbers s leaf to (s + 1) leaf. A
 * leaf's pieces are summed one after the other, and the n leaves, a power of two, by halves (gemm_leaves.h). */
struct gemm_leaves { int n; int64_t pieces, leaf, depth; };

struct gemm {
    int64_t m, n, k;
    bool transpose_a, transpose_b;   /* A is stored (k,m); B is stored (n,k) */
    double alpha, beta;              /* beta = 0: C is not read, whatever it holds */
    enum dtype ab_dtype;             /* of A, B and bias */
    enum dtype c_dtype;              /* ab_dtype, or its accumulator */
    bool plain;                      /* on the CPU: in three loops, gemm_plain_cpu.c */
    int64_t lda, ldb;                /* on the CPU: from one stored row of A or B to the next; 0: as long as it is */
    struct gemm_leaves leaves;       /* on the CPU: how k is summed; n 0: as is fastest */
    /* On CUDA: A and B are codes of these (lib/ops/fp8.h), and ab_dtype, bf16 or fp32, is the bias's. Only with A as it
     * is, B transposed, and 16 dividing m, n and k. */
    bool fp8;
    enum dtype a_code, b_code;
    bool fast_sums;                  /* ... summed in the tensor cores' own registers, with fewer digits than fp32's */
};

/** From one stored row of A, or of B, to the next: in elements. */
static inline int64_t gemm_lda(const struct gemm *g) { return g->lda ? g->lda : g->transpose_a ? g->m : g->k; }
static inline int64_t gemm_ldb(const struct gemm *g) { return g->ldb ? g->ldb : g->transpose_b ? g->k : g->n; }

/** Scratch bytes that gemm_run or gemm_cuda_run needs in `work`. On the CPU 0 for fp64 and if plain; for fp32 and bf16
 * the smaller side of a product whose A is transposed, packed; for fp16, and bf16 on a processor that does not multiply
 * it, blocks widened; in bf16 with more than 4096 summed, some for each of the OpenMP threads: no more than n_threads
 * may run it; by leaves, sums that wait besides. On CUDA the workspace of the library, up to 32 MiB. The same whatever
 * c_dtype is; of CUDA also in a build without it, so that any machine can plan. */
int64_t gemm_work(const struct gemm *, enum device_kind, int n_threads);

/** On the CPU.
 *  @param bias (n) added to every row, or NULL. Borrowed; C overlaps nothing.
 *  @param work gemm_work bytes; NULL where that is 0
 *  @errors E_DEVICE when a library refuses; E_INTERNAL without the scratch that it needs */
enum status gemm_run(const struct gemm *, const void *a, const void *b, const void *bias, void *c, void *work);

/** On a GPU (only in builds with CUDA): the same, queued on the device's compute stream. m, n, k are below 2^31.
 *  @param a b c at any multiple of an element; slower when 16 does not divide the address or the length of a row
 *  @param bias as above; aligned to 16, as tensors are; with a bias, c_dtype is ab_dtype
 *  @param work aligned as arenas are on the device; the library writes as much of it as it likes (op_touch_work)
 *  @errors E_DEVICE when cuBLASLt refuses, with the shape and its reason */
enum status gemm_cuda_run(const struct gemm *, const struct device *, const void *a, const void *b, const void *bias,
                          void *c, void *work);

/** C = gelu(P), where P = alpha op(A) op(B) + bias is not rounded before gelu (gelu.h) reads it. beta is 0.
 *  @param bias as above, not NULL
 *  @param pre (m,n) where P, rounded, is kept, for gelu's backward; of C's dtype, gemm_cuda_can_keep; overlaps nothing.
 *  NULL: nowhere
 *  @param done written: false where the library has no algorithm that does this; then nothing was queued
 *  @errors as above */
enum status gemm_cuda_gelu(const struct gemm *, const struct device *, const void *a, const void *b, const void *bias,
                           void *pre, void *c, void *work, bool *done);
/** C = op(A) op(B) times gelu'(P), element by element: the gradient of P, where the product is that of gelu's result,
 *  and is not rounded before. alpha is 1, beta 0.
 *  @param pre (m,n) P, of C's dtype, gemm_cuda_can_keep; only read
 *  @param done as above
 *  @errors as above */
enum status gemm_cuda_dgelu(const struct gemm *, const struct device *, const void *a, const void *b, const void *pre,
                            void *c, void *work, bool *done);
/** As gemm_cuda_run without a bias, and sums[i] = the sum of row i of op(A): the gradient of a bias, where A is that of
 *  what it was added to. sums are set, not added to, whatever beta is.
 *  @param sums (m) of C's dtype, aligned to 16; overlaps nothing, the workspace neither
 *  @param done as above
 *  @errors as above */
enum status gemm_cuda_bias_gradient(const struct gemm *, const struct device *, const void *a, const void *b, void *c,
                                    void *sums, void *work, bool *done);
/** May P be kept there? cuBLASLt needs rows of a multiple of 8 elements, and we rely on 16-byte alignment only. */
bool gemm_cuda_can_keep(const struct gemm *, const void *pre);

/** gemm_work on CUDA: cuBLASLt's workspace, aligned as arenas are there. */
int64_t gemm_cuda_workspace(const struct gemm *);
