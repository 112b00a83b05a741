/* Collectives as tables: the rows of a rank say, in order, which elements it sends, receives and adds, and with which
 * peer.
 *
 * An algorithm is a pure function from a shape (operation, ranks, nodes, elements) to the rows of a rank. One
 * interpreter runs any table (hop_walk.h). Without running, the same rows yield every rank's messages and bytes inside
 * a node and between nodes (hops_count), the time on given links (hop_simulate.h), and the rows of `trivium show comm`.
 *
 * A row names its elements where they lie in the *whole* buffer: rank r's part of n is [r count, (r + 1) count) for
 * gather, scatter and all_to_all. Spaces:
 *
 *   FROM      the caller's source, never written        all_reduce, broadcast: there is none, all is in TO
 *   TO        the caller's result
 *   SCRATCH   as large as the whole: partial sums of reduce_scatter (from is const) and of reduce (only the root's x
 *             may change)
 *
 * Order. Rows of a table need not wait for each other, with two exceptions: (1) a row that touches elements of an
 * earlier row waits for it, unless both only read; (2) rows of one peer and direction begin in their order. The terms
 * of an ADD may *arrive* early, in one of HOP_SLOTS buffers that stay in a core's cache, which ADDs take in the table's
 * order; they are added later. So sums are made in the table's order, with the same bits every time, in any order of
 * arrival. Each sum is made at one rank, or at all ranks from the same two terms: the same bits everywhere. The rows of
 * two ranks for each other have the same numbers of elements in the same order: messages need no other matching.
 *
 * Sources: Thakur, Rabenseifner and Gropp 2005 (pairwise, ring, halving, doubling, tree); Rabenseifner 2004 (ranks
 * beyond a power of two); Sanders, Speck and Traff 2009 (two trees); Patarasuk and Yuan 2009 (the least number of
 * bytes); Mikami et al. 2018 (hierarchical). */
#pragma once

#include "lib/comm/comm.h"

enum hop_kind {
    HOP_SEND,
    HOP_RECV,
    HOP_ADD,   /* receive terms, and reduce what is there with them (sum, maximum, minimum) */
    HOP_COPY   /* from `source` to `space`, this rank alone: its own part, or terms that will be summed elsewhere */
};
enum hop_space { HOP_FROM, HOP_TO, HOP_SCRATCH };
enum {
    HOP_SEGMENT_BYTES = 256 << 10,   /* of what is carried: terms are added while they are in a core's cache, */
    HOP_LINE_BYTES = 64              /* and parts begin at a cache line, if the buffer does */
};
enum { HOP_SLOTS = 2 };   /* an ADD cannot arrive before the one HOP_SLOTS before it is done */
/* The memory that a group's collectives may take at a time; one alone may take more, and the others wait in line. */
enum { HOP_MEMORY_BYTES = 4 << 20 };

struct hop_row {
    enum hop_kind kind;
    enum hop_space space, source;   /* source: of a COPY */
    int peer;                       /* rank of the group; of a COPY, this rank */
    int64_t first, count;           /* elements of the space */
    int64_t source_first;           /* of a COPY */
    bool after_sums;                /* waits for all ADDs before it: peers need their sums sooner than this row */
};

struct hop_table {
    struct hop_row *hop;                /* owned */
    int n, room;
    int64_t scratch;                /* elements of SCRATCH; 0: none */
    int64_t most_added;             /* elements of the largest ADD: what a buffer of terms must hold */
    bool no_memory;                 /* rows are missing */
};
/** Free its rows; it is then empty. */
void hop_table_free(struct hop_table *);

struct hop_shape {
    enum comm_op op;
    int n, root;                    /* ranks of the group; root of broadcast and reduce */
    int64_t count;                  /* as comm.h: of the whole; for gather, scatter and all_to_all of one part */
    int64_t segment; /* elements: longer rows are cut, so that adding stays in a core's cache; 0: never */
    int64_t line;                   /* elements: parts of an all_reduce begin at multiples of it; 0 is 1 */
    const int *node;                /* node[r]: on which node rank r is; NULL: all on one. Borrowed */
};
/** Elements of the whole buffer. */
int64_t hop_shape_whole(const struct hop_shape *);
/** The node of a rank of the group. */
int hop_node(const struct hop_shape *, int rank);

/** The costs of a link, for messages inside a node [0] and between nodes [1]. */
struct hop_links {
    double latency_s[2], s_per_byte[2];
    double s_per_byte_added;
    bool nic_per_node; /* messages between nodes share one NIC a node, each way; otherwise each rank has one */
};

/** Messages and bytes that a rank sends inside its node [0] and to other nodes [1]. */
struct hop_count { int64_t messages[2], bytes[2]; };

/** Closed forms, for equal links, S bytes (of the whole), a NIC a rank, parts that divide evenly: of the rank that
 *  sends most, and the seconds until the last rank is done. NaN: there is none, see the table or the simulation. */
struct hop_form { double messages, bytes, seconds; };

struct comm_algorithm {
    const char *name, *what;        /* "ring", and one sentence */
    const char *messages, *bytes, *seconds;   /* the closed forms of an all_reduce (or of the op it has), as printed */
    unsigned ops;                   /* 1 << enum comm_op */
    /* Can it do this shape? NULL: any of its ops. Pure; the same on all ranks. What it needs, for an error: */
    bool (*fits)(const struct hop_shape *);
    const char *needs;
    /* The rows of a rank, appended. Pure. */
    void (*rows)(const struct hop_shape *, int rank, struct hop_table *);
    struct hop_form (*form)(const struct hop_shape *, double bytes, const struct hop_links *);
};
/** All of them; NULL ends the list. */
extern const struct comm_algorithm *const comm_algorithms[];
/** By name, or NULL. */
const struct comm_algorithm *comm_algorithm_find(const char *name);
/** Does it have the operation, for that many ranks? */
bool comm_algorithm_fits(const struct comm_algorithm *, const struct hop_shape *);

/** The rows of a rank. The caller frees them, also after an error. @errors E_MEMORY */
enum status hops_make(const struct comm_algorithm *, const struct hop_shape *, int rank, struct hop_table *out);
/** What the rows send. */
struct hop_count hops_count(const struct hop_table *, const struct hop_shape *, int rank, enum dtype);
/** May row `later` not begin before `earlier` of the same table is done? (rule 1 above) */
bool hops_conflict(const struct hop_row *earlier, const struct hop_row *later);
/** Both to, or both from, one peer (rule 2). */
bool hops_same_lane(const struct hop_row *, const struct hop_row *);
