/* Links that are slow on purpose: what a laptop shows of a network.
 *
 * A message is sent as ever, together with a stamp: when it would have left its sender's link. The receiver takes it
 * only when it would be through its own link and a latency later (hop_simulate.h has the model). Nothing sleeps, so
 * computing overlaps as it would. Only what goes by hops is slow, so under emulation everything but the barrier does.
 *
 * Sums and bytes are real, seconds are not: output calls them "emulated". All ranks must be on one host, whose
 * clock they share; and links must be slow against a scheduler's tick (20 ms a message where ranks outnumber cores). */
#ifndef TRIVIUM_COMM_COMM_LINKS_H
#define TRIVIUM_COMM_COMM_LINKS_H

#include "lib/comm/hops/hop_walk.h"

/** "2ms,50MB/s": latency (s, ms, us, ns) and bandwidth (B/s, kB/s, MB/s, GB/s) into between 0 or 1 of links; after the
 *  second of them ",node" or ",rank": whose NIC it is. Pure. @errors E_CONFIG naming the option */
enum status comm_link_parse(const char *option, const char *text, int between, struct hop_links *links);

/** From here on links are these; NULL: as they are. slower: this rank's own take this many times as long per byte,
 *  which the choice of an algorithm ignores; 1: they do not. While nothing is in flight.
 *  @collective{world} @errors E_CONFIG: ranks on more than one host; E_COMM, E_MEMORY */
enum status comm_emulate_links(const struct hop_links *, double slower);
/** Those in force, or NULL. */
const struct hop_links *comm_links_emulated(void);

#endif
