/* Qwen3-MoE: Qwen 3 with experts of a width of their own, in all layers or in some. norm_topk_prob says whether gates
 * are divided by their sum; published files say true, and the class's default is false. A window is that of all layers.
 *
 * Source: huggingface/transformers, models/qwen3_moe; Yang et al. 2025. */
#include "models/llama/families/family.h"

static const struct hf_key KEYS[] = {
    {"num_key_value_heads", HF_SIZE, "4", NULL, SAID(model.kv_heads)},
    {"head_dim", HF_SIZE, "absent", NULL, SAID(head_dim)},
    {"rms_norm_eps", HF_REAL, "1e-6", NULL, SAID(eps)},
    {"attention_bias", HF_FLAG, "false", NULL, SAID(attention_bias)},
    {"use_sliding_window", HF_FLAG, "false", NULL, SAID(use_window)},
    {"sliding_window", HF_READ, "4096", NULL, 0},
    {"num_experts|num_local_experts", HF_SIZE, "128", NULL, SAID(model.experts)},
    {"num_experts_per_tok", HF_SIZE, "8", NULL, SAID(model.experts_per_token)},
    {"moe_intermediate_size", HF_SIZE, "768", NULL, SAID(expert_ffn)},
    {"norm_topk_prob", HF_FLAG, "false", NULL, SAID(router_norm)},
    {"decoder_sparse_step", HF_SIZE, "1", NULL, SAID(sparse_step)},
    {"mlp_only_layers", HF_READ, "null", NULL, 0},
    {0},
};
static const struct hf_keys QWEN3_MOE = {KEYS, NULL, "output_router_logits router_aux_loss_coef max_window_layers"};

const struct llama_family llama_family_qwen3_moe = {
    .architecture = "Qwen3MoeForCausalLM", .keys = &QWEN3_MOE, .theta = 1e4, .bias = "all", .always = "qk-norm=head"};

const struct model_preset llama_presets_qwen3_moe[] = {
    {"tiny",
     "layers=4 hidden=128 heads=4 kv-heads=2 ffn=96 seq=64 tie=off experts=8 experts-per-token=2"},
    {"qwen3-30b-a3b",
     "layers=48 hidden=2048 heads=32 kv-heads=4 head-dim=128 ffn=6144 seq=40960 vocab=151936 rope-theta=1000000 "
     "norm-eps=1e-6 qk-norm=head tie=off experts=128 experts-per-token=8 expert-ffn=768"},
    {"qwen3-235b-a22b",
     "layers=94 hidden=4096 heads=64 kv-heads=4 head-dim=128 ffn=12288 seq=40960 vocab=151936 rope-theta=1000000 "
     "norm-eps=1e-6 qk-norm=head tie=off experts=128 experts-per-token=8 expert-ffn=1536"},
    {NULL, NULL},
};
