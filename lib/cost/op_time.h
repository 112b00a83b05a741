/* Seconds of a row: the roofline, and why a product does not reach its roof.
 *
 *   t = max(F / (peak e), Q / (bandwidth s)) + launch          F: flops, Q: bytes (op_cost)
 *
 *   e = e_max x fit / (1 + m0/m + n0/n + k0/k)     a product. Operands and result are moved as well, once each: of a
 *                              short sum, or few rows, that is more than the arithmetic hides
 *   fit                        a GPU computes a product in tiles, which are dealt out to its processors. What of the
 *                              covered area is matrix, times what of the waves is tiles, times the tile's own speed:
 *                              the best of four tiles
 *   e = a part of its own      attention by tiles, of the flops that are done
 *   bandwidth s                or an op's own speed: gelu on a CPU is bound by its arithmetic, which is not counted
 *
 * Source: Williams et al. 2009, "Roofline"; NVIDIA, "Matrix multiplication background user's guide" (tile and wave
 * quantization). */
#pragma once

#include "lib/cost/cluster.h"
#include "lib/ops/op.h"

/** The part of the peak that a product reaches. 0 < result <= 1. */
double product_efficiency(const struct cluster *, const struct matmul *);

/** Bytes a second of an op, by its name, that only moves. */
double op_bytes_per_s(const struct cluster *, const char *op);

/** compute and memory: how long either takes; total: the longer one, and the launch. A row of no cost takes no time. */
struct seconds { double compute, memory, total; };
struct seconds op_seconds(const struct cluster *, const char *op, enum dtype, const struct cost *, enum row_kind);
