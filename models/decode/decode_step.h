/* One read: it takes tokens, and gives the logits of the next ones. See decode_step.c. */
#pragma once

#include "lib/run/run.h"
#include "models/decode/decode_sample.h"

/* Decodes B sequences of equal length. */
struct decoder {
    struct run *run;            /* borrowed; made from a recipe with technique_decode, its weights loaded */
    int64_t B, at_once;         /* sequences: the plan's micro-batch; most tokens per sequence in one read */
    int64_t position;           /* of the next token; also the number of tokens read */
    const int32_t *tokens;      /* (B, n) tokens of the current read; borrowed */
    int64_t n;
    void *part, *gathered;      /* logits (B, shard of the padded vocabulary) of this rank; of all tp ranks */
    double *logits, *weights;   /* (B, padded vocabulary); real tokens come first. weights: scratch for a draw */
};

/** Start with an empty cache. From now on the run's executor gets its tokens from this decoder.
 *  @errors E_MEMORY; E_INTERNAL: fewer tokens need more scratch than planned  @collective{none} */
enum status decoder_init(struct decoder *, struct run *);
void decoder_fini(struct decoder *);

/** Read n tokens of each sequence, from the next position on: tokens (B, n), n at most `at_once`. If `logits` is not
 *  NULL: *logits, borrowed until the next call, are the scores (B, padded vocabulary) of the tokens after them, the
 *  same bits on every rank.
 *  @collective{mesh} @errors E_CONFIG: a token that is not in the vocabulary, or more tokens than seq; E_TIMEOUT,
 *  E_COMM */
enum status decoder_read(struct decoder *, const int32_t *tokens, int64_t n, const double **logits);
/** Elements from one row of the logits to the next. */
int64_t decoder_row(const struct decoder *);

/** Read the prompt into all sequences, then generate n tokens per sequence. Each token is sampled from the scores after
 *  the previous token, with its sequence's draws. Every rank passes it to `emit`: first token 0 of all sequences, then
 *  token 1 of all, and so on. n_prompt >= 1.
 *  @collective{mesh} @errors as decoder_read and sample_token; those of emit; E_MEMORY */
typedef enum status decoder_emit(void *self, int64_t sequence, int32_t token);
enum status decoder_write(struct decoder *, const struct sampling *, const int32_t *prompt, int64_t n_prompt, int64_t n,
                          decoder_emit *, void *self);
