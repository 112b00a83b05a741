/* A row of weight gradients with --sums fixed, leaf by leaf (lib/program/sums.h explains it): over samples, and over
 * the ranks that have other tokens of the same samples. */
#pragma once

#include "lib/comm/exchange.h"
#include "lib/comm/mesh.h"
#include "lib/ops/op.h"

/** Levels of a tree over n leaves: log2 n, rounded up. */
static inline int sums_levels(int64_t n) {
    int levels = 0;
    while ((int64_t)1 << levels < n) levels++;
    return levels;
}

/** The axes of the mesh, as bits, whose ranks have other tokens of the same samples; the row sums over them. Pure. */
unsigned sums_over(const struct call *);
/** Bytes of scratch of a row of weight gradients that runs leaf by leaf. */
int64_t sums_work(const struct call *);
/** Run the row. Afterwards sum[i] points into the scratch, and is the gradient of weight[i], also summed over the ranks
 *  that have other tokens of the same samples (sp). @collective{the axes that cut the tokens} @errors those of the op;
 *  E_TIMEOUT, E_COMM */
enum status sums_run(const struct call *, const struct mesh *, float *sum[MAX_WEIGHTS]);
/** The exchanges of a row. @return their number */
int sums_exchanges(const struct call *, struct exchange out[MAX_WEIGHTS]);
