/* All-reduce written from sends and receives: the contract of lesson 02's exercise.
 *
 *     before: rank r has x_r[0..count)          after: every rank has x[i] = x_0[i] + x_1[i] + ... + x_(n-1)[i]
 *
 * Three ways, for n ranks and a buffer of S bytes; alpha is the time of a message without content, beta that of
 * one byte (what adding costs is left out here; cost/cost.h has it):
 *
 *                        a rank sends            in messages      time
 *     ring               2 S (n-1)/n             2 (n-1)          2 (n-1) alpha + 2 (n-1)/n S beta
 *     tree               S ... S log2 n          1 ... 2 log2 n   2 log2 n (alpha + S beta)
 *     halving-doubling   2 S (n-1)/n             2 log2 n         2 log2 n alpha + 2 (n-1)/n S beta
 *
 * (tree and halving-doubling for n a power of two). Of each: any n, any count (n need not divide it, and it may be
 * smaller than n), the same bits on every rank, and no rank that waits for a send before it has asked for what is sent
 * to it.
 *
 * Only comm_send_start, comm_recv_start and comm_wait of lib/comm/comm.h may be used. Messages of no elements need not
 * be sent.
 *
 * @source Patarasuk and Yuan 2009 (ring); Thakur, Rabenseifner and Gropp 2005, section 4.4 (halving-doubling) */
#pragma once

#include "lib/comm/comm.h"

/** First element of part p when count elements are cut into n parts whose sizes differ by one at most: floor(p count /
 *  n). Part p is [all_reduce_first(count, n, p), all_reduce_first(count, n, p + 1)). Everything below cuts so. 0 <= p
 *  <= n. */
static inline int64_t all_reduce_first(int64_t count, int n, int p) { return (int64_t)((__int128)count * p / n); }

/** Afterwards part r of x is the sum over the ranks, where r is this rank; what is elsewhere in x is not defined.
 *  @param x (count) changed   @param scratch (count) borrowed, written
 *  @collective{group} @errors those of comm_send_start, comm_recv_start and comm_wait */
enum status reduce_scatter_ring(const struct group *, float *x, int64_t count, float *scratch);

/** x: on entry rank r's part r counts, afterwards every part is there, as its rank had it. @collective{group} @errors
 *  as above */
enum status all_gather_ring(const struct group *, float *x, int64_t count);

/** x = sum over the ranks, in place: the two above, one after the other.
 *  @param x (count) changed   @param scratch (count) borrowed, written   @collective{group} @errors as above */
enum status all_reduce_ring(const struct group *, float *x, int64_t count, float *scratch);

/** The same by a binomial tree: to rank 0, and from there to all. n - 1 messages up and n - 1 down. */
enum status all_reduce_tree(const struct group *, float *x, int64_t count, float *scratch);

/** The same by recursive halving, and doubling: with the rank at distance p/2, p/4, ... 1 half of what is left is
 *  exchanged, and then all the way back, where p is the largest power of two up to n. The n - p ranks from p on first
 *  hand all of x to rank r - p, and get the sum from it. */
enum status all_reduce_halving_doubling(const struct group *, float *x, int64_t count, float *scratch);
