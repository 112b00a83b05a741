/* T5 as a list of steps: an encoder reads a text of which spans are missing, a decoder writes them.
 *
 *   encoder   x = wte[token]   x = x + o(attention(q(n), kv(n))), n = norm(x)   no mask; bias by distance
 *                              x = x + fc2(act(fc(norm(x))))                    act: relu, or --activation
 *             c = norm(x), after the last layer
 *   decoder   y = wte[token]   y = y + o(attention(q(n), kv(n))), n = norm(y)   causal mask; a bias of its own
 *                              y = y + o(attention(q(norm(y)), kv(c)))          cross-attention: all of c, no bias
 *                              y = y + fc2(act(fc(norm(y))))
 *   head      loss = cross_entropy(norm(y) wte^T / sqrt(C))
 *
 * norm: rmsnorm with eps 1e-6, before each part. No matrix has a bias. Scores are not divided by sqrt(D); instead
 * initial weights are smaller. There are no position embeddings. A table of 32 numbers per head adds to each score a
 * bias by the distance from query to key: one table for all encoder layers, one for all decoder layers
 * (lib/ops/attention/attention_bias.h). wte is one param, used three times: by encoder, decoder and head. With --tie
 * off the head has its own param, and y is not divided by sqrt(C).
 *
 * --layers counts the layers of both stacks; the first half encodes. A pipeline may cut anywhere: two streams go from
 * block to block, the encoder's and the decoder's. Encoder layers pass the decoder's embedding on, decoder layers the
 * encoder's output. The first stage embeds both texts, so wte is tied between the first and the last stage only. Stages
 * whose layers read the same bias sum its gradient (pp/).
 *
 * The training task is span corruption (t5_spans.c). All samples have the same lengths: from seq tokens the encoder
 * reads T_e = seq - noise + spans, and the decoder reads and predicts T_d = noise + spans.
 *
 * T5 of 2020 (checkpoints t5-small to t5-11b) has relu and a tied head, T5 1.1 and Flan-T5 have geglu and a head of
 * their own. A gated MLP has one matrix `up` of both halves in place of fc.
 *
 * Source: Raffel et al. 2020, section 2.1; Shazeer 2020 (T5 1.1); Chung et al. 2022 (Flan-T5);
 * huggingface/transformers, models/t5/modeling_t5.py, for initial weights. */
#pragma once

#include "lib/run/model.h"

extern const struct model model_t5;
extern const struct model_preset t5_presets[];
extern const struct model_format t5_formats[];
extern const struct published t5_published[];

struct t5_options { double noise, span; int64_t sentinels; };   /* sentinels -1: t5_own_tokens */
static inline struct t5_options *t5_options(const struct plan *p) { return plan_own(p, &model_t5.options); }

/** Build the whole model for the plan's sizes, micro-batch and dtype. @errors E_CONFIG  @collective{none} */
enum status t5_build(const struct plan *, struct program *out);

/** Parameters in matrix products, those of the head included. */
int64_t t5_matmul_params(const struct plan *);
/** Flops per token of the text, forward and backward, no recomputation: 6 for each product of a parameter and a token,
 *  and 12 H D for each pair of a query and a key. */
double t5_flops_per_token(const struct plan *);
/** Parameters of the whole model; a tied head counts once, padding does not count. */
int64_t t5_n_params(const struct plan *);

/* ---- t5_spans.c ---- */

/** Lengths of a sample: tokens taken out, number of spans, tokens of the encoder, tokens of the decoder. */
struct t5_lengths { int64_t noise, spans, encoder, decoder; };
struct t5_lengths t5_lengths(const struct plan *);
/** struct model's n_targets: the decoder's tokens. */
int64_t t5_n_targets(const struct plan *);
/** Sentinels: one for each span. The first is --sentinels, else 32099 where vocab is 32128 (the published tokenizer has
 *  32000 pieces and 100 sentinels, and the table is padded), else the vocabulary's last. */
struct own_tokens t5_own_tokens(const struct plan *);
/** struct model's sample: whole[DATA_TOKENS] becomes the encoder's tokens, whole[DATA_DECODER] and whole[DATA_TARGETS]
 *  the decoder's; elements beyond their lengths are undefined. whole[DATA_SEGMENTS] is scratch.
 *  @errors E_CONFIG: the vocabulary is too small for a sentinel per span  @collective{none} */
enum status t5_sample(const struct plan *, int64_t number, int32_t *const whole[N_DATA]);
