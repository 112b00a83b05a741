/* DeepSeek-V2: latent attention (models/llama/mla/), of which neighboring channels turn, and experts with shared ones
 * (models/llama/moe/), whose gates are never divided by their sum: the reference does not read norm_topk_prob.
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
    {"n_routed_experts|num_experts", HF_SIZE, "64", NULL, SAID(model.experts)},
    {"num_experts_per_tok", HF_SIZE, "null", NULL, SAID(model.experts_per_token)},
    {"moe_intermediate_size", HF_SIZE, "1407", NULL, SAID(expert_ffn)},
    {"n_shared_experts", HF_SIZE, "2", NULL, SAID(shared)},
    {"first_k_dense_replace", HF_READ, "0", NULL, 0},
    {"topk_method", HF_MUST, "greedy", "greedy|group_limited_greedy", 0},
    {"n_group", HF_SIZE, "null", NULL, SAID(groups)},
    {"topk_group", HF_SIZE, "null", NULL, SAID(groups_per_token)},
    {"routed_scaling_factor", HF_REAL, "1.0", NULL, SAID(scale)},
    {"mlp_bias", HF_FLAG, "false", NULL, SAID(mlp_bias)},
    {0},
};
static const char FREE[] = "qk_head_dim pretraining_tp output_router_logits norm_topk_prob scoring_func aux_loss_alpha "
                           "seq_aux moe_layer_freq ep_size num_nextn_predict_layers";
static const struct hf_keys DEEPSEEK_V2 = {KEYS, NULL, FREE};

const struct llama_family llama_family_deepseek_v2 = {
    .architecture = "DeepseekV2ForCausalLM", .keys = &DEEPSEEK_V2, .theta = 1e4, .always = "rope-interleave=on",
    .routed = "router-norm=off"};

#define E59 "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"
const struct model_preset llama_presets_deepseek_v2[] = {
    {"deepseek-v2-lite",
     "layers=27 hidden=2048 heads=16 head-dim=192 ffn=10944 seq=163840 vocab=102400 norm-eps=1e-6 "
     "rope-scaling=yarn:40:4096:1:32:1 kv-lora-rank=512 rope-head-dim=64 v-head-dim=128 mscale-all-dim=0.707 "
     "rope-interleave=on tie=off experts=64 experts-per-token=6 expert-ffn=1408 "
     "expert-layers=deeeeeeeeeeeeeeeeeeeeeeeeee shared-experts=2 router-norm=off"},
    {"deepseek-v2",
     "layers=60 hidden=5120 heads=128 head-dim=192 ffn=12288 seq=163840 vocab=102400 norm-eps=1e-6 "
     "rope-scaling=yarn:40:4096:1:32:1 kv-lora-rank=512 q-lora-rank=1536 rope-head-dim=64 v-head-dim=128 "
     "mscale-all-dim=0.707 rope-interleave=on tie=off experts=160 experts-per-token=6 expert-ffn=1536 "
     "expert-layers=d" E59 " shared-experts=2 router-norm=off router-groups=8 router-groups-per-token=3 "
     "router-scale=16"},
    {NULL, NULL},
};
