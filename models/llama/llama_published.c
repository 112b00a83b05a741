#include "models/llama/llama.h"
#include "models/llama/llama_hf.h"

#define LAYER "model.layers.%d"
/* What all call the same: weights, and slots, which are the outputs of modules. */
#define ROWS \
    {"embed.table", {"model.embed_tokens.weight"}, "V C"}, \
    {"h%d.norm1.g", {LAYER ".input_layernorm.weight"}, "C"}, \
    {"h%d.q.w", {LAYER ".self_attn.q_proj.weight"}, "HD C"}, \
    {"h%d.q.b", {LAYER ".self_attn.q_proj.bias"}, "HD"}, \
    {"h%d.kv.b", {LAYER ".self_attn.k_proj.bias", LAYER ".self_attn.v_proj.bias"}, "JD"}, \
    MLA_PUBLISHED(LAYER ".self_attn."), \
    {"h%d.sinks", {LAYER ".self_attn.sinks"}, "H"}, \
    {"h%d.proj.b", {LAYER ".self_attn.o_proj.bias"}, "C"}, \
    {"h%d.up.b", {LAYER ".mlp.gate_proj.bias", LAYER ".mlp.up_proj.bias"}, "K"}, \
    {"h%d.down.b", {LAYER ".mlp.down_proj.bias"}, "C"}, \
    {"h%d.q.norm.g", {LAYER ".self_attn.q_norm.weight"}, "HD"}, \
    {"h%d.k.norm.g", {LAYER ".self_attn.k_norm.weight"}, "JD"}, \
    {"h%d.kv.w", {LAYER ".self_attn.k_proj.weight", LAYER ".self_attn.v_proj.weight"}, "JD C"}, \
    {"h%d.proj.w", {LAYER ".self_attn.o_proj.weight"}, "C HD"}, \
    {"h%d.norm2.g", {LAYER ".post_attention_layernorm.weight"}, "C"}, \
    {"h%d.post1.g", {LAYER ".post_attention_layernorm.weight"}, "C"}, \
    {"h%d.post2.g", {LAYER ".post_feedforward_layernorm.weight"}, "C"}, \
    {"h%d.up.w", {LAYER ".mlp.gate_proj.weight", LAYER ".mlp.up_proj.weight"}, "K C"}, \
    {"h%d.down.w", {LAYER ".mlp.down_proj.weight"}, "C K"}, \
    {"head.norm.g", {"model.norm.weight"}, "C"}, \
    {"head.w", {"lm_head.weight"}, "V C"}, \
    {"embed.tok", {"model.embed_tokens"}, "B T C"}, \
    {"h%d.norm1", {LAYER ".input_layernorm"}, "B T C"}, \
    {"h%d.q", {LAYER ".self_attn.q_proj"}, "B T HD"}, \
    {"h%d.kv", {LAYER ".self_attn.k_proj", LAYER ".self_attn.v_proj"}, "B T JD"}, \
    {"h%d.post1", {LAYER ".post_attention_layernorm"}, "B T C"}, \
    {"h%d.post2", {LAYER ".post_feedforward_layernorm"}, "B T C"}, \
    {"h%d.norm2", {LAYER ".post_attention_layernorm"}, "B T C"}, \
    {"h%d.up", {LAYER ".mlp.gate_proj", LAYER ".mlp.up_proj"}, "B T K"}, \
    {"h%d.res2", {LAYER}, "B T C"}, \
    {"head.norm", {"model.norm"}, "B T C"}, \
    {"head.logits", {"lm_head"}, "B T V"},

#define OF_MIXTRAL LAYER ".block_sparse_moe.experts.%e"
const struct published llama_published[] = {
    ROWS
    {"h%d.router.w", {LAYER ".block_sparse_moe.gate.weight"}, "E C"},
    {"h%d.experts.up.w", {OF_MIXTRAL ".w1.weight", OF_MIXTRAL ".w3.weight"}, "F C"},
    {"h%d.experts.down.w", {OF_MIXTRAL ".w2.weight"}, "C F"},
    {0},
};

#define EXPERT LAYER ".mlp.experts.%e"
const struct published moe_published[] = {
    ROWS
    MOE_PUBLISHED(LAYER ".mlp."),
    {"h%d.router.w", {LAYER ".mlp.gate.weight"}, "E C"},
    {"h%d.experts.up.w", {EXPERT ".gate_proj.weight", EXPERT ".up_proj.weight"}, "F C"},
    {"h%d.experts.down.w", {EXPERT ".down_proj.weight"}, "C F"},
    {0},
};

#define GPT_OSS LAYER ".mlp.experts."
const struct published gpt_oss_published[] = {
    ROWS
    {"h%d.router.w", {LAYER ".mlp.router.weight"}, "E C"},
    {"h%d.router.b", {LAYER ".mlp.router.bias"}, "E"},
    {"h%d.experts.up.w", {GPT_OSS "gate_up_proj"}, "E C F2"},        /* gate and up alternate */
    {"h%d.experts.up.b", {GPT_OSS "gate_up_proj_bias"}, "E F2"},
    {"h%d.experts.down.w", {GPT_OSS "down_proj"}, "E F C"},
    {"h%d.experts.down.b", {GPT_OSS "down_proj_bias"}, "E C"},
    {0},
};

const struct published llama_fused[] = {
    {"h%d.router.w", {LAYER ".mlp.gate.weight"}, "E C"},
    {"h%d.experts.up.w", {LAYER ".mlp.experts.gate_up_proj"}, "E 2F C"},
    {"h%d.experts.down.w", {LAYER ".mlp.experts.down_proj"}, "E C F"},
    {0},
};

/* ---- the formats of files that hold one ---- */

#define FORMAT_OF(type) {"hf", llama_hf_import, llama_hf_export, #type, llama_hf_check, llama_hf_config_read},
const struct model_format llama_formats[] = {FAMILIES_OF_LLAMA(FORMAT_OF) {0}};
const struct model_format mixtral_formats[] = {FAMILIES_OF_MIXTRAL(FORMAT_OF) {0}};
#define MOE_FORMAT_OF(type) {"hf", moe_hf_import, moe_hf_export, #type, llama_hf_check, llama_hf_config_read},
const struct model_format moe_formats[] = {FAMILIES_OF_MOE(MOE_FORMAT_OF) {0}};
