/* A worker's clock t, if servers do not wait for all workers:
 *
 *   pull   wait for every server's weights for clock t                    (after a meeting the worker has them)
 *          forward and backward of its own samples                        g, the mean gradient of these
 *   push   send every server its shard of g, with the clock               and the versions of the weights of g */
#include "dp_variants/server/server_state.h"

#include "lib/ops/reduce.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum status server_push(struct server_loop *x, int64_t clock) {
    int n = x->ranks.n_servers;
    for (int k = 0; k < n; k++) {
        struct shard *s = &x->shards[k];
        int64_t *header = server_header(x, s->message, k);
        server_copy_shard(&x->run->program, k, n, SERVER_GRADIENTS, INTO_MESSAGE, s->message);
        header[0] = clock;
        memcpy(header + 1, x->versions, sizeof *x->versions * (size_t)n);
        TRY(server_send(x, k, s->message, x->ranks.first_server + k, TAG_PUSH, &s->request));
    }
    return OK;
}

enum status server_pull(struct server_loop *x) {
    int n = x->ranks.n_servers;
    for (int k = 0; k < n; k++) {
        struct shard *s = &x->shards[k];
        TRY(comm_wait(&s->request));                                 /* the push has left the buffer */
        TRY(server_receive(x, k, s->message, x->ranks.first_server + k, TAG_PULL, &s->request));
    }
    for (int k = 0; k < n; k++) {
        TRY(comm_wait(&x->shards[k].request));
        server_copy_shard(&x->run->program, k, n, SERVER_WEIGHTS, OUT_OF_MESSAGE, x->shards[k].message);
        x->versions[k] = server_header(x, x->shards[k].message, k)[1 + k];
    }
    return OK;
}

/* Record this worker's mean loss and the norm of its gradient. */
static enum status own_numbers(const struct server_loop *x, struct step_record *s) {
    struct run *r = x->run;
    double *at = s->on_device;
    struct reduce_buffer *grads = malloc(((size_t)r->program.n_params + 1) * sizeof *grads);
    if (!grads) return FAIL(E_MEMORY, "no memory for a table of %d gradients", r->program.n_params);
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        grads[i] = (struct reduce_buffer){w->grad, w->grad_type.dtype, type_n(&w->type)};
    }
    enum status status =
        reduce_sum_of_squares(r->device, grads, r->program.n_params, &at[SCALAR_SQUARES], r->reduce_work);
    free(grads);
    TRY(status);
    at[SCALAR_NORM] = sqrt(at[SCALAR_SQUARES]);
    s->result.lr = plan_lr(&r->plan, r->n_step);
    if (isfinite(at[SCALAR_LOSS]) && isfinite(at[SCALAR_NORM])) return OK;
    return FAIL(E_NUMERIC, "step %" PRId64 " of this worker has loss %g and gradient norm %g, which it does not push; "
                "lower lr=%g, raise warmup=%" PRId64 ", or look at the data", r->n_step + 1, at[SCALAR_LOSS],
                at[SCALAR_NORM], r->plan.lr, r->plan.warmup);
}

enum status server_compute(struct server_loop *x, struct step_record *s) {
    struct run *r = x->run;
    double of_all = r->exec.loss_weight;
    r->exec.loss_weight = of_all * x->ranks.n_workers;               /* the mean over this worker's samples */
    enum status status = exec_run(&r->exec, &r->schedule, true);
    r->exec.loss_weight = of_all;
    TRY(status);
    return own_numbers(x, s);
}
