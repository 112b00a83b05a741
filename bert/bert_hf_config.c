#include "bert/bert_hf.h"

#include "lib/checkpoint/hf_config.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- reading ---- */

static enum status read_sizes(const char *path, const json_t *config, struct checkpoint_model *m) {
    const struct { const char *key; int64_t *to; } sizes[] = {
        {"num_hidden_layers", &m->layers}, {"hidden_size", &m->hidden}, {"num_attention_heads", &m->heads},
        {"max_position_embeddings", &m->seq}, {"vocab_size", &m->vocab}, {"intermediate_size", &m->ffn}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(hf_config_size(path, config, sizes[i].key, true, sizes[i].to));
    if (m->ffn == 4 * m->hidden) m->ffn = 0;
    return checkpoint_model_check(m, path);
}

/* What is wanted of a key that is said. */
static enum status check_text(const char *path, const json_t *config, const char *key, const char *wanted) {
    const json_t *x = json_object_get(config, key);
    const char *text = json_string_value(x);
    if (!hf_config_is_said(x) || (text && !strcmp(text, wanted))) return OK;
    return FAIL(E_FORMAT, "%s: %s is %.32s; Trivium computes %s", path, key, text ? text : "no text", wanted);
}

static enum status check_function(const char *path, const json_t *config) {
    const json_t *eps = json_object_get(config, "layer_norm_eps");
    int64_t types;
    TRY(check_text(path, config, "hidden_act", "gelu"));
    TRY(check_text(path, config, "position_embedding_type", "absolute"));
    if (hf_config_is_said(eps) && json_number_value(eps) != 1e-12)
        return FAIL(E_FORMAT, "%s: layer_norm_eps is %g; Trivium's BERT has 1e-12", path, json_number_value(eps));
    TRY(hf_config_size(path, config, "type_vocab_size", false, &types));
    if (types && types != 2)
        return FAIL(E_FORMAT, "%s: type_vocab_size is %" PRId64 "; Trivium's BERT has 2 segments", path, types);
    if (json_is_true(json_object_get(config, "is_decoder")))
        return FAIL(E_FORMAT, "%s says is_decoder; Trivium's BERT attends to all tokens", path);
    return OK;
}

static enum status read_config(const char *path, const json_t *config, struct checkpoint_model *m) {
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const json_t *tied = json_object_get(config, "tie_word_embeddings");
    *m = (struct checkpoint_model){.arch = "bert", .untied = json_is_false(tied)};
    if (!type || strcmp(type, "bert"))
        return FAIL(E_FORMAT, "%s: model_type is %.32s, not bert", path, type ? type : "no name");
    TRY(read_sizes(path, config, m));
    return check_function(path, config);
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
    json_t *config = json_pack(
        "{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:s, s:s, s:b, s:s}", "architectures", "BertForMaskedLM",
        "model_type", "bert", "num_hidden_layers", (json_int_t)m->layers, "hidden_size", (json_int_t)m->hidden,
        "intermediate_size", (json_int_t)(m->ffn ? m->ffn : 4 * m->hidden), "num_attention_heads",
        (json_int_t)m->heads, "max_position_embeddings", (json_int_t)m->seq, "vocab_size", (json_int_t)m->vocab,
        "type_vocab_size", (json_int_t)2, "layer_norm_eps", 1e-12, "hidden_act", "gelu", "position_embedding_type",
        "absolute", "tie_word_embeddings", !m->untied, "torch_dtype", hf_config_dtype(dtype));
    return hf_config_save(path, config);
}
