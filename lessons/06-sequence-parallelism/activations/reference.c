#include "lessons/06-sequence-parallelism/activations/activations.h"
#include <string.h>

/* A layer saves 16 B T C elements: input, ln1, res1, ln2 outside of regions; qkv (3), attention (1), fc (4) and gelu
 * (4) inside. */
int64_t saved_bytes(const struct layout *l) {
    int64_t stream = l->B * l->T * l->C, scores = l->B * l->heads * l->T * l->T / l->tp;
    int64_t outside = stream * (4 * l->element + (l->stored_masks ? 2 : 0)) / (l->sp ? l->tp : 1);
    int64_t within = 12 * l->element * stream / l->tp;
    int64_t kept = l->materialised ? scores * (l->stored_masks ? 2 * l->element + 1 : l->element) : 0;
    return outside + within + kept;
}

/* Partial gradients with sp: in each layer ln1 and ln2 (2 C each), proj.b and fc2.b (C each); wpe (T C); the last
 * layernorm (2 C). */
double sent_bytes(const struct layout *l, int64_t statistic) {
    double stream = (double)(l->B * l->T * l->C * l->element), part = (double)(l->tp - 1) / (double)l->tp;
    double sums = 2 * part * (double)(4 * l->layers + 2) * stream;
    double loss = 2 * part * (double)(3 * l->B * l->T * statistic);
    double again = l->sp ? part * (double)(2 * l->layers + 1) * stream : 0;
    double partial = l->sp ? 2 * part * (double)((6 * l->layers + l->T + 2) * l->C * l->element) : 0;
    return (double)l->microbatches * (sums + loss + again) + partial;
}

/* With sp a rank sees only T/tp tokens outside of regions, so the gradients of parameters used there are partial. The
 * parameters used inside regions see all T tokens, and are cut. */
int has_partial_gradient(const struct layout *l, const char *name) {
    static const char *const cut[] = {"wte", "qkv.w", "qkv.b", "proj.w", "fc.w", "fc.b", "fc2.w"};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++)
        if (!strcmp(name, cut[i])) return 0;
    return l->sp;
}
