/* Fill a tokenizer's tokens and merges from JSON, and read vocab.json and merges.txt. */
#include "lib/data/bpe_private.h"

#include "lib/base/json_file.h"
#include "lib/data/data_private.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILE_BYTES = 16 << 20, MOST_LINE_BYTES = 4096, LETTERS = 256 + 68 };

/* letter_byte: the byte that a letter stands for, or -1. ids: the text of each token, borrowed from the JSON, or NULL;
 * `plain` if it is the token's bytes, not letters. */
struct reader {
    struct bpe *b;
    const char *path, *merge_is;         /* what the place of a merge is called: a line */
    json_t *vocab;
    int16_t letter_byte[LETTERS];
    struct spelled { const char *text; bool plain; } *ids;
};

/* ---- letters ---- */

static bool is_itself(int byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

static void fill_letters(struct reader *r) {
    for (int i = 0; i < LETTERS; i++) r->letter_byte[i] = -1;
    for (int byte = 0, next = 256; byte < 256; byte++) r->letter_byte[is_itself(byte) ? byte : next++] = (int16_t)byte;
}

/* Decode a token's letters to bytes. `out` has room for strlen(letters) bytes. Jansson has checked that it is UTF-8. */
static enum status bytes_of(const struct reader *r, const char *letters, char *out, int64_t *n) {
    const unsigned char *at = (const unsigned char *)letters;
    for (*n = 0; *at; ++*n) {
        int letter = *at < 0x80 ? at[0] : *at < 0xE0 ? (at[0] & 0x1F) << 6 | (at[1] & 0x3F) : LETTERS;
        if (letter >= LETTERS || r->letter_byte[letter] < 0)
            return FAIL(E_FORMAT,
                        "%s: character %" PRId64
                        " of token \"%.64s\" maps to no byte; is it a byte-level vocabulary, as GPT-2's is?",
                        r->path, *n + 1, letters);
        out[*n] = (char)r->letter_byte[letter];
        at += *at < 0x80 ? 1 : 2;
    }
    return OK;
}

/* ---- vocab.json ---- */

static enum status load_json(struct reader *r) {
    enum status status = json_file_read(r->path, MOST_FILE_BYTES, JSON_REJECT_DUPLICATES, &r->vocab);
    if (status != OK) return FAIL(status, "--tokenizer: %s", status_message());
    if (!json_is_object(r->vocab))
        return FAIL(E_FORMAT, "%s is not a JSON object of tokens and their numbers; is it a vocab.json?", r->path);
    return OK;
}

/* n tokens with n different numbers from 0 to n - 1 leave no gap; added tokens may. */
static enum status order_tokens(struct reader *r) {
    const char *letters;
    json_t *value;
    json_object_foreach(r->vocab, letters, value) {
        int64_t id = json_is_integer(value) ? (int64_t)json_integer_value(value) : -1;
        if (id < 0 || id >= r->b->n_tokens)
            return FAIL(E_FORMAT,
                        "%s: token \"%.64s\" has no number from 0 to %d, and the %d tokens have one each, without "
                        "gaps; get the file again",
                        r->path, letters, r->b->n_tokens - 1, r->b->n_tokens);
        if (r->ids[id].text)
            return FAIL(E_FORMAT, "%s: \"%.64s\" and \"%.64s\" both have the number %" PRId64 "; get the file again",
                        r->path, r->ids[id].text, letters, id);
        r->ids[id].text = letters;
    }
    return OK;
}

/* Added tokens, whose content is text and not letters. The vocabulary may list them, too, by the same number. */
static enum status place_added(struct reader *r, const json_t *added) {
    json_t *token;
    size_t i;
    json_array_foreach(added, i, token) {
        const char *text = json_string_value(json_object_get(token, "content"));
        int64_t id = json_integer_value(json_object_get(token, "id"));
        const json_t *same = json_object_get(r->vocab, text);
        if ((same && json_integer_value(same) != id) || (r->ids[id].text && strcmp(r->ids[id].text, text) != 0))
            return FAIL(E_FORMAT,
                        "%s: added token \"%.64s\" has the number %" PRId64 ", and the vocabulary has another token "
                        "there, or the token elsewhere; get the file again",
                        r->path, text, id);
        r->ids[id] = (struct spelled){text, true};
    }
    return OK;
}

static enum status spell_token(struct reader *r, int32_t id) {
    struct bpe *b = r->b;
    const struct spelled *s = &r->ids[id];
    int64_t n = s->text ? (int64_t)strlen(s->text) : 0, at = b->bytes_at[id];
    if (s->text && n == 0) return FAIL(E_FORMAT, "%s: token %d is empty; get the file again", r->path, id);
    if (s->plain) memcpy(b->bytes + at, s->text, (size_t)n);
    else if (s->text) TRY(bytes_of(r, s->text, b->bytes + at, &n));
    if (n == 1 && !s->plain) b->byte_token[(unsigned char)b->bytes[at]] = id;
    b->bytes_at[id + 1] = at + n;
    return b->whole && n > 0 && !s->plain ? bpe_index_token(b, r->path, id) : OK;
}

static enum status spell_tokens(struct reader *r) {
    struct bpe *b = r->b;
    int64_t total = 0;
    for (int32_t id = 0; id < b->n_tokens; id++) total += r->ids[id].text ? (int64_t)strlen(r->ids[id].text) : 0;
    b->bytes_at = calloc((size_t)b->n_tokens + 1, sizeof *b->bytes_at);
    b->bytes = malloc((size_t)total + 1);
    if (!b->bytes || !b->bytes_at) return FAIL(E_MEMORY, "no memory for %s; close other programs", r->path);
    if (b->whole) TRY(bpe_index_tokens(b, r->path));
    for (int byte = 0; byte < 256; byte++) b->byte_token[byte] = -1;
    for (int32_t id = 0; id < b->n_tokens; id++) TRY(spell_token(r, id));
    for (int byte = 0; byte < 256; byte++)
        if (b->byte_token[byte] < 0)
            return FAIL(E_FORMAT,
                        "%s has no token for the byte 0x%02x, and needs one for each of the 256; is it a byte-level "
                        "vocabulary?",
                        r->path, byte);
    return OK;
}

static enum status count_tokens(struct reader *r, const json_t *added) {
    int64_t n = (int64_t)json_object_size(r->vocab);
    json_t *token;
    size_t i;
    json_array_foreach(added, i, token) {
        int64_t id = json_integer_value(json_object_get(token, "id"));
        if (id >= n) n = id + 1;
    }
    if (n > BPE_MOST_TOKENS)
        return FAIL(E_FORMAT, "%s has %" PRId64 " tokens, and the limit is %d", r->path, n, BPE_MOST_TOKENS);
    r->b->n_tokens = (int32_t)n;
    r->ids = calloc((size_t)n + 1, sizeof *r->ids);
    return r->ids ? OK : FAIL(E_MEMORY, "no memory for %s; close other programs", r->path);
}

static enum status fill_tokens(struct reader *r, const json_t *added) {
    fill_letters(r);
    enum status status = count_tokens(r, added);
    if (status == OK) status = order_tokens(r);
    if (status == OK) status = place_added(r, added);
    if (status == OK) status = spell_tokens(r);
    free(r->ids);
    return status;
}

/* ---- merges ---- */

static enum status find_token(const struct reader *r, const char *letters, int64_t line, int32_t *id) {
    const json_t *value = json_object_get(r->vocab, letters);
    if (!value)
        return FAIL(E_FORMAT,
                    "%s %s %" PRId64 ": \"%.64s\" is not in the vocabulary; the two do not belong together", r->path,
                    r->merge_is, line, letters);
    *id = (int32_t)json_integer_value(value);
    return OK;
}

/* `text` is one line, without its newline, terminated by a 0. */
static enum status read_merge(struct reader *r, char *text, int64_t line, struct bpe_merge *m) {
    char *blank = strchr(text, ' ');
    if (!blank || blank == text || !blank[1] || strchr(blank + 1, ' '))
        return FAIL(E_FORMAT,
                    "%s %s %" PRId64 ": \"%.64s\" is not two tokens with a blank between them; get the file again",
                    r->path, r->merge_is, line, text);
    *blank = 0;
    TRY(find_token(r, text, line, &m->left));
    TRY(find_token(r, blank + 1, line, &m->right));
    memmove(blank, blank + 1, strlen(blank + 1) + 1);
    m->order = r->b->n_merges - 1;
    return find_token(r, text, line, &m->merged);
}

static enum status no_merges(struct reader *r, int64_t most) {
    r->b->merges = malloc((size_t)(most + 1) * sizeof *r->b->merges);
    return r->b->merges ? OK : FAIL(E_MEMORY, "no memory for the merges of %s; close other programs", r->path);
}

/* A merge of a JSON list: "left right", or ["left", "right"]. */
static enum status json_merge(struct reader *r, const json_t *merge, int64_t i) {
    char text[MOST_LINE_BYTES + 1] = "";
    const json_t *left = json_array_get(merge, 0), *right = json_array_get(merge, 1);
    size_t n = json_string_length(merge) + json_string_length(left) + json_string_length(right);
    if (!json_is_string(merge) && !(json_is_string(left) && json_is_string(right) && json_array_size(merge) == 2))
        return FAIL(E_FORMAT, "%s merge %" PRId64 " is neither a text nor two; get the file again", r->path, i);
    if (n >= MOST_LINE_BYTES)
        return FAIL(E_FORMAT, "%s merge %" PRId64 " has %zu bytes, and the limit is %d; get the file again", r->path, i,
                    n, MOST_LINE_BYTES);
    if (json_is_string(merge)) snprintf(text, sizeof text, "%s", json_string_value(merge));
    else snprintf(text, sizeof text, "%s %s", json_string_value(left), json_string_value(right));
    return read_merge(r, text, i, &r->b->merges[r->b->n_merges++]);
}

enum status bpe_fill(struct bpe *b, const char *path, json_t *vocab, json_t *merges, json_t *added) {
    struct reader r = {.b = b, .path = path, .merge_is = "merge", .vocab = vocab};
    json_t *merge;
    size_t i;
    TRY(fill_tokens(&r, added));
    TRY(no_merges(&r, (int64_t)json_array_size(merges)));
    json_array_foreach(merges, i, merge) TRY(json_merge(&r, merge, (int64_t)i + 1));
    return bpe_index_merges(b, path);
}

static enum status read_line(struct reader *r, const char *at, size_t bytes, int64_t line) {
    char text[MOST_LINE_BYTES + 1];
    struct bpe *b = r->b;
    if (bytes > 0 && at[bytes - 1] == '\r') bytes--;
    if (bytes > MOST_LINE_BYTES || memchr(at, 0, bytes))
        return FAIL(E_FORMAT, "%s line %" PRId64 " has %s; is it a merges.txt?", r->path, line,
                    bytes > MOST_LINE_BYTES ? "more than 4096 bytes" : "a zero byte");
    memcpy(text, at, bytes);
    text[bytes] = 0;
    if (bytes == 0 || (line == 1 && !strncmp(text, "#version", 8))) return OK;
    return read_merge(r, text, line, &b->merges[b->n_merges++]);
}

static enum status read_lines(struct reader *r, const struct data_map *map) {
    const char *at = map->at ? (const char *)map->at : "", *end = at + map->bytes; /* an empty file is not mapped */
    if (map->bytes > MOST_FILE_BYTES)
        return FAIL(E_FORMAT, "%s has %" PRId64 " bytes, and the limit for merges is %d; is it a merges.txt?", r->path,
                    map->bytes, MOST_FILE_BYTES);
    /* a line has at least four bytes: "a b" and its end */
    TRY(no_merges(r, map->bytes / 4));
    for (int64_t line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        TRY(read_line(r, at, (size_t)(stop - at), line));
        at = stop < end ? stop + 1 : end;
    }
    return bpe_index_merges(r->b, r->path);
}

static enum status read_merges(struct reader *r) {
    struct data_map map = {0};
    enum status status = data_map(r->path, "--tokenizer", &map);
    if (status == OK) status = read_lines(r, &map);
    data_unmap(&map);
    return status;
}

/* ---- both files together ---- */

/* Check that merges reach every token but <|endoftext|>. An unreachable token is another special token, or belongs to
 * another kind of BPE (CLIP's "a</w>"). */
static enum status check_reach(struct reader *r) {
    const struct bpe *b = r->b;
    bool *reached = calloc((size_t)b->n_tokens, sizeof *reached);
    if (!reached) return FAIL(E_MEMORY, "no memory for %d tokens; close other programs", b->n_tokens);
    for (int byte = 0; byte < 256; byte++) reached[b->byte_token[byte]] = true;
    for (int32_t i = 0; i < b->n_merges; i++) reached[b->merges[i].merged] = true;
    int32_t id = 0;
    while (id < b->n_tokens && (reached[id] || id == b->end_of_text)) id++;
    free(reached);
    if (id == b->n_tokens) return OK;
    return FAIL(E_FORMAT, "%s: token %d, \"%.*s\", is no byte and no merge of two tokens, and " BPE_END_OF_TEXT " is "
                "the only special token that is known: it is not GPT-2's; tokenize with that model's own program",
                r->path, id,
                (int)(b->bytes_at[id + 1] - b->bytes_at[id] < 64 ? b->bytes_at[id + 1] - b->bytes_at[id] : 64),
                b->bytes + b->bytes_at[id]);
}

/* ---- opening ---- */

static enum status read_vocab(struct reader *r) {
    TRY(load_json(r));
    TRY(fill_tokens(r, NULL));
    const json_t *end = json_object_get(r->vocab, BPE_END_OF_TEXT);
    if (!end) return OK;
    r->b->end_of_text = (int32_t)json_integer_value(end);
    return bpe_add(r->b, r->b->end_of_text, false);
}

enum status bpe_open(const char *vocab_path, const char *merges_path, struct bpe **out) {
    enum status status = bpe_new(out);
    struct reader r = {.b = *out, .path = vocab_path, .merge_is = "line"};
    if (status == OK) status = bpe_split_at(*out, "GPT-2's pattern", BPE_GPT2_PATTERN);
    if (status == OK) status = read_vocab(&r);
    r.path = merges_path;
    if (status == OK) status = read_merges(&r);
    r.path = vocab_path;
    if (status == OK) status = check_reach(&r);
    json_decref(r.vocab);
    if (status == OK) bpe_sort_added(*out);
    else bpe_close(out);
    return status;
}

void bpe_close(struct bpe **out) {
    struct bpe *b = *out;
    *out = NULL;
    if (!b) return;
    bpe_split_close(b);
    if (b->library) b->library->close(b);
    free(b->bytes), free(b->bytes_at), free(b->by_bytes), free(b->merges), free(b->slots), free(b->added);
    free(b->symbols), free(b->heap), free(b->tokens);
    free(b);
}
