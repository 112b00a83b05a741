/* A config.json's keys of experts: which layers have them, and how a token chooses. See families/family.h. */
#include "models/llama/families/family.h"
#include "models/llama/moe/moe.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool has(const struct llama_family *f, const char *key) { return hf_keys_find(f->keys, key) != NULL; }

/* ---- what a family can hold ---- */

bool moe_hf_has_key_of(const struct llama_family *f, const char *option) {
    static const char *const of[][2] = {
        {"expert-ffn", "moe_intermediate_size"}, {"expert-layers", "mlp_only_layers"},
        {"expert-layers", "first_k_dense_replace"}, {"router-norm", "norm_topk_prob"}, {"router-groups", "n_group"},
        {"router-groups-per-token", "topk_group"}, {"router-scale", "routed_scaling_factor"},
        {"shared-experts", "n_shared_experts"}, {"swiglu-limit", "swiglu_limit"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (!strcmp(option, of[i][0]) && has(f, of[i][1])) return true;
    return false;
}

/* Does layer i have experts? letters "": all have. */
static bool is_routed(const char *letters, int64_t i) {
    return !letters[0] || letters[(size_t)i % strlen(letters)] == 'e';
}

bool moe_hf_holds(const struct llama_family *f, const struct checkpoint_model *m) {
    char letters[MODEL_VALUE_MAX], shared[MODEL_VALUE_MAX], limit[MODEL_VALUE_MAX];
    bool ordered = true;
    checkpoint_model_said(m, "expert-layers", letters);
    checkpoint_model_said(m, "shared-experts", shared);
    checkpoint_model_said(m, "swiglu-limit", limit);
    if (!limit[0] && has(f, "swiglu_limit")) return false;
    for (int64_t i = 1; i < m->layers; i++) ordered &= !is_routed(letters, i - 1) || is_routed(letters, i);
    return !m->experts || ((shared[0] || !has(f, "n_shared_experts")) && (ordered || !has(f, "first_k_dense_replace")));
}

enum status moe_hf_check(const struct checkpoint_model *m) {
    int64_t groups = (int64_t)checkpoint_model_real(m, "router-groups", 1);
    if (!m->experts || m->experts >= 2 * groups || !strstr(m->more, "router-scores=sigmoid")) return OK;
    return FAIL(E_CONFIG, "router-groups=%" PRId64 " of experts=%" PRId64 ": transformers scores a group by its two "
                "best experts, and such a group has 1; train with --router-groups 1 and --experts 2 or more", groups,
                m->experts);
}

/* ---- reading ---- */

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

/* greedy has no groups, whatever the file says of them. */
static enum status read_groups(const char *path, const json_t *config, const struct llama_family *f,
                               struct llama_said *s) {
    const json_t *method = json_object_get(config, "topk_method");
    if (has(f, "topk_method") && (!method || !strcmp(json_string_value(method), "greedy")))
        s->groups = s->groups_per_token = 1;
    if (has(f, "n_group") && (!s->groups || !s->groups_per_token))
        return FAIL(E_FORMAT, "%s: n_group and topk_group are null, and a token chooses by groups; they must be whole "
                    "numbers from 1", path);
    if (s->groups_per_token > s->groups)
        return FAIL(E_FORMAT, "%s: topk_group is %" PRId64 ", and n_group is %" PRId64 "; it must be at most n_group",
                    path, s->groups_per_token, s->groups);
    if (has(f, "num_experts_per_tok") && !s->model.experts_per_token)
        return FAIL(E_FORMAT, "%s: num_experts_per_tok is null, and layers have experts; it must be a whole number "
                    "from 1", path);
    int64_t each = s->model.experts / s->groups, chosen = s->groups_per_token * each;
    if (s->groups == 1 || (each * s->groups == s->model.experts && chosen >= s->model.experts_per_token)) return OK;
    return FAIL(E_FORMAT, "%s: n_group is %" PRId64 " and topk_group is %" PRId64 "; n_group must divide the %" PRId64
                " experts, and topk_group groups have num_experts_per_tok=%" PRId64, path, s->groups,
                s->groups_per_token, s->model.experts, s->model.experts_per_token);
}

/* The tensors say which weights are in blocks (lib/checkpoint/hf_blocks.h). */
static enum status check_quantization(const char *path, const json_t *config) {
    const json_t *q = json_object_get(config, "quantization_config"), *method = json_object_get(q, "quant_method");
    if (!q || json_is_null(q) || (json_is_string(method) && !strcmp(json_string_value(method), "mxfp4"))) return OK;
    return FAIL(E_FORMAT, "%s: quantization_config is %s; its quant_method must be mxfp4, or quantization_config null",
                path, hf_keys_show(q));
}

enum status moe_hf_read(const char *path, const json_t *config, const struct llama_family *f, bool dense_too,
                        struct llama_said *s, char letters[10001]) {
    int64_t layers = s->model.layers, first = 0;
    bool from_first = has(f, "first_k_dense_replace");
    if (has(f, "quantization_config")) TRY(check_quantization(path, config));
    TRY(llama_hf_read_whole(path, config, hf_keys_find(f->keys, "first_k_dense_replace"), 0, &first));
    for (int64_t i = 0; i < layers; i++)
        letters[i] = from_first ? "de"[i >= first] : "de"[!s->sparse_step || (i + 1) % s->sparse_step == 0];
    letters[layers] = 0;
    if (s->sparse_step) TRY(read_mlp_only(path, json_object_get(config, "mlp_only_layers"), layers, letters));
    if (from_first && first >= layers && dense_too) {                  /* its keys of experts change nothing */
        s->model.experts = s->model.experts_per_token = s->expert_ffn = s->shared = 0, strcpy(letters, "e");
        s->router_norm = s->groups = 1, s->scale = 1;
        return OK;
    }
    if (from_first && first >= layers)
        return FAIL(E_FORMAT, "%s: first_k_dense_replace is %" PRId64 ", and none of %" PRId64 " layers has experts",
                    path, first, layers);
    if (!strchr(letters, 'e'))
        return FAIL(E_FORMAT, "%s: decoder_sparse_step is %" PRId64 ", and with mlp_only_layers none of %" PRId64
                    " layers has experts", path, s->sparse_step, layers);
    TRY(read_groups(path, config, f, s));
    size_t period = llama_hf_shorten(letters);
    if (period <= MODEL_LETTERS_MAX) return OK;
    return FAIL(E_FORMAT, "%s: its layers with experts repeat after %zu layers, and --expert-layers has at most %d "
                "letters; set mlp_only_layers to null: then all layers have experts", path, period, MODEL_LETTERS_MAX);
}

void moe_hf_say(struct checkpoint_model *m, const struct llama_said *s, const struct llama_family *f,
                const char *letters) {
    if (m->experts && f->routed) snprintf(strchr(m->more, 0), MODEL_VALUE_MAX, " %s", f->routed);
    if (s->expert_ffn && s->expert_ffn != s->model.ffn) llama_hf_say_number(m, "expert-ffn", s->expert_ffn);
    if (strcmp(letters, "e") != 0) checkpoint_model_say(m, "expert-layers", letters);
    if (!s->router_norm) checkpoint_model_say(m, "router-norm", "off");
    if (s->groups > 1) llama_hf_say_number(m, "router-groups", s->groups);
    if (s->groups > 1 && s->groups_per_token > 1)
        llama_hf_say_number(m, "router-groups-per-token", s->groups_per_token);
    checkpoint_model_say_real(m, "router-scale", s->scale, 1);
    llama_hf_say_number(m, "shared-experts", s->shared);
    checkpoint_model_say_real(m, "swiglu-limit", s->swiglu_limit, 0);
}

/* ---- writing ---- */

/* A model without experts has one in each layer from first_k_dense_replace on: in none. */
void moe_hf_said(const struct checkpoint_model *m, struct llama_said *s) {
    char norm[MODEL_VALUE_MAX];
    checkpoint_model_said(m, "router-norm", norm);
    s->expert_ffn = (int64_t)checkpoint_model_real(m, "expert-ffn", (double)s->model.ffn);
    s->router_norm = strcmp(norm, "off") != 0;
    s->sparse_step = 1;
    s->groups = (int64_t)checkpoint_model_real(m, "router-groups", 1);
    s->groups_per_token = (int64_t)checkpoint_model_real(m, "router-groups-per-token", 1);
    s->scale = checkpoint_model_real(m, "router-scale", 1);
    s->swiglu_limit = checkpoint_model_real(m, "swiglu-limit", 0);
    s->shared = (int64_t)checkpoint_model_real(m, "shared-experts", 1);
    if (!m->experts) s->model.experts = s->model.experts_per_token = 1;
}

json_t *moe_hf_write(json_t *config, const struct checkpoint_model *m, const struct llama_family *f) {
    char letters[MODEL_VALUE_MAX];
    json_t *list = has(f, "mlp_only_layers") ? json_array() : NULL;
    json_int_t dense = 0;
    int failed = 0;
    checkpoint_model_said(m, "expert-layers", letters);
    for (int64_t i = 0; i < m->layers; i++) {
        if (m->experts && is_routed(letters, i)) continue;
        dense++;
        if (list) json_array_append_new(list, json_integer((json_int_t)i));
    }
    if (list) failed |= json_object_set_new(config, "mlp_only_layers", list);
    if (has(f, "first_k_dense_replace"))
        failed |= json_object_set_new(config, "first_k_dense_replace", json_integer(dense));
    if (has(f, "topk_method") && checkpoint_model_real(m, "router-groups", 1) > 1)
        failed |= json_object_set_new(config, "topk_method", json_string("group_limited_greedy"));
    if (failed) json_decref(config);
    return failed ? NULL : config;
}
