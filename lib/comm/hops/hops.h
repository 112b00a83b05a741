/* Collectives as tables: each row of a rank's table names elements that the rank sends, receives or adds, and the peer.
 *
 * An algorithm is a pure function from a shape (operation, ranks, nodes, elements) to the rows of a rank. One
 * interpreter runs any table (hop_walk.h). From the same rows, without running them, come every rank's messages and
 * bytes inside a node and between nodes (hops_count), the time on given links (hop_simulate.h), and the output of
 * `trivium show comm`.
 *
 * A row names its elements by their index in the *whole* buffer: for gather, scatter and all_to_all, rank r's part is
 * [r count, (r + 1) count). Spaces:
 *
 *   FROM      the caller's source, never written        all_reduce, broadcast: no FROM, all is in TO
 *   TO        the caller's result
 *   SCRATCH   as large as the whole: partial sums of reduce_scatter (from is const) and of reduce (only the root's x
 *             may change)
 *
 * Order. Rows of a table do not wait for each other, with two exceptions: (1) a row that touches elements of an earlier
 * row waits for it, unless both only read; (2) rows with the same peer and direction begin in their order. The terms of
 * an ADD may *arrive* early, in one of HOP_SLOTS buffers that stay in a core's cache and that ADDs take in the table's
 * order; they are added later. So sums are made in the table's order, with the same bits every time, in any order of
 * arrival. Each sum is made on one rank, or on all ranks from the same two terms, so that all ranks get the same bits.
 * The rows of two ranks for each other have the same numbers of elements in the same order, so messages need no other
 * matching.
 *
 * Sources: Thakur, Rabenseifner and Gropp 2005 (pairwise, ring, halving, doubling, tree); Rabenseifner 2004 (ranks
 * beyond a power of two); Sanders, Speck and Traff 2009 (two trees); Patarasuk and Yuan 2009 (the least number of
 * bytes); Mikami et al. 2018 (hierarchical). */
#pragma once

#include "lib/comm/comm.h"

enum hop_kind {
    HOP_SEND,
    HOP_RECV,
    HOP_ADD,   /* receive terms, and reduce the elements with them (sum, maximum, minimum) */
    HOP_COPY   /* copy from `source` to `space` on this rank: its own part, or terms that are summed elsewhere */
};
enum hop_space { HOP_FROM, HOP_TO, HOP_SCRATCH };
enum {
    HOP_SEGMENT_BYTES = 256 << 10,   /* longest row, so that terms are added while they are in a core's cache */
    HOP_LINE_BYTES = 64            /* parts begin at a multiple of it, which is a cache line if the buffer is aligned */
};
enum { HOP_SLOTS = 2 };   /* buffers for terms: those of ADD i cannot arrive before ADD i - HOP_SLOTS is done */
/* The memory that the collectives of a group may use together. A single one may use more, and later ones wait for
 * it. */
enum { HOP_MEMORY_BYTES = 4 << 20 };

struct hop_row {
    enum hop_kind kind;
    enum hop_space space, source;   /* source: of a COPY */
    int peer;                       /* rank of the group; for a COPY this rank */
    int64_t first, count;           /* elements of the space */
    int64_t source_first;           /* of a COPY */
    bool after_sums;                /* waits for all ADDs before it, because peers need those sums first */
};

struct hop_table {
    struct hop_row *hop;                /* owned */
    int n, room;
    int64_t scratch;                /* elements of SCRATCH; 0: none */
    int64_t most_added;             /* elements of the largest ADD, which a buffer for terms must hold */
    bool no_memory;                 /* an allocation failed, so that rows are missing */
};
/** Free the table's rows; the table is then empty. */
void hop_table_free(struct hop_table *);

struct hop_shape {
    enum comm_op op;
    int n, root;                    /* ranks of the group; root of broadcast and reduce */
    int64_t count;                  /* as in comm.h: of the whole; for gather, scatter and all_to_all of one part */
    int64_t segment; /* longest row, in elements, so that adding stays in a core's cache; 0: no limit */
    int64_t line;                   /* elements; parts of an all_reduce begin at multiples of it; 0 counts as 1 */
    const int *node;                /* node[r]: the node of rank r; NULL: all ranks are on one node. Borrowed */
};
/** Elements of the whole buffer. */
int64_t hop_shape_whole(const struct hop_shape *);
/** The node of a rank of the group. */
int hop_node(const struct hop_shape *, int rank);

/** The costs of a link, for messages inside a node [0] and between nodes [1]. */
struct hop_links {
    double latency_s[2], s_per_byte[2];
    double s_per_byte_added;
    bool nic_per_node; /* the ranks of a node share one NIC, each way; otherwise each rank has its own */
};

/** Messages and bytes that a rank sends inside its node [0] and to other nodes [1]. */
struct hop_count { int64_t messages[2], bytes[2]; };

/** The costs by closed forms, for equal links, S bytes of the whole, a NIC per rank, and parts that divide evenly:
 *  messages and bytes of the rank that sends most, and the seconds until the last rank is done. NaN: no closed form
 *  exists; use the table or the simulation. */
struct hop_form { double messages, bytes, seconds; };

struct comm_algorithm {
    const char *name, *what;        /* "ring", and one sentence */
    const char *messages, *bytes, *seconds;   /* the closed forms of an all_reduce, or else of its op, as printed */
    unsigned ops;                   /* 1 << enum comm_op */
    /* Can it do this shape? NULL: it can do all shapes of its ops. Pure; the same on all ranks. needs: the condition,
     * for an error message. */
    bool (*fits)(const struct hop_shape *);
    const char *needs;
    /* Append the rows of a rank. Pure. */
    void (*rows)(const struct hop_shape *, int rank, struct hop_table *);
    struct hop_form (*form)(const struct hop_shape *, double bytes, const struct hop_links *);
};
/** All algorithms; NULL ends the list. */
extern const struct comm_algorithm *const comm_algorithms[];
/** The algorithm of this name, or NULL. */
const struct comm_algorithm *comm_algorithm_find(const char *name);
/** Does the algorithm have the shape's operation, for this number of ranks and these nodes? */
bool comm_algorithm_fits(const struct comm_algorithm *, const struct hop_shape *);

/** The rows of a rank. The caller frees them, also after an error. @errors E_MEMORY */
enum status hops_make(const struct comm_algorithm *, const struct hop_shape *, int rank, struct hop_table *out);
/** The messages and bytes that the rows send. */
struct hop_count hops_count(const struct hop_table *, const struct hop_shape *, int rank, enum dtype);
/** Must row `later` wait until `earlier` of the same table is done (rule 1 above)? */
bool hops_conflict(const struct hop_row *earlier, const struct hop_row *later);
/** Do both rows send to the same peer, or both receive from it (rule 2)? */
bool hops_same_lane(const struct hop_row *, const struct hop_row *);
