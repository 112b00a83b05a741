/* BERT as a list of steps, and its well-known sizes.
 *
 *   embedding   x = dropout(norm(word[token] + type[segment] + position[t]))
 *   layer       x = norm(x + proj(attention(qkv(x))))              every token attends to all tokens, also later ones
 *               x = norm(x + fc2(gelu(fc(x))))                     both residuals with bias and dropout
 *   head        loss = cross_entropy(norm(gelu(dense(x))) word^T + b)      over the masked places of each sample
 *
 * norm: layernorm with eps 1e-12, after each residual and not before each half as in models/gpt/. gelu: the exact form,
 * with erf (lib/ops/gelu.h). The head is tied to word; with --tie off it has its own param.
 *
 * Trained to restore masked tokens (bert_mask.c): exactly ceil(0.15 T) places of each sample, so that the loss is
 * divided by a number that is known before any rank has seen the data. The second task (does the one text follow the
 * other?) and its pooled output are left out (Liu et al. 2019 do better without them).
 *
 * Source: Devlin et al. 2019 (BERT), section 3 and appendix A. */
#pragma once

#include "lib/run/model.h"

extern const struct model model_bert;
extern const struct model_preset bert_presets[];
extern const struct model_format bert_formats[];
extern const struct published bert_published[];

struct bert_options { int64_t mask_token; };     /* -1: bert_own_tokens chooses it */
static inline struct bert_options *bert_options(const struct plan *p) { return plan_own(p, &model_bert.options); }

/** Build the whole model for the plan's sizes, micro-batch and dtype. @errors E_CONFIG  @collective{none} */
enum status bert_build(const struct plan *, struct program *out);

/** N of the MFU formula: parameters in matrix products, the head's included. */
int64_t bert_matmul_params(const struct plan *);
/** Flops per token, forward and backward, no recomputation: 6 N + 12 L C T. The head computes all T positions.
 *  Source: Chowdhery et al. 2022, appendix B. */
double bert_flops_per_token(const struct plan *);
/** Parameters of the whole model; a tied head counts once, padding does not count. */
int64_t bert_n_params(const struct plan *);

/* ---- bert_mask.c ---- */

/** Masked places of a sample: ceil(0.15 seq). */
int64_t bert_n_masked(const struct plan *);
/** The mask token: --mask-token, else 103 where vocab is a published one (of bert-base and bert-large, uncased, cased,
 *  Chinese and multilingual), else the vocabulary's last. */
struct own_tokens bert_own_tokens(const struct plan *);
/** struct model's sample: mask whole[DATA_TOKENS], and write targets and segments. @errors E_CONFIG: mask-token is not
 *  in the vocabulary  @collective{none} */
enum status bert_sample(const struct plan *, int64_t number, int32_t *const whole[N_DATA]);
