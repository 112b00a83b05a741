#include "lib/cost/fit.h"

#include "lib/base/sort.h"
#include "lib/cost/op_time.h"
#include <math.h>
#include <stdlib.h>

/* ---- least squares of relative errors ---- */
static double predicted(const double *known, const double *x, int k) {
    double sum = 0;
    for (int j = 0; j < k; j++) sum += known[j] * x[j];
    return sum;
}

static double median_error(const double *known, const double *seconds, int n, int k, const double *x) {
    double *errors = malloc((size_t)n * sizeof *errors + 1), median = NAN;
    for (int i = 0; errors && i < n; i++) errors[i] = fabs(predicted(&known[i * k], x, k) / seconds[i] - 1);
    if (errors && n > 0) {
        sort_doubles(errors, n);
        median = sorted_median(errors, n);
    }
    free(errors);
    return median;
}

/* Columns are scaled to length 1, so that flops and launches have equal weight. */
double fit_relative(const double *known, const double *seconds, int n, int k, double *x) {
    double gram[MAX_UNKNOWNS][MAX_UNKNOWNS] = {{0}}, right[MAX_UNKNOWNS] = {0}, scale[MAX_UNKNOWNS];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < k; j++) {
            right[j] += known[i * k + j] / seconds[i];
            for (int l = 0; l < k; l++) gram[j][l] += known[i * k + j] / seconds[i] * known[i * k + l] / seconds[i];
        }
    for (int j = 0; j < k; j++) scale[j] = gram[j][j] > 0 ? 1 / sqrt(gram[j][j]) : 0, x[j] = 0;
    for (int round = 0; round < 20000; round++)
        for (int j = 0; j < k; j++) {
            double rest = right[j] * scale[j];
            for (int l = 0; l < k; l++)
                if (l != j) rest -= gram[j][l] * scale[j] * scale[l] * x[l];
            x[j] = scale[j] > 0 ? fmax(0, rest) : 0;                 /* the diagonal is 1 */
        }
    for (int j = 0; j < k; j++) x[j] *= scale[j];
    return median_error(known, seconds, n, k, x);
}

/* ---- rows ---- */
double fit_products(const struct timed_product *p, int n, double peak, struct cluster *c) {
    enum { UNKNOWNS = 5 };
    double x[UNKNOWNS], *seconds = malloc((size_t)n * sizeof *seconds + 1), error = NAN;
    const struct cluster tiles = {.product_part = 1, .tile_units = c->tile_units};   /* its efficiency is tile_fit */
    double(*known)[UNKNOWNS] = malloc((size_t)n * sizeof *known + 1);
    for (int i = 0; known && seconds && i < n; i++) {
        double m = (double)p[i].product.m, cols = (double)p[i].product.n, k = (double)p[i].product.k;
        double flops = 2 * m * cols * k * (double)p[i].product.batch / product_efficiency(&tiles, &p[i].product);
        const double line[UNKNOWNS] = {flops, flops / m, flops / cols, flops / k, 1};
        for (int j = 0; j < UNKNOWNS; j++) known[i][j] = line[j];
        seconds[i] = p[i].seconds;
    }
    if (known && seconds) error = fit_relative(*known, seconds, n, UNKNOWNS, x);
    if (isfinite(error) && x[0] > 0) {
        double measured_s = 0, fitted_s = 0;
        for (int i = 0; i < n; i++) measured_s += seconds[i], fitted_s += predicted(known[i], x, UNKNOWNS);
        for (int j = 0; j < UNKNOWNS; j++) x[j] *= measured_s / fitted_s;
        c->product_part = fmin(1, 1 / (peak * x[0]));
        c->product_m0 = x[1] / x[0], c->product_n0 = x[2] / x[0], c->product_k0 = x[3] / x[0];
        c->launch_s = x[4];
    }
    free(known);
    free(seconds);
    return error;
}

double fit_rate(const double *units, const double *seconds, int n, double launch_s, double *rate) {
    double all = 0, all_s = 0, x[2];
    double(*known)[2] = malloc((size_t)n * sizeof *known + 1);
    for (int i = 0; i < n; i++) all += units[i], all_s += seconds[i] - launch_s;
    *rate = all_s > 0 ? all / all_s : 0;
    x[0] = all_s > 0 ? all_s / all : 0, x[1] = 1;
    for (int i = 0; known && i < n; i++) known[i][0] = units[i], known[i][1] = launch_s;
    double error = known ? median_error(*known, seconds, n, 2, x) : NAN;
    free(known);
    return error;
}

/* ---- wires ---- */
/* The model of an operation's time: known[0] / speed + known[1] latency. */
static void wire_terms(const struct timed_wire *w, int64_t ranks, double known[2]) {
    double others = (double)(ranks - 1), twice = w->op == COMM_ALL_REDUCE ? 2 : 1;
    bool message = w->op == COMM_SEND;
    known[0] = message ? w->bytes : twice * others / (double)ranks * w->bytes;
    known[1] = message ? 1 : twice * others;
}

/* Operations of up to 16 KiB give the latency. */
static double fit_latency(const struct timed_wire *w, int n, int64_t ranks) {
    enum { MOST = 64 };
    double known[MOST][2], seconds[MOST], x[2];
    int used = 0;
    for (int i = 0; i < n && used < MOST; i++) {
        if (w[i].bytes > 16384) continue;
        wire_terms(&w[i], ranks, known[used]);
        seconds[used++] = w[i].seconds;
    }
    if (used == 0) return 0;
    fit_relative(*known, seconds, used, 2, x);
    return x[1];
}

/* The speed of operations of `bytes` bytes: the geometric mean over the timed ones; 0 if there are none. */
static double speed_at(const struct timed_wire *w, int n, int64_t ranks, double bytes, double alpha_s) {
    double sum = 0, known[2];
    int used = 0;
    for (int i = 0; i < n; i++) {
        if (w[i].bytes != bytes) continue;
        wire_terms(&w[i], ranks, known);
        sum += log(known[0] / fmax(w[i].seconds - known[1] * alpha_s, 0.1 * w[i].seconds));
        used++;
    }
    return used ? exp(sum / used) : 0;
}

void fit_wires(const struct timed_wire *w, int n, int64_t ranks, struct level *out) {
    struct curve *curve = &out->part_by_size;
    out->alpha_s = fit_latency(w, n, ranks);
    out->bytes_per_s = 0, curve->n = 0;
    for (int i = 0; i < n && curve->n < MAX_CURVE; i++) {            /* the first kind of operation, by size */
        if (w[i].op != w[0].op || w[i].bytes < 16384) continue;
        double speed = speed_at(w, n, ranks, w[i].bytes, out->alpha_s);
        curve->at[curve->n] = w[i].bytes;
        curve->is[curve->n++] = speed;
        out->bytes_per_s = fmax(out->bytes_per_s, speed);
    }
    for (int i = 0; i < curve->n; i++) curve->is[i] /= out->bytes_per_s;
}
