/* tiktoken's files: a line has the base64 of a token's bytes, a blank and the token's number, which is also its rank:
 * of two neighbors, those merge first that make the token with the smallest number. The file has neither the pattern
 * that cuts a text nor the special tokens; both belong to the published encoding, which the count of tokens tells.
 *
 * Source: openai/tiktoken, tiktoken_ext/openai_public.py, src/lib.rs; meta-llama/llama3, llama/tokenizer.py;
 * QwenLM/Qwen, tokenization_qwen.py. Possessive quantifiers of the published patterns change their speed alone. */
#include "lib/data/bpe_private.h"

#include "lib/data/data_private.h"
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define CL100K                                                                                                        \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"           \
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define QWEN                                                                                                          \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"                 \
    "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define O200K_END "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
#define O200K                                                                                                         \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+" O200K_END              \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*" O200K_END              \
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* lines: of the file. special: the first one ends a text. counted: further special tokens, n of them from a token on,
 * whose texts have a number, from `first` on. form: as in struct bpe. */
enum { MOST_SPECIAL = 24, MOST_COUNTED = 8 };
static const struct encoding {
    const char *name;
    int64_t lines;
    const char *pattern;
    struct special { int32_t token; const char *text; } special[MOST_SPECIAL];
    struct counted { int32_t token, n, first; const char *text; } counted[MOST_COUNTED];
    int form;
} ENCODINGS[] = {
    {"gpt2 or r50k_base", 50256, BPE_GPT2_PATTERN, {{50256, BPE_END_OF_TEXT}}, {{0}}, 0},
    {"p50k_base", 50280, BPE_GPT2_PATTERN, {{50256, BPE_END_OF_TEXT}}, {{0}}, 0},
    {"cl100k_base",
     100256,
     CL100K,
     {{100257, BPE_END_OF_TEXT},
      {100258, "<|fim_prefix|>"},
      {100259, "<|fim_middle|>"},
      {100260, "<|fim_suffix|>"},
      {100276, "<|endofprompt|>"}},
     {{0}}, 0},
    {"o200k_base", 199998, O200K, {{199999, BPE_END_OF_TEXT}, {200018, "<|endofprompt|>"}}, {{0}}, 0},
    {"Llama 3's tokenizer.model",
     128000,
     CL100K,
     {{128001, "<|end_of_text|>"},
      {128000, "<|begin_of_text|>"},
      {128002, "<|reserved_special_token_0|>"},
      {128003, "<|reserved_special_token_1|>"},
      {128004, "<|reserved_special_token_2|>"},
      {128005, "<|reserved_special_token_3|>"},
      {128006, "<|start_header_id|>"},
      {128007, "<|end_header_id|>"},
      {128008, "<|reserved_special_token_4|>"},
      {128009, "<|eot_id|>"}},
     {{128010, 246, 5, "<|reserved_special_token_%d|>"}}, 0},
    {"Llama 4's tokenizer.model",
     200000,
     O200K,
     {{200001, "<|end_of_text|>"},
      {200000, "<|begin_of_text|>"},
      {200002, "<|fim_prefix|>"},
      {200003, "<|fim_middle|>"},
      {200004, "<|fim_suffix|>"},
      {200005, "<|header_start|>"},
      {200006, "<|header_end|>"},
      {200007, "<|eom|>"},
      {200008, "<|eot|>"},
      {200009, "<|step|>"},
      {200016, "<|python_start|>"},
      {200017, "<|python_end|>"},
      {200018, "<|finetune_right_pad|>"},
      {200080, "<|image_start|>"},
      {200081, "<|image_end|>"},
      {200084, "<|tile_x_separator|>"},
      {200085, "<|tile_y_separator|>"},
      {200090, "<|image|>"},
      {200092, "<|patch|>"},
      {201142, "<|reasoning_thinking_start|>"},
      {201143, "<|reasoning_thinking_end|>"}},
     {{200010, 6, 0, "<|text_post_train_reserved_special_token_%d|>"},
      {200019, 61, 8, "<|text_post_train_reserved_special_token_%d|>"},
      {200082, 2, 0, "<|vision_reserved_special_token_%d|>"},
      {200086, 4, 2, "<|vision_reserved_special_token_%d|>"},
      {200091, 1, 6, "<|vision_reserved_special_token_%d|>"},
      {200093, 1041, 7, "<|vision_reserved_special_token_%d|>"},
      {201134, 8, 0, "<|reasoning_reserved_special_token_%d|>"},
      {201144, 904, 0, "<|reserved_special_token_%d|>"}},
     0},
    {"qwen.tiktoken",
     151643,
     QWEN,
     {{151643, BPE_END_OF_TEXT}, {151644, "<|im_start|>"}, {151645, "<|im_end|>"}},
     {{151646, 205, 0, "<|extra_%d|>"}}, UTF8PROC_STABLE | UTF8PROC_COMPOSE}};
enum { N_ENCODINGS = sizeof ENCODINGS / sizeof *ENCODINGS, LONGEST_SPECIAL = 64 };

/* spelled: where each token's bytes are in `raw`, by its number; n 0: there is no such token. */
struct reader {
    struct bpe *b;
    const char *path;
    const struct encoding *e;
    char *raw;
    int64_t n_raw;
    struct { int64_t at, n; } *spelled;
};

static enum status refuse_line(const struct reader *r, int64_t line, const char *why) {
    return FAIL(E_FORMAT, "%s line %" PRId64 ": %s; a line of tiktoken's has a token in base64, a blank and its "
                          "number: get the file again",
                r->path, line, why);
}

/* ---- which encoding? ---- */

static int64_t count_lines(const char *at, const char *end) {
    int64_t n = 0;
    for (; at < end; n++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        at = stop ? stop + 1 : end;
    }
    return n;
}

static enum status find_encoding(struct reader *r, const struct data_map *map) {
    int64_t lines = map->at ? count_lines((const char *)map->at, (const char *)map->at + map->bytes) : 0;
    char known[512] = "";
    for (int i = 0; i < N_ENCODINGS; i++) {
        size_t n = strlen(known);
        if (ENCODINGS[i].lines == lines) r->e = &ENCODINGS[i];
        snprintf(known + n, sizeof known - n, "%s%s (%" PRId64 ")", i ? ", " : "", ENCODINGS[i].name,
                 ENCODINGS[i].lines);
    }
    return r->e ? OK
                : FAIL(E_FORMAT,
                       "%s has %" PRId64 " lines, which is none of tiktoken's encodings: %s; give a tokenizer.json, or "
                       "tokenize with that model's own program",
                       r->path, lines, known);
}

static int32_t tokens_of(const struct encoding *e) {
    int64_t n = e->lines;
    for (int i = 0; i < MOST_SPECIAL && e->special[i].text; i++) {
        n += e->special[i].token < e->lines;                    /* between the file's own: p50k_base */
        n = e->special[i].token >= n ? e->special[i].token + 1 : n;
    }
    for (int i = 0; i < MOST_COUNTED; i++)
        if (e->counted[i].token + e->counted[i].n > n) n = e->counted[i].token + e->counted[i].n;
    return (int32_t)n;
}

/* ---- spelling ---- */

static enum status spell(struct reader *r, int64_t token, const char *bytes, int64_t n) {
    if (r->spelled[token].n)
        return FAIL(E_FORMAT, "%s: token %" PRId64 " is there twice; get the file again", r->path, token);
    memcpy(r->raw + r->n_raw, bytes, (size_t)n);
    r->spelled[token].at = r->n_raw, r->spelled[token].n = n;
    r->n_raw += n;
    return OK;
}

static enum status read_line(struct reader *r, const char *at, size_t bytes, int64_t line) {
    const char *blank = memchr(at, ' ', bytes);
    size_t n = 0;
    int64_t token = 0;
    if (!blank || blank + 1 == at + bytes) return refuse_line(r, line, "it has no blank with a number behind it");
    for (const char *c = blank + 1; c < at + bytes && token < BPE_MOST_TOKENS; c++) {
        if (*c < '0' || *c > '9') return refuse_line(r, line, "its number is not one");
        token = 10 * token + (*c - '0');
    }
    if (token >= r->b->n_tokens) return refuse_line(r, line, "its number is beyond the encoding's");
    if (r->spelled[token].n) return refuse_line(r, line, "its number has been there before");
    char *out = r->raw + r->n_raw;
    if (sodium_base642bin((unsigned char *)out, bytes, at, (size_t)(blank - at), NULL, &n, NULL,
                          sodium_base64_VARIANT_ORIGINAL) != 0 ||
        n == 0)
        return refuse_line(r, line, "its token is not base64");
    r->spelled[token].at = r->n_raw, r->spelled[token].n = (int64_t)n;
    r->n_raw += (int64_t)n;
    return OK;
}

static enum status read_lines(struct reader *r, const struct data_map *map) {
    const char *at = (const char *)map->at, *end = at + map->bytes;
    for (int64_t line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        TRY(read_line(r, at, (size_t)((stop ? stop : end) - at), line));
        at = stop ? stop + 1 : end;
    }
    return OK;
}

static enum status spell_special(struct reader *r) {
    char text[LONGEST_SPECIAL];
    for (int i = 0; i < MOST_SPECIAL && r->e->special[i].text; i++)
        TRY(spell(r, r->e->special[i].token, r->e->special[i].text, (int64_t)strlen(r->e->special[i].text)));
    for (const struct counted *c = r->e->counted; c < r->e->counted + MOST_COUNTED; c++)
        for (int i = 0; i < c->n; i++) {
            int n = snprintf(text, sizeof text, c->text, c->first + i);
            TRY(spell(r, c->token + i, text, n));
        }
    return OK;
}

static enum status put_tokens(struct reader *r) {
    struct bpe *b = r->b;
    b->bytes = malloc((size_t)r->n_raw + 1);
    b->bytes_at = calloc((size_t)b->n_tokens + 1, sizeof *b->bytes_at);
    if (!b->bytes || !b->bytes_at) return FAIL(E_MEMORY, "no memory for %s; close other programs", r->path);
    for (int32_t id = 0; id < b->n_tokens; id++) {
        memcpy(b->bytes + b->bytes_at[id], r->raw + r->spelled[id].at, (size_t)r->spelled[id].n);
        b->bytes_at[id + 1] = b->bytes_at[id] + r->spelled[id].n;
    }
    return OK;
}

/* ---- special tokens, and merges by rank ---- */

static bool is_special(const struct encoding *e, int32_t token) {
    bool found = false;
    for (int i = 0; i < MOST_SPECIAL && e->special[i].text; i++) found |= e->special[i].token == token;
    for (const struct counted *c = e->counted; c < e->counted + MOST_COUNTED; c++)
        found |= token >= c->token && token < c->token + c->n;
    return found;
}

static enum status add_special(struct reader *r) {
    struct bpe *b = r->b;
    b->end_of_text = r->e->special[0].token;
    for (int32_t id = 0; id < b->n_tokens; id++)
        if (is_special(r->e, id)) TRY(bpe_add(b, id, false));
    bpe_sort_added(b);
    return OK;
}

static enum status index_tokens(struct reader *r) {
    struct bpe *b = r->b;
    b->whole = true;
    TRY(bpe_index_tokens(b, r->path));
    for (int32_t id = 0; id < b->n_tokens; id++)
        if (r->spelled[id].n && !is_special(r->e, id)) TRY(bpe_index_token(b, r->path, id));
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        b->byte_token[byte] = bpe_token_of(b, &c, 1);
        if (b->byte_token[byte] < 0)
            return FAIL(E_FORMAT, "%s has no token for the byte 0x%02x; get the file again", r->path, byte);
    }
    return OK;
}

static enum status add_merge(struct bpe *b, int64_t *room, struct bpe_merge m) {
    if (b->n_merges == *room) {
        *room = *room ? 2 * *room : 1 << 16;
        struct bpe_merge *more = realloc(b->merges, (size_t)*room * sizeof *more);
        if (!more) return FAIL(E_MEMORY, "no memory for %" PRId64 " merges; close other programs", *room);
        b->merges = more;
    }
    b->merges[b->n_merges++] = m;
    return OK;
}

/* Each way to put a token together from two others. */
static enum status add_merges(struct reader *r) {
    struct bpe *b = r->b;
    int64_t room = 0;
    for (int32_t id = 0; id < b->n_tokens; id++) {
        const char *bytes = b->bytes + b->bytes_at[id];
        for (int64_t k = 1, n = is_special(r->e, id) ? 0 : r->spelled[id].n; k < n; k++) {
            struct bpe_merge m = {bpe_token_of(b, bytes, k), bpe_token_of(b, bytes + k, n - k), id, id};
            if (m.left >= 0 && m.right >= 0) TRY(add_merge(b, &room, m));
        }
    }
    return bpe_index_merges(b, r->path);
}

/* ---- the file ---- */

static enum status read_file(struct reader *r, const struct data_map *map) {
    TRY(find_encoding(r, map));
    r->b->n_tokens = tokens_of(r->e);
    r->b->form = r->e->form;
    TRY(bpe_split_at(r->b, r->path, r->e->pattern));
    r->raw = malloc((size_t)map->bytes + (size_t)(r->b->n_tokens - r->e->lines + MOST_SPECIAL) * LONGEST_SPECIAL);
    r->spelled = calloc((size_t)r->b->n_tokens, sizeof *r->spelled);
    if (!r->raw || !r->spelled) return FAIL(E_MEMORY, "no memory for %s; close other programs", r->path);
    TRY(read_lines(r, map));
    TRY(spell_special(r));
    TRY(put_tokens(r));
    TRY(index_tokens(r));
    TRY(add_merges(r));
    return add_special(r);
}

enum status bpe_read_tiktoken(struct bpe *b, const char *path) {
    struct reader r = {.b = b, .path = path};
    struct data_map map = {0};
    enum status status = data_map(path, "--tokenizer", &map);
    if (status == OK) status = read_file(&r, &map);
    data_unmap(&map);
    free(r.raw), free(r.spelled);
    return status;
}
