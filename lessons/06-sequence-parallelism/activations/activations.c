/* Exercise: the costs of tensor and sequence parallelism, on paper (lesson 06, "What it costs"). activations.h has the
 * contract. The tests compile real programs and compare the bytes exactly. */
#include "lessons/06-sequence-parallelism/activations/activations.h"

#include "lib/base/status.h"

/* TODO: list the tensors that a layer's backward reads: its input, both layernorms' outputs, qkv, ... Which of them are
 * inside a region? */
int64_t saved_bytes(const struct layout *l) {
    (void)l;
    (void)FAIL(E_TODO, "saved_bytes is yours to write");
    return -1;
}

/* TODO: with t ranks, an all-reduce of S bytes sends 2 S (t-1)/t, an all-gather or a reduce-scatter half of that. How
 * many are there, and of which tensors? */
double sent_bytes(const struct layout *l, int64_t statistic) {
    (void)l, (void)statistic;
    (void)FAIL(E_TODO, "sent_bytes is yours to write");
    return -1;
}

/* TODO: which tokens does a rank see where this parameter is used, and is the parameter cut? See "Gradients that are
 * parts". */
int has_partial_gradient(const struct layout *l, const char *name) {
    (void)l, (void)name;
    (void)FAIL(E_TODO, "has_partial_gradient is yours to write");
    return -1;
}
