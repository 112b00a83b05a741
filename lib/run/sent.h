/* Counts the messages and bytes that a step's exchanges send, inside a rank's node and between nodes, with the tables
 * that execute them (lib/comm/hops/). The bill counts algorithm bytes instead, which are equal for every transport and
 * cheap to add up in a search that prices thousands of layouts. */
#pragma once

#include "lib/comm/hops/hops.h"
#include "lib/program/bill.h"
#include "lib/run/plan.h"

/* The algorithms of collectives, the nodes and the links. */
struct sent_rules {
    struct comm_rule rule[COMM_MAX_AXES];
    struct nodes nodes;
    bool links_known;            /* links are emulated, so that the library carries no message */
    struct hop_links links;
};
/** The rules of a plan. @errors E_CONFIG @collective{none} */
enum status sent_rules_of(const struct plan *, struct sent_rules *);

struct sent {
    const char *algorithm;       /* if "library", its messages are unknown, and count is 0 */
    int64_t operations;
    struct hop_count count;
    int64_t memory;              /* bytes that one operation needs in addition to its buffers (hop_walk.h) */
    double library_bytes;        /* algorithm bytes of the operations that the library carries */
};

/** Count one exchange of a rank, in a step that contains it. Its pieces are equal, or differ by one element. A message
 *  goes to the next rank of the group. @collective{none}
 *  @errors E_CONFIG: the rule's algorithm does not support the exchange; E_MEMORY */
enum status sent_by_exchange(const struct sent_rules *, const struct mesh_sizes *, int rank, const struct exchange *,
                             struct sent *);
/** sum += times x one; sum->algorithm becomes one's. @collective{none} */
void sent_add(struct sent *sum, const struct sent *one, int64_t times);
/** Sum all exchanges of a bill over an axis in the first n_steps: collectives [0], messages [1]. @collective{none}
 *  @errors as sent_by_exchange */
enum status sent_by_axis(const struct sent_rules *, const struct mesh_sizes *, int rank, const struct bill *,
                         enum mesh_axis, int64_t n_steps, struct sent sum[2]);
/** Compute, by axis, the bytes of memory that the collectives of a step take in addition to their buffers, if
 *  lib/comm/hops/ has as many in flight as it allows. @collective{none} @errors as sent_by_exchange */
enum status sent_memory(const struct sent_rules *, const struct mesh_sizes *, int rank, const struct bill *,
                        int64_t bytes[N_MESH_AXES]);
