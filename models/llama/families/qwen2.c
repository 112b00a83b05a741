/* Qwen 2 and 2.5: biases of queries, keys and values, which no key turns off. With use_sliding_window the layers that
 * layer_types names have a window; without layer_types, those from max_window_layers on.
 *
 * Source: huggingface/transformers, models/qwen2; Yang et al. 2024. */
#include "models/llama/families/family.h"

static const struct hf_key KEYS[] = {
    {"head_dim", HF_SIZE, "absent", NULL, SAID(head_dim)},
    {"num_key_value_heads", HF_SIZE, NULL, NULL, SAID(model.kv_heads)},
    {"rms_norm_eps", HF_REAL, "1e-6", NULL, SAID(eps)},
    {"use_sliding_window", HF_FLAG, "false", NULL, SAID(use_window)},
    {"sliding_window", HF_READ, "4096", NULL, 0},
    {"max_window_layers", HF_READ, "28", NULL, 0},
    {"layer_types", HF_READ, "null", NULL, 0},
    {0},
};
static const struct hf_keys QWEN2 = {KEYS, NULL, NULL};

const struct llama_family llama_family_qwen2 = {
    .architecture = "Qwen2ForCausalLM", .keys = &QWEN2, .theta = 1e4, .always = "attention-bias=qkv"};

const struct model_preset llama_presets_qwen2[] = {
    {"qwen2.5-0.5b",
     "layers=24 hidden=896 heads=14 kv-heads=2 ffn=4864 seq=32768 vocab=151936 rope-theta=1000000 norm-eps=1e-6 "
     "attention-bias=qkv tie=on"},
    {"qwen2.5-7b",
     "layers=28 hidden=3584 heads=28 kv-heads=4 ffn=18944 seq=131072 vocab=152064 rope-theta=1000000 norm-eps=1e-6 "
     "attention-bias=qkv tie=off"},
    {NULL, NULL},
};
