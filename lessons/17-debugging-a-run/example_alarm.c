/* ranks: 1
 *
 * Ten products in fp32, one after the other, compared with the same ten in fp64. How large is the difference, in units
 * of each product's rounding (lesson 17, "Units of rounding")? Then a run with a mistake: product 4 is 0.01 % too
 * large.
 *
 *   x[i+1] = sin(W[i] x[i])      e = max |x - x64| / max |x64|      s = the largest e of eight shaken runs
 *
 * A shaken run multiplies each result by 1 + u eps, with u drawn from [-1, 1], which simulates other roundings. */
#include "lib/base/rng.h"
#include "oracle/verdict.h"
#include <math.h>
#include <stdio.h>

enum { LAYERS = 10, N = 32, RUNS = 8, MISTAKE = 4 };
static const double EPS = 1.0 / (1 << 24);                           /* half a unit in the last place of fp32 */

typedef double chain[LAYERS + 1][N];

static double weight(int layer, int k, int c) {
    return 1.6 / sqrt(N) * rng_normal(1, (uint64_t)layer, (uint64_t)(k * N + c));
}

/* One element of W x. With fp32 each product and sum is rounded to fp32. */
static double product(int layer, int k, const double *x, bool fp32) {
    double sum = 0;
    for (int c = 0; c < N; c++) {
        double term = weight(layer, k, c) * x[c];
        sum = fp32 ? (float)((float)sum + (float)term) : sum + term;
    }
    return sum;
}

/* run: the number of the shaken run; -1: not shaken. */
static void compute(chain x, bool fp32, int run, double mistake) {
    for (int k = 0; k < N; k++) x[0][k] = rng_normal(2, 0, (uint64_t)k);
    for (int i = 0; i < LAYERS; i++)
        for (int k = 0; k < N; k++) {
            double y = sin(product(i, k, x[i], fp32)), u = 2 * rng_uniform(3, (uint64_t)run, (uint64_t)(i * N + k)) - 1;
            if (i + 1 == MISTAKE) y *= 1 + mistake;
            if (run >= 0) y *= 1 + u * EPS;
            x[i + 1][k] = fp32 ? (float)y : y;
        }
}

int main(void) {
    static chain exact, shaken, right, wrong;
    double s[LAYERS + 1] = {0};
    struct checked row[LAYERS + 1] = {{0}};
    int n_compared, n_wrong, largest = 1;
    compute(exact, false, -1, 0);
    for (int run = 0; run < RUNS; run++) {
        compute(shaken, true, run, 0);
        for (int i = 1; i <= LAYERS; i++) s[i] = fmax(s[i], whole_difference(shaken[i], exact[i], NULL, N, NULL));
    }
    compute(right, true, -1, 0);
    compute(wrong, true, -1, 1e-4);
    printf("product      s   e/s of a right run   e/s of the wrong one\n");
    for (int i = 1; i <= LAYERS; i++) {
        double e = whole_difference(right[i], exact[i], NULL, N, NULL);
        row[i].error = whole_difference(wrong[i], exact[i], NULL, N, NULL);
        row[i].verdict = row[i].error <= CHECK_FACTOR * s[i] ? TENSOR_RIGHT : TENSOR_WRONG;
        if (row[i].error > row[largest].error) largest = i;
        printf("%7d %.1e %15.2f %22.2f%s\n", i, s[i], e / s[i], row[i].error / s[i],
               row[i].verdict == TENSOR_WRONG ? "  wrong" : "");
    }
    int first = 1 + verdict_first(row + 1, LAYERS, &n_compared, &n_wrong);
    printf("of %d products %d are wrong; the first alarm is product %d, the largest error that of product %d: %.1f "
           "times as large\n", n_compared, n_wrong, first, largest, row[largest].error / row[first].error);
    return first == MISTAKE ? 0 : 1;
}
