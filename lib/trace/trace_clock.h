/* One clock for all ranks. See trace_clock.c. */
#pragma once

#include "lib/comm/comm.h"

typedef double clock_reader(void);

/* One question for the time: sent and answered by this rank's clock, and what rank 0's clock said in between. */
struct clock_ping { double sent_s, there_s, back_s; };
/* Rank 0's clock minus this rank's, at this rank's time at_s; the truth is at most uncertainty_s away. */
struct clock_offset { double at_s, offset_s, uncertainty_s; };

/** The best of n >= 1 pings: the one that came back soonest. Pure. */
struct clock_offset clock_offset_of(const struct clock_ping *, int n);

/** A time of this rank on rank 0's clock: the line through two measurements, beyond them too; their offset if they are
 *  the same. Pure. */
double clock_at_rank_0(const struct clock_offset *before, const struct clock_offset *after, double time_s);

/** Measure this rank's offset to rank 0 of the group, by now(), which is clock_s but for tests. On rank 0: exactly 0.
 *  @collective{group} @errors E_COMM, E_TIMEOUT */
enum status clock_measure(const struct group *, clock_reader *now, struct clock_offset *out);
