/* What the exchanges of a step really send: messages and bytes inside a rank's node and between nodes, by the tables
 * that carry them (lib/comm/hops/). The bill has algorithm bytes instead: they are the same for every transport and
 * cheap to add up, for a search that prices thousands of layouts. */
#pragma once

#include "lib/comm/hops/hops.h"
#include "lib/program/bill.h"
#include "lib/run/plan.h"

/* The algorithms of collectives, the nodes and the links. */
struct sent_rules {
    struct comm_rule rule[COMM_MAX_AXES];
    struct nodes nodes;
    bool links_known;            /* emulated: then nothing goes by the library */
    struct hop_links links;
};
/** A plan's. @errors E_CONFIG @collective{none} */
enum status sent_rules_of(const struct plan *, struct sent_rules *);

struct sent {
    const char *algorithm;       /* "library": its messages are unknown, and count is 0 */
    int64_t operations;
    struct hop_count count;
    int64_t memory;              /* bytes that one operation needs in addition to its buffers (hop_walk.h) */
    double library_bytes;        /* algorithm bytes of what goes by the library */
};

/** One exchange of a rank of a layout, in a step that has it. Its pieces are equal, or differ by one element. A message
 *  goes to the next rank of the group. @collective{none}
 *  @errors E_CONFIG: the rule's algorithm cannot do it; E_MEMORY */
enum status sent_by_exchange(const struct sent_rules *, const struct mesh_sizes *, int rank, const struct exchange *,
                             struct sent *);
/** sum += one, `times` times; the algorithm is the last one's. @collective{none} */
void sent_add(struct sent *sum, const struct sent *one, int64_t times);
/** All exchanges of a bill over an axis in the first n_steps: collectives [0] and messages [1]. @collective{none}
 *  @errors as sent_by_exchange */
enum status sent_by_axis(const struct sent_rules *, const struct mesh_sizes *, int rank, const struct bill *,
                         enum mesh_axis, int64_t n_steps, struct sent sum[2]);
/** bytes: the most memory that the collectives of a step take in addition to their buffers, by axis, with as many in
 *  flight as lib/comm/hops/ allows. @collective{none} @errors as sent_by_exchange */
enum status sent_memory(const struct sent_rules *, const struct mesh_sizes *, int rank, const struct bill *,
                        int64_t bytes[N_MESH_AXES]);
