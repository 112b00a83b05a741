/* Declarations that the tokenizer's files share. */
#pragma once

#include "lib/data/bpe.h"

struct bpe_merge { int32_t left, right, merged; };
struct bpe_symbol { int32_t token, before, after; };   /* before, after: indices of the neighbors, or -1. token -1:
                                                        * merged into its left neighbor */

struct bpe {
    int32_t n_tokens, end_of_text;
    char *bytes;                         /* of all tokens, one after the other */
    int64_t *bytes_at;                   /* [n_tokens + 1]: offset in `bytes` of each token */
    int32_t byte_token[256];

    int32_t n_merges;
    struct bpe_merge *merges;            /* by rank */
    uint64_t n_slots;                    /* a power of two */
    int32_t *slots;                      /* hash table of ranks by (left, right); -1: free */

    void *pattern, *match;               /* pcre2_code, pcre2_match_data */

    struct bpe_symbol *symbols;          /* work space for pieces of up to `room` bytes */
    uint64_t *heap;
    int32_t *tokens;
    int64_t room;
};

#define BPE_END_OF_TEXT "<|endoftext|>"

/** Check that the files next to a folder's vocab.json and merges.txt describe GPT-2's tokenizer.
 *  @errors E_FORMAT: another tokenizer, with the file and its setting; E_DATA: a file cannot be read */
enum status bpe_check_folder(const char *folder);
/** The rank of the pair (left, right); -1 if it cannot be merged. */
int32_t bpe_rank(const struct bpe *, int32_t left, int32_t right);
/** Build the hash table from merges. @errors E_FORMAT: a pair occurs twice (with its ranks and `path`); E_MEMORY */
enum status bpe_index_merges(struct bpe *, const char *path);

/** Compile the pattern. @errors E_INTERNAL, E_MEMORY */
enum status bpe_split_open(struct bpe *);
void bpe_split_close(struct bpe *);
/** The number of bytes of text[0..bytes) before the first byte that is not UTF-8. */
int64_t bpe_split_valid(const struct bpe *, const char *text, int64_t bytes);
/** The length of the first piece of text[0..bytes), which must be UTF-8; bytes > 0. @errors E_INTERNAL */
enum status bpe_split_next(const struct bpe *, const char *text, int64_t bytes, int64_t *piece);
