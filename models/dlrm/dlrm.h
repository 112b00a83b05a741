/* Recommendation models as lists of steps: the probability of a click, from dense features and bags of ids.
 *
 *   dlrm        x      = bottom MLP of the dense features (B,X) -> (B,D)
 *               e_f    = sum of the rows of table f that feature f's bag names   F tables of V rows of D numbers
 *               y      = x, and the dot products of all pairs of x, e_1 .. e_F
 *               logit  = top MLP of y
 *   wide-deep   logit  = MLP of (dense features, e_1 .. e_F) + the sum of one number per id, from tables of D = 1
 *   both        loss   = mean over samples of log(1 + e^logit) - label logit
 *
 * An MLP is linear, relu, linear, relu ...; the top's last layer has one output and no relu. Tables are learned by
 * rowwise Adagrad (lib/rows/optim_rows.h), everything else by AdamW.
 *
 * In the words of the plan: a sample is one token (seq 1), D is hidden, V is vocab. All features' tables have V rows:
 * ids are hashed into them.
 *
 * Params of dlrm: F V D, and for every layer of n inputs and m outputs n m + m.
 * Flops of a sample: 6 for every number of a matrix, and 6 (F+1)^2 D for the dots.
 *
 * Axes: P replicas, B samples, F features, M places of a bag, V rows, D numbers of a row, X dense features, I numbers
 * of the interaction's output, K and C alternate for the hidden layers of an MLP.
 *
 * Source: Naumov et al. 2019, "Deep Learning Recommendation Model"; Cheng et al. 2016, "Wide & Deep Learning". */
#pragma once

#include "lib/run/model.h"

extern const struct model model_dlrm, model_wide_deep;

/* How a run reads samples of clicks, and computes the AUC of an evaluation (dlrm_clicks.c). */
extern const struct own_samples dlrm_clicks;

enum { DLRM_MAX_LAYERS = 16 };
/* Options of both models. */
struct dlrm_options {
    int64_t features, bag, dense;        /* F, M, X; default: those of the data */
    char bottom[OPTION_TEXT_MAX], top[OPTION_TEXT_MAX];   /* widths of hidden layers: "512-256"; "": none */
    double emb_lr;                       /* learning rate of the tables' rows; 0: lr */
};
static inline struct dlrm_options *dlrm_options(const struct plan *p) {
    return (struct dlrm_options *)plan_own(p, &model_dlrm.options);
}

/** Numbers in the matrices of the plan's model, without tables and biases. Pure. */
int64_t dlrm_matrix_params(const struct plan *);
