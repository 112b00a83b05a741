/* Qwen 3: norms of each head's query and key; heads of 128 channels, if the file does not say it. Windows are as in
 * Qwen 2.
 *
 * Source: huggingface/transformers, models/qwen3; Yang et al. 2025. */
#include "models/llama/families/family.h"

static const struct hf_key KEYS[] = {
    {"num_key_value_heads", HF_SIZE, "32", NULL, SAID(model.kv_heads)},
    {"head_dim", HF_SIZE, "128", NULL, SAID(head_dim)},
    {"rms_norm_eps", HF_REAL, "1e-6", NULL, SAID(eps)},
    {"attention_bias", HF_FLAG, "false", NULL, SAID(attention_bias)},
    {"use_sliding_window", HF_FLAG, "false", NULL, SAID(use_window)},
    {"sliding_window", HF_READ, "4096", NULL, 0},
    {"max_window_layers", HF_READ, "28", NULL, 0},
    {"layer_types", HF_READ, "null", NULL, 0},
    {0},
};
static const struct hf_keys QWEN3 = {KEYS, NULL, NULL};

const struct llama_family llama_family_qwen3 = {
    .architecture = "Qwen3ForCausalLM", .keys = &QWEN3, .theta = 1e4, .bias = "all", .always = "qk-norm=head"};

const struct model_preset llama_presets_qwen3[] = {
    {"qwen3-0.6b",
     "layers=28 hidden=1024 heads=16 kv-heads=8 head-dim=128 ffn=3072 seq=40960 vocab=151936 rope-theta=1000000 "
     "norm-eps=1e-6 qk-norm=head tie=on"},
    {"qwen3-1.7b",
     "layers=28 hidden=2048 heads=16 kv-heads=8 ffn=6144 seq=40960 vocab=151936 rope-theta=1000000 norm-eps=1e-6 "
     "qk-norm=head tie=on"},
    {"qwen3-4b",
     "layers=36 hidden=2560 heads=32 kv-heads=8 head-dim=128 ffn=9728 seq=40960 vocab=151936 rope-theta=1000000 "
     "norm-eps=1e-6 qk-norm=head tie=on"},
    {"qwen3-8b",
     "layers=36 hidden=4096 heads=32 kv-heads=8 ffn=12288 seq=40960 vocab=151936 rope-theta=1000000 norm-eps=1e-6 "
     "qk-norm=head tie=off"},
    {NULL, NULL},
};
