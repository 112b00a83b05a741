/* A reduce-scatter as an op: from partial sums (G, ..) every rank gets the whole sum of its part (G/n, ..) of the first
 * axis; backward gathers the parts of the gradient.
 *
 * step->reshard.cuts is the tag of G, `moves` the bits of axis.cut that it gets. G is the outermost axis, so that parts
 * lie together and nothing is packed. Sent: S (n-1)/n of the S bytes of the whole, forward and backward, over
 * step->mesh_axis. Ranks are added in the transport's order. */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_sum_scatter;
