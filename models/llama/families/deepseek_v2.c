/* DeepSeek-V2: latent attention (models/llama/mla/), of which neighboring channels turn. This table is of models whose
 * layers all have dense MLPs: first_k_dense_replace is not below num_hidden_layers, and keys of experts change nothing.
 *
 * qk_rope_head_dim is --rope-head-dim, and with qk_nope_head_dim --head-dim. The reference writes head_dim, which
 * is qk_rope_head_dim again.
 *
 * Source: huggingface/transformers, models/deepseek_v2; DeepSeek-AI 2024 (DeepSeek-V2). */
#include "models/llama/families/family.h"

static const struct hf_key KEYS[] = {
    {"head_dim", HF_READ, "absent", NULL, 0},
    {"q_lora_rank", HF_READ, "1536", NULL, 0},
    {"kv_lora_rank", HF_SIZE, "512", NULL, SAID(kv_lora_rank)},
    {"qk_nope_head_dim", HF_SIZE, "128", NULL, SAID(nope)},
    {"qk_rope_head_dim", HF_SIZE, "64", NULL, SAID(rope)},
    {"v_head_dim", HF_SIZE, "128", NULL, SAID(value)},
    {"rms_norm_eps", HF_REAL, "1e-6", NULL, SAID(eps)},
    {"attention_bias", HF_MUST, "false", "false", 0},
    {"num_key_value_heads", HF_SIZE, "null", NULL, SAID(model.kv_heads)},
    {"n_routed_experts|num_experts", HF_SIZE, "64", NULL, SAID(routed)},
    {"first_k_dense_replace", HF_READ, "0", NULL, 0},
    {"mlp_bias", HF_FLAG, "false", NULL, SAID(mlp_bias)},
    {0},
};
static const char FREE[] =
    "qk_head_dim pretraining_tp output_router_logits n_group topk_group topk_method norm_topk_prob "
    "routed_scaling_factor n_shared_experts num_experts_per_tok moe_intermediate_size scoring_func aux_loss_alpha "
    "seq_aux moe_layer_freq ep_size num_nextn_predict_layers";
static const struct hf_keys DEEPSEEK_V2 = {KEYS, NULL, FREE};

const struct llama_family llama_family_deepseek_v2 = {
    .architecture = "DeepseekV2ForCausalLM", .keys = &DEEPSEEK_V2, .theta = 1e4, .always = "rope-interleave=on"};

const struct model_preset llama_presets_deepseek_v2[] = {{NULL, NULL}};
