#include "gpt/gpt_hf_config.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum status gpt_hf_config_path(const char *path, char out[CHECKPOINT_PATH_MAX]) {
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash - path) + 1 : 0;
    int length = snprintf(out, CHECKPOINT_PATH_MAX, "%.*sconfig.json", folder, path);
    return length < CHECKPOINT_PATH_MAX
               ? OK
               : FAIL(E_CONFIG, "a path of %d bytes is too long; the limit is %d", length, CHECKPOINT_PATH_MAX - 1);
}

/* ---- reading ---- */

/* A key that is missing or null has GPT2Config's default, which is what Trivium computes. */
static bool is_said(const json_t *x) { return x && !json_is_null(x); }

static enum status check_sizes(const char *path, const json_t *config, const struct checkpoint_model *m) {
    const struct { const char *key; int64_t found; } sizes[] = {
        {"n_layer", m->layers}, {"n_embd", m->hidden}, {"n_positions", m->seq}, {"vocab_size", m->vocab},
        {"n_inner", 4 * m->hidden}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const json_t *x = json_object_get(config, sizes[i].key);
        if (is_said(x) && (!json_is_integer(x) || json_integer_value(x) != sizes[i].found))
            return FAIL(E_FORMAT, "%s says %s=%" JSON_INTEGER_FORMAT ", and the tensors beside it say %" PRId64, path,
                        sizes[i].key, json_integer_value(x), sizes[i].found);
    }
    return OK;
}

static enum status check_activation(const char *path, const json_t *config) {
    const json_t *x = json_object_get(config, "activation_function");
    const char *name = json_string_value(x);
    bool tanh_form = name && (!strcmp(name, "gelu_new") || !strcmp(name, "gelu_pytorch_tanh"));
    if (!is_said(x) || tanh_form) return OK;
    return FAIL(E_FORMAT, "%s: activation_function is %.32s; Trivium computes gelu_new, the tanh form", path,
                name ? name : "no name");
}

static enum status check_switches(const char *path, const json_t *config) {
    const struct { const char *key; bool wanted; } switches[] = {{"scale_attn_weights", true},
                                                                 {"scale_attn_by_inverse_layer_idx", false},
                                                                 {"add_cross_attention", false},
                                                                 {"tie_word_embeddings", true}};
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
        const json_t *x = json_object_get(config, switches[i].key);
        if (is_said(x) && (!json_is_boolean(x) || json_is_true(x) != switches[i].wanted))
            return FAIL(E_FORMAT, "%s: %s is not %s; Trivium computes no other GPT-2", path, switches[i].key,
                        switches[i].wanted ? "true" : "false");
    }
    return OK;
}

static enum status check_function(const char *path, const json_t *config) {
    const json_t *type = json_object_get(config, "model_type"), *eps = json_object_get(config, "layer_norm_epsilon");
    const char *name = json_string_value(type);
    if (is_said(type) && (!name || strcmp(name, "gpt2") != 0))
        return FAIL(E_FORMAT, "%s: model_type is %.32s, not gpt2", path, name ? name : "no name");
    if (is_said(eps) && json_number_value(eps) != 1e-5)
        return FAIL(E_FORMAT, "%s: layer_norm_epsilon is %g; Trivium's is 1e-5", path, json_number_value(eps));
    TRY(check_activation(path, config));
    return check_switches(path, config);
}

static enum status read_heads(const char *path, const json_t *config, int64_t *heads) {
    const json_t *x = json_object_get(config, "n_head");
    if (!is_said(x)) return OK;
    *heads = json_is_integer(x) ? (int64_t)json_integer_value(x) : 0;
    return *heads >= 1 ? OK : FAIL(E_FORMAT, "%s: n_head is no number of heads", path);
}

enum status gpt_hf_config_read(const char *path, const struct checkpoint_model *model, int64_t *heads) {
    json_error_t why;
    *heads = 0;
    if (access(path, F_OK) != 0) return OK;
    json_t *config = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    enum status status = json_is_object(config) ? OK
                                                : FAIL(E_FORMAT, "%s is no JSON object: %s at line %d", path,
                                                       config ? "another value" : why.text, config ? 1 : why.line);
    if (status == OK) status = check_function(path, config);
    if (status == OK) status = check_sizes(path, config, model);
    if (status == OK) status = read_heads(path, config, heads);
    json_decref(config);
    return status;
}

/* ---- writing ---- */

static json_t *config_json(const struct checkpoint_model *m, enum dtype dtype) {
    return json_pack("{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:s, s:b, s:s}", "architectures",
                     "GPT2LMHeadModel", "model_type", "gpt2", "n_layer", (json_int_t)m->layers, "n_head",
                     (json_int_t)m->heads, "n_embd", (json_int_t)m->hidden, "n_positions", (json_int_t)m->seq, "n_ctx",
                     (json_int_t)m->seq, "vocab_size", (json_int_t)m->vocab, "layer_norm_epsilon", 1e-5,
                     "activation_function", "gelu_new", "tie_word_embeddings", 1, "torch_dtype",
                     dtype == FP64 ? "float64" : "float32");
}

enum status gpt_hf_config_write(const char *path, const struct checkpoint_model *m, enum dtype dtype) {
    json_t *config = config_json(m, dtype);
    char *text = config ? json_dumps(config, JSON_INDENT(2) | JSON_REAL_PRECISION(15)) : NULL;
    json_decref(config);
    if (!text) return FAIL(E_MEMORY, "no memory to write %s", path);
    FILE *f = fopen(path, "wx");
    enum status status = f ? OK : FAIL(E_IO, "cannot create %s: %s", path, strerror(errno));
    if (f && (fprintf(f, "%s\n", text) < 0 || fflush(f) != 0))
        status = FAIL(E_IO, "writing %s: %s", path, strerror(errno));
    if (f && fclose(f) != 0 && status == OK) status = FAIL(E_IO, "closing %s: %s", path, strerror(errno));
    free(text);
    return status;
}
