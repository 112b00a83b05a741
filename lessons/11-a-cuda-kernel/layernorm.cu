/* Layer normalisation, forward, in four versions with the same results and less and less traffic. lib/ops/layernorm.h
 * has the formula, lib/ops/layernorm_cuda.cu the kernel that the project runs. README.md in this folder explains them.
 *
 *   mean = sum_c x[c] / C     var = sum_c (x[c] - mean)^2 / C
 *   y[c] = (x[c] - mean) rstd g[c] + b[c],  rstd = 1 / sqrt(var + eps)
 *
 * x and y are R rows of C floats. Usage: layernorm [rows columns]. The exit code is 0 if every version is within the
 * bound of an fp64 reference. The program runs on the emulator (docs/simt.md), whose checker watches every access. */
#include "lib/device/gpu.h"
#include "tests/simt/simt_test.h"

#include <stdio.h>
#include <stdlib.h>

static const float EPS = 1e-5f;
enum { THREADS = 128, LANES = 32, ROWS = THREADS / LANES, ALL = ~0 };

/* ---- 1. a thread per row: as in plain C ---- */
__global__ static void one_thread(float *y, const float *x, const float *g, const float *b, int R, int C) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= R) return;
    float sum = 0, squares = 0;
    for (int c = 0; c < C; c++) sum += x[r * C + c];
    float mean = sum / C;
    for (int c = 0; c < C; c++) squares += (x[r * C + c] - mean) * (x[r * C + c] - mean);
    float rstd = rsqrtf(squares / C + EPS);
    for (int c = 0; c < C; c++) y[r * C + c] = (x[r * C + c] - mean) * rstd * g[c] + b[c];
}

/* ---- 2. a block per row: neighboring threads read neighboring floats; a tree of sums in shared memory ---- */
/* Return the sum of v over the block to every thread. */
__device__ static float block_sum(float v, float *shared) {
    int t = threadIdx.x;
    shared[t] = v;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();                                     /* BARRIER A: the other half has written */
        if (t < half) shared[t] += shared[t + half];
    }
    __syncthreads();                                         /* BARRIER B: the total is complete */
    float total = shared[0];
    __syncthreads();                                         /* BARRIER C: all have read shared, it may be reused */
    return total;
}
__global__ static void one_block(float *y, const float *x, const float *g, const float *b, int C) {
    __shared__ float shared[THREADS];
    const float *row = x + (size_t)blockIdx.x * C;
    float *to = y + (size_t)blockIdx.x * C, sum = 0, squares = 0;
    for (int c = threadIdx.x; c < C; c += THREADS) sum += row[c];
    float mean = block_sum(sum, shared) / C;
    for (int c = threadIdx.x; c < C; c += THREADS) squares += (row[c] - mean) * (row[c] - mean);
    float rstd = rsqrtf(block_sum(squares, shared) / C + EPS);
    for (int c = threadIdx.x; c < C; c += THREADS) to[c] = (row[c] - mean) * rstd * g[c] + b[c];
}

/* ---- 3. a warp per row: sums by shuffles, no shared memory, no barrier ---- */
/* Return the sum of v over the warp to every lane, by 5 exchanges with the lane whose number differs in one bit. */
__device__ static float warp_sum(float v) {
    for (int bit = LANES / 2; bit > 0; bit /= 2) v += __shfl_xor_sync(ALL, v, bit);
    return v;
}
__global__ static void one_warp(float *y, const float *x, const float *g, const float *b, int R, int C) {
    int r = blockIdx.x * ROWS + threadIdx.x / LANES, lane = threadIdx.x % LANES;
    if (r >= R) return;                                      /* only whole warps return, never single lanes */
    const float *row = x + (size_t)r * C;
    float *to = y + (size_t)r * C, sum = 0, squares = 0;
    for (int c = lane; c < C; c += LANES) sum += row[c];
    float mean = warp_sum(sum) / C;
    for (int c = lane; c < C; c += LANES) squares += (row[c] - mean) * (row[c] - mean);
    float rstd = rsqrtf(warp_sum(squares) / C + EPS);
    for (int c = lane; c < C; c += LANES) to[c] = (row[c] - mean) * rstd * g[c] + b[c];
}

/* ---- 4. the row stays in registers: x is read once, each lane reads 16 bytes at a time ---- */
enum { GROUP = 4, KEPT = 8, MAX_COLUMNS = KEPT * LANES * GROUP };
__global__ static void in_registers(float *y, const float *x, const float *g, const float *b, int R, int C) {
    int r = blockIdx.x * ROWS + threadIdx.x / LANES, lane = threadIdx.x % LANES;
    if (r >= R) return;
    const float4 *row = (const float4 *)(x + (size_t)r * C), *scale = (const float4 *)g, *shift = (const float4 *)b;
    float4 *to = (float4 *)(y + (size_t)r * C), kept[KEPT];
    float sum = 0, squares = 0;
#pragma unroll
    for (int k = 0; k < KEPT; k++) {                         /* unrolled, so indices are constants and kept
                                                              * is an array of registers */
        int i = lane + k * LANES;
        kept[k] = i < C / GROUP ? row[i] : make_float4(0, 0, 0, 0);
        sum += kept[k].x + kept[k].y + kept[k].z + kept[k].w;
    }
    float mean = warp_sum(sum) / C;
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        float4 d = make_float4(kept[k].x - mean, kept[k].y - mean, kept[k].z - mean, kept[k].w - mean);
        if (lane + k * LANES < C / GROUP) squares += d.x * d.x + d.y * d.y + d.z * d.z + d.w * d.w;
        kept[k] = d;
    }
    float rstd = rsqrtf(warp_sum(squares) / C + EPS);
#pragma unroll
    for (int k = 0; k < KEPT; k++) {
        int i = lane + k * LANES;
        if (i >= C / GROUP) continue;
        float4 n = kept[k], s = scale[i], t = shift[i];
        to[i] =
            make_float4(n.x * rstd * s.x + t.x, n.y * rstd * s.y + t.y, n.z * rstd * s.z + t.z, n.w * rstd * s.w + t.w);
    }
}

/* ---- the versions side by side ---- */
static float *device_floats(size_t n) {
    float *at = (float *)aligned_alloc(256, (n * sizeof *at + 255) / 256 * 256);
    if (!at) exit(1);
    simt_memory_allocated(at, n * sizeof *at);
    return at;
}

static double worst_error(const float *y, const float *x, const float *g, const float *b, int R, int C) {
    double worst = 0;
    for (int r = 0; r < R; r++) {
        double mean = 0, var = 0;
        for (int c = 0; c < C; c++) mean += (double)x[r * C + c] / C;
        for (int c = 0; c < C; c++) var += ((double)x[r * C + c] - mean) * ((double)x[r * C + c] - mean) / C;
        for (int c = 0; c < C; c++) {
            double want = ((double)x[r * C + c] - mean) / sqrt(var + (double)EPS) * (double)g[c] + (double)b[c];
            double error = fabs((double)y[r * C + c] - want);
            if (error != error) return error; /* not a number */
            worst = fmax(worst, error);
        }
    }
    return worst;
}

static int wrong;
static void show(const char *name, float *y, const float *x, const float *g, const float *b, int R, int C) {
    struct simt_counts n = simt_counts();
    double error = worst_error(y, x, g, b, R, C);
    printf("%-14s %8lld %9lld %6.1f %9lld %6.1f %8lld   %.0e\n", name, (long long)n.load.requests,
           (long long)n.load.units, n.load.requests ? (double)n.load.units / (double)n.load.requests : 0,
           (long long)n.store.units, n.store.requests ? (double)n.store.units / (double)n.store.requests : 0,
           (long long)n.shared.units, error);
    wrong += !(error <= C * 0x1p-22);                        /* C additions of numbers up to 4, each with an error of
                                                              * at most 2^-24 of the sum */
    for (int i = 0; i < R * C; i++) y[i] = NAN;
    simt_count(1);
}

int main(int argc, char **argv) {
    int R = argc > 1 ? atoi(argv[1]) : 64, C = argc > 2 ? atoi(argv[2]) : 768;
    if (R < 1 || C < 1 || C > 4096 || R > 4096) return fprintf(stderr, "rows and columns: 1 to 4096\n"), 2;
    float *x = device_floats((size_t)R * C), *y = device_floats((size_t)R * C), *g = device_floats(C),
          *b = device_floats(C);
    for (int i = 0; i < R * C; i++) x[i] = sinf((float)(i % 9973)) + 3;
    for (int c = 0; c < C; c++) g[c] = 1 + 0.1f * cosf((float)c), b[c] = 0.01f * (float)(c % 7);
    printf("%d rows of %d floats; x and y are %d sectors each, all of g and b together %d\n", R, C, R * C / 8, C / 4);
    printf("%-14s %8s %9s %6s %9s %6s %8s   %s\n", "", "loads", "sectors", "each", "stored", "each", "shared", "error");
    simt_count(1);
    LAUNCH(one_thread, (R + LANES - 1) / LANES, LANES, 0, NULL)(y, x, g, b, R, C);
    show("1 one_thread", y, x, g, b, R, C);
    LAUNCH(one_block, R, THREADS, 0, NULL)(y, x, g, b, C);
    show("2 one_block", y, x, g, b, R, C);
    LAUNCH(one_warp, (R + ROWS - 1) / ROWS, THREADS, 0, NULL)(y, x, g, b, R, C);
    show("3 one_warp", y, x, g, b, R, C);
    if (C <= MAX_COLUMNS && C % GROUP == 0) {
        LAUNCH(in_registers, (R + ROWS - 1) / ROWS, THREADS, 0, NULL)(y, x, g, b, R, C);
        show("4 in_registers", y, x, g, b, R, C);
    }
    return wrong != 0;
}
