/* Local steps: replicas take several steps of their own, then average their weights. See local.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_local;

/* steps 0: off. */
struct local_options { int64_t steps, from; double lr, momentum; };
static inline struct local_options *local_options(const struct plan *p) {
    return plan_own(p, &technique_local.options);
}

/** The outer step of one element. sum: start - w_r, summed over n replicas; start: the weight that all replicas began
 *  with; u: the outer momentum, updated. @return the new weight of all replicas:
 *      d = sum / n      u = mu u + d      w = start - lr (d + mu u)
 *  @collective{none} */
static inline double local_outer(double sum, double start, double n, double lr, double mu, double *u) {
    double d = sum / n;
    *u = mu * *u + d;
    return start - lr * (d + mu * *u);
}
