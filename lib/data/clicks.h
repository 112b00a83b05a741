/* Samples of clicks: a label, dense features, and for each sparse feature a bag of ids.
 *
 *   header   8 bytes magic, then int32: version 1, dense X, features F, bag M, rows V, 0; int64 samples;
 *            double best AUC that any model can have (of data that were made, else 0); 64 bytes
 *   sample   1 + X + F M words of 32 bits: label 0 or 1; X floats; F bags of M ids below V, -1 behind the last
 *   end      one word, 0
 *
 * To the rest of lib/data a file is a stream of words, a sample 1 + X + F M "tokens": it is mapped, listed and shuffled
 * as text is. The word at the end stands for the next token that a sample of text reads.
 *
 * Written by `trivium data synth-clicks` (clicks_synth.h) and `trivium data criteo` (criteo.h). */
#pragma once

#include "lib/data/data.h"

struct clicks_layout { int dense, features, bag, rows; double best_auc; };
/** The number of words of a sample. */
static inline int64_t clicks_words(const struct clicks_layout *c) {
    return 1 + c->dense + (int64_t)c->features * c->bag;
}

/** The layout of a file whose format is DATA_CLICKS; all zero for others. */
struct clicks_layout clicks_layout(const struct data_file *);
/** The last val_fraction of the samples, and the others. @errors E_DATA: either has none */
enum status clicks_split(const struct data_file *, double val_fraction, struct data_split *train,
                         struct data_split *val);
/** The words of sample i of a split, 0 <= i < data_split_samples. Borrowed. */
const int32_t *clicks_sample(const struct data_split *, int64_t i);

/* ---- writing ---- */
struct clicks_writer;
/** Begin a file. @errors E_IO, E_MEMORY */
enum status clicks_create(const char *path, const struct clicks_layout *, struct clicks_writer **out);
/** The next sample, of clicks_words words. @errors E_IO */
enum status clicks_append(struct clicks_writer *, const int32_t *words);
int64_t clicks_n(const struct clicks_writer *);
/** Header and end, flushed, and renamed into place. best_auc: 0 if unknown. *writer becomes NULL in any case.
 *  @errors E_IO; E_DATA: no samples */
enum status clicks_finish(struct clicks_writer **writer, double best_auc);
void clicks_abandon(struct clicks_writer **);
