/* parses: lib/base lib/data */
/* A tokenizer's files and a text, with zero bytes between: vocab.json after the 256 tokens of one byte
 * (without those no mutation would be a vocabulary), merges.txt, and the text. The text's tokens must decode to its
 * bytes. A second part that begins with a brace is what a tokenizer.json has behind its model; then a normal form or a
 * blank may change the text, and its tokens need only exist. */
#include "lib/data/bpe.h"
#include "tests/fuzz/fuzz.h"
#include <stdlib.h>
#include <string.h>

/* Write {"!": 0, ... , with the letters of bpe.h; the caller's text and the brace follow. */
static size_t write_bytes_as_letters(char *out, size_t room) {
    size_t n = (size_t)snprintf(out, room, "{");
    for (int byte = 0, next = 256; byte < 256; byte++) {
        bool itself = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
        n += (size_t)snprintf(out + n, room - n, "%s\"\\u%04x\": %d", byte ? ", " : "", itself ? byte : next++, byte);
    }
    return n;
}

struct decoded { const struct bpe *b; const char *at; int64_t left; };

static enum status compare(void *self, const int32_t *tokens, int64_t n) {
    struct decoded *d = self;
    MUST(n > 0);
    for (int64_t i = 0; i < n; i++) {
        int64_t bytes;
        const char *token = bpe_token(d->b, tokens[i], &bytes);
        MUST(token && bytes > 0 && bytes <= d->left && !memcmp(token, d->at, (size_t)bytes));
        d->at += bytes;
        d->left -= bytes;
    }
    return OK;
}

static enum status exist(void *self, const int32_t *tokens, int64_t n) {
    struct decoded *d = self;
    MUST(n > 0);
    for (int64_t i = 0, bytes; i < n; i++) MUST(bpe_token(d->b, tokens[i], &bytes) && bytes > 0);
    return OK;
}

static size_t part_end(const uint8_t *at, size_t left) {
    const uint8_t *zero = memchr(at, 0, left);
    return zero ? (size_t)(zero - at) : left;
}

/* vocab: {"!": 0, ...}. merges: merges.txt, or the keys of a tokenizer.json. */
static enum status open_files(const char *vocab, size_t n_vocab, const uint8_t *merges, size_t n_merges,
                              struct bpe **b) {
    char vocab_path[128], merges_path[128];
    snprintf(vocab_path, sizeof vocab_path, "%s/tokenizer.json", fuzz_folder());
    snprintf(merges_path, sizeof merges_path, "%s/merges.txt", fuzz_folder());
    if (n_merges == 0 || merges[0] != '{') {
        fuzz_write("tokenizer.json", vocab, n_vocab);
        fuzz_write("merges.txt", merges, n_merges);
        return bpe_open(vocab_path, merges_path, b);
    }
    static const char before[] = "{\"model\": {\"vocab\": ", behind[] = ", \"merges\": [\"a b\", [\"ab\", \"c\"]]}, ";
    size_t n = 0;
    char *json = malloc(sizeof before + sizeof behind + n_vocab + n_merges);
    MUST(json);
    memcpy(json, before, n = sizeof before - 1);
    memcpy(json + n, vocab, n_vocab), n += n_vocab;
    memcpy(json + n, behind, sizeof behind - 1), n += sizeof behind - 1;
    memcpy(json + n, merges + 1, n_merges - 1), n += n_merges - 1;
    fuzz_write("tokenizer.json", json, n);
    free(json);
    return bpe_open_folder(vocab_path, b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char letters[8192];
    static size_t n_letters;
    if (!n_letters) n_letters = write_bytes_as_letters(letters, sizeof letters);
    size_t more = part_end(data, size), merges_at = more + (more < size),
           merges = part_end(data + merges_at, size - merges_at);
    size_t text_at = merges_at + merges + (merges_at + merges < size);
    bool keys = merges > 0 && data[merges_at] == '{';
    char *vocab = malloc(n_letters + more + 1);
    MUST(vocab);
    memcpy(vocab, letters, n_letters);
    memcpy(vocab + n_letters, data, more);
    vocab[n_letters + more] = '}';
    struct bpe *b;
    enum status status = open_files(vocab, n_letters + more + 1, data + merges_at, merges, &b);
    free(vocab);
    MUST(status == OK ? b != NULL : status == E_FORMAT && !b);
    if (status != OK) return 0;
    char *text = malloc(size - text_at); /* of its size, so that a read beyond it is noticed */
    MUST((text || size == text_at) && bpe_n_tokens(b) >= 256 && bpe_end_of_text(b) < bpe_n_tokens(b));
    if (size > text_at) memcpy(text, data + text_at, size - text_at);
    struct decoded d = {b, text, (int64_t)(size - text_at)};
    status = bpe_encode(b, text, d.left, keys ? exist : compare, &d);
    MUST(status == OK || (keys && status == E_DATA));          /* PCRE2 gives a pattern up */
    MUST(keys || d.left == 0);
    free(text);
    bpe_close(&b);
    return 0;
}
