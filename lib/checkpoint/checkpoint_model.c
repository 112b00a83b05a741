#include "lib/checkpoint/checkpoint_model.h"

#include "lib/run/recipe.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct checkpoint_model, field)
const struct model_size model_sizes[N_MODEL_SIZES] = {
    {"layers", AT(layers), 1, 10000}, {"hidden", AT(hidden), 1, 1000000}, {"heads", AT(heads), 1, 1000000},
    {"seq", AT(seq), 1, 1000000000}, {"vocab", AT(vocab), 1, 2000000000}, {"untied", AT(untied), 0, 1},
    {"kv-heads", AT(kv_heads), 0, 1000000}, {"ffn", AT(ffn), 0, 10000000},
    {"rope-theta", AT(rope_theta), 0, 1000000000000}, {"experts", AT(experts), 0, 1000000},
    {"experts-per-token", AT(experts_per_token), 0, 1000000}, {"dropless", AT(dropless), 0, 1},
    {"head-dim", AT(head_dim), 0, 1000000}};
enum { SEQ = 3, UNTIED = 5, ROPE_THETA = 8, EXPERTS_PER_TOKEN = 10, DROPLESS = 11, USUAL_THETA = 10000 };

/* ---- options that no size says ---- */

/* They change the function that weights compute. */
static const char *const MORE[N_MODEL_MORE] = {"norm-eps", "rope-scaling", "attention-bias", "mlp-bias",
                                               "qk-norm", "post-norm", "window", "window-layers", "attention-cap",
                                               "attention-sinks", "activation", "expert-ffn", "expert-layers",
                                               "router-norm", "kv-lora-rank", "q-lora-rank", "rope-head-dim",
                                               "v-head-dim", "mscale-all-dim", "rope-interleave", "router-scores",
                                               "router-groups", "router-groups-per-token", "router-scale",
                                               "shared-experts", "expert-bias", "router-bias", "swiglu-limit"};

void checkpoint_model_said(const struct checkpoint_model *m, const char *name, char value[MODEL_VALUE_MAX]) {
    size_t n, length = strlen(name);
    value[0] = 0;
    for (const char *at = m->more; at += strspn(at, " "), (n = strcspn(at, " ")); at += n)
        if (n > length && !strncmp(at, name, length) && at[length] == '=')
            snprintf(value, MODEL_VALUE_MAX, "%.*s", (int)(n - length - 1), at + length + 1);
}

double checkpoint_model_real(const struct checkpoint_model *m, const char *name, double usual) {
    char value[MODEL_VALUE_MAX];
    checkpoint_model_said(m, name, value);
    return value[0] ? strtod(value, NULL) : usual;
}

void checkpoint_model_say(struct checkpoint_model *m, const char *name, const char *value) {
    size_t n = strlen(m->more);
    snprintf(m->more + n, sizeof m->more - n, "%s%s=%s", n ? " " : "", name, value);
}

void checkpoint_model_say_real(struct checkpoint_model *m, const char *name, double value, double usual) {
    static const struct option real = {.type = OPTION_REAL};
    char text[MODEL_VALUE_MAX];
    option_print_value(&real, &value, text, sizeof text);
    if (value != usual) checkpoint_model_say(m, name, text);
}

static const struct option *find(const struct plan *p, const char *name, const void **at) {
    void *own;
    const struct option *o = plan_option(p, name, &own);
    *at = own;
    for (int i = 0; !o && i < plan_options.n; i++) {
        if (strcmp(plan_options.option[i].name, name) != 0) continue;
        o = &plan_options.option[i];
        *at = (const char *)p + o->at;
    }
    return o;
}

static void say_more(struct checkpoint_model *m, const struct plan *p) {
    for (int i = 0; i < N_MODEL_MORE; i++) {
        char value[OPTION_TEXT_MAX];
        const void *at;
        const struct option *o = find(p, MORE[i], &at);
        if (o) option_print_value(o, at, value, sizeof value);
        if (o && strcmp(value, o->initial) != 0) checkpoint_model_say(m, o->name, value);
    }
}

void checkpoint_model_sort(struct checkpoint_model *m) {
    char said[MODEL_VALUE_MAX];
    struct checkpoint_model sorted = {.arch = ""};
    for (int i = 0; i < N_MODEL_MORE; i++) {
        checkpoint_model_said(m, MORE[i], said);
        if (said[0]) checkpoint_model_say(&sorted, MORE[i], said);
    }
    memcpy(m->more, sorted.more, sizeof m->more);
}

/* Does `more` list options of MORE alone, in order? */
static enum status check_more(const struct checkpoint_model *m, const char *where) {
    struct checkpoint_model known = *m;
    checkpoint_model_sort(&known);
    if (!strcmp(known.more, m->more)) return OK;
    return FAIL(E_FORMAT, "%s: the model's options are \"%.80s\", and \"%.200s\" of them are known", where, m->more,
                known.more);
}

/* ---- of a plan, and to one ---- */

struct checkpoint_model checkpoint_model_of_plan(const struct plan *p) {
    const struct model_options *o = model_options(p);
    int64_t theta = plan_number(p, "rope-theta");
    struct checkpoint_model m = {.layers = p->layers, .hidden = p->hidden, .heads = p->heads, .seq = p->seq,
                                 .vocab = p->vocab, .untied = !o->tie};
    if (p->arch && strcmp(p->arch->name, "gpt")) snprintf(m.arch, sizeof m.arch, "%s", p->arch->name);
    if (plan_kv_heads(p) != p->heads) m.kv_heads = o->kv_heads;
    if (plan_ffn(p) != 4 * p->hidden) m.ffn = o->ffn;
    if (plan_head_dim(p) * p->heads != p->hidden) m.head_dim = o->head_dim;
    if (theta != USUAL_THETA) m.rope_theta = theta;
    if (o->experts) m.experts = o->experts, m.experts_per_token = o->experts_per_token, m.dropless = o->capacity == 0;
    say_more(&m, p);
    return m;
}

enum status checkpoint_model_plan(const struct checkpoint_model *m, const struct recipe *recipe, struct plan *out) {
    struct option_table table;
    struct options *o = NULL;
    const char *name;
    char value[MODEL_VALUE_MAX];
    memset(out, 0, sizeof *out);
    out->recipe = recipe;
    enum status status = recipe_options_join(recipe, &table);
    if (status == OK) status = options_create(&table, 1, out, &o);
    for (int i = 0; i < N_MODEL_OPTIONS && status == OK; i++)
        if (checkpoint_model_option(m, i, NULL, &name, value)) status = options_set(o, name, value, FROM_DATA);
    out->micro_batch = out->global_batch = 1;
    options_destroy(&o);
    free((void *)table.option);
    return status;
}

/* ---- in a manifest ---- */

json_t *checkpoint_model_json(const struct checkpoint_model *model) {
    struct checkpoint_model m = *model;
    json_t *j = json_object();
    int failed = m.arch[0] ? json_object_set_new(j, "arch", json_string(m.arch)) : 0;
    for (int i = 0; i < N_MODEL_SIZES; i++)
        if (*model_size_of(&m, i))
            failed |= json_object_set_new(j, model_sizes[i].name, json_integer(*model_size_of(&m, i)));
    if (m.more[0]) failed |= json_object_set_new(j, "options", json_string(m.more));
    if (!failed) return j;
    json_decref(j);
    return NULL;
}

/* Must every manifest have this size? Other sizes are 0 if the manifest lacks them. */
static bool must_be_said(int i) { return model_sizes[i].least > 0; }

enum status checkpoint_model_read(const json_t *manifest, const char *where, struct checkpoint_model *out) {
    const json_t *model = json_object_get(manifest, "model"), *arch = json_object_get(model, "arch"),
                 *more = json_object_get(model, "options");
    *out = (struct checkpoint_model){.arch = ""};
    if (arch && (!json_is_string(arch) || json_string_length(arch) >= sizeof out->arch))
        return FAIL(E_FORMAT, "%s says a model's arch that is no name", where);
    if (more && (!json_is_string(more) || json_string_length(more) >= sizeof out->more))
        return FAIL(E_FORMAT, "%s says a model's options that are no text of up to %d bytes", where,
                    MODEL_MORE_MAX - 1);
    if (more) snprintf(out->more, sizeof out->more, "%s", json_string_value(more));
    if (arch) snprintf(out->arch, sizeof out->arch, "%s", json_string_value(arch));
    for (int i = 0; i < N_MODEL_SIZES; i++) {
        const json_t *x = json_object_get(model, model_sizes[i].name);
        if (x ? !json_is_integer(x) : must_be_said(i))
            return FAIL(E_FORMAT, "%s does not say the model's %s", where, model_sizes[i].name);
        *model_size_of(out, i) = x ? json_integer_value(x) : 0;
    }
    return check_more(out, where);
}

enum status checkpoint_model_check(const struct checkpoint_model *model, const char *where) {
    struct checkpoint_model m = *model;
    for (int i = 0; i < N_MODEL_SIZES; i++) {
        const struct model_size *s = &model_sizes[i];
        int64_t n = *model_size_of(&m, i);
        if (n < s->least || n > s->most)
            return FAIL(E_FORMAT, "%s: the model has %s=%" PRId64 ", which is not %" PRId64 " to %" PRId64, where,
                        s->name, n, s->least, s->most);
    }
    if (m.hidden % m.heads && !m.head_dim)
        return FAIL(E_FORMAT, "%s: heads=%" PRId64 " does not divide hidden=%" PRId64, where, m.heads, m.hidden);
    if (m.kv_heads && m.heads % m.kv_heads)
        return FAIL(E_FORMAT, "%s: kv-heads=%" PRId64 " does not divide heads=%" PRId64, where, m.kv_heads, m.heads);
    return OK;
}

/* ---- two of them ---- */

static const char *arch_of(const struct checkpoint_model *m) { return m->arch[0] ? m->arch : "gpt"; }

static enum status compare_more(const struct checkpoint_model *a, const struct checkpoint_model *b,
                                const char *where) {
    char theirs[MODEL_VALUE_MAX], ours[MODEL_VALUE_MAX];
    for (int i = 0; i < N_MODEL_MORE; i++) {
        checkpoint_model_said(a, MORE[i], theirs);
        checkpoint_model_said(b, MORE[i], ours);
        if (strcmp(theirs, ours) != 0)
            return FAIL(E_FORMAT, "%s is of another model: %s is %s there and %s here; give no --model and no --%s, "
                        "and they are the checkpoint's", where, MORE[i], theirs[0] ? theirs : "the default",
                        ours[0] ? ours : "the default", MORE[i]);
    }
    return OK;
}

enum status checkpoint_model_compare(const struct checkpoint_model *theirs, const struct plan *p, const char *where) {
    struct checkpoint_model a = *theirs, b = checkpoint_model_of_plan(p);
    if (strcmp(a.arch, b.arch))
        return FAIL(E_FORMAT,
                    "%s is of another model: arch is %s there and %s here; give no --arch, --model and sizes, and they "
                    "are the checkpoint's",
                    where, arch_of(&a), arch_of(&b));
    for (int i = 0; i < N_MODEL_SIZES; i++)
        if (i != SEQ && i != DROPLESS && *model_size_of(&a, i) != *model_size_of(&b, i))
            return FAIL(E_FORMAT,
                        "%s is of another model: %s is %" PRId64 " there and %" PRId64
                        " here; give no --model and sizes, and they are the checkpoint's",
                        where, model_sizes[i].name, *model_size_of(&a, i), *model_size_of(&b, i));
    TRY(compare_more(&a, &b, where));
    if (b.seq <= a.seq || (p->arch && p->arch->any_seq)) return OK;
    return FAIL(E_FORMAT, "%s has a table of positions for seq=%" PRId64 ", and seq=%" PRId64 " is longer; use --seq %"
                PRId64 " or less", where, a.seq, b.seq, a.seq);
}

/* Does the text of a preset set the option? */
static bool sets(const char *preset, const char *name) {
    size_t n = strlen(name);
    for (const char *at = preset; (at = strstr(at, name)); at += n)
        if ((at == preset || at[-1] == ' ') && at[n] == '=') return true;
    return false;
}

/* The default of an option that the preset `tiny` of the arch sets; "": it does not set it. */
static void usual_of(const struct recipe *r, const char *arch, const char *name, char value[MODEL_VALUE_MAX]) {
    for (int i = 0; i < r->n_models; i++) {
        const struct model *m = r->models[i];
        bool set = false;
        for (const struct model_preset *const *t = m->presets; *t && !strcmp(m->name, arch); t++)
            for (const struct model_preset *p = *t; p->name; p++)
                set |= !strcmp(p->name, "tiny") && sets(p->options, name);
        for (int k = 0; k < m->options.n && set; k++)
            if (!strcmp(m->options.option[k].name, name))
                snprintf(value, MODEL_VALUE_MAX, "%s", m->options.option[k].initial);
    }
}

bool checkpoint_model_option(const struct checkpoint_model *model, int i, const struct recipe *over, const char **name,
                             char value[MODEL_VALUE_MAX]) {
    if (i >= N_MODEL_SIZES) {
        *name = MORE[i - N_MODEL_SIZES];
        checkpoint_model_said(model, *name, value);
        if (!value[0] && over) usual_of(over, arch_of(model), *name, value);
        return value[0] != 0;
    }
    struct checkpoint_model m = *model;
    int64_t n = *model_size_of(&m, i);
    *name = i == UNTIED ? "tie" : model_sizes[i].name;
    if (i == UNTIED) snprintf(value, MODEL_VALUE_MAX, "%s", n ? "off" : "on");
    else snprintf(value, MODEL_VALUE_MAX, "%" PRId64, n);
    return i != DROPLESS && (i != ROPE_THETA || n) && (i != EXPERTS_PER_TOKEN || m.experts);
}
