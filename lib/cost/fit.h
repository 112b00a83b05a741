/* Constants of a cluster from times that were measured (trivium calibrate).
 *
 * Every formula of op_time.h and wire_time.h is a sum of what is known times what is not: of a product
 *
 *   t = F x0 + F/m x1 + F/n x2 + F/k x3 + x4        x0 = 1/(peak part), x1 = m0 x0, ..., x4 the launch
 *
 * so the constants that make the sum of squares of the relative errors least are those of a linear system; none may be
 * negative. Source: Lawson, Hanson 1974, "Solving least squares problems", chapter 23; here by descent, one constant
 * after the other, which converges because the system is convex, and is short. */
#pragma once

#include "lib/comm/comm.h"
#include "lib/cost/cluster.h"
#include "lib/ops/op.h"

enum { MAX_UNKNOWNS = 5 };
/** x[0..k) >= 0 of least sum over n lines of (1 - known[i] . x / seconds[i])^2. @param known [n][k]; seconds > 0.
 *  @return the median of |known . x / seconds - 1|, NaN without lines  @collective{none} */
double fit_relative(const double *known, const double *seconds, int n, int k, double *x);

struct timed_product { struct matmul product; double seconds; };
/** product_part, product_m0, _n0, _k0 and launch_s of a cluster that computes `peak` flops per second: the best fit,
 *  times what makes the sum right, since least squares of relative errors lie below where times scatter. @return as
 *  fit_relative */
double fit_products(const struct timed_product *, int n, double peak, struct cluster *);

/** Units (bytes, flops) per second of all rows together, each of which also takes a launch. @return as fit_relative */
double fit_rate(const double *units, const double *seconds, int n, double launch_s, double *rate);

/** A collective of all ranks, or a message between two, by one level: bytes as wire_seconds takes them. */
struct timed_wire { enum comm_op op; double bytes, seconds; };
/** A level's latency, from operations of 16 KiB or less, and its speed by size, from larger ones. @param ranks of the
 *  group; the timed operations of each kind in ascending sizes, the same of all */
void fit_wires(const struct timed_wire *, int n, int64_t ranks, struct level *);
