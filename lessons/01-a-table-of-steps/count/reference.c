/* Parameters, flops and bytes of a GPT. See count.h, and lib/cost/activations.h for count_layer_activations. */
#include "lessons/01-a-table-of-steps/count/count.h"

/* A layer: qkv 3 C^2 + 3 C, proj C^2 + C, fc 4 C^2 + 4 C, fc2 4 C^2 + C, two layernorms 2 x 2 C: together 12 C^2 + 13
 * C. */
enum status count_parameters(const struct gpt_shape *m, int64_t *out) {
    int64_t C = m->hidden;
    *out = (m->vocab + m->seq) * C + m->layers * (12 * C * C + 13 * C) + 2 * C;
    return OK;
}

/* Attention has 2 T C flops for scores and 2 T C for sums of values, per token and layer, once forward and twice
 * backward. */
enum status count_flops_per_token(const struct gpt_shape *m, double *out) {
    double C = (double)m->hidden, L = (double)m->layers;
    *out = 6 * (12 * L * C * C + (double)m->vocab * C) + 12 * L * C * (double)m->seq;
    return OK;
}

enum status count_static_bytes(const struct gpt_shape *m, bool mixed, struct static_bytes *out) {
    int64_t n = 0;
    TRY(count_parameters(m, &n));
    *out = mixed ? (struct static_bytes){2 * n, 2 * n, 12 * n} : (struct static_bytes){4 * n, 4 * n, 8 * n};
    return OK;
}

/* s: seq, b: micro_batch, h: hidden, a: heads, e: element_bytes. Layer input, ln1, qkv (3), attention output, res1,
 * ln2, fc (4), gelu (4) have 16 s b h elements. Masks of two residuals have 2 s b h bytes. Probabilities before and
 * after dropout, and a mask, have (2 e + 1) a s^2 b bytes. */
enum status count_layer_activations(const struct gpt_shape *m, int64_t micro_batch, int64_t element_bytes, bool stored,
                                    int64_t *out) {
    int64_t sbh = m->seq * micro_batch * m->hidden, assb = m->heads * m->seq * m->seq * micro_batch;
    *out = 16 * element_bytes * sbh + (stored ? 2 * sbh + (2 * element_bytes + 1) * assb : 0);
    return OK;
}
