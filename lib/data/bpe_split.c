/* Cutting a text into pieces: at the matches of patterns, one pattern after the other, by PCRE2. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/data/bpe_private.h"

#include <ctype.h>
#include <inttypes.h>
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

/* ---- the dialect: a published pattern in PCRE2's words, or refused ----
 * tokenizer.json is written for Oniguruma, tiktoken's patterns for Rust's regex. In PCRE2 \s also matches U+180E, in
 * some versions; \w, \h and \v differ; `{1,3}+` is possessive there and in Rust, and a repetition in Oniguruma. */

#define SPACES "\\t-\\r \\x85\\xA0\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
enum { MOST_REGEX = 1 << 14, LONGEST_WORD = 192 };
struct regex { const char *path, *whole, *at; char *out; size_t n; bool in_class; };

static void put(struct regex *r, const char *words, size_t n) {
    memcpy(r->out + r->n, words, n);
    r->n += n;
}
static void put_class(struct regex *r, const char *inverse, const char *inside) {
    if (!r->in_class) put(r, "[", 1), put(r, inverse, strlen(inverse));
    put(r, inside, strlen(inside));
    if (!r->in_class) put(r, "]", 1);
}
static enum status refuse_part(const struct regex *r, size_t n) {
    return FAIL(E_FORMAT,
                "%s: a pattern has \"%.*s\" at character %td, which is not read here; tokenize with that model's own "
                "program, and give --data its tokens (--data-format u16, u32 or npy)",
                r->path, (int)n, r->at, r->at - r->whole + 1);
}

static enum status escape(struct regex *r) {
    char c = r->at[1];
    size_t n = 2;
    if (c == 's') put_class(r, "", SPACES);
    else if (c == 'S' && !r->in_class) put_class(r, "^", SPACES);
    else if (c == 'd') put(r, "\\p{Nd}", 6);
    else if ((c == 'p' || c == 'P') && r->at[2] == '{') {
        n = 3 + strspn(r->at + 3, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_") + 1;
        if (n > 64 || r->at[n - 1] != '}') return refuse_part(r, 3);
        put(r, r->at, n);
    } else if (c && (strchr("rntf", c) || ispunct((unsigned char)c))) put(r, r->at, 2);
    else return refuse_part(r, c ? 2 : 1);
    r->at += n;
    return OK;
}

/* A group: one that captures nothing, looks ahead or behind, or ignores case. */
static enum status group(struct regex *r) {
    static const char *const known[] = {"(?:", "(?=", "(?!", "(?i:", "(?<=", "(?<!"};
    size_t n = r->at[1] == '?' ? 0 : 1;
    for (size_t i = 0; !n && i < sizeof known / sizeof *known; i++)
        if (!strncmp(r->at, known[i], strlen(known[i]))) n = strlen(known[i]);
    if (!n) return refuse_part(r, 3);
    put(r, r->at, n);
    r->at += n;
    return OK;
}

static enum status class_or_count(struct regex *r) {
    size_t n = 1;
    if (*r->at == '[') {
        n += r->at[1] == '^';
        if (r->at[n] == ']') return refuse_part(r, n + 1);
        r->in_class = true;
    } else {
        n = strspn(r->at + 1, "0123456789,") + 2;
        if (n > 32 || r->at[n - 1] != '}' || r->at[n] == '+') return refuse_part(r, n > 32 ? 1 : n + 1);
    }
    put(r, r->at, n);
    r->at += n;
    return OK;
}

static enum status one_part(struct regex *r) {
    char c = *r->at;
    if (c == '\\') return escape(r);
    if (r->in_class) {
        if (c == '[' || (c == '&' && r->at[1] == '&')) return refuse_part(r, 1);
        r->in_class = c != ']';
    } else {
        if (c == '(') return group(r);
        if (c == '[' || c == '{') return class_or_count(r);
        if (c == '^' || c == '$') return refuse_part(r, 1);
    }
    put(r, r->at++, 1);
    return OK;
}

static enum status translate(const char *path, const char *regex, char *out, size_t room, size_t *n) {
    struct regex r = {.path = path, .whole = regex, .at = regex, .out = out};
    while (*r.at) {
        if (r.n + LONGEST_WORD > room)
            return FAIL(E_FORMAT, "%s: a pattern has more than %d bytes, the limit; is it a tokenizer's?", path,
                        MOST_REGEX - LONGEST_WORD);
        TRY(one_part(&r));
    }
    *n = r.n;
    return OK;
}

/* ---- steps ---- */

static enum status more_steps(const struct bpe *b, const char *path) {
    return b->n_steps < BPE_MOST_STEPS ? OK
                                       : FAIL(E_FORMAT, "%s: text is cut in more than %d steps, the limit; is it a "
                                                        "tokenizer?",
                                              path, BPE_MOST_STEPS);
}

static enum status compile(const char *path, const char *pattern, size_t n, struct bpe_step *s) {
    int code;
    uint32_t matches_empty = 0;
    PCRE2_SIZE at;
    s->pattern = pcre2_compile((PCRE2_SPTR)pattern, n, PCRE2_UTF, &code, &at, NULL);
    if (!s->pattern) {
        char why[128] = "";
        pcre2_get_error_message(code, (PCRE2_UCHAR *)why, sizeof why);
        return FAIL(E_FORMAT, "%s: PCRE2 does not read the pattern \"%.*s\" at character %zu: %s; get the file again",
                    path, n < 400 ? (int)n : 400, pattern, at, why);
    }
    (void)pcre2_jit_compile(s->pattern, PCRE2_JIT_COMPLETE);    /* without JIT, matches are the same but slower */
    pcre2_pattern_info(s->pattern, PCRE2_INFO_MATCHEMPTY, &matches_empty);
    if (matches_empty && n > 0)
        return FAIL(E_FORMAT, "%s: the pattern \"%.*s\" matches an empty text, where nothing can be cut; get the file "
                              "again",
                    path, n < 400 ? (int)n : 400, pattern);
    s->match = pcre2_match_data_create_from_pattern(s->pattern, NULL);
    return s->match ? OK : FAIL(E_MEMORY, "no memory for the tokenizer; close other programs");
}

enum status bpe_split_at(struct bpe *b, const char *path, const char *regex) {
    char pattern[MOST_REGEX];
    size_t n = 0;
    TRY(more_steps(b, path));
    TRY(translate(path, regex, pattern, sizeof pattern, &n));
    return compile(path, pattern, n, &b->steps[b->n_steps++]);
}

enum status bpe_split_blank(struct bpe *b, const char *path) {
    TRY(more_steps(b, path));
    b->n_steps++;
    return OK;
}

void bpe_split_close(struct bpe *b) {
    for (int i = 0; i < b->n_steps; i++) {
        pcre2_match_data_free(b->steps[i].match);
        pcre2_code_free(b->steps[i].pattern);
        free(b->steps[i].room);
    }
    pcre2_match_data_free(b->empty_match);
    pcre2_code_free(b->empty);
}

enum status bpe_new(struct bpe **out) {
    struct bpe *b = *out = calloc(1, sizeof *b);
    struct bpe_step any = {0};
    if (!b) return FAIL(E_MEMORY, "no memory for a tokenizer; close other programs");
    b->end_of_text = -1;
    enum status status = compile("PCRE2", "", 0, &any);
    b->empty = any.pattern, b->empty_match = any.match;
    return status;
}

/* ---- a text ---- */

/* PCRE2 validates the whole text before it matches, and returns the place of the first invalid byte. */
int64_t bpe_split_valid(const struct bpe *b, const char *text, int64_t bytes) {
    int code = pcre2_match(b->empty, (PCRE2_SPTR)text, (PCRE2_SIZE)bytes, 0, PCRE2_ANCHORED, b->empty_match, NULL);
    bool refused = code <= PCRE2_ERROR_UTF8_ERR1 && code >= PCRE2_ERROR_UTF8_ERR21;
    return refused ? (int64_t)pcre2_get_startchar(b->empty_match) : bytes;
}

/* The next match at `at` or later: text[from..to); behind the last one, from and to are `bytes`. */
static enum status next_match(const struct bpe_step *s, const char *text, int64_t bytes, int64_t at, int64_t *from,
                              int64_t *to) {
    PCRE2_SPTR subject = (PCRE2_SPTR)text;
    PCRE2_SIZE n = (PCRE2_SIZE)bytes, start = (PCRE2_SIZE)at;
    int code = pcre2_match(s->pattern, subject, n, start, PCRE2_NO_UTF_CHECK, s->match, NULL);
    if (code == PCRE2_ERROR_JIT_STACKLIMIT)                    /* the interpreter takes memory from the heap */
        code = pcre2_match(s->pattern, subject, n, start, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, s->match, NULL);
    *from = *to = bytes;
    if (code == PCRE2_ERROR_NOMATCH) return OK;
    if (code < 1)
        return FAIL(E_DATA, "PCRE2 gives up (error %d) at byte %" PRId64 " of a piece of %" PRId64 " bytes of text; is "
                            "it text?",
                    code, at, bytes);
    *from = (int64_t)pcre2_get_ovector_pointer(s->match)[0];
    *to = (int64_t)pcre2_get_ovector_pointer(s->match)[1];
    return OK;
}

static enum status put_blank(struct bpe_step *s, const char **text, int64_t *bytes) {
    if (**text == ' ') return OK;
    if (s->bytes <= *bytes) {
        char *room = realloc(s->room, (size_t)(2 * (*bytes + 1)));
        if (!room) return FAIL(E_MEMORY, "no memory to tokenize %" PRId64 " bytes; close other programs", *bytes);
        s->room = room, s->bytes = 2 * (*bytes + 1);
    }
    s->room[0] = ' ';
    memcpy(s->room + 1, *text, (size_t)*bytes);
    *text = s->room, *bytes += 1;
    return OK;
}

static enum status cut(struct bpe *b, int step, const char *text, int64_t bytes, bpe_take *take, void *self) {
    if (bytes == 0) return OK;
    if (step == b->n_steps) return take(self, text, bytes);
    struct bpe_step *s = &b->steps[step];
    if (!s->pattern) {
        TRY(put_blank(s, &text, &bytes));
        return cut(b, step + 1, text, bytes, take, self);
    }
    for (int64_t at = 0, from, to; at < bytes; at = to) {
        TRY(next_match(s, text, bytes, at, &from, &to));
        TRY(cut(b, step + 1, text + at, from - at, take, self));
        TRY(cut(b, step + 1, text + from, to - from, take, self));
    }
    return OK;
}

enum status bpe_split(struct bpe *b, const char *text, int64_t bytes, bpe_take *take, void *self) {
    return cut(b, 0, text, bytes, take, self);
}
