/* tokenizer.json, as Hugging Face's library tokenizers writes it: what is read is a byte-level BPE with
 *
 *   normalizer      none, or one Unicode normal form
 *   pre_tokenizer   Split (at the matches of a pattern, which are pieces, as is what lies between), Digits, Sequence of
 *                   these, and ByteLevel as the last one
 *   model           BPE: vocab, merges, ignore_merges
 *   added_tokens    found before the text is cut: `normalized` ones in its normal form
 *
 * A key that changes tokens and has another value is refused with its name. post_processor and decoder do not change
 * the tokens of a text without a template around it, and are passed over.
 *
 * Source: huggingface/tokenizers, tokenizers/src: models/bpe, pre_tokenizers, tokenizer/added_vocabulary.rs */
#include "lib/data/bpe_private.h"

#include "lib/base/json_file.h"
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

static enum status refuse(const char *path, const char *what, const char *value) {
    return FAIL(E_FORMAT, "%s: %s is %.80s, which is not read; tokenize with that model's own program, and give --data "
                          "its tokens (--data-format u16, u32 or npy)",
                path, what, value ? value : "missing");
}

static const char *type_of(const json_t *part) { return json_string_value(json_object_get(part, "type")); }

/* Is the key absent, null, false, zero or empty? */
static bool is_off(const json_t *object, const char *key) {
    const json_t *x = json_object_get(object, key);
    return !x || json_is_null(x) || json_is_false(x) || (json_is_string(x) && json_string_length(x) == 0) ||
           (json_is_number(x) && json_number_value(x) == 0);
}

/* A switch, or what it is if it is absent. */
static bool switch_of(const json_t *object, const char *key, bool absent) {
    const json_t *x = json_object_get(object, key);
    return json_is_boolean(x) ? json_is_true(x) : absent;
}

/* ---- normalizer ---- */

static enum status read_form(struct bpe *b, const char *path, const json_t *part) {
    static const struct { const char *name; int form; } forms[] = {
        {"NFC", UTF8PROC_STABLE | UTF8PROC_COMPOSE},
        {"NFD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
        {"NFKC", UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
        {"NFKD", UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT}};
    const char *type = type_of(part);
    const json_t *list = json_object_get(part, "normalizers");
    if (!part || json_is_null(part)) return OK;
    if (type && !strcmp(type, "Sequence") && json_array_size(list) < 2)
        return read_form(b, path, json_array_get(list, 0));
    for (size_t i = 0; type && i < sizeof forms / sizeof *forms && !b->form; i++)
        if (!strcmp(type, forms[i].name)) b->form = forms[i].form;
    return b->form ? OK : refuse(path, "the normalizer", type);
}

/* ---- pre_tokenizer ---- */

static enum status read_split(struct bpe *b, const char *path, const json_t *part) {
    const json_t *pattern = json_object_get(part, "pattern");
    const char *behavior = json_string_value(json_object_get(part, "behavior")),
               *regex = json_string_value(json_object_get(pattern, "Regex"));
    if (!behavior || strcmp(behavior, "Isolated") != 0) return refuse(path, "behavior of a Split", behavior);
    if (!is_off(part, "invert")) return refuse(path, "invert of a Split", "true");
    if (!regex) return refuse(path, "the pattern of a Split", "no Regex");
    return bpe_split_at(b, path, regex);
}

static enum status read_byte_level(struct bpe *b, const char *path, const json_t *part) {
    if (switch_of(part, "add_prefix_space", true)) TRY(bpe_split_blank(b, path));
    return switch_of(part, "use_regex", true) ? bpe_split_at(b, path, BPE_GPT2_PATTERN) : OK;
}

/* One step; `last`: behind it there is none. */
static enum status read_step(struct bpe *b, const char *path, const json_t *part, bool last) {
    const char *type = type_of(part);
    if (type && !strcmp(type, "ByteLevel") && last) return read_byte_level(b, path, part);
    if (type && !strcmp(type, "Split") && !last) return read_split(b, path, part);
    if (type && !strcmp(type, "Digits") && !last)
        return bpe_split_at(b, path, switch_of(part, "individual_digits", false) ? "\\p{N}" : "\\p{N}+");
    return refuse(path, last ? "the last pre_tokenizer" : "a pre_tokenizer", type);
}

static enum status read_steps(struct bpe *b, const char *path, const json_t *part) {
    const char *type = type_of(part);
    if (!type || strcmp(type, "Sequence") != 0) return read_step(b, path, part, true);
    const json_t *list = json_object_get(part, "pretokenizers"), *step;
    size_t i, n = json_array_size(list);
    if (n == 0) return refuse(path, "the last pre_tokenizer", NULL);
    json_array_foreach(list, i, step) TRY(read_step(b, path, step, i + 1 == n));
    return OK;
}

/* ---- added tokens ---- */

static enum status check_added(const char *path, const json_t *added) {
    static const char *const keys[] = {"single_word", "lstrip", "rstrip"};
    const json_t *token;
    size_t i;
    json_array_foreach(added, i, token) {
        const char *text = json_string_value(json_object_get(token, "content"));
        const json_t *id = json_object_get(token, "id");
        if (!text || !*text || !json_is_integer(id) || json_integer_value(id) < 0)
            return FAIL(E_FORMAT, "%s: added token %zu has no content or no id; get the file again", path, i);
        if (json_integer_value(id) >= BPE_MOST_TOKENS)
            return FAIL(E_FORMAT, "%s: added token \"%.64s\" has the number %" JSON_INTEGER_FORMAT ", and the limit is "
                                  "%d; get the file again",
                        path, text, json_integer_value(id), BPE_MOST_TOKENS - 1);
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
            if (!is_off(token, keys[k])) {
                char what[128];
                snprintf(what, sizeof what, "%s of the added token %.64s", keys[k], text);
                return refuse(path, what, "true");
            }
    }
    return OK;
}

static enum status read_added(struct bpe *b, const json_t *added) {
    const json_t *token;
    size_t i;
    json_array_foreach(added, i, token) {
        const char *text = json_string_value(json_object_get(token, "content"));
        int32_t id = (int32_t)json_integer_value(json_object_get(token, "id"));
        TRY(bpe_add(b, id, switch_of(token, "normalized", !switch_of(token, "special", false))));
        if (!strcmp(text, BPE_END_OF_TEXT)) b->end_of_text = id;
    }
    return OK;
}

/* ---- the file ---- */

static enum status read_model(struct bpe *b, const char *path, json_t *json) {
    static const char *const off[] = {"dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"};
    json_t *model = json_object_get(json, "model"), *added = json_object_get(json, "added_tokens");
    const char *type = type_of(model);
    json_t *vocab = json_object_get(model, "vocab"), *merges = json_object_get(model, "merges");
    if (type && strcmp(type, "BPE") != 0) return refuse(path, "the model", type);
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (!is_off(model, off[i])) return refuse(path, off[i], "set");
    if (!json_is_object(vocab) || !json_is_array(merges))
        return FAIL(E_FORMAT, "%s: its model has no vocab or no merges; is it a tokenizer.json of BPE?", path);
    TRY(check_added(path, added));
    b->whole = !is_off(model, "ignore_merges");
    TRY(bpe_fill(b, path, vocab, merges, added));
    return read_added(b, added);
}

static enum status read_all(struct bpe *b, const char *path, json_t *json) {
    static const char *const off[] = {"truncation", "padding"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++)
        if (!is_off(json, off[i])) return refuse(path, off[i], "set");
    TRY(read_form(b, path, json_object_get(json, "normalizer")));
    TRY(read_steps(b, path, json_object_get(json, "pre_tokenizer")));
    TRY(read_model(b, path, json));
    bpe_sort_added(b);
    return OK;
}

enum status bpe_read_json(struct bpe *b, const char *path) {
    json_t *json = NULL;
    enum status status = json_file_read(path, BPE_MOST_FILE_BYTES, JSON_REJECT_DUPLICATES, &json);
    if (status != OK) return FAIL(status, "--tokenizer: %s", status_message());
    status = read_all(b, path, json);
    json_decref(json);
    return status;
}
