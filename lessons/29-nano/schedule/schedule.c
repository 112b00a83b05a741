/* Exercise: 1F1B (lesson 29, "One loop").
 *
 * This is a step of nano that runs all forwards, and then all backwards. It keeps the activations of all n microbatches
 * at once: kept[0] to kept[n-1]. Make it 1F1B: now `kept` has p - i entries on stage i, and no more. There are three
 * types, all in nano/nano.h: struct model; struct kept, the activations of a microbatch on this stage; struct plan, the
 * numbers of the command line.
 *
 *   grid.p, grid.p_i        p stages, and this one, i: the last is p - 1
 *   data_microbatch         reads microbatch k into tokens and targets
 *   model_forward           receives from the stage below, computes, sends to the one above. Returns the loss of the
 *                           microbatch on the last stage, else 0
 *   model_backward          the same downwards, with what forward has kept. It adds the gradients to the model's
 *   stage_finish            returns when all of this stage's sends are complete
 *
 * A receive waits; a send does not, but for the one before it in its direction.
 *
 * TODO 1: how many forwards does stage i run before its first backward? The last stage runs one.
 * TODO 2: from then on, one forward and one backward in turn, until all n have gone both ways. n may be below p.
 * TODO 3: which entry of kept is free for the next forward, and which does a backward need?
 *
 * Grade a copy in my/ with: make grade LESSON=29 FILE=my/schedule.c */
#include "nano/nano.h"

/* All microbatches of a step. Returns the sum of this stage's losses. */
double forward_backward(struct model *m, struct kept **kept, int64_t step, int *tokens, int *targets) {
    const struct plan *p = m->plan;
    int n = p->global_batch / (p->micro_batch * grid.d);
    double loss = 0;
    for (int k = 0; k < n; k++) {
        data_microbatch(p, step, k, tokens, targets);
        loss += model_forward(m, kept[k], tokens, targets);
    }
    for (int k = 0; k < n; k++) {
        data_microbatch(p, step, k, tokens, targets);
        model_backward(m, kept[k], tokens);
    }
    stage_finish();
    return loss;
}
