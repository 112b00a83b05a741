/* Keys by a table (lib/cost/stack_keys.c): what each becomes, then the options that follow from several. */
#include "lib/stacks/from.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define IS_FREE "does not matter here"

/* ---- the table ---- */

bool from_has(const char *list, const char *name) {
    size_t n = strlen(name);
    for (const char *at = list; n && (at = strstr(at, name)); at++)
        if ((at == list || strchr(", ", at[-1])) && (!at[n] || strchr(", ", at[n]))) return true;
    return false;
}

void from_add(char list[FROM_NAMES], const char *between, const char *name) {
    size_t used = strlen(list);
    snprintf(list + used, FROM_NAMES - used, "%s%s", used ? between : "", name);
}

/* A row of the table; self: struct from. */
void from_hear(void *self, const char *key, const char *value, const char *became, bool refused) {
    struct from *f = self;
    size_t n = strlen(f->path);
    if (!refused && f->of_training && from_has(f->of_training, key) && !strcmp(became, IS_FREE)) return;
    if (!strncmp(became, f->path, n) && !strncmp(became + n, ": ", 2)) became += n + 2;
    if (!strcmp(became, "ignored") && from_has(f->ignored, key)) return;
    if (!strcmp(became, "ignored")) from_add(f->ignored, ", ", key);
    if (refused) {
        char is[FLAT_KEY + 8];
        snprintf(is, sizeof is, "%.*s is ", FLAT_KEY, key);
        if (f->n_refused++ == 0 && strstr(became, is)) snprintf(f->first, sizeof f->first, "%s", became);
        else if (f->n_refused == 1)
            snprintf(f->first, sizeof f->first, "%s is %.60s%s: %s", key, *value ? value : "there",
                     strlen(value) > 60 ? "..." : "", became);
        from_add(f->refused, ", ", key);
    }
    if (!f->table) return;
    bool cut = strlen(value) > 60;
    if (f->n_rows++ == 0) fprintf(f->table, "%s\n  %-32s %-28s %s\n", f->path, "key", "value", "what becomes of it");
    fprintf(f->table, "  %-32s %-*.*s%s %s%s\n", key, cut ? 57 : 28, cut ? 57 : 60, value, cut ? "..." : "",
            refused ? "cannot be said: " : "", became);
}

/* ---- options ---- */

struct seen { const char *name; char text[OPTION_TEXT_MAX + 64]; };
static void see(void *self, const struct option *o, const char *text, enum option_source source) {
    struct seen *s = self;
    (void)source;
    if (!strcmp(o->name, s->name)) snprintf(s->text, sizeof s->text, "%s", text);
}

/* Set an option, unless the user typed it. Two files must give it the same value. */
enum status from_set(struct from *f, const char *name, const char *value) {
    struct seen before = {name, ""}, after = {name, ""};
    enum option_source source = options_source(f->options, name);
    char word[FROM_LINE];
    options_each(f->options, see, &before);
    TRY(options_set(f->options, name, value, FROM_FILE));
    options_each(f->options, see, &after);
    if (source == FROM_FILE && strcmp(before.text, after.text) != 0)
        return FAIL(E_USAGE, "%s is %s in --config and %s in %s: leave one out, or type --%s", name, before.text,
                    after.text, f->path, name);
    snprintf(word, sizeof word, "--%s %s", name, after.text);
    from_add(source == FROM_COMMAND_LINE ? f->typed : f->set, " ", word);
    return OK;
}

/* ---- which key gave an option its value ---- */

enum { MOST_SAID = 128 };
/* weak: a flag gave the value; a key with a value replaces it. */
struct said { char name[40], text[FLAT_VALUE]; bool weak; };
struct reading {
    struct from *f;
    const struct stack_file *file;
    const struct flat *flat;
    int n, n_llama;
    struct said at[MOST_SAID];
};

static struct said *find(struct reading *r, const char *name) {
    for (int i = 0; i < r->n; i++)
        if (!strcmp(r->at[i].name, name)) return &r->at[i];
    return NULL;
}
static const char *text_of(struct reading *r, const char *name) {
    const struct said *s = find(r, name);
    return s ? s->text : "";
}
static int64_t number(struct reading *r, const char *name) { return atoll(text_of(r, name)); }
static int64_t at_least_1(struct reading *r, const char *name) { return number(r, name) > 1 ? number(r, name) : 1; }

/* The same word, or the same number: 1e-5 is 1.0e-05. */
static bool is_same(const char *a, const char *b) {
    char *end_a, *end_b;
    double x = strtod(a, &end_a), y = strtod(b, &end_b);
    return !strcmp(a, b) || (*a && *b && !*end_a && !*end_b && x == y);
}

/* Keep the value that a key gives. false: another key gave another value. */
static bool note(struct reading *r, const char *key, const char *name, const char *text, bool weak) {
    if (!strcmp(name, "seq") && (strstr(key, "max-position") || strstr(key, "max_position"))) name = "positions";
    struct said *s = find(r, name);
    if (s && (weak || is_same(s->text, text))) return true;
    if (s && !s->weak) return false;
    if (!s && r->n < MOST_SAID) s = &r->at[r->n++];
    if (!s) return false;
    snprintf(s->name, sizeof s->name, "%s", name);
    snprintf(s->text, sizeof s->text, "%s", text);
    s->weak = weak;
    return true;
}
static void note_number(struct reading *r, const char *name, int64_t n) {
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, n);
    (void)note(r, "", name, text, false);
}

static void note_over(struct reading *r, const char *name, int64_t n) {
    if (find(r, name)) find(r, name)->name[0] = 0;
    note_number(r, name, n);
}

/* ---- one key ---- */

static bool is_key(const struct stack_key *k, const char *key) {
    size_t n = strlen(k->section);
    if (n && (strncmp(key, k->section, n) != 0 || key[n] != '.')) return false;
    return *k->theirs && !strcmp(key + (n ? n + 1 : 0), k->theirs);
}

/* Is a section off that the key is in? "x.enabled" is false, or DeepSpeed's "x.shared_parameters.enabled". */
static bool is_off(const struct flat *flat, const char *key) {
    static const char *const says[] = {"enabled", "shared_parameters.enabled"};
    char at[FLAT_KEY + 32];
    for (const char *dot = strchr(key, '.'); dot; dot = strchr(dot + 1, '.'))
        for (size_t i = 0; i < sizeof says / sizeof *says; i++) {
            snprintf(at, sizeof at, "%.*s.%s", (int)(dot - key), key, says[i]);
            const char *said = flat_value(flat, at);
            if (said && !strcmp(said, "false")) return true;
        }
    return false;
}

/* "a.b" or "a.*" in the list of keys that do not matter. */
static bool is_free(const char *list, const char *key) {
    char section[FLAT_KEY];
    snprintf(section, sizeof section, "%s", key);
    for (char *dot = strrchr(section, '.'); dot; dot = strrchr(section, '.')) {
        snprintf(dot, sizeof section - (size_t)(dot - section), ".*");
        if (from_has(list, section)) return true;
        *dot = 0;
    }
    return from_has(list, key);
}

static bool is_among(struct reading *r, const char *value, const char *there) {
    char word[FLAT_VALUE];
    const char *other = there && *there == '=' ? flat_value(r->flat, there + 1) : NULL;
    if (there && !strcmp(there, "=head")) {
        int64_t heads = number(r, "heads");
        return !strcmp(value, there) || (heads > 0 && atoll(value) * heads == number(r, "hidden"));
    }
    if (there && *there == '=') return !strcmp(value, there) || (other && !strcmp(value, other));
    for (int n = 0; there && sscanf(there, "%255[^|]%n", word, &n) == 1; there += n + (there[n] == '|'))
        if (is_same(value, word)) return true;
    return there && !*there && !*value;
}

/* What a row makes of a value: NULL: it is not the row of this value; else what became of it, for the table. */
static const char *try_row(struct reading *r, const struct stack_key *k, const char *key, const char *value) {
    static char became[64];
    const char *there = k->there, *text = NULL;
    char plain[FLAT_VALUE];
    if (k->when == KEY_TRAINS && !r->f->trains) return IS_FREE;
    if (k->when == KEY_MUST || k->when == KEY_TRAINS) return is_among(r, value, there) ? "Trivium does the same" : NULL;
    if (there && *there == '"') snprintf(plain, sizeof plain, "%.*s", (int)strlen(there) - 2, there + 1), there = plain;
    if (k->when == KEY_READ) text = there ? there : value;
    else if (there && !is_same(value, there)) return NULL;
    else if (k->when == KEY_IS && !there && strcmp(value, k->is) != 0) return NULL;
    else if (!there) text = value;
    else text = k->when == KEY_IS ? k->is : k->when == KEY_ON ? "on" : k->when == KEY_OFF ? "off" : NULL;
    if (!text || !strcmp(k->ours, "tp-overlap")) return IS_FREE;   /* how fast, not what */
    if (!note(r, key, k->ours, text, there && k->when != KEY_READ && (k->when == KEY_ON || !*value))) return NULL;
    r->n_llama += !strcmp(k->ours, "llama");
    snprintf(became, sizeof became, "--%s", stack_key_shown(k->ours));
    return became;
}

static void read_key(struct reading *r, const char *key, const char *value) {
    const char *became = NULL, *ours = "";
    char why[160] = "this program has no option for it";
    if (from_has(r->f->ignore, key)) {
        from_hear(r->f, key, value, "ignored", false);
        return;
    }
    static const char of_training[] = "lr min-lr warmup weight-decay beta1 beta2 betas eps seed clip loss-scale";
    bool unknown = strchr(value, '$') || !strcmp(value, "auto");
    for (const struct stack_key *k = r->file->keys; k->theirs && !became; k++) {
        if (!is_key(k, key)) continue;
        if (*k->ours) ours = k->ours;
        const char *there = k->there && *k->there ? k->there : "no such thing";
        if (*there == '=') snprintf(why, sizeof why, "this program has that of %s", there + 1);
        else snprintf(why, sizeof why, *k->ours ? "no option for this value" : "this program has %s", there);
        if (!unknown) became = try_row(r, k, key, value);
    }
    if (!became && (is_free(r->file->free, key) || is_off(r->flat, key))) became = IS_FREE;
    if (!became && unknown && !r->f->trains && from_has(of_training, ours)) became = IS_FREE;
    if (!became && unknown && !strcmp(ours, "microbatches")) became = "follows from --global-batch";
    if (!became && *ours && options_source(r->f->options, ours) == FROM_COMMAND_LINE) became = "typed";
    if (!became && unknown) snprintf(why, sizeof why, "its value is the running program's");
    from_hear(r->f, key, value, became ? became : why, !became);
}

/* What that program does without a key. */
static void read_missing(struct reading *r) {
    for (const struct stack_key *k = r->file->keys; k->theirs; k++) {
        char key[FLAT_KEY];
        snprintf(key, sizeof key, "%s%s%s", k->section, *k->section ? "." : "", k->theirs);
        if (k->when < KEY_READ || !k->is || flat_value(r->flat, key) || from_has(r->f->ignore, key)) continue;
        if (k->when == KEY_READ && !find(r, k->ours)) (void)note(r, key, k->ours, k->is, false);
        else if (k->when == KEY_READ && options_source(r->f->options, k->ours) != FROM_COMMAND_LINE &&
                 !strcmp(k->ours, "dropout") && !note(r, key, k->ours, k->is, false))
            from_hear(r->f, key, "not said", "another dropout than the other key's, by default", true);
        else if (k->when != KEY_READ && !try_row(r, k, key, k->is))
            from_hear(r->f, key, "not said", "its default is other than here", true);
    }
}

/* ---- options that follow from several keys ---- */

static enum status set(struct reading *r, const char *option, const char *name) {
    const struct said *s = find(r, name);
    return s ? from_set(r->f, option, s->text) : OK;
}
static void refuse(struct reading *r, const char *key, const char *why) {
    from_hear(r->f, key, flat_value(r->flat, key) ? flat_value(r->flat, key) : "not said", why, true);
}

/* The value that was typed, or "". */
static const char *typed_value(struct reading *r, struct seen *s) {
    if (options_source(r->f->options, s->name) == FROM_COMMAND_LINE) options_each(r->f->options, see, s);
    return s->text;
}

/* Arguments without a program's name are BERT's if the data are called so. */
static bool has_data_of_bert(struct reading *r) {
    static const char *const keys[] = {"data-path", "tokenizer-type", "bert-no-binary-head"};
    bool found = false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *said = flat_value(r->flat, keys[i]);
        found |= said && (strstr(said, "bert") || strstr(said, "Bert") || strstr(keys[i], "bert"));
    }
    return found;
}

/* Megatron's BERT and T5 have the sizes of those here, and their layers begin with norms that have biases: plans may
 * take them, a training may not. --noise makes both lengths of T5's, with spans of 3: a quarter of the decoder's tokens
 * are sentinels (models/t5/t5_spans.c). */
static bool settle_program(struct reading *r) {
    const char *program = flat_value(r->flat, "program"), *arch = "gpt";
    if (program && !strcmp(program, "pretrain_bert.py")) arch = "bert";
    if ((program && !strcmp(program, "pretrain_t5.py")) || find(r, "decoder-seq")) arch = "t5";
    struct seen typed = {"arch", ""};
    if (!program && !strcmp(typed_value(r, &typed), "bert")) arch = "bert";
    else if (!program && !strcmp(arch, "gpt") && !*typed.text && has_data_of_bert(r))
        refuse(r, "program", "data of BERT, and no pretrain_bert.py: type --arch bert, or gpt");
    if (!strcmp(arch, "gpt") || r->file->form != FORM_ARGUMENTS || from_has(r->f->ignore, "program")) return false;
    (void)note(r, "", "arch", arch, false);
    if (!find(r, "norm-eps")) (void)note(r, "", "norm-eps", "1e-5", false);
    if (r->f->trains) refuse(r, "program", "other norms and positions than here: plan, show and budget read it");
    if (r->n_llama || find(r, "rotary")) refuse(r, "normalization", "a Llama's layers in an encoder");
    if (!strcmp(arch, "bert")) return true;
    int64_t encoder = number(r, "seq"), decoder = number(r, "decoder-seq"), sentinels = decoder / 4,
            layers = number(r, "layers"), seq = encoder + decoder - 2 * sentinels;
    char noise[32];
    if (!layers || (find(r, "decoder-layers") && number(r, "decoder-layers") != layers))
        refuse(r, "decoder-num-layers", "this program has as many as the encoder");
    if (!decoder || decoder % 4) {
        refuse(r, "decoder-seq-length", "this program has a multiple of 4");
        return true;
    }
    note_over(r, "layers", 2 * layers);
    note_over(r, "seq", seq);
    snprintf(noise, sizeof noise, "%.8f", (double)(decoder - sentinels) / (double)seq);
    (void)note(r, "", "noise", noise, false);
    return true;
}

/* All keys that make a Llama, or none of them. */
static void settle_arch(struct reading *r) {
    if (settle_program(r)) return;
    int all = 0;
    const char *absent = "";
    bool always = false;
    for (const struct stack_key *k = r->file->keys; k->theirs; k++) {
        if (strcmp(k->ours, "llama")) continue;
        always |= !*k->theirs;
        all += *k->theirs != 0;
        if (*k->theirs && !flat_value(r->flat, k->theirs)) absent = k->theirs;
    }
    if (find(r, "rotary") && !flat_value(r->flat, "position-embedding-type")) r->n_llama++;   /* its older name */
    if (number(r, "experts") > 0 && number(r, "expert-ffn") > 0) note_over(r, "ffn", number(r, "expert-ffn"));
    if (number(r, "head-dim") * number(r, "heads") == number(r, "hidden") && find(r, "head-dim"))
        find(r, "head-dim")->name[0] = 0;
    bool llama = always || (all && r->n_llama == all);
    if (!llama && r->n_llama && r->file->form == FORM_ARGUMENTS)
        refuse(r, *absent ? absent : "normalization", "some of the keys that make a Llama, and not this one");
    if (find(r, "model") || !find(r, "layers")) return;
    (void)note(r, "", "arch", !llama ? "gpt" : number(r, "experts") > 0 ? "mixtral" : "llama", false);
    if (!find(r, "tie")) (void)note(r, "", "tie", "on", false);
    if (llama && !find(r, "ffn")) note_number(r, "ffn", (number(r, "hidden") * 8 / 3) / 64 * 64);
    if (!llama && find(r, "positions") && number(r, "positions") != number(r, "seq"))
        refuse(r, "max-position-embeddings", "a table of positions of another length than seq-length");
    if (find(r, "kv-heads") && find(r, "kv-heads")->weak)
        refuse(r, "num-query-groups", "group-query-attention without it");
}

static void settle_recompute(struct reading *r) {
    const char *method = flat_value(r->flat, "recompute-method"), *n = flat_value(r->flat, "recompute-num-layers");
    char text[64];
    if (!method && find(r, "replay-method")) method = text_of(r, "replay-method"), n = text_of(r, "replay-layers");
    if (!find(r, "recompute-blocks") && !method) return;
    if (n && !*n) n = "1";
    if (method && !strcmp(method, "uniform") && n && atoi(n) == 1) snprintf(text, sizeof text, "full");
    else snprintf(text, sizeof text, "%.16s:%.16s", method ? method : "none", n ? n : "1");
    if (find(r, "recompute")) snprintf(find(r, "recompute")->text, FLAT_VALUE, "%s", text);
    else (void)note(r, "", "recompute", text, false);
}

static void settle_window(struct reading *r) {
    char letters[STACK_LAYERS_MAX];
    int64_t w = stack_read_window(text_of(r, "window-before"), text_of(r, "window-freq"), number(r, "layers"), letters);
    if (w > 0) note_number(r, "window", w), (void)note(r, "", "window-layers", letters, false);
    if (w == STACK_NO_WINDOW) refuse(r, "window-size", "here windows are N,0, or -1,0 for none");
    if (w == STACK_NO_LAYERS) refuse(r, "window-attn-skip-freq", "here N from 2 to 128, or [1,0,...] of each layer");
}

/* Replicas: of processes that are started, of a batch and its parts, or of shards. */
static void settle_batch(struct reading *r) {
    int64_t of_a_replica = number(r, "micro-batch") * number(r, "microbatches"), pp = at_least_1(r, "pp"),
            inner = at_least_1(r, "tp") * pp * at_least_1(r, "cp"), dp = number(r, "dp"),
            world = number(r, "processes") * at_least_1(r, "nodes");
    bool titan = r->file->form == FORM_TOML;
    if (!dp && world >= inner) dp = world / inner;
    if (!dp && titan && number(r, "shards") > 0) dp = number(r, "shards") * at_least_1(r, "replicas");
    if (!dp && of_a_replica > 0 && number(r, "global-batch") > 0) dp = number(r, "global-batch") / of_a_replica;
    struct seen said = {"dp", ""};
    int64_t typed = atoll(typed_value(r, &said)), used = typed ? typed : dp;
    if (dp && !find(r, "dp")) note_number(r, "dp", dp);
    if (titan && !find(r, "micro-batch"))
        note_number(r, "micro-batch", pp > 1 ? 1 : number(r, "batch-of-a-replica"));
    if (titan) of_a_replica = number(r, "batch-of-a-replica");
    if (find(r, "global-batch") && number(r, "global-batch") > 0) return;
    if (!of_a_replica && r->file->form == FORM_ARGUMENTS) of_a_replica = number(r, "micro-batch");
    if (find(r, "global-batch")) snprintf(find(r, "global-batch")->text, FLAT_VALUE, "%" PRId64, of_a_replica * used);
    else if (of_a_replica * used > 0) note_number(r, "global-batch", of_a_replica * used);
    if (of_a_replica * used == 0 && options_source(r->f->options, "global-batch") != FROM_COMMAND_LINE)
        refuse(r, "global batch", "it is as many as there are replicas; type --dp or --global-batch");
}

/* Sizes by their names there (torchtitan/models/llama3), and rotary angles that v0.2 scales always. */
static void settle_flavor(struct reading *r) {
    static const struct { const char *name; int layers, hidden, heads, kv_heads, ffn; } flavors[] = {
        {"debugmodel", 6, 256, 16, 16, 768}, {"405B", 126, 16384, 128, 8, 53248},
        {"llama3-8b", 32, 0, 0, 0, 0}, {"llama3-70b", 80, 0, 0, 0, 0}, {"qwen3-0.6B", 28, 0, 0, 0, 0},
        {"qwen3-1.7B", 28, 0, 0, 0, 0}, {"qwen3-4B", 36, 0, 0, 0, 0}, {"qwen3-8B", 36, 0, 0, 0, 0},
        {"qwen3-14B", 40, 5120, 40, 8, 17408}, {"qwen3-32B", 64, 5120, 64, 8, 25600}};
    const char *name = flat_value(r->flat, "model.name"), *flavor = flat_value(r->flat, "model.flavor");
    bool qwen = name && !strcmp(name, "qwen3"), known = false;
    char preset[32] = "";
    if (qwen) snprintf(preset, sizeof preset, "qwen3-%.20s", flavor ? flavor : "");
    const char *said = qwen ? preset : find(r, "model") ? text_of(r, "model") : flavor ? flavor : "";
    for (size_t i = 0; i < sizeof flavors / sizeof *flavors; i++) {
        if (strcmp(said, flavors[i].name) != 0) continue;
        known = true;
        note_number(r, "layers", flavors[i].layers);
        if (find(r, "model") && qwen) find(r, "model")->name[0] = 0;
        for (char *c = preset; *c; c++) *c = (char)tolower(*c);
        if (qwen && !flavors[i].hidden) (void)note(r, "", "model", preset, false);
        if (!flavors[i].hidden) break;
        note_number(r, "hidden", flavors[i].hidden), note_number(r, "heads", flavors[i].heads);
        note_number(r, "kv-heads", flavors[i].kv_heads), note_number(r, "ffn", flavors[i].ffn);
        (void)note(r, "", "arch", "llama", false), (void)note(r, "", "tie", "off", false);
        (void)note(r, "", "rope", qwen ? "1000000" : "500000", false);
        if (!qwen) break;
        (void)note(r, "", "qk-norm", "head", false), (void)note(r, "", "norm-eps", "1e-6", false);
        note_number(r, "head-dim", 128), note_number(r, "vocab", 151936);
    }
    if (*said && !known)
        refuse(r, "model.flavor", "this program has 8B, 70B, 405B and debugmodel of llama3, 0.6B to 32B of qwen3");
    if (flat_value(r->flat, "model.tokenizer_path") || qwen) return;
    (void)note(r, "", "rope-scaling", "llama3:8:8192:1:4", false);
    note_number(r, "vocab", !strcmp(said, "debugmodel") ? 2048 : 128256);
}

/* FSDP's shards, where weights stay whole between the passes or do not. */
static void settle_titan(struct reading *r) {
    const char *policy = flat_value(r->flat, "parallelism.fsdp_reshard_after_forward");
    bool usual = !policy || !strcmp(policy, "default");
    const char *shards = find(r, "shards") ? text_of(r, "shards") : "-1";
    if (number(r, "replicas") > 1 && atoi(shards) > 1)
        note_number(r, "shard", atoi(shards) * at_least_1(r, "cp"));
    else if (number(r, "replicas") > 1 && atoi(shards) < 0)
        refuse(r, "parallelism.data_parallel_shard_degree", "-1 with replicas: as many as there are ranks");
    if (atoi(shards) == 1) (void)note(r, "", "zero", "0", false), find(r, "zero")->text[0] = '0';
    else if (usual) (void)note(r, "", "zero", number(r, "pp") > 1 ? "2" : "3", false);
    if (number(r, "tp") > 1) (void)note(r, "", "sp", "on", false);
    if (!find(r, "recompute")) (void)note(r, "", "recompute", "selective", false);
    settle_flavor(r);
    bool op = flat_value(r->flat, "activation_checkpoint.selective_ac_option") && !find(r, "every-nth-layer");
    int64_t nth = find(r, "every-nth-layer") ? number(r, "every-nth-layer") : 2, pp = at_least_1(r, "pp"),
            layers = number(r, "layers") / pp;
    if (strcmp(text_of(r, "recompute"), "selective") != 0 || op) return;
    if (nth < 1 || !layers || number(r, "layers") % pp)
        refuse(r, "activation_checkpoint.selective_ac_option", "no number of layers");
    else
        snprintf(find(r, "recompute")->text, FLAT_VALUE, "block:%" PRId64, (layers + nth - 1) / nth);
}

/* DeepSpeed's offload of weights alone leaves the optimizer's states where they are; here both go. */
static void settle_offload(struct reading *r) {
    const char *states = text_of(r, "offload-states"), *weights = text_of(r, "offload-weights");
    bool on = *states && strcmp(states, "none") != 0, too = *weights && strcmp(weights, "none") != 0;
    if (too && !on) refuse(r, "zero_optimization.offload_param.device", "here the optimizer's states go there, too");
    if (on && too && strcmp(states, weights) != 0)
        refuse(r, "zero_optimization.offload_param.device", "another place than the optimizer's states have");
    if (on && !strcmp(states, "nvme")) (void)note(r, "", "offload-to", "disk", false);
    if (on) (void)note(r, "", "offload", too ? "params" : "optimizer", false);
    else if (find(r, "offload-path")) find(r, "offload-path")->name[0] = 0;
}

static void settle_numbers(struct reading *r) {
    static const char *const same[][2] = {{"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}};
    struct said *p = find(r, "precision");
    for (size_t i = 0; p && i < sizeof same / sizeof *same; i++)
        if (!strcmp(p->text, same[i][0])) snprintf(p->text, sizeof p->text, "%s", same[i][1]);
    if (!p && r->file->form != FORM_TOML && r->file->form != FORM_YAML) (void)note(r, "", "precision", "fp32", false);
    bool core = r->file->keys == stack_files[STACK_MEGATRON_CORE][0].keys,
         half = !strcmp(text_of(r, "precision"), "bf16");
    if (half && (core || !strcmp(text_of(r, "grad-reduce"), "float32"))) (void)note(r, "", "grad-fp32", "on", false);
    if (find(r, "zero") && !strcmp(text_of(r, "zero"), "on")) snprintf(find(r, "zero")->text, FLAT_VALUE, "1");
    const char *fp8 = stack_read_fp8(text_of(r, "fp8-format"), text_of(r, "blocks"));
    bool mx = r->file->form == FORM_TOML, nv = fp8 && !strcmp(fp8, "nvfp4");
    if (!fp8) refuse(r, mx ? "model.converters" : "fp8-format", "no recipe of this program");
    if (fp8 && *fp8) (void)note(r, "", "fp8", "on", false), (void)note(r, "", "fp8-recipe", fp8, false);
    if (find(r, "fp8")) (void)note(r, "", mx ? "fp8-block-scale" : "fp8-hadamard", mx ? "down" : nv ? "on" : "off", 0);
    double b1, b2;
    char text[32];
    if (sscanf(text_of(r, "betas"), "[%lf,%lf", &b1, &b2) == 2) {
        snprintf(text, sizeof text, "%g", b1), (void)note(r, "", "beta1", text, false);
        snprintf(text, sizeof text, "%g", b2), (void)note(r, "", "beta2", text, false);
    }
    if (r->file->form == FORM_JSON && flat_value(r->flat, "optimizer.type") && !find(r, "beta1")) {   /* its defaults */
        (void)note(r, "", "beta1", "0.9", false), (void)note(r, "", "beta2", "0.999", false);
        if (!find(r, "weight-decay")) (void)note(r, "", "weight-decay", "0", false);
        if (!find(r, "lr")) (void)note(r, "", "lr", "1e-3", false);
    }
    if (find(r, "min-lr-factor"))
        snprintf(text, sizeof text, "%g", atof(text_of(r, "min-lr-factor")) * atof(text_of(r, "lr"))),
            (void)note(r, "", "min-lr", text, false);
    int64_t chunk = number(r, "layers-of-a-chunk"), pp = at_least_1(r, "pp");
    if (chunk > 0 && number(r, "layers") % (pp * chunk))
        refuse(r, "num-layers-per-virtual-pipeline-stage", "no whole number of chunks");
    else if (chunk > 0 && number(r, "layers")) {
        note_number(r, "chunks", number(r, "layers") / (pp * chunk));
        (void)note(r, "", "schedule", "interleaved", false);
    }
    if (find(r, "rope-scaled")) {
        snprintf(text, sizeof text, "llama3:%.8s:8192:1:4", find(r, "rope-factor") ? text_of(r, "rope-factor") : "8");
        (void)note(r, "", "rope-scaling", text, false);
    }
    int64_t pad = number(r, "pad") * at_least_1(r, "tp"), vocab = number(r, "vocab");
    if (vocab > 0) vocab += number(r, "extra-ids");
    if (pad > 0 && vocab > 0) snprintf(find(r, "vocab")->text, FLAT_VALUE, "%" PRId64, (vocab + pad - 1) / pad * pad);
    if (!vocab && find(r, "layers") && !find(r, "model") && !r->f->trains &&
        options_source(r->f->options, "vocab") != FROM_COMMAND_LINE)
        refuse(r, "vocab-size", "the tokenizer's; type --vocab");
}

struct known { const char *name; bool found; };
static void look(void *self, const struct option *o, const char *text, enum option_source source) {
    struct known *k = self;
    (void)text, (void)source;
    k->found |= !strcmp(o->name, k->name);
}

enum status from_read_keys(struct from *f, const struct stack_file *file, const struct flat *flat) {
    struct reading *r = calloc(1, sizeof *r);
    if (!r) return FAIL(E_MEMORY, "no memory to read %s", f->path);
    *r = (struct reading){.f = f, .file = file, .flat = flat};
    for (int i = 0; i < flat->n; i++) read_key(r, flat->at[i].key, flat->at[i].value);
    read_missing(r);
    if (file->form == FORM_TOML) settle_titan(r);
    if (file->form == FORM_ARGUMENTS) settle_recompute(r), settle_window(r);
    settle_numbers(r);
    settle_offload(r);
    settle_batch(r);
    settle_arch(r);
    enum status status = OK;
    if (find(r, "model") && find(r, "layers")) find(r, "layers")->name[0] = 0;   /* of the preset */
    for (int i = 0; i < r->n && status == OK && !f->n_refused; i++) {
        struct known k = {r->at[i].name, false};
        options_each(f->options, look, &k);
        if (from_has("fp8-history fp8-margin", k.name)) k.found = find(r, "fp8") != NULL;
        if (from_has("aux-loss z-loss capacity", k.name)) k.found = number(r, "experts") > 0;
        char *end;
        double x = strtod(r->at[i].text, &end);                    /* 500000.0 of an integer */
        if (strchr(r->at[i].text, '.') && !*end && x == (double)(int64_t)x)
            snprintf(r->at[i].text, FLAT_VALUE, "%" PRId64, (int64_t)x);
        if (k.found) status = from_set(f, k.name, r->at[i].text);
    }
    if (status == OK && !f->n_refused && find(r, "rope") && strchr(text_of(r, "rope"), '.'))
        snprintf(find(r, "rope")->text, FLAT_VALUE, "%.0f", atof(text_of(r, "rope")));
    const char *last[][2] = {{"rope-theta", "rope"}, {"experts-per-token", "choices"}, {"pp-split", "notation"}};
    for (int i = 0; i < 3 && status == OK && !f->n_refused; i++) status = set(r, last[i][0], last[i][1]);
    free(r);
    return status;
}
