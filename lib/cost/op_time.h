/* Seconds of a row: the roofline, and why a product does not reach its roof.
 *
 *   t = max(F / (peak e), Q / (bandwidth s)) + launch          F: flops, Q: bytes (op_cost)
 *
 *   e = e_max x fit x k / (k + k0)   a GPU computes a product in tiles, which are dealt out to its processors. What of
 *                                    the covered area is matrix, times what of the waves is tiles, times the tile's own
 *                                    speed: the best of four tiles. Short sums do not fill the pipelines
 *   e = curve(min(m, n, k))          a CPU, measured
 *   e = a part of its own            attention by tiles, of the flops that are done
 *
 * Source: Williams et al. 2009, "Roofline"; NVIDIA, "Matrix multiplication background user's guide" (tile and wave
 * quantization). */
#ifndef TRIVIUM_COST_OP_TIME_H
#define TRIVIUM_COST_OP_TIME_H

#include "lib/cost/cluster.h"
#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The part of the peak that a product reaches. 0 < result <= 1. */
double product_efficiency(const struct cluster *, const struct matmul *);

/** compute and memory: how long either takes; total: the longer one, and the launch. A row of no cost takes no time. */
struct seconds { double compute, memory, total; };
struct seconds op_seconds(const struct cluster *, enum dtype, const struct cost *, enum row_kind);

#ifdef __cplusplus
}
#endif
#endif
