/* A server on a rank of its own that waits for all workers, in two events:
 *
 *   NO_SAMPLES      while workers compute: for each param, in the order of backward, receive the server's part of the
 *                   gradient from every worker, and add in the order of workers:  g = ((g_0 + g_1) + g_2) + ...
 *                   (the run then computes norm, clip factor and AdamW over the server's elements)
 *   PARAM_PUBLISH   send the server's part of the weights to every worker
 *
 * Stored where: the first worker's part is received in the gradient's place; role comm has room for the other workers'
 * parts of one param at a time: (W - 1) max_i |part_i|.
 *
 * What breaks: a worker that is left out of the sum, or added twice. */
#include "dp_variants/server/server_sync.h"

#include "dp_variants/server/server.h"
#include "lib/ops/reduce.h"
#include "lib/run/run.h"

static int64_t slot_of(const struct program *p) {
    int64_t most = 0;
    for (int i = 0; i < p->n_params; i++) {
        const struct param *w = &p->params[i];
        most = max64(most, param_is_stored(w) ? w->own_n * (int64_t)dtype_size(w->grad_type.dtype) : 0);
    }
    return most;
}

static int64_t room_bytes(const struct program *p, int n_workers) {
    return n_workers > 1 ? (n_workers - 2) * arena_align(slot_of(p)) + slot_of(p) : 0;
}

enum status server_alone_cost(const struct plan *plan, const struct program *p, struct bill *bill) {
    const struct server_ranks ranks = server_ranks_of(plan, AXIS_DP);
    bill->technique_comm_bytes += room_bytes(p, ranks.n_workers);
    for (int i = 0; i < p->n_params; i++) {
        const struct param *w = &p->params[i];
        if (param_is_stored(w) && w->own_n > 0)
            bill_exchange(bill, &p->place, (struct exchange){.axis = AXIS_DP, .op = COMM_SEND, .count = w->own_n,
                                                             .dtype = w->type.dtype, .times = ranks.n_workers,
                                                             .when = AT_END});
    }
    return OK;
}

/* ---- events ---- */
static enum status add_up(struct run *r, struct server_sync *s, int param) {
    const struct param *w = &r->program.params[param];
    const struct group *group = r->mesh.group[AXIS_DP];
    struct comm_request *request = &s->requests[param * s->of_param];
    int n_workers = server_ranks_of(&r->plan, AXIS_DP).n_workers;
    for (int k = 0; k < n_workers; k++) {
        void *to = k ? s->room + (k - 1) * s->slot_bytes : param_own_grad(w);
        TRY(comm_recv_start(group, to, w->own_n, w->grad_type.dtype, k, param, &request[k]));
    }
    TRY(comm_wait(&request[0]));
    for (int k = 1; k < n_workers; k++) {
        TRY(comm_wait(&request[k]));
        TRY(reduce_accumulate(r->device, param_own_grad(w), s->room + (k - 1) * s->slot_bytes, w->own_n,
                              w->grad_type.dtype));
    }
    return OK;
}

static enum status no_samples(struct run *r, void *self, const struct event *e) {
    (void)e;
    for (int i = r->program.n_params - 1; i >= 0; i--)
        if (param_is_stored(&r->program.params[i]) && r->program.params[i].own_n > 0) TRY(add_up(r, self, i));
    return OK;
}

static enum status param_publish(struct run *r, void *self, const struct event *e) {
    struct server_sync *s = self;
    int n_workers = server_ranks_of(&r->plan, AXIS_DP).n_workers;
    (void)e;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        for (int k = 0; param_is_stored(w) && w->own_n > 0 && k < n_workers; k++)
            TRY(comm_send_start(r->mesh.group[AXIS_DP], param_own_weight(w), w->own_n, w->type.dtype, k, i,
                                &s->requests[i * s->of_param + k]));
    }
    for (int i = 0; i < r->program.n_params * s->of_param; i++) TRY(comm_wait(&s->requests[i]));
    return OK;
}

enum status server_alone_create(struct run *r, struct server_sync *s) {
    void *room;
    TRY(run_take_comm(r, room_bytes(&r->program, server_ranks_of(&r->plan, AXIS_DP).n_workers), &room));
    s->room = room;
    s->slot_bytes = arena_align(slot_of(&r->program));
    TRY(run_subscribe(r, EVENT_NO_SAMPLES, no_samples, s));
    return run_subscribe(r, EVENT_PARAM_PUBLISH, param_publish, s);
}
