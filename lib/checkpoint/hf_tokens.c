#include "lib/checkpoint/hf_tokens.h"

#include "lib/base/json_file.h"
#include "lib/base/log.h"
#include "lib/checkpoint/checkpoint_files.h"
#include "lib/checkpoint/hf_config.h"
#include "lib/checkpoint/hf_files.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 128 << 20 };

/* Published vocabularies, by their size; -1: no such special token. Source: each model's config.json. */
static const struct known { const char *arch; int64_t vocab; int bos, eos, pad; } KNOWN[] = {
    {"", 50257, 50256, 50256, -1},   {"llama", 32000, 1, 2, -1},   {"llama", 128256, 128000, 128001, -1},
    {"mixtral", 32000, 1, 2, -1},    {"t5", 32128, -1, 1, 0},      {"bert", 30522, -1, -1, 0},
    {"bert", 28996, -1, -1, 0}};

static json_t *id_or_null(int64_t id) { return id < 0 ? json_null() : json_integer((json_int_t)id); }

/* Take the ids of a published vocabulary. T5's decoder begins with token 0, its padding. */
static void take_known(struct hf_tokens *t, const struct checkpoint_model *m) {
    struct known k = {.bos = -1, .eos = -1, .pad = strcmp(m->arch, "t5") ? -1 : 0};
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (!strcmp(KNOWN[i].arch, m->arch) && KNOWN[i].vocab == m->vocab) k = KNOWN[i];
    *t = (struct hf_tokens){id_or_null(k.bos), id_or_null(k.eos), id_or_null(k.pad), ""};
}

static bool is_said(const json_t *x) { return x && !json_is_null(x); }

static void replace(json_t **id, json_t *by) {
    if (!is_said(by)) return;
    json_decref(*id);
    *id = json_incref(by);
}

/* ---- the tokenizer's folder ---- */
static enum status in(const char *folder, const char *name, char path[CHECKPOINT_PATH_MAX]) {
    int n = snprintf(path, CHECKPOINT_PATH_MAX, "%s/%s", folder, name);
    return n < CHECKPOINT_PATH_MAX ? OK : FAIL(E_CONFIG, "a path of %d bytes is too long; the limit is %d", n,
                                               CHECKPOINT_PATH_MAX - 1);
}

static bool has(const char *folder, const char *name) {
    char path[CHECKPOINT_PATH_MAX];
    bool there = in(folder, name, path) == OK && access(path, R_OK) == 0;
    status_clear();
    return there;
}

static enum status load(const char *folder, const char *name, json_t **out) {
    char path[CHECKPOINT_PATH_MAX];
    *out = NULL;
    if (!has(folder, name)) return OK;
    TRY(in(folder, name, path));
    return json_file_read(path, MOST_BYTES, JSON_REJECT_DUPLICATES, out);
}

/* What a folder's files say; NULL: there is no such file. */
struct files { json_t *generation, *vocab, *config, *tokenizer, *ids; };

static enum status load_all(struct files *f, const char *folder) {
    TRY(load(folder, "generation_config.json", &f->generation));
    TRY(load(folder, "vocab.json", &f->vocab));
    TRY(load(folder, "tokenizer_config.json", &f->config));
    TRY(load(folder, TOKEN_IDS, &f->ids));
    return load(folder, "tokenizer.json", &f->tokenizer);
}

static const json_t *vocab_of(const struct files *f) {
    const json_t *vocab = json_object_get(json_object_get(f->tokenizer, "model"), "vocab");
    return vocab ? vocab : f->vocab;
}

static enum status check_size(const struct files *f, const struct checkpoint_model *m, const char *folder) {
    const json_t *vocab = vocab_of(f), *added;
    int64_t n = (int64_t)(json_is_array(vocab) ? json_array_size(vocab) : json_object_size(vocab));
    size_t i;
    json_array_foreach(json_object_get(f->tokenizer, "added_tokens"), i, added) {
        int64_t id = json_integer_value(json_object_get(added, "id"));
        if (id >= n) n = id + 1;
    }
    if (n <= m->vocab) return OK;
    return FAIL(E_CONFIG, "%s/%s has %" PRId64 " tokens, and the model vocab=%" PRId64 "; give the tokenizer that it "
                "was trained with", folder, f->tokenizer ? "tokenizer.json" : "vocab.json", n, m->vocab);
}

static const char *text_of(const json_t *token) {
    return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

/* The id of a token by its text, a new reference; NULL: no file has it. */
static json_t *id_of(const struct files *f, const char *text) {
    const char *id, *own;
    json_t *token;
    size_t i;
    json_object_foreach(json_object_get(f->config, "added_tokens_decoder"), id, token)
        if ((own = text_of(token)) && !strcmp(own, text)) return json_integer(atoll(id));
    json_array_foreach(json_object_get(f->tokenizer, "added_tokens"), i, token)
        if ((own = text_of(token)) && !strcmp(own, text)) return json_incref(json_object_get(token, "id"));
    return json_incref(json_object_get(vocab_of(f), text));
}

/* What tokenizer_config.json calls by this name; null there is none. */
static void take_named(json_t **id, const struct files *f, const char *name) {
    const json_t *token = json_object_get(f->config, name);
    json_t *by = !token ? NULL : text_of(token) ? id_of(f, text_of(token)) : json_null();
    if (!by) return;
    json_decref(*id);
    *id = by;
}

static const char *const IDS[] = {"bos_token_id", "eos_token_id", "pad_token_id"};
enum { N_IDS = 3 };

static void take_ids(struct hf_tokens *t, const struct files *f) {
    json_t **const ids[N_IDS] = {&t->bos, &t->eos, &t->pad}, *own;
    const char *end = "<|endoftext|>";
    if (!f->generation) replace(&t->bos, json_object_get(vocab_of(f), end));
    if (!f->generation) replace(&t->eos, json_object_get(vocab_of(f), end));
    take_named(&t->bos, f, "bos_token");
    take_named(&t->eos, f, "eos_token");
    take_named(&t->pad, f, "pad_token");
    replace(&t->bos, json_object_get(f->generation, "bos_token_id"));
    replace(&t->eos, json_object_get(f->generation, "eos_token_id"));
    replace(&t->pad, json_object_get(f->generation, "pad_token_id"));
    for (int i = 0; i < N_IDS; i++)
        if ((own = json_object_get(f->ids, IDS[i]))) json_decref(*ids[i]), *ids[i] = json_incref(own);
}

static bool has_tokenizer(const char *folder) {
    bool found = false;
    for (int i = 0; i < N_VOCABULARIES; i++) found |= has(folder, checkpoint_token_files[i]);
    return found;
}

/* own: the checkpoint's, which may have ids alone. */
static enum status take_folder(struct hf_tokens *t, const struct checkpoint_model *m, bool own) {
    struct files f = {NULL, NULL, NULL, NULL, NULL};
    if (!own && !has_tokenizer(t->folder))
        return FAIL(E_DATA, "%s has no tokenizer: none of tokenizer.json, vocab.json, tokenizer.model, spiece.model "
                    "and vocab.txt", t->folder);
    enum status status = load_all(&f, t->folder);
    if (status == OK && !own) status = check_size(&f, m, t->folder);
    if (status == OK) take_ids(t, &f);
    json_decref(f.generation), json_decref(f.vocab), json_decref(f.config), json_decref(f.tokenizer);
    json_decref(f.ids);
    return status;
}

/* ---- ids ---- */
static bool is_token(const json_t *id, int64_t vocab) {
    size_t n = json_is_array(id) ? json_array_size(id) : 0;
    for (size_t i = 0; i < n; i++)
        if (!json_is_integer(json_array_get(id, i)) || !is_token(json_array_get(id, i), vocab)) return false;
    return n || !is_said(id) ||
           (json_is_integer(id) && json_integer_value(id) >= 0 && json_integer_value(id) < vocab);
}

static enum status check(const json_t *id, const char *what, const struct checkpoint_model *m, const char *folder) {
    char *text = is_token(id, m->vocab) ? NULL : json_dumps(id, JSON_ENCODE_ANY | JSON_COMPACT);
    enum status status = text ? FAIL(E_CONFIG, "%s: %s is %.40s, and the model has vocab=%" PRId64
                                     "; give the tokenizer that it was trained with", folder, what, text, m->vocab)
                              : OK;
    free(text);
    return status;
}

enum status hf_tokens_init(struct hf_tokens *t, const struct checkpoint_model *m, const char *folder,
                           const char *step) {
    take_known(t, m);
    t->folder = folder[0] ? folder : step;
    TRY(take_folder(t, m, !folder[0]));
    TRY(check(t->bos, "bos_token_id", m, t->folder));
    TRY(check(t->eos, "eos_token_id", m, t->folder));
    return check(t->pad, "pad_token_id", m, t->folder);
}

void hf_tokens_fini(struct hf_tokens *t) {
    json_decref(t->bos);
    json_decref(t->eos);
    json_decref(t->pad);
    *t = (struct hf_tokens){NULL, NULL, NULL, ""};
}

/* ---- writing ---- */
static enum status write_ids(const struct hf_tokens *t, const char *config) {
    json_t *j;
    TRY(hf_config_load(config, &j));
    if (json_object_set(j, "bos_token_id", t->bos) || json_object_set(j, "eos_token_id", t->eos) ||
        json_object_set(j, "pad_token_id", t->pad)) {
        json_decref(j);
        j = NULL;
    }
    return hf_config_save(config, j);
}

/* Copy the first n token files that `folder` has. to: a path of `length` bytes that ends with a slash, or "". */
static enum status copy_files(const char *folder, const char *to, int length, int n) {
    char from[CHECKPOINT_PATH_MAX], path[CHECKPOINT_PATH_MAX];
    for (int i = 0; i < n; i++) {
        if (!has(folder, checkpoint_token_files[i])) continue;
        TRY(in(folder, checkpoint_token_files[i], from));
        int used = snprintf(path, sizeof path, "%.*s%s", length, to, checkpoint_token_files[i]);
        if (used >= (int)sizeof path) return FAIL(E_CONFIG, "a path of %d bytes is too long", used);
        TRY(checkpoint_copy_file(from, path));
    }
    return OK;
}

enum status hf_tokens_write(const struct hf_tokens *t, const char *path) {
    char config[CHECKPOINT_PATH_MAX];
    TRY(hf_config_path(path, config));
    TRY(write_ids(t, config));
    return copy_files(t->folder, config, (int)(strlen(config) - strlen("config.json")), N_TOKEN_FILES - 1);
}

/* ---- import ---- */
/* Models whose embedding has a row that transformers does not train (padding_idx): all but these. */
static bool trains_padding(const char *model_type) {
    return !model_type || !strcmp(model_type, "gpt2") || !strcmp(model_type, "t5");
}

/* The ids that config.json says, without those beyond the vocabulary, which name no token. */
static enum status keep_ids(const char *config, int64_t vocab, const char *step) {
    char path[CHECKPOINT_PATH_MAX];
    json_t *said, *kept = json_object(), *x;
    TRY(in(step, TOKEN_IDS, path));
    TRY(hf_config_load(config, &said));
    for (int i = 0; i < N_IDS; i++) {
        if (!(x = json_object_get(said, IDS[i]))) continue;
        if (is_token(x, vocab)) json_object_set(kept, IDS[i], x);
        else log_info("%s: %s is no token of %" PRId64 ", and left out", config, IDS[i], vocab);
    }
    x = json_object_get(kept, "pad_token_id");
    if (json_is_integer(x) && !trains_padding(json_string_value(json_object_get(said, "model_type"))))
        log_info("%s: pad_token_id %" PRId64 ": transformers does not train this token's row of the embedding; here it "
                 "is trained where the token is in the data", config, (int64_t)json_integer_value(x));
    json_decref(said);
    return hf_config_save(path, kept);
}

enum status hf_tokens_keep(const char *path, int64_t vocab, const char *step) {
    char config[CHECKPOINT_PATH_MAX], folder[CHECKPOINT_PATH_MAX], to[CHECKPOINT_PATH_MAX];
    TRY(hf_config_path(path, config));
    checkpoint_carry_from("");
    if (access(config, F_OK) == 0) TRY(keep_ids(config, vocab, step));
    int length = (int)(strlen(config) - strlen("config.json"));
    snprintf(folder, sizeof folder, "%.*s", length ? length : 1, length ? config : ".");
    TRY(in(step, "", to));
    return copy_files(folder, to, (int)strlen(to), N_TOKEN_FILES - 1);
}
