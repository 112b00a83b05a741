/* Bias by relative position: what T5 has instead of positions. A table of BUCKETS numbers for each head is added to the
 * scores; which of them, the distance from the query at t to the key at j says:
 *
 *   s[t,j] = q[t] . k[j] + w[bucket(j - t), h]
 *   dw[n,h] = sum of ds[t,j] over samples, and over t, j with bucket(j - t) = n
 *
 * Near distances have a bucket each, farther ones share: from `near` on, buckets grow with the logarithm, up to FAR,
 * and the last has all that is beyond. Where queries see both sides (mask FULL) half of the buckets are for keys that
 * come later; else all are for keys that came before, and there are none for others, which no query sees.
 *
 *   n = |j - t|      near = half of the side's buckets
 *   n < near: n      else near + floor(near log(n / near) / log(FAR / near)), at most the side's last
 *
 * weight[0] w (R,H): R = BUCKETS. Heads may be a shard. Kernels read it by distance: R numbers are spread over the
 * Tq + Tk - 1 distances once a call, (H, distances), and what they find of the gradient, (B, H, distances), each head
 * of each sample its own, is added up in order afterwards. So the sums do not depend on the number of threads.
 *
 * Source: Raffel et al. 2020 (T5), section 2.1; huggingface/transformers, T5Attention._relative_position_bucket, which
 * counts distances from the query to the key, as here. */
#pragma once

#include "lib/ops/op.h"

enum { ATTENTION_BUCKETS = 32, ATTENTION_FAR = 128 };

/** The bucket of a key that comes `distance` after the query; negative: before. Pure. */
int attention_bucket(int64_t distance, bool both_sides);

/** Has the step a table? (The weight of attention over a cache is none.) Pure. */
static inline bool attention_has_bias(const struct call *c) {
    return c->step->n_weight > 0 && c->step->op->weights_with_input;
}

/** Bytes at the beginning of a row's scratch for the two arrays; 0: the step has no table. */
int64_t attention_bias_bytes(const struct call *, enum row_kind);
/** The table fits the queries' heads. @errors E_CONFIG */
enum status attention_bias_check(const struct call *);
