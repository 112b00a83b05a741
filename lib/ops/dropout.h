/* Dropout: y = m x, where m, 0 or 1 / (1 - p), is a pure function of the element's global indices and the step.
 *
 *   key      (seed, site, optimizer step)              site: dropout.stream, of "embedding", "attention", ...
 *   counter  {element / 4, t, head, sample}            all *global* indices; the Philox block of four draws
 *   draw     word element % 4 of the block             draw >= p 2^32: keep the element, m = 1 / (1 - p)
 *
 * `element` is the channel (embedding and residual sites, head 0) or the key position j (attention probabilities, with
 * t the query position). Backward and replay draw the same numbers again, and a rank with any shard of the tensor draws
 * the same numbers as a rank with all of it. So the mask need not be saved or sent.
 *
 * A step may also keep the mask, as an output of one byte per element (op->dropout_out). Backward then reads the mask
 * and does not draw; the results have the same bits. Most frameworks do so; it costs memory and saves draws.
 *
 * Source: Srivastava et al. 2014; counters after Salmon et al. 2011 (lib/base/rng.h). */
#pragma once

#include "lib/base/rng.h"
#include "lib/ops/op.h"
#include <math.h>

struct dropout {
    bool on;                  /* false: the identity (evaluation, or p = 0) */
    uint64_t threshold;       /* keep draws at or above p 2^32, rounded up */
    double scale;             /* 1 / (1 - p) */
    struct philox_key key;
    int64_t first_sample;     /* global index of sample 0 of the batch axis */
    uint8_t *mask;            /* 1: kept, 0: dropped; forward writes it, backward reads it. NULL: not stored */
};

/** Dropout as an op, y = m x: in[0] x (B,T,C) or (B,T,K), out[0] y, out[1] the mask if the step keeps it. */
extern const struct op op_dropout;

/** The output that keeps the mask; NULL: the step does not keep it. */
static inline uint8_t *dropout_mask(const struct call *call) {
    int i = 0;
    while (i < call->step->n_out && !(call->step->op->dropout_out >> i & 1)) i++;
    return i < call->step->n_out ? (uint8_t *)call->out[i].data : NULL;
}

/** The dropout of this call. Its rule's p is in [0, 1). */
static inline struct dropout dropout_of(const struct call *call) {
    const struct dropout_rule *rule = &call->step->dropout;
    double p = rule->p;
    struct dropout d = {call->training && p > 0, (uint64_t)ceil(p * 4294967296.0), 1 / (1 - p),
                        rng_key(call->seed, rule->stream, call->n_step), call->first_sample, dropout_mask(call)};
    return d;
}
