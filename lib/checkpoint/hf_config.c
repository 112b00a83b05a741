#include "lib/checkpoint/hf_config.h"

#include "lib/base/json_file.h"
#include "lib/checkpoint/checkpoint_model.h"
#include "lib/checkpoint/hf_keys.h"
#include <string.h>
#include <unistd.h>

enum { CONFIG_MAX_BYTES = 4 << 20 };

enum status hf_config_load(const char *path, json_t **out) {
    *out = NULL;
    if (access(path, F_OK) != 0)
        return FAIL(E_DATA, "%s is not there; it says the sizes, heads and positions of the tensors next to it", path);
    json_t *config;
    TRY(json_file_read(path, CONFIG_MAX_BYTES, JSON_REJECT_DUPLICATES, &config));
    if (json_is_object(config)) hf_keys_leave_out(*out = config);
    else json_decref(config);
    return *out ? OK : FAIL(E_FORMAT, "%s is no JSON object: another value at line 1", path);
}

enum status hf_config_read(const char *path, hf_model_read *read, struct checkpoint_model *out) {
    json_t *config;
    TRY(hf_config_load(path, &config));
    enum status status = read(path, config, out);
    json_decref(config);
    return status;
}

enum status hf_config_save(const char *path, json_t *config) {
    if (!config) return FAIL(E_MEMORY, "no memory to write %s", path);
    enum status status = json_file_write(path, config, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(config);
    return status;
}

const char *hf_config_dtype(enum dtype dtype) {
    static const char *const names[N_DTYPES] = {
        [FP64] = "float64", [FP32] = "float32", [BF16] = "bfloat16", [FP16] = "float16"};
    return names[dtype];
}

/* ---- activations ---- */

/* gelu_new and gelu_pytorch_tanh are one formula; the other forms of gelu are others. Of several names for one of ours,
 * the first is exported. gated: the activation multiplies the other half. */
static const struct row { const char *theirs, *ours; bool gated; } ROWS[] = {
    {"relu", "relu", false},     {"gelu", "gelu", false},
    {"gelu_new", "gelu-tanh", false}, {"gelu_pytorch_tanh", "gelu-tanh", false},
    {"gelu_new", "geglu", true}, {"gelu_pytorch_tanh", "geglu", true},
    {"silu", "swiglu", true},    {"swish", "swiglu", true}};
enum { N_ROWS = sizeof ROWS / sizeof *ROWS };

/* NULL: Trivium has none. */
static const char *ours_of(const char *theirs, bool gated) {
    for (int i = 0; i < N_ROWS; i++)
        if (!strcmp(ROWS[i].theirs, theirs) && ROWS[i].gated == gated) return ROWS[i].ours;
    return NULL;
}

void hf_activation_read(const json_t *config, const char *key, const char *usual, struct checkpoint_model *m) {
    const char *name = json_string_value(json_object_get(config, key)), *ours = NULL;
    if (name) ours = ours_of(name, !strcmp(usual, "swiglu"));
    if (ours && strcmp(ours, usual) != 0) checkpoint_model_say(m, "activation", ours);
}

static const char *shown(const json_t *x) { return x ? hf_keys_show(x) : "not said"; }

/* feed_forward_proj is the name of an activation, or gated- and a name, where gated-gelu is gated-gelu_new.
 * dense_act_fn and is_gated_act override the two parts; other forms are refused even then. */
enum status hf_gated_read(const char *path, const json_t *config, struct checkpoint_model *m) {
    const json_t *proj = json_object_get(config, "feed_forward_proj"), *act = json_object_get(config, "dense_act_fn"),
                 *gate = json_object_get(config, "is_gated_act");
    const char *said = proj ? json_string_value(proj) : "relu", *name = said, *ours = NULL;
    size_t first = said ? strcspn(said, "-") : 0;
    bool gated = said && first == strlen("gated") && !strncmp(said, "gated", first);
    bool parts = said && (!said[first] || (gated && !strchr(said + first + 1, '-')));
    if (gated && said[first]) name = strcmp(said, "gated-gelu") ? said + first + 1 : "gelu_new";
    if (act) name = json_string_value(act);
    if (gate) gated = json_is_true(gate);
    if (parts && name && (!gate || json_is_boolean(gate))) ours = ours_of(name, gated);
    if (!ours)
        return FAIL(E_FORMAT, "%s: feed_forward_proj is %s, dense_act_fn is %s, is_gated_act is %s; Trivium's t5 has "
                    "relu, gelu, gelu_new, gated-gelu (which is gated-gelu_new) and gated-silu", path, shown(proj),
                    shown(act), shown(gate));
    if (strcmp(ours, "relu") != 0) checkpoint_model_say(m, "activation", ours);
    return OK;
}

const char *hf_activation_name(const struct checkpoint_model *m, const char *usual) {
    char ours[MODEL_VALUE_MAX];
    checkpoint_model_said(m, "activation", ours);
    for (int i = 0; i < N_ROWS; i++)
        if (!strcmp(ROWS[i].ours, ours)) return ROWS[i].theirs;
    return usual;
}

const char *hf_gated_name(const struct checkpoint_model *m) {
    char ours[MODEL_VALUE_MAX];
    checkpoint_model_said(m, "activation", ours);
    if (!strcmp(ours, "geglu")) return "gated-gelu";
    return !strcmp(ours, "swiglu") ? "gated-silu" : hf_activation_name(m, "relu");
}
