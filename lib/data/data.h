/* Token data: what the files are, which tokens make sample i, and in which order samples come.
 *
 * Sample i is tokens [i T, i T + T) with targets one further, so n tokens have (n - 1) / T samples. The order is a
 * keyed permutation of the sample index, drawn again each epoch; sample number s of a run (counting from 0 over all
 * steps) is a pure function of (seed, s). No rank, layout or batch size enters it: rank r simply asks for other s.
 *
 * Formats, in the order in which they are looked for:
 *   llm.c     by content: magic 20240520, version 1, u16 tokens; magic 20240801, version 7, u32 tokens
 *   clicks    by content: no tokens, but samples of a recommendation model, as words (clicks.h)
 *   npy       by content: NumPy's array of integers, of one axis (npy.c)
 *   Megatron  NAME.bin with an index NAME.idx: the tokens of all its sequences, in the index's order
 *             (megatron.h)
 *   text      what looks like text (data_text.c): one token a byte, vocabulary 256; or, with a tokenizer, its tokens
 *             (bpe.h)
 * And those that only the user can know of, as nothing in the file says them:
 *   u16, u32  tokens and nothing else, little-endian: nanoGPT's train.bin (data_raw.c)
 * What is none of these is refused, by its name where it has one (data_foreign.c): no file is taken for text because no
 * other format fits. Files are memory-mapped and only read. Several files of one format are one stream (data_list.h);
 * empty ones among them have no part in it. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

enum data_format { DATA_TEXT, DATA_LLMC_U16, DATA_LLMC_U32, DATA_MEGATRON, DATA_CLICKS, DATA_NPY, DATA_RAW };
struct data_file;
struct bpe;

/* As what a file is read: the choices of --data-format, in their order. auto: as what it is recognised as. */
enum data_as { DATA_AS_AUTO, DATA_AS_TEXT, DATA_AS_U16, DATA_AS_U32, DATA_AS_LLMC, DATA_AS_MEGATRON, DATA_AS_NPY };
#define DATA_AS_CHOICES "auto|text|u16|u32|llmc|megatron|npy"

/** Map a file, or the files that a list or pattern names (data_list.h), as one stream. With a tokenizer, text is
 *  tokenized here and now, and kept in memory: for tens of MB; what is larger is better written once by `trivium data
 *  tokenize`. The tokenizer may be NULL, and is only used in the call.
 *  @errors E_DATA: missing, unreadable, empty, a directory, files of several formats; E_FORMAT: no data, or not what it
 *  is read as (with the likely format, and how to say it), or a header or an index that does not fit its file;
 *  E_CONFIG: a tokenizer, and a file that holds tokens already; E_MEMORY */
enum status data_open_as(const char *names, enum data_as, struct bpe *tokenizer, struct data_file **out);
/** The same, recognised and without a tokenizer. @errors as data_open_as */
enum status data_open(const char *names, struct data_file **out);
void data_close(struct data_file **);

/** Tokens of all files of the list; and what kind of file the first of them is. */
int64_t data_n_tokens(const struct data_file *);
enum data_format data_format_of(const struct data_file *);
/** The format in words: "Megatron, i32 tokens". Static storage. */
const char *data_format_name(const struct data_file *);
/** As it was given to data_open. */
const char *data_path(const struct data_file *);
/** 256 for text, the tokenizer's for tokenized text; 0 where the format does not say (the model's vocabulary
 *  counts). */
int64_t data_vocab(const struct data_file *);
int data_n_files(const struct data_file *);
/** Files of the list that are empty, and so have no part in the stream. */
int data_n_empty(const struct data_file *);
/** Documents and sequences that a Megatron index lists; 0 for other formats. */
int64_t data_n_documents(const struct data_file *);
int64_t data_n_sequences(const struct data_file *);
/** Tells this stream from others: the XXH3 of its number of tokens (i64), and of its first and its last 2^18 tokens, as
 *  i32 each. In which format they are in a file makes no difference. */
uint64_t data_hash(const struct data_file *);
/** Has it the data_hash that it was opened with? What is mapped changes with a file that is written to in its place.
 *  @errors E_DATA: another one; E_MEMORY  @collective{none} */
enum status data_check_hash(const struct data_file *);
/** Token at i; 0 <= i < n_tokens. As it stands there: Megatron's may be negative, or beyond 32 bits. */
int64_t data_token(const struct data_file *, int64_t i);
/** The file that token i is in, and in *place which of its tokens it is. Borrowed. */
const char *data_file_of(const struct data_file *, int64_t i, int64_t *place);
/** The bytes of file number i, 0 <= i < data_n_files, of a format with one token a byte. Borrowed. */
const char *data_text(const struct data_file *, int i, int64_t *bytes);

/* A stretch of a file, cut into samples of T tokens. */
struct data_split { const struct data_file *file; int64_t first, n_tokens, T; };

/** The last `val_fraction` of the tokens is validation, the rest training. val_fraction 0: all training, *val has 0
 *  tokens.
 *  @errors E_DATA: a part is shorter than one sample (says tokens, T, fraction); E_CONFIG: T or val_fraction out of
 *  range */
enum status data_split_tail(const struct data_file *, int64_t T, double val_fraction, struct data_split *train,
                            struct data_split *val);
/** The whole file as one part. @errors E_DATA: shorter than one sample; E_CONFIG: T out of range */
enum status data_split_whole(const struct data_file *, int64_t T, struct data_split *);
int64_t data_split_samples(const struct data_split *); /* (n_tokens - 1) / T */

/** Which sample of the split is number s of a shuffled run, s >= 0; every epoch of data_split_samples is a new
 *  permutation. */
int64_t data_shuffled(const struct data_split *, uint64_t seed, int64_t s);

/** tokens[0..T) and targets[0..T) of sample i. @errors E_DATA: a token >= vocab or < 0 (value, position, file,
 *  limit) */
enum status data_sample(const struct data_split *, int64_t i, int64_t vocab, int32_t *tokens, int32_t *targets);
/** Could data_sample read samples first .. first + n - 1? Reads all of them. @errors E_DATA, as data_sample */
enum status data_check(const struct data_split *, int64_t first, int64_t n, int64_t vocab);
