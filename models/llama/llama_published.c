#include "models/llama/llama.h"
#include "models/llama/llama_hf.h"

#define LAYER "model.layers.%d"
#define EXPERT LAYER ".block_sparse_moe.experts.%e"
const struct published llama_published[] = {
    {"embed.table", {"model.embed_tokens.weight"}, "V C"},
    {"h%d.norm1.g", {LAYER ".input_layernorm.weight"}, "C"},
    {"h%d.q.w", {LAYER ".self_attn.q_proj.weight"}, "HD C"},
    {"h%d.q.b", {LAYER ".self_attn.q_proj.bias"}, "HD"},
    {"h%d.kv.b", {LAYER ".self_attn.k_proj.bias", LAYER ".self_attn.v_proj.bias"}, "JD"},
    {"h%d.sinks", {LAYER ".self_attn.sinks"}, "H"},
    {"h%d.proj.b", {LAYER ".self_attn.o_proj.bias"}, "C"},
    {"h%d.up.b", {LAYER ".mlp.gate_proj.bias", LAYER ".mlp.up_proj.bias"}, "K"},
    {"h%d.down.b", {LAYER ".mlp.down_proj.bias"}, "C"},
    {"h%d.q.norm.g", {LAYER ".self_attn.q_norm.weight"}, "HD"},
    {"h%d.k.norm.g", {LAYER ".self_attn.k_norm.weight"}, "JD"},
    {"h%d.kv.w", {LAYER ".self_attn.k_proj.weight", LAYER ".self_attn.v_proj.weight"}, "JD C"},
    {"h%d.proj.w", {LAYER ".self_attn.o_proj.weight"}, "C HD"},
    {"h%d.norm2.g", {LAYER ".post_attention_layernorm.weight"}, "C"},
    {"h%d.post1.g", {LAYER ".post_attention_layernorm.weight"}, "C"},
    {"h%d.post2.g", {LAYER ".post_feedforward_layernorm.weight"}, "C"},
    {"h%d.up.w", {LAYER ".mlp.gate_proj.weight", LAYER ".mlp.up_proj.weight"}, "K C"},
    {"h%d.down.w", {LAYER ".mlp.down_proj.weight"}, "C K"},
    {"h%d.router.w", {LAYER ".block_sparse_moe.gate.weight"}, "E C"},
    {"h%d.experts.up.w", {EXPERT ".w1.weight", EXPERT ".w3.weight"}, "F C"},
    {"h%d.experts.down.w", {EXPERT ".w2.weight"}, "C F"},
    {"head.norm.g", {"model.norm.weight"}, "C"},
    {"head.w", {"lm_head.weight"}, "V C"},
    /* slots: the outputs of modules */
    {"embed.tok", {"model.embed_tokens"}, "B T C"},
    {"h%d.norm1", {LAYER ".input_layernorm"}, "B T C"},
    {"h%d.q", {LAYER ".self_attn.q_proj"}, "B T HD"},
    {"h%d.kv", {LAYER ".self_attn.k_proj", LAYER ".self_attn.v_proj"}, "B T JD"},
    {"h%d.post1", {LAYER ".post_attention_layernorm"}, "B T C"},
    {"h%d.post2", {LAYER ".post_feedforward_layernorm"}, "B T C"},
    {"h%d.norm2", {LAYER ".post_attention_layernorm"}, "B T C"},
    {"h%d.up", {LAYER ".mlp.gate_proj", LAYER ".mlp.up_proj"}, "B T K"},
    {"h%d.res2", {LAYER}, "B T C"},
    {"head.norm", {"model.norm"}, "B T C"},
    {"head.logits", {"lm_head"}, "B T V"},
    {0},
};

/* ---- the formats of files that hold one ---- */

#define FORMAT_OF(type) {"hf", llama_hf_import, llama_hf_export, #type, llama_hf_check, llama_hf_config_read},
const struct model_format llama_formats[] = {FAMILIES_OF_LLAMA(FORMAT_OF) {0}};
const struct model_format mixtral_formats[] = {FAMILIES_OF_MIXTRAL(FORMAT_OF) {0}};
