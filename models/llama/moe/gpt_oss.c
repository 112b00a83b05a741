/* GPT-OSS: experts with biases and a clamped gate, a router with a bias, sinks, and a window in every second layer or
 * in those that layer_types names. rope_parameters that are absent or null are YaRN's, whose bounds are not truncated.
 *
 * Source: huggingface/transformers, models/gpt_oss; OpenAI 2025 (gpt-oss-120b and gpt-oss-20b). */
#include "lib/checkpoint/hf_weights.h"
#include "models/llama/llama.h"
#include "models/llama/llama_hf.h"

static const struct hf_key KEYS[] = {
    {"num_key_value_heads", HF_SIZE, "8", NULL, SAID(model.kv_heads)},
    {"head_dim", HF_SIZE, "64", NULL, SAID(head_dim)},
    {"rms_norm_eps", HF_REAL, "1e-5", NULL, SAID(eps)},
    {"attention_bias", HF_FLAG, "true", NULL, SAID(attention_bias)},
    {"sliding_window", HF_READ, "128", NULL, 0},
    {"layer_types", HF_READ, "null", NULL, 0},
    {"num_local_experts|num_experts", HF_SIZE, "128", NULL, SAID(model.experts)},
    {"num_experts_per_tok", HF_SIZE, "4", NULL, SAID(model.experts_per_token)},
    {"swiglu_alpha", HF_MUST, "1.702", "1.702", 0},
    {"swiglu_limit", HF_REAL, "7.0", NULL, SAID(swiglu_limit)},
    {"quantization_config", HF_READ, "null", NULL, 0},
    {0},
};
static const struct hf_keys GPT_OSS = {KEYS, NULL, "output_router_logits router_aux_loss_coef"};

const struct llama_family llama_family_gpt_oss = {
    .architecture = "GptOssForCausalLM", .keys = &GPT_OSS, .theta = 150000, .bias = "all", .window_layers = "sf",
    .scaling = "yarn-untruncated:32:4096", .always = "attention-sinks=on expert-bias=on router-bias=on"};

const struct model_preset llama_presets_gpt_oss[] = {
    {"tiny",
     "layers=4 hidden=128 heads=4 kv-heads=2 ffn=96 seq=64 tie=off attention-bias=all window=16 window-layers=sf "
     "attention-sinks=on experts=8 experts-per-token=2 expert-bias=on router-bias=on swiglu-limit=7"},
#define GPT_OSS_SIZES \
    "hidden=2880 heads=64 kv-heads=8 head-dim=64 ffn=2880 seq=131072 vocab=201088 rope-theta=150000 " \
    "rope-scaling=yarn-untruncated:32:4096 tie=off attention-bias=all window=128 window-layers=sf attention-sinks=on " \
    "experts-per-token=4 expert-bias=on router-bias=on swiglu-limit=7 "
    {"gpt-oss-20b", GPT_OSS_SIZES "layers=24 experts=32"},
    {"gpt-oss-120b", GPT_OSS_SIZES "layers=36 experts=128"},
    {NULL, NULL},
};

/* ---- its files ---- */
/* As published, the experts are in MXFP4: rows of C numbers, of which those of gate and up alternate, and of F. */
#define EXPERTS "model.layers.%d.mlp.experts."
static const struct published IN_BLOCKS[] = {
    {"h%d.experts.up.w", {EXPERTS "gate_up_proj_blocks"}, "E F2 C"},
    {"h%d.experts.down.w", {EXPERTS "down_proj_blocks"}, "E C F"},
    {0},
};

static const struct hf_again AGAIN[] = {{"lm_head.weight", "model.embed_tokens.weight", HF_AGAIN_TIED}, {0}};
static const struct hf_weights WEIGHTS = {
    .name = "GPT-OSS", .names = gpt_oss_published, .fused = IN_BLOCKS, .model = &model_llama,
    .config_read = llama_hf_config_read, .config_write = llama_hf_config_write, .check = llama_hf_check,
    .again = AGAIN};

static enum status import(const char *path, int64_t heads, const char *save, struct checkpoint_model *out) {
    return hf_weights_import(&WEIGHTS, path, heads, save, out);
}
static enum status export(const struct checkpoint_reader *r, enum dtype dtype, const char *path) {
    return hf_weights_export(&WEIGHTS, r, dtype, path, HF_SHARD_BYTES);
}
const struct model_format gpt_oss_formats[] = {
    {"hf", import, export, "gpt_oss", llama_hf_check, llama_hf_config_read}, {0}};
