/* Bias by relative position, which T5 has in place of a position embedding. Each head has a table of BUCKETS numbers.
 * The distance from the query at t to the key at j selects the number that is added to their score:
 *
 *   s[t,j] = q[t] . k[j] + w[bucket(j - t), h]
 *   dw[n,h] = sum of ds[t,j] over samples, and over t, j with bucket(j - t) = n
 *
 * Each distance below `near` has a bucket of its own. From `near` to FAR buckets grow with the logarithm, and the last
 * bucket has all larger distances. Where queries see both sides (mask FULL) half of the buckets are for keys after the
 * query. Otherwise all buckets are for keys before it, because no query sees a later key.
 *
 *   n = |j - t|      near = half of the side's buckets
 *   n < near: n      else near + floor(near log(n / near) / log(FAR / near)), at most the side's last
 *
 * weight[0] w (R,H): R = BUCKETS. Heads may be a shard. Kernels read the table by distance: once a call its R numbers
 * are spread over an array (H, Tq + Tk - 1). Each head of each sample adds its gradient to its own part of an array (B,
 * H, Tq + Tk - 1), and these parts are added up in order afterwards. So the sums do not depend on the number of
 * threads.
 *
 * Source: Raffel et al. 2020 (T5), section 2.1; huggingface/transformers, T5Attention._relative_position_bucket, which
 * counts distances from the query to the key, as here. */
#pragma once

#include "lib/ops/op.h"

enum { ATTENTION_BUCKETS = 32, ATTENTION_FAR = 128 };

/** The bucket of a key that is `distance` positions after the query; a negative distance is before it. Pure. */
int attention_bucket(int64_t distance, bool both_sides);

/** Does the step have a table? In attention over a cache, the weight is the cache. Pure. */
static inline bool attention_has_bias(const struct call *c) {
    return c->step->n_weight > 0 && c->step->op->weights_with_input && !c->step->attention.view.sinks;
}

/** Bytes of the two arrays at the beginning of the scratch; 0: the step has no table. */
int64_t attention_bias_bytes(const struct call *, enum row_kind);
/** Check that the table fits the queries' heads. @errors E_CONFIG */
enum status attention_bias_check(const struct call *);
