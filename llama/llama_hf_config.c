#include "llama/llama_hf.h"

#include "lib/checkpoint/hf_config.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- reading ---- */

static enum status read_sizes(const char *path, const json_t *config, struct checkpoint_model *m) {
    const struct { const char *key; bool needed; int64_t *to; } sizes[] = {
        {"num_hidden_layers", true, &m->layers}, {"hidden_size", true, &m->hidden},
        {"num_attention_heads", true, &m->heads}, {"max_position_embeddings", true, &m->seq},
        {"vocab_size", true, &m->vocab}, {"intermediate_size", true, &m->ffn},
        {"num_key_value_heads", false, &m->kv_heads},
        {"num_local_experts", !strcmp(m->arch, "mixtral"), &m->experts},
        {"num_experts_per_tok", !strcmp(m->arch, "mixtral"), &m->experts_per_token}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(hf_config_size(path, config, sizes[i].key, sizes[i].needed, sizes[i].to));
    if (m->kv_heads == m->heads) m->kv_heads = 0;
    if (m->ffn == 4 * m->hidden) m->ffn = 0;
    return checkpoint_model_check(m, path);
}

/* What is wanted of a key that is said. */
static enum status check_switches(const char *path, const json_t *config) {
    static const char *const off[] = {"attention_bias", "mlp_bias", "rope_scaling", "sliding_window"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        const json_t *x = json_object_get(config, off[i]);
        if (hf_config_is_said(x) && !json_is_false(x))
            return FAIL(E_FORMAT, "%s says %s; Trivium computes a Llama without it", path, off[i]);
    }
    return OK;
}

static enum status check_function(const char *path, const json_t *config, const struct checkpoint_model *m) {
    const char *act = json_string_value(json_object_get(config, "hidden_act"));
    double eps = json_number_value(json_object_get(config, "rms_norm_eps"));
    int64_t head_dim;
    if (act && strcmp(act, "silu")) return FAIL(E_FORMAT, "%s: hidden_act is %.32s; Trivium computes silu", path, act);
    if (eps != 1e-5) return FAIL(E_FORMAT, "%s: rms_norm_eps is %g; Trivium's is 1e-5", path, eps);
    TRY(hf_config_size(path, config, "head_dim", false, &head_dim));
    if (head_dim && head_dim * m->heads != m->hidden)
        return FAIL(E_FORMAT,
                    "%s: head_dim=%" PRId64 " times num_attention_heads=%" PRId64 " is not hidden_size=%" PRId64, path,
                    head_dim, m->heads, m->hidden);
    return check_switches(path, config);
}

/* rope_theta stands by itself, or in rope_parameters (transformers 5), which may ask for scaling. */
static enum status read_theta(const char *path, const json_t *config, int64_t *out) {
    const json_t *parameters = json_object_get(config, "rope_parameters");
    const json_t *theta = json_object_get(hf_config_is_said(parameters) ? parameters : config, "rope_theta");
    const char *type = json_string_value(json_object_get(parameters, "rope_type"));
    double value = hf_config_is_said(theta) ? json_number_value(theta) : 10000;
    if (type && strcmp(type, "default"))
        return FAIL(E_FORMAT, "%s: rope_type is %.32s; Trivium computes no scaled positions", path, type);
    if (!(value >= 2 && value <= 1e12) || value != (double)(int64_t)value)
        return FAIL(E_FORMAT, "%s: rope_theta is %g, no whole number from 2 to 1e12", path, value);
    *out = value == 10000 ? 0 : (int64_t)value;
    return OK;
}

static enum status read_config(const char *path, const json_t *config, struct checkpoint_model *m) {
    const char *type = json_string_value(json_object_get(config, "model_type"));
    *m = (struct checkpoint_model){.untied = 1};
    if (!type || (strcmp(type, "llama") && strcmp(type, "mixtral")))
        return FAIL(E_FORMAT, "%s: model_type is %.32s, not llama or mixtral", path, type ? type : "no name");
    snprintf(m->arch, sizeof m->arch, "%s", type);
    TRY(read_sizes(path, config, m));
    TRY(check_function(path, config, m));
    m->untied = !json_is_true(json_object_get(config, "tie_word_embeddings"));
    m->dropless = m->experts > 0;
    return read_theta(path, config, &m->rope_theta);
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
