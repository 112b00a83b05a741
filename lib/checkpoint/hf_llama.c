/* config.json of Llama and its relatives: one table of keys that all have, and one of each family. */
#include "lib/checkpoint/hf_config.h"

#include "lib/checkpoint/checkpoint_model.h"
#include "lib/checkpoint/hf_keys.h"
#include "lib/ops/rope.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- what config.json says ---- */

struct said {
    struct checkpoint_model model;
    int64_t tied, head_dim, attention_bias, mlp_bias, use_window;
    double eps;
};
#define AT(field) offsetof(struct said, field)

static const struct hf_key BOTH_KEYS[] = {
    {"model_type", HF_READ, "null", NULL, 0},
    {"num_hidden_layers", HF_SIZE, NULL, NULL, AT(model.layers)},
    {"hidden_size", HF_SIZE, NULL, NULL, AT(model.hidden)},
    {"num_attention_heads", HF_SIZE, NULL, NULL, AT(model.heads)},
    {"max_position_embeddings", HF_SIZE, NULL, NULL, AT(model.seq)},
    {"vocab_size", HF_SIZE, NULL, NULL, AT(model.vocab)},
    {"intermediate_size", HF_SIZE, NULL, NULL, AT(model.ffn)},
    {"tie_word_embeddings", HF_FLAG, "false", NULL, AT(tied)},
    {"hidden_act", HF_MUST, "silu", "silu|swish|gelu_new|gelu_pytorch_tanh", 0},
    {"partial_rotary_factor", HF_MUST, "1.0", "1.0", 0},
    {"rope_theta", HF_READ, "null", NULL, 0},
    {"rope_parameters", HF_READ, "null", NULL, 0},
    {"rope_scaling", HF_READ, "null", NULL, 0},
    {0},
};
static const struct hf_keys BOTH = {BOTH_KEYS, NULL, "original_max_position_embeddings"};

/* pretraining_tp: older versions of transformers cut the matrices by it; the sums are the same. */
static const struct hf_key LLAMA_KEYS[] = {
    {"head_dim", HF_SIZE, "null", NULL, AT(head_dim)},
    {"num_key_value_heads", HF_SIZE, "null", NULL, AT(model.kv_heads)},
    {"rms_norm_eps", HF_REAL, "1e-6", NULL, AT(eps)},
    {"attention_bias", HF_FLAG, "false", NULL, AT(attention_bias)},
    {"mlp_bias", HF_FLAG, "false", NULL, AT(mlp_bias)},
    {0},
};
static const struct hf_keys LLAMA = {LLAMA_KEYS, NULL, "pretraining_tp"};

/* router_jitter_noise must be 0, because Trivium's router has no noise. */
static const struct hf_key MIXTRAL_KEYS[] = {
    {"head_dim", HF_SIZE, "null", NULL, AT(head_dim)},
    {"num_key_value_heads", HF_SIZE, "8", NULL, AT(model.kv_heads)},
    {"num_local_experts|num_experts", HF_SIZE, "8", NULL, AT(model.experts)},
    {"num_experts_per_tok", HF_SIZE, "2", NULL, AT(model.experts_per_token)},
    {"rms_norm_eps", HF_REAL, "1e-5", NULL, AT(eps)},
    {"router_jitter_noise", HF_MUST, "0.0", "0.0", 0},
    {"sliding_window", HF_READ, "null", NULL, 0},
    {0},
};
static const struct hf_keys MIXTRAL = {MIXTRAL_KEYS, NULL, "output_router_logits router_aux_loss_coef"};

/* A file that does not say its window has one of 4096. */
static const struct hf_key MISTRAL_KEYS[] = {
    {"head_dim", HF_SIZE, "null", NULL, AT(head_dim)},
    {"num_key_value_heads", HF_SIZE, "8", NULL, AT(model.kv_heads)},
    {"rms_norm_eps", HF_REAL, "1e-6", NULL, AT(eps)},
    {"sliding_window", HF_READ, "4096", NULL, 0},
    {0},
};
static const struct hf_keys MISTRAL = {MISTRAL_KEYS, NULL, NULL};

/* With use_sliding_window the layers that layer_types names have a window; without it, those from max_window_layers
 * on. */
static const struct hf_key QWEN2_KEYS[] = {
    {"head_dim", HF_SIZE, "absent", NULL, AT(head_dim)},
    {"num_key_value_heads", HF_SIZE, NULL, NULL, AT(model.kv_heads)},
    {"rms_norm_eps", HF_REAL, "1e-6", NULL, AT(eps)},
    {"use_sliding_window", HF_FLAG, "false", NULL, AT(use_window)},
    {"sliding_window", HF_READ, "4096", NULL, 0},
    {"max_window_layers", HF_READ, "28", NULL, 0},
    {"layer_types", HF_READ, "null", NULL, 0},
    {0},
};
static const struct hf_keys QWEN2 = {QWEN2_KEYS, NULL, NULL};

static const struct hf_key QWEN3_KEYS[] = {
    {"num_key_value_heads", HF_SIZE, "32", NULL, AT(model.kv_heads)},
    {"head_dim", HF_SIZE, "128", NULL, AT(head_dim)},
    {"rms_norm_eps", HF_REAL, "1e-6", NULL, AT(eps)},
    {"attention_bias", HF_FLAG, "false", NULL, AT(attention_bias)},
    {"use_sliding_window", HF_FLAG, "false", NULL, AT(use_window)},
    {"sliding_window", HF_READ, "4096", NULL, 0},
    {"max_window_layers", HF_READ, "28", NULL, 0},
    {"layer_types", HF_READ, "null", NULL, 0},
    {0},
};
static const struct hf_keys QWEN3 = {QWEN3_KEYS, NULL, NULL};

/* With attention_bias the projection's bias would come before a norm. */
static const struct hf_key OLMO2_KEYS[] = {
    {"head_dim", HF_SIZE, "absent", NULL, AT(head_dim)},
    {"num_key_value_heads", HF_SIZE, "null", NULL, AT(model.kv_heads)},
    {"rms_norm_eps", HF_REAL, "1e-5", NULL, AT(eps)},
    {"attention_bias", HF_MUST, "false", "false", 0},
    {0},
};
static const struct hf_keys OLMO2 = {OLMO2_KEYS, NULL, NULL};

/* Which layers can have a window. */
enum windows_of { NO_LAYER, ALL_LAYERS, ANY_LAYER };

/* The model_types that are read, the class and the arch of each, its theta and window if the file says none, and its
 * options. In a family with bias "all", the key attention_bias turns the biases on. A family with "qkv" has no such
 * key, and always has its biases. Export chooses the first type that has the model's options. */
static const struct family {
    const char *type, *class, *arch;
    const struct hf_keys *keys;
    double theta;
    const char *bias, *qk_norm, *post_norm;
    enum windows_of windows;
    int64_t window;
} FAMILIES[] = {{"llama", "LlamaForCausalLM", "llama", &LLAMA, 1e4, "all", "", "", NO_LAYER, 0},
                {"mixtral", "MixtralForCausalLM", "mixtral", &MIXTRAL, 1e6, "", "", "", ALL_LAYERS, 0},
                {"mistral", "MistralForCausalLM", "llama", &MISTRAL, 1e4, "", "", "", ALL_LAYERS, 4096},
                {"qwen2", "Qwen2ForCausalLM", "llama", &QWEN2, 1e4, "qkv", "", "", ANY_LAYER, 4096},
                {"qwen3", "Qwen3ForCausalLM", "llama", &QWEN3, 1e4, "all", "head", "", ANY_LAYER, 4096},
                {"olmo2", "Olmo2ForCausalLM", "llama", &OLMO2, 1e4, "", "all", "on", NO_LAYER, 0}};
enum { N_FAMILIES = sizeof FAMILIES / sizeof *FAMILIES };

static bool says(const struct checkpoint_model *m, const char *option, const char *value) {
    char said[MODEL_VALUE_MAX];
    checkpoint_model_said(m, option, said);
    return !strcmp(said, value);
}

static bool has_windows(const struct checkpoint_model *m, const struct family *f) {
    enum windows_of wanted = says(m, "window", "") ? NO_LAYER : says(m, "window-layers", "") ? ALL_LAYERS : ANY_LAYER;
    return f->windows >= wanted;
}

static const struct family *family_of(const struct checkpoint_model *m) {
    for (const struct family *f = FAMILIES; f < FAMILIES + N_FAMILIES; f++) {
        bool bias = says(m, "attention-bias", f->bias) || (!strcmp(f->bias, "all") && says(m, "attention-bias", ""));
        if (bias && has_windows(m, f) && !strcmp(f->arch, m->arch) && says(m, "qk-norm", f->qk_norm) &&
            says(m, "post-norm", f->post_norm) && (f->keys == &LLAMA || says(m, "mlp-bias", "")))
            return f;
    }
    return NULL;
}

bool llama_hf_has_type(const struct checkpoint_model *m) { return family_of(m) != NULL; }

/* ---- reading ---- */

/* The windows of a model: tokens, or 0; and the letters of --window-layers, one for each layer. */
struct windows { int64_t window; char layers[10001]; };

/* A whole number of a key whose default is `missing`, from `least` on; least 1: or null, which is 0. */
static enum status read_whole(const char *path, const json_t *config, const char *name, int64_t missing, int64_t least,
                              int64_t *out) {
    const json_t *x = json_object_get(config, name);
    *out = x ? (int64_t)json_integer_value(x) : missing;
    if (!x || (least && json_is_null(x)) || (json_is_integer(x) && *out >= least && *out <= MODEL_WINDOW_MAX))
        return OK;
    return FAIL(E_FORMAT, "%s: %s is %s; it must be a whole number from %" PRId64 " to %d%s", path, name,
                hf_keys_show(x), least, MODEL_WINDOW_MAX, least ? ", or null" : "");
}

static enum status read_layer_types(const char *path, const json_t *types, int64_t layers, struct windows *w) {
    size_t i;
    json_t *x;
    json_array_foreach((json_t *)types, i, x) {
        const char *name = json_is_string(x) ? json_string_value(x) : "";
        bool slides = !strcmp(name, "sliding_attention");
        if (!slides && strcmp(name, "full_attention") != 0)
            return FAIL(E_FORMAT, "%s: layer_types has %s; Trivium's layers have full_attention or sliding_attention",
                        path, hf_keys_show(x));
        if (slides && !w->window)
            return FAIL(E_FORMAT, "%s: layer_types has \"sliding_attention\", and there is no window for it: "
                        "use_sliding_window must be true, and sliding_window a number of tokens", path);
        if ((int64_t)i < layers) w->layers[i] = slides ? 's' : 'f';
    }
    if ((int64_t)json_array_size(types) == layers) return OK;
    return FAIL(E_FORMAT, "%s: layer_types is %s, and no list of %" PRId64 " layers", path, hf_keys_show(types),
                layers);
}

/* Shorten the letters to those that are repeated. */
static enum status shorten(const char *path, struct windows *w) {
    size_t n = strlen(w->layers), period = 1;
    for (size_t i = 0; i < n; i++)
        if (w->layers[i] != w->layers[i % period]) period = i + 1;
    w->layers[period] = 0;
    if (!strcmp(w->layers, "f")) w->window = 0;
    if (period <= MODEL_LETTERS_MAX) return OK;
    return FAIL(E_FORMAT, "%s: its layers with and without a window repeat only after %zu; Trivium notes patterns of "
                "at most %d layers", path, period, MODEL_LETTERS_MAX);
}

static enum status read_windows(const char *path, const json_t *config, const struct family *f, const struct said *s,
                                struct windows *w) {
    const json_t *types = json_object_get(config, "layer_types");
    bool by_layer = f->windows == ANY_LAYER;
    int64_t first = 0, layers = s->model.layers;
    TRY(read_whole(path, config, "sliding_window", f->window, 1, &w->window));
    if (by_layer) TRY(read_whole(path, config, "max_window_layers", 28, 0, &first));
    if (by_layer && !s->use_window) w->window = 0;
    for (int64_t i = 0; i < layers; i++) w->layers[i] = i >= first ? 's' : 'f';
    w->layers[layers] = 0;
    if (types && !json_is_null(types)) TRY(read_layer_types(path, types, layers, w));
    if (!w->window) strcpy(w->layers, "f");
    return shorten(path, w);
}

/* What the sizes do not say. */
static void say_more(struct checkpoint_model *m, const struct said *s, const struct rope_rule *rope,
                     const struct windows *w, const struct family *f) {
    char text[MODEL_VALUE_MAX];
    rope_rule_write(rope, text, sizeof text);
    checkpoint_model_say_real(m, "norm-eps", s->eps, 1e-5);
    if (rope->scaling != ROPE_UNSCALED) checkpoint_model_say(m, "rope-scaling", text);
    if (s->attention_bias || f->keys == &QWEN2) checkpoint_model_say(m, "attention-bias", f->bias);
    if (s->mlp_bias) checkpoint_model_say(m, "mlp-bias", "on");
    if (*f->qk_norm) checkpoint_model_say(m, "qk-norm", f->qk_norm);
    if (*f->post_norm) checkpoint_model_say(m, "post-norm", f->post_norm);
    snprintf(text, sizeof text, "%" PRId64, w->window);
    if (w->window) checkpoint_model_say(m, "window", text);
    if (w->window && strcmp(w->layers, "s") != 0) checkpoint_model_say(m, "window-layers", w->layers);
}

static enum status check_sizes(const char *path, const struct said *s) {
    const struct checkpoint_model *m = &s->model;
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
    const char *name = json_is_string(type) ? json_string_value(type) : "";
    const struct family *f = FAMILIES;
    struct said s = {.tied = 0};
    struct rope_rule rope;
    struct windows windows;
    while (f < FAMILIES + N_FAMILIES && strcmp(f->type, name) != 0) f++;
    if (f == FAMILIES + N_FAMILIES)
        return FAIL(E_FORMAT, "%s: model_type is %s, not llama, mixtral, mistral, qwen2, qwen3 or olmo2", path,
                    type ? hf_keys_show(type) : "not said");
    const struct hf_keys *const tables[] = {&BOTH, f->keys, &hf_keys_shared, NULL};
    TRY(hf_keys_read(path, name, config, tables, false, &s));
    TRY(check_sizes(path, &s));
    TRY(checkpoint_model_check(&s.model, path));
    TRY(read_windows(path, config, f, &s, &windows));
    TRY(hf_rope_read(path, config, f->theta, s.model.seq, &rope));
    *out = s.model;
    snprintf(out->arch, sizeof out->arch, "%s", f->arch);
    out->rope_theta = rope.theta == 10000 ? 0 : (int64_t)rope.theta;
    if (s.head_dim * out->heads != out->hidden) out->head_dim = s.head_dim;
    out->untied = !s.tied;
    out->dropless = out->experts > 0;
    say_more(out, &s, &rope, &windows, f);
    hf_activation_read(config, "hidden_act", "swiglu", out);
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

static json_t *layer_types(const struct checkpoint_model *m, const char *letters) {
    size_t n = strlen(letters);
    json_t *types = json_array();
    for (size_t i = 0; i < (size_t)m->layers; i++)
        json_array_append_new(types, json_string(letters[i % n] == 's' ? "sliding_attention" : "full_attention"));
    return types;
}

/* The window's keys. Older versions read max_window_layers: from which layer on all have it. */
static json_t *window_keys(const struct checkpoint_model *m, const struct family *f) {
    char letters[MODEL_VALUE_MAX];
    int64_t window = (int64_t)checkpoint_model_real(m, "window", 0);
    checkpoint_model_said(m, "window-layers", letters);
    if (!letters[0]) strcpy(letters, "s");
    if (f->windows == ANY_LAYER && !window) return json_pack("{s:b}", "use_sliding_window", 0);
    if (f->windows == ANY_LAYER)
        return json_pack("{s:b, s:I, s:I, s:o}", "use_sliding_window", 1, "sliding_window", (json_int_t)window,
                         "max_window_layers", (json_int_t)strspn(letters, "f"), "layer_types", layer_types(m, letters));
    if (f->windows == NO_LAYER) return json_object();
    return window ? json_pack("{s:I}", "sliding_window", (json_int_t)window) : json_pack("{s:n}", "sliding_window");
}

/* Add the keys of the family alone. 0: done. */
static int add_own_keys(json_t *config, const struct checkpoint_model *m, const struct family *f) {
    bool bias = says(m, "attention-bias", "all");
    json_t *window = window_keys(m, f);
    json_t *own = f->keys == &MIXTRAL  ? json_pack("{s:I, s:I}", "num_local_experts", (json_int_t)m->experts,
                                                  "num_experts_per_tok", (json_int_t)m->experts_per_token)
                  : f->keys == &QWEN3 || f->keys == &OLMO2 ? json_pack("{s:b}", "attention_bias", bias)
                  : f->keys == &LLAMA ? json_pack("{s:b, s:b}", "attention_bias", bias, "mlp_bias",
                                                  says(m, "mlp-bias", "on"))
                                      : json_object();
    int failed = !config || json_object_update(config, own) || json_object_update(config, window);
    json_decref(own);
    json_decref(window);
    return failed;
}

static json_t *config_json(const struct checkpoint_model *m, enum dtype dtype, const struct rope_rule *rope) {
    const struct family *f = family_of(m);
    json_t *config = json_pack(
        "{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:o, s:s, s:b, s:s}", "architectures",
        f->class, "model_type", f->type, "num_hidden_layers", (json_int_t)m->layers, "hidden_size",
        (json_int_t)m->hidden, "intermediate_size", (json_int_t)(m->ffn ? m->ffn : 4 * m->hidden),
        "num_attention_heads", (json_int_t)m->heads, "num_key_value_heads",
        (json_int_t)(m->kv_heads ? m->kv_heads : m->heads), "head_dim",
        (json_int_t)(m->head_dim ? m->head_dim : m->hidden / m->heads), "max_position_embeddings", (json_int_t)m->seq,
        "vocab_size", (json_int_t)m->vocab, "rms_norm_eps", checkpoint_model_real(m, "norm-eps", 1e-5), "rope_theta",
        rope->theta, "rope_scaling", hf_rope_json(rope), "hidden_act", hf_activation_name(m, "silu"),
        "tie_word_embeddings", !m->untied, "torch_dtype", hf_config_dtype(dtype));
    if (add_own_keys(config, m, f) == 0) return config;
    json_decref(config);
    return NULL;
}

enum status llama_hf_config_write(const char *path, const struct checkpoint_model *m, enum dtype dtype) {
    char scaling[MODEL_VALUE_MAX];
    struct rope_rule rope = {.theta = m->rope_theta ? (double)m->rope_theta : 10000};
    checkpoint_model_said(m, "rope-scaling", scaling);
    TRY(rope_rule_read(scaling[0] ? scaling : "none", &rope));
    return hf_config_save(path, config_json(m, dtype, &rope));
}
