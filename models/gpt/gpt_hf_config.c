#include "models/gpt/gpt_hf.h"

#include "lib/checkpoint/hf_config.h"
#include "lib/checkpoint/hf_keys.h"
#include <inttypes.h>

/* ---- what config.json says ---- */

struct said { struct checkpoint_model model; int64_t tied; double eps; };
#define AT(field) offsetof(struct said, field)

/* reorder_and_upcast_attn changes only the order of operations. n_ctx repeats n_positions; no version reads it. The
 * oldest files have no model_type. */
static const struct hf_key KEYS[] = {
    {"model_type", HF_MUST, "gpt2", "gpt2", 0},
    {"n_layer|num_hidden_layers", HF_SIZE, NULL, NULL, AT(model.layers)},
    {"n_embd|hidden_size", HF_SIZE, NULL, NULL, AT(model.hidden)},
    {"n_head|num_attention_heads", HF_SIZE, "12", NULL, AT(model.heads)},
    {"n_positions|max_position_embeddings", HF_SIZE, NULL, NULL, AT(model.seq)},
    {"vocab_size", HF_SIZE, NULL, NULL, AT(model.vocab)},
    {"n_inner", HF_SIZE, "null", NULL, AT(model.ffn)},
    {"activation_function", HF_MUST, "gelu_new", "gelu_new|gelu_pytorch_tanh|gelu|relu", 0},
    {"layer_norm_epsilon", HF_REAL, "1e-5", NULL, AT(eps)},
    {"scale_attn_weights", HF_MUST, "true", "true", 0},
    {"scale_attn_by_inverse_layer_idx", HF_MUST, "false", "false", 0},
    {"add_cross_attention", HF_MUST, "false", "false", 0},
    {"tie_word_embeddings", HF_FLAG, "true", NULL, AT(tied)},
    {0},
};
static const struct hf_keys GPT2 = {KEYS, NULL, "resid_pdrop embd_pdrop attn_pdrop hidden_dropout "
                                                "reorder_and_upcast_attn n_ctx summary_type summary_use_proj "
                                                "summary_activation summary_proj_to_labels summary_first_dropout "
                                                "summary_last_dropout"};

static enum status read_config(const char *path, const json_t *config, struct checkpoint_model *m) {
    struct said s = {.tied = 0};
    TRY(hf_keys_read(path, "gpt2", config, (const struct hf_keys *const[]){&GPT2, &hf_keys_shared, NULL}, false, &s));
    *m = s.model;
    m->untied = !s.tied;
    checkpoint_model_say_real(m, "norm-eps", s.eps, 1e-5);
    hf_activation_read(config, "activation_function", "gelu-tanh", m);
    if (m->ffn == 4 * m->hidden) m->ffn = 0;
    return checkpoint_model_check(m, path);
}

enum status gpt_hf_config_read(const char *path, struct checkpoint_model *out) {
    return hf_config_read(path, read_config, out);
}

/* ---- writing ---- */

enum status gpt_hf_config_write(const char *path, const struct checkpoint_model *m, enum dtype dtype) {
    double eps = checkpoint_model_real(m, "norm-eps", 1e-5);
    json_t *config = json_pack(
        "{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:f, s:s, s:b, s:s}", "architectures", "GPT2LMHeadModel",
        "model_type", "gpt2", "n_layer", (json_int_t)m->layers, "n_head", (json_int_t)m->heads, "n_embd",
        (json_int_t)m->hidden, "n_positions", (json_int_t)m->seq, "n_ctx", (json_int_t)m->seq, "n_inner",
        m->ffn ? json_integer((json_int_t)m->ffn) : json_null(), "vocab_size", (json_int_t)m->vocab,
        "layer_norm_epsilon", eps, "activation_function", hf_activation_name(m, "gelu_new"),
        "tie_word_embeddings", !m->untied, "torch_dtype", hf_config_dtype(dtype));
    return hf_config_save(path, config);
}
