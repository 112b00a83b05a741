/* config.json of Llama and its relatives: the keys that all have, and reading and writing by each family's table. */
#include "models/llama/families/family.h"

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
static const struct row { const char *type, *arch; const struct llama_family *family; } ROWS[] = {
    FAMILIES_OF_LLAMA(ROW_OF_LLAMA) FAMILIES_OF_MIXTRAL(ROW_OF_MIXTRAL) FAMILIES_OF_MOE(ROW_OF_MOE)};
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

static bool has_latents(const struct llama_family *f) { return hf_keys_find(f->keys, "kv_lora_rank") != NULL; }
static const char *const OF_LATENTS[] = {"kv-lora-rank", "q-lora-rank", "rope-head-dim", "v-head-dim",
                                         "mscale-all-dim"};

/* Is there a key for this value of an option? */
static bool has_key_of(const struct llama_family *f, const char *option, const char *value) {
    if (!strcmp(option, "attention-bias")) return has_flag(f, "attention_bias") && !strcmp(value, f->bias);
    if (!strcmp(option, "mlp-bias")) return has_flag(f, "mlp_bias");
    if (!strcmp(option, "window")) return hf_keys_find(f->keys, "sliding_window") != NULL;
    if (!strcmp(option, "window-layers")) return hf_keys_find(f->keys, "layer_types") != NULL;
    if (!strcmp(option, "expert-ffn")) return hf_keys_find(f->keys, "moe_intermediate_size") != NULL;
    if (!strcmp(option, "expert-layers")) return hf_keys_find(f->keys, "mlp_only_layers") != NULL;
    if (!strcmp(option, "router-norm")) return has_flag(f, "norm_topk_prob");
    if (!strcmp(option, "rope-interleave")) return has_flag(f, "rope_interleave");
    for (size_t i = 0; i < sizeof OF_LATENTS / sizeof *OF_LATENTS; i++)
        if (!strcmp(option, OF_LATENTS[i])) return has_latents(f);
    return !strcmp(option, "norm-eps") || !strcmp(option, "rope-scaling") || !strcmp(option, "activation");
}

/* Options that all models of the family have are the model's, and there is a key for each of its others. */
static bool holds(const struct llama_family *f, const struct checkpoint_model *m) {
    struct checkpoint_model own = {.arch = ""};
    const char *option;
    char always[MODEL_VALUE_MAX], said[MODEL_VALUE_MAX];
    if (has_latents(f) && says(m, "kv-lora-rank", "")) return false;
    snprintf(own.more, sizeof own.more, "%s", f->always);
    for (int i = N_MODEL_SIZES; i < N_MODEL_OPTIONS; i++) {
        (void)checkpoint_model_option(&own, i, &option, always);
        (void)checkpoint_model_option(m, i, &option, said);
        if (strcmp(always, said) != 0 && !has_key_of(f, option, said)) return false;
    }
    return true;
}

static const struct row *row_of_model(const struct checkpoint_model *m) {
    for (const struct row *r = ROWS; r < ROWS + N_ROWS; r++)
        if (!strcmp(r->arch, m->arch) && holds(r->family, m)) return r;
    return NULL;
}

bool llama_hf_has_type(const struct checkpoint_model *m) { return row_of_model(m) != NULL; }

/* ---- reading ---- */

/* The windows of a model: tokens, or 0; and the letters of --window-layers, one for each layer. */
struct windows { int64_t window; char layers[10001]; };

/* A whole number from `least` on, at a row of HF_READ; least 1: or null, which is 0. NULL, no row: *out stays. */
static enum status read_whole(const char *path, const json_t *config, const struct hf_key *key, int64_t least,
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

/* Shorten the letters to those that are repeated. @return their number */
static size_t shorten(char *layers) {
    size_t n = strlen(layers), period = 1;
    for (size_t i = 0; i < n; i++)
        if (layers[i] != layers[i % period]) period = i + 1;
    layers[period] = 0;
    return period;
}

static enum status read_windows(const char *path, const json_t *config, const struct hf_keys *keys,
                                const struct llama_said *s, struct windows *w) {
    bool by_layer = hf_keys_find(keys, "layer_types") != NULL;
    const json_t *types = by_layer ? json_object_get(config, "layer_types") : NULL;
    int64_t first = 0, layers = s->model.layers;
    w->window = 0;
    TRY(read_whole(path, config, hf_keys_find(keys, "sliding_window"), 1, &w->window));
    TRY(read_whole(path, config, hf_keys_find(keys, "max_window_layers"), 0, &first));
    if (!s->use_window) w->window = 0;
    for (int64_t i = 0; i < layers; i++) w->layers[i] = i >= first ? 's' : 'f';
    w->layers[layers] = 0;
    if (types && !json_is_null(types)) TRY(read_layer_types(path, types, layers, w));
    if (!w->window) strcpy(w->layers, "f");
    size_t period = shorten(w->layers);
    if (!strcmp(w->layers, "f")) w->window = 0;
    if (period <= MODEL_LETTERS_MAX) return OK;
    return FAIL(E_FORMAT, "%s: its windows repeat after %zu layers, and --window-layers has at most %d letters; set "
                "sliding_window and layer_types to null: then no layer has a window", path, period, MODEL_LETTERS_MAX);
}

/* ---- layers with experts ---- */

static enum status read_mlp_only(const char *path, const json_t *list, int64_t layers, char *letters) {
    size_t i;
    json_t *x;
    if (list && !json_is_null(list) && !json_is_array(list))
        return FAIL(E_FORMAT, "%s: mlp_only_layers is %s; it must be a list of layers, or null", path,
                    hf_keys_show(list));
    json_array_foreach((json_t *)list, i, x) {
        if (!json_is_integer(x))
            return FAIL(E_FORMAT, "%s: mlp_only_layers has %s; it must have numbers of layers, from 0", path,
                        hf_keys_show(x));
        if (json_integer_value(x) >= 0 && json_integer_value(x) < layers) letters[json_integer_value(x)] = 'd';
    }
    return OK;
}

/* The letters of --expert-layers; "e": all layers have experts. */
static enum status read_expert_layers(const char *path, const json_t *config, const struct llama_said *s,
                                      char letters[10001]) {
    int64_t layers = s->model.layers;
    for (int64_t i = 0; i < layers; i++) letters[i] = !s->sparse_step || (i + 1) % s->sparse_step == 0 ? 'e' : 'd';
    letters[layers] = 0;
    if (s->sparse_step) TRY(read_mlp_only(path, json_object_get(config, "mlp_only_layers"), layers, letters));
    if (!strchr(letters, 'e'))
        return FAIL(E_FORMAT, "%s: decoder_sparse_step is %" PRId64 ", and with mlp_only_layers none of %" PRId64
                    " layers has experts", path, s->sparse_step, layers);
    size_t period = shorten(letters);
    if (period <= MODEL_LETTERS_MAX) return OK;
    return FAIL(E_FORMAT, "%s: its layers with experts repeat after %zu layers, and --expert-layers has at most %d "
                "letters; set mlp_only_layers to null: then all layers have experts", path, period, MODEL_LETTERS_MAX);
}

static void say_experts(struct checkpoint_model *m, const struct llama_said *s, const char *layers) {
    char text[MODEL_VALUE_MAX];
    snprintf(text, sizeof text, "%" PRId64, s->expert_ffn);
    if (s->expert_ffn && s->expert_ffn != s->model.ffn) checkpoint_model_say(m, "expert-ffn", text);
    if (strcmp(layers, "e") != 0) checkpoint_model_say(m, "expert-layers", layers);
    if (!s->router_norm) checkpoint_model_say(m, "router-norm", "off");
}

/* ---- latents ---- */

static const json_t *scaling_of(const json_t *config) {
    const json_t *scaling = json_object_get(config, "rope_scaling");
    return json_object_size(scaling) ? scaling : json_object_get(config, "rope_parameters");
}

/* Latent attention is more than its rows of the table say. */
static enum status read_latents(const char *path, const json_t *config, const struct hf_keys *keys,
                                struct llama_said *s) {
    int64_t dense = 0, turned = 0, layers = s->model.layers;
    if (!s->kv_lora_rank) return OK;
    TRY(read_whole(path, config, hf_keys_find(keys, "q_lora_rank"), 1, &s->q_lora_rank));
    TRY(read_whole(path, config, hf_keys_find(keys, "first_k_dense_replace"), 0, &dense));
    TRY(read_whole(path, config, hf_keys_find(keys, "head_dim"), 0, &turned));
    if (json_object_get(config, "head_dim") && turned != s->rope)
        return FAIL(E_FORMAT, "%s: head_dim is %" PRId64 ", and with kv_lora_rank it is qk_rope_head_dim, %" PRId64
                    ", or absent", path, turned, s->rope);
    s->mscale_all_dim = json_number_value(json_object_get(scaling_of(config), "mscale_all_dim"));
    s->head_dim = s->nope + s->rope;
    if (s->model.kv_heads && s->model.kv_heads != s->model.heads)
        return FAIL(E_FORMAT, "%s: num_key_value_heads is %" PRId64 " of %" PRId64 " heads; with kv_lora_rank every "
                    "head has keys of its own, so it must be as many, or null", path, s->model.kv_heads,
                    s->model.heads);
    if (s->value > s->head_dim)
        return FAIL(E_FORMAT, "%s: v_head_dim is %" PRId64 ", more than the %" PRId64 " channels of a key, which "
                    "Trivium does not compute", path, s->value, s->head_dim);
    if (dense >= layers) return OK;
    return FAIL(E_FORMAT, "%s: first_k_dense_replace is %" PRId64 " of %" PRId64 " layers: others have experts, which "
                "Trivium does not compute with latents", path, dense, layers);
}

static void say_number(struct checkpoint_model *m, const char *option, int64_t n) {
    char text[MODEL_VALUE_MAX];
    snprintf(text, sizeof text, "%" PRId64, n);
    if (n) checkpoint_model_say(m, option, text);
}

static void say_latents(struct checkpoint_model *m, const struct llama_said *s) {
    if (!s->kv_lora_rank) return;
    say_number(m, "kv-lora-rank", s->kv_lora_rank);
    say_number(m, "q-lora-rank", s->q_lora_rank);
    say_number(m, "rope-head-dim", s->rope);
    say_number(m, "v-head-dim", s->value);
    checkpoint_model_say_real(m, "mscale-all-dim", s->mscale_all_dim, 0);
    if (s->interleave) checkpoint_model_say(m, "rope-interleave", "on");
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
    say_number(m, "window", w->window);
    say_latents(m, s);
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

static enum status read_config(const char *path, const json_t *config, struct checkpoint_model *out) {
    const json_t *type = json_object_get(config, "model_type");
    const struct row *row = row_of_type(json_is_string(type) ? json_string_value(type) : "");
    struct llama_said s = {.use_window = 1, .router_norm = 1};
    struct rope_rule rope;
    struct windows windows;
    char list[512], layers[10001];
    if (!row)
        return FAIL(E_FORMAT, "%s: model_type is %s, not %s", path, type ? hf_keys_show(type) : "not said",
                    types(list));
    const struct llama_family *f = row->family;
    const struct hf_keys *const tables[] = {&ALL, &hf_keys_sizes, f->keys, &hf_keys_shared, NULL};
    TRY(hf_keys_read(path, row->type, config, tables, false, &s));
    TRY(check_sizes(path, &s));
    TRY(read_latents(path, config, f->keys, &s));
    TRY(checkpoint_model_check(&s.model, path));
    TRY(read_windows(path, config, f->keys, &s, &windows));
    TRY(read_expert_layers(path, config, &s, layers));
    TRY(hf_rope_read(path, config, f->theta, s.model.seq, &rope));
    *out = s.model;
    snprintf(out->arch, sizeof out->arch, "%s", row->arch);
    out->rope_theta = rope.theta == 10000 ? 0 : (int64_t)rope.theta;
    if (s.head_dim * out->heads != out->hidden) out->head_dim = s.head_dim;
    out->untied = !s.tied;
    out->dropless = out->experts > 0;
    say_more(out, &s, &rope, &windows, f);
    say_experts(out, &s, layers);
    hf_activation_read(config, "hidden_act", "swiglu", out);
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

static json_int_t number(const struct checkpoint_model *m, const char *option) {
    return (json_int_t)checkpoint_model_real(m, option, 0);
}

/* Set the latents' keys that are HF_READ. */
static json_t *with_latents(json_t *config, const struct checkpoint_model *m, const struct llama_family *f) {
    json_int_t q = number(m, "q-lora-rank");
    if (!config || !has_latents(f)) return config;
    int failed = json_object_set_new(config, "q_lora_rank", q ? json_integer(q) : json_null()) |
                 json_object_set_new(config, "first_k_dense_replace", json_integer((json_int_t)m->layers));
    if (!says(m, "mscale-all-dim", ""))
        failed |= json_object_set_new(json_object_get(config, "rope_scaling"), "mscale_all_dim",
                                      json_real(checkpoint_model_real(m, "mscale-all-dim", 0)));
    if (failed) json_decref(config);
    return failed ? NULL : config;
}

static json_t *with_mlp_only(json_t *config, const struct checkpoint_model *m, const struct hf_keys *keys) {
    char letters[MODEL_VALUE_MAX];
    json_t *list = hf_keys_find(keys, "mlp_only_layers") ? json_array() : NULL;
    checkpoint_model_said(m, "expert-layers", letters);
    for (int64_t i = 0; i < m->layers && letters[0]; i++)
        if (letters[(size_t)i % strlen(letters)] == 'd') json_array_append_new(list, json_integer((json_int_t)i));
    if (!list || !json_object_set_new(config, "mlp_only_layers", list)) return config;
    json_decref(config);
    return NULL;
}

/* Set the window's keys. Older versions read max_window_layers: from which layer on all have it. */
static json_t *with_windows(json_t *config, const struct checkpoint_model *m, const struct hf_keys *keys) {
    json_int_t window = number(m, "window");
    char letters[MODEL_VALUE_MAX];
    int failed = 0;
    checkpoint_model_said(m, "window-layers", letters);
    if (!letters[0]) strcpy(letters, "s");
    if (hf_keys_find(keys, "sliding_window"))
        failed |= json_object_set_new(config, "sliding_window", window ? json_integer(window) : json_null());
    if (window && hf_keys_find(keys, "max_window_layers"))
        failed |= json_object_set_new(config, "max_window_layers", json_integer((json_int_t)strspn(letters, "f")));
    if (window && hf_keys_find(keys, "layer_types"))
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
    s.expert_ffn = (int64_t)checkpoint_model_real(m, "expert-ffn", (double)s.model.ffn);
    s.router_norm = !says(m, "router-norm", "off");
    s.sparse_step = 1;
    s.kv_lora_rank = number(m, "kv-lora-rank"), s.rope = number(m, "rope-head-dim"), s.nope = s.head_dim - s.rope;
    s.value = says(m, "v-head-dim", "") ? s.nope : number(m, "v-head-dim");
    s.interleave = says(m, "rope-interleave", "on"), s.routed = 1;
    return s;
}

static json_t *config_json(const struct checkpoint_model *m, enum dtype dtype, const struct rope_rule *rope) {
    const struct row *row = row_of_model(m);
    const struct llama_family *f = row->family;
    struct llama_said s = said_of(m, f);
    json_t *config = json_pack("{s:[s], s:s, s:f, s:o, s:s, s:b, s:s}", "architectures", f->architecture, "model_type",
                               row->type, "rope_theta", rope->theta, "rope_scaling", hf_rope_json(rope), "hidden_act",
                               hf_activation_name(m, "silu"), "tie_word_embeddings", !m->untied, "torch_dtype",
                               hf_config_dtype(dtype));
    config = hf_keys_write(&hf_keys_sizes, &s, config);
    config = hf_keys_write(f->keys, &s, config);
    config = with_mlp_only(config, m, f->keys);
    config = with_latents(config, m, f);
    return with_windows(config, m, f->keys);
}

enum status llama_hf_config_write(const char *path, const struct checkpoint_model *m, enum dtype dtype) {
    char scaling[MODEL_VALUE_MAX];
    struct rope_rule rope = {.theta = m->rope_theta ? (double)m->rope_theta : 10000};
    checkpoint_model_said(m, "rope-scaling", scaling);
    TRY(rope_rule_read(scaling[0] ? scaling : "none", &rope));
    return hf_config_save(path, config_json(m, dtype, &rope));
}
