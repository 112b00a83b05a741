/* Fits the constants of a cluster to measured times (trivium calibrate).
 *
 * Every formula of op_time.h and wire_time.h is linear in its unknown constants. For a matrix product of F flops:
 *
 *   t = F x0 + F/m x1 + F/n x2 + F/k x3 + x4        x0 = 1/(peak part), x1 = m0 x0, ..., x4 the launch; on a GPU F is
 *                                                   divided by the part that tiles fill (tile_fit of op_time.h)
 *
 * So nonnegative least squares of the relative errors gives the constants. Source: Lawson, Hanson 1974, "Solving least
 * squares problems", chapter 23. fit_relative uses coordinate descent, which is short, and converges because the
 * problem is convex. */
#pragma once

#include "lib/comm/comm.h"
#include "lib/cost/cluster.h"
#include "lib/ops/op.h"

enum { MAX_UNKNOWNS = 5 };
/** Find x[0..k) >= 0 that minimizes the sum over n lines of (1 - known[i] . x / seconds[i])^2. @param known [n][k]
 *  @param seconds [n], > 0  @return the median of |known . x / seconds - 1|; NaN if n is 0  @collective{none} */
double fit_relative(const double *known, const double *seconds, int n, int k, double *x);

struct timed_product { struct matmul product; double seconds; };
/** Fit product_part, product_m0, _n0, _k0 and launch_s of a cluster with `peak` flops per second. The fit is scaled so
 *  that the sum of all predicted times is the measured sum, because least squares of relative errors predicts too short
 *  times when the times scatter. @return as fit_relative */
double fit_products(const struct timed_product *, int n, double peak, struct cluster *);

/** *rate: all units (bytes, flops) divided by the sum over rows of seconds - launch_s. @return as fit_relative */
double fit_rate(const double *units, const double *seconds, int n, double launch_s, double *rate);

/** A timed collective of all ranks, or a message between two, over one level; bytes as for wire_seconds. */
struct timed_wire { enum comm_op op; double bytes, seconds; };
/** Fit a level's latency to the operations of up to 16 KiB, and its speed by size to the operations of 16 KiB or more.
 *  The operations of each kind have the same ascending sizes. @param ranks of the group */
void fit_wires(const struct timed_wire *, int n, int64_t ranks, struct level *);
