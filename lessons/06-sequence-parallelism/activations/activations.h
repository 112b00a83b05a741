/* What a layer saves and what a step sends, on paper: the contract of the exercise (lesson 06, "What it costs"). */
#ifndef TRIVIUM_LESSON_06_ACTIVATIONS_H
#define TRIVIUM_LESSON_06_ACTIVATIONS_H

#include <stdbool.h>
#include <stdint.h>

struct layout {
    int64_t layers, B, T, C, heads;   /* B: sequences of a microbatch */
    int64_t microbatches;             /* a step */
    int64_t tp;                       /* >= 1; divides heads and T */
    bool sp;                          /* only with tp > 1 */
    int64_t element;                  /* bytes a number: of activations and gradients */
    bool stored_masks;                /* a byte an element for each dropout of the two residuals; else drawn again: nothing */
    bool materialised;                /* attention keeps its (B, heads, T, T) probabilities; with stored masks also what dropout left of them, and its
                                         mask of a byte an element. Else blocked: nothing of that size */
};

/** Bytes that one transformer layer keeps of one microbatch from forward to backward, on one rank; without statistics (a number or two a
 *  position or head). */
int64_t saved_bytes(const struct layout *);

/** Bytes that a rank sends in the tp group in a step: enters and exits of all layers, of the embedding and of the head; the loss over the
 *  cut vocabulary, whose three numbers a token have `statistic` bytes each; with sp what is gathered again in backward, and the partial gradients,
 *  once a step. */
double sent_bytes(const struct layout *, int64_t statistic);

#endif
