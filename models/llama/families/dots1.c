/* dots.llm1: Qwen 3's attention with DeepSeek-V3's experts (models/llama/moe/). Its windows are of the layers from
 * max_window_layers on, if sliding_window is not null.
 *
 * Source: huggingface/transformers, models/dots1; Huo et al. 2025 (dots.llm1). */
#include "models/llama/families/family.h"

static const struct hf_key KEYS[] = {
    {"num_key_value_heads", HF_SIZE, "32", NULL, SAID(model.kv_heads)},
    {"head_dim", HF_SIZE, "absent", NULL, SAID(head_dim)},
    {"rms_norm_eps", HF_REAL, "1e-6", NULL, SAID(eps)},
    {"attention_bias", HF_FLAG, "false", NULL, SAID(attention_bias)},
    {"sliding_window", HF_READ, "4096", NULL, 0},
    {"max_window_layers", HF_READ, "62", NULL, 0},
    {"layer_types", HF_READ, "null", NULL, 0},
    {"n_routed_experts|num_local_experts", HF_SIZE, NULL, NULL, SAID(model.experts)},
    {"num_experts_per_tok", HF_SIZE, NULL, NULL, SAID(model.experts_per_token)},
    {"moe_intermediate_size", HF_SIZE, "1408", NULL, SAID(expert_ffn)},
    {"n_shared_experts", HF_SIZE, NULL, NULL, SAID(shared)},
    {"first_k_dense_replace", HF_READ, "0", NULL, 0},
    {"n_group", HF_SIZE, "1", NULL, SAID(groups)},
    {"topk_group", HF_SIZE, "1", NULL, SAID(groups_per_token)},
    {"norm_topk_prob", HF_FLAG, "false", NULL, SAID(router_norm)},
    {"routed_scaling_factor", HF_REAL, "1.0", NULL, SAID(scale)},
    {0},
};
static const struct hf_keys DOTS1 = {KEYS, NULL, "output_router_logits topk_method scoring_func moe_layer_freq "
                                                 "aux_loss_alpha seq_aux ep_size pretraining_tp"};

const struct llama_family llama_family_dots1 = {
    .architecture = "Dots1ForCausalLM", .keys = &DOTS1, .theta = 1e4, .bias = "all",
    .always = "qk-norm=head router-scores=sigmoid"};

const struct model_preset llama_presets_dots1[] = {
    {"dots.llm1",
     "layers=62 hidden=4096 heads=32 kv-heads=32 head-dim=128 ffn=10944 seq=32768 vocab=152064 rope-theta=10000000 "
     "qk-norm=head tie=off experts=128 experts-per-token=6 expert-ffn=1408 expert-layers=d"
     "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee shared-experts=2 router-scores=sigmoid "
     "router-scale=2.5"},
    {NULL, NULL},
};
