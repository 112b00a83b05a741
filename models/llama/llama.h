/* Llama as a list of steps.
 *
 *   embedding   x = table[token]
 *   layer       x = x + proj(attention(rope(q(n)), rope(kv(n))))  n = rmsnorm(x)     rope turns q and k by the position
 *               x = x + down(swiglu(up(rmsnorm(x))))                                 up gives 2 halves of ffn channels
 *   head        loss = cross_entropy(rmsnorm(x) W^T)                                 W is a matrix of its own
 *
 * With experts (moe/moe.h) the second half of a layer is x = x + moe(rmsnorm(x)); an expert is a swiglu MLP. Mixtral
 * and moe (Qwen3-MoE, dots.llm1, DeepSeek) have their own rows in the list of models, because their presets set
 * experts, and because others call their weights otherwise.
 *
 * There are no biases, unless --attention-bias and --mlp-bias say so (Qwen 2: of q and kv). A head has hidden / heads
 * channels, or --head-dim. With --qk-norm q and k are rmsnorm(q) and rmsnorm(k) before rope turns them (Qwen 3, of a
 * head; OLMo 2, of all heads). With --post-norm x = x + rmsnorm(proj(...)) and x = x + rmsnorm(down(...)), with no norm
 * before (OLMo 2). With --window a query sees only the last tokens, in all layers or in some; --attention-cap and
 * --attention-sinks change its scores (lib/ops/attention/attention.h). With --kv-lora-rank queries, keys and values are
 * those of latent attention (mla/mla.h; DeepSeek-V2). Rotary positions may be slowed (--rope-scaling, lib/ops/rope.h).
 * heads / kv-heads query heads share one head of keys and values (grouped-query attention). Llama has no dropout; here
 * --dropout acts on both residuals and on attention, as in models/gpt/.
 *
 * Source: Touvron et al. 2023 (LLaMA; Llama 2); Grattafiori et al. 2024 (Llama 3); Jiang et al. 2023
 * (Mistral 7B), 2024 (Mixtral); Yang et al. 2024 (Qwen2.5), 2025 (Qwen 3); OLMo et al. 2024 (OLMo 2). */
#pragma once

#include "lib/run/model.h"
#include "models/llama/mla/mla.h"
#include "models/llama/moe/moe.h"

extern const struct model model_llama, model_mixtral, model_moe, model_gpt_oss;
extern const struct model_format llama_formats[], mixtral_formats[], moe_formats[], gpt_oss_formats[];
extern const struct published llama_published[], moe_published[], gpt_oss_published[];
extern const struct published llama_fused[];         /* experts in one tensor, as transformers 5 keeps them */

enum llama_bias { BIAS_NONE, BIAS_QKV, BIAS_ALL };   /* ALL: of the projection, too */
enum llama_qk_norm { QK_NORM_NONE, QK_NORM_HEAD, QK_NORM_ALL };
struct llama_options {
    int64_t rope_theta;
    char rope_scaling[OPTION_TEXT_MAX];
    int attention_bias, mlp_bias, qk_norm, post_norm;
    int64_t window;                                  /* 0: every query sees all tokens before it */
    char window_layers[OPTION_TEXT_MAX];             /* repeated over the layers: s has the window, f has none */
    double attention_cap;                            /* 0: scores are not capped */
    int attention_sinks;
    struct mla_options mla;
    struct moe_options moe;
};
static inline const struct llama_options *llama_options(const struct plan *p) {
    return plan_own(p, &model_llama.options);
}

/** Build the whole model for the plan's sizes, micro-batch and dtype. @errors E_CONFIG  @collective{none} */
enum status llama_build(const struct plan *, struct program *out);

/** The window of a layer's attention; 0: it has none. Pure. */
int64_t llama_window(const struct plan *, int64_t layer);

/** N of the MFU formula: parameters in matrix products, that is all but the embedding table and the norms. */
int64_t llama_matmul_params(const struct plan *);
/** Flops per token, forward and backward, no recomputation: 6 N + 12 L H D T; T is the window in layers that have a
 *  smaller one. With latent attention 6 L H (D + U) T.
 *  Source: Chowdhery et al. 2022, appendix B. */
double llama_flops_per_token(const struct plan *);
/** Parameters of the whole model; a tied head counts once, padding does not count. */
int64_t llama_n_params(const struct plan *);
