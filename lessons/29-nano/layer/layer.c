/* Exercise: a layer on t ranks (lesson 29, "A layer in two halves").
 *
 * This is nano's layer on one rank. Make it one on t tensor parallel ranks. There are two types, both in nano/nano.h:
 * struct model, of which you need the sizes, and struct layer, the activations that forward keeps for backward.
 *
 *   B, T, C     sequences, positions, channels; R = B T rows
 *   H, D, K     heads of this rank, channels of a head, hidden channels of this rank: m->H and m->K are 1/t of the
 *               model's. So the loops need no change: with its own weights each rank computes its own part
 *   w, dw       the layer's weights on this rank, and their gradients. Rank i has the rows of qkv and fc for its heads
 *               and channels, with their biases, and the columns of proj and fc2 that read them. All of proj.b, fc2.b
 *               and both layernorms is on every rank
 *   tp_sum      (x, n): replaces x by its sum over the t ranks. It is the only message that you need
 *
 * x, y, k->mid and d are whole on every rank, and equal. k->ln1 and k->ln2 too; all other activations are this rank's.
 *
 * Grade a copy in my/ with: make grade LESSON=29 FILE=my/layer.c */
#include "nano/nano.h"

#include <stdlib.h>

static void add_to(real *y, const real *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
}

void layer_forward(const struct model *m, const real *const *w, const real *x, const struct layer *k, real *y) {
    int R = m->B * m->T, C = m->C, HD = m->H * m->D;
    layernorm(k->ln1, x, w[LN1_G], w[LN1_B], R, C);
    linear(k->qkv, k->ln1, w[QKV_W], w[QKV_B], R, C, 3 * HD);
    attention(k->att, k->prob, k->qkv, m->B, m->T, m->H, m->D);
    /* TODO 1: k->mid = proj(att) + x. What does `linear` give on a rank that has some of the heads? */
    linear(k->mid, k->att, w[PROJ_W], w[PROJ_B], R, HD, C);
    add_to(k->mid, x, (int64_t)R * C);
    layernorm(k->ln2, k->mid, w[LN2_G], w[LN2_B], R, C);
    linear(k->fc, k->ln2, w[FC_W], w[FC_B], R, C, m->K);
    gelu(k->gelu, k->fc, (int64_t)R * m->K);
    /* TODO 2: y = fc2(gelu) + mid. */
    linear(y, k->gelu, w[FC2_W], w[FC2_B], R, m->K, C);
    add_to(y, k->mid, (int64_t)R * C);
}

/* d: on entry the gradient of y, on return that of x. */
void layer_backward(const struct model *m, const real *const *w, real *const *dw, const real *x, const struct layer *k,
                    real *d) {
    int R = m->B * m->T, C = m->C, HD = m->H * m->D;
    size_t rows = sizeof(real) * (size_t)R;
    real *wide = malloc(rows * (size_t)m->K), *dqkv = malloc(rows * 3 * (size_t)HD), *datt = malloc(rows * (size_t)HD);
    real *dx = malloc(rows * (size_t)C);
    /* TODO 3: the MLP's half. Which of these gradients are whole, and which a rank's part? Where is the sum needed? */
    linear_backward(wide, dw[FC2_W], dw[FC2_B], d, k->gelu, w[FC2_W], R, m->K, C);
    gelu_backward(wide, wide, k->fc, (int64_t)R * m->K);
    linear_backward(dx, dw[FC_W], dw[FC_B], wide, k->ln2, w[FC_W], R, C, m->K);
    layernorm_backward(dx, dw[LN2_G], dw[LN2_B], dx, k->mid, w[LN2_G], R, C);
    add_to(d, dx, (int64_t)R * C);
    /* TODO 4: attention's half. */
    linear_backward(datt, dw[PROJ_W], dw[PROJ_B], d, k->att, w[PROJ_W], R, HD, C);
    attention_backward(dqkv, datt, k->prob, k->qkv, m->B, m->T, m->H, m->D);
    linear_backward(dx, dw[QKV_W], dw[QKV_B], dqkv, k->ln1, w[QKV_W], R, C, 3 * HD);
    layernorm_backward(dx, dw[LN1_G], dw[LN1_B], dx, x, w[LN1_G], R, C);
    add_to(d, dx, (int64_t)R * C);
    free(wide), free(dqkv), free(datt), free(dx);
}
