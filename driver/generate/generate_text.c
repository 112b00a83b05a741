#include "driver/generate/generate_text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The vocabulary of text without a tokenizer (lib/data): each byte is a token. */
enum { BYTES = 256 };

static enum status tokens_new(size_t most, int32_t **tokens) {
    *tokens = malloc((most + 1) * sizeof **tokens);
    return *tokens ? OK : FAIL(E_MEMORY, "no memory for %zu tokens", most);
}

struct encoded { int32_t *tokens; int64_t n; };

static enum status append(void *self, const int32_t *tokens, int64_t n) {
    struct encoded *e = self;
    memcpy(e->tokens + e->n, tokens, (size_t)n * sizeof *tokens);    /* a text has at most as many tokens as bytes */
    e->n += n;
    return OK;
}

static enum status encode_by_bpe(const char *text, int64_t vocab, struct bpe *bpe, int32_t *tokens, int64_t *n) {
    struct encoded e = {tokens, 0};
    if (bpe_n_tokens(bpe) > vocab)
        return FAIL(E_CONFIG,
                    "tokenizer: it has %" PRId32 " tokens, and the model vocab=%" PRId64
                    "; give the tokenizer that the model was trained with", bpe_n_tokens(bpe), vocab);
    TRY(bpe_encode(bpe, text, (int64_t)strlen(text), append, &e));
    *n = e.n;
    return OK;
}

enum status text_encode(const char *text, int64_t vocab, struct bpe *bpe, int32_t **tokens, int64_t *n) {
    *tokens = NULL;
    if (!bpe && vocab != BYTES)
        return FAIL(E_CONFIG,
                    "prompt: the model has vocab=%" PRId64
                    ", so its tokens are not the text's bytes; give its --tokenizer, or numbers with --prompt-tokens",
                    vocab);
    TRY(tokens_new(strlen(text), tokens));
    if (bpe) return encode_by_bpe(text, vocab, bpe, *tokens, n);
    for (*n = 0; text[*n]; ++*n) (*tokens)[*n] = (unsigned char)text[*n];
    return OK;
}

enum status text_read_tokens(const char *list, int64_t vocab, int32_t **tokens, int64_t *n) {
    TRY(tokens_new(strlen(list), tokens));
    *n = 0;
    for (const char *at = list, *next = NULL; !next || *at; at = next) {
        char *end;
        errno = 0;
        long long token = strtoll(at, &end, 10);
        if (end == at || errno || (*end && *end != ',') || (*end && !end[1]))
            return FAIL(E_USAGE, "prompt-tokens: \"%.32s\" is not a list of numbers; write it as 1,2,3", at);
        if (token < 0 || token >= vocab)
            return FAIL(E_CONFIG, "prompt-tokens: %lld is not in the vocabulary, 0 to %" PRId64, token, vocab - 1);
        (*tokens)[(*n)++] = (int32_t)token;
        next = *end ? end + 1 : end;
    }
    return OK;
}

static bool is_control(unsigned char c) { return (c < ' ' && c != '\n' && c != '\t') || c == 127; }

static bool print_bytes(FILE *to, const char *bytes, int64_t n, bool escape) {
    for (int64_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if ((escape && is_control(c) ? fprintf(to, "\\x%02x", c) : putc(c, to)) == EOF) return false;
    }
    return !ferror(to);
}

enum status text_print(FILE *to, int32_t token, int64_t vocab, const struct bpe *bpe, bool escape) {
    int64_t bytes = 1;
    const char byte = (char)token;
    const char *said = !bpe && vocab == BYTES ? &byte : NULL;
    if (bpe) said = bpe_token(bpe, token, &bytes);                 /* NULL: the model has more tokens than bpe */
    bool written = said ? print_bytes(to, said, bytes, escape) : fprintf(to, "%" PRId32 " ", token) > 0;
    if (!written || fflush(to) != 0) return FAIL(E_IO, "writing the text: %s", strerror(errno));
    return OK;
}
