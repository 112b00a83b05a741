/* Seconds of a collective, over the levels of a cluster.
 *
 * The n ranks of a group lie `stride` apart in the world: stride 1 for tp, tp cp for dp. Inside the innermost level lie
 * i of them, the largest divisor of n that fits. These i ranks exchange S bytes among themselves. Then each exchanges
 * its share S/i with its peers in other nodes, all i at the same time, each over its own link; and so on outward.
 *
 *   at a level with i ranks, S bytes, bandwidth bw, latency a; c = 2 for all_reduce (scatter, then gather), else 1:
 *     ring   c [(i-1)/i S/bw + (i-1) a]
 *     tree   c [S / (0.9 bw) + 2 log2(i) a]          all_reduce: the faster of ring and tree
 *
 *   gather and scatter: a ring over all n ranks, so that the latency is (n-1) a of the outermost level, and 0 at inner
 *                   levels
 *   all_to_all      max over levels of S (beyond/n) / bw, plus (n-1) a; beyond: peers outside the next inner unit
 *   send            S/bw + a of the outermost level that the group crosses: its slowest link
 *   broadcast       S/bw + log2(i) a at each level
 *
 * bw is the level's speed times its fraction for an operation of S bytes (level.part_by_size).
 * With rails (cluster.rails) level 1 joins rank k of every node. A group whose stride is no multiple of a node's ranks
 * leaves its rail, and crosses level 2. An all_to_all stays on rails: NCCL moves a message within the node first (PXN).
 * With rings (stack.rings) gathers, scatters and all-reduces are one ring over all n ranks: c [(n-1)/n S/bw + (n-1) a]
 * at the outermost level, as each link carries all of S.
 * An operation in pieces pays the latency for each piece. Every call also costs call_s. Contention of groups on a link
 * is left out. Source: Thakur et al. 2005; Rabenseifner 2004; the NCCL documentation for the use of rings and trees. */
#pragma once

#include "lib/comm/comm.h"
#include "lib/cost/cluster.h"

/** @param bytes of the whole tensor: reduced, gathered from all ranks, scattered to all ranks, or sent. @param n ranks
 *  of the group, stride >= 1 apart. @param pieces >= 1: operations that carry it. @return 0 for a group of one
 */
double wire_seconds(const struct cluster *, enum comm_op, double bytes, int64_t n, int64_t stride, int64_t pieces);

/** The index of the outermost level that a group crosses; 0 means inside a node. */
int wire_level(const struct cluster *, int64_t n, int64_t stride);
