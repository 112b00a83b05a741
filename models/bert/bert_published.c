#include "models/bert/bert.h"
#include "models/bert/bert_hf.h"

#define EMBED "bert.embeddings"
#define LAYER "bert.encoder.layer.%d"
#define SELF LAYER ".attention.self"
#define HEAD "cls.predictions"
const struct published bert_published[] = {
    {"embed.word", {EMBED ".word_embeddings.weight"}, "V C"},
    {"embed.type", {EMBED ".token_type_embeddings.weight"}, "2 C"},
    {"embed.pos.w", {EMBED ".position_embeddings.weight"}, "T C"},
    {"embed.ln.g", {EMBED ".LayerNorm.weight"}, "C"},
    {"embed.ln.b", {EMBED ".LayerNorm.bias"}, "C"},
    {"h%d.qkv.w", {SELF ".query.weight", SELF ".key.weight", SELF ".value.weight"}, "HD C"},
    {"h%d.qkv.b", {SELF ".query.bias", SELF ".key.bias", SELF ".value.bias"}, "HD"},
    {"h%d.proj.w", {LAYER ".attention.output.dense.weight"}, "C HD"},
    {"h%d.proj.b", {LAYER ".attention.output.dense.bias"}, "C"},
    {"h%d.ln1.g", {LAYER ".attention.output.LayerNorm.weight"}, "C"},
    {"h%d.ln1.b", {LAYER ".attention.output.LayerNorm.bias"}, "C"},
    {"h%d.fc.w", {LAYER ".intermediate.dense.weight"}, "K C"},
    {"h%d.fc.b", {LAYER ".intermediate.dense.bias"}, "K"},
    {"h%d.fc2.w", {LAYER ".output.dense.weight"}, "C K"},
    {"h%d.fc2.b", {LAYER ".output.dense.bias"}, "C"},
    {"h%d.ln2.g", {LAYER ".output.LayerNorm.weight"}, "C"},
    {"h%d.ln2.b", {LAYER ".output.LayerNorm.bias"}, "C"},
    {"head.dense.w", {HEAD ".transform.dense.weight"}, "C C"},
    {"head.dense.b", {HEAD ".transform.dense.bias"}, "C"},
    {"head.ln.g", {HEAD ".transform.LayerNorm.weight"}, "C"},
    {"head.ln.b", {HEAD ".transform.LayerNorm.bias"}, "C"},
    {"head.w", {HEAD ".decoder.weight"}, "V C"},
    {"head.b", {HEAD ".bias"}, "V"},
    /* slots: the outputs of modules */
    {"embed.tok", {EMBED ".word_embeddings"}, "B T C"},
    {"embed.seg", {EMBED ".token_type_embeddings"}, "B T C"},
    {"embed.ln", {EMBED ".LayerNorm"}, "B T C"},
    {"h%d.qkv", {SELF ".query", SELF ".key", SELF ".value"}, "B T HD"},
    {"h%d.ln1", {LAYER ".attention.output"}, "B T C"},
    {"h%d.fc", {LAYER ".intermediate.dense"}, "B T K"},
    {"h%d.ln2", {LAYER}, "B T C"},
    {"head.ln", {HEAD ".transform"}, "B T C"},
    {"head.logits", {HEAD}, "B T V"},
    {0},
};

/* Files of other projects that hold a BERT. */
const struct model_format bert_formats[] = {
    {"hf", bert_hf_import, bert_hf_export, "bert", bert_hf_check, bert_hf_config_read},
    {0},
};

/* Sizes by name: Devlin et al. 2019, section 3, and the published vocabulary of the uncased models. */
const struct model_preset bert_presets[] = {
    {"tiny", "layers=4 hidden=128 heads=4 seq=64"},   /* vocab comes from the data */
    {"bert-base", "layers=12 hidden=768 heads=12 seq=512 vocab=30522"},
    {"bert-large", "layers=24 hidden=1024 heads=16 seq=512 vocab=30522"},
    {NULL, NULL},
};
