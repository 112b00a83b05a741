/* Exercise: seconds of a collective (lesson 16, "Seconds of a collective"). lib/cost/wire_time.h has the formulas.
 *
 * The n ranks of a group are `stride` apart in the world. A level (struct level) has level.ranks neighboring ranks;
 * level[0] is the innermost, and the outermost has INT64_MAX ranks. Go from the innermost level outwards:
 *
 *   i          the number of remaining ranks inside one such level: the largest divisor that fits
 *   seconds    of these i ranks with S bytes: ring or tree, by wire_time.h
 *   then       continue with S / i bytes, n / i ranks, stride x i and the next level, until one rank remains
 *
 * All times are in seconds, all sizes in bytes. A level's speed bw is level_speed(level, S) of one rank's link, which
 * may depend on the bytes. Its latency a is alpha_s.
 *
 *   COMM_ALL_REDUCE                         2 x the better of ring and tree
 *   COMM_ALL_GATHER, COMM_REDUCE_SCATTER    ring; with n - 1 latencies, for the whole group's n, at the outermost level
 *                                           that the group crosses
 *   COMM_BROADCAST, COMM_REDUCE             S / bw + log2(i) a at each level
 *   COMM_BARRIER                            2 log2(i) a at each level
 *   COMM_ALL_TO_ALL, COMM_SEND              see wire_time.h; COMM_RECV takes no time
 *
 * Each of `pieces` pays the latencies and call_s. A group of one takes 0 s. */
#include "lib/cost/wire_time.h"

#include <math.h>

/* TODO: the number of the innermost level that contains all n ranks. */
int wire_level(const struct cluster *c, int64_t n, int64_t stride) { return (void)c, (void)n, (void)stride, -1; }

/* TODO */
double wire_seconds(const struct cluster *c, enum comm_op op, double bytes, int64_t n, int64_t stride, int64_t pieces) {
    (void)c, (void)op, (void)bytes, (void)n, (void)stride, (void)pieces;
    return NAN;
}
