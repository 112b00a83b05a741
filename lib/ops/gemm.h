/* Matrix product on the CPU: C = alpha op(A) op(B) + beta C + bias, all row-major.
 *
 *   c[i,j] = alpha sum_p a[i,p] b[p,j] + beta c[i,j] + bias[j]        op(A) is (m,k), op(B) is (k,n), C is (m,n)
 *
 * The three products of a linear layer with W (K,N), x (R,N), y (R,K):
 *   y  = x W^T      m R, n K, k N, B transposed
 *   dx = dy W       m R, n N, k K
 *   dW = dy^T x     m K, n N, k R, A transposed
 *
 * This is the only file that knows the libraries: OpenBLAS for fp64, oneDNN for fp32. bf16 and fp16 are widened block
 * by block into scratch, multiplied in fp32, and rounded once. */
#ifndef TRIVIUM_OPS_GEMM_H
#define TRIVIUM_OPS_GEMM_H

#include "lib/base/status.h"
#include "lib/device/dtype.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct gemm {
    int64_t m, n, k;
    bool transpose_a, transpose_b;   /* A is stored (k,m); B is stored (n,k) */
    double alpha, beta;              /* beta = 0: C is not read, whatever it holds */
    enum dtype ab_dtype;             /* of A, B and bias */
    enum dtype c_dtype;              /* ab_dtype, or its accumulator */
};

/** Scratch bytes that gemm_run needs in `work`; 0 for fp64 and fp32. */
int64_t gemm_work(const struct gemm *);

/** @param bias (n) added to every row, or NULL. Borrowed; C overlaps nothing.
 *  @errors E_DEVICE when a library refuses */
enum status gemm_run(const struct gemm *, const void *a, const void *b, const void *bias, void *c, void *work);

#ifdef __cplusplus
}
#endif
#endif
