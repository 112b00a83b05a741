/* Seed-OSS: biases of queries, keys and values, if the file does not deny them; one of the projection alone or with
 * them is another key, which must be false. Heads have 128 channels, if the file does not say it.
 *
 * Source: huggingface/transformers, models/seed_oss. */
#include "models/llama/families/family.h"

static const struct hf_key KEYS[] = {
    {"head_dim", HF_SIZE, "128", NULL, SAID(head_dim)},
    {"num_key_value_heads", HF_SIZE, "8", NULL, SAID(model.kv_heads)},
    {"rms_norm_eps", HF_REAL, "1e-6", NULL, SAID(eps)},
    {"attention_bias", HF_FLAG, "true", NULL, SAID(attention_bias)},
    {"attention_out_bias", HF_MUST, "false", "false", 0},
    {"mlp_bias", HF_FLAG, "false", NULL, SAID(mlp_bias)},
    {0},
};
static const struct hf_keys SEED_OSS = {KEYS, NULL, "residual_dropout pretraining_tp"};

const struct llama_family llama_family_seed_oss = {
    .architecture = "SeedOssForCausalLM", .keys = &SEED_OSS, .theta = 1e4, .bias = "qkv", .always = ""};

const struct model_preset llama_presets_seed_oss[] = {
    {"seed-oss-36b",
     "layers=64 hidden=5120 heads=80 kv-heads=8 head-dim=128 ffn=27648 seq=524288 vocab=155136 rope-theta=10000000 "
     "norm-eps=1e-6 attention-bias=qkv tie=off"},
    {NULL, NULL},
};
