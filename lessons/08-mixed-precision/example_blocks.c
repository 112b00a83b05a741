/* ranks: 1
 *
 * A scale for a tensor, or for each block of it: 64 x 64 normal numbers are cast to 8 and to 4 bits, without outliers,
 * and with one number in 512 that is 1000 or 100000 times as large. The error counts the other numbers alone. The exit
 * code is 0 if all claims hold. */
#include "lib/base/rng.h"
#include "lib/ops/block.h"
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

enum { N = 64 * 64, APART = 512 };
struct way { const char *name; struct block_format format; bool one_scale; };
static const struct way ways[] = {
    {"E4M3, one scale", {FP8_E4M3, N, BLOCK_SCALE_UP}, true},
    {"E2M1, one scale", {FP4_E2M1, N, BLOCK_SCALE_UP}, true},
    {"MXFP8", {FP8_E4M3, 32, BLOCK_SCALE_UP}, false},
    {"MXFP4", {FP4_E2M1, 32, BLOCK_SCALE_UP}, false},
    {"NVFP4", {FP4_E2M1, 16, BLOCK_SCALE_E4M3}, false},
};
enum { E4M3, E2M1, MXFP8, MXFP4, NVFP4, N_WAYS };

static bool is_outlier(int i) { return i % APART == 77; }

static double largest(const double *x) {
    double most = 0;
    for (int i = 0; i < N; i++) most = fmax(most, fabs(x[i]));
    return most;
}

/* The number that stands for x[i] when the whole tensor has one scale, which puts the largest at the top. */
static double of_one_scale(enum dtype element, double x, double most) {
    float y = (float)(x * block_element_most(element) / most);
    uint8_t code = element == FP8_E4M3 ? e4m3_from_float(y) : e2m1_from_float(y);
    return block_element_value(element, code) * most / block_element_most(element);
}

static void cast(const struct way *w, const double *x, double *y) {
    const struct block_format *f = &w->format;
    double most = largest(x), tensor = f->scale == BLOCK_SCALE_E4M3 ? (double)(float)(448 * 6 / most) : 1;
    uint8_t code[BLOCK_MOST], scale;
    for (int i = 0; i < N && w->one_scale; i++) y[i] = of_one_scale(f->element, x[i], most);
    for (int i = 0; i < N && !w->one_scale; i += f->size) {
        block_cast(f, tensor, f->size, x + i, NULL, code, &scale);
        block_values(f, f->size, code, scale, y + i);
        for (int k = i; k < i + f->size; k++) y[k] /= tensor;
    }
}

/* The error of the numbers that are no outliers, relative to their size, when outliers are `times` as large. */
static double error_of(const struct way *w, double times) {
    double x[N], y[N], error = 0, size = 0;
    for (int i = 0; i < N; i++) x[i] = rng_normal(1, rng_stream("blocks"), (uint64_t)i) * (is_outlier(i) ? times : 1);
    cast(w, x, y);
    for (int i = 0; i < N; i++)
        if (!is_outlier(i)) error += (y[i] - x[i]) * (y[i] - x[i]), size += x[i] * x[i];
    return sqrt(error / size);
}

int main(void) {
    static const double times[] = {1, 1000, 100000};
    double error[N_WAYS][3];
    printf("%d numbers, one in %d:   as the others   1000 times as large   100000 times\n", N, APART);
    for (int i = 0; i < N_WAYS; i++) {
        for (int k = 0; k < 3; k++) error[i][k] = error_of(&ways[i], times[k]);
        printf("  %-15s %5.2f bits   %.4f          %.4f                %.4f\n", ways[i].name,
               8 * block_bytes(&ways[i].format, N) / N, error[i][0], error[i][1], error[i][2]);
    }
    bool holds = error[E2M1][1] > 0.99 && error[E4M3][1] < 0.03 && error[E4M3][2] > 0.1 && error[MXFP8][2] < 0.1 &&
                 error[MXFP4][1] < 0.3 && error[NVFP4][1] < error[MXFP4][1];
    printf("  %s an outlier costs the numbers that share its scale their digits\n", holds ? "yes:" : "NO: ");
    return !holds;
}
