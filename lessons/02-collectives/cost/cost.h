/* The alpha-beta model of a message, and what it says of an all-reduce: the contract of lesson 02's second exercise.
 *
 *     a message of m bytes takes    alpha + m beta    seconds,  and adding m bytes to others    m gamma
 *
 * A rank can send one message and receive one at the same time. With n ranks, S bytes, L = ceil(log2 n), p = the
 * largest power of two up to n:
 *
 *     ring               2 (n-1) alpha + 2 (n-1)/n S beta + (n-1)/n S gamma
 *     tree               2 L (alpha + S beta) + L S gamma
 *     halving-doubling   2 log2 p alpha + 2 (p-1)/p S beta + (p-1)/p S gamma
 *                        and when p < n, before and after it a whole message: 2 (alpha + S beta) + S gamma more
 *
 * @source Hockney 1994 (the model); Thakur, Rabenseifner and Gropp 2005 (the rest) */
#pragma once

#include "lib/base/status.h"

enum all_reduce_algorithm { RING, TREE, HALVING_DOUBLING, N_ALL_REDUCE_ALGORITHMS };

/* Seconds of an empty message; seconds per byte sent; seconds per byte added. */
struct link_cost { double alpha_s, beta_s, gamma_s; };

/** Seconds of an all-reduce of `bytes` over n >= 1 ranks; 0 for n = 1. */
enum status cost_all_reduce(enum all_reduce_algorithm, int n, double bytes, const struct link_cost *, double *seconds);

/** Bus bandwidth in bytes per second, as nccl-tests defines it: S / t times 2 (n-1)/n. It can be compared with a link's
 *  bandwidth whatever n is. n >= 2, seconds > 0. */
enum status cost_bus_bandwidth(int n, double bytes, double seconds, double *out);

/** The size S in bytes at which ring and tree take equally long; below it the tree is faster. n >= 4. */
enum status cost_crossover(int n, const struct link_cost *, double *bytes);

/** alpha and beta from measurements: the line alpha + bytes[i] beta that makes the sum of squared *relative* errors
 *  least, sum over i of ((alpha + bytes[i] beta - seconds[i]) / seconds[i])^2. Plain least squares would see the
 *  largest message only. Sets alpha_s and beta_s of *out, and leaves gamma_s as it is.
 *  @errors E_CONFIG if all sizes are the same (n < 2 too): there is no such line */
enum status cost_fit(const double *bytes, const double *seconds, int n, struct link_cost *out);
