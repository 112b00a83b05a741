#include "models/t5/t5_hf.h"

#include "lib/checkpoint/hf_config.h"
#include "lib/checkpoint/hf_keys.h"
#include "lib/ops/attention/attention_bias.h"
#include <inttypes.h>
#include <string.h>

/* ---- what config.json says ---- */

struct said { struct checkpoint_model model; int64_t tied, layers, decoder_layers, head; double eps; };
#define AT(field) offsetof(struct said, field)
_Static_assert(ATTENTION_BUCKETS == 32 && ATTENTION_FAR == 128, "the table below says them");

/* n_positions: published files have it, though no version of T5 reads it. is_encoder_decoder: if false, the decoder in
 * transformers has one cache for its own keys and the encoder's. */
static const struct hf_key KEYS[] = {
    {"model_type", HF_MUST, NULL, "t5", 0},
    {"num_layers|num_hidden_layers", HF_SIZE, NULL, NULL, AT(layers)},
    {"num_decoder_layers", HF_SIZE, "null", NULL, AT(decoder_layers)},
    {"d_model|hidden_size", HF_SIZE, NULL, NULL, AT(model.hidden)},
    {"num_heads|num_attention_heads", HF_SIZE, NULL, NULL, AT(model.heads)},
    {"d_kv|head_dim", HF_SIZE, "64", NULL, AT(head)},
    {"d_ff", HF_SIZE, NULL, NULL, AT(model.ffn)},
    {"vocab_size", HF_SIZE, NULL, NULL, AT(model.vocab)},
    {"n_positions", HF_SIZE, "512", NULL, AT(model.seq)},
    {"tie_word_embeddings", HF_FLAG, "true", NULL, AT(tied)},
    {"scale_decoder_outputs", HF_READ, "null", NULL, 0},
    {"feed_forward_proj", HF_READ, "relu", NULL, 0},
    {"dense_act_fn", HF_READ, "null", NULL, 0},
    {"is_gated_act", HF_READ, "null", NULL, 0},
    {"layer_norm_epsilon", HF_REAL, "1e-6", NULL, AT(eps)},
    {"relative_attention_num_buckets", HF_MUST, "32", "32", 0},
    {"relative_attention_max_distance", HF_MUST, "128", "128", 0},
    {"decoder_start_token_id", HF_MUST, "0", "0", 0},
    {"is_encoder_decoder", HF_MUST, "true", "true", 0},
    {0},
};
static const struct hf_keys T5 = {KEYS, NULL, "dropout_rate is_decoder output_past"};

/* ---- reading ---- */

/* Without num_decoder_layers and num_layers (by this name) transformers takes 6 decoder layers. */
static enum status read_layers(const char *path, const json_t *config, struct said *s) {
    if (!s->decoder_layers && !json_object_get(config, "num_layers"))
        return FAIL(E_FORMAT, "%s says num_hidden_layers, and not num_decoder_layers: say both", path);
    if (s->decoder_layers && s->decoder_layers != s->layers)
        return FAIL(E_FORMAT, "%s: num_layers=%" PRId64 " and num_decoder_layers=%" PRId64
                    "; Trivium's T5 has as many of both", path, s->layers, s->decoder_layers);
    s->model.layers = 2 * s->layers;
    return OK;
}

/* An untied head does not scale its input. transformers 4 says in tie_word_embeddings that a head is untied,
 * transformers 5 in scale_decoder_outputs. */
static enum status read_head(const char *path, const json_t *config, struct said *s) {
    const json_t *scale = json_object_get(config, "scale_decoder_outputs");
    if (scale && (!json_is_boolean(scale) || (json_is_true(scale) && !s->tied)))
        return FAIL(E_FORMAT, "%s: scale_decoder_outputs is %s; with a head of its own Trivium's T5 has false", path,
                    hf_keys_show(scale));
    s->model.untied = !s->tied || (scale && json_is_false(scale));
    return OK;
}

static enum status read_config(const char *path, const json_t *config, struct checkpoint_model *out) {
    struct said s = {.tied = 0};
    TRY(hf_keys_read(path, "t5", config, (const struct hf_keys *const[]){&T5, &hf_keys_shared, NULL}, false, &s));
    TRY(read_layers(path, config, &s));
    TRY(read_head(path, config, &s));
    *out = s.model;
    strcpy(out->arch, "t5");
    checkpoint_model_say_real(out, "norm-eps", s.eps, 1e-6);
    TRY(hf_gated_read(path, config, out));
    if (out->ffn == 4 * out->hidden) out->ffn = 0;
    if (s.head * out->heads != out->hidden) out->head_dim = s.head;
    return checkpoint_model_check(out, path);
}

enum status t5_hf_config_read(const char *path, struct checkpoint_model *out) {
    return hf_config_read(path, read_config, out);
}

/* ---- writing ---- */

enum status t5_hf_config_write(const char *path, const struct checkpoint_model *m, enum dtype dtype) {
    json_int_t layers = m->layers / 2, width = m->head_dim ? m->head_dim : m->hidden / m->heads;
    json_t *config = json_pack(
        "{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:f, s:s, s:b, s:b, s:i, s:i, s:s}",
        "architectures", "T5ForConditionalGeneration", "model_type", "t5", "num_layers", layers, "num_decoder_layers",
        layers, "d_model", (json_int_t)m->hidden, "d_kv", width, "d_ff", (json_int_t)(m->ffn ? m->ffn : 4 * m->hidden),
        "num_heads", (json_int_t)m->heads, "vocab_size", (json_int_t)m->vocab, "n_positions", (json_int_t)m->seq,
        "relative_attention_num_buckets", ATTENTION_BUCKETS, "relative_attention_max_distance", ATTENTION_FAR,
        "layer_norm_epsilon", checkpoint_model_real(m, "norm-eps", 1e-6), "feed_forward_proj", hf_gated_name(m),
        "is_encoder_decoder", 1, "tie_word_embeddings", !m->untied, "decoder_start_token_id", 0, "pad_token_id", 0,
        "torch_dtype", hf_config_dtype(dtype));
    return hf_config_save(path, config);
}
