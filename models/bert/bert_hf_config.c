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
    {"num_hidden_layers", HF_SIZE, NULL, NULL, AT(model.layers)},
    {"hidden_size", HF_SIZE, NULL, NULL, AT(model.hidden)},
    {"num_attention_heads", HF_SIZE, NULL, NULL, AT(model.heads)},
    {"max_position_embeddings", HF_SIZE, NULL, NULL, AT(model.seq)},
    {"vocab_size", HF_SIZE, NULL, NULL, AT(model.vocab)},
    {"intermediate_size", HF_SIZE, NULL, NULL, AT(model.ffn)},
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
    TRY(hf_keys_read(path, "bert", config, (const struct hf_keys *const[]){&BERT, &hf_keys_shared, NULL}, false, &s));
    *out = s.model;
    strcpy(out->arch, "bert");
    out->untied = !s.tied;
    checkpoint_model_say_real(out, "norm-eps", s.eps, 1e-12);
    hf_activation_read(config, "hidden_act", "gelu", out);
    if (out->ffn == 4 * out->hidden) out->ffn = 0;
    return checkpoint_model_check(out, path);
}

enum status bert_hf_config_read(const char *path, struct checkpoint_model *out) {
    json_t *config;
    TRY(hf_config_load(path, &config));
    enum status status = read_config(path, config, out);
    json_decref(config);
    return status;
}

/* ---- writing ---- */

enum status bert_hf_config_write(const char *path, const struct checkpoint_model *m, enum dtype dtype) {
    double eps = checkpoint_model_real(m, "norm-eps", 1e-12);
    json_t *config = json_pack(
        "{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:s, s:s, s:b, s:s}", "architectures", "BertForMaskedLM",
        "model_type", "bert", "num_hidden_layers", (json_int_t)m->layers, "hidden_size", (json_int_t)m->hidden,
        "intermediate_size", (json_int_t)(m->ffn ? m->ffn : 4 * m->hidden), "num_attention_heads",
        (json_int_t)m->heads, "max_position_embeddings", (json_int_t)m->seq, "vocab_size", (json_int_t)m->vocab,
        "type_vocab_size", (json_int_t)2, "layer_norm_eps", eps, "hidden_act", hf_activation_name(m, "gelu"),
        "position_embedding_type", "absolute", "tie_word_embeddings", !m->untied, "torch_dtype",
        hf_config_dtype(dtype));
    return hf_config_save(path, config);
}
