/* A cluster, as far as the time of a step depends on it: what one rank computes, holds and moves in a second, and what
 * lies between ranks. Figures come from a file (configs/clusters/), each with a comment that says where it is from.
 *
 *   rank      a GPU, or a share of this machine's cores
 *   level     a circle of ranks that reach each other over the same links: a node, a rack, the network. Inner levels
 *             are faster. Ranks are numbered so that neighbors share a level (lib/comm/mesh.h)
 *
 * All seconds are s, all sizes bytes, all speeds bytes or flops a second. */
#pragma once

#include "lib/base/status.h"
#include "lib/device/dtype.h"
#include <stdbool.h>
#include <stdint.h>

/** Points of a function: log-log between them, flat beyond. */
enum { MAX_CURVE = 16 };
struct curve { int n; double at[MAX_CURVE], is[MAX_CURVE]; };
double curve_at(const struct curve *, double x);             /* 1 if it has no points */

/* Inner first. A level that the file does not name is not there. */
enum { LEVEL_NODE, LEVEL_RACK, LEVEL_NET, MAX_LEVELS };
struct level {
    const char *name;
    int64_t ranks;            /* of one such circle; the outermost has all */
    double bytes_per_s;       /* each way, of one rank, that a large collective reaches: its share of an adapter */
    double alpha_s;           /* until a message's first byte arrives */
    struct curve part_by_size;   /* of that speed, by the bytes of an operation: small ones pay for their pieces, and
                                  * on a CPU large ones leave the caches */
};

enum { MAX_MOVERS = 32 };
/** Bytes per second of an operation of `bytes` bytes. */
double level_speed(const struct level *, double bytes);

struct cluster {
    char name[64];
    int64_t memory_bytes, reserve_bytes;     /* of a rank; what the program's own plan does not hold: context, NCCL */
    int64_t cores;                           /* that all ranks share; 0: each has its own processor */
    double switch_s, cold_s;                 /* of a row's operation, or a message, where ranks outnumber cores: waiting
                                              * for a core; and rows that follow find other data in the caches */

    /* one rank's arithmetic: see op_time.h */
    double flops_per_s[N_DTYPES];            /* peak; 0: it does not compute in this dtype */
    double product_part;                     /* of the peak that large products reach; */
    double product_m0, product_n0, product_k0;   /* the m, n or k at which they reach half of it, the others large */
    int64_t tile_units;                      /* processors that share a product's tiles; 0: tiles do not matter */
    double attention_forward_part, attention_backward_part;   /* of the peak, of the flops that are done */
    double memory_bytes_per_s, stream_part;  /* peak, and the part that an op reaches which only moves, */
    struct mover { char name[32]; double bytes_per_s; } mover[MAX_MOVERS];   /* unless it is one of these */
    int n_movers;
    double launch_s;                         /* of every row */
    double host_bytes_per_s;                 /* between a rank's memory and the host's, each way */
    double host_memory_bytes_per_s;          /* of the host's memory, a rank's share */

    struct level level[MAX_LEVELS];
    int n_levels;
    double call_s;                           /* fixed cost of each collective and message */
    double overlap_part;                     /* of an exchange that other work can hide, at most */
    double overlap_slowdown;                 /* computation during an exchange takes 1 + this times as long */

    double mtbf_rank_s;                      /* mean time between failures of a rank; 0: it never fails */
    double jitter_cv;                        /* of a node's step time: standard deviation / mean */
    double watts, price_per_hour;            /* of a rank; 0: not known */
};

/** Read a cluster: a path, or the name of a file in configs/clusters/ ("dgx-a100").
 *  @collective{none} @errors E_DATA: no such file, or name, with those that there are; E_FORMAT, E_USAGE: as
 *  options_read_file; E_CONFIG: a figure that must be there is missing, or two do not fit each other */
enum status cluster_read(const char *name_or_path, struct cluster *out);

/** Give a rank no more than `bytes` of its memory, all of it for the program's own plan. 0: no limit.
 *  @collective{none} */
void cluster_limit_memory(struct cluster *, int64_t bytes);
