/* A batch whose ranks hold different numbers of tokens: the contract of this exercise.
 *
 * The model has C weights and predicts one number per token, y = sum over c of w[c] x[c]. The loss of a token is
 * 1/2 (y - t)^2. Sequences have different lengths (or prompts are masked), so every microbatch has its own number of
 * tokens, and a rank may have no token.
 *
 *     L = 1/N_tok  sum of loss(token) over the N_tok tokens of all microbatches of all ranks
 *     g = dL/dw    the gradient that every rank must have in the end */
#pragma once

#include "lib/comm/comm.h"

enum { SCALE_C = 4 };

/* Tokens of one microbatch: token i has the inputs x[i SCALE_C] ..., and the target t[i]. n_tokens may be 0. */
struct microbatch { int64_t n_tokens; const double *x, *t; };

/* ---- given ---- */

/** *loss += factor x sum over the microbatch's tokens of loss(token), and g[c] += factor x d/dw[c] of the same sum. */
static inline void microbatch_add(const struct microbatch *b, const double w[SCALE_C], double factor, double *loss,
                                  double g[SCALE_C]) {
    for (int64_t i = 0; i < b->n_tokens; i++) {
        double y = 0;
        for (int c = 0; c < SCALE_C; c++) y += w[c] * b->x[i * SCALE_C + c];
        *loss += factor * 0.5 * (y - b->t[i]) * (y - b->t[i]);
        for (int c = 0; c < SCALE_C; c++) g[c] += factor * (y - b->t[i]) * b->x[i * SCALE_C + c];
    }
}

/* ---- to be written, in scale.c ---- */

/** *all = the number of tokens in all microbatches of all ranks of the group. FP64 holds whole numbers up to 2^53
 *  exactly.
 *  @collective{group} @errors E_COMM, E_TIMEOUT */
enum status scale_count_tokens(const struct group *group, const struct microbatch *mine, int n, double *all);

/** Set *loss and g to the loss L and the gradient g of the whole batch, the same on every rank of the group. Gradients
 *  are summed over the ranks once, after the last microbatch. If no rank has tokens, both are 0.
 *  @collective{group} @errors E_COMM, E_TIMEOUT */
enum status scale_step(const struct group *group, const struct microbatch *mine, int n, const double w[SCALE_C],
                       double *loss, double g[SCALE_C]);

/** For a fixed framework in which each rank's loss is the mean over its own tokens, and gradients are averaged over
 *  n_ranks ranks. *factor: the factor for the loss of a rank with own_tokens of all_tokens, so that the average is g. A
 *  rank without tokens has loss 0; any finite factor is right for it. all_tokens > 0.  @collective{none} */
enum status scale_factor_of_mean(double own_tokens, double all_tokens, int n_ranks, double *factor);
