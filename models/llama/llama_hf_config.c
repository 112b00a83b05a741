#include "models/llama/llama_hf.h"

#include "lib/checkpoint/hf_config.h"
#include "lib/checkpoint/hf_keys.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- what config.json says ---- */

struct said { struct checkpoint_model model; int64_t tied, head_dim; };
#define AT(field) offsetof(struct said, field)

static const struct hf_key BOTH_KEYS[] = {
    {"model_type", HF_READ, "null", NULL, 0},
    {"num_hidden_layers", HF_SIZE, NULL, NULL, AT(model.layers)},
    {"hidden_size", HF_SIZE, NULL, NULL, AT(model.hidden)},
    {"num_attention_heads", HF_SIZE, NULL, NULL, AT(model.heads)},
    {"max_position_embeddings", HF_SIZE, NULL, NULL, AT(model.seq)},
    {"vocab_size", HF_SIZE, NULL, NULL, AT(model.vocab)},
    {"intermediate_size", HF_SIZE, NULL, NULL, AT(model.ffn)},
    {"head_dim", HF_SIZE, "null", NULL, AT(head_dim)},
    {"tie_word_embeddings", HF_FLAG, "false", NULL, AT(tied)},
    {"hidden_act", HF_MUST, "silu", "silu|swish", 0},
    {"partial_rotary_factor", HF_MUST, "1.0", "1.0", 0},
    {"rope_theta", HF_READ, "null", NULL, 0},
    {"rope_parameters", HF_READ, "null", NULL, 0},
    {"rope_scaling", HF_READ, "null", NULL, 0},
    {0},
};
static const struct hf_keys BOTH = {BOTH_KEYS, NULL, "original_max_position_embeddings"};

/* pretraining_tp: older versions of transformers cut the matrices by it; the sums are the same. */
static const struct hf_key LLAMA_KEYS[] = {
    {"num_key_value_heads", HF_SIZE, "null", NULL, AT(model.kv_heads)},
    {"rms_norm_eps", HF_MUST, "1e-6", "1e-5", 0},
    {"attention_bias", HF_MUST, "false", "false", 0},
    {"mlp_bias", HF_MUST, "false", "false", 0},
    {0},
};
static const struct hf_keys LLAMA = {LLAMA_KEYS, NULL, "pretraining_tp"};

/* router_jitter_noise must be 0, because Trivium's router has no noise. */
static const struct hf_key MIXTRAL_KEYS[] = {
    {"num_key_value_heads", HF_SIZE, "8", NULL, AT(model.kv_heads)},
    {"num_local_experts|num_experts", HF_SIZE, "8", NULL, AT(model.experts)},
    {"num_experts_per_tok", HF_SIZE, "2", NULL, AT(model.experts_per_token)},
    {"rms_norm_eps", HF_MUST, "1e-5", "1e-5", 0},
    {"router_jitter_noise", HF_MUST, "0.0", "0.0", 0},
    {0},
};
static const struct hf_keys MIXTRAL = {MIXTRAL_KEYS, NULL, "output_router_logits router_aux_loss_coef"};

static const struct hf_key TURN_KEYS[] = {
    {"rope_type", HF_MUST, "default", "default", 0},
    {"type", HF_MUST, "default", "default", 0},               /* the name in older files */
    {"partial_rotary_factor", HF_MUST, "1.0", "1.0", 0},
    {"rope_theta", HF_READ, "null", NULL, 0},
    {0},
};
static const struct hf_keys TURN = {TURN_KEYS, NULL, NULL};

/* ---- reading ---- */

/* rope_scaling or rope_parameters: absent, null, or an object without scaled positions. *theta: its rope_theta. */
static enum status read_turn(const char *path, const json_t *config, const char *key, const json_t **theta) {
    const json_t *x = json_object_get(config, key);
    char where[CHECKPOINT_PATH_MAX + 32];
    snprintf(where, sizeof where, "%s: %s", path, key);
    *theta = json_object_get(x, "rope_theta");
    if (!x || json_is_null(x)) return OK;
    if (!json_is_object(x)) return FAIL(E_FORMAT, "%s is %s; it must be an object or null", where, hf_keys_show(x));
    return hf_keys_read(where, "Llama", x, (const struct hf_keys *const[]){&TURN, NULL}, true, NULL);
}

/* rope_theta is a key of config.json, of rope_parameters (transformers 5), or of an old rope_scaling. */
static enum status read_theta(const char *path, const json_t *config, double missing, int64_t *out) {
    const json_t *scaling = json_object_get(config, "rope_scaling"),
                 *parameters = json_object_get(config, "rope_parameters"), *own = json_object_get(config, "rope_theta");
    const json_t *in_scaling, *in_parameters;
    TRY(read_turn(path, config, "rope_scaling", &in_scaling));
    TRY(read_turn(path, config, "rope_parameters", &in_parameters));
    if (json_object_size(scaling) && json_object_size(parameters))
        return FAIL(E_FORMAT, "%s says rope_scaling and rope_parameters, and both are one key: leave one out", path);
    const json_t *inner = in_scaling ? in_scaling : in_parameters, *theta = inner ? inner : own;
    double value = theta ? json_number_value(theta) : missing;
    if (inner && own && json_number_value(own) != value)
        return FAIL(E_FORMAT, "%s: rope_theta is %s, and %s in %s: leave one out", path, hf_keys_show(own),
                    hf_keys_show(inner), in_scaling ? "rope_scaling" : "rope_parameters");
    if (!(value >= 2 && value <= 1e12) || value != (double)(int64_t)value)
        return FAIL(E_FORMAT, "%s: rope_theta is %s, no whole number from 2 to 1e12", path, hf_keys_show(theta));
    *out = value == 10000 ? 0 : (int64_t)value;
    return OK;
}

static enum status check_sizes(const char *path, const struct said *s) {
    const struct checkpoint_model *m = &s->model;
    if (s->head_dim && s->head_dim * m->heads != m->hidden)
        return FAIL(E_FORMAT,
                    "%s: head_dim=%" PRId64 " times num_attention_heads=%" PRId64 " is not hidden_size=%" PRId64, path,
                    s->head_dim, m->heads, m->hidden);
    if (m->experts_per_token == 1)
        return FAIL(E_FORMAT, "%s: num_experts_per_tok is 1, and transformers' Mixtral gives that expert weight 1; "
                    "Trivium's gives it its probability, which is the same from 2 experts on alone", path);
    if (m->experts_per_token > m->experts)
        return FAIL(E_FORMAT, "%s: num_experts_per_tok=%" PRId64 " is more than num_local_experts=%" PRId64, path,
                    m->experts_per_token, m->experts);
    return OK;
}

static enum status read_config(const char *path, const json_t *config, struct checkpoint_model *out) {
    const json_t *type = json_object_get(config, "model_type");
    const char *name = json_string_value(type);
    struct said s = {.tied = 0};
    bool mixtral = name && !strcmp(name, "mixtral");
    if (!mixtral && (!name || strcmp(name, "llama")))
        return FAIL(E_FORMAT, "%s: model_type is %s, not llama or mixtral", path,
                    type ? hf_keys_show(type) : "not said");
    const struct hf_keys *const tables[] = {&BOTH, mixtral ? &MIXTRAL : &LLAMA, &hf_keys_shared, NULL};
    TRY(hf_keys_read(path, name, config, tables, false, &s));
    TRY(check_sizes(path, &s));
    TRY(read_theta(path, config, mixtral ? 1e6 : 1e4, &s.model.rope_theta));
    *out = s.model;
    snprintf(out->arch, sizeof out->arch, "%s", name);
    out->untied = !s.tied;
    out->dropless = out->experts > 0;
    if (out->kv_heads == out->heads) out->kv_heads = 0;
    if (out->ffn == 4 * out->hidden) out->ffn = 0;
    return checkpoint_model_check(out, path);
}

enum status llama_hf_config_read(const char *path, struct checkpoint_model *out) {
    json_t *config;
    TRY(hf_config_load(path, &config));
    enum status status = read_config(path, config, out);
    json_decref(config);
    return status;
}

/* ---- writing ---- */

static json_t *config_json(const struct checkpoint_model *m, enum dtype dtype) {
    bool mixtral = !strcmp(m->arch, "mixtral");
    json_t *config = json_pack(
        "{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:s, s:b, s:s}", "architectures",
        mixtral ? "MixtralForCausalLM" : "LlamaForCausalLM", "model_type", m->arch, "num_hidden_layers",
        (json_int_t)m->layers, "hidden_size", (json_int_t)m->hidden, "intermediate_size",
        (json_int_t)(m->ffn ? m->ffn : 4 * m->hidden), "num_attention_heads", (json_int_t)m->heads,
        "num_key_value_heads", (json_int_t)(m->kv_heads ? m->kv_heads : m->heads), "max_position_embeddings",
        (json_int_t)m->seq, "vocab_size", (json_int_t)m->vocab, "rms_norm_eps", 1e-5, "rope_theta",
        m->rope_theta ? (double)m->rope_theta : 10000.0, "hidden_act", "silu", "tie_word_embeddings", !m->untied,
        "torch_dtype", hf_config_dtype(dtype));
    json_t *own = mixtral ? json_pack("{s:I, s:I, s:n}", "num_local_experts", (json_int_t)m->experts,
                                      "num_experts_per_tok", (json_int_t)m->experts_per_token, "sliding_window")
                          : json_pack("{s:b, s:b}", "attention_bias", 0, "mlp_bias", 0);
    if (config && own && json_object_update(config, own) == 0) {
        json_decref(own);
        return config;
    }
    json_decref(config);
    json_decref(own);
    return NULL;
}

enum status llama_hf_config_write(const char *path, const struct checkpoint_model *m, enum dtype dtype) {
    return hf_config_save(path, config_json(m, dtype));
}
