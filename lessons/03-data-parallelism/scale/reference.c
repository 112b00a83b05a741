/* The gradient of a batch whose ranks hold different numbers of tokens. Each microbatch's gradient is divided by the
 * number of all tokens; later operations only add. So the number of tokens on each rank does not matter. */
#include "lessons/03-data-parallelism/scale/scale.h"

#include <string.h>

enum status scale_count_tokens(const struct group *group, const struct microbatch *mine, int n, double *all) {
    *all = 0;
    for (int i = 0; i < n; i++) *all += (double)mine[i].n_tokens;
    return comm_all_reduce(group, all, 1, FP64, COMM_SUM);
}

/* One all-reduce for loss and gradient has one latency. */
enum status scale_step(const struct group *group, const struct microbatch *mine, int n, const double w[SCALE_C],
                       double *loss, double g[SCALE_C]) {
    double all, sum[1 + SCALE_C] = {0};
    TRY(scale_count_tokens(group, mine, n, &all));
    for (int i = 0; i < n; i++) microbatch_add(&mine[i], w, 1 / all, &sum[0], &sum[1]);
    TRY(comm_all_reduce(group, sum, 1 + SCALE_C, FP64, COMM_SUM));
    *loss = sum[0];
    memcpy(g, &sum[1], SCALE_C * sizeof *g);
    return OK;
}

enum status scale_factor_of_mean(double own_tokens, double all_tokens, int n_ranks, double *factor) {
    *factor = n_ranks * own_tokens / all_tokens;
    return OK;
}
