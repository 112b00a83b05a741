#include "t5/t5_hf.h"

#include "lib/checkpoint/hf_config.h"
#include "lib/ops/attention/attention_bias.h"
#include <inttypes.h>
#include <string.h>

/* ---- reading ---- */

/* A number that the model has to say, if it says one. */
static enum status check_number(const char *path, const json_t *config, const char *key, double wanted) {
    const json_t *x = json_object_get(config, key);
    if (!hf_config_is_said(x) || json_number_value(x) == wanted) return OK;
    return FAIL(E_FORMAT, "%s: %s is %g; Trivium's T5 has %g", path, key, json_number_value(x), wanted);
}

static enum status read_sizes(const char *path, const json_t *config, struct checkpoint_model *m) {
    int64_t layers, decoder_layers, head;
    const struct { const char *key; int64_t *to; bool must; } sizes[] = {
        {"num_layers", &layers, true}, {"num_decoder_layers", &decoder_layers, false}, {"d_model", &m->hidden, true},
        {"num_heads", &m->heads, true}, {"d_kv", &head, true}, {"d_ff", &m->ffn, true},
        {"vocab_size", &m->vocab, true}, {"n_positions", &m->seq, false}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(hf_config_size(path, config, sizes[i].key, sizes[i].must, sizes[i].to));
    if (decoder_layers && decoder_layers != layers)
        return FAIL(E_FORMAT, "%s: num_layers=%" PRId64 " and num_decoder_layers=%" PRId64
                    "; Trivium's T5 has as many of both", path, layers, decoder_layers);
    m->layers = 2 * layers;
    if (!m->seq) m->seq = 512;
    if (m->ffn == 4 * m->hidden) m->ffn = 0;
    TRY(checkpoint_model_check(m, path));
    if (head * m->heads != m->hidden)
        return FAIL(E_FORMAT, "%s: d_kv=%" PRId64 " x num_heads=%" PRId64 " is not d_model=%" PRId64
                    ", as in Trivium's T5", path, head, m->heads, m->hidden);
    return OK;
}

static enum status check_function(const char *path, const json_t *config) {
    const json_t *x = json_object_get(config, "feed_forward_proj");
    const char *mlp = json_string_value(x);
    if (hf_config_is_said(x) && (!mlp || strcmp(mlp, "relu")))
        return FAIL(E_FORMAT, "%s: feed_forward_proj is %.32s; Trivium computes relu", path, mlp ? mlp : "no text");
    TRY(check_number(path, config, "layer_norm_epsilon", 1e-6));
    TRY(check_number(path, config, "relative_attention_num_buckets", ATTENTION_BUCKETS));
    TRY(check_number(path, config, "relative_attention_max_distance", ATTENTION_FAR));
    return check_number(path, config, "decoder_start_token_id", 0);
}

static enum status read_config(const char *path, const json_t *config, struct checkpoint_model *m) {
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const json_t *tied = json_object_get(config, "tie_word_embeddings");
    *m = (struct checkpoint_model){.arch = "t5", .untied = json_is_false(tied)};
    if (!type || strcmp(type, "t5"))
        return FAIL(E_FORMAT, "%s: model_type is %.32s, not t5", path, type ? type : "no name");
    TRY(read_sizes(path, config, m));
    return check_function(path, config);
}

enum status t5_hf_config_read(const char *path, struct checkpoint_model *out) {
    json_t *config;
    TRY(hf_config_load(path, &config));
    enum status status = read_config(path, config, out);
    json_decref(config);
    return status;
}

/* ---- writing ---- */

enum status t5_hf_config_write(const char *path, const struct checkpoint_model *m, enum dtype dtype) {
    json_t *config = json_pack(
        "{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:f, s:s, s:b, s:b, s:i, s:i, s:s}",
        "architectures", "T5ForConditionalGeneration", "model_type", "t5", "num_layers", (json_int_t)(m->layers / 2),
        "num_decoder_layers", (json_int_t)(m->layers / 2), "d_model", (json_int_t)m->hidden, "d_kv",
        (json_int_t)(m->hidden / m->heads), "d_ff", (json_int_t)(m->ffn ? m->ffn : 4 * m->hidden), "num_heads",
        (json_int_t)m->heads, "vocab_size", (json_int_t)m->vocab, "n_positions", (json_int_t)m->seq,
        "relative_attention_num_buckets", ATTENTION_BUCKETS, "relative_attention_max_distance", ATTENTION_FAR,
        "layer_norm_epsilon", 1e-6, "feed_forward_proj", "relu", "is_encoder_decoder", 1, "tie_word_embeddings",
        !m->untied, "decoder_start_token_id", 0, "pad_token_id", 0, "torch_dtype", hf_config_dtype(dtype));
    return hf_config_save(path, config);
}
