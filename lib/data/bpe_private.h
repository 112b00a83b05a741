/* Declarations that the tokenizer's files share. */
#pragma once

#include "lib/data/bpe.h"

/* Neighbors that merge. The pair with the smallest order is merged first, and of equal ones the leftmost. */
struct bpe_merge { int32_t left, right, merged, order; };
struct bpe_symbol { int32_t token, before, after; };   /* before, after: indices of the neighbors, or -1. token -1:
                                                        * merged into its left neighbor */
/* A token that is found in a text before the text is cut; `normalized`: in the text's normal form. */
struct bpe_added { const char *text; int64_t bytes; int32_t token; bool normalized; };
/* One way of cutting a piece into smaller ones: at the matches of a pattern; without a pattern, a blank is put before
 * a piece that has none, into `room`. */
struct bpe_step { void *pattern, *match; char *room; int64_t bytes; };

/* A library that has a tokenizer of its own. */
struct bpe;
struct bpe_library {
    enum status (*read)(struct bpe *, const char *path);
    enum status (*encode)(struct bpe *, const char *text, int64_t bytes, bpe_sink *sink, void *self);
    void (*close)(struct bpe *);
};

enum { BPE_MOST_STEPS = 8, BPE_MOST_TOKENS = 1 << 20, BPE_MOST_FILE_BYTES = 128 << 20 };

struct bpe {
    int32_t n_tokens, end_of_text;
    char *bytes;                         /* of all tokens, one after the other */
    int64_t *bytes_at;                   /* [n_tokens + 1]: offset in `bytes` of each token */
    int32_t byte_token[256];
    bool whole;                          /* a piece that is a token is not merged from bytes */
    uint64_t n_by_bytes;                 /* a power of two, or 0: no table */
    int32_t *by_bytes;                   /* hash table of tokens by their bytes; -1: free */

    int32_t n_merges;
    struct bpe_merge *merges;
    uint64_t n_slots;                    /* a power of two */
    int32_t *slots;                      /* hash table of merges by (left, right); -1: free */

    int32_t n_added;
    struct bpe_added *added;             /* by `normalized`, first byte, and length: longer ones come first */
    int32_t first_added[2][257];         /* [normalized][byte]: the first of `added` that begins with it */
    int form;                            /* utf8proc's options of the text's normal form; 0: as it is */
    int n_steps;
    struct bpe_step steps[BPE_MOST_STEPS];
    void *empty, *empty_match;           /* a pattern that matches anywhere, to ask PCRE2 what is UTF-8 */

    struct bpe_symbol *symbols;          /* work space for pieces of up to `room` bytes */
    uint64_t *heap;
    int32_t *tokens;
    int64_t room;

    const struct bpe_library *library;   /* which reads, encodes and closes in place of all that; or NULL */
    void *model;                         /* the library's; only the tokens and their bytes are here, too */
};

#define BPE_END_OF_TEXT "<|endoftext|>"
#define BPE_GPT2_PATTERN "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

/* ---- reading (bpe_load.c, bpe_json.c, bpe_tiktoken.c) ---- */

/** A tokenizer without tokens. @errors E_INTERNAL: PCRE2 has no Unicode; E_MEMORY */
enum status bpe_new(struct bpe **out);
/** Read a tokenizer.json of byte-level BPE, with all that it says of a text. @errors E_FORMAT: a key or a value that is
 *  not read, by name; E_DATA, E_MEMORY */
enum status bpe_read_json(struct bpe *, const char *path);
/** Read a file of lines "base64 of a token's bytes, rank", one of the published ones, which the number of its tokens
 *  tells. @errors E_FORMAT; E_DATA, E_MEMORY */
enum status bpe_read_tiktoken(struct bpe *, const char *path);
/** Models of sentencepiece (bpe_sentencepiece.cpp). Its address is NULL in a build without the library. */
extern const struct bpe_library bpe_sentencepiece __attribute__((weak));
/** Fill tokens and merges from a JSON object {"token": id} and a list of merges: strings "left right" or pairs.
 *  @param added a list of objects with "content" and "id", or NULL @errors E_FORMAT, E_MEMORY */
struct json_t;
enum status bpe_fill(struct bpe *, const char *path, struct json_t *vocab, struct json_t *merges, struct json_t *added);
/** Make a token one of `added`. @errors E_MEMORY */
enum status bpe_add(struct bpe *, int32_t token, bool normalized);
/** Sort them, when all are there. */
void bpe_sort_added(struct bpe *);

/* ---- tables (bpe.c) ---- */

/** The merge of the pair (left, right); -1 if the two do not merge. */
int32_t bpe_pair(const struct bpe *, int32_t left, int32_t right);
/** Build the hash table from merges. @errors E_FORMAT: a pair occurs twice (with both and `path`); E_MEMORY */
enum status bpe_index_merges(struct bpe *, const char *path);
/** Make the hash table of tokens by their bytes, empty. @errors E_MEMORY */
enum status bpe_index_tokens(struct bpe *, const char *path);
/** Put a token into it. @errors E_FORMAT: another token has the same bytes */
enum status bpe_index_token(struct bpe *, const char *path, int32_t token);
/** The token of these bytes, or -1. */
int32_t bpe_token_of(const struct bpe *, const char *bytes, int64_t n);

/* ---- cutting (bpe_split.c) ---- */

/** Add a step that cuts at the matches of a regular expression in the dialect of Oniguruma and Rust's regex, as far as
 *  both and PCRE2 agree. @errors E_FORMAT: a part of `regex` is not read, or it matches nothing; E_MEMORY */
enum status bpe_split_at(struct bpe *, const char *path, const char *regex);
/** Add a step that puts a blank before a piece that begins without. @errors E_FORMAT: too many steps */
enum status bpe_split_blank(struct bpe *, const char *path);
void bpe_split_close(struct bpe *);
/** The number of bytes of text[0..bytes) before the first byte that is not UTF-8. */
int64_t bpe_split_valid(const struct bpe *, const char *text, int64_t bytes);
/** Receives a piece of a text, of at least one byte. */
typedef enum status bpe_take(void *self, const char *text, int64_t bytes);
/** Pass the pieces of text[0..bytes), which must be UTF-8, to `take`, in order.
 *  @errors E_DATA: PCRE2 gives a piece up; E_MEMORY; an error of take */
enum status bpe_split(struct bpe *, const char *text, int64_t bytes, bpe_take *take, void *self);
