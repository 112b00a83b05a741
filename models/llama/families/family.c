/* config.json of Llama and its relatives: the keys that all have, and reading and writing by each family's table. */
#include "models/llama/families/family.h"
#include "models/llama/mla/mla.h"
#include "models/llama/moe/moe.h"

#include "lib/checkpoint/hf_config.h"
#include "lib/ops/rope.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct hf_key KEYS[] = {
    {"model_type", HF_READ, "null", NULL, 0},
    {"tie_word_embeddings", HF_FLAG, "false", NULL, SAID(tied)},
    {"hidden_act", HF_MUST, "silu", "silu|swish|gelu_new|gelu_pytorch_tanh", 0},
    {"partial_rotary_factor", HF_MUST, "1.0", "1.0", 0},
    {"rope_theta", HF_READ, "null", NULL, 0},
    {"rope_parameters", HF_READ, "null", NULL, 0},
    {"rope_scaling", HF_READ, "null", NULL, 0},
    {0},
};
static const struct hf_keys ALL = {KEYS, NULL, "original_max_position_embeddings"};

/* ---- the families ---- */

#define ROW_OF_LLAMA(name) {#name, "llama", &llama_family_##name},
#define ROW_OF_MIXTRAL(name) {#name, "mixtral", &llama_family_##name},
#define ROW_OF_MOE(name) {#name, "moe", &llama_family_##name},
#define ROW_OF_GPT_OSS(name) {#name, "gpt_oss", &llama_family_##name},
static const struct row { const char *type, *arch; const struct llama_family *family; } ROWS[] = {
    FAMILIES_OF_LLAMA(ROW_OF_LLAMA) FAMILIES_OF_MIXTRAL(ROW_OF_MIXTRAL) FAMILIES_OF_MOE(ROW_OF_MOE)
    FAMILIES_OF_GPT_OSS(ROW_OF_GPT_OSS)};
enum { N_ROWS = sizeof ROWS / sizeof *ROWS };

/* "llama, mistral or mixtral" */
static const char *types(char text[512]) {
    size_t n = 0;
    for (int i = 0; i < N_ROWS && n < 512; i++)
        n += (size_t)snprintf(text + n, 512 - n, "%s%s", !i ? "" : i < N_ROWS - 1 ? ", " : " or ", ROWS[i].type);
    return text;
}

static const struct row *row_of_type(const char *type) {
    for (const struct row *r = ROWS; r < ROWS + N_ROWS; r++)
        if (!strcmp(r->type, type)) return r;
    return NULL;
}

static bool says(const struct checkpoint_model *m, const char *option, const char *value) {
    char said[MODEL_VALUE_MAX];
    checkpoint_model_said(m, option, said);
    return !strcmp(said, value);
}

static bool has_flag(const struct llama_family *f, const char *key) {
    const struct hf_key *found = hf_keys_find(f->keys, key);
    return found && found->use == HF_FLAG;
}

/* Is there a key for this value of an option? */
static bool has_key_of(const struct llama_family *f, const char *option, const char *value) {
    if (!strcmp(option, "attention-bias")) return has_flag(f, "attention_bias") && !strcmp(value, f->bias);
    if (!strcmp(option, "mlp-bias")) return has_flag(f, "mlp_bias");
    if (!strcmp(option, "window")) return hf_keys_find(f->keys, "sliding_window") != NULL;
    if (!strcmp(option, "window-layers")) return hf_keys_find(f->keys, "layer_types") != NULL;
    if (!strcmp(option, "rope-interleave")) return has_flag(f, "rope_interleave");
    return mla_hf_has_key_of(f, option) || moe_hf_has_key_of(f, option) || !strcmp(option, "norm-eps") ||
           !strcmp(option, "rope-scaling") || !strcmp(option, "activation");
}

/* Options that all models of the family have are the model's, and there is a key for each of its others. */
static bool holds(const struct llama_family *f, const struct checkpoint_model *m) {
    struct checkpoint_model own = {.arch = ""};
    const char *option;
    char always[MODEL_VALUE_MAX], said[MODEL_VALUE_MAX];
    if ((mla_hf_has_latents(f) && says(m, "kv-lora-rank", "")) || !moe_hf_holds(f, m)) return false;
    snprintf(own.more, sizeof own.more, "%s %s", f->always, m->experts && f->routed ? f->routed : "");
    for (int i = N_MODEL_SIZES; i < N_MODEL_OPTIONS; i++) {
        (void)checkpoint_model_option(&own, i, NULL, &option, always);
        (void)checkpoint_model_option(m, i, NULL, &option, said);
        if (strcmp(always, said) != 0 && !has_key_of(f, option, said)) return false;
    }
    return true;
}

/* DeepSeek's models without experts are Llamas. */
static const char *arch_of(const struct row *r, int64_t experts) {
    return experts || !mla_hf_has_latents(r->family) ? r->arch : "llama";
}

static const struct row *row_of_model(const struct checkpoint_model *m) {
    for (const struct row *r = ROWS; r < ROWS + N_ROWS; r++)
        if (!strcmp(arch_of(r, m->experts), m->arch) && holds(r->family, m)) return r;
    return NULL;
}

bool llama_hf_has_type(const struct checkpoint_model *m) { return row_of_model(m) != NULL; }

/* ---- reading ---- */

/* The windows of a model: tokens, or 0; and the letters of --window-layers, one for each layer. */
struct windows { int64_t window; char layers[10001]; };

enum status llama_hf_read_whole(const char *path, const json_t *config, const struct hf_key *key, int64_t least,
                                int64_t *out) {
    const json_t *x = key ? json_object_get(config, key->names) : NULL;
    if (key) *out = x ? (int64_t)json_integer_value(x) : atoll(key->missing);
    if (!x || (least && json_is_null(x)) || (json_is_integer(x) && *out >= least && *out <= MODEL_WINDOW_MAX))
        return OK;
    return FAIL(E_FORMAT, "%s: %s is %s; it must be a whole number from %" PRId64 " to %d%s", path, key->names,
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

size_t llama_hf_shorten(char *layers) {
    size_t n = strlen(layers), period = 1;
    for (size_t i = 0; i < n; i++)
        if (layers[i] != layers[i % period]) period = i + 1;
    layers[period] = 0;
    return period;
}

static enum status read_windows(const char *path, const json_t *config, const struct llama_family *f,
                                const struct llama_said *s, struct windows *w) {
    const struct hf_keys *keys = f->keys;
    const char *usual = f->window_layers ? f->window_layers : "s";
    bool by_layer = hf_keys_find(keys, "layer_types") != NULL;
    const json_t *types = by_layer ? json_object_get(config, "layer_types") : NULL;
    int64_t first = 0, layers = s->model.layers;
    w->window = 0;
    TRY(llama_hf_read_whole(path, config, hf_keys_find(keys, "sliding_window"), 1, &w->window));
    TRY(llama_hf_read_whole(path, config, hf_keys_find(keys, "max_window_layers"), 0, &first));
    if (!s->use_window) w->window = 0;
    for (int64_t i = 0; i < layers; i++) w->layers[i] = i >= first ? usual[(size_t)i % strlen(usual)] : 'f';
    w->layers[layers] = 0;
    if (types && !json_is_null(types)) TRY(read_layer_types(path, types, layers, w));
    else if (f->window_layers && !w->window)
        return FAIL(E_FORMAT, "%s: sliding_window is null, and without layer_types every second layer has a window; it "
                    "must be a whole number from 1", path);
    if (!w->window) strcpy(w->layers, "f");
    size_t period = llama_hf_shorten(w->layers);
    if (!strcmp(w->layers, "f")) w->window = 0;
    if (period <= MODEL_LETTERS_MAX) return OK;
    return FAIL(E_FORMAT, "%s: its windows repeat after %zu layers, and --window-layers has at most %d letters; set "
                "sliding_window and layer_types to null: then no layer has a window", path, period, MODEL_LETTERS_MAX);
}

void llama_hf_say_number(struct checkpoint_model *m, const char *option, int64_t n) {
    char text[MODEL_VALUE_MAX];
    snprintf(text, sizeof text, "%" PRId64, n);
    if (n) checkpoint_model_say(m, option, text);
}

/* What the sizes do not say. */
static void say_more(struct checkpoint_model *m, const struct llama_said *s, const struct rope_rule *rope,
                     const struct windows *w, const struct llama_family *f) {
    char text[MODEL_VALUE_MAX];
    rope_rule_write(rope, text, sizeof text);
    snprintf(m->more, sizeof m->more, "%s", f->always);
    checkpoint_model_say_real(m, "norm-eps", s->eps, 1e-5);
    if (rope->scaling != ROPE_UNSCALED) checkpoint_model_say(m, "rope-scaling", text);
    if (s->attention_bias) checkpoint_model_say(m, "attention-bias", f->bias);
    if (s->mlp_bias) checkpoint_model_say(m, "mlp-bias", "on");
    llama_hf_say_number(m, "window", w->window);
    mla_hf_say(m, s);
    if (w->window && strcmp(w->layers, "s") != 0) checkpoint_model_say(m, "window-layers", w->layers);
}

static enum status check_sizes(const char *path, const struct llama_said *s) {
    const struct checkpoint_model *m = &s->model;
    if (m->experts_per_token == 1 && s->router_norm)
        return FAIL(E_FORMAT, "%s: num_experts_per_tok is 1, and transformers gives that expert weight 1 (Mixtral, or "
                    "norm_topk_prob); Trivium gives it its probability, which is the same from 2 experts on alone",
                    path);
    if (m->experts_per_token > m->experts)
        return FAIL(E_FORMAT, "%s: num_experts_per_tok=%" PRId64 " is more than num_local_experts=%" PRId64, path,
                    m->experts_per_token, m->experts);
    return OK;
}

/* In the reference an empty rope_scaling is none, and rope_parameters that are empty are there. */
static bool says_scaling(const json_t *config) {
    return json_object_size(json_object_get(config, "rope_scaling")) > 0 ||
           json_is_object(json_object_get(config, "rope_parameters"));
}

static enum status read_config(const char *path, const json_t *config, struct checkpoint_model *out) {
    const json_t *type = json_object_get(config, "model_type");
    const struct row *row = row_of_type(json_is_string(type) ? json_string_value(type) : "");
    struct llama_said s = {.use_window = 1, .router_norm = 1, .groups = 1, .scale = 1};
    struct rope_rule rope;
    struct windows windows;
    char list[512], layers[10001];
    if (!row)
        return FAIL(E_FORMAT, "%s: model_type is %s, not %s", path, type ? hf_keys_show(type) : "not said",
                    types(list));
    const struct llama_family *f = row->family;
    const struct hf_keys *const tables[] = {&ALL, &hf_keys_sizes, f->keys, &hf_keys_shared, NULL};
    TRY(hf_keys_read(path, row->type, config, tables, false, &s));
    TRY(mla_hf_read(path, config, f->keys, &s));
    TRY(checkpoint_model_check(&s.model, path));
    TRY(moe_hf_read(path, config, f, mla_hf_has_latents(f), &s, layers));
    TRY(check_sizes(path, &s));
    TRY(read_windows(path, config, f, &s, &windows));
    TRY(hf_rope_read(path, config, f->theta, s.model.seq, &rope));
    if (f->scaling && !says_scaling(config)) TRY(rope_rule_read(f->scaling, &rope));
    *out = s.model;
    snprintf(out->arch, sizeof out->arch, "%s", arch_of(row, out->experts));
    out->rope_theta = rope.theta == 10000 ? 0 : (int64_t)rope.theta;
    if (s.head_dim * out->heads != out->hidden) out->head_dim = s.head_dim;
    out->untied = !s.tied;
    out->dropless = out->experts > 0;
    say_more(out, &s, &rope, &windows, f);
    moe_hf_say(out, &s, f, layers);
    if (!s.swiglu_limit) hf_activation_read(config, "hidden_act", "swiglu", out);   /* GPT-OSS does not read it */
    checkpoint_model_sort(out);
    if (out->kv_heads == out->heads) out->kv_heads = 0;
    if (out->ffn == 4 * out->hidden) out->ffn = 0;
    return checkpoint_model_check(out, path);
}

enum status llama_hf_config_read(const char *path, struct checkpoint_model *out) {
    return hf_config_read(path, read_config, out);
}

/* ---- writing ---- */

static json_t *layer_types(const struct checkpoint_model *m, const char *letters) {
    size_t n = strlen(letters);
    json_t *types = json_array();
    for (size_t i = 0; i < (size_t)m->layers; i++)
        json_array_append_new(types, json_string(letters[i % n] == 's' ? "sliding_attention" : "full_attention"));
    return types;
}

/* Set the window's keys. Older versions read max_window_layers: from which layer on all have it. */
static json_t *with_windows(json_t *config, const struct checkpoint_model *m, const struct llama_family *f) {
    const struct hf_keys *keys = f->keys;
    json_int_t window = (json_int_t)checkpoint_model_real(m, "window", 0);
    json_int_t said = window || !f->window_layers ? window : m->seq;   /* GPT-OSS's is read even if no layer has it */
    char letters[MODEL_VALUE_MAX];
    int failed = 0;
    checkpoint_model_said(m, "window-layers", letters);
    if (!letters[0]) strcpy(letters, window ? "s" : "f");
    if (hf_keys_find(keys, "sliding_window"))
        failed |= json_object_set_new(config, "sliding_window", said ? json_integer(said) : json_null());
    if (window && hf_keys_find(keys, "max_window_layers"))
        failed |= json_object_set_new(config, "max_window_layers", json_integer((json_int_t)strspn(letters, "f")));
    if ((window || f->window_layers) && hf_keys_find(keys, "layer_types"))
        failed |= json_object_set_new(config, "layer_types", layer_types(m, letters));
    if (failed) json_decref(config);
    return failed ? NULL : config;
}

static struct llama_said said_of(const struct checkpoint_model *m, const struct llama_family *f) {
    struct llama_said s = {.model = *m, .eps = checkpoint_model_real(m, "norm-eps", 1e-5)};
    if (!m->ffn) s.model.ffn = 4 * m->hidden;
    if (!m->kv_heads) s.model.kv_heads = m->heads;
    s.head_dim = m->head_dim ? m->head_dim : m->hidden / m->heads;
    s.attention_bias = f->bias && says(m, "attention-bias", f->bias);
    s.mlp_bias = says(m, "mlp-bias", "on");
    s.use_window = !says(m, "window", "");
    moe_hf_said(m, &s);
    mla_hf_said(m, &s);
    return s;
}

/* null stands for the family's own scaling, if it has one. */
static json_t *scaling_json(const struct rope_rule *rope, const struct llama_family *f) {
    bool must_be_said = rope->scaling == ROPE_UNSCALED && f->scaling;
    return must_be_said ? json_pack("{s:s, s:f}", "rope_type", "default", "rope_theta", rope->theta)
                        : hf_rope_json(rope);
}

static json_t *config_json(const struct checkpoint_model *m, enum dtype dtype, const struct rope_rule *rope) {
    const struct row *row = row_of_model(m);
    const struct llama_family *f = row->family;
    struct llama_said s = said_of(m, f);
    json_t *config = json_pack("{s:[s], s:s, s:f, s:o, s:s, s:b, s:s}", "architectures", f->architecture, "model_type",
                               row->type, "rope_theta", rope->theta, "rope_scaling", scaling_json(rope, f),
                               "hidden_act", hf_activation_name(m, "silu"), "tie_word_embeddings", !m->untied,
                               "torch_dtype", hf_config_dtype(dtype));
    config = hf_keys_write(&hf_keys_sizes, &s, config);
    config = hf_keys_write(f->keys, &s, config);
    config = config ? moe_hf_write(config, m, f) : NULL;
    config = config ? mla_hf_write(config, m, f) : NULL;
    return with_windows(config, m, f);
}

enum status llama_hf_config_write(const char *path, const struct checkpoint_model *m, enum dtype dtype) {
    char scaling[MODEL_VALUE_MAX];
    struct rope_rule rope = {.theta = m->rope_theta ? (double)m->rope_theta : 10000};
    checkpoint_model_said(m, "rope-scaling", scaling);
    TRY(rope_rule_read(scaling[0] ? scaling : "none", &rope));
    return hf_config_save(path, config_json(m, dtype, &rope));
}
