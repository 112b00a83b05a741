/* What a GPT costs. See count.h, and lib/cost/activations.h for the last one. */
#include "lessons/01-a-table-of-steps/count/count.h"

/* A layer: qkv 3 C^2 + 3 C, proj C^2 + C, fc 4 C^2 + 4 C, fc2 4 C^2 + C, two layernorms 2 x 2 C: together 12 C^2 + 13
 * C. */
enum status count_parameters(const struct gpt_shape *m, int64_t *out) {
    int64_t C = m->hidden;
    *out = (m->vocab + m->seq) * C + m->layers * (12 * C * C + 13 * C) + 2 * C;
    return OK;
}

/* Attention: scores 2 T C and their sum of values 2 T C a token and layer, once forward and twice backward. */
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

/* Layer input, ln1, qkv (3), attention output, res1, ln2, fc (4), gelu (4): 16 elements for each of sbh. Masks of two
 * residuals: 2 bytes for each. Probabilities, dropped ones and a mask: 2 e + 1 bytes for each of a s^2 b. */
enum status count_layer_activations(const struct gpt_shape *m, int64_t micro_batch, int64_t element_bytes, bool stored,
                                    int64_t *out) {
    int64_t sbh = m->seq * micro_batch * m->hidden, assb = m->heads * m->seq * m->seq * micro_batch;
    *out = 16 * element_bytes * sbh + (stored ? 2 * sbh + (2 * element_bytes + 1) * assb : 0);
    return OK;
}
