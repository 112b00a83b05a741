#include "lib/program/exec.h"

#include "lib/base/clock.h"
#include "lib/device/stopwatch.h"
#include "lib/ops/fusion.h"
#include "lib/ops/reduce.h"
#include "lib/program/exec_feed.h"
#include <stdlib.h>
#include <string.h>

enum status exec_init(struct exec *e) {
    const struct program *p = e->program;
    e->step_requests = calloc((size_t)p->n_steps, sizeof *e->step_requests);
    e->grad_left = calloc((size_t)p->n_params, sizeof *e->grad_left);
    e->grad_written = calloc((size_t)p->n_params, sizeof *e->grad_written);
    e->step_seconds = calloc((size_t)p->n_steps, sizeof *e->step_seconds);
    bool ok = e->step_requests && e->grad_left && e->grad_written && e->step_seconds;
    for (int d = 0; d < N_CHANNELS; d++) {
        e->ring_requests[d] = calloc((size_t)e->memory->ring[d].slots + 1, sizeof **e->ring_requests);
        ok = ok && e->ring_requests[d];
    }
    if (!ok) return FAIL(E_MEMORY, "no memory for the requests of %d steps", p->n_steps);
    return feed_create(e->device, e->program, e->memory->n_microbatches, &e->feed);
}

void exec_fini(struct exec *e) {
    feed_destroy(&e->feed);
    free(e->step_requests);
    free(e->grad_left);
    free(e->grad_written);
    free(e->step_seconds);
    for (int d = 0; d < N_CHANNELS; d++) free(e->ring_requests[d]);
    e->step_requests = NULL;
    for (int d = 0; d < N_CHANNELS; d++) e->ring_requests[d] = NULL;
    e->grad_left = NULL;
    e->grad_written = NULL;
    e->step_seconds = NULL;
}

/* ---- where a value is ---- */
static void *storage_at(const struct exec *e, int chunk, int frame, int storage) {
    const struct storage *s = &e->chunks[chunk].storages[storage];
    enum frame_class c = storage_class(s);
    int64_t base = c == SCRATCH ? e->memory->scratch_offset[s->role] : memory_frame(e->memory, c, chunk, frame);
    return arena_at(&e->arenas[s->role], base + s->offset);
}

static void *value_at(const struct exec *e, int chunk, int frame, int v) {
    return v < 0 ? NULL : storage_at(e, chunk, frame, e->chunks[chunk].values[v].storage);
}

void *exec_out(const struct exec *e, int chunk) { return value_at(e, chunk, 0, e->chunks[chunk].out); }

/* ---- rows ---- */
struct place { int chunk, frame, microbatch; bool training; };

static void *weight_at(const struct exec *e, struct place at, const struct row *r, int i, int param) {
    return r->weight[i] == RESIDENT ? e->program->params[param].weight : value_at(e, at.chunk, at.frame, r->weight[i]);
}
static void *grad_at(const struct exec *e, struct place at, const struct row *r, int i, int param) {
    return r->dweight[i] == RESIDENT ? e->program->params[param].grad : value_at(e, at.chunk, at.frame, r->dweight[i]);
}

static void bind(const struct exec *e, struct place at, const struct row *r, struct call *c) {
    const struct step *s = c->step;
    for (int i = 0; i < s->n_in; i++) {
        c->in[i].data = value_at(e, at.chunk, at.frame, r->in[i]);
        c->din[i].data = value_at(e, at.chunk, at.frame, r->din[i]);
    }
    for (int i = 0; i < s->n_out; i++) {
        c->out[i].data = value_at(e, at.chunk, at.frame, r->out[i]);
        c->dout[i].data = value_at(e, at.chunk, at.frame, r->dout[i]);
    }
    for (int i = 0; i < s->n_weight; i++) {
        c->weight[i].data = weight_at(e, at, r, i, s->weight[i]);
        c->dweight[i].data = grad_at(e, at, r, i, s->weight[i]);
    }
    c->work = value_at(e, at.chunk, at.frame, r->work);
}

static struct call call_of(const struct exec *e, struct place at, const struct row *r) {
    const struct mesh_place *m = &e->mesh->place;
    struct call c = program_call(e->program, &e->program->steps[r->id]);
    bind(e, at, r, &c);
    c.accumulate = r->accumulate;
    c.training = at.training;
    c.watched = e->watched;
    c.seed = e->seed;
    c.n_step = e->n_step;
    c.first_sample = ((int64_t)at.microbatch * m->n.dp + m->rank.dp) * e->micro;
    c.loss_scale = e->loss_scale;
    c.grad_scale = e->grad_scale;
    c.device = e->device;
    c.group = e->mesh->group[c.step->mesh_axis];
    c.request = &e->step_requests[r->id];
    return c;
}

/* ---- gradients that hold nothing yet ----
 * The first row of a step that writes a weight's gradient sets it, if the op can; else the gradient is cleared before, and added to.
 * What lies behind its elements (the padding of shards) is cleared in either case. */
static bool is_fresh(struct exec *e, const struct row *r, int i, int param) {
    if (r->dweight[i] != RESIDENT) return r->zero_dweight >> i & 1;
    bool written = e->grad_written[param];
    e->grad_written[param] = true;
    return !written;
}

static int64_t resident_bytes(const struct param *w) {
    return param_resident_n(w, w->grad_at) * (int64_t)dtype_size(w->grad_type.dtype);
}

static enum status prepare_gradients(struct exec *e, struct place at, const struct row *r, struct call *c) {
    for (int i = 0; i < c->step->n_weight; i++) {
        int param = c->step->weight[i];
        if (r->dweight[i] == NO_VALUE || !is_fresh(e, r, i, param)) continue;
        int64_t from = 0, end = r->dweight[i] == RESIDENT ? resident_bytes(&e->program->params[param])
                                                          : e->chunks[at.chunk].values[r->dweight[i]].bytes;
        if (c->step->op->sets_dweight >> i & 1) {
            c->fresh |= 1u << i;
            from = type_bytes(c->dweight[i].type);
        }
        if (from < end) TRY(e->device->clear(e->device, (char *)c->dweight[i].data + from, end - from));
    }
    return OK;
}

/* A param that no row of this step has used has a gradient of zero. */
static enum status clear_unwritten(struct exec *e) {
    for (int i = 0; i < e->program->n_params; i++) {
        const struct param *w = &e->program->params[i];
        if (w->present && w->grad_at == RESIDENT_WHOLE && !e->grad_written[i]) TRY(e->device->clear(e->device, w->grad, resident_bytes(w)));
    }
    return OK;
}

static enum status run_step_row(struct exec *e, struct place at, const struct row *r) {
    struct call c = call_of(e, at, r);
    TRY(prepare_gradients(e, at, r, &c));
    return op_run(&c, r->kind);
}

static enum status run_param_row(struct exec *e, struct place at, const struct row *r) {
    bool grad = r->kind == ROW_GRAD_READY;
    void *buffer = grad ? grad_at(e, at, r, 0, r->id) : weight_at(e, at, r, 0, r->id);
    bool final = grad && --e->grad_left[r->id] == 0;
    return e->hooks.param_event(e->hooks.self, r->kind, r->id, buffer, final);
}

static enum status run_row(struct exec *e, struct place at, const struct row *r) {
    if (r->kind == ROW_WAIT) return comm_wait(&e->step_requests[r->id]);
    if (r->kind >= ROW_PARAM_AHEAD) return run_param_row(e, at, r);
    return run_step_row(e, at, r);
}

static enum status paint_dead(struct exec *e, struct place at, enum tape_kind tape, int row) {
    const struct chunk *k = &e->chunks[at.chunk];
    for (int i = 0; i < k->n_storages; i++) {
        const struct storage *s = &k->storages[i];
        if (!s->bytes || s->death.tape != tape || s->death.row != row) continue;
        TRY(arena_paint(&e->arenas[s->role], storage_at(e, at.chunk, at.frame, i), s->bytes));
    }
    return OK;
}

/* ---- two rows as one kernel (lib/ops/fusion.h) ----
 * Between the two may be events of params. What the second needs is then asked for before the kernel, a little earlier; what is
 * done is done after it, a little later. But only events that move no memory may change their order with it: the buffer of a
 * sharded param ends with DONE, and begins with AHEAD. */
static bool may_change_order(const struct row *r) {
    return r->kind == ROW_PARAM_NEEDED || (r->kind == ROW_PARAM_DONE && r->weight[0] == RESIDENT);
}

static enum status run_events(struct exec *e, struct place at, const struct row *first, const struct row *end, enum row_kind kind) {
    for (const struct row *r = first; r < end; r++)
        if (r->kind == kind) TRY(run_param_row(e, at, r));
    return OK;
}

/* Which rows are neighbours is fixed; so is the answer, but finding it is cheap. *n: how many rows were run; 0: not fused. */
static enum status run_fused(struct exec *e, struct place at, const struct row *r, const struct row *end, int *n) {
    const struct step *steps = e->program->steps;
    const struct row *next = r + 1;
    *n = 0;
    if (!e->fuse || r->kind >= ROW_WAIT) return OK;
    while (next < end && may_change_order(next)) next++;
    if (next == end || next->kind != fusion_second(r->kind)) return OK;
    if (!fusion_listed(steps[r->id].op, steps[next->id].op, r->kind, e->device->kind)) return OK;
    struct call first = call_of(e, at, r), second = call_of(e, at, next);
    fused_kernel *run = fusion_of(&first, &second, r->kind);
    if (!run) return OK;
    *n = (int)(next - r) + 1;
    TRY(run_events(e, at, r + 1, next, ROW_PARAM_NEEDED));
    TRY(prepare_gradients(e, at, r, &first));
    TRY(run(&first, &second));
    return run_events(e, at, r + 1, next, ROW_PARAM_DONE);
}

static bool counts(struct place at, const struct row *r) { return at.training && r->kind < ROW_WAIT; }

/* A device that is only told what to do has the row's time later, in the same place. */
static enum status note_time(struct exec *e, struct place at, const struct row *r, double seconds) {
    e->seconds[r->kind] += seconds;
    if (!counts(at, r)) return OK;
    double *sum = &e->step_seconds[r->id][r->kind];
    if (e->stopwatch) return stopwatch_stop(e->stopwatch, sum);
    *sum += seconds;
    return OK;
}

/* ---- recording (lib/base/span.h) ---- */
/* An event that nobody had anything to do for says nothing, and there are as many of them as of all others. */
static const double shortest_event_s = 1e-6;

static void close_row(struct exec *e, const struct tape *t, int i, int n, int span) {
    struct span *x = span_at(e->recording, span);
    if (!x) return;
    const struct row *r = &t->rows[i];
    span_close(e->recording, span);
    if (r->kind >= ROW_PARAM_AHEAD && span == e->recording->n - 1 && x->end_s - x->start_s < shortest_event_s) {
        e->recording->n--;
        return;
    }
    x->id = r->id;
    x->row = i;
    if (n > 1) x->other = t->rows[i + n - 1].id;
}

static int open_action(struct exec *e, const struct action *a, int index) {
    if (!e->recording) return -1;
    struct span *now = &e->recording->now;
    now->action = index;
    now->microbatch = a->microbatch;
    now->chunk = (int16_t)a->chunk;
    return span_open(e->recording, SPAN_ACTION, (int)a->kind);
}

static enum status run_tape(struct exec *e, struct place at, enum tape_kind tape) {
    const struct tape *t = &e->chunks[at.chunk].tapes[tape];
    for (int i = 0, n; i < t->n; i += n) {
        double start = clock_s();
        int span = span_open_at(e->recording, SPAN_ROW, (int)t->rows[i].kind, start);
        if (e->stopwatch && counts(at, &t->rows[i])) TRY(stopwatch_start(e->stopwatch));
        TRY(run_fused(e, at, &t->rows[i], t->rows + t->n, &n));
        if (n == 0) {
            TRY(run_row(e, at, &t->rows[i]));
            n = 1;
        }
        TRY(note_time(e, at, &t->rows[i], clock_s() - start));
        close_row(e, t, i, n, span);
        for (int row = i; e->paint && row < i + n; row++) TRY(paint_dead(e, at, tape, row));
        comm_progress();
    }
    return OK;
}

/* ---- pipeline transfers: a receive lands in the value itself; a send leaves a copy in the ring and goes on ---- */
static void *ring_slot(const struct exec *e, int channel, int slot) {
    const struct stage_ring *ring = &e->memory->ring[channel];
    return arena_at(&e->arenas[ROLE_COMM], ring->offset + slot * arena_align(ring->bytes));
}

static enum status receive(struct exec *e, const struct action *a, int frame) {
    const struct chunk *k = &e->chunks[a->chunk];
    int from = schedule_hop(e->schedule, a).rank, channel = schedule_channel(e->schedule, a);
    int v = a->kind == RECV_B ? k->dout : k->in;
    void *to = value_at(e, a->chunk, frame, v);
    struct comm_request request = {0};
    if (from == e->schedule->rank) {                                 /* this rank has left it in its own ring */
        int slot = e->ring_taken[channel]++ % e->memory->ring[channel].slots;
        return e->device->copy(e->device, to, ring_slot(e, channel, slot), k->values[v].bytes);
    }
    TRY(comm_recv_start(e->mesh->group[AXIS_PP], to, k->values[v].bytes, UINT8, from, channel, &request));
    return comm_wait(&request);
}

static enum status send(struct exec *e, const struct action *a, int frame) {
    const struct chunk *k = &e->chunks[a->chunk];
    int to = schedule_hop(e->schedule, a).rank, channel = schedule_channel(e->schedule, a);
    int v = a->kind == SEND_B ? k->din : k->out, slot = e->ring_used[channel]++ % e->memory->ring[channel].slots;
    struct comm_request *request = &e->ring_requests[channel][slot];
    void *copy = ring_slot(e, channel, slot);
    TRY(comm_wait(request));                                         /* the slot's last message has left */
    TRY(e->device->copy(e->device, copy, value_at(e, a->chunk, frame, v), k->values[v].bytes));
    if (to == e->schedule->rank) return OK;
    return comm_send_start(e->mesh->group[AXIS_PP], copy, k->values[v].bytes, UINT8, to, channel, request);
}

static enum status finish_sends(struct exec *e) {
    for (int d = 0; d < N_CHANNELS; d++)
        for (int i = 0; i < e->memory->ring[d].slots; i++) TRY(comm_wait(&e->ring_requests[d][i]));
    return OK;
}

static int64_t message_bytes(const struct chunk *k, enum action_kind kind) {
    int v = kind == RECV_F ? k->in : kind == SEND_F ? k->out : kind == RECV_B ? k->dout : k->din;
    return k->values[v].bytes;
}

static enum status run_transfer(struct exec *e, const struct action *a, int frame, struct span *recorded) {
    double start = clock_s();
    if (recorded) recorded->bytes = (double)message_bytes(&e->chunks[a->chunk], a->kind);
    TRY(a->kind == RECV_F || a->kind == RECV_B ? receive(e, a, frame) : send(e, a, frame));
    e->transfer_s += clock_s() - start;
    return OK;
}

/* ---- actions ---- */
static enum status add_loss(struct exec *e, const void *loss) {
    double *sum = e->loss_at ? e->loss_at : &e->loss;
    return reduce_add(e->device, sum, loss, e->program->slots[e->program->loss].type.dtype);
}

static enum status run_compute(struct exec *e, const struct action *a, struct place at) {
    const struct chunk *k = &e->chunks[a->chunk];
    bool forward = a->kind == ACTION_F;
    enum tape_kind loss_tape = at.training ? k->loss_tape : TAPE_F;
    if (forward && (k->tokens >= 0 || k->targets >= 0)) {
        int span = span_open(e->recording, SPAN_FETCH, 0);
        TRY(feed_microbatch(e->feed, &e->hooks, a->microbatch, value_at(e, a->chunk, at.frame, k->tokens),
                            value_at(e, a->chunk, at.frame, k->targets)));
        span_close(e->recording, span);
    }
    TRY(run_tape(e, at, (enum tape_kind)a->kind));
    return k->loss >= 0 && (enum tape_kind)a->kind == loss_tape ? add_loss(e, value_at(e, a->chunk, at.frame, k->loss)) : OK;
}

/* "Final" is counted from the rows that will run, not guessed: it covers accumulation, ties, chunks and split weights. */
static void count_grad_rows(struct exec *e, const struct schedule *s) {
    memset(e->grad_left, 0, (size_t)e->program->n_params * sizeof *e->grad_left);
    for (int i = 0; i < s->n; i++) {
        if (!action_is_compute(s->actions[i].kind)) continue;
        const struct tape *t = &e->chunks[s->actions[i].chunk].tapes[s->actions[i].kind];
        for (int j = 0; j < t->n; j++)
            if (t->rows[j].kind == ROW_GRAD_READY) e->grad_left[t->rows[j].id]++;
    }
}

enum status exec_run(struct exec *e, const struct schedule *s, bool training) {
    e->recording = training ? e->spans : NULL;
    e->schedule = s;
    e->loss = e->transfer_s = 0;
    if (e->loss_at) TRY(e->device->clear(e->device, e->loss_at, sizeof *e->loss_at));
    memset(e->seconds, 0, sizeof e->seconds);
    memset(e->grad_written, 0, (size_t)e->program->n_params * sizeof *e->grad_written);
    count_grad_rows(e, s);
    for (int i = 0; i < s->n; i++) {
        const struct action *a = &s->actions[i];
        struct place at = {a->chunk, training ? a->microbatch : memory_first_microbatch(e->memory, a->chunk), a->microbatch, training};
        int span = open_action(e, a, i);
        TRY(action_is_compute(a->kind) ? run_compute(e, a, at) : run_transfer(e, a, at.frame, span_at(e->recording, span)));
        span_close(e->recording, span);
    }
    spans_outside(e->recording);
    if (training) TRY(clear_unwritten(e));
    return finish_sends(e);
}
