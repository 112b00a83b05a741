/* The alpha-beta model. Formulas: cost.h. */
#include "lessons/02-collectives/cost/cost.h"

/* ceil(log2 n), n >= 1 */
static int log2_up(int n) {
    int l = 0;
    while ((1 << l) < n) l++;
    return l;
}

enum status cost_all_reduce(enum all_reduce_algorithm algorithm, int n, double bytes, const struct link_cost *link,
                            double *seconds) {
    int up = log2_up(n), p = 1 << (up - (1 << up > n));              /* p: the largest power of two up to n */
    double alpha = link->alpha_s, whole = bytes * link->beta_s, added = bytes * link->gamma_s;
    switch (algorithm) {
    case RING: *seconds = (n - 1) * (2 * alpha + (2 * whole + added) / n); return OK;
    case TREE: *seconds = up * (2 * alpha + 2 * whole + added); return OK;
    case HALVING_DOUBLING:
        *seconds =
            2 * log2_up(p) * alpha + (2 * whole + added) * (p - 1) / p + (p < n ? 2 * alpha + 2 * whole + added : 0);
        return OK;
    default: return FAIL(E_INTERNAL, "algorithm %d; there are %d", (int)algorithm, (int)N_ALL_REDUCE_ALGORITHMS);
    }
}

enum status cost_bus_bandwidth(int n, double bytes, double seconds, double *out) {
    *out = bytes / seconds * 2 * (n - 1) / n;
    return OK;
}

/* (n-1) (2 alpha + S c / n) = L (2 alpha + S c) with c = 2 beta + gamma, solved for S */
enum status cost_crossover(int n, const struct link_cost *link, double *bytes) {
    int up = log2_up(n);
    *bytes = 2 * link->alpha_s * (n - 1 - up) / ((2 * link->beta_s + link->gamma_s) * (up - (n - 1.0) / n));
    return OK;
}

/* With weights w = 1 / t^2 the normal equations of alpha + m beta = t are  sum w [1 m; m m^2] [alpha; beta] = sum w t
 * [1; m]. */
enum status cost_fit(const double *bytes, const double *seconds, int n, struct link_cost *out) {
    double s = 0, sm = 0, smm = 0, st = 0, smt = 0;
    for (int i = 0; i < n; i++) {
        double w = 1 / (seconds[i] * seconds[i]), m = bytes[i];
        s += w, sm += w * m, smm += w * m * m, st += w * seconds[i], smt += w * m * seconds[i];
    }
    bool line = false;
    for (int i = 1; i < n; i++) line |= bytes[i] != bytes[0];
    if (!line) return FAIL(E_CONFIG, "%d messages of one size give no line; measure at two sizes at least", n);
    double determinant = s * smm - sm * sm;
    out->alpha_s = (st * smm - smt * sm) / determinant;
    out->beta_s = (s * smt - sm * st) / determinant;
    return OK;
}
