/* The gradient of a batch whose ranks hold different numbers of tokens. scale.h has each function's contract; the
 * theory is in lesson 03, "The mean of means". */
#include "lessons/03-data-parallelism/scale/scale.h"

enum status scale_count_tokens(const struct group *group, const struct microbatch *mine, int n, double *all) {
    /* Count the tokens of this rank's microbatches, then sum the count over the ranks. */
    (void)group, (void)mine, (void)n, (void)all;
    return FAIL(E_TODO, "scale_count_tokens is still to be written");
}

enum status scale_step(const struct group *group, const struct microbatch *mine, int n, const double w[SCALE_C],
                       double *loss, double g[SCALE_C]) {
    /* Which factor goes into microbatch_add? When may gradients be summed over the ranks? The loss must be summed,
     * too. */
    (void)group, (void)mine, (void)n, (void)w, (void)loss, (void)g;
    return FAIL(E_TODO, "scale_step is still to be written");
}

enum status scale_factor_of_mean(double own_tokens, double all_tokens, int n_ranks, double *factor) {
    /* 1/n_ranks x sum over ranks of factor_r x (mean over r's tokens) must be (sum over all tokens) / all_tokens. */
    (void)own_tokens, (void)all_tokens, (void)n_ranks, (void)factor;
    return FAIL(E_TODO, "scale_factor_of_mean is still to be written");
}
