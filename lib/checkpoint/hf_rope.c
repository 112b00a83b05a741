/* Rotary positions in a config.json: rope_theta, and how positions are scaled, in rope_scaling (transformers 4) or
 * rope_parameters (transformers 5), which may hold rope_theta, too. */
#include "lib/checkpoint/hf_config.h"
#include "lib/checkpoint/hf_keys.h"
#include "lib/ops/rope.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WHERE_MAX = 1024 };
struct said { int64_t context, truncate; double factor, slow, fast, attention, scale, scale_all; };
#define AT(field) offsetof(struct said, field)

/* type: the name of rope_type in older files. */
static const struct hf_key COMMON_KEYS[] = {
    {"rope_type", HF_READ, "null", NULL, 0},
    {"type", HF_READ, "null", NULL, 0},
    {"partial_rotary_factor", HF_MUST, "1.0", "1.0", 0},
    {"rope_theta", HF_READ, "null", NULL, 0},
    {0},
};
static const struct hf_keys COMMON = {COMMON_KEYS, NULL, NULL};

static const struct hf_key LINEAR_KEYS[] = {{"factor", HF_REAL, NULL, NULL, AT(factor)}, {0}};
static const struct hf_key LLAMA3_KEYS[] = {
    {"factor", HF_REAL, NULL, NULL, AT(factor)},
    {"low_freq_factor", HF_REAL, NULL, NULL, AT(slow)},
    {"high_freq_factor", HF_REAL, NULL, NULL, AT(fast)},
    {"original_max_position_embeddings", HF_SIZE, "null", NULL, AT(context)},
    {0},
};
static const struct hf_key YARN_KEYS[] = {
    {"factor", HF_REAL, NULL, NULL, AT(factor)},
    {"beta_slow", HF_REAL, "1.0", NULL, AT(slow)},
    {"beta_fast", HF_REAL, "32.0", NULL, AT(fast)},
    {"original_max_position_embeddings", HF_SIZE, "null", NULL, AT(context)},
    {"attention_factor", HF_REAL, "null", NULL, AT(attention)},
    {"mscale", HF_REAL, "null", NULL, AT(scale)},
    {"mscale_all_dim", HF_REAL, "null", NULL, AT(scale_all)},
    {"truncate", HF_FLAG, "true", NULL, AT(truncate)},
    {0},
};
static const struct hf_keys KINDS[] = {[ROPE_UNSCALED] = {NULL, NULL, NULL},
                                       [ROPE_LINEAR] = {LINEAR_KEYS, NULL, NULL},
                                       [ROPE_LLAMA3] = {LLAMA3_KEYS, NULL, NULL},
                                       [ROPE_YARN] = {YARN_KEYS, NULL, NULL}};

/* ---- reading ---- */

static enum status read_kind(const char *where, const json_t *x, enum rope_scaling *out) {
    const json_t *type = json_object_get(x, "rope_type"), *old = json_object_get(x, "type");
    if (type && old && !json_equal(type, old))
        return FAIL(E_FORMAT, "%s: rope_type is %s and type is %s, and both are one key: leave one out", where,
                    hf_keys_show(type), hf_keys_show(old));
    const json_t *said = type ? type : old;
    const char *name = said ? json_string_value(said) : "default";
    int kind = !name ? -1 : !strcmp(name, "default") ? ROPE_UNSCALED : rope_scaling_of(name, strlen(name));
    if (kind < 0 || kind > ROPE_YARN || !strcmp(name, "none"))
        return FAIL(E_FORMAT, "%s: %s is %s; it must be default, linear, llama3 or yarn", where,
                    type ? "rope_type" : "type", hf_keys_show(said));
    *out = (enum rope_scaling)kind;
    return OK;
}

/* The reference's values of numbers that the file leaves out. A context next to the object is the same key. */
static enum status complete(const char *where, const json_t *config, int64_t seq, struct said *s) {
    const json_t *own = json_object_get(config, "original_max_position_embeddings");
    if (own && (!json_is_integer(own) || json_integer_value(own) < 1 ||
                (s->context && s->context != json_integer_value(own))))
        return FAIL(E_FORMAT, "%s: original_max_position_embeddings is %" PRId64 ", and %s outside of it: leave one "
                    "out", where, s->context, hf_keys_show(own));
    if (!s->context) s->context = own ? json_integer_value(own) : seq;
    if (!s->attention)
        s->attention = s->scale && s->scale_all ? rope_yarn_attention(s->factor, s->scale) /
                                                      rope_yarn_attention(s->factor, s->scale_all)
                                                : rope_yarn_attention(s->factor, 1);
    if (s->slow < s->fast) return OK;
    return FAIL(E_FORMAT, "%s: low_freq_factor or beta_slow is %g, and high_freq_factor or beta_fast %g, which must be "
                "more", where, s->slow, s->fast);
}

/* One of the two objects, which may be absent or null. */
static enum status read_object(const char *path, const json_t *config, const char *key, int64_t seq,
                               struct rope_rule *rule) {
    const json_t *x = json_object_get(config, key);
    char where[WHERE_MAX];
    struct said s = {.context = 0};
    snprintf(where, sizeof where, "%.900s: %s", path, key);
    if (!x || json_is_null(x)) return OK;
    if (!json_is_object(x)) return FAIL(E_FORMAT, "%s is %s; it must be an object or null", where, hf_keys_show(x));
    TRY(read_kind(where, x, &rule->scaling));
    const struct hf_keys *const tables[] = {&COMMON, &KINDS[rule->scaling], NULL};
    TRY(hf_keys_read(where, "model", x, tables, true, &s));
    if (rule->scaling >= ROPE_LLAMA3) TRY(complete(where, config, seq, &s));
    rule->factor = s.factor, rule->context = (double)s.context, rule->slow = s.slow, rule->fast = s.fast;
    if (rule->scaling == ROPE_YARN) rule->attention = s.attention;
    if (rule->scaling == ROPE_YARN && !s.truncate) rule->scaling = ROPE_YARN_UNTRUNCATED;
    return OK;
}

enum status hf_rope_read(const char *path, const json_t *config, double missing, int64_t seq, struct rope_rule *out) {
    const json_t *scaling = json_object_get(config, "rope_scaling"),
                 *parameters = json_object_get(config, "rope_parameters"), *own = json_object_get(config, "rope_theta"),
                 *in_scaling = json_object_get(scaling, "rope_theta"),
                 *in_parameters = json_object_get(parameters, "rope_theta");
    struct rope_rule of_scaling = {0}, of_parameters = {0};
    TRY(read_object(path, config, "rope_scaling", seq, &of_scaling));
    TRY(read_object(path, config, "rope_parameters", seq, &of_parameters));
    if (json_object_size(scaling) && json_object_size(parameters))
        return FAIL(E_FORMAT, "%s says rope_scaling and rope_parameters, and both are one key: leave one out", path);
    *out = json_object_size(scaling) ? of_scaling : of_parameters;
    const json_t *inner = in_scaling ? in_scaling : in_parameters, *theta = inner ? inner : own;
    out->theta = theta ? json_number_value(theta) : missing;
    if (inner && own && json_number_value(own) != out->theta)
        return FAIL(E_FORMAT, "%s: rope_theta is %s, and %s in %s: leave one out", path, hf_keys_show(own),
                    hf_keys_show(inner), in_scaling ? "rope_scaling" : "rope_parameters");
    if (!(out->theta >= 2 && out->theta <= 1e12) || out->theta != (double)(int64_t)out->theta)
        return FAIL(E_FORMAT, "%s: rope_theta is %s, no whole number from 2 to 1e12", path, hf_keys_show(theta));
    return OK;
}

/* ---- writing ---- */

json_t *hf_rope_json(const struct rope_rule *r) {
    json_int_t context = (json_int_t)r->context;
    json_t *attention = r->scaling < ROPE_YARN || r->attention == rope_yarn_attention(r->factor, 1)
                            ? NULL : json_real(r->attention);   /* the usual one is not written, and so not rounded */
    json_t *truncate = r->scaling == ROPE_YARN_UNTRUNCATED ? json_false() : NULL;
    switch (r->scaling) {
    case ROPE_LINEAR: return json_pack("{s:s, s:f}", "rope_type", "linear", "factor", r->factor);
    case ROPE_LLAMA3:
        return json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor", r->factor, "low_freq_factor",
                         r->slow, "high_freq_factor", r->fast, "original_max_position_embeddings", context);
    case ROPE_YARN:
    case ROPE_YARN_UNTRUNCATED:
        return json_pack("{s:s, s:f, s:f, s:f, s:o*, s:I, s:o*}", "rope_type", "yarn", "factor", r->factor, "beta_slow",
                         r->slow, "beta_fast", r->fast, "attention_factor", attention,
                         "original_max_position_embeddings", context, "truncate", truncate);
    default: return json_null();
    }
}
