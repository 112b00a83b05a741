/* Emulated links, slow on purpose: a network on a laptop.
 *
 * A message is sent as usual, with a stamp: the time at which it would have left its sender's link. The receiver takes
 * it only when it would be through its own link and a latency later (hop_simulate.h has the model). Nothing sleeps, so
 * computation overlaps as on a real network. Only collectives by hops are slowed down, so under emulation all but the
 * barrier go by hops.
 *
 * Sums and bytes are real, seconds are not: output calls them "emulated". All ranks must be on one host and share its
 * clock; and links must be slow against a scheduler's tick (20 ms a message where ranks outnumber cores). */
#pragma once

#include "lib/comm/hops/hop_walk.h"

/** "2ms,50MB/s": latency (s, ms, us, ns) and bandwidth (B/s, kB/s, MB/s, GB/s) into between 0 or 1 of links; after the
 *  second of them ",node" or ",rank": whose NIC it is. Pure. @errors E_CONFIG naming the option */
enum status comm_link_parse(const char *option, const char *text, int between, struct hop_links *links);

/** From here on emulate these links; NULL: the real ones. slower: this rank's own links take this many times as long
 *  per byte, which the choice of an algorithm ignores; 1: not slower. Call it while nothing is in flight.
 *  @collective{world} @errors E_CONFIG: ranks on more than one host; E_COMM, E_MEMORY */
enum status comm_emulate_links(const struct hop_links *, double slower);
/** Those in force, or NULL. */
const struct hop_links *comm_links_emulated(void);
