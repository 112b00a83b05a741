/* DLRM in loops over samples, for tests: no op of this project, no record, no exchange. */
#pragma once

#include "lib/run/run.h"

enum { D = 6, F = 8, M = 3, X = 5, V = 40, B = 16, ORACLE_STEPS = 6 };

/* A learned tensor: values, gradient, and Adam's moments. Its name is that of the product's tensor. */
struct learned { char name[NAME_MAX_LEN]; int n; bool decay; double *x, *g, *m, *v; };
struct layer { int in, out; struct learned w, b; };
struct oracle {
    struct layer bottom[2], top[3];
    double tables[F][V][D], kept[F][V];
    double waiting[4][F][V][D];          /* coalesced gradients of steps whose updates wait, times their factors */
    bool used[4][F][V];
    int delay;
    double loss[ORACLE_STEPS], norm[ORACLE_STEPS];
};

/** Train the oracle for ORACLE_STEPS on the plan's samples, from the product's initial weights; updates that still wait
 *  are not applied. The plan's delay is at most 3. */
void oracle_init(struct oracle *, const struct plan *, const struct data_file *clicks);
void oracle_fini(struct oracle *);
/** The largest difference of this rank's tables, kept numbers and other weights from the oracle's, relative to the
 *  tensor's largest. */
double oracle_difference(const struct oracle *, const struct run *);
