/* ranks: 1 */
/* Minimal mixed precision: one linear layer y = x W^T, and one weight. Two things go wrong in 16 bits, each with its
 * remedy:
 *
 *   1. Gradients underflow in fp16.                Multiply the loss by S; divide by S in fp32.
 *   2. Updates are too small to change a weight.   Add them to an fp32 master copy; compute with the copy, rounded.
 *
 * Exits with 0 if all claims that it prints hold. */
#include "lib/ops/optimizer.h"
#include "lib/ops/gemm/gemm.h"
#include "lib/ops/reduce.h"
#include <math.h>
#include <stdio.h>
#include <omp.h>
#include <stdlib.h>

enum { R = 64, K = 16, N = 32 };   /* rows of the batch, outputs, inputs */

static double x_at(int r, int n) { return 1 + 0.5 * sin(r * N + n); }
static double dy_at(int r, int k) { return 1e-9 * (1 + 0.5 * cos(r * K + k)); }   /* fp16's smallest is 2^-24 = 6e-8 */

static int wrong;
static void claim(const char *text, bool holds) {
    printf("  %s %s\n", holds ? "yes:" : "NO: ", text);
    wrong += !holds;
}

static void fail(void) {
    status_report();
    exit(1);
}

/* ---- 1. the loss scale ---- */

/* dW = dy^T x with dy, x and dW in fp16, the gradient of S times the loss. Sums are taken in fp32 and rounded once. */
static void scaled_gradient(double S, uint16_t dW[K * N]) {
    static uint16_t dy[R * K], x[R * N];
    struct gemm g = {.m = K, .n = N, .k = R, .transpose_a = true, .alpha = 1, .ab_dtype = FP16, .c_dtype = FP16};
    for (int i = 0; i < R * K; i++) dtype_set(dy, FP16, i, S * dy_at(i / K, i % K));
    for (int i = 0; i < R * N; i++) dtype_set(x, FP16, i, x_at(i / N, i % N));
    void *work = malloc((size_t)gemm_work(&g, DEVICE_CPU, omp_get_max_threads()));
    if (!work || gemm_run(&g, dy, x, NULL, dW, work) != OK) fail();
    free(work);
}

static double true_gradient(int k, int n) {
    double sum = 0;
    for (int r = 0; r < R; r++) sum += dy_at(r, k) * x_at(r, n);
    return sum;
}

/* The largest |dW / S - truth|, relative to the largest truth. 1: all of the gradient is lost. */
static double error_of(const uint16_t dW[K * N], double S) {
    double worst = 0, largest = 0;
    for (int i = 0; i < K * N; i++) {
        double truth = true_gradient(i / N, i % N);
        worst = fmax(worst, fabs(dtype_get(dW, FP16, i) / S - truth));
        largest = fmax(largest, fabs(truth));
    }
    return worst / largest;
}

static void show_loss_scale(void) {
    uint16_t dW[K * N];
    printf("1. gradients of about 1e-9, in fp16\n");
    for (double S = 1; S <= 0x1p48; S *= 0x1p16) {
        scaled_gradient(S, dW);
        struct reduce_buffer gradient = {dW, FP16, K * N};
        double overflows;
        if (reduce_non_finite(device_cpu(), &gradient, 1, &overflows, NULL) != OK) fail();
        bool finite = overflows == 0;
        printf("  S = 2^%-2.0f  error of dW / S: %.1e", log2(S), error_of(dW, S));
        printf("%s\n", finite ? "" : "   infinite: the step is skipped");
        if (S == 1) claim("without a scale all of it underflows to zero", error_of(dW, S) == 1);
        /* dy, x and dW are each rounded once, by 2^-11 at most; all terms are positive */
        if (S == 0x1p32) claim("with the right scale it survives", error_of(dW, S) < 3.01 * 0x1p-11);
        if (S == 0x1p48) claim("too large a scale overflows, and shows", !finite);
    }
}

/* ---- 2. the master copy ---- */

/* Update a bf16 weight of 1 in `steps` AdamW steps of about -lr each. @return the weight */
static double train(int steps, double lr, float *master) {
    uint16_t weight, grad;
    float m = 0, v = 0;
    dtype_set(&weight, BF16, 0, 1);
    dtype_set(&grad, BF16, 0, 0.5);
    for (int t = 1; t <= steps; t++) {
        const double as_it_is = 1;
        struct optimizer_settings a = {.lr = lr, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8,
                                       .grad_multiplier = &as_it_is, .step = t};
        struct optimizer_elements e = {1, &weight, BF16, &grad, BF16, {&m, &v}, master, .decay = false};
        if (optimizer_update(&optimizer_adamw, device_cpu(), &a, &e, 1) != OK) fail();
    }
    return dtype_get(&weight, BF16, 0);
}

static void show_master(void) {
    enum { STEPS = 100 };
    const double lr = 1e-3, half_ulp = 0x1p-9;   /* below 1, bf16 has a spacing of 2^-8 = 4e-3 */
    float master = 1;
    printf("2. %d updates of %g to a bf16 weight of 1; half a unit in its last place is %.1e\n", STEPS, lr, half_ulp);
    double without = train(STEPS, lr, NULL), with = train(STEPS, lr, &master);
    printf("  without a master %.6f\n  with a master    %.6f   (the master is %.6f)\n", without, with, (double)master);
    claim("without a master the weight never moves", without == 1);
    claim("with one it moves by all of them", fabs((double)master - (1 - STEPS * lr)) < 1e-4);
    uint16_t rounded = bf16_from_float(master);
    claim("the weight is the master, rounded", with == (double)bf16_to_float(rounded));
}

int main(void) {
    show_loss_scale();
    show_master();
    return wrong != 0;
}
