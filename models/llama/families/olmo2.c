/* OLMo 2: norms after attention and MLP, and of all heads' queries and keys together. With attention_bias the
 * projection's bias would come before a norm.
 *
 * Source: huggingface/transformers, models/olmo2; OLMo et al. 2024. */
#include "models/llama/families/family.h"

static const struct hf_key KEYS[] = {
    {"head_dim", HF_SIZE, "absent", NULL, SAID(head_dim)},
    {"num_key_value_heads", HF_SIZE, "null", NULL, SAID(model.kv_heads)},
    {"rms_norm_eps", HF_REAL, "1e-5", NULL, SAID(eps)},
    {"attention_bias", HF_MUST, "false", "false", 0},
    {0},
};
static const struct hf_keys OLMO2 = {KEYS, NULL, NULL};

const struct llama_family llama_family_olmo2 = {
    .architecture = "Olmo2ForCausalLM", .keys = &OLMO2, .theta = 1e4, .always = "qk-norm=all post-norm=on"};

const struct model_preset llama_presets_olmo2[] = {
    {"olmo2-1b",
     "layers=16 hidden=2048 heads=16 ffn=8192 seq=4096 vocab=100352 rope-theta=500000 norm-eps=1e-6 qk-norm=all "
     "post-norm=on tie=off"},
    {"olmo2-7b",
     "layers=32 hidden=4096 heads=32 ffn=11008 seq=4096 vocab=100352 rope-theta=500000 norm-eps=1e-6 qk-norm=all "
     "post-norm=on tie=off"},
    {"olmo2-13b",
     "layers=40 hidden=5120 heads=40 ffn=13824 seq=4096 vocab=100352 rope-theta=500000 norm-eps=1e-6 qk-norm=all "
     "post-norm=on tie=off"},
    {NULL, NULL},
};
