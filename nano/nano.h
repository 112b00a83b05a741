/* nano: a GPT trained in three dimensions, small enough to be read in an hour.
 *
 *   ops.c       forward and backward of five operations, as loops
 *   model.c     the GPT: its weights, and the forward and backward of a layer, sharded by tensor parallelism
 *   parallel.c  each rank's place in the grid, and the messages between ranks
 *   train.c     a step: microbatches through the pipeline (1F1B), gradients summed, AdamW with sharded states (ZeRO-1)
 *
 * The framework around nano does the same with tables instead of calls, also on GPUs, with equal losses (make nano).
 *
 * Letters: B sequences in a microbatch, T positions, C channels, H heads, D = C/H, K = 4C, V vocabulary, L layers;
 *          R = B T rows; t, d, p sizes of tensor, data and pipeline parallelism. Arrays are row-major. */
#pragma once

#include <stdint.h>

#ifndef REAL
#define REAL double      /* or float */
#endif
typedef REAL real;

/* ---- the plan: what the command line says ---- */
struct plan {
    int layers, hidden, heads, vocab, seq, micro_batch, global_batch, steps, warmup, seed, zero, recompute;
    double lr, min_lr, beta1, beta2, eps, weight_decay, clip;
    const char *data;
};

/* ---- parallel.c ---- */

/* A rank's coordinates: rank = (p_i d + d_i) t + t_i. Tensor parallel ranks are neighbors: they communicate most. */
struct grid { int rank, n, t, d, p, t_i, d_i, p_i; };
extern struct grid grid;

void grid_init(int t, int d, int p);
/** x = its sum over the tensor parallel ranks. */
void tp_sum(real *x, int64_t n);
/** x = its sum over the replicas of this model part. */
void dp_sum(real *x, int64_t n);
/** x is d shards of n. Shard d_i becomes its sum over the replicas; the others are undefined. */
void dp_reduce_scatter(real *x, int64_t n);
/** Every replica receives all shards of x from their owners. */
void dp_all_gather(real *x, int64_t n);
/** x = its sum over the first and the last stage, which both hold the tied embedding. Other stages return at once. */
void tie_sum(real *x, int64_t n);
double world_sum(double x);
/** Activations go up the pipeline, their gradients down. A send copies its data and waits for the send before it. */
enum { UP = 1, DOWN = -1 };
void stage_send(int way, const real *x, int64_t n);
void stage_receive(int way, real *x, int64_t n);
void stage_finish(void);   /* returns when all sends are complete */
void fail(const char *format, ...);

/* ---- ops.c: each operation and its backward, which adds to the gradients of weights (dw, db) and overwrites those
 * of inputs (dx) ---- */

void linear(real *y, const real *x, const real *w, const real *b, int R, int C, int K);
void linear_backward(real *dx, real *dw, real *db, const real *dy, const real *x, const real *w, int R, int C, int K);
void layernorm(real *y, const real *x, const real *g, const real *b, int R, int C);
void layernorm_backward(real *dx, real *dg, real *db, const real *dy, const real *x, const real *g, int R, int C);
void attention(real *y, real *prob, const real *qkv, int B, int T, int H, int D);
void attention_backward(real *dqkv, const real *dy, const real *prob, const real *qkv, int B, int T, int H, int D);
void gelu(real *y, const real *x, int64_t n);
void gelu_backward(real *dx, const real *dy, const real *x, int64_t n);
/** @return `scale` times the sum of the rows' losses; logits are overwritten by their gradients */
double cross_entropy(real *logits, const int *targets, int R, int V, double scale);

/* ---- model.c ---- */

/* A weight of this rank. The whole is (outer, cut, inner); under tensor parallelism a rank has cut / parts of the
 * middle axis. */
struct weight { char name[24]; int64_t outer, cut, inner, at, n; int parts, decay, counted; double std, constant; };

struct model {
    const struct plan *plan;
    int B, T, C, H, D, K, V;             /* H heads and K channels of this rank: 1/t of the model's */
    int n_layers, first_layer;           /* of this stage */
    struct weight *weights;
    int n_weights;
    int64_t n, shard;                    /* n: in all weights of this rank; shard: in a replica's shard, d shard >= n */
    real *w, *dw;                        /* d x shard numbers each: weights one after the other, and their gradients */
};

/** Creates this rank's part of the model, with its initial weights. */
void model_init(struct model *, const struct plan *);
/** The activations that a microbatch keeps on this stage from its forward to its backward. */
struct kept *kept_new(const struct model *);
/** tokens, targets (B,T). The first stage reads tokens; the others receive activations. @return the last stage's
 * loss, else 0 */
double model_forward(struct model *, struct kept *, const int *tokens, const int *targets);
/** Adds the gradients to dw. */
void model_backward(struct model *, struct kept *, const int *tokens);
/** Sums the tied embedding's gradients of the first and the last stage. */
void model_tie(struct model *);

/* ---- three functions hold the ideas. Yours can stand in for nano's (lesson 29): define MY_LAYER, MY_SCHEDULE or
 * MY_UPDATE, and link the file that has them ---- */

/* The weights of a layer, in their order in model.weights. */
enum { LN1_G, LN1_B, QKV_W, QKV_B, PROJ_W, PROJ_B, LN2_G, LN2_B, FC_W, FC_B, FC2_W, FC2_B, PER_LAYER };
/* A layer's activations, except its input; mid (R,C) is the output of attention's half. */
struct layer { real *ln1, *qkv, *prob, *att, *mid, *ln2, *fc, *gelu; };
/** MY_LAYER, in model.c. w: the layer's weights on this rank. x (R,C) -> y (R,C), whole on every rank. */
void layer_forward(const struct model *, const real *const *w, const real *x, const struct layer *, real *y);
/** Adds to dw. d (R,C), whole on every rank: on entry the gradient of y, on return that of x. */
void layer_backward(const struct model *, const real *const *w, real *const *dw, const real *x, const struct layer *,
                    real *d);
/** MY_SCHEDULE, in train.c: all microbatches of a step, forward and backward. kept: p - p_i of them. tokens, targets:
 * room for one microbatch each. @return this stage's loss */
double forward_backward(struct model *, struct kept **kept, int64_t step, int *tokens, int *targets);
/** Reads microbatch k of this replica. */
void data_microbatch(const struct plan *, int64_t step, int k, int *tokens, int *targets);
struct states { real *m, *v; };          /* AdamW's moments of the weights that this rank owns */
/** MY_UPDATE, in train.c: sums the gradients, clips them, updates the weights and clears dw. @return the norm */
double update(struct model *, const struct states *, int step);
/** The sum of the squares of dw[from .. to-1], without what another rank counts. */
double squares(const struct model *, int64_t from, int64_t to);
/** Updates the weights from .. to-1 with factor times their gradients; the moments of weight i are number i - from. */
void adamw(struct model *, const struct states *, int64_t from, int64_t to, int step, double factor);

/* ---- random numbers, in parallel.c: functions of seed, name and element, so that any rank can draw them ---- */
double random_normal(uint64_t seed, const char *name, int64_t element);
int64_t random_permute(uint64_t seed, const char *name, uint64_t epoch, uint64_t n, uint64_t i);
