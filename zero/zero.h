/* ZeRO: data parallel replicas shard the states that each of them would otherwise hold whole. See zero.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_zero;

enum zero_offload { OFFLOAD_NONE, OFFLOAD_OPTIMIZER, OFFLOAD_PARAMS };
enum zero_offload_to { OFFLOAD_TO_HOST, OFFLOAD_TO_DISK };
enum { SHARD_NODE = -1 };                /* as many replicas as there are on a node */
struct zero_options {
    int64_t stage;
    int64_t shard;                       /* replicas that share a state; 0: all */
    int64_t secondary;                   /* replicas that share a second copy of weights; 0: there is none */
    int offload, offload_to;             /* enum zero_offload: what leaves the device; enum zero_offload_to: where to */
    int weight_codec;                    /* enum codec_kind, up to int8: the code in which stage 3 gathers weights */
};
static inline struct zero_options *zero_options(const struct plan *p) { return plan_own(p, &technique_zero.options); }

/** Bytes of model states that one of n replicas keeps for each parameter, by the paper's formulas:
 *    stage 0  w + g + s      1  w + g + s/n      2  w + (g + s)/n      3  (w + g + s)/n
 *  with w, g, s the bytes of a parameter's weight, gradient and optimizer states (2, 2, 12 in bf16 with fp32 states).
 *  @source Rajbhandari et al. 2020, section 3 and figure 1  @collective{none} */
double zero_bytes_per_param(int stage, int64_t n, double weight, double grad, double states);

/* The number of replicas that share a state or a second copy: all, those of a node, or as given. See
 * zero_shards.c. */

/** Set mesh.shard from the options and the mesh's dimensions. @errors E_CONFIG: the nodes differ in their number of
 *  replicas, or are unknown  @collective{none} */
enum status zero_shards_settle(struct plan *);
/** Check --shard or --zero-secondary of a settled plan. Pure. @errors E_CONFIG with value, limit and remedy */
enum status zero_shards_check(const struct plan *);
