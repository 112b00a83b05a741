/* Exercise: what tensor and sequence parallelism cost, on paper (lesson 06, "What it costs"). activations.h says what
 * is asked; the tests compile real programs and compare, to the byte. */
#include "lessons/06-sequence-parallelism/activations/activations.h"

#include "lib/base/status.h"

/* TODO: list what a layer's backward reads: its input, both layernorms' outputs, qkv, ... Which of these lie within a
 * region? */
int64_t saved_bytes(const struct layout *l) {
    (void)l;
    FAIL(E_TODO, "saved_bytes is yours to write");
    return -1;
}

/* TODO: an all-reduce of S bytes sends 2 S (t-1)/t, an all-gather or a reduce-scatter half of that. How many of them,
 * of what? */
double sent_bytes(const struct layout *l, int64_t statistic) {
    (void)l, (void)statistic;
    FAIL(E_TODO, "sent_bytes is yours to write");
    return -1;
}

/* TODO: which tokens has a rank seen where this parameter is used, and is the parameter cut? "Gradients that are
 * parts". */
int has_partial_gradient(const struct layout *l, const char *name) {
    (void)l, (void)name;
    FAIL(E_TODO, "has_partial_gradient is yours to write");
    return -1;
}
