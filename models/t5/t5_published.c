#include "models/t5/t5.h"

#define ENCODER "encoder.block.%d.layer."
#define DECODER "decoder.block.%d.layer."
#define SELF "0.SelfAttention"
#define CROSS "1.EncDecAttention"
#define MLP "DenseReluDense"
/* Only the first layer of a stack has a table of distances: there %d is 0. */
const struct published t5_published[] = {
    {"embed.wte", {"shared.weight"}, "V C"},
    {"e%d.bias", {ENCODER SELF ".relative_attention_bias.weight"}, "R H"},
    {"e%d.ln1.g", {ENCODER "0.layer_norm.weight"}, "C"},
    {"e%d.q.w", {ENCODER SELF ".q.weight"}, "HD C"},
    {"e%d.kv.w", {ENCODER SELF ".k.weight", ENCODER SELF ".v.weight"}, "JD C"},
    {"e%d.o.w", {ENCODER SELF ".o.weight"}, "C HD"},
    {"e%d.ln3.g", {ENCODER "1.layer_norm.weight"}, "C"},
    {"e%d.fc.w", {ENCODER "1." MLP ".wi.weight"}, "K C"},
    {"e%d.up.w", {ENCODER "1." MLP ".wi_0.weight", ENCODER "1." MLP ".wi_1.weight"}, "K C"},
    {"e%d.fc2.w", {ENCODER "1." MLP ".wo.weight"}, "C K"},
    {"e%d.ln.g", {"encoder.final_layer_norm.weight"}, "C"},
    {"d%d.bias", {DECODER SELF ".relative_attention_bias.weight"}, "R H"},
    {"d%d.ln1.g", {DECODER "0.layer_norm.weight"}, "C"},
    {"d%d.q.w", {DECODER SELF ".q.weight"}, "HD C"},
    {"d%d.kv.w", {DECODER SELF ".k.weight", DECODER SELF ".v.weight"}, "JD C"},
    {"d%d.o.w", {DECODER SELF ".o.weight"}, "C HD"},
    {"d%d.ln2.g", {DECODER "1.layer_norm.weight"}, "C"},
    {"d%d.xq.w", {DECODER CROSS ".q.weight"}, "HD C"},
    {"d%d.xkv.w", {DECODER CROSS ".k.weight", DECODER CROSS ".v.weight"}, "JD C"},
    {"d%d.xo.w", {DECODER CROSS ".o.weight"}, "C HD"},
    {"d%d.ln3.g", {DECODER "2.layer_norm.weight"}, "C"},
    {"d%d.fc.w", {DECODER "2." MLP ".wi.weight"}, "K C"},
    {"d%d.up.w", {DECODER "2." MLP ".wi_0.weight", DECODER "2." MLP ".wi_1.weight"}, "K C"},
    {"d%d.fc2.w", {DECODER "2." MLP ".wo.weight"}, "C K"},
    {"head.ln.g", {"decoder.final_layer_norm.weight"}, "C"},
    {"head.w", {"lm_head.weight"}, "V C"},
    {0},
};
