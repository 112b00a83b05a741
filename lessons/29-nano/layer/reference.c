/* The reference of exercise layer: four sums, and the biases of proj and fc2 after theirs. */
#include "nano/nano.h"

#include <stdlib.h>

static void add_to(real *y, const real *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
}

/* y has this rank's part of a half. The whole has bias and x once. */
static void add_half(real *y, const real *x, const real *bias, int R, int C) {
    tp_sum(y, (int64_t)R * C);
    for (int i = 0; i < R * C; i++) y[i] += x[i] + bias[i % C];
}

void layer_forward(const struct model *m, const real *const *w, const real *x, const struct layer *k, real *y) {
    int R = m->B * m->T, C = m->C, HD = m->H * m->D;
    layernorm(k->ln1, x, w[LN1_G], w[LN1_B], R, C);
    linear(k->qkv, k->ln1, w[QKV_W], w[QKV_B], R, C, 3 * HD);
    attention(k->att, k->prob, k->qkv, m->B, m->T, m->H, m->D);
    linear(k->mid, k->att, w[PROJ_W], NULL, R, HD, C);
    add_half(k->mid, x, w[PROJ_B], R, C);
    layernorm(k->ln2, k->mid, w[LN2_G], w[LN2_B], R, C);
    linear(k->fc, k->ln2, w[FC_W], w[FC_B], R, C, m->K);
    gelu(k->gelu, k->fc, (int64_t)R * m->K);
    linear(y, k->gelu, w[FC2_W], NULL, R, m->K, C);
    add_half(y, k->mid, w[FC2_B], R, C);
}

/* d: on entry the gradient of y, on return that of x. */
void layer_backward(const struct model *m, const real *const *w, real *const *dw, const real *x, const struct layer *k,
                    real *d) {
    int R = m->B * m->T, C = m->C, HD = m->H * m->D;
    size_t rows = sizeof(real) * (size_t)R;
    real *wide = malloc(rows * (size_t)m->K), *dqkv = malloc(rows * 3 * (size_t)HD), *datt = malloc(rows * (size_t)HD);
    real *dx = malloc(rows * (size_t)C);
    linear_backward(wide, dw[FC2_W], dw[FC2_B], d, k->gelu, w[FC2_W], R, m->K, C);
    gelu_backward(wide, wide, k->fc, (int64_t)R * m->K);
    linear_backward(dx, dw[FC_W], dw[FC_B], wide, k->ln2, w[FC_W], R, C, m->K);
    tp_sum(dx, (int64_t)R * C);
    layernorm_backward(dx, dw[LN2_G], dw[LN2_B], dx, k->mid, w[LN2_G], R, C);
    add_to(d, dx, (int64_t)R * C);
    linear_backward(datt, dw[PROJ_W], dw[PROJ_B], d, k->att, w[PROJ_W], R, HD, C);
    attention_backward(dqkv, datt, k->prob, k->qkv, m->B, m->T, m->H, m->D);
    linear_backward(dx, dw[QKV_W], dw[QKV_B], dqkv, k->ln1, w[QKV_W], R, C, 3 * HD);
    tp_sum(dx, (int64_t)R * C);
    layernorm_backward(dx, dw[LN1_G], dw[LN1_B], dx, x, w[LN1_G], R, C);
    add_to(d, dx, (int64_t)R * C);
    free(wide), free(dqkv), free(datt), free(dx);
}
