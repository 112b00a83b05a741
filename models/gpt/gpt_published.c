#include "models/gpt/gpt.h"

#define LAYER "transformer.h.%d"
const struct published gpt_published[] = {
    {"embed.wte", {"transformer.wte.weight"}, "V C"},
    {"embed.wpe", {"transformer.wpe.weight"}, "T C"},
    {"h%d.ln1.g", {LAYER ".ln_1.weight"}, "C"},
    {"h%d.ln1.b", {LAYER ".ln_1.bias"}, "C"},
    {"h%d.qkv.w", {LAYER ".attn.c_attn.weight"}, "C 3HD"},
    {"h%d.qkv.b", {LAYER ".attn.c_attn.bias"}, "3HD"},
    {"h%d.proj.w", {LAYER ".attn.c_proj.weight"}, "HD C"},
    {"h%d.proj.b", {LAYER ".attn.c_proj.bias"}, "C"},
    {"h%d.ln2.g", {LAYER ".ln_2.weight"}, "C"},
    {"h%d.ln2.b", {LAYER ".ln_2.bias"}, "C"},
    {"h%d.fc.w", {LAYER ".mlp.c_fc.weight"}, "C K"},
    {"h%d.fc.b", {LAYER ".mlp.c_fc.bias"}, "K"},
    {"h%d.fc2.w", {LAYER ".mlp.c_proj.weight"}, "K C"},
    {"h%d.fc2.b", {LAYER ".mlp.c_proj.bias"}, "C"},
    {"head.lnf.g", {"transformer.ln_f.weight"}, "C"},
    {"head.lnf.b", {"transformer.ln_f.bias"}, "C"},
    {"head.w", {"lm_head.weight"}, "V C"},
    /* slots: the outputs of modules */
    {"embed.pos", {"transformer.drop"}, "B T C"},
    {"h%d.ln1", {LAYER ".ln_1"}, "B T C"},
    {"h%d.qkv", {LAYER ".attn.c_attn"}, "B T 3HD"},
    {"h%d.ln2", {LAYER ".ln_2"}, "B T C"},
    {"h%d.fc", {LAYER ".mlp.c_fc"}, "B T K"},
    {"h%d.gelu", {LAYER ".mlp.act"}, "B T K"},
    {"h%d.res2", {LAYER}, "B T C"},
    {"head.lnf", {"transformer.ln_f"}, "B T C"},
    {"head.logits", {"lm_head"}, "B T V"},
    {0},
};
