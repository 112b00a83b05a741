/* Mixtral: experts, and a window in all layers or none. router_jitter_noise must be 0, because Trivium's router has no
 * noise.
 *
 * Source: huggingface/transformers, models/mixtral; Jiang et al. 2024. */
#include "models/llama/families/family.h"

static const struct hf_key KEYS[] = {
    {"head_dim", HF_SIZE, "null", NULL, SAID(head_dim)},
    {"num_key_value_heads", HF_SIZE, "8", NULL, SAID(model.kv_heads)},
    {"num_local_experts|num_experts", HF_SIZE, "8", NULL, SAID(model.experts)},
    {"num_experts_per_tok", HF_SIZE, "2", NULL, SAID(model.experts_per_token)},
    {"rms_norm_eps", HF_REAL, "1e-5", NULL, SAID(eps)},
    {"router_jitter_noise", HF_MUST, "0.0", "0.0", 0},
    {"sliding_window", HF_READ, "null", NULL, 0},
    {0},
};
static const struct hf_keys MIXTRAL = {KEYS, NULL, "output_router_logits router_aux_loss_coef"};

const struct llama_family llama_family_mixtral = {
    .architecture = "MixtralForCausalLM", .keys = &MIXTRAL, .theta = 1e6, .always = ""};

const struct model_preset llama_presets_mixtral[] = {
    {"tiny", "layers=4 hidden=128 heads=4 kv-heads=2 ffn=344 seq=64 tie=off experts=4 experts-per-token=2"},
    {"mixtral-8x7b",
     "layers=32 hidden=4096 heads=32 kv-heads=8 ffn=14336 seq=32768 vocab=32000 rope-theta=1000000 tie=off experts=8 "
     "experts-per-token=2"},
    {NULL, NULL},
};
