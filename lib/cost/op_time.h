/* Seconds of a row, by the roofline model, with the efficiency of matrix products.
 *
 *   t = max(F / (peak e), Q / (bandwidth s)) + launch          F: flops, Q: bytes (op_cost), s: stream_part
 *
 *   e = e_max x fit / (1 + m0/m + n0/n + k0/k)     for a product (m,k) x (k,n); e_max: product_part. With a small m, n
 *                              or k, the arithmetic does not hide the time to load operands and store the result
 *   fit                        a GPU computes a product in tiles on its processors. fit = (matrix area / area of all
 *                              tiles) x (tiles / slots in all waves of processors) x (speed of the tile), the best of
 *                              four tile sizes
 *   e = attention_*_part       for blocked attention, whose F counts only the blocks that are computed
 *   casts                      before a product in fp8 its operands are cast: cost.cast_bytes / (bandwidth s) is added
 *   bandwidth s                or the op's own speed: gelu on a CPU is bound by arithmetic, which F does not count
 *
 * Source: Williams et al. 2009, "Roofline"; NVIDIA, "Matrix multiplication background user's guide" (tile and wave
 * quantization). */
#pragma once

#include "lib/cost/cluster.h"
#include "lib/ops/op.h"

/** The fraction of the peak that a product reaches. 0 < result <= 1. */
double product_efficiency(const struct cluster *, const struct matmul *);

/** The speed in bytes per second of an op that only moves data, by the op's name. */
double op_bytes_per_s(const struct cluster *, const char *op);

/** The seconds of arithmetic, of memory traffic, and of casts before the products; total: the longer of the first two,
 *  plus casts and launch, 0 if cost is 0. dtype: of the products' operands (op_product_dtype). */
struct seconds { double compute, memory, casts, total; };
struct seconds op_seconds(const struct cluster *, const char *op, enum dtype, const struct cost *, enum row_kind);
