/* GPT-2's pattern, matched by PCRE2. SPACES lists Unicode's white space, because some versions of PCRE2 also match
 * U+180E with \s. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/data/bpe_private.h"

#include <pcre2.h>

#define SPACES "\\t-\\r \\x85\\xA0\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}"
static const char PATTERN[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACES "\\p{L}\\p{N}]+|[" SPACES
                              "]+(?![^" SPACES "])|[" SPACES "]+";

enum status bpe_split_open(struct bpe *b) {
    int code;
    PCRE2_SIZE at;
    pcre2_code *pattern = b->pattern =
        pcre2_compile((PCRE2_SPTR)PATTERN, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_ANCHORED, &code, &at, NULL);
    if (!pattern)
        return FAIL(E_INTERNAL,
                    "PCRE2 refuses GPT-2's pattern: error %d at character %zu; it must be built with Unicode", code,
                    at);
    (void)pcre2_jit_compile(pattern, PCRE2_JIT_COMPLETE);      /* without JIT, matches are the same but slower */
    b->match = pcre2_match_data_create_from_pattern(pattern, NULL);
    return b->match ? OK : FAIL(E_MEMORY, "no memory for the tokenizer; close other programs");
}

void bpe_split_close(struct bpe *b) {
    pcre2_match_data_free(b->match);
    pcre2_code_free(b->pattern);
}

/* PCRE2 validates the whole text before it matches, and returns the place of the first invalid byte. */
int64_t bpe_split_valid(const struct bpe *b, const char *text, int64_t bytes) {
    int code = pcre2_match(b->pattern, (PCRE2_SPTR)text, (PCRE2_SIZE)bytes, 0, 0, b->match, NULL);
    bool refused = code <= PCRE2_ERROR_UTF8_ERR1 && code >= PCRE2_ERROR_UTF8_ERR21;
    return refused ? (int64_t)pcre2_get_startchar(b->match) : bytes;
}

enum status bpe_split_next(const struct bpe *b, const char *text, int64_t bytes, int64_t *piece) {
    int code = pcre2_match(b->pattern, (PCRE2_SPTR)text, (PCRE2_SIZE)bytes, 0, PCRE2_NO_UTF_CHECK, b->match, NULL);
    if (code < 1) return FAIL(E_INTERNAL, "PCRE2 cannot match GPT-2's pattern: error %d; please report this", code);
    *piece = (int64_t)pcre2_get_ovector_pointer(b->match)[1];
    return OK;
}
