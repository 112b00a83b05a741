/* DeepSeek-V3: as V2 (deepseek_v2.c); neighboring channels turn if rope_interleave says so. A dense model that both
 * describe goes out as a V3, which stands first.
 *
 * Source: huggingface/transformers, models/deepseek_v3; DeepSeek-AI 2024 (DeepSeek-V3). */
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
    {"num_key_value_heads", HF_SIZE, "128", NULL, SAID(model.kv_heads)},
    {"n_routed_experts|num_local_experts", HF_SIZE, "256", NULL, SAID(routed)},
    {"num_mtp_layers|num_nextn_predict_layers", HF_MUST, "1", "0|1", 0},
    {"first_k_dense_replace", HF_READ, "3", NULL, 0},
    {"rope_interleave", HF_FLAG, "true", NULL, SAID(interleave)},
    {0},
};
static const char FREE[] =
    "qk_head_dim pretraining_tp output_router_logits n_group topk_group topk_method norm_topk_prob "
    "routed_scaling_factor n_shared_experts num_experts_per_tok moe_intermediate_size scoring_func aux_loss_alpha "
    "seq_aux moe_layer_freq ep_size";
static const struct hf_keys DEEPSEEK_V3 = {KEYS, NULL, FREE};

const struct llama_family llama_family_deepseek_v3 = {
    .architecture = "DeepseekV3ForCausalLM", .keys = &DEEPSEEK_V3, .theta = 1e4, .always = ""};

const struct model_preset llama_presets_deepseek_v3[] = {{NULL, NULL}};
