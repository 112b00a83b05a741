/* ranks: 3
 *
 * Minimal elastic training: each rank has one term of a sum. One rank loses its memory, and no term is lost.
 *
 *     state of rank r: x_r        step: x_r += sum over ranks of x        every step: a copy of x_r to the right
 *
 *        step 2                  rank 1 forgets                  rank 2 has a copy
 *     0: x_0, copy of x_2        0: x_0, copy of x_2             0: x_0, copy of x_2
 *     1: x_1, copy of x_0        1: ?                            1: x_1            <- from 2
 *     2: x_2, copy of x_1        2: x_2, copy of x_1             2: x_2, copy of x_1
 *
 * Each rank waits for its copy before the next sum. So when a rank has the sum, all ranks have all copies of the step
 * before it, and can go back to that step. Here rank 1 forgets in the middle of step 3, when the others have already
 * added the sum. They have to undo that, because otherwise the steps of different ranks would be mixed. So each rank
 * keeps its own state of the last step as well.
 *
 * elastic/ does this for every shard of a model, with processes that really die. All values are integers, so the result
 * must equal, to the bit, that of a run in which no rank forgets. */
#include "lib/comm/comm_request.h"
#include <stdio.h>

enum { STEPS = 5, LOST_IN = 3 };

struct kept { double now, before, left; int step; };      /* x_r now; after `step`: x_r, and x of the left neighbor */

static enum status keep(struct kept *x, int step) {
    int n = comm_world_size(), rank = comm_world_rank();
    struct comm_request sending, receiving;
    x->before = x->now;
    x->step = step;
    TRY(comm_recv_start(group_world(), &x->left, 1, FP64, (rank + n - 1) % n, 0, &receiving));
    TRY(comm_send_start(group_world(), &x->before, 1, FP64, (rank + 1) % n, 0, &sending));
    TRY(comm_wait(&receiving));
    return comm_wait(&sending);
}

static enum status step(struct kept *x) {
    double sum = x->now;
    TRY(comm_all_reduce(group_world(), &sum, 1, FP64, COMM_SUM));
    x->now += sum;
    return OK;
}

/* Rank `lost` loses its state. Its right neighbor sends the copy back, and all ranks go back to the copy's step. */
static enum status go_back(struct kept *x, int lost) {
    int n = comm_world_size(), rank = comm_world_rank(), right = (lost + 1) % n;
    struct comm_request request = {0};
    if (rank == lost) *x = (struct kept){0};
    TRY(comm_broadcast(group_world(), &x->step, 1, INT32, right));
    if (rank == lost) TRY(comm_recv_start(group_world(), &x->before, 1, FP64, right, 0, &request));
    if (rank == right) TRY(comm_send_start(group_world(), &x->left, 1, FP64, lost, 0, &request));
    TRY(comm_wait(&request));
    x->now = x->before;
    return keep(x, x->step);                              /* from here on, another rank may be lost */
}

static enum status train(int lost, double *out) {
    struct kept x = {.now = 1 + comm_world_rank()};
    TRY(keep(&x, 0));
    for (int s = 1; s <= STEPS; s++) {
        TRY(step(&x));
        if (s == LOST_IN && lost >= 0) {
            TRY(go_back(&x, lost));
            s = x.step;
            lost = -1;
            continue;
        }
        TRY(keep(&x, s));
    }
    *out = x.now;
    return OK;
}

static enum status compare(void) {
    double whole, again;
    if (comm_world_size() == 1) return FAIL(E_CONFIG, "1 rank has no neighbor; start it with mpirun -n 3");
    TRY(train(-1, &whole));
    for (int lost = 0; lost < comm_world_size(); lost++) {
        TRY(train(lost, &again));
        if (again != whole) return FAIL(E_NUMERIC, "%g after rank %d was lost; %g without", again, lost, whole);
    }
    if (comm_is_rank_0()) printf("each of %d ranks was lost once: %g as in the run that lost none\n", comm_world_size(),
                                 whole);
    return OK;
}

int main(int argc, char **argv) {
    enum status status = comm_start(&argc, &argv);
    if (status == OK) status = fail_agree(group_world(), compare());
    else status_report();
    comm_finish(true, status_exit_code(status));
    return status_exit_code(status);
}
