/* DeepSeek-V3: latents as V2 (deepseek_v2.c); neighboring channels turn if rope_interleave says so. Scores of experts
 * are sigmoids, with a bias. A dense model that both describe goes out as a V3, which stands first. num_mtp_layers:
 * Trivium has no layer that predicts the second token ahead, and neither has the reference's training.
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
    {"n_routed_experts|num_local_experts", HF_SIZE, "256", NULL, SAID(model.experts)},
    {"num_experts_per_tok", HF_SIZE, "8", NULL, SAID(model.experts_per_token)},
    {"moe_intermediate_size", HF_SIZE, "2048", NULL, SAID(expert_ffn)},
    {"n_shared_experts", HF_SIZE, "1", NULL, SAID(shared)},
    {"n_group", HF_SIZE, "8", NULL, SAID(groups)},
    {"topk_group", HF_SIZE, "4", NULL, SAID(groups_per_token)},
    {"norm_topk_prob", HF_FLAG, "true", NULL, SAID(router_norm)},
    {"routed_scaling_factor", HF_REAL, "2.5", NULL, SAID(scale)},
    {"num_mtp_layers|num_nextn_predict_layers", HF_MUST, "1", "0|1", 0},
    {"first_k_dense_replace", HF_READ, "3", NULL, 0},
    {"rope_interleave", HF_FLAG, "true", NULL, SAID(interleave)},
    {0},
};
static const char FREE[] = "qk_head_dim pretraining_tp output_router_logits topk_method scoring_func aux_loss_alpha "
                           "seq_aux moe_layer_freq ep_size";
static const struct hf_keys DEEPSEEK_V3 = {KEYS, NULL, FREE};

const struct llama_family llama_family_deepseek_v3 = {
    .architecture = "DeepseekV3ForCausalLM", .keys = &DEEPSEEK_V3, .theta = 1e4, .always = "",
    .routed = "router-scores=sigmoid"};

#define E58 "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"
const struct model_preset llama_presets_deepseek_v3[] = {
    {"deepseek-v3",
     "layers=61 hidden=7168 heads=128 head-dim=192 ffn=18432 seq=163840 vocab=129280 norm-eps=1e-6 "
     "rope-scaling=yarn:40:4096:1:32:1 kv-lora-rank=512 q-lora-rank=1536 rope-head-dim=64 v-head-dim=128 "
     "mscale-all-dim=1 rope-interleave=on tie=off experts=256 experts-per-token=8 expert-ffn=2048 "
     "expert-layers=ddd" E58 " shared-experts=1 router-scores=sigmoid router-groups=8 router-groups-per-token=4 "
     "router-scale=2.5"},
    {NULL, NULL},
};
