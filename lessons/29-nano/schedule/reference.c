/* The reference of exercise schedule: nano's loop. */
#include "nano/nano.h"

double forward_backward(struct model *m, struct kept **kept, int64_t step, int *tokens, int *targets) {
    const struct plan *p = m->plan;
    int n = p->global_batch / (p->micro_batch * grid.d), warm = grid.p - 1 - grid.p_i, in_flight = warm + 1;
    double loss = 0;
    for (int k = 0; k < n + warm; k++) {
        if (k < n) {
            data_microbatch(p, step, k, tokens, targets);
            loss += model_forward(m, kept[k % in_flight], tokens, targets);
        }
        if (k >= warm) {
            data_microbatch(p, step, k - warm, tokens, targets);
            model_backward(m, kept[(k - warm) % in_flight], tokens);
        }
    }
    stage_finish();
    return loss;
}
