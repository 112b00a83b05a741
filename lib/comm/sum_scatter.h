/* A reduce-scatter as an op: from partial sums (G, ..) every rank gets the whole sum of its part (G/n, ..) of the first
 * axis; backward gathers the parts of the gradient.
 *
 * step->reshard.cuts is the tag of G; step->reshard.moves is the set of bits that G's axis.cut gets. G is the outermost
 * axis, so parts are contiguous and need no packing. Sent: S (n-1)/n of the S bytes of the whole, each way, over
 * step->mesh_axis. The transport chooses the order in which ranks are added. */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_sum_scatter;
