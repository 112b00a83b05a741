/* Token data: the formats of token files, the tokens of sample i, and the order of samples.
 *
 * Sample i has tokens [i T, i T + T); its targets are the tokens one position later. So n tokens have (n - 1) / T
 * samples. The order is a keyed permutation of the sample index, a new one each epoch. Sample number s of a run
 * (counted from 0 over all steps) is a pure function of (seed, s), independent of ranks, layout and batch size.
 *
 * data_open tries the formats in this order:
 *   llm.c     by content: magic 20240520, version 1, u16 tokens; magic 20240801, version 7, u32 tokens
 *   clicks    by content: samples of a recommendation model, as 32-bit words instead of tokens (clicks.h)
 *   npy       by content: NumPy's array of integers, of one axis (npy.c)
 *   Megatron  NAME.bin with an index NAME.idx: the tokens of all its sequences, in the index's order
 *             (megatron.h)
 *   text      a file that looks like text (data_text.c): one token a byte, vocabulary 256; with a tokenizer, the
 *             tokenizer's tokens (bpe.h)
 * A format without a header is used only if the user names the format with --data-format:
 *   u16, u32  little-endian tokens and nothing else: nanoGPT's train.bin (data_raw.c)
 * Any other file is an error, which names the file's format if it is known (data_foreign.c). Files are memory-mapped
 * and read-only. Several files of one format are one stream (data_list.c); the stream skips empty files. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

enum data_format { DATA_TEXT, DATA_LLMC_U16, DATA_LLMC_U32, DATA_MEGATRON, DATA_CLICKS, DATA_NPY, DATA_RAW };
struct data_file;
struct bpe;

/* The format to read a file in: the choices of --data-format, in their order. auto: the recognized format. */
enum data_as { DATA_AS_AUTO, DATA_AS_TEXT, DATA_AS_U16, DATA_AS_U32, DATA_AS_LLMC, DATA_AS_MEGATRON, DATA_AS_NPY };
#define DATA_AS_CHOICES "auto|text|u16|u32|llmc|megatron|npy"

/** Map a file, or the files that a list or pattern names (data_list.c), as one stream. With a tokenizer, this call
 *  tokenizes the text and keeps the tokens in memory; for more than tens of MB use `trivium data tokenize` once. The
 *  tokenizer may be NULL, and is borrowed for the call only.
 *  @errors E_DATA: missing, unreadable, empty, a directory, files of several formats; E_FORMAT: no data, not in the
 *  format `as` (with the likely format and its option), or a header or index that does not fit its file; E_CONFIG: a
 *  tokenizer, and a file that holds tokens already; E_MEMORY */
enum status data_open_as(const char *names, enum data_as, struct bpe *tokenizer, struct data_file **out);
/** data_open_as with DATA_AS_AUTO and no tokenizer. @errors as data_open_as */
enum status data_open(const char *names, struct data_file **out);
void data_close(struct data_file **);

/** The number of tokens of all files together, and the files' common format. */
int64_t data_n_tokens(const struct data_file *);
enum data_format data_format_of(const struct data_file *);
/** The format in words: "Megatron, i32 tokens". Static storage. */
const char *data_format_name(const struct data_file *);
/** The argument `names` of data_open. */
const char *data_path(const struct data_file *);
/** The size of the vocabulary: 256 for text, the tokenizer's for tokenized text; 0 if the format does not tell it (then
 *  the model's counts). */
int64_t data_vocab(const struct data_file *);
int data_n_files(const struct data_file *);
/** The number of empty files, which the stream skips. */
int data_n_empty(const struct data_file *);
/** The numbers of documents and sequences in the Megatron indices; 0 for other formats. */
int64_t data_n_documents(const struct data_file *);
int64_t data_n_sequences(const struct data_file *);
/** A hash that identifies the stream: the XXH3 of its number of tokens (i64) and of its first and last 2^18 tokens (i32
 *  each). It does not depend on the file's format. */
uint64_t data_hash(const struct data_file *);
/** Check that the hash is still that of data_open. Writing to a mapped file in place changes the tokens.
 *  @errors E_DATA: the hash has changed; E_MEMORY  @collective{none} */
enum status data_check_hash(const struct data_file *);
/** Token i, unchecked; 0 <= i < n_tokens. Tokens of a Megatron file may be negative or need more than 32 bits. */
int64_t data_token(const struct data_file *, int64_t i);
/** The path of the file that holds token i, borrowed. @param place written: the token's index in that file */
const char *data_file_of(const struct data_file *, int64_t i, int64_t *place);
/** The bytes of file number i, 0 <= i < data_n_files, if the format has one token a byte. Borrowed. */
const char *data_text(const struct data_file *, int i, int64_t *bytes);

/* A range of a file's tokens, cut into samples of T tokens. ahead: samples that were read ahead (data_ahead.h), which
 * data_sample and clicks_sample use; borrowed. NULL: they read each sample from the file. */
struct data_ahead;
struct data_split { const struct data_file *file; int64_t first, n_tokens, T; struct data_ahead *ahead; };

/** Split the tokens: the last `val_fraction` is for validation, the rest for training. With val_fraction 0, *val has 0
 *  tokens.
 *  @errors E_DATA: a part is shorter than one sample (with tokens, T, fraction); E_CONFIG: T or val_fraction out of
 *  range */
enum status data_split_tail(const struct data_file *, int64_t T, double val_fraction, struct data_split *train,
                            struct data_split *val);
/** The whole file as one part. @errors E_DATA: shorter than one sample; E_CONFIG: T out of range */
enum status data_split_whole(const struct data_file *, int64_t T, struct data_split *);
int64_t data_split_samples(const struct data_split *); /* (n_tokens - 1) / T */

/** The index in the split of sample number s >= 0 of a shuffled run. An epoch has data_split_samples samples, in a new
 *  permutation. */
int64_t data_shuffled(const struct data_split *, uint64_t seed, int64_t s);

/** Write tokens[0..T) and targets[0..T) of sample i. @errors E_DATA: a token >= vocab or < 0 (with value, position,
 *  file, limit) */
enum status data_sample(const struct data_split *, int64_t i, int64_t vocab, int32_t *tokens, int32_t *targets);
/** Read sample i for data_ahead: its T words of clicks, or its T + 1 tokens. @return false: it has not n_words words,
 *  or a token is not below vocab; data_sample names that token */
bool data_words(const struct data_split *, int64_t i, int64_t vocab, int64_t n_words, int32_t *words);
/** Check the tokens of samples first .. first + n - 1 as data_sample does. @errors E_DATA, as data_sample */
enum status data_check(const struct data_split *, int64_t first, int64_t n, int64_t vocab);

/* Token ids that a model must not use as its own marks: a tokenizer's tokens, or a vocabulary's special tokens. Tokens
 * first <= token < end are taken; what: their description for messages. */
struct data_taken { int64_t first, end; const char *what; };

/** For tokenized text: all of the tokenizer's tokens. For token files: the special tokens, if the format or the size of
 *  the vocabulary (50257: GPT-2's) identifies the tokenizer. first = end: none is known.  @collective{none} */
struct data_taken data_taken(const struct data_file *, int64_t vocab);
