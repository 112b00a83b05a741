#define _GNU_SOURCE /* memmem */
/* Encoding: cut text at <|endoftext|>, then into pieces, and merge the bytes of each piece. Decoding: table lookup. */
#include "lib/data/bpe_private.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PIECE = 1 << 30 };
static const char END_OF_TEXT[] = BPE_END_OF_TEXT;

/* ---- the ranks of pairs: a hash table with open addressing, at most half full ---- */

static uint64_t slot_of(const struct bpe *b, int32_t left, int32_t right) {
    uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    key = (key ^ key >> 31) * UINT64_C(0x9E3779B97F4A7C15);
    return (key ^ key >> 29) & (b->n_slots - 1);
}

int32_t bpe_rank(const struct bpe *b, int32_t left, int32_t right) {
    for (uint64_t s = slot_of(b, left, right);; s = (s + 1) & (b->n_slots - 1)) {
        int32_t rank = b->slots[s];
        if (rank < 0 || (b->merges[rank].left == left && b->merges[rank].right == right)) return rank;
    }
}

enum status bpe_index_merges(struct bpe *b, const char *path) {
    for (b->n_slots = 2; b->n_slots < 2 * (uint64_t)b->n_merges;) b->n_slots *= 2;
    b->slots = malloc(b->n_slots * sizeof *b->slots);
    if (!b->slots) return FAIL(E_MEMORY, "no memory for the %d merges of %s; close other programs", b->n_merges, path);
    for (uint64_t s = 0; s < b->n_slots; s++) b->slots[s] = -1;
    for (int32_t rank = 0; rank < b->n_merges; rank++) {
        const struct bpe_merge *m = &b->merges[rank];
        int32_t before = bpe_rank(b, m->left, m->right);
        if (before >= 0)
            return FAIL(E_FORMAT, "%s: merges %d and %d are the same pair; each has one rank: get the file again", path,
                        before + 1, rank + 1);
        uint64_t s = slot_of(b, m->left, m->right);
        while (b->slots[s] >= 0) s = (s + 1) & (b->n_slots - 1);
        b->slots[s] = rank;
    }
    return OK;
}

/* ---- a queue of pairs that can be merged: a binary heap of rank * 2^32 + place, smallest first ---- */

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
    int32_t rank = bpe_rank(b, b->symbols[left].token, b->symbols[right].token);
    if (rank >= 0) push(b->heap, n, (uint64_t)rank << 32 | (uint32_t)left);
}

/* Does the queued pair still exist? Another merge may have changed one of its two symbols. */
static bool still_there(const struct bpe *b, const struct bpe_merge *m, int32_t left) {
    int32_t right = b->symbols[left].after;
    return b->symbols[left].token == m->left && right >= 0 && b->symbols[right].token == m->right;
}

static void merge(struct bpe *b, int64_t *n, const struct bpe_merge *m, int32_t left) {
    struct bpe_symbol *s = b->symbols, *gone = &s[s[left].after];
    s[left].token = m->merged;
    s[left].after = gone->after;
    if (gone->after >= 0) s[gone->after].before = left;
    gone->token = -1;
    queue_pair(b, n, s[left].before);
    queue_pair(b, n, left);
}

static enum status encode_piece(struct bpe *b, const char *text, int64_t bytes, bpe_sink *sink, void *self) {
    int64_t n_queued = 0, n = 0;
    TRY(make_room(b, bytes));
    for (int32_t i = 0; i < bytes; i++)
        b->symbols[i] = (struct bpe_symbol){b->byte_token[(unsigned char)text[i]], i - 1, i + 1 < bytes ? i + 1 : -1};
    for (int32_t i = 0; i < bytes; i++) queue_pair(b, &n_queued, i);
    while (n_queued > 0) {
        uint64_t next = pop(b->heap, &n_queued);
        const struct bpe_merge *m = &b->merges[next >> 32];
        if (still_there(b, m, (int32_t)(uint32_t)next)) merge(b, &n_queued, m, (int32_t)(uint32_t)next);
    }
    for (int32_t i = 0; i >= 0; i = b->symbols[i].after) b->tokens[n++] = b->symbols[i].token;
    return sink(self, b->tokens, n);
}

/* ---- a text ---- */

/* The number of bytes before the next valid UTF-8; text[0] must be invalid. */
static int64_t invalid_run(const struct bpe *b, const char *text, int64_t bytes) {
    int64_t n = 1;
    while (n < bytes && bpe_split_valid(b, text + n, bytes - n) == 0) n++;
    return n;
}

static enum status encode_plain(struct bpe *b, const char *text, int64_t bytes, bpe_sink *sink, void *self) {
    const char *end = text + bytes;
    while (text < end) {
        int64_t piece = 0;
        for (int64_t valid = bpe_split_valid(b, text, end - text); valid > 0; valid -= piece, text += piece) {
            TRY(bpe_split_next(b, text, valid, &piece));
            TRY(encode_piece(b, text, piece, sink, self));
        }
        piece = text < end ? invalid_run(b, text, end - text) : 0;
        if (piece > 0) TRY(encode_piece(b, text, piece, sink, self));
        text += piece;
    }
    return OK;
}

enum status bpe_encode(struct bpe *b, const char *text, int64_t bytes, bpe_sink *sink, void *self) {
    const char *end = text + bytes, *mark;
    size_t mark_bytes = strlen(END_OF_TEXT);
    while (b->end_of_text >= 0 && (mark = memmem(text, (size_t)(end - text), END_OF_TEXT, mark_bytes))) {
        TRY(encode_plain(b, text, mark - text, sink, self));
        TRY(sink(self, &b->end_of_text, 1));
        text = mark + mark_bytes;
    }
    return encode_plain(b, text, end - text, sink, self);
}

/* ---- asking ---- */

int32_t bpe_n_tokens(const struct bpe *b) { return b->n_tokens; }
int32_t bpe_end_of_text(const struct bpe *b) { return b->end_of_text; }

const char *bpe_token(const struct bpe *b, int64_t token, int64_t *bytes) {
    if (token < 0 || token >= b->n_tokens) return NULL;
    *bytes = b->bytes_at[token + 1] - b->bytes_at[token];
    return b->bytes + b->bytes_at[token];
}
