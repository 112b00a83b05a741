/* Your numbers. count.h says what to count; lesson 01 says how, in "Parameters", "Flops" and "Where memory goes". */
#include "lessons/01-a-table-of-steps/count/count.h"

enum status count_parameters(const struct gpt_shape *m, int64_t *out) {
    (void)m, (void)out;
    return FAIL(E_TODO, "count_parameters is not written yet");
}

enum status count_flops_per_token(const struct gpt_shape *m, double *out) {
    (void)m, (void)out;
    return FAIL(E_TODO, "count_flops_per_token is not written yet");
}

enum status count_static_bytes(const struct gpt_shape *m, bool mixed, struct static_bytes *out) {
    (void)m, (void)mixed, (void)out;
    return FAIL(E_TODO, "count_static_bytes is not written yet");
}

enum status count_layer_activations(const struct gpt_shape *m, int64_t micro_batch, int64_t element_bytes, bool stored,
                                    int64_t *out) {
    (void)m, (void)micro_batch, (void)element_bytes, (void)stored, (void)out;
    return FAIL(E_TODO, "count_layer_activations is not written yet");
}
