/* T5 as a list of steps: an encoder reads a text of which spans are missing, a decoder writes them.
 *
 *   encoder   x = wte[token]   x = x + o(attention(q(n), kv(n))), n = norm(x)   all see all; bias by distance
 *                              x = x + fc2(relu(fc(norm(x))))
 *             c = norm(x), after the last layer
 *   decoder   y = wte[token]   y = y + o(attention(q(n), kv(n))), n = norm(y)   none sees later ones; its own bias
 *                              y = y + o(attention(q(norm(y)), kv(c)))          cross-attention: all of c, no bias
 *                              y = y + fc2(relu(fc(norm(y))))
 *   head      loss = cross_entropy(norm(y) wte^T / sqrt(C))
 *
 * norm: rmsnorm with eps 1e-6, before each part. Nothing has a bias; scores are not divided by sqrt(D), initial
 * weights are smaller instead; there are no positions, but a table of 32 numbers a head for the distance from query to
 * key, one for all layers of the encoder, one for all of the decoder (lib/ops/attention/attention_bias.h). wte is one
 * param, used three times: by encoder, decoder and head; --tie off: the head has its own, and does not divide by
 * sqrt(C).
 *
 * --layers counts both: the first half encodes. A pipeline may cut anywhere: two streams go from block to block, the
 * encoder's and the decoder's. Encoder layers pass the decoder's embedding on, decoder layers the encoder's output.
 * Both are embedded on the first stage, so the table is tied between the first and the last stage alone; stages whose
 * layers read the same bias sum its gradient (pp/).
 *
 * Trained on span corruption (t5_spans.c), whose lengths are the same for each sample: of seq tokens
 * T_e = seq - noise + spans go into the encoder and T_d = noise + spans into the decoder, which predicts as many.
 *
 * This is T5 of 2020 (checkpoints t5-small to t5-large). T5 1.1 has a gated MLP, which is not here.
 *
 * Source: Raffel et al. 2020, section 2.1; huggingface/transformers, models/t5/modeling_t5.py, for initial weights. */
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
/** Flops per token of the text, forward and backward, no recomputation: 6 for each parameter and token that meets it,
 *  and 12 C for each pair of a query and a key. */
double t5_flops_per_token(const struct plan *);
/** Parameters of the whole model; a tied table counts once, padding not at all. */
int64_t t5_n_params(const struct plan *);

/* ---- t5_spans.c ---- */

/** Lengths of a sample: tokens taken out, number of spans, tokens of the encoder, tokens of the decoder. */
struct t5_lengths { int64_t noise, spans, encoder, decoder; };
struct t5_lengths t5_lengths(const struct plan *);
/** struct model's n_targets: the decoder's tokens. */
int64_t t5_n_targets(const struct plan *);
/** Sentinels: one for each span. Unless the options say the first, it is 32099 where vocab is 32128 (the published
 *  tokenizer has 32000 pieces and 100 sentinels, and the table is padded), else the vocabulary's last. */
struct own_tokens t5_own_tokens(const struct plan *);
/** struct model's sample: whole[DATA_TOKENS] becomes the encoder's tokens, whole[DATA_DECODER] and whole[DATA_TARGETS]
 *  the decoder's; what lies beyond their lengths means nothing. whole[DATA_SEGMENTS] is scratch.
 *  @errors E_CONFIG: the vocabulary has not a sentinel for each span  @collective{none} */
enum status t5_sample(const struct plan *, int64_t number, int32_t *const whole[N_DATA]);
