/* Llama, and what is published as one: TinyLlama, SmolLM 2.
 *
 * pretraining_tp: older versions of transformers cut the matrices by it; the sums are the same.
 *
 * Source: huggingface/transformers, models/llama; Touvron et al. 2023; Grattafiori et al. 2024. */
#include "models/llama/families/family.h"

static const struct hf_key KEYS[] = {
    {"head_dim", HF_SIZE, "null", NULL, SAID(head_dim)},
    {"num_key_value_heads", HF_SIZE, "null", NULL, SAID(model.kv_heads)},
    {"rms_norm_eps", HF_REAL, "1e-6", NULL, SAID(eps)},
    {"attention_bias", HF_FLAG, "false", NULL, SAID(attention_bias)},
    {"mlp_bias", HF_FLAG, "false", NULL, SAID(mlp_bias)},
    {0},
};
static const struct hf_keys LLAMA = {KEYS, NULL, "pretraining_tp"};

const struct llama_family llama_family_llama = {
    .architecture = "LlamaForCausalLM", .keys = &LLAMA, .theta = 1e4, .bias = "all", .always = ""};

const struct model_preset llama_presets_llama[] = {
    {"tiny", "layers=4 hidden=128 heads=4 kv-heads=2 ffn=344 seq=64 tie=off"},  /* vocab comes from the data */
    {"tinyllama-1.1b", "layers=22 hidden=2048 heads=32 kv-heads=4 ffn=5632 seq=2048 vocab=32000 tie=off"},
    {"llama2-7b", "layers=32 hidden=4096 heads=32 ffn=11008 seq=4096 vocab=32000 tie=off"},
    {"llama2-13b", "layers=40 hidden=5120 heads=40 ffn=13824 seq=4096 vocab=32000 tie=off"},
    {"llama2-70b", "layers=80 hidden=8192 heads=64 kv-heads=8 ffn=28672 seq=4096 vocab=32000 tie=off"},
    {"llama3-8b",
     "layers=32 hidden=4096 heads=32 kv-heads=8 ffn=14336 seq=8192 vocab=128256 rope-theta=500000 tie=off"},
    {"llama3-70b",
     "layers=80 hidden=8192 heads=64 kv-heads=8 ffn=28672 seq=8192 vocab=128256 rope-theta=500000 tie=off"},
    {"llama3.1-8b",
     "layers=32 hidden=4096 heads=32 kv-heads=8 ffn=14336 seq=131072 vocab=128256 rope-theta=500000 "
     "rope-scaling=llama3:8:8192 tie=off"},
    {"llama3.2-1b",
     "layers=16 hidden=2048 heads=32 kv-heads=8 ffn=8192 seq=131072 vocab=128256 rope-theta=500000 "
     "rope-scaling=llama3:32:8192 tie=on"},
    {"smollm2-135m",
     "layers=30 hidden=576 heads=9 kv-heads=3 ffn=1536 seq=8192 vocab=49152 rope-theta=100000 tie=on"},
    {NULL, NULL},
};
