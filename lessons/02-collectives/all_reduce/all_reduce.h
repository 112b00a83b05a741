/* All-reduce written from sends and receives: the contract of lesson 02's exercise.
 *
 *     before: rank r has x_r[0..count)          after: every rank has x[i] = x_0[i] + x_1[i] + ... + x_(n-1)[i]
 *
 * There are three algorithms for n ranks and a buffer of S bytes. alpha is the time of an empty message, beta the time
 * of one byte. (The table omits the time of additions; cost/cost.h has it.)
 *
 *                        a rank sends            in messages      time
 *     ring               2 S (n-1)/n             2 (n-1)          2 (n-1) alpha + 2 (n-1)/n S beta
 *     tree               S ... S log2 n          1 ... 2 log2 n   2 log2 n (alpha + S beta)
 *     halving-doubling   2 S (n-1)/n             2 log2 n         2 log2 n alpha + 2 (n-1)/n S beta
 *
 * (tree and halving-doubling for n a power of two). Each algorithm must work for any n and any count (also if n does
 * not divide count, or exceeds it). Every rank must get the same bits. A rank must not wait for a send before it has
 * started the receive.
 *
 * Use comm_send_start, comm_recv_start and comm_wait of lib/comm/comm.h only. You may omit empty messages.
 *
 * @source Patarasuk and Yuan 2009 (ring); Thakur, Rabenseifner and Gropp 2005, section 4.4 (halving-doubling) */
#pragma once

#include "lib/comm/comm.h"

/** First element of part p if count elements are cut into n parts whose sizes differ by at most one: floor(p count /
 *  n). Part p is [all_reduce_first(count, n, p), all_reduce_first(count, n, p + 1)). All functions below use these
 *  parts. 0 <= p <= n. */
static inline int64_t all_reduce_first(int64_t count, int n, int p) { return (int64_t)((__int128)count * p / n); }

/** Afterwards part r of x is the sum over the ranks, where r is this rank. The other parts of x are undefined.
 *  @param x (count) changed   @param scratch (count) borrowed, written
 *  @collective{group} @errors those of comm_send_start, comm_recv_start and comm_wait */
enum status reduce_scatter_ring(const struct group *, float *x, int64_t count, float *scratch);

/** On entry rank r has a valid part r of x; afterwards every rank has all parts. @collective{group} @errors as
 *  reduce_scatter_ring */
enum status all_gather_ring(const struct group *, float *x, int64_t count);

/** x = sum over the ranks, in place: reduce_scatter_ring, then all_gather_ring.
 *  @param x (count) changed   @param scratch (count) borrowed, written
 *  @collective{group} @errors as reduce_scatter_ring */
enum status all_reduce_ring(const struct group *, float *x, int64_t count, float *scratch);

/** x = sum over the ranks by a binomial tree: up to rank 0, then down to all. n - 1 messages up and n - 1 down. */
enum status all_reduce_tree(const struct group *, float *x, int64_t count, float *scratch);

/** x = sum over the ranks by recursive halving and doubling, where p is the largest power of two up to n. Exchange half
 *  of the remaining elements with the rank at distance p/2, p/4, ... 1; then the sums at distances 1, 2, ... p/2. The
 *  n - p ranks from p on first send all of x to rank r - p, and at the end receive the sum from it. */
enum status all_reduce_halving_doubling(const struct group *, float *x, int64_t count, float *scratch);
