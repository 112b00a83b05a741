/* Is a folder's tokenizer GPT-2's? vocab.json and merges.txt do not define how text is cut into pieces, which tokens
 * are special, or whether text is normalized first. For another model's folder, GPT-2's rules silently give wrong
 * tokens. Published tokenizers have these further files, which define the rules; each may be missing:
 *
 *   tokenizer.json            normalizer: none; pre_tokenizer: ByteLevel, without a blank at the start; model: BPE
 *   tokenizer_config.json     tokenizer_class: GPT2Tokenizer; add_prefix_space: false
 *   special_tokens_map.json, added_tokens.json, and the two above     no special token but <|endoftext|>
 *
 * Source: huggingface/tokenizers, tokenizers/src; transformers, tokenization_utils_base.py */
#include "lib/data/bpe_private.h"

#include "lib/base/json_file.h"
#include "lib/data/data_private.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 128 << 20 };
static const char OWN[] = "tokenize with that model's own program, and give --data its tokens (--data-format u16, u32 "
                          "or npy)";

static enum status refuse(const char *path, const char *what, const char *value) {
    return FAIL(E_FORMAT, "%s: %s is %.80s, and only GPT-2's tokenizer is read; %s", path, what, value, OWN);
}

/* *out is NULL if the file does not exist. */
static enum status load(const char *path, json_t **out) {
    *out = NULL;
    return access(path, F_OK) != 0 ? OK : json_file_read(path, MOST_BYTES, 0, out);
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

/* ---- the files ---- */

static enum status check_pieces(const char *path, const json_t *json) {
    const json_t *normalizer = json_object_get(json, "normalizer"), *pieces = json_object_get(json, "pre_tokenizer");
    const char *type = json_string_value(json_object_get(pieces, "type")),
               *changes = json_string_value(json_object_get(normalizer, "type"));
    if (json_is_object(normalizer)) return refuse(path, "the normalizer", changes ? changes : "unknown");
    if (!type || strcmp(type, "ByteLevel") != 0)
        return refuse(path, "the pre_tokenizer", type ? type : "missing");
    if (json_is_true(json_object_get(pieces, "add_prefix_space"))) return refuse(path, "add_prefix_space", "true");
    return json_is_false(json_object_get(pieces, "use_regex")) ? refuse(path, "use_regex", "false") : OK;
}

static enum status check_tokenizer(const char *path, const json_t *json) {
    static const char *const none[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix"};
    static const char *const off[] = {"fuse_unk", "byte_fallback", "ignore_merges"};
    const json_t *model = json_object_get(json, "model");
    const char *type = json_string_value(json_object_get(model, "type"));
    if (type && strcmp(type, "BPE") != 0) return refuse(path, "the model", type);
    TRY(check_pieces(path, json));
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        const json_t *x = json_object_get(model, none[i]);
        if (json_is_number(x) || json_string_length(x) > 0) return refuse(path, none[i], "set");
    }
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (json_is_true(json_object_get(model, off[i]))) return refuse(path, off[i], "true");
    return check_tokens(path, json_object_get(json, "added_tokens"));
}

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

enum status bpe_check_folder(const char *folder) {
    static const struct { const char *name; enum status (*check)(const char *, const json_t *); } files[] = {
        {"tokenizer_config.json", check_config}, {"tokenizer.json", check_tokenizer},
        {"special_tokens_map.json", check_tokens}, {"added_tokens.json", check_added}};
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
