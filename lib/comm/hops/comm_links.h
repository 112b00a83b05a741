/* Emulated links, slow on purpose: they behave like a network, on a laptop.
 *
 * A message is sent as usual, with a stamp: the time at which it would have left its sender's link. The receiver takes
 * it only at the time at which it would have arrived, after its own link and the latency (hop_simulate.h has the
 * model). No rank sleeps, so computation overlaps as on a real network. Only collectives by hops are slowed down, so
 * under emulation all collectives except the barrier go by hops.
 *
 * Sums and bytes are real, but seconds are not: output calls them "emulated". All ranks must be on one host and
 * share its clock. Links must be slow compared with the scheduler's time slice (20 ms per message if ranks outnumber
 * cores). */
#pragma once

#include "lib/comm/hops/hop_walk.h"

/** Parse "2ms,50MB/s": latency (s, ms, us, ns) and bandwidth (B/s, kB/s, MB/s, GB/s), into index `between` (0 or 1) of
 *  links. For 1, ",node" or ",rank" may follow: the owner of the NIC. Pure. @errors E_CONFIG naming the option */
enum status comm_link_parse(const char *option, const char *text, int between, struct hop_links *links);

/** From now on emulate these links; NULL: use the real links. slower: a factor on this rank's own seconds per byte,
 *  which the choice of an algorithm ignores; usually 1. No operation may be in flight.
 *  @collective{world} @errors E_CONFIG: ranks on more than one host; E_COMM, E_MEMORY */
enum status comm_emulate_links(const struct hop_links *, double slower);
/** The emulated links, or NULL. */
const struct hop_links *comm_links_emulated(void);
