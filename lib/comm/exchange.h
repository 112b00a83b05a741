/* The exchanges of a step: peers, operation, bytes, times, and the work that may hide them. Ops and techniques append
 * to one list (lib/program/bill.h), from which all bytes and messages are computed. */
#pragma once

#include "lib/comm/mesh.h"

/* The work that may run during the exchange. */
enum exchange_when {
    IN_ROW,            /* no work, or the weight gradient that follows an asynchronous row */
    BESIDE_BLOCKS,     /* the pipeline's other microbatches */
    BEHIND_BACKWARD,   /* the rest of backward */
    BEHIND_BLOCK,      /* the block before the block that needs the data */
    BEHIND_FORWARD,    /* in the first forward of each chunk, the block before the block that needs the data */
    AT_END             /* no work, because it is between backward and the next step */
};

struct exchange {
    enum mesh_axis axis;
    enum comm_op op;
    int64_t count;     /* elements of the whole buffer, which is reduced, sent, gathered or scattered */
    enum dtype dtype;
    int pieces;        /* number of operations that together move the buffer; 0 counts as 1 */
    int64_t times;     /* per step; 0 counts as 1 */
    enum exchange_when when;
    int root;          /* of a broadcast or a reduce: rank of the group */
    double packing;    /* bytes that a rank reads and writes to pack and unpack the buffer once */
    int64_t every;     /* only one step in `every` has it; 0 counts as 1 */
    bool along;        /* this exchange directly follows the previous one, and a rank waits once for both */
};

/** exchange_bytes: algorithm bytes that one rank of a group of n sends per step, as the ledger counts them, averaged
 *  over `every` steps. exchange_operations: the number of operations in a step that has the exchange. */
double exchange_bytes(const struct exchange *, int n);
int64_t exchange_operations(const struct exchange *);
