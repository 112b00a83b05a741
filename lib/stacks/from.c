/* The kind of a file, its table of keys, and what is refused. */
#include "lib/stacks/from.h"

#include "lib/base/input.h"
#include "lib/base/json_file.h"
#include "lib/checkpoint/checkpoint_model.h"
#include "lib/checkpoint/hf_keys.h"
#include "lib/comm/comm.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_BYTES = 4 << 20, NAMES = FROM_NAMES };
#define KINDS "config.json of Hugging Face, a script or model_config.yaml with Megatron-LM's arguments, " \
    "ds_config.json, torchtitan's TOML (model.flavor), nanotron's YAML (tokens.sequence_length)"

/* ---- a config.json of Hugging Face ---- */

static const struct model_format *format_of(const struct recipe *r, const char *type, const char **arch,
                                            char known[NAMES]) {
    for (int i = 0; i < r->n_models; i++)
        for (const struct model_format *m = r->models[i]->formats; m && m->name; m++) {
            *arch = r->models[i]->name;
            if (!m->config) continue;
            if (!strcmp(m->model_type, type)) return m;
            from_add(known, ", ", m->model_type);
        }
    return NULL;
}

static enum status set_sizes(struct from *f, const struct recipe *r, const struct checkpoint_model *m) {
    const char *name;
    char value[MODEL_VALUE_MAX];
    TRY(from_set(f, "arch", m->arch[0] ? m->arch : "gpt"));
    for (int i = 0; i < N_MODEL_OPTIONS; i++)
        if (checkpoint_model_option(m, i, r, &name, value)) TRY(from_set(f, name, value));
    return m->dropless ? from_set(f, "capacity", "0") : OK;
}

/* What a model's training does by default, and its keys: dropout, and a loss of routers. other: what it
 * drops, if that is not what --dropout drops. A model_type with a row of its own stands above its arch. */
static const struct training { const char *name, *dropout, *usual, *other; } TRAINING[] = {
    {"gpt", "resid_pdrop embd_pdrop attn_pdrop", "0.1", NULL},
    {"bert", "hidden_dropout_prob attention_probs_dropout_prob", "0.1", NULL},
    {"t5", "dropout_rate", "0.1", NULL},
    {"seed_oss", "attention_dropout residual_dropout", "0.1", "dropout of attention and residuals, not of embeddings"},
    {"llama", "attention_dropout", "0", "dropout of attention alone"},
    {"mixtral", "attention_dropout output_router_logits", "0", "dropout of attention alone"},
    {"moe", "attention_dropout output_router_logits", "0", "dropout of attention alone"},
    {"gpt_oss", "attention_dropout output_router_logits", "0", "dropout of attention alone"},
};

static const struct training *training_of(const char *type, const char *arch) {
    for (const struct training *t = TRAINING; t < TRAINING + sizeof TRAINING / sizeof *TRAINING; t++)
        if (!strcmp(t->name, type) || !strcmp(t->name, arch)) return t;
    return NULL;
}

/* --dropout has one probability, for embeddings, attention and residuals. */
static enum status read_training(struct from *f, const struct training *t, const json_t *config) {
    char key[64], first[64] = "";
    const char *at = t->dropout;
    for (int n = 0; sscanf(at, " %63s%n", key, &n) == 1; at += n) {
        const json_t *x = json_object_get(config, key);
        if (!x && !strcmp(t->usual, "0")) continue;
        if (!x && from_has(f->ignore, key)) from_hear(f, key, "not said", "ignored", false);
        if (from_has(f->ignored, key)) continue;
        const char *text = x ? hf_keys_show(x) : t->usual;
        if (json_is_boolean(x)) {
            bool other = json_is_true(x) && f->trains;
            from_hear(f, key, text, other ? "a router's loss of another scale" :
                      json_is_true(x) ? "does not matter here" : "--aux-loss 0", other);
            continue;
        }
        bool other = t->other ? atof(text) != 0 : *first && atof(text) != atof(first);
        if (!*first) snprintf(first, sizeof first, "%s", text);
        const char *became = !other ? t->other ? "0: Trivium drops nothing there" : "--dropout" :
                             t->other ? t->other : "another dropout than before";
        from_hear(f, key, x ? text : other ? "0.1 by default" : "not said: 0.1", became, other);
    }
    if (f->n_refused) return OK;
    if (strstr(t->dropout, "router")) TRY(from_set(f, "aux-loss", "0"));
    if (strstr(t->dropout, "router")) TRY(from_set(f, "z-loss", "0"));
    return t->other || !*first ? OK : from_set(f, "dropout", first);
}

static enum status read_hf_config(struct from *f, const struct recipe *r, const char *type, json_t *config) {
    char known[NAMES] = "";
    struct checkpoint_model m;
    const struct hf_watch watch = {f->ignore, from_hear, f};
    const char *arch;
    const struct model_format *format = format_of(r, type, &arch, known);
    if (!format) return FAIL(E_FORMAT, "%s: model_type is %.64s; --from reads %s", f->path, type, known);
    const struct training *training = training_of(type, arch);
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
    return set_sizes(f, r, &m);
}

/* ---- the kind of a file, by its content ---- */

static enum status read_json(struct from *f, const struct recipe *r) {
    static const char *const of_deepspeed[] = {"train_batch_size", "train_micro_batch_size_per_gpu",
                                               "zero_optimization", "gradient_accumulation_steps"};
    json_t *config;
    struct flat flat = {0};
    TRY(json_file_read(f->path, MOST_BYTES, 0, &config));
    const char *said = json_string_value(json_object_get(config, "model_type"));
    bool oldest = json_object_get(config, "n_embd") && json_object_get(config, "n_layer"), ds = false;   /* GPT-2's */
    for (size_t i = 0; i < sizeof of_deepspeed / sizeof *of_deepspeed; i++)
        ds |= json_object_get(config, of_deepspeed[i]) != NULL;
    enum status status;
    if (said || oldest) status = read_hf_config(f, r, said ? said : "gpt2", config);
    else if (!ds) status = FAIL(E_FORMAT, "%s is JSON with no model_type, as a config.json of Hugging Face has, and no "
                                "train_batch_size or zero_optimization, as a ds_config.json; --from reads these",
                                f->path);
    else if ((status = flat_json(config, &flat)) == OK)
        status = from_read_keys(f, &stack_files[STACK_DEEPSPEED][1], &flat);
    flat_fini(&flat);
    json_decref(config);
    return status;
}

/* "MODEL_ARGS.--key: value" as the argument that it is; true is a flag, false is none. BERT's and GPT's have the same
 * keys: data that are called so tell them apart. */
static void arguments_of_yaml(struct flat *flat) {
    static const char before[] = "MODEL_ARGS.--";
    int n = 0;
    for (int i = 0; i < flat->n; i++) {
        struct flat_pair *p = &flat->at[i];
        bool argument = !strncmp(p->key, before, strlen(before));
        if (argument && !strcmp(p->value, "false")) continue;
        if (argument && !strcmp(p->value, "true")) p->value[0] = 0;
        if (argument) memmove(p->key, p->key + strlen(before), strlen(p->key + strlen(before)) + 1);
        flat->at[n++] = *p;
    }
    flat->n = n;
}

static enum status read_text(struct from *f, const char *text) {
    struct flat flat = {0};
    const struct stack_file *file = NULL;
    const char *first = text;                                      /* the first line that is no comment */
    while (*first == '#' || (*first && strchr(" \t\r\n", *first)))
        first += *first == '#' ? strcspn(first, "\n") : 1;
    bool tests = strstr(text, "\nMODEL_ARGS:") || !strncmp(text, "MODEL_ARGS:", 11);   /* Megatron-LM's own tests */
    bool shell = !tests && (strstr(text, "--num-layers") || strstr(text, "--micro-batch-size"));
    enum status status = shell          ? flat_shell(f->path, text, &flat)
                         : *first == '[' ? flat_toml(f->path, text, &flat)
                                         : flat_yaml(f->path, text, &flat);
    bool ds = flat_value(&flat, "deepspeed") || flat_value(&flat, "zero-stage");
    if (status != OK && *first != '[' && !shell) {                 /* no YAML: mostly a text of another kind */
        char why[FROM_LINE];
        snprintf(why, sizeof why, "%s", status_message());
        status_clear();
        status = FAIL(E_FORMAT, "%s; --from reads " KINDS, why);
    }
    if (tests && status == OK) arguments_of_yaml(&flat);
    if (shell || tests) file = &stack_files[ds ? STACK_DEEPSPEED : STACK_MEGATRON_CORE][0];
    else if (flat_value(&flat, "parallelism.pp_engine") || flat_value(&flat, "tokens.sequence_length"))
        file = &stack_files[STACK_NANOTRON][0];
    else if (flat_value(&flat, "model.flavor")) file = &stack_files[STACK_TORCHTITAN][0];
    if (status == OK && !file)
        status = FAIL(E_FORMAT, "%s is of no kind that --from reads: " KINDS, f->path);
    if (status == OK) status = from_read_keys(f, file, &flat);
    flat_fini(&flat);
    return status;
}

static enum status read_file(struct from *f, const struct recipe *r) {
    FILE *in;
    struct stat info;
    if (stat(f->path, &info) == 0 && S_ISDIR(info.st_mode))
        return FAIL(E_DATA, "%s is a folder; --from reads a file: " KINDS, f->path);
    TRY(input_file("", f->path, INPUT_FILE, &in));
    char *text = calloc(1, MOST_BYTES + 1);
    size_t n = text ? fread(text, 1, MOST_BYTES, in) : 0;
    fclose(in);
    enum status status = !text                 ? FAIL(E_MEMORY, "no memory to read %s", f->path)
                         : strlen(text) != n ? FAIL(E_FORMAT, "%s is no text: it has zeros among its bytes", f->path)
                         : text[strspn(text, " \t\r\n")] == '{' ? read_json(f, r)
                                                               : read_text(f, text);
    free(text);
    return status;
}

static enum status check_ignored(const struct from *f, const char *ignored) {
    char word[64];
    for (int n = 0; sscanf(ignored, "%63[^,]%n", word, &n) == 1; ignored += n + (ignored[n] == ','))
        if (!from_has(f->ignored, word))
            return FAIL(E_USAGE, "ignore=%s, and %s has no such key; leave it out, or look at the table", word,
                        f->path);
    return OK;
}

enum status from_read(const char *path, const char *ignored, bool trains, const struct recipe *r, struct options *o,
                      FILE *table) {
    struct from f = {.path = path, .ignore = ignored, .options = o, .table = table, .trains = trains};
    TRY(read_file(&f, r));
    TRY(check_ignored(&f, ignored));
    if (f.n_refused == 1)
        return FAIL(E_FORMAT, "%s: %s; --ignore %s leaves the key out", path, f.first, f.refused);
    if (f.n_refused)
        return FAIL(E_FORMAT, "%s: %s; %d keys cannot be said: %.300s; --ignore KEY leaves one out", path, f.first,
                    f.n_refused, f.refused);
    if (from_has(f.set, "--layers") && options_source(o, "model") >= FROM_FILE)
        return FAIL(E_USAGE, "--model and %s both say the model's sizes; leave one out", path);
    if (table) fprintf(table, "  options: %s\n", *f.set ? f.set : "none");
    if (table && *f.typed) fprintf(table, "  typed, in place of the file's: %s\n", f.typed);
    return OK;
}

enum status from_apply(const char *path, const char *ignored, bool trains, bool show, const struct recipe *r,
                       struct options *o) {
    static bool shown;
    if (!*path && *ignored)
        return FAIL(E_USAGE, "ignore=%.64s names keys of a file; give --from, too, or leave ignore out", ignored);
    if (!*path) return OK;
    FILE *table = show && !shown && comm_is_rank_0() ? stderr : NULL;
    shown = true;
    return from_read(path, ignored, trains, r, o, table);
}
