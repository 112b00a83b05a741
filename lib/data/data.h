/* Token data: what the file is, which tokens make sample i, and in which order samples come.
 *
 * Sample i is tokens [i T, i T + T) with targets one further, so a file of n tokens has (n - 1) / T samples. The order is a
 * keyed permutation of the sample index, drawn anew each epoch; sample number s of a run (counting from 0 over all steps) is
 * a pure function of (seed, s). No rank, layout or batch size enters it: rank r simply asks for other s.
 *
 * Formats, recognised by content: llm.c .bin (magic 20240520, version 1, u16 tokens; magic 20240801 version 7, u32 tokens);
 * anything else is UTF-8 text, one token a byte, vocabulary 256. Files are memory-mapped and only read. */
#ifndef TRIVIUM_DATA_DATA_H
#define TRIVIUM_DATA_DATA_H

#include "lib/base/status.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum data_format { DATA_TEXT, DATA_LLMC_U16, DATA_LLMC_U32 };
struct data_file;

/** Map a file. @errors E_DATA: missing, unreadable, empty, a directory; E_FORMAT: an llm.c header whose token count does not
 *  match the file's size, an unknown version */
enum status data_open(const char *path, struct data_file **out);
void data_close(struct data_file **);
int64_t data_n_tokens(const struct data_file *);
enum data_format data_format_of(const struct data_file *);
const char *data_path(const struct data_file *);
/** 256 for text; 0 where the format does not say (llm.c: the model's vocabulary counts). */
int64_t data_vocab(const struct data_file *);
/** Token at i; 0 <= i < n_tokens. */
int32_t data_token(const struct data_file *, int64_t i);

/* A stretch of a file, cut into samples of T tokens. */
struct data_split { const struct data_file *file; int64_t first, n_tokens, T; };

/** The last `val_fraction` of the tokens is validation, the rest training. val_fraction 0: all training, *val has 0 tokens.
 *  @errors E_DATA: a part is shorter than one sample (says tokens, T, fraction); E_CONFIG: T or val_fraction out of range */
enum status data_split_tail(const struct data_file *, int64_t T, double val_fraction, struct data_split *train,
                            struct data_split *val);
/** The whole file as one part. */
enum status data_split_whole(const struct data_file *, int64_t T, struct data_split *);
int64_t data_split_samples(const struct data_split *); /* (n_tokens - 1) / T */

/** Which sample of the split is number s of a shuffled run, s >= 0; every epoch of data_split_samples is a new permutation. */
int64_t data_shuffled(const struct data_split *, uint64_t seed, int64_t s);

/** tokens[0..T) and targets[0..T) of sample i. @errors E_DATA: a token >= vocab (value, position, file, limit) */
enum status data_sample(const struct data_split *, int64_t i, int64_t vocab, int32_t *tokens, int32_t *targets);

#ifdef __cplusplus
}
#endif
#endif
