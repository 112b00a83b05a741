/* Which tokenizer is it? A file is a tokenizer.json, a model of sentencepiece, or one of tiktoken's. A folder's
 * tokenizer.json says all of a tokenizer. Without it, vocab.json and merges.txt do not define how text is cut into
 * pieces, which tokens are special, or whether text is normalized first. For another model's folder, GPT-2's rules
 * silently give wrong tokens. These further files define the rules; each may be missing:
 *
 *   tokenizer_config.json     tokenizer_class: GPT2Tokenizer; add_prefix_space: false
 *   special_tokens_map.json, added_tokens.json, and the one above     no special token but <|endoftext|>
 *
 * Next to a tokenizer.json, tokenizer_config.json may add tokens and choose the blank at the start (transformers sets
 * both), so it must say the same, and it names the token that ends a text.
 *
 * Source: huggingface/tokenizers, tokenizers/src; transformers, tokenization_utils_base.py */
#include "lib/data/bpe_private.h"

#include "lib/base/json_file.h"
#include "lib/data/data_private.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char OWN[] = "tokenize with that model's own program, and give --data its tokens (--data-format u16, u32 "
                          "or npy)";

static enum status refuse(const char *path, const char *what, const char *value) {
    return FAIL(E_FORMAT, "%s: %s is %.80s, and only GPT-2's tokenizer is read; %s", path, what, value, OWN);
}

/* *out is NULL if the file does not exist. */
static enum status load(const char *path, json_t **out) {
    *out = NULL;
    return access(path, F_OK) != 0 ? OK : json_file_read(path, BPE_MOST_FILE_BYTES, 0, out);
}

/* The text of a token: a JSON string, or the string "content" of an object. NULL: `token` is neither. */
static const char *content_of(const json_t *token) {
    const json_t *content = json_is_object(token) ? json_object_get(token, "content") : token;
    return json_string_value(content);
}

static enum status check_token(const char *path, const char *text) {
    return !text || !*text || !strcmp(text, BPE_END_OF_TEXT) ? OK : refuse(path, "a special token", text);
}

/* Check all tokens of a list or an object. */
static enum status check_tokens(const char *path, const json_t *tokens) {
    const char *key;
    json_t *token;
    size_t i;
    json_array_foreach(tokens, i, token) TRY(check_token(path, content_of(token)));
    json_object_foreach((json_t *)tokens, key, token) {
        TRY(check_token(path, content_of(token)));
        if (json_is_array(token)) TRY(check_tokens(path, token));
    }
    return OK;
}

/* ---- GPT-2's pair of files, and what stands next to it ---- */

/* The classes in `any` stand for every tokenizer, so they are accepted. */
static enum status check_config(const char *path, const json_t *json) {
    static const char *const gpt2[] = {"GPT2Tokenizer", "GPT2TokenizerFast"},
                      *const any[] = {"PreTrainedTokenizerFast", "TokenizersBackend"};
    static const char *const tokens[] = {"bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token",
                                         "mask_token"};
    const char *class = json_string_value(json_object_get(json, "tokenizer_class"));
    bool known = !class;
    for (int i = 0; i < 2 && class; i++) known |= !strcmp(class, gpt2[i]) || !strcmp(class, any[i]);
    if (!known) return refuse(path, "tokenizer_class", class);
    if (json_is_true(json_object_get(json, "add_prefix_space"))) return refuse(path, "add_prefix_space", "true");
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        TRY(check_token(path, content_of(json_object_get(json, tokens[i]))));
    TRY(check_tokens(path, json_object_get(json, "additional_special_tokens")));
    return check_tokens(path, json_object_get(json, "added_tokens_decoder"));
}

/* Check a file {"token": number, ...}. */
static enum status check_added(const char *path, const json_t *json) {
    const char *text;
    json_t *number;
    json_object_foreach((json_t *)json, text, number) TRY(check_token(path, text));
    return OK;
}

static enum status check_folder(const char *folder) {
    static const struct { const char *name; enum status (*check)(const char *, const json_t *); } files[] = {
        {"tokenizer_config.json", check_config}, {"special_tokens_map.json", check_tokens},
        {"added_tokens.json", check_added}};
    char path[4096];
    enum status status = OK;
    for (size_t i = 0; i < sizeof files / sizeof *files && status == OK; i++) {
        json_t *json;
        snprintf(path, sizeof path, "%s/%s", folder, files[i].name);
        status = load(path, &json);
        if (status == OK && json) status = files[i].check(path, json);
        json_decref(json);
    }
    return status;
}

static enum status open_pair(const char *folder, struct bpe **out) {
    char vocab[4096], merges[4096];
    snprintf(vocab, sizeof vocab, "%s/vocab.json", folder);
    snprintf(merges, sizeof merges, "%s/merges.txt", folder);
    TRY(check_folder(folder));
    return bpe_open(vocab, merges, out);
}

/* ---- tokenizer.json, and what stands next to it ---- */

/* The id of an added token by its text, or -1. */
static int32_t added_id(const struct bpe *b, const char *text) {
    for (int32_t i = 0; i < b->n_added; i++)
        if ((size_t)b->added[i].bytes == strlen(text) && !memcmp(b->added[i].text, text, strlen(text)))
            return b->added[i].token;
    return -1;
}

static enum status same_added(const struct bpe *b, const char *path, const json_t *json) {
    const char *id;
    json_t *token;
    json_object_foreach(json_object_get(json, "added_tokens_decoder"), id, token) {
        const char *text = content_of(token);
        if (text && added_id(b, text) != atoi(id))
            return FAIL(E_FORMAT, "%s: added_tokens_decoder has token %s, \"%.64s\", and tokenizer.json next to it has "
                                  "not; get both files from one place",
                        path, id, text);
    }
    return OK;
}

static enum status read_config(struct bpe *b, const char *path, const json_t *json) {
    const char *end = content_of(json_object_get(json, "eos_token"));
    const json_t *blank = json_object_get(json, "add_prefix_space");
    bool has_blank = false;
    for (int i = 0; i < b->n_steps; i++) has_blank |= !b->steps[i].pattern;
    if (json_is_boolean(blank) && json_is_true(blank) != has_blank)
        return FAIL(E_FORMAT, "%s: add_prefix_space is %s, and tokenizer.json next to it says the opposite; make both "
                              "agree",
                    path, has_blank ? "false" : "true");
    if (end && added_id(b, end) >= 0) b->end_of_text = added_id(b, end);
    return same_added(b, path, json);
}

static enum status open_json(const char *folder, const char *path, struct bpe **out) {
    char config[4096];
    json_t *json = NULL;
    enum status status = bpe_new(out);
    if (status == OK) status = bpe_read_json(*out, path);
    snprintf(config, sizeof config, "%s/tokenizer_config.json", folder);
    if (status == OK && *folder) status = load(config, &json);
    if (status == OK && json) status = read_config(*out, config, json);
    json_decref(json);
    if (status != OK) bpe_close(out);
    return status;
}

/* ---- a folder or a file ---- */

static enum status read_sentencepiece(struct bpe *b, const char *path) {
    if (!&bpe_sentencepiece)
        return FAIL(E_FORMAT, "%s is a model of sentencepiece, and this build is without that library; run "
                              "tools/install-deps sentencepiece and make",
                    path);
    b->library = &bpe_sentencepiece;
    return b->library->read(b, path);
}

/* Models of Llama 2 and of Llama 3 have one name. sentencepiece's begin with the tag of a piece, a newline; tiktoken's
 * with base64. */
static enum status is_sentencepiece(const char *path, bool *out) {
    struct data_map map = {0};
    TRY(data_map(path, "--tokenizer", &map));
    *out = map.bytes > 0 && map.at[0] == '\n';
    data_unmap(&map);
    return OK;
}

static enum status open_file(const char *path, struct bpe **out) {
    bool sentencepiece = false;
    TRY(is_sentencepiece(path, &sentencepiece));
    enum status status = bpe_new(out);
    if (status == OK) status = sentencepiece ? read_sentencepiece(*out, path) : bpe_read_tiktoken(*out, path);
    if (status != OK) bpe_close(out);
    return status;
}

/* Programs add tokens to those of a model, and some count them in another way: a folder's model is read only by its own
 * name. */
static enum status name_model(const char *folder, enum status status) {
    static const char *const names[] = {"tokenizer.model", "spiece.model"};
    char path[4096];
    for (int i = 0; i < 2 && (status == E_FORMAT || status == E_DATA); i++) {
        int n = snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (n < (int)sizeof path && access(path, F_OK) == 0)
            return FAIL(status, "%s; or give the model next to it, %s, for its tokens alone", status_message(), path);
    }
    return status;
}

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

enum status bpe_open_folder(const char *folder, struct bpe **out) {
    char path[4096];
    struct stat at;
    *out = NULL;
    if (snprintf(path, sizeof path, "%s/tokenizer_config.json", folder) >= (int)sizeof path)
        return FAIL(E_DATA, "the path of the tokenizer has more than %zu bytes", sizeof path);
    if (stat(folder, &at) == 0 && S_ISREG(at.st_mode))
        return ends_with(folder, ".json") ? open_json("", folder, out) : open_file(folder, out);
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    enum status status = access(path, F_OK) == 0 ? open_json(folder, path, out) : open_pair(folder, out);
    return status == OK ? OK : name_model(folder, status);
}
