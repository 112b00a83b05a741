/* The properties of a cluster that determine the time of a step: a rank's arithmetic, memory and bandwidth, and the
 * links between ranks. A file in configs/clusters/ holds the figures; a comment names the source of each.
 *
 *   rank      a GPU, or a share of this machine's cores
 *   level     a kind of links and the ranks that they connect: a node, a rack, the network. Inner levels are faster.
 *             Ranks are numbered so that neighbors share a level (lib/comm/mesh.h)
 *
 * Units: seconds, bytes, bytes per second, flops per second. */
#pragma once

#include "lib/base/status.h"
#include "lib/cost/stack.h"
#include "lib/device/dtype.h"
#include <stdint.h>

/** Points (at, is) of a function; log-log interpolation between the points, constant outside. */
enum { MAX_CURVE = 16 };
struct curve { int n; double at[MAX_CURVE], is[MAX_CURVE]; };
double curve_at(const struct curve *, double x);             /* 1 if the curve has no points */

/* From the innermost level outward. A cluster has only the levels that its file names: by keys node-, rack- and net-,
 * or by the list `levels`, which names any. */
enum { LEVEL_NODE, LEVEL_RACK, LEVEL_NET, N_LEVEL_KEYS, MAX_LEVELS = 8 };
struct level {
    char name[16];
    int64_t ranks;            /* in one node, rack or network of this level; the outermost has all ranks */
    double bytes_per_s;       /* a rank's speed each way in a large collective: its share of a network adapter */
    double alpha_s;           /* latency: until a message's first byte arrives */
    struct curve part_by_size;   /* fraction of bytes_per_s, by the operation's bytes: small operations pay for their
                                  * pieces, and on a CPU large ones exceed the caches */
};

enum { MAX_MOVERS = 32 };
/** The level's speed in bytes per second for an operation of `bytes` bytes. */
double level_speed(const struct level *, double bytes);

struct cluster {
    char name[64];
    int64_t memory_bytes, reserve_bytes;     /* of a rank; reserve: memory outside the memory plan (context, NCCL) */
    int64_t cores;                           /* shared by all ranks; 0: each rank has its own processor */
    double switch_s, cold_s;                 /* if ranks outnumber cores, added to a collective or message: switch, to
                                              * wait for a core; cold, because the next rows find cold caches */

    /* one rank's arithmetic: see op_time.h */
    double flops_per_s[N_DTYPES];            /* peak; 0: no arithmetic in this dtype */
    double product_part;                     /* fraction of the peak that large products reach */
    double product_m0, product_n0, product_k0;   /* m, n or k that gives half of product_part if the others are large */
    int64_t tile_units;                      /* processors that share a product's tiles; 0: no tiles */
    double attention_forward_part, attention_backward_part;   /* fraction of the peak for blocked attention */
    double memory_bytes_per_s, stream_part;  /* peak; the fraction of it for an op that only moves data */
    struct mover { char name[32]; double bytes_per_s; } mover[MAX_MOVERS];   /* ops with a speed of their own instead */
    int n_movers;
    double launch_s;                         /* launch time of every row */
    double host_bytes_per_s;                 /* between a rank's memory and the host's, each way */
    double host_memory_bytes_per_s;          /* a rank's share of the host's memory bandwidth */

    struct level level[MAX_LEVELS];
    int n_levels;
    bool rails;                              /* level 1 joins rank k of every node: other groups cross level 2 */
    double call_s;                           /* fixed cost of each collective and message */
    double overlap_part;                     /* the largest fraction of an exchange that computation can hide */
    double overlap_slowdown;                 /* fraction by which an exchange slows computation down */

    double mtbf_rank_s;                      /* mean time between failures of a rank; 0: a rank never fails */
    double jitter_cv;                        /* of a node's step time: standard deviation / mean */
    double watts, price_per_hour;            /* of a rank; 0: unknown */
    struct stack stack;                      /* the program that trains */
};

/** Read a cluster: a path, or the name of a file in configs/clusters/ ("dgx-a100").
 *  @collective{none} @errors E_DATA: no such file or name (with a list of the names); E_FORMAT, E_USAGE: as
 *  options_read_file; E_CONFIG: a required figure is missing, or two figures contradict each other */
enum status cluster_read(const char *name_or_path, struct cluster *out);

/** Limit a rank's memory to `bytes`, all of it for the memory plan (the reserve becomes 0). 0: no limit.
 *  @collective{none} */
void cluster_limit_memory(struct cluster *, int64_t bytes);
