/* One clock for all ranks. See trace_clock.c. */
#pragma once

#include "lib/comm/comm.h"

typedef double clock_reader(void);

/* One request for the time. sent_s, back_s: this rank's clock when it sends the request and gets the answer; there_s:
 * rank 0's clock in between. */
struct clock_ping { double sent_s, there_s, back_s; };
/* offset_s: rank 0's clock minus this rank's, at this rank's time at_s. Its error is at most uncertainty_s. */
struct clock_offset { double at_s, offset_s, uncertainty_s; };

/** The offset from the ping with the shortest round trip, of n >= 1 pings. Pure. */
struct clock_offset clock_offset_of(const struct clock_ping *, int n);

/** Convert a time of this rank to rank 0's clock, by the line through two measurements, which also extrapolates. If
 *  both have the same at_s, the offset is constant. Pure. */
double clock_at_rank_0(const struct clock_offset *before, const struct clock_offset *after, double time_s);

/** Measure this rank's offset to rank 0 of the group with the clock now(): clock_s, except in tests. 0 on rank 0.
 *  @collective{group} @errors E_COMM, E_TIMEOUT */
enum status clock_measure(const struct group *, clock_reader *now, struct clock_offset *out);
