/* Read and check vocab.json and merges.txt. */
#include "lib/data/bpe_private.h"

#include "lib/base/json_file.h"
#include "lib/data/data_private.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TOKENS = 1 << 20, MOST_FILE_BYTES = 16 << 20, MOST_LINE_BYTES = 4096, LETTERS = 256 + 68 };

/* letter_byte: the byte that a letter stands for, or -1. */
struct reader { struct bpe *b; const char *path; json_t *vocab; int16_t letter_byte[LETTERS]; };

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

/* Fill ids[id] with the token's letters, borrowed from the JSON. n tokens with n different numbers from 0 to n - 1
 * leave no gap. */
static enum status order_tokens(struct reader *r, const char **ids, int64_t *total) {
    const char *letters;
    json_t *value;
    json_object_foreach(r->vocab, letters, value) {
        int64_t id = json_is_integer(value) ? (int64_t)json_integer_value(value) : -1;
        if (id < 0 || id >= r->b->n_tokens)
            return FAIL(E_FORMAT,
                        "%s: token \"%.64s\" has no number from 0 to %d, and the %d tokens have one each, without "
                        "gaps; get the file again",
                        r->path, letters, r->b->n_tokens - 1, r->b->n_tokens);
        if (ids[id])
            return FAIL(E_FORMAT, "%s: \"%.64s\" and \"%.64s\" both have the number %" PRId64 "; get the file again",
                        r->path, ids[id], letters, id);
        ids[id] = letters;
        *total += (int64_t)strlen(letters);
    }
    return OK;
}

static enum status spell_tokens(struct reader *r, const char *const *ids) {
    struct bpe *b = r->b;
    for (int byte = 0; byte < 256; byte++) b->byte_token[byte] = -1;
    for (int32_t id = 0; id < b->n_tokens; id++) {
        int64_t n, at = b->bytes_at[id];
        TRY(bytes_of(r, ids[id], b->bytes + at, &n));
        if (n == 0) return FAIL(E_FORMAT, "%s: token %d is empty; get the file again", r->path, id);
        if (n == 1) b->byte_token[(unsigned char)b->bytes[at]] = id;
        b->bytes_at[id + 1] = at + n;
    }
    for (int byte = 0; byte < 256; byte++)
        if (b->byte_token[byte] < 0)
            return FAIL(E_FORMAT,
                        "%s has no token for the byte 0x%02x, and needs one for each of the 256; is it a byte-level "
                        "vocabulary?",
                        r->path, byte);
    return OK;
}

static enum status read_vocab(struct reader *r) {
    struct bpe *b = r->b;
    TRY(load_json(r));
    if (json_object_size(r->vocab) > MOST_TOKENS)
        return FAIL(E_FORMAT, "%s has %zu tokens, and the limit is %d", r->path, json_object_size(r->vocab),
                    MOST_TOKENS);
    b->n_tokens = (int32_t)json_object_size(r->vocab);
    int64_t total = 0;
    const char **ids = calloc((size_t)b->n_tokens + 1, sizeof *ids);
    b->bytes_at = calloc((size_t)b->n_tokens + 1, sizeof *b->bytes_at);
    enum status status = ids && b->bytes_at ? order_tokens(r, ids, &total)
                                            : FAIL(E_MEMORY, "no memory for %s; close other programs", r->path);
    if (status == OK && !(b->bytes = malloc((size_t)total + 1)))
        status = FAIL(E_MEMORY, "no memory for %s; close other programs", r->path);
    if (status == OK) status = spell_tokens(r, ids);
    free(ids);
    TRY(status);
    const json_t *end = json_object_get(r->vocab, "<|endoftext|>");
    b->end_of_text = end ? (int32_t)json_integer_value(end) : -1;
    return OK;
}

/* ---- merges.txt ---- */

static enum status find_token(const struct reader *r, const char *letters, int64_t line, int32_t *id) {
    const json_t *value = json_object_get(r->vocab, letters);
    if (!value)
        return FAIL(E_FORMAT,
                    "%s line %" PRId64 ": \"%.64s\" is not in the vocabulary; the two files do not belong together",
                    r->path, line, letters);
    *id = (int32_t)json_integer_value(value);
    return OK;
}

/* `text` is one line, without its newline, terminated by a 0. */
static enum status read_merge(struct reader *r, char *text, int64_t line, struct bpe_merge *m) {
    char *blank = strchr(text, ' ');
    if (!blank || blank == text || !blank[1] || strchr(blank + 1, ' '))
        return FAIL(E_FORMAT,
                    "%s line %" PRId64 ": \"%.64s\" is not two tokens with a blank between them; get the file again",
                    r->path, line, text);
    *blank = 0;
    TRY(find_token(r, text, line, &m->left));
    TRY(find_token(r, blank + 1, line, &m->right));
    memmove(blank, blank + 1, strlen(blank + 1) + 1);
    return find_token(r, text, line, &m->merged);
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
    r->b->merges = malloc((size_t)(map->bytes / 4 + 1) * sizeof *r->b->merges);
    if (!r->b->merges) return FAIL(E_MEMORY, "no memory for the merges of %s; close other programs", r->path);
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

enum status bpe_open(const char *vocab_path, const char *merges_path, struct bpe **out) {
    struct bpe *b = *out = calloc(1, sizeof *b);
    struct reader r = {.b = b, .path = vocab_path};
    if (!b) return FAIL(E_MEMORY, "no memory for a tokenizer; close other programs");
    fill_letters(&r);
    enum status status = bpe_split_open(b);
    if (status == OK) status = read_vocab(&r);
    r.path = merges_path;
    if (status == OK) status = read_merges(&r);
    r.path = vocab_path;
    if (status == OK) status = check_reach(&r);
    json_decref(r.vocab);
    if (status != OK) bpe_close(out);
    return status;
}

enum status bpe_open_folder(const char *folder, struct bpe **out) {
    char vocab[4096], merges[4096];
    *out = NULL;
    if (snprintf(vocab, sizeof vocab, "%s/vocab.json", folder) >= (int)sizeof vocab)
        return FAIL(E_DATA, "the path of the tokenizer has more than %zu bytes", sizeof vocab);
    snprintf(merges, sizeof merges, "%s/merges.txt", folder);
    TRY(bpe_check_folder(folder));
    return bpe_open(vocab, merges, out);
}

void bpe_close(struct bpe **out) {
    struct bpe *b = *out;
    *out = NULL;
    if (!b) return;
    bpe_split_close(b);
    free(b->bytes), free(b->bytes_at), free(b->merges), free(b->slots);
    free(b->symbols), free(b->heap), free(b->tokens);
    free(b);
}
