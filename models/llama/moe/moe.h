/* Experts in a Llama's layers, as Mixtral, Qwen3-MoE and DeepSeek have them (lib/experts/experts.h; --experts).
 *
 *   x = x + shared(h) + sum over the k experts e of token t of  gate[t,e] expert_e(h)        h = rmsnorm(x)
 *
 * --expert-layers says which layers have experts; the others have an MLP of --ffn units. --shared-experts n: an MLP of
 * n times an expert's units, which every token passes: one pair of products, as n experts with gates of 1 would be. tp
 * cuts it, as every MLP, and no experts. Its output enters the residual by itself, before the experts'.
 *
 *   scores s = softmax(logits) or sigmoid(logits)            --router-scores
 *   choice: the k largest s + bias, of sigmoids alone        in --router-groups-per-token of --router-groups groups
 *   gates  = --router-scale s / sum of the chosen s          --router-norm off: not divided
 *
 * --expert-bias and --router-bias add biases, and --swiglu-limit clamps the gate (GPT-OSS).
 *
 * lib/ops/moe/moe_route.h has the details. The bias is a weight that no gradient changes; --router-bias-rate
 * moves it by the load (lib/experts/router_bias.c).
 *
 * Source: Jiang et al. 2024 (Mixtral); Yang et al. 2025 (Qwen 3); Dai et al. 2024 (DeepSeekMoE, shared experts);
 * DeepSeek-AI 2024 (DeepSeek-V2, section 2.1.2: groups; DeepSeek-V3, section 2.1.2: sigmoids and the bias). */
#pragma once

#include "lib/checkpoint/hf_keys.h"
#include "lib/ops/moe/moe_route.h"
#include "lib/run/build.h"

/* The options, in the struct of the model's (models/llama/llama.h). */
struct moe_options {
    int64_t expert_ffn;                              /* 0: plan_ffn */
    char expert_layers[OPTION_TEXT_MAX];             /* repeated over the layers: e has experts, d an MLP */
    int router_norm, router_scores;                  /* scores: 0 softmax, 1 sigmoid */
    int64_t router_groups, router_groups_per_token;
    double router_scale;
    int64_t shared_experts;
    int expert_bias, router_bias;
    double swiglu_limit;                             /* 0: none */
};

/* The rows of the options, for the model's table: `field` of `owner` is the struct. */
#define MOE_OPTIONS(owner, field) \
    {"expert-ffn", OPTION_INT, "0", 0, 1e7, NULL, "channels", "llama: units of an expert (Qwen3-MoE); 0: ffn", \
     "model", offsetof(owner, field.expert_ffn)}, \
    {"expert-layers", OPTION_TEXT, "e", 0, 0, NULL, "", \
     "llama: which layers have experts, a letter for each, repeated if there are fewer: e has experts, d an MLP of " \
     "ffn units (de: every second layer)", "model", offsetof(owner, field.expert_layers)}, \
    {"router-norm", OPTION_BOOL, "on", 0, 0, NULL, "", \
     "llama: a token's gates are its experts' scores divided by their sum (Mixtral); off: the scores " \
     "themselves (Qwen3-MoE's norm_topk_prob=false)", "model", offsetof(owner, field.router_norm)}, \
    {"router-scores", OPTION_CHOICE, "softmax", 0, 0, "softmax|sigmoid", "", \
     "llama: scores of experts: a softmax over all, or of each a sigmoid, with a bias for the choice alone " \
     "(DeepSeek-V3)", "model", offsetof(owner, field.router_scores)}, \
    {"router-groups", OPTION_INT, "1", 1, MOE_SETS, NULL, "", \
     "llama: groups of neighboring experts; a token's experts are in router-groups-per-token of them (DeepSeek)", \
     "model", offsetof(owner, field.router_groups)}, \
    {"router-groups-per-token", OPTION_INT, "1", 1, MOE_SETS, NULL, "", \
     "llama: groups of experts that a token may choose from", "model", \
     offsetof(owner, field.router_groups_per_token)}, \
    {"router-scale", OPTION_REAL, "1", 1e-6, 1e6, NULL, "", \
     "llama: factor of gates (DeepSeek's routed_scaling_factor)", "model", offsetof(owner, field.router_scale)}, \
    {"shared-experts", OPTION_INT, "0", 0, 1e6, NULL, "", \
     "llama: experts that every token passes: one MLP with the units of all of them; 0: none", "model", \
     offsetof(owner, field.shared_experts)}, \
    {"expert-bias", OPTION_BOOL, "off", 0, 0, NULL, "", "llama: biases of experts (GPT-OSS)", "model", \
     offsetof(owner, field.expert_bias)}, \
    {"router-bias", OPTION_BOOL, "off", 0, 0, NULL, "", "llama: a bias of the router's logits (GPT-OSS)", "model", \
     offsetof(owner, field.router_bias)}, \
    {"swiglu-limit", OPTION_REAL, "0", 0, 1e6, NULL, "", \
     "llama: experts compute (u + 1) a sigmoid(1.702 a), with a gate a of at most the limit, and u between -limit " \
     "and limit (GPT-OSS: 7); 0: swiglu", "model", offsetof(owner, field.swiglu_limit)}

/* The rows of what others call the shared experts' weights and slots, and the bias (lib/run/published.h); mlp: the name
 * of the layer's experts. */
#define MOE_PUBLISHED(mlp) \
    {"h%d.router.bias", {mlp "gate.e_score_correction_bias"}, "E"}, \
    {"h%d.shared.up.w", {mlp "shared_experts.gate_proj.weight", mlp "shared_experts.up_proj.weight"}, "K C"}, \
    {"h%d.shared.down.w", {mlp "shared_experts.down_proj.weight"}, "C K"}, \
    {"h%d.shared.up", {mlp "shared_experts.gate_proj", mlp "shared_experts.up_proj"}, "B T K"}

/** Refuse options that do not fit. @errors E_CONFIG  @collective{none} */
enum status moe_check(const struct plan *, const struct moe_options *);

/** Does the layer have experts? Pure. */
bool moe_has_experts(const struct plan *, const struct moe_options *, int64_t layer);

/** Append the steps of the shared experts: the MLP of h (B,T,C). @return the slot; NONE: there are none */
int moe_shared(struct builder *, const struct moe_options *, int h, double down_std);
/** Append the steps of the experts of h (B,T,C). @return the slot */
int moe_experts(struct builder *, const struct moe_options *, int h, double down_std);

/** Parameters of a layer's experts, of which n count, with the router's matrix and the shared experts. Pure. */
int64_t moe_matrices(const struct plan *, const struct moe_options *, int64_t n);
/** Numbers of a layer's biases. Pure. */
int64_t moe_biases(const struct plan *, const struct moe_options *);

/* ---- keys of config.json (moe_hf.c); families/family.h has both structs ---- */
struct llama_family;
struct llama_said;
struct checkpoint_model;

/** Has the family a key for this option of experts? Pure. */
bool moe_hf_has_key_of(const struct llama_family *, const char *option);
/** Can transformers run the experts of an exported model? @errors E_CONFIG */
enum status moe_hf_check(const struct checkpoint_model *);
/** Can the family's keys say which layers of the model have experts, and that shared ones are absent? Pure. */
bool moe_hf_holds(const struct llama_family *, const struct checkpoint_model *);
/** Read the layers with experts, as letters, and the groups. dense_too: a model may have none; then the keys of experts
 *  have their defaults. @errors E_FORMAT */
enum status moe_hf_read(const char *path, const json_t *config, const struct llama_family *, bool dense_too,
                        struct llama_said *, char letters[10001]);
/** Say the options of experts. */
void moe_hf_say(struct checkpoint_model *, const struct llama_said *, const struct llama_family *, const char *letters);
/** The keys' values of a model that is written; and set those that are HF_READ. @return config; NULL: no memory */
void moe_hf_said(const struct checkpoint_model *, struct llama_said *);
/** The same. */
json_t *moe_hf_write(json_t *config, const struct checkpoint_model *, const struct llama_family *);
