/* What the files of lib/data share: one token stream made of parts (files) and stretches (tokens that lie side by side
 * in one).
 *
 *   parts       a.bin                      b.bin
 *   stretches   [0, 700) [700, 1000)       [1000, 1800)        first token of each; the index of a.bin has a gap
 *
 * A file is one stretch, unless it is a Megatron file whose index jumps. */
#pragma once

#include "lib/data/clicks.h"
#include "lib/data/data.h"

/* How a token is stored, little-endian. */
enum data_element { DATA_U8, DATA_I8, DATA_U16, DATA_I16, DATA_U32, DATA_I32, DATA_I64 };

struct data_map { char *path; const unsigned char *at; int64_t bytes; };

struct data_part {
    struct data_map map;
    int32_t *tokens;                     /* of tokenized text: owned */
    int64_t first;                       /* its first token's number in the stream */
};

struct data_stretch { const unsigned char *at; int64_t first; enum data_element element; };

struct data_file {
    char *path;
    enum data_format format;
    int n_parts, n_empty;
    struct data_part *parts;
    int64_t n_stretches, room;           /* room: stretches that the table can hold */
    struct data_stretch *stretches;
    int64_t n_tokens, n_documents, n_sequences;
    uint64_t hash;                       /* data_hash */
    int64_t vocab;                       /* 0: the format does not say */
    struct clicks_layout clicks;
};

/** Map a regular file; an empty one has no address. *map starts as zeros; the caller unmaps it in any case. `option`:
 *  where another file can be named, for the remedy ("--data").  @errors E_DATA: missing, unreadable, no file;
 *  E_MEMORY */
enum status data_map(const char *path, const char *option, struct data_map *map);
void data_unmap(struct data_map *);

int data_element_bytes(enum data_element);
/** "u16" and so on. */
const char *data_element_name(enum data_element);

/** The next n tokens of the stream lie at `at`, in the newest part's memory. @errors E_MEMORY; E_FORMAT: 2^63 tokens or
 *  more */
enum status data_add(struct data_file *, const unsigned char *at, int64_t n, enum data_element);

/* Readers. Each says whether a part is its own, and adds its tokens if so. */
/** Clicks? @errors E_FORMAT; E_DATA: not the only file */
enum status clicks_read(struct data_file *, const struct data_part *, bool *mine);
/** llm.c's tokens? @errors E_FORMAT, also for llm.c's other files, and of a header that is big-endian */
enum status llmc_read(struct data_file *, const struct data_part *, bool *mine);
/** NumPy's array? @errors E_FORMAT: not of integers, not of one axis, cut off */
enum status npy_read(struct data_file *, const struct data_part *, bool *mine);

/** Find a part's reader, or the one that `as` names, and add the part's tokens. @errors E_FORMAT, E_DATA, E_MEMORY */
enum status data_read(struct data_file *, const struct data_part *, enum data_as);
/** Add the bytes of a part as text. @errors E_MEMORY */
enum status data_text_read(struct data_file *, const struct data_part *);
/** Does it look like text? @errors E_FORMAT: it does not, with what it looks like, and how to say so */
enum status data_text_check(const struct data_map *);
/** Is there nothing in its first bytes, up to `most`, that is not in text: neither zeros nor other control characters,
 *  and UTF-8? */
bool data_text_is_plain(const struct data_map *, int64_t most);
/** Add a part without a header. @errors E_FORMAT: it is text, or half its elements are those of wider ones; a part of
 *  an element at the end; E_MEMORY */
enum status data_raw_read(struct data_file *, const struct data_part *, enum data_element);
/** Do these bytes begin, or end, as those of another kind of file? Then it is refused by name, with what to do.
 *  @errors E_FORMAT */
enum status data_foreign_refuse(const struct data_map *);
/** Do they begin with the mark of UTF-16 or UTF-32? @errors E_FORMAT */
enum status data_foreign_refuse_wide(const struct data_map *);

/** Work out data_hash. @errors E_MEMORY */
enum status data_hash_tokens(struct data_file *);
/** Make the text of a file its tokens. @errors E_CONFIG: it holds tokens already; those of bpe_encode */
enum status data_tokenize(struct data_file *, struct bpe *tokenizer);
