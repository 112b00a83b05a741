#include "models/bert/bert_hf.h"

#include "lib/checkpoint/hf_config.h"
#include "lib/checkpoint/hf_keys.h"
#include <string.h>

/* ---- what config.json says ---- */

struct said { struct checkpoint_model model; int64_t tied; double eps; };
#define AT(field) offsetof(struct said, field)

/* position_embedding_type: only transformers 4 reads this key. */
static const struct hf_key KEYS[] = {
    {"model_type", HF_MUST, NULL, "bert", 0},
    {"tie_word_embeddings", HF_FLAG, "true", NULL, AT(tied)},
    {"hidden_act", HF_MUST, "gelu", "gelu|gelu_new|gelu_pytorch_tanh|relu", 0},
    {"layer_norm_eps", HF_REAL, "1e-12", NULL, AT(eps)},
    {"type_vocab_size", HF_MUST, "2", "2", 0},
    {"position_embedding_type", HF_MUST, "absolute", "absolute", 0},
    {"is_decoder", HF_MUST, "false", "false", 0},
    {"add_cross_attention", HF_MUST, "false", "false", 0},
    {0},
};
static const struct hf_keys BERT = {KEYS, NULL, "hidden_dropout_prob attention_probs_dropout_prob embedding_size "
                                                "pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers "
                                                "pooler_size_per_head pooler_type directionality"};

static enum status read_config(const char *path, const json_t *config, struct checkpoint_model *out) {
    struct said s = {.tied = 0};
    const struct hf_keys *const tables[] = {&BERT, &hf_keys_sizes, &hf_keys_shared, NULL};
    TRY(hf_keys_read(path, "bert", config, tables, false, &s));
    *out = s.model;
    strcpy(out->arch, "bert");
    out->untied = !s.tied;
    checkpoint_model_say_real(out, "norm-eps", s.eps, 1e-12);
    hf_activation_read(config, "hidden_act", "gelu", out);
    if (out->ffn == 4 * out->hidden) out->ffn = 0;
    return checkpoint_model_check(out, path);
}

enum status bert_hf_config_read(const char *path, struct checkpoint_model *out) {
    return hf_config_read(path, read_config, out);
}

/* ---- writing ---- */

enum status bert_hf_config_write(const char *path, const struct checkpoint_model *m, enum dtype dtype) {
    struct checkpoint_model whole = *m;
    double eps = checkpoint_model_real(m, "norm-eps", 1e-12);
    if (!m->ffn) whole.ffn = 4 * m->hidden;
    json_t *config = json_pack(
        "{s:[s], s:s, s:i, s:f, s:s, s:s, s:b, s:s}", "architectures", "BertForMaskedLM", "model_type", "bert",
        "type_vocab_size", 2, "layer_norm_eps", eps, "hidden_act", hf_activation_name(m, "gelu"),
        "position_embedding_type", "absolute", "tie_word_embeddings", !m->untied, "torch_dtype",
        hf_config_dtype(dtype));
    return hf_config_save(path, hf_keys_write(&hf_keys_sizes, &whole, config));
}
