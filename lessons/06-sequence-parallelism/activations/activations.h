/* What a layer saves, what a step sends and which gradients are parts, on paper: the contract of the exercise (lesson
 * 06, "What it costs"). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct layout {
    int64_t layers, B, T, C, heads;   /* B: sequences of a microbatch */
    int64_t microbatches;             /* a step */
    int64_t tp;                       /* >= 1; divides heads and T */
    bool sp;                          /* only with tp > 1 */
    int64_t element;                  /* bytes per number: of activations and gradients */
    bool stored_masks;                /* a byte an element for each dropout of the two residuals; else drawn again:
                                       * nothing */
    bool materialised;                /* attention keeps its (B, heads, T, T) probabilities; with stored masks also
                                       * what dropout left of them, and its mask of a byte an element. Else blocked:
                                       * nothing of that size */
};

/** Bytes that one transformer layer keeps of one microbatch from forward to backward, on one rank; without statistics
 *  (a number or two a position or head). */
int64_t saved_bytes(const struct layout *);

/** Bytes that a rank sends in the tp group in a step: enters and exits of all layers, of the embedding and of the head;
 *  the loss over the sharded vocabulary: three numbers per token of `statistic` bytes; with sp what is gathered
 *  again in backward, and the partial gradients, once a step. */
double sent_bytes(const struct layout *, int64_t statistic);

/** 1: after backward a rank's gradient of this parameter is a part, and the whole is the sum of the parts over the tp
 *  group. 0: it needs nothing from the other ranks of that group, as every rank has the same or each has other
 *  elements. name: "wte", "wpe", "lnf.g" or "lnf.b"; of a layer "ln1.g", "ln1.b", "qkv.w", "qkv.b", "proj.w", "proj.b",
 *  "ln2.g", "ln2.b", "fc.w", "fc.b", "fc2.w" or "fc2.b". */
int has_partial_gradient(const struct layout *, const char *name);
