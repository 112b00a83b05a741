/* Bytes that a layer saves and a step sends, and gradients that are partial sums, on paper: the contract of the
 * exercise (lesson 06, "What it costs"). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct layout {
    int64_t layers, B, T, C, heads;   /* B: sequences of a microbatch */
    int64_t microbatches;             /* per step */
    int64_t tp;                       /* >= 1; divides heads and T */
    bool sp;                          /* only with tp > 1 */
    int64_t element;                  /* bytes per number of activations and gradients */
    bool stored_masks;                /* both residuals keep a dropout mask of one byte per element; otherwise backward
                                       * draws masks again */
    bool materialised;                /* attention keeps its (B, heads, T, T) probabilities; with stored masks also
                                       * the probabilities after dropout, and a mask of one byte per element.
                                       * Otherwise it keeps no tensor of this size */
};

/** Bytes that one transformer layer keeps of one microbatch from forward to backward, on one rank, without statistics
 *  (one or two numbers per position or head). */
int64_t saved_bytes(const struct layout *);

/** Bytes that a rank sends in the tp group in a step: for enters and exits of all layers, of the embedding and of the
 *  head; for the loss over the sharded vocabulary, three numbers of `statistic` bytes per token; with sp also for
 *  gathers repeated in backward, and once per step for partial gradients. */
double sent_bytes(const struct layout *, int64_t statistic);

/** 1: after backward a rank's gradient of this parameter is a partial sum, and the gradient is the sum over the tp
 *  group. 0: the gradient needs no exchange in the tp group, because all ranks have the same gradient, or each rank has
 *  different elements. name: "wte", "wpe", "lnf.g" or "lnf.b"; in a layer "ln1.g", "ln1.b", "qkv.w", "qkv.b",
 *  "proj.w", "proj.b", "ln2.g", "ln2.b", "fc.w", "fc.b", "fc2.w" or "fc2.b". */
int has_partial_gradient(const struct layout *, const char *name);
