/* The matrix product C = A B in four versions, with fewer and fewer bytes per operation. README.md in this folder
 * explains them. A is (M,K), B (K,N), C (M,N), in fp32; the fourth has A and B in bf16, for tensor cores.
 *
 *   c[i,j] = sum_k a[i,k] b[k,j]
 *
 * Usage: products [M N K]. The exit code is 0 if every version is within the bound of an fp64 reference. The program
 * runs on the emulator (docs/simt.md), whose checker watches every access. */
#include "lib/device/gpu.h"
#include "tests/simt/simt_test.h"

#include <stdio.h>
#include <stdlib.h>

struct sizes { int M, N, K; };

/* ---- 1. a thread per element: neighbors have neighboring columns ---- */
__global__ static void one_element(float *c, const float *a, const float *b, struct sizes n) {
    int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n.M || j >= n.N) return;
    float sum = 0;
    for (int k = 0; k < n.K; k++) sum += a[i * n.K + k] * b[k * n.N + j];
    c[i * n.N + j] = sum;
}

/* ---- 2. tiles in shared memory: a number that a block has loaded is used 32 times ---- */
enum { SIDE = 32 };
__global__ static void in_shared(float *c, const float *a, const float *b, struct sizes n) {
    __shared__ float as[SIDE][SIDE], bs[SIDE][SIDE];
    int x = threadIdx.x, y = threadIdx.y, i = blockIdx.y * SIDE + y, j = blockIdx.x * SIDE + x;
    float sum = 0;
    for (int k0 = 0; k0 < n.K; k0 += SIDE) {
        as[y][x] = i < n.M && k0 + x < n.K ? a[i * n.K + k0 + x] : 0;
        bs[y][x] = k0 + y < n.K && j < n.N ? b[(k0 + y) * n.N + j] : 0;
        __syncthreads();                                     /* BARRIER A: the tiles are complete */
        for (int k = 0; k < SIDE; k++) sum += as[y][k] * bs[k][x];
        __syncthreads();                                     /* BARRIER B: all have used them */
    }
    if (i < n.M && j < n.N) c[i * n.N + j] = sum;
}

/* ---- 3. 4 x 4 elements per thread: a number read from shared memory is used 4 times ---- */
enum { TILE = 64, DEPTH = 16, LINE = 16, EACH = TILE / LINE, THREADS = LINE * LINE };
__global__ static void in_registers(float *c, const float *a, const float *b, struct sizes n) {
    __shared__ float as[TILE][DEPTH], bs[DEPTH][TILE];
    int x = threadIdx.x, y = threadIdx.y, i0 = blockIdx.y * TILE, j0 = blockIdx.x * TILE;
    float sum[EACH][EACH] = {{0}}, left[EACH], right[EACH];
    for (int k0 = 0; k0 < n.K; k0 += DEPTH) {
        for (int e = y * LINE + x; e < TILE * DEPTH; e += THREADS) {
            int i = i0 + e / DEPTH, k = k0 + e % DEPTH;
            as[e / DEPTH][e % DEPTH] = i < n.M && k < n.K ? a[i * n.K + k] : 0;
        }
        for (int e = y * LINE + x; e < DEPTH * TILE; e += THREADS) {
            int k = k0 + e / TILE, j = j0 + e % TILE;
            bs[e / TILE][e % TILE] = k < n.K && j < n.N ? b[k * n.N + j] : 0;
        }
        __syncthreads();
        for (int k = 0; k < DEPTH; k++) {
#pragma unroll
            for (int r = 0; r < EACH; r++) left[r] = as[y + LINE * r][k], right[r] = bs[k][x + LINE * r];
#pragma unroll
            for (int r = 0; r < EACH; r++)
#pragma unroll
                for (int s = 0; s < EACH; s++) sum[r][s] += left[r] * right[s];
        }
        __syncthreads();
    }
    for (int r = 0; r < EACH; r++)
        for (int s = 0; s < EACH; s++) {
            int i = i0 + y + LINE * r, j = j0 + x + LINE * s;
            if (i < n.M && j < n.N) c[i * n.N + j] = sum[r][s];
        }
}

/* ---- 4. tensor cores: a warp per 16 x 16 elements, whose fragments come straight from memory ---- */
namespace wmma = nvcuda::wmma;
typedef __nv_bfloat16 bf16;
enum { FRAGMENT = 16, LANES = 32 };
__global__ static void one_fragment(float *c, const bf16 *a, const bf16 *b, struct sizes n) {
    int i = blockIdx.y * FRAGMENT, j = blockIdx.x * FRAGMENT;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, bf16, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, bf16, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    for (int k = 0; k < n.K; k += FRAGMENT) {
        wmma::load_matrix_sync(left, a + i * n.K + k, n.K);
        wmma::load_matrix_sync(right, b + k * n.N + j, n.N);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(c + i * n.N + j, sum, n.N, wmma::mem_row_major);
}

/* ---- the versions side by side ---- */
static void *device_bytes(size_t n) {
    void *at = aligned_alloc(256, (n + 255) / 256 * 256);
    if (!at) exit(1);
    simt_memory_allocated(at, n);
    return at;
}

/* a and b are multiples of 1/8 below 2, exact in bf16, so that every version has the same product. */
static float number(int i) { return (float)(i * 7919 % 31 - 15) / 8; }

static double worst_error(const float *c, const float *a, const float *b, struct sizes n) {
    double worst = 0;
    for (int i = 0; i < n.M; i++)
        for (int j = 0; j < n.N; j++) {
            double want = 0;
            for (int k = 0; k < n.K; k++) want += (double)a[i * n.K + k] * (double)b[k * n.N + j];
            double error = fabs((double)c[i * n.N + j] - want);
            if (error != error) return error; /* not a number */
            worst = fmax(worst, error);
        }
    return worst;
}

static int wrong;
static void show(const char *name, float *c, const float *a, const float *b, struct sizes n) {
    struct simt_counts k = simt_counts();
    double flops = 2.0 * n.M * n.N * n.K, error = worst_error(c, a, b, n);
    int64_t sectors = k.load.units + k.store.units;
    printf("%-14s %9lld %8lld %10lld %9.2f %9lld %9.1f   %.0e\n", name, (long long)k.load.units,
           (long long)k.store.units, (long long)k.shared.units, (double)k.shared.units / (flops / 2 / LANES),
           (long long)k.products, flops / (double)(32 * sectors), error);
    wrong += !(error <= 0);                                  /* sums of multiples of 1/64 below 2^18: exact in fp32 */
    for (int i = 0; i < n.M * n.N; i++) c[i] = NAN;
    simt_count(1);
}

static unsigned parts(int n, int size) { return (unsigned)((n + size - 1) / size); }

int main(int argc, char **argv) {
    struct sizes n = {argc > 3 ? atoi(argv[1]) : 128, argc > 3 ? atoi(argv[2]) : 128, argc > 3 ? atoi(argv[3]) : 128};
    if (n.M < 1 || n.N < 1 || n.K < 1 || n.M > 512 || n.N > 512 || n.K > 512)
        return fprintf(stderr, "M, N and K: 1 to 512\n"), 2;
    size_t m_k = (size_t)n.M * (size_t)n.K, k_n = (size_t)n.K * (size_t)n.N, m_n = (size_t)n.M * (size_t)n.N;
    float *a = (float *)device_bytes(4 * m_k), *b = (float *)device_bytes(4 * k_n), *c = (float *)device_bytes(4 * m_n);
    bf16 *a16 = (bf16 *)device_bytes(2 * m_k), *b16 = (bf16 *)device_bytes(2 * k_n);
    for (size_t i = 0; i < m_k; i++) a[i] = number((int)i), a16[i] = __float2bfloat16(a[i]);
    for (size_t i = 0; i < k_n; i++) b[i] = number((int)i + 5), b16[i] = __float2bfloat16(b[i]);
    printf("C (%d,%d) = A (%d,%d) B (%d,%d): %.0f flops\n", n.M, n.N, n.M, n.K, n.K, n.N, 2.0 * n.M * n.N * n.K);
    printf("%-14s %9s %8s %10s %9s %9s %9s   %s\n", "", "sectors", "stored", "wavefronts", "per warp", "products",
           "flop/byte", "error");
    simt_count(1);
    LAUNCH(one_element, dim3(parts(n.N, LANES), parts(n.M, 8)), dim3(LANES, 8), 0, NULL)(c, a, b, n);
    show("1 one_element", c, a, b, n);
    LAUNCH(in_shared, dim3(parts(n.N, SIDE), parts(n.M, SIDE)), dim3(SIDE, SIDE), 0, NULL)(c, a, b, n);
    show("2 in_shared", c, a, b, n);
    LAUNCH(in_registers, dim3(parts(n.N, TILE), parts(n.M, TILE)), dim3(LINE, LINE), 0, NULL)(c, a, b, n);
    show("3 in_registers", c, a, b, n);
    if (n.M % FRAGMENT == 0 && n.N % FRAGMENT == 0 && n.K % FRAGMENT == 0) {
        LAUNCH(one_fragment, dim3(parts(n.N, FRAGMENT), parts(n.M, FRAGMENT)), LANES, 0, NULL)(c, a16, b16, n);
        show("4 one_fragment", c, a, b, n);
    }
    return wrong != 0;
}
