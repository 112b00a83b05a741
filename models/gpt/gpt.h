/* GPT-2 as a list of steps, and its well-known sizes.
 *
 *   embedding   x = wte[token] + wpe[position], dropout
 *   layer       x = x + proj(attention(qkv(layernorm(x))))        both residuals with bias and dropout
 *               x = x + fc2(gelu(fc(layernorm(x))))
 *   head        loss = cross_entropy(layernorm(x) wte^T)           tied to wte; with --tie off a param of its own
 *               The head is two steps. With --loss-chunk it is one, so that logits exist for one chunk at a time.
 *
 * gpt_build contains no technique: tp, pp and the others rewrite its list.
 * Source: Radford et al. 2019 (GPT-2); Brown et al. 2020, table 2.1 (GPT-3 sizes). */
#pragma once

#include "lib/run/model.h"

extern const struct model model_gpt;
extern const struct model_preset gpt_presets[];
extern const struct model_format gpt_formats[];
extern const struct published gpt_published[];

/** Build the whole model for the plan's sizes, micro-batch and dtype. @errors E_CONFIG  @collective{none} */
enum status gpt_build(const struct plan *, struct program *out);

/** N of the MFU formula: parameters in matrix products, which are all but the embedding tables, plus the head. */
int64_t gpt_matmul_params(const struct plan *);
/** Flops per token, forward and backward, no recomputation: 6 N + 12 L C T.
 *  Source: Chowdhery et al. 2022, appendix B. */
double gpt_flops_per_token(const struct plan *);
/** Parameters of the whole model; a tied head counts once, padding does not count. */
int64_t gpt_n_params(const struct plan *);
