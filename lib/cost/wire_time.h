/* Seconds of a collective, over the levels of a cluster.
 *
 * A group of n ranks lies `stride` apart in the world: tp's 1, dp's tp cp. Of the n, i lie together inside the
 * innermost level: the largest divisor of n that fits. They exchange S bytes among themselves; then each exchanges its
 * share S/i with those of other nodes, all i at once, each over its own link; and so on outwards.
 *
 *   at a level, i ranks, bytes S, c = 2 for all_reduce (scatter, then gather), else 1:
 *     ring   c [(i-1)/i S/bw + (i-1) a]
 *     tree   c [S / (0.9 bw) + 2 log2(i) a]          all_reduce: the better of the two
 *
 *   gather and scatter: every rank of the group is a step, whose time is that of the outermost level: (n-1) a there,
 *                   and no a inside
 *   all_to_all      `beyond` of the n-1 others are outside each level: max over levels of S beyond/n / bw, and (n-1) a
 *   send            S/bw + a of the outermost level that the group crosses: its slowest link
 *   broadcast       S/bw + log2(i) a at each level
 *
 * bw is that of the level, times the part of it that an operation of S bytes reaches (level.part_by_size).
 * Messages in pieces pay a for each. Every call costs call_s on top. Contention between groups that share a link is not
 * in it. Source: Thakur et al. 2005; Rabenseifner 2004; the NCCL documentation for what is a ring and what a tree. */
#pragma once

#include "lib/comm/comm.h"
#include "lib/cost/cluster.h"

/** @param bytes of the whole: what is reduced, gathered from all, scattered to all or sent. @param n ranks of the
 *  group, stride >= 1 apart. @param pieces >= 1, the operations that carry it together. 0 for a group of one.
 */
double wire_seconds(const struct cluster *, enum comm_op, double bytes, int64_t n, int64_t stride, int64_t pieces);

/** The outermost level that a group crosses: 0 is inside a node. */
int wire_level(const struct cluster *, int64_t n, int64_t stride);
