/* One token in, the logits of the next one out. See decode_step.c. */
#ifndef TRIVIUM_DECODE_DECODE_STEP_H
#define TRIVIUM_DECODE_DECODE_STEP_H

#include "decode/decode_sample.h"
#include "lib/run/run.h"

#ifdef __cplusplus
extern "C" {
#endif

struct decoder {
    struct run *run;            /* borrowed; made from a recipe with technique_decode, its weights loaded */
    int64_t position;           /* of the next token; also the number of tokens read */
    int32_t token;              /* the one being read */
    void *gathered;             /* [tp shards of the padded vocabulary] in the logits' dtype */
    double *logits, *weights;   /* [padded vocabulary]; real tokens come first. weights: scratch for a draw */
};

/** Start with an empty cache. From now on the run's executor gets its tokens from this decoder.
 *  @errors E_MEMORY  @collective{none} */
enum status decoder_init(struct decoder *, struct run *);
void decoder_fini(struct decoder *);

/** Read the token of the next position. If `logits` is not NULL: *logits, borrowed until the next call, are the (vocab)
 *  scores of the token after it, the same bits on every rank.
 *  @collective{mesh} @errors E_CONFIG: a token that is not in the vocabulary, or more tokens than seq; E_TIMEOUT,
 *  E_COMM */
enum status decoder_read(struct decoder *, int32_t token, const double **logits);

/** Read the prompt, then generate n tokens. Each is sampled from the scores after the previous one and passed to `emit`
 *  on every rank. n_prompt >= 1.  @collective{mesh} @errors as decoder_read and sample_token; those of emit */
typedef enum status decoder_emit(void *self, int32_t token);
enum status decoder_write(struct decoder *, const struct sampling *, const int32_t *prompt, int64_t n_prompt, int64_t n,
                          decoder_emit *, void *self);

#ifdef __cplusplus
}
#endif
#endif
