/* Mistral: a window in all layers, or none. A file that does not say its window has one of 4096.
 *
 * Source: huggingface/transformers, models/mistral; Jiang et al. 2023. */
#include "models/llama/families/family.h"

static const struct hf_key KEYS[] = {
    {"head_dim", HF_SIZE, "null", NULL, SAID(head_dim)},
    {"num_key_value_heads", HF_SIZE, "8", NULL, SAID(model.kv_heads)},
    {"rms_norm_eps", HF_REAL, "1e-6", NULL, SAID(eps)},
    {"sliding_window", HF_READ, "4096", NULL, 0},
    {0},
};
static const struct hf_keys MISTRAL = {KEYS, NULL, NULL};

const struct llama_family llama_family_mistral = {
    .architecture = "MistralForCausalLM", .keys = &MISTRAL, .theta = 1e4, .always = ""};

const struct model_preset llama_presets_mistral[] = {
    {"mistral-7b-v0.1",
     "layers=32 hidden=4096 heads=32 kv-heads=8 ffn=14336 seq=32768 vocab=32000 window=4096 tie=off"},
    {"mistral-7b",                                                                 /* version 0.3 */
     "layers=32 hidden=4096 heads=32 kv-heads=8 ffn=14336 seq=32768 vocab=32768 rope-theta=1000000 tie=off"},
    {"mistral-nemo-12b",
     "layers=40 hidden=5120 heads=32 kv-heads=8 head-dim=128 ffn=14336 seq=131072 vocab=131072 rope-theta=1000000 "
     "tie=off"},
    {NULL, NULL},
};
