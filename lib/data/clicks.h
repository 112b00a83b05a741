/* Samples of clicks: a label, dense features, and for each sparse feature a bag of ids.
 *
 *   header   8 bytes magic, then int32: version 1, dense X, features F, bag M, rows V, 0; int64 samples;
 *            double best AUC that any model can have (synthetic data; else 0); 64 bytes
 *   sample   1 + X + F M words of 32 bits: label 0 or 1; X floats; F bags of M ids below V, -1 after the last id
 *   end      one word, 0
 *
 * The rest of lib/data treats a file as a stream of words. A sample is 1 + X + F M "tokens", mapped, listed and
 * shuffled like text. The last word is there because a sample of text also reads the token after its last one.
 *
 * Written by `trivium data synth-clicks` (clicks_synth.c) and `trivium data criteo` (criteo.c). */
#pragma once

#include "lib/data/data.h"

struct clicks_layout { int dense, features, bag, rows; double best_auc; };
/** The number of words of a sample. */
static inline int64_t clicks_words(const struct clicks_layout *c) {
    return 1 + c->dense + (int64_t)c->features * c->bag;
}

/** The layout of a file whose format is DATA_CLICKS; all zero for other formats. */
struct clicks_layout clicks_layout(const struct data_file *);
/** Split the samples: the last val_fraction is *val, the rest *train. @errors E_DATA: a part is empty */
enum status clicks_split(const struct data_file *, double val_fraction, struct data_split *train,
                         struct data_split *val);
/** The words of sample i of a split, 0 <= i < data_split_samples. Borrowed; with split.ahead until the next step. */
const int32_t *clicks_sample(const struct data_split *, int64_t i);

/* ---- writing ---- */
struct clicks_writer;
/** Begin a file. @errors E_IO, E_MEMORY */
enum status clicks_create(const char *path, const struct clicks_layout *, struct clicks_writer **out);
/** Append a sample of clicks_words words. @errors E_IO */
enum status clicks_append(struct clicks_writer *, const int32_t *words);
int64_t clicks_n(const struct clicks_writer *);
/** Write the header and the end, flush, and rename into place. best_auc: 0 if unknown. *writer becomes NULL always.
 *  @errors E_IO; E_DATA: no samples */
enum status clicks_finish(struct clicks_writer **writer, double best_auc);
void clicks_abandon(struct clicks_writer **);

/* Converts Criteo's click logs to samples. A line is  *   label TAB 13 integers TAB 26 words of hexadecimal digits
 * any field but the label may be empty  * An integer v becomes log(1 + max(v, 0)); an empty integer becomes 0. A
 * word becomes row (FNV-1a hash mod V) of its feature's table of V rows; an empty word becomes an empty bag. Bags
 * have at most one id. Source: Criteo Display Advertising Challenge and 1TB click logs, readme.txt; the transform
 * is DLRM's. */

enum { CRITEO_DENSE = 13, CRITEO_FEATURES = 26 };

/** Read the text file `from` and write its samples to `to`, for tables of `rows` rows. @param n written: samples
 *  @errors E_DATA: cannot be read; E_FORMAT: a line of another form (with its number); E_IO, E_MEMORY */
enum status criteo_convert(const char *from, const char *to, int rows, int64_t *n);

/* Synthetic clicks, whose best possible AUC is known.  *   id      popularity rank floor((V + 1)^u) - 1 for a
 * uniform u, so that the k-th most frequent row occurs about 1/k           as often as the first; a permutation
 * maps ranks to rows, so that frequent rows are not neighbors   bag     1 to M ids   dense   X standard normals
 * label   1 with probability 1 / (1 + e^-logit), logit = bias + sum of a_k x_k + sum over all ids of c_f,id  *
 * x_k: dense feature k. a_k: constants of alternating sign. c_f,id: normals, fixed by the seed. No model can order
 * samples better than this logit. Its AUC over the last tenth of the samples is in the file's header; it bounds an
 * evaluation with the default val-fraction of 0.1. Every number is a function of (seed, sample, place). */

/** Write n samples to `path`. @param best_auc written: the header's  @errors E_IO, E_MEMORY, E_DATA: n is 0 */
enum status clicks_synth(const char *path, const struct clicks_layout *, int64_t n, uint64_t seed, double *best_auc);
