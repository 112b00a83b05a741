/* The exchanges of a step: peers, operation, bytes, times, and the work that may hide them. Ops and techniques append
 * to one list (lib/program/bill.h); bytes and messages are functions of it, and no other code has those formulas. */
#pragma once

#include "lib/comm/mesh.h"

/* The work that may run meanwhile. */
enum exchange_when {
    IN_ROW,            /* nothing, or the weight gradient that stands after an asynchronous row */
    BESIDE_BLOCKS,     /* the pipeline's other microbatches */
    BEHIND_BACKWARD,   /* the rest of backward */
    BEHIND_BLOCK,      /* the block before the one that needs it */
    BEHIND_FORWARD,    /* the first forward of each chunk, where the block before the one that needs it is */
    AT_END             /* nothing: between backward and the next step */
};

struct exchange {
    enum mesh_axis axis;
    enum comm_op op;
    int64_t count;     /* elements of the whole buffer: reduced, sent, gathered from all or scattered to all */
    enum dtype dtype;
    int pieces;        /* the number of operations that carry it together; 0 is 1 */
    int64_t times;     /* a step; 0 is 1 */
    enum exchange_when when;
    int root;          /* of a broadcast or a reduce: rank of the group */
    double packing;    /* bytes that its rank reads and writes each time to pack and unpack it */
    int64_t every;     /* only one step in this number has it; 0 is 1 */
    bool along;        /* each directly follows the previous exchange: a rank waits once for both */
};

/** Algorithm bytes that one rank of a group of n sends in the mean step, as the ledger counts them over `every` steps;
 *  and operations of a step that has it. */
double exchange_bytes(const struct exchange *, int n);
int64_t exchange_operations(const struct exchange *);
