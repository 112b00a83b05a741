/* What the files of the tokenizer share. */
#pragma once

#include "lib/data/bpe.h"

struct bpe_merge { int32_t left, right, merged; };
struct bpe_symbol { int32_t token, before, after; };   /* before, after: neighbors by place, -1: none. token -1: merged
                                                        * away */

struct bpe {
    int32_t n_tokens, end_of_text;
    char *bytes;                         /* of all tokens, one after the other */
    int64_t *bytes_at;                   /* n_tokens + 1: where each begins */
    int32_t byte_token[256];

    int32_t n_merges;
    struct bpe_merge *merges;            /* by rank */
    uint64_t n_slots;                    /* a power of two */
    int32_t *slots;                      /* hash table of ranks by (left, right); -1: free */

    void *pattern, *match;               /* PCRE2's */

    struct bpe_symbol *symbols;          /* work space for pieces of up to `room` bytes */
    uint64_t *heap;
    int32_t *tokens;
    int64_t room;
};

#define BPE_END_OF_TEXT "<|endoftext|>"

/** Do the files next to a folder's vocab.json and merges.txt say that the tokenizer is not GPT-2's?
 *  @errors E_FORMAT: yes, with the file, and what in it; E_DATA: a file cannot be read */
enum status bpe_check_folder(const char *folder);
/** The rank of merging left and right, or -1. */
int32_t bpe_rank(const struct bpe *, int32_t left, int32_t right);
/** Fill in slots from merges. @errors E_FORMAT: a pair twice (says its two ranks, for `path`); E_MEMORY */
enum status bpe_index_merges(struct bpe *, const char *path);

/** Compile the pattern. @errors E_INTERNAL, E_MEMORY */
enum status bpe_split_open(struct bpe *);
void bpe_split_close(struct bpe *);
/** How many bytes of text[0..bytes) are UTF-8 before the first that are not. */
int64_t bpe_split_valid(const struct bpe *, const char *text, int64_t bytes);
/** How long the first piece of text[0..bytes) is, which is UTF-8, bytes > 0. @errors E_INTERNAL */
enum status bpe_split_next(const struct bpe *, const char *text, int64_t bytes, int64_t *piece);
