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
 * On the CPU a packed kernel of our own (gemm_packed.h) multiplies fp32, bf16 and fp16, at about nine tenths of the
 * peak in every form (docs/benchmarks/). bf16 is multiplied in pairs where the processor does that faster than fp32
 * (AMX, AVX512_BF16); else it is widened to fp32 while it is packed, as fp16 is. OpenBLAS multiplies fp64. `--gemm
 * plain` selects gemm_plain_cpu.c, the formula in three loops: easy to read, and slow. On a GPU cuBLASLt multiplies
 * (gemm_cuda.c). The product adds a bias itself in all types but fp64, where C starts from the bias. It does not apply
 * gelu: gelu's backward reads gelu's input, and a kernel that writes both would save no arithmetic. */
#pragma once

#include "lib/base/status.h"
#include "lib/device/device.h"
#include "lib/device/dtype.h"
#include <stdbool.h>

/* k is `pieces` equal runs. In each run only the first `depth` numbers count, and leaf s takes numbers s leaf to (s +
 * 1) leaf. A leaf's pieces are summed one after the other; the n leaves, a power of two, are added by halves
 * (gemm_leaves.h). */
struct gemm_leaves { int n; int64_t pieces, leaf, depth; };

struct gemm {
    int64_t m, n, k;
    bool transpose_a, transpose_b;   /* A is stored (k,m); B is stored (n,k) */
    double alpha, beta;              /* beta = 0: C is only written, never read */
    enum dtype ab_dtype;             /* of A, B and bias */
    enum dtype c_dtype;              /* ab_dtype, or its accumulator */
    bool plain;                      /* on the CPU: multiply in three loops, gemm_plain_cpu.c */
    int64_t lda, ldb;                /* on the CPU: elements between two stored rows of A, of B; 0: the row's length */
    struct gemm_leaves leaves;       /* on the CPU: how k is summed; n 0: in the fastest way */
    /* On CUDA: A and B are codes of these (lib/ops/fp8.h), and ab_dtype, bf16 or fp32, is the bias's. Only with A as it
     * is, B transposed, and 16 dividing m, n and k. block: 32 or 16 codes of a row of A, and of B^T, share a scale, and
     * 32 divides k. 32: of 8 bits, in E8M0; 16: of E2M1, in E4M3. The scales are in tiles (block.h). 0: no scales. */
    bool fp8;
    enum dtype a_code, b_code;
    int block;
    const void *a_scale, *b_scale;
    bool fast_sums;               /* fp8: sums stay in the tensor cores' own registers, with fewer digits than fp32's */
};

/** Elements from one stored row of A, or of B, to the next. */
static inline int64_t gemm_lda(const struct gemm *g) { return g->lda ? g->lda : g->transpose_a ? g->m : g->k; }
static inline int64_t gemm_ldb(const struct gemm *g) { return g->ldb ? g->ldb : g->transpose_b ? g->k : g->n; }

/** Bytes of scratch that gemm_run or gemm_cuda_run needs in `work`. On the CPU: 0 for fp64 and if plain. Otherwise the
 *  packed smaller side, if A is transposed. bf16 and fp16 with k above 2048 (in pairs: 4096): a block for each of
 *  n_threads OpenMP threads, the most that may run the product. By
 *  leaves: also the sums that wait for their other half. On CUDA: the library's workspace, up to 32 MiB. The size does
 *  not depend on c_dtype. A build without CUDA also answers for CUDA, so that any machine can plan. */
int64_t gemm_work(const struct gemm *, enum device_kind, int n_threads);

/** Multiply on the CPU. Operands are borrowed; C overlaps none of them.
 *  @param bias (n) added to every row, or NULL
 *  @param work gemm_work bytes; NULL if that is 0
 *  @errors E_DEVICE when a library refuses; E_INTERNAL: `work` is NULL, but scratch is needed */
enum status gemm_run(const struct gemm *, const void *a, const void *b, const void *bias, void *c, void *work);

/** Multiply on a GPU (only in builds with CUDA); the product is queued on the device's compute stream. m, n, k are
 *  below 2^31.
 *  @param a b c at any multiple of an element; slower when 16 does not divide the address or the length of a row
 *  @param bias as above; aligned to 16, as tensors are; with a bias, c_dtype is ab_dtype
 *  @param work aligned as arenas are on the device; the library may write any part of it (op_touch_work)
 *  @errors E_DEVICE when cuBLASLt refuses, with the shape and its reason */
enum status gemm_cuda_run(const struct gemm *, const struct device *, const void *a, const void *b, const void *bias,
                          void *c, void *work);

/** C = gelu(P), where P = alpha op(A) op(B) + bias is not rounded before gelu (gelu.h) reads it. beta is 0.
 *  @param bias as above, not NULL
 *  @param pre (m,n) receives P, rounded, for gelu's backward; of C's dtype, gemm_cuda_can_keep; overlaps nothing; or
 *  NULL
 *  @param done written: false if the library has no algorithm for this product; then nothing was queued
 *  @errors as above */
enum status gemm_cuda_gelu(const struct gemm *, const struct device *, const void *a, const void *b, const void *bias,
                           void *pre, void *c, void *work, bool *done);
/** C = op(A) op(B) times gelu'(P), element by element: the gradient of P. The product is the gradient of gelu's result,
 *  and is not rounded in between. alpha is 1, beta 0.
 *  @param pre (m,n) P, of C's dtype, gemm_cuda_can_keep; only read
 *  @param done as above @errors as above */
enum status gemm_cuda_dgelu(const struct gemm *, const struct device *, const void *a, const void *b, const void *pre,
                            void *c, void *work, bool *done);
/** As gemm_cuda_run without a bias; also sums[i] = the sum of row i of op(A). This is the gradient of a bias, if op(A)
 *  is the gradient of the sum that contains the bias. For every beta the sums are set, not added to.
 *  @param sums (m) of C's dtype, aligned to 16; overlaps no operand and not the workspace
 *  @param done as above @errors as above */
enum status gemm_cuda_bias_gradient(const struct gemm *, const struct device *, const void *a, const void *b, void *c,
                                    void *sums, void *work, bool *done);
/** Can gemm_cuda_gelu keep P at `pre`? cuBLASLt needs rows of a multiple of 8 elements, and we rely on 16-byte
 *  alignment only. */
bool gemm_cuda_can_keep(const struct gemm *, const void *pre);

/** gemm_work on CUDA: cuBLASLt's workspace, aligned as arenas are there. */
int64_t gemm_cuda_workspace(const struct gemm *);
