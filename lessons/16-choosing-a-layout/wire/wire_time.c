/* Exercise: seconds of a collective (lesson 16, "Seconds of a collective"). lib/cost/wire_time.h has the formulas.
 *
 * n ranks lie `stride` apart in the world. A level (struct level) is a circle of level.ranks neighbors, level[0] the
 * innermost; the outermost one has INT64_MAX. Walk from the innermost level outwards:
 *
 *   i          how many of the ranks that are left lie together inside this level: the largest divisor that fits
 *   seconds    of these i, with S bytes: ring or tree, by wire_time.h
 *   then       S / i bytes, n / i ranks, stride i, and the next level, until one rank is left
 *
 * All times are in seconds, all sizes in bytes. A level's speed, bw, is level_speed(level, S), of one rank's link: it
 * may depend on the bytes. Its latency, a, is alpha_s.
 *
 *   COMM_ALL_REDUCE                         2 x the better of ring and tree
 *   COMM_ALL_GATHER, COMM_REDUCE_SCATTER    ring; (n-1) latencies at the outermost level that the group crosses, n: of
 *                                           the whole group
 *   COMM_BROADCAST, COMM_REDUCE             S / bw + log2(i) a at each level
 *   COMM_BARRIER                            2 log2(i) a at each level
 *   COMM_ALL_TO_ALL, COMM_SEND              see wire_time.h; COMM_RECV takes no time
 *
 * Each of `pieces` pays the latencies, and call_s. 0 for a group of one. */
#include "lib/cost/wire_time.h"

#include <math.h>

/* TODO: the number of the first level that has all n ranks inside. */
int wire_level(const struct cluster *c, int64_t n, int64_t stride) { return (void)c, (void)n, (void)stride, -1; }

/* TODO */
double wire_seconds(const struct cluster *c, enum comm_op op, double bytes, int64_t n, int64_t stride, int64_t pieces) {
    (void)c, (void)op, (void)bytes, (void)n, (void)stride, (void)pieces;
    return NAN;
}
