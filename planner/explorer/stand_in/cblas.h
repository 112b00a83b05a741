/* The names of OpenBLAS that lib/ops/gemm uses. A browser plans products, but computes none. */
#pragma once

typedef int blasint;
enum { CblasRowMajor = 101, CblasNoTrans = 111, CblasTrans = 112 };
/* C = alpha op(A) op(B) + beta C; a (m,k), b (k,n), c (m,n) by rows */
void cblas_dgemm(int order, int transpose_a, int transpose_b, blasint m, blasint n, blasint k, double alpha,
                 const double *a, blasint lda, const double *b, blasint ldb, double beta, double *c, blasint ldc);
