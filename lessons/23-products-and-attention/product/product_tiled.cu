/* The matrix product by tensor cores, for you to write. product.h is the contract; lesson 23 explains such kernels.
 *
 * You can write it in four steps, each with its own tests:
 *   1. one warp, one fragment of 16 x 16 x 16              the first claim: fifteen minutes
 *   2. any size, through shared memory with zeros          every size, whole sectors stored, tensor cores do the work
 *   3. a block of 64 x 64, in tiles of shared memory       few sectors read
 *   4. 2 x 2 accumulators per warp, rows of tiles padded   a fragment serves two products, no bank conflicts
 *
 * Step 1 is version 4 of products.cu. wmma takes pointers that are aligned to 32 bytes, and strides of a multiple of 16
 * bytes: rows of an odd N or K are not, and tiles in shared memory can be. All 32 lanes of a warp must come to
 * load_matrix_sync, mma_sync and store_matrix_sync. Grade it with:
 *
 *   make grade LESSON=23 FILE=lessons/23-products-and-attention/product/product_tiled.cu */
#include "lib/device/gpu.h"
#include "lessons/23-products-and-attention/product/product.h"

/* The three kinds of fragments are types:
 *
 *   nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, __nv_bfloat16, nvcuda::wmma::row_major> left;
 *   nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, __nv_bfloat16, nvcuda::wmma::row_major> right;
 *   nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sum;
 *
 * Shared memory for them is declared with its alignment: __shared__ __align__(32) __nv_bfloat16 tile[64 * 40];
 * and zero in bf16 is __float2bfloat16(0). Return OK after the launch. */
enum status product(float *c, const void *a, const void *b, int M, int N, int K) {
    (void)c, (void)a, (void)b, (void)M, (void)N, (void)K;
    return FAIL(E_TODO, "product is not written yet");
}
