/* How the stack's own program is started with a layout, from its table of keys (stack_keys.c). */
#include "lib/cost/stack.h"

#include "lib/base/stage_notation.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ---- values, by the names of options and a few that follow from them ---- */
enum { MOST_VALUES = 256, LONGEST = 256 };
enum asked { NOT_ASKED, OF_MODEL, ASKED };                     /* by the model's preset; by the user or the layout */
struct values { int n; struct { char name[40], text[LONGEST]; enum asked asked; } at[MOST_VALUES]; };

static const char *value(const struct values *v, const char *name) {
    for (int i = v->n - 1; i >= 0; i--)                        /* the last one counts */
        if (!strcmp(v->at[i].name, name)) return v->at[i].text;
    return "";
}
static int64_t number(const struct values *v, const char *name) { return atoll(value(v, name)); }

static void add(struct values *v, const char *name, const char *text, enum asked asked) {
    if (v->n == MOST_VALUES) return;
    snprintf(v->at[v->n].name, sizeof v->at[v->n].name, "%s", name);
    memcpy(v->at[v->n].text, text, strnlen(text, LONGEST - 1));   /* it may be another one's, and the rest is zeros */
    v->at[v->n++].asked = asked;
}
static void add_number(struct values *v, const char *name, int64_t n) {
    char text[LONGEST];
    snprintf(text, sizeof text, "%" PRId64, n);
    add(v, name, text, NOT_ASKED);
}

static void add_option(void *self, const struct option *o, const char *text, enum option_source source) {
    bool of_plan = !strcmp(o->group, "plan") || !strcmp(o->name, "cluster") || !strcmp(o->name, "device"),
         of_model = source == FROM_PRESET && !strcmp(o->group, "model");
    if (!of_plan) add(self, o->name, text, of_model ? OF_MODEL : source >= FROM_FILE ? ASKED : NOT_ASKED);
}

/* "--tp 4 --sp on": a layout. */
static void add_layout(struct values *v, const char *layout) {
    char name[40], text[LONGEST];
    int used = 0;
    for (; sscanf(layout, " --%39s %255s%n", name, text, &used) == 2; layout += used) add(v, name, text, ASKED);
}

/* Stages that are not alike, "15,17", as Megatron's "Et*15|t*17L". */
static void add_notation(struct values *v) {
    char text[LONGEST];
    const char *split = value(v, "pp-split");
    if (strchr(split, 't')) add(v, "notation", split, NOT_ASKED);
    else if (stage_notation_write(split, text, sizeof text)) add(v, "notation", text, NOT_ASKED);
    add_number(v, "layers-of-a-chunk", 0);
}

/* A window as Megatron's "4095,0": keys before and after a query. Letters as its [1,0]: one for each layer. Neither if
 * the list is too long: without it all layers would have the window. */
static void add_window(struct values *v) {
    char text[LONGEST];
    const char *letters = value(v, "window-layers");
    size_t n = strlen(letters), used = 0, layers = (size_t)number(v, "layers");
    bool all = !strcmp(letters, "s");
    if (number(v, "window") == 0 || (!all && 2 * layers + 2 > sizeof text)) return;
    snprintf(text, sizeof text, "%" PRId64 ",0", number(v, "window") - 1);
    add(v, "window-before", text, NOT_ASKED);
    if (all) return;
    for (size_t i = 0; i < layers; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%d", i ? "," : "[", letters[i % n] == 's');
    snprintf(text + used, sizeof text - used, "]");
    add(v, "window-freq", text, NOT_ASKED);
}

/* "2" is one layer in two without a window, the last of them. */
static bool read_every(const char *every, char letters[STACK_LAYERS_MAX]) {
    int period = atoi(every);
    if (period < 2 || period >= STACK_LAYERS_MAX || strspn(every, "0123456789") < strlen(every)) return false;
    memset(letters, 's', (size_t)period);
    strcpy(letters + period - 1, "f");
    return true;
}

/* "[1,0,1,0]" is "sf": one period of the list, which has a number for each layer; 0 layers: for any. */
static bool read_list(const char *list, int64_t layers, char letters[STACK_LAYERS_MAX]) {
    size_t n = 0, period = 1;
    do {
        list += 1 + strspn(list + 1, " ");                     /* behind [ or , */
        if ((*list != '0' && *list != '1') || n == STACK_LAYERS_MAX - 1) return false;
        letters[n++] = *list++ == '1' ? 's' : 'f';
        list += strspn(list, " ");
    } while (*list == ',');
    if (strcmp(list, "]") != 0 || (layers && n != (size_t)layers)) return false;
    for (size_t i = 0; i < n; i++)
        if (letters[i] != letters[i % period]) period = i + 1;
    letters[period] = 0;
    return true;
}

int64_t stack_read_window(const char *before, const char *every, int64_t layers, char letters[STACK_LAYERS_MAX]) {
    long long n, after;
    char rest[2] = "";
    int found = sscanf(before + strspn(before, "("), "%lld,%lld%1[^)]", &n, &after, rest);
    if (!*before) return 0;
    if (found != 2 || n < -1 || n >= 1000000000 || after != 0) return STACK_NO_WINDOW;
    strcpy(letters, "s");
    if (*every && !(*every == '[' ? read_list(every, layers, letters) : read_every(every, letters)))
        return STACK_NO_LAYERS;
    return strcmp(letters, "f") ? n + 1 : 0;                   /* -1 keys before it are all */
}

const char *stack_read_fp8(const char *format, const char *recipe) {
    bool hybrid = !strcmp(format, "hybrid"), mx = !strcmp(recipe, "mxfp8");
    if (!strcmp(recipe, "nvfp4")) return recipe;
    if (!*format) return "";
    return mx ? (hybrid ? "mxfp8-e5m2" : recipe) : hybrid ? "delayed" : NULL;
}

/* The format that says a recipe with E4M3 or E5M2 for gradients; "": of 4 bits. */
static const char *fp8_format(const char *recipe) {
    return !strcmp(recipe, "mxfp8") ? "e4m3" : strstr(recipe, "fp4") ? "" : "hybrid";
}

static void add_what_follows(struct values *v) {
    int64_t dp = number(v, "dp"), chunks = number(v, "chunks") > 1 ? number(v, "chunks") : 0;
    const char *recompute = value(v, "recompute");
    bool sharded = number(v, "zero") > 0,
         llama = !strcmp(value(v, "arch"), "llama") || !strcmp(value(v, "arch"), "mixtral") ||
                 !strcmp(value(v, "arch"), "moe") || !strcmp(value(v, "arch"), "gpt_oss");
    add_number(v, "microbatches", number(v, "global-batch") / (dp * number(v, "micro-batch")));
    add_number(v, "batch-of-a-replica", number(v, "global-batch") / dp);
    add_number(v, "layers-of-a-chunk", chunks ? number(v, "layers") / (number(v, "pp") * chunks) : 0);
    add_number(v, "replicas", sharded ? 1 : dp);
    add_number(v, "shards", sharded ? dp : 1);
    if (llama) add(v, "llama", "on", NOT_ASKED), add(v, "rope", value(v, "rope-theta"), NOT_ASKED);
    if (number(v, "experts") > 0) add(v, "choices", value(v, "experts-per-token"), NOT_ASKED);
    if (*value(v, "pp-split")) add_notation(v);
    add_window(v);
    if (!strcmp(value(v, "fp8"), "on")) {
        add(v, "fp8-format", fp8_format(value(v, "fp8-recipe")), NOT_ASKED);
        add(v, "blocks", value(v, "fp8-recipe"), NOT_ASKED);
    }
    if (!strncmp(recompute, "block:", 6)) add(v, "recompute-blocks", recompute + 6, NOT_ASKED);
}

/* ---- writing ---- */
static bool is_on(const char *text) { return *text && strcmp(text, "off") != 0 && strcmp(text, "0") != 0; }

static bool is_written(const struct stack_key *k, const struct values *v) {
    const char *text = value(v, k->ours);
    switch (k->when) {
    case KEY_ABOVE_1: return number(v, k->ours) > 1;
    case KEY_ON: return is_on(text);
    case KEY_OFF: return !is_on(text);
    case KEY_IS: return !strcmp(text, k->is);
    case KEY_ALWAYS: return true;
    default: return false;
    }
}
static const char *written(const struct stack_key *k, const struct values *v) {
    return k->there ? k->there : value(v, k->ours);
}

static void write_arguments(FILE *f, const char *program, const struct stack_key *k, const struct values *v) {
    int column = fprintf(f, "  %s", program);
    for (; k->theirs; k++) {
        if (!*k->theirs || !is_written(k, v)) continue;
        const char *text = written(k, v), *quote = strpbrk(text, "|*()[") ? "'" : "";
        int length = (int)(strlen(k->theirs) + strlen(text) + 2 * strlen(quote)) + 4;
        if (column + length > 116) column = fprintf(f, " \\\n     ") - 3;
        column += fprintf(f, " --%s%s%s%s%s", k->theirs, *text ? " " : "", quote, text, quote);
    }
    fprintf(f, "\n");
}

static void write_json(FILE *f, const struct stack_key *k, const struct values *v) {
    json_t *all = json_object();
    for (; k->theirs; k++) {
        if (!*k->theirs || !is_written(k, v)) continue;
        json_t *section = *k->section ? json_object_get(all, k->section) : all;
        if (!section) json_object_set_new(all, k->section, section = json_object());
        json_object_set_new(section, k->theirs, json_loads(written(k, v), JSON_DECODE_ANY, NULL));
    }
    json_dumpf(all, f, JSON_INDENT(2));
    fprintf(f, "\n");
    json_decref(all);
}

/* Lines "key = value" under "[section]", or "key: value" under "section:", two blanks deeper for each dot. */
static void write_lines(FILE *f, enum stack_form form, const struct stack_key *k, const struct values *v) {
    const char *section = "", *dot;
    for (; k->theirs; k++) {
        if (!*k->theirs || !is_written(k, v)) continue;
        dot = strchr(k->section, '.');
        if (strcmp(section, k->section) != 0) {
            if (form == FORM_TOML) fprintf(f, "[%s]\n", k->section);
            else if (dot) fprintf(f, "%.*s:\n  %s:\n", (int)(dot - k->section), k->section, dot + 1);
            else fprintf(f, "%s:\n", k->section);
        }
        section = k->section;
        if (form == FORM_TOML) fprintf(f, "%s = %s\n", k->theirs, written(k, v));
        else fprintf(f, "%s%s: %s\n", dot ? "    " : "  ", k->theirs, written(k, v));
    }
}

static bool has_written(int command, const struct values *v, const char *ours) {
    for (int i = 0; i < 2; i++)
        for (const struct stack_key *k = stack_files[command][i].keys; k && k->theirs; k++)
            if (!strcmp(k->ours, ours) && is_written(k, v)) return true;
    return false;
}

/* Does a key say the option's value, or is it what there is without a key? */
static bool is_said(int command, const struct values *v, const char *name) {
    /* said by others, or by how many processes are started */
    static const char *const follow[] = {"model",  "dp",         "global-batch",      "schedule",
                                         "chunks", "rope-theta", "experts-per-token"};
    const char *text = value(v, name);
    bool said = !is_on(text) || !strcmp(text, "none") || !strcmp(text, "gpt");
    for (size_t i = 0; i < sizeof follow / sizeof *follow; i++) said |= !strcmp(follow[i], name);
    said |= number(v, name) == 1 && (!strcmp(name, "cp") || !strcmp(name, "ep"));
    if (!strcmp(name, "arch")) name = "llama";
    if (!strcmp(name, "fp8")) name = *value(v, "fp8-format") ? "fp8-format" : "blocks";
    if (!strcmp(name, "fp8-recipe") || !strcmp(name, "fp8-hadamard")) name = "blocks";
    said |= !strcmp(name, "blocks") && !strcmp(text, "delayed");
    if (!strcmp(name, "pp-split")) name = "notation";
    if (!strcmp(name, "window")) name = "window-before";
    if (!strcmp(name, "window-layers")) name = !strcmp(text, "s") ? "window-before" : "window-freq";
    if (!strncmp(text, "block:", 6)) name = "recompute-blocks";
    return said || has_written(command, v, name);
}

/* What was asked for, or is the model's or the layout's, and no key says. A name of the model says its sizes. */
static void write_rest(FILE *f, const struct stack *s, const struct values *v) {
    bool named = has_written(s->command, v, "model");
    int n = 0;
    for (int i = 0; i < v->n; i++) {
        const char *name = v->at[i].name;
        bool counts = v->at[i].asked > (named ? OF_MODEL : NOT_ASKED) && value(v, name) == v->at[i].text;
        if (counts && !is_said(s->command, v, name) && !strstr(s->options, name))
            fprintf(f, "%s --%s %s", n++ ? "" : "  without a key there:", name, v->at[i].text);
    }
    if (n) fprintf(f, "\n");
}

void stack_write_command(const struct stack *s, const struct options *o, const char *arch, const char *layout,
                         FILE *f) {
    struct values v = {0};
    options_each(o, add_option, &v);
    add(&v, "arch", arch, ASKED);
    add_layout(&v, layout);
    add_what_follows(&v);
    if (s->command == STACK_NONE)
        fprintf(f, "  a layout of %s, as options of this program: %s\n", s->name, layout);
    if (s->tp_hidden_part > 0) add(&v, "tp-overlap", "on", NOT_ASKED);
    for (int i = 0; i < 2 && stack_files[s->command][i].title; i++) {
        enum stack_form form = stack_files[s->command][i].form;
        const struct stack_key *keys = stack_files[s->command][i].keys;
        if (form == FORM_ARGUMENTS) {
            write_arguments(f, stack_files[s->command][i].title, keys, &v);
            continue;
        }
        fprintf(f, "  %s:\n", stack_files[s->command][i].title);
        if (form == FORM_JSON) write_json(f, keys, &v);
        else write_lines(f, form, keys, &v);
    }
    write_rest(f, s, &v);
}
