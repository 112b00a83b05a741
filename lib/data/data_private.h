/* Declarations that the files of lib/data share. A token stream consists of parts (files); a part consists of stretches
 * (contiguous tokens of one file).
 *
 *   parts       a.bin                      b.bin
 *   stretches   [0, 700) [700, 1000)       [1000, 1800)        token numbers; the index of a.bin has a gap at 700
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
    int32_t *tokens;                     /* owned: the tokens of tokenized text; else NULL */
    int64_t first;                       /* the number in the stream of the part's first token */
};

/* llm.c's .bin format (llmc.c). */
enum { LLMC_HEADER_BYTES = 256 * 4, LLMC_MAGIC_U16 = 20240520, LLMC_VERSION_U16 = 1, LLMC_MAGIC_U32 = 20240801,
       LLMC_VERSION_U32 = 7 };
struct llmc_header { int32_t magic, version, n_tokens; };

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
    int64_t vocab;                       /* data_vocab */
    struct clicks_layout clicks;
};

/** Map a regular file; map->at stays NULL for an empty file. The caller zeroes *map, and unmaps it even after an
 *  error. `option` is named in messages as the option that takes the file ("--data").
 *  @errors E_DATA: missing, unreadable, no regular file; E_MEMORY */
enum status data_map(const char *path, const char *option, struct data_map *map);
void data_unmap(struct data_map *);

int data_element_bytes(enum data_element);
/** "u16" and so on. */
const char *data_element_name(enum data_element);

/** Append n tokens to the stream; they lie at `at`, in the newest part's memory. @errors E_MEMORY; E_FORMAT: 2^63
 *  tokens or more */
enum status data_add(struct data_file *, const unsigned char *at, int64_t n, enum data_element);

/* Readers. A reader sets *mine to whether the part has its format, and then adds the part's tokens. */
/** Reads clicks. @errors E_FORMAT; E_DATA: not the only file */
enum status clicks_read(struct data_file *, const struct data_part *, bool *mine);
/** Reads llm.c's tokens. @errors E_FORMAT, also for llm.c's other files and for a big-endian header */
enum status llmc_read(struct data_file *, const struct data_part *, bool *mine);
/** Reads NumPy's array. @errors E_FORMAT: not of integers, not of one axis, truncated */
enum status npy_read(struct data_file *, const struct data_part *, bool *mine);

/** Add the part's tokens with the reader of `as`; DATA_AS_AUTO finds the reader. @errors E_FORMAT, E_DATA, E_MEMORY */
enum status data_read(struct data_file *, const struct data_part *, enum data_as);
/** Add the bytes of a part as text. @errors E_MEMORY */
enum status data_text_read(struct data_file *, const struct data_part *);
/** Check that the file looks like text. @errors E_FORMAT: it does not; with its likely format and the option for it */
enum status data_text_check(const struct data_map *);
/** Are the first `most` bytes UTF-8, without zeros or other control characters (\t \n \v \f \r and ESC are allowed)? */
bool data_text_is_plain(const struct data_map *, int64_t most);
/** Add a part without a header. @errors E_FORMAT: text, elements that look like the halves of wider elements, or an
 *  incomplete last element; E_MEMORY */
enum status data_raw_read(struct data_file *, const struct data_part *, enum data_element);
/** Refuse a file whose first or last bytes are those of a known format that holds no tokens. @errors E_FORMAT: with the
 *  format's name and a remedy */
enum status data_foreign_refuse(const struct data_map *);
/** Refuse a file that begins with a byte order mark of UTF-16 or UTF-32. @errors E_FORMAT */
enum status data_foreign_refuse_wide(const struct data_map *);

/** Compute data_hash. @errors E_MEMORY */
enum status data_hash_tokens(struct data_file *);
/** Replace the stream of text by its tokens. @errors E_CONFIG: the file holds tokens already; those of bpe_encode */
enum status data_tokenize(struct data_file *, struct bpe *tokenizer);

/* ---- the files that --data names (data_list.c) ---- */
struct data_list { int n; char **path; };

/** List the files that `names` stands for; a plain name need not exist. Call data_list_fini even after an error.
 *  @errors E_DATA: a pattern without a matching file, a file named twice; E_MEMORY  @collective{none} */
enum status data_list_init(struct data_list *out, const char *names);
void data_list_fini(struct data_list *);
