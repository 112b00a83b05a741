/* Encoding: find added tokens, bring the text to its normal form, cut it into pieces, merge the bytes of each piece.
 * Decoding: table lookup. */
#include "lib/data/bpe_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>
#include <xxhash.h>

enum { MOST_PIECE = 1 << 30 };

/* ---- hash tables with open addressing, at most half full: of merges by their pair, of tokens by their bytes ---- */

static uint64_t slots_for(int64_t n) {
    uint64_t slots = 2;
    while (slots < 2 * (uint64_t)n) slots *= 2;
    return slots;
}

static int32_t *free_slots(uint64_t n) {
    int32_t *slots = malloc(n * sizeof *slots);
    for (uint64_t s = 0; slots && s < n; s++) slots[s] = -1;
    return slots;
}

static uint64_t slot_of(const struct bpe *b, int32_t left, int32_t right) {
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    key = (key ^ key >> 31) * UINT64_C(0x9E3779B97F4A7C15);
    return (key ^ key >> 29) & (b->n_slots - 1);
}

int32_t bpe_pair(const struct bpe *b, int32_t left, int32_t right) {
    for (uint64_t s = slot_of(b, left, right);; s = (s + 1) & (b->n_slots - 1)) {
        int32_t i = b->slots[s];
        if (i < 0 || (b->merges[i].left == left && b->merges[i].right == right)) return i;
    }
}

enum status bpe_index_merges(struct bpe *b, const char *path) {
    b->n_slots = slots_for(b->n_merges);
    b->slots = free_slots(b->n_slots);
    if (!b->slots) return FAIL(E_MEMORY, "no memory for the %d merges of %s; close other programs", b->n_merges, path);
    for (int32_t i = 0; i < b->n_merges; i++) {
        const struct bpe_merge *m = &b->merges[i];
        int32_t before = bpe_pair(b, m->left, m->right);
        if (before >= 0)
            return FAIL(E_FORMAT, "%s: merges %d and %d are the same pair; each has one rank: get the file again", path,
                        before + 1, i + 1);
        uint64_t s = slot_of(b, m->left, m->right);
        while (b->slots[s] >= 0) s = (s + 1) & (b->n_slots - 1);
        b->slots[s] = i;
    }
    return OK;
}

/* The slot of the token with these bytes, or the free one where it would be. */
static uint64_t slot_of_bytes(const struct bpe *b, const char *bytes, int64_t n) {
    uint64_t s = XXH3_64bits(bytes, (size_t)n) & (b->n_by_bytes - 1);
    for (;; s = (s + 1) & (b->n_by_bytes - 1)) {
        int32_t id = b->by_bytes[s];
        if (id < 0) return s;
        if (b->bytes_at[id + 1] - b->bytes_at[id] == n && !memcmp(b->bytes + b->bytes_at[id], bytes, (size_t)n))
            return s;
    }
}

int32_t bpe_token_of(const struct bpe *b, const char *bytes, int64_t n) {
    return b->by_bytes[slot_of_bytes(b, bytes, n)];
}

enum status bpe_index_tokens(struct bpe *b, const char *path) {
    b->n_by_bytes = slots_for(b->n_tokens);
    b->by_bytes = free_slots(b->n_by_bytes);
    return b->by_bytes ? OK : FAIL(E_MEMORY, "no memory for the tokens of %s; close other programs", path);
}

enum status bpe_index_token(struct bpe *b, const char *path, int32_t id) {
    int64_t at = b->bytes_at[id];
    uint64_t s = slot_of_bytes(b, b->bytes + at, b->bytes_at[id + 1] - at);
    if (b->by_bytes[s] >= 0)
        return FAIL(E_FORMAT, "%s: tokens %d and %d have the same bytes; get the file again", path, b->by_bytes[s], id);
    b->by_bytes[s] = id;
    return OK;
}

/* ---- a queue of pairs that can be merged: a binary heap of order * 2^32 + place, smallest first ---- */

static void push(uint64_t *heap, int64_t *n, uint64_t x) {
    int64_t i = (*n)++;
    for (; i > 0 && heap[(i - 1) / 2] > x; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = x;
}

static uint64_t pop(uint64_t *heap, int64_t *n) {
    uint64_t top = heap[0], x = heap[--*n];
    int64_t i = 0;
    for (int64_t child; (child = 2 * i + 1) < *n; i = child) {
        if (child + 1 < *n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= x) break;
        heap[i] = heap[child];
    }
    heap[i] = x;
    return top;
}

/* ---- a piece ---- */

static enum status make_room(struct bpe *b, int64_t n) {
    if (n <= b->room) return OK;
    if (n > MOST_PIECE)
        return FAIL(E_DATA, "%" PRId64 " bytes of text without a place to split it, and the limit is %d; is it text?",
                    n, MOST_PIECE);
    free(b->symbols), free(b->heap), free(b->tokens);
    b->room = 0;
    b->symbols = malloc((size_t)(2 * n) * sizeof *b->symbols);
    b->heap = malloc((size_t)(2 * n) * 3 * sizeof *b->heap);     /* n - 1 pairs; each of n - 1 merges adds two */
    b->tokens = malloc((size_t)(2 * n) * sizeof *b->tokens);
    if (!b->symbols || !b->heap || !b->tokens)
        return FAIL(E_MEMORY, "no memory to tokenize %" PRId64 " bytes in one piece; close other programs", n);
    b->room = 2 * n;
    return OK;
}

static void queue_pair(struct bpe *b, int64_t *n, int32_t left) {
    int32_t right = left < 0 ? -1 : b->symbols[left].after;
    if (right < 0) return;
    int32_t i = bpe_pair(b, b->symbols[left].token, b->symbols[right].token);
    if (i >= 0) push(b->heap, n, (uint64_t)(uint32_t)b->merges[i].order << 32 | (uint32_t)left);
}

/* What a queued pair merges to, or NULL: another merge may have changed one of its two symbols. */
static const struct bpe_merge *still_there(const struct bpe *b, uint64_t queued) {
    const struct bpe_symbol *left = &b->symbols[(uint32_t)queued];
    int32_t i = left->token < 0 || left->after < 0 ? -1 : bpe_pair(b, left->token, b->symbols[left->after].token);
    return i >= 0 && b->merges[i].order == (int32_t)(queued >> 32) ? &b->merges[i] : NULL;
}

static void merge(struct bpe *b, int64_t *n, int32_t merged, int32_t left) {
    struct bpe_symbol *s = b->symbols, *gone = &s[s[left].after];
    s[left].token = merged;
    s[left].after = gone->after;
    if (gone->after >= 0) s[gone->after].before = left;
    gone->token = -1;
    queue_pair(b, n, s[left].before);
    queue_pair(b, n, left);
}

/* What an encoding passes down. */
struct flow { struct bpe *b; bpe_sink *sink; void *self; };

static enum status encode_piece(void *self, const char *text, int64_t bytes) {
    struct flow *f = self;
    struct bpe *b = f->b;
    int64_t n_queued = 0, n = 0;
    int32_t whole = b->whole ? bpe_token_of(b, text, bytes) : -1;
    if (whole >= 0) return f->sink(f->self, &whole, 1);
    TRY(make_room(b, bytes));
    for (int32_t i = 0; i < bytes; i++)
        b->symbols[i] = (struct bpe_symbol){b->byte_token[(unsigned char)text[i]], i - 1, i + 1 < bytes ? i + 1 : -1};
    for (int32_t i = 0; i < bytes; i++) queue_pair(b, &n_queued, i);
    while (n_queued > 0) {
        uint64_t next = pop(b->heap, &n_queued);
        const struct bpe_merge *m = still_there(b, next);
        if (m) merge(b, &n_queued, m->merged, (int32_t)(uint32_t)next);
    }
    for (int32_t i = 0; i >= 0; i = b->symbols[i].after) b->tokens[n++] = b->symbols[i].token;
    return f->sink(f->self, b->tokens, n);
}

/* ---- added tokens ---- */

enum status bpe_add(struct bpe *b, int32_t token, bool normalized) {
    struct bpe_added *more = realloc(b->added, (size_t)(b->n_added + 1) * sizeof *more);
    if (!more) return FAIL(E_MEMORY, "no memory for the tokenizer; close other programs");
    b->added = more;
    more[b->n_added++] = (struct bpe_added){b->bytes + b->bytes_at[token],
                                            b->bytes_at[token + 1] - b->bytes_at[token], token, normalized};
    return OK;
}

static int by_start(const void *left, const void *right) {
    const struct bpe_added *a = left, *c = right;
    if (a->normalized != c->normalized) return a->normalized ? 1 : -1;
    if (*a->text != *c->text) return (unsigned char)*a->text - (unsigned char)*c->text;
    return a->bytes != c->bytes ? (a->bytes < c->bytes) - (a->bytes > c->bytes) : memcmp(a->text, c->text, a->bytes);
}

void bpe_sort_added(struct bpe *b) {
    int32_t at = 0;
    if (b->n_added) qsort(b->added, (size_t)b->n_added, sizeof *b->added, by_start);
    for (int normalized = 0; normalized < 2; normalized++)
        for (int byte = 0; byte < 257; byte++) {
            b->first_added[normalized][byte] = at;
            while (byte < 256 && at < b->n_added && b->added[at].normalized == normalized &&
                   (unsigned char)*b->added[at].text == byte) at++;
        }
}

/* The first place of text[0..bytes) where an added token stands, and the longest one there; else `bytes`. */
static int64_t find_added(const struct bpe *b, bool normalized, const char *text, int64_t bytes,
                          const struct bpe_added **found) {
    const int32_t *first = b->first_added[normalized];
    if (first[0] == first[256]) return bytes;
    for (int64_t at = 0; at < bytes; at++) {
        unsigned char byte = (unsigned char)text[at];
        for (int32_t i = first[byte]; i < first[byte + 1]; i++) {
            *found = &b->added[i];
            if ((*found)->bytes <= bytes - at && !memcmp((*found)->text, text + at, (size_t)(*found)->bytes)) return at;
        }
    }
    return bytes;
}

/* Cut text at added tokens of one kind, and pass what is between them to `next`. */
static enum status between_added(struct flow *f, bool normalized, const char *text, int64_t bytes, bpe_take *next) {
    while (bytes > 0) {
        const struct bpe_added *found = NULL;
        int64_t n = find_added(f->b, normalized, text, bytes, &found);
        if (n > 0) TRY(next(f, text, n));
        text += n, bytes -= n;
        if (bytes == 0) break;
        TRY(f->sink(f->self, &found->token, 1));
        text += found->bytes, bytes -= found->bytes;
    }
    return OK;
}

/* ---- a text ---- */

static enum status encode_normal(void *self, const char *text, int64_t bytes) {
    struct flow *f = self;
    return bpe_split(f->b, text, bytes, encode_piece, f);
}

/* Append the normal form of a line to out[0..*n), which has room for it as it is. */
static enum status append_line(const struct bpe *b, const char *line, int64_t bytes, char **out, int64_t *n) {
    utf8proc_uint8_t *form = NULL;
    utf8proc_ssize_t more = utf8proc_map((const utf8proc_uint8_t *)line, bytes, &form, (utf8proc_option_t)b->form);
    char *grown = more <= bytes ? *out : realloc(*out, (size_t)(*n + more + 1));
    if (more >= 0 && grown) {
        *out = grown;
        memcpy(grown + *n, form, (size_t)more);
        *n += more;
    }
    free(form);
    return more >= 0 && grown ? OK : FAIL(E_MEMORY, "no memory for the normal form of a text; close other programs");
}

static bool is_ascii(const char *text, int64_t bytes) {
    int64_t n = 0;
    while (n < bytes && (signed char)text[n] >= 0) n++;
    return n == bytes;
}

/* The normal form of a text, line by line: no letter composes with a newline. */
static enum status normal_form(const struct bpe *b, const char *text, int64_t bytes, char **out, int64_t *n) {
    const char *end = text + bytes;
    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        int64_t line = (stop ? stop + 1 : end) - text;
        char *grown = realloc(*out, (size_t)(*n + line + 1));
        if (!grown) return FAIL(E_MEMORY, "no memory for the normal form of a text; close other programs");
        *out = grown;
        if (is_ascii(text, line)) memcpy(grown + *n, text, (size_t)line), *n += line;
        else TRY(append_line(b, text, line, out, n));
        text += line;
    }
    return OK;
}

/* Text in UTF-8. */
static enum status encode_valid(struct flow *f, const char *text, int64_t bytes) {
    if (!f->b->form || is_ascii(text, bytes)) return between_added(f, true, text, bytes, encode_normal);
    char *form = NULL;
    int64_t n = 0;
    enum status status = normal_form(f->b, text, bytes, &form, &n);
    if (status == OK) status = between_added(f, true, form, n, encode_normal);
    free(form);
    return status;
}

/* The number of bytes before the next valid UTF-8; text[0] must be invalid. */
static int64_t invalid_run(const struct bpe *b, const char *text, int64_t bytes) {
    int64_t n = 1;
    while (n < bytes && bpe_split_valid(b, text + n, bytes - n) == 0) n++;
    return n;
}

static enum status encode_plain(void *self, const char *text, int64_t bytes) {
    struct flow *f = self;
    while (bytes > 0) {
        int64_t n = bpe_split_valid(f->b, text, bytes);
        if (n > 0) TRY(encode_valid(f, text, n));
        text += n, bytes -= n;
        n = bytes > 0 ? invalid_run(f->b, text, bytes) : 0;
        if (n > 0) TRY(encode_piece(f, text, n));
        text += n, bytes -= n;
    }
    return OK;
}

enum status bpe_encode(struct bpe *b, const char *text, int64_t bytes, bpe_sink *sink, void *self) {
    struct flow f = {b, sink, self};
    if (b->library) return b->library->encode(b, text, bytes, sink, self);
    return between_added(&f, false, text, bytes, encode_plain);
}

/* ---- asking ---- */

int32_t bpe_n_tokens(const struct bpe *b) { return b->n_tokens; }
int32_t bpe_end_of_text(const struct bpe *b) { return b->end_of_text; }

const char *bpe_token(const struct bpe *b, int64_t token, int64_t *bytes) {
    if (token < 0 || token >= b->n_tokens) return NULL;
    *bytes = b->bytes_at[token + 1] - b->bytes_at[token];
    return b->bytes + b->bytes_at[token];
}
