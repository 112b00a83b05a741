/* The kind of a file, its table of keys, and what is refused. */
#include "lib/stacks/from.h"

#include "lib/base/json_file.h"
#include "lib/checkpoint/checkpoint_model.h"
#include "lib/checkpoint/hf_keys.h"
#include "lib/comm/comm.h"
#include <stdlib.h>
#include <string.h>

#define IS_FREE "does not matter here"
enum { MOST_BYTES = 4 << 20, LINE_MAX_BYTES = 512, NAMES = 1024 };

/* One reading. first: why the first key was refused; set, typed: the options. */
struct from {
    const char *path;
    struct options *options;
    FILE *table;
    int n_refused, n_rows;
    const char *of_training;             /* keys that change no weights' function, but training */
    char first[LINE_MAX_BYTES], refused[NAMES], ignored[NAMES], set[NAMES], typed[NAMES];
};

/* ---- the table ---- */

static bool has_name(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *at = list; n && (at = strstr(at, name)); at++)
        if ((at == list || strchr(", ", at[-1])) && (!at[n] || strchr(", ", at[n]))) return true;
    return false;
}

static void add_name(char list[NAMES], const char *between, const char *name) {
    size_t used = strlen(list);
    snprintf(list + used, NAMES - used, "%s%s", used ? between : "", name);
}

/* A row of the table; self: struct from. */
static void hear(void *self, const char *key, const char *value, const char *became, bool refused) {
    struct from *f = self;
    size_t n = strlen(f->path);
    if (!refused && f->of_training && has_name(f->of_training, key) && !strcmp(became, IS_FREE)) return;
    if (!strncmp(became, f->path, n) && !strncmp(became + n, ": ", 2)) became += n + 2;
    if (!strcmp(became, "ignored")) {
        if (has_name(f->ignored, key)) return;
        add_name(f->ignored, ", ", key);
    }
    if (refused) {
        if (f->n_refused++ == 0) snprintf(f->first, sizeof f->first, "%s", became);
        add_name(f->refused, ", ", key);
    }
    if (!f->table) return;
    if (f->n_rows++ == 0) fprintf(f->table, "%s\n  %-32s %-28s %s\n", f->path, "key", "value", "what becomes of it");
    fprintf(f->table, "  %-32s %-28.60s %s%s\n", key, value, refused ? "cannot be said: " : "", became);
}

/* ---- options ---- */

struct seen { const char *name; char text[OPTION_TEXT_MAX + 64]; };
static void see(void *self, const struct option *o, const char *text, enum option_source source) {
    struct seen *s = self;
    (void)source;
    if (!strcmp(o->name, s->name)) snprintf(s->text, sizeof s->text, "%s", text);
}

/* Set an option, unless it was typed. Two files must not say two values. */
static enum status set(struct from *f, const char *name, const char *value) {
    struct seen before = {name, ""}, after = {name, ""};
    enum option_source source = options_source(f->options, name);
    char word[LINE_MAX_BYTES];
    options_each(f->options, see, &before);
    TRY(options_set(f->options, name, value, FROM_FILE));
    options_each(f->options, see, &after);
    if (source == FROM_FILE && strcmp(before.text, after.text) != 0)
        return FAIL(E_USAGE, "%s is %s in --config and %s in %s: leave one out, or type --%s", name, before.text,
                    after.text, f->path, name);
    snprintf(word, sizeof word, "--%s %s", name, after.text);
    add_name(source == FROM_COMMAND_LINE ? f->typed : f->set, " ", word);
    return OK;
}

/* ---- a config.json of Hugging Face ---- */

static const struct model_format *format_of(const struct recipe *r, const char *type, char known[NAMES]) {
    for (int i = 0; i < r->n_models; i++)
        for (const struct model_format *m = r->models[i]->formats; m && m->name; m++) {
            if (!m->config) continue;
            if (!strcmp(m->model_type, type)) return m;
            add_name(known, ", ", m->model_type);
        }
    return NULL;
}

static enum status set_sizes(struct from *f, const struct checkpoint_model *m) {
    const char *name;
    char value[24];
    TRY(set(f, "arch", m->arch[0] ? m->arch : "gpt"));
    for (int i = 0; i < N_MODEL_SIZES; i++)
        if (checkpoint_model_option(m, i, &name, value)) TRY(set(f, name, value));
    return m->dropless ? set(f, "capacity", "0") : OK;
}

/* What a model's training does by default, and its keys: dropout, and a loss of Mixtral's routers. */
static const struct training { const char *type, *dropout, *usual; } TRAINING[] = {
    {"gpt2", "resid_pdrop embd_pdrop attn_pdrop", "0.1"},
    {"bert", "hidden_dropout_prob attention_probs_dropout_prob", "0.1"},
    {"t5", "dropout_rate", "0.1"},
    {"llama", "attention_dropout", "0"},
    {"mixtral", "attention_dropout output_router_logits", "0"},
};

static const struct training *training_of(const char *type) {
    for (size_t i = 0; i < sizeof TRAINING / sizeof *TRAINING; i++)
        if (!strcmp(TRAINING[i].type, type)) return &TRAINING[i];
    return NULL;
}

/* --dropout has one probability, for embeddings, attention and residuals. A Llama's is attention's alone. */
static enum status read_training(struct from *f, const struct training *t, const json_t *config) {
    char key[64], first[64] = "";
    const char *at = t->dropout;
    bool alone = !strcmp(t->usual, "0");
    for (int n = 0; sscanf(at, " %63s%n", key, &n) == 1; at += n) {
        const json_t *x = json_object_get(config, key);
        if (has_name(f->ignored, key)) continue;
        const char *text = x ? hf_keys_show(x) : t->usual;
        if (json_is_boolean(x)) {
            hear(f, key, text, json_is_true(x) ? "a router's loss of another scale" : "--aux-loss 0", json_is_true(x));
            continue;
        }
        bool other = alone ? json_number_value(x) != 0 : *first && atof(text) != atof(first);
        if (!*first) snprintf(first, sizeof first, "%s", text);
        if (alone && !x) continue;
        if (other) hear(f, key, text, alone ? "dropout of attention alone" : "another dropout than before", true);
        else hear(f, key, x ? text : "not said: 0.1", alone ? "none" : "--dropout", false);
    }
    if (f->n_refused) return OK;
    if (!strcmp(t->type, "mixtral")) TRY(set(f, "aux-loss", "0"));
    if (!strcmp(t->type, "mixtral")) TRY(set(f, "z-loss", "0"));
    return alone || !*first ? OK : set(f, "dropout", first);
}

static enum status read_hf_config(struct from *f, const char *ignored, const struct recipe *r, const char *type,
                                  json_t *config) {
    char known[NAMES] = "";
    struct checkpoint_model m;
    const struct hf_watch watch = {ignored, hear, f};
    const struct model_format *format = format_of(r, type, known);
    if (!format) return FAIL(E_FORMAT, "%s: model_type is %.64s; --from reads %s", f->path, type, known);
    const struct training *training = training_of(type);
    f->of_training = training ? training->dropout : "";
    hf_keys_watch(&watch);
    enum status status = format->config(f->path, &m);
    hf_keys_leave_out(config);
    hf_keys_watch(NULL);
    if (training && (status == OK || f->n_refused)) TRY(read_training(f, training, config));
    if (f->n_refused) {
        status_clear();
        return OK;
    }
    TRY(status);
    return set_sizes(f, &m);
}

/* ---- the file ---- */

static enum status read_json(struct from *f, const char *ignored, const struct recipe *r) {
    json_t *config;
    TRY(json_file_read(f->path, MOST_BYTES, 0, &config));
    const char *said = json_string_value(json_object_get(config, "model_type"));
    bool oldest = json_object_get(config, "n_embd") && json_object_get(config, "n_layer");   /* GPT-2's, of 2019 */
    enum status status =
        said || oldest ? read_hf_config(f, ignored, r, said ? said : "gpt2", config)
                       : FAIL(E_FORMAT, "%s is JSON without a model_type; --from reads config.json of Hugging Face",
                              f->path);
    json_decref(config);
    return status;
}

static enum status check_ignored(const struct from *f, const char *ignored) {
    char word[64];
    for (int n = 0; sscanf(ignored, "%63[^,]%n", word, &n) == 1; ignored += n + (ignored[n] == ','))
        if (!has_name(f->ignored, word))
            return FAIL(E_USAGE, "ignore=%s, and %s has no such key; leave it out, or look at the table", word,
                        f->path);
    return OK;
}

enum status from_read(const char *path, const char *ignored, const struct recipe *r, struct options *o, FILE *table) {
    struct from f = {.path = path, .options = o, .table = table};
    TRY(read_json(&f, ignored, r));
    if (f.n_refused == 1)
        return FAIL(E_FORMAT, "%s: %s; --ignore %s leaves the key out", path, f.first, f.refused);
    if (f.n_refused)
        return FAIL(E_FORMAT, "%s: %s; %d keys cannot be said: %.300s; --ignore KEY leaves one out", path, f.first,
                    f.n_refused, f.refused);
    TRY(check_ignored(&f, ignored));
    if (has_name(f.set, "--layers") && options_source(o, "model") >= FROM_FILE)
        return FAIL(E_USAGE, "--model and %s both say the model's sizes; leave one out", path);
    if (table) fprintf(table, "  options: %s\n", *f.set ? f.set : "none");
    if (table && *f.typed) fprintf(table, "  the command line has its own, not: %s\n", f.typed);
    return OK;
}

enum status from_apply(const char *path, const char *ignored, bool show, const struct recipe *r, struct options *o) {
    static bool shown;
    if (!*path && *ignored)
        return FAIL(E_USAGE, "ignore=%.64s names keys of a file; give --from, too, or leave ignore out", ignored);
    if (!*path) return OK;
    FILE *table = show && !shown && comm_is_rank_0() ? stderr : NULL;
    shown = true;
    return from_read(path, ignored, r, o, table);
}
