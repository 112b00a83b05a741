/* The alpha-beta model of a message and of an all-reduce: the contract of lesson 02's second exercise.
 *
 *     a message of m bytes takes    alpha + m beta    seconds,  and adding m bytes to others    m gamma
 *
 * A rank can send one message and receive one at the same time. With n ranks, S bytes, L = ceil(log2 n), p = the
 * largest power of two up to n:
 *
 *     ring               2 (n-1) alpha + 2 (n-1)/n S beta + (n-1)/n S gamma
 *     tree               2 L (alpha + S beta) + L S gamma
 *     halving-doubling   2 log2 p alpha + 2 (p-1)/p S beta + (p-1)/p S gamma
 *                        and if p < n, 2 (alpha + S beta) + S gamma more, for a whole message before and after
 *
 * @source Hockney 1994 (the model); Thakur, Rabenseifner and Gropp 2005 (the rest) */
#pragma once

#include "lib/base/status.h"

enum all_reduce_algorithm { RING, TREE, HALVING_DOUBLING, N_ALL_REDUCE_ALGORITHMS };

/* Seconds of an empty message; seconds per byte sent; seconds per byte added. */
struct link_cost { double alpha_s, beta_s, gamma_s; };

/** Seconds of an all-reduce of `bytes` over n >= 1 ranks; 0 for n = 1. */
enum status cost_all_reduce(enum all_reduce_algorithm, int n, double bytes, const struct link_cost *, double *seconds);

/** Bus bandwidth in bytes per second, as nccl-tests defines it: S / t times 2 (n-1)/n, with t seconds. For any n it is
 *  comparable with the bandwidth of a link. n >= 2, seconds > 0. */
enum status cost_bus_bandwidth(int n, double bytes, double seconds, double *out);

/** The size S in bytes at which ring and tree take the same time; for smaller sizes the tree is faster. n >= 4. */
enum status cost_crossover(int n, const struct link_cost *, double *bytes);

/** Fit alpha and beta to measurements: the line alpha + bytes[i] beta with the least sum of squared *relative* errors,
 *  sum over i of ((alpha + bytes[i] beta - seconds[i]) / seconds[i])^2. (In plain least squares the largest message
 *  would dominate.) Sets alpha_s and beta_s of *out, and does not change gamma_s.
 *  @errors E_CONFIG if all sizes are equal (or n < 2), because they give no line */
enum status cost_fit(const double *bytes, const double *seconds, int n, struct link_cost *out);
