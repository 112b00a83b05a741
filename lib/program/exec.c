#include "lib/program/exec_state.h"

#include "lib/base/exact.h"
#include "lib/ops/reduce.h"
#include "lib/program/exec_feed.h"
#include "lib/program/gradients.h"
#include "lib/program/sums.h"
#include <stdlib.h>
#include <string.h>

enum status exec_init(struct exec *e) {
    const struct program *p = e->program;
    e->step_requests = calloc((size_t)p->n_steps, sizeof *e->step_requests);
    e->step_seconds = calloc((size_t)p->n_steps, sizeof *e->step_seconds);
    e->copies = calloc((size_t)p->n_slots + 1, sizeof *e->copies);
    bool ok = e->step_requests && e->step_seconds && e->copies;
    for (int d = 0; d < N_CHANNELS; d++) {
        e->ring_requests[d] = calloc((size_t)e->memory->ring[d].slots * MAX_STREAMS + 1, sizeof **e->ring_requests);
        ok = ok && e->ring_requests[d];
    }
    if (!ok) return FAIL(E_MEMORY, "no memory for the requests of %d steps", p->n_steps);
    return feed_create(e->device, e->program, e->memory->n_microbatches, &e->feed);
}

void exec_fini(struct exec *e) {
    feed_destroy(&e->feed);
    for (int i = 0; e->copies && i < e->program->n_slots; i++) e->device->mark_fini(e->device, &e->copies[i]);
    free(e->copies);
    e->copies = NULL;
    free(e->step_requests);
    free(e->step_seconds);
    for (int d = 0; d < N_CHANNELS; d++) free(e->ring_requests[d]);
    e->step_requests = NULL;
    for (int d = 0; d < N_CHANNELS; d++) e->ring_requests[d] = NULL;
    e->step_seconds = NULL;
}

/* ---- addresses of values ---- */
static const struct arena *arena_of(const struct exec *e, const struct storage *s) {
    return &(s->tier == TIER_HOST ? e->host_arenas : e->arenas)[s->role];
}

static void *storage_at(const struct exec *e, int chunk, int frame, int storage) {
    const struct storage *s = &e->chunks[chunk].storages[storage];
    enum frame_class c = storage_class(s);
    int64_t base = c == SCRATCH ? e->memory->scratch_offset[s->role] : memory_frame(e->memory, c, chunk, frame);
    return arena_at(arena_of(e, s), base + s->offset);
}

/* The argument of the functions that find addresses: a value of one microbatch, or a param's own weight and
 * gradient. */
struct located { const struct exec *exec; struct place at; };

void *exec_value(const struct exec *e, struct place at, int v) {
    return v < 0 ? NULL : storage_at(e, at.chunk, at.frame, e->chunks[at.chunk].values[v].storage);
}
static void *value_at(const void *located, int v) {
    const struct located *l = located;
    return exec_value(l->exec, l->at, v);
}
static void *weight_at(const void *located, int param) {
    const struct located *l = located;
    const struct param *w = &l->exec->program->params[param];
    const struct param_array *all = &w->arrays[ARRAY_WEIGHT], *hot;
    if (w->update == UPDATE_ROWS && (hot = param_array(w, HOT_ROWS))) return hot->at;
    if (all->copies < 2) return w->weight;
    int64_t version = l->exec->since_flush - l->at.action->age + all->copies;  /* age < copies */
    return (char *)all->at + version % all->copies * all->stride;
}
/* The address of this microbatch's record of a table's gradient. */
static void *grad_at(const void *located, int param) {
    const struct located *l = located;
    const struct param *w = &l->exec->program->params[param];
    if (w->update != UPDATE_ROWS) return w->update == UPDATE_STATE ? NULL : w->grad;
    return param_records(w, l->exec->n_step) + l->at.action->microbatch * w->record_bytes;
}

void *exec_out(const struct exec *e, int chunk) {
    return exec_value(e, (struct place){.chunk = chunk}, e->chunks[chunk].out[0]);
}

/* ---- rows ---- */
/* Set the fields of a call that fixed sums read. */
static void sums_call(struct exec *e, struct place at, const struct row *r, struct call *c) {
    c->first_sample = sums_first_sample(e->program, &e->mesh->place, e->schedule, at.action->microbatch, e->micro);
    bool sums_loss = e->program->fixed_sums && r->kind == ROW_FORWARD && c->step->out[0] == e->program->loss;
    c->loss_sum = sums_loss ? &e->loss_sum : NULL;
}

static struct call call_of(struct exec *e, struct place at, const struct row *r) {
    struct call c = program_call(e->program, &e->program->steps[r->id]);
    const struct located here = {e, at};
    row_bind(r, &(struct addresses){&here, value_at, weight_at, grad_at}, &c);
    c.accumulate = r->accumulate;
    c.training = at.training;
    c.watched = e->watched;
    c.seed = e->seed;
    c.n_step = e->n_step + (uint64_t)(at.action->microbatch / e->schedule->n_microbatches); /* or of a later step */
    c.first_sample = schedule_first_sample(at.action->microbatch % e->schedule->n_microbatches,
                                           e->mesh->place.rank.dp, e->workers, e->micro);
    c.loss_weight = e->loss_weight;
    c.loss_scale = e->loss_scale;
    c.device = e->device;
    c.group = e->mesh->group[c.step->mesh_axis];
    c.request = &e->step_requests[r->id];
    if (c.fixed_sums) sums_call(e, at, r, &c);
    return c;
}

/* ---- fresh gradients: no row has written them yet ----
 * If the op can set a fresh gradient, it does; otherwise the gradient is cleared first, and the op adds to it. The
 * padding after its elements (of shards) is cleared in both cases. */
static bool is_fresh(struct place at, const struct row *r, int i) {
    return r->fresh >> i & 1 && (r->dweight[i] != RESIDENT || at.action->first);
}

static int64_t resident_bytes(const struct param *w) {
    return param_resident_n(w, w->grad_residence) * (int64_t)dtype_size(w->grad_type.dtype);
}

static enum status prepare_gradients(struct exec *e, struct place at, const struct row *r, struct call *c) {
    for (int i = 0; i < c->step->n_weight; i++) {
        int param = c->step->weight[i];
        if (!is_fresh(at, r, i) || e->program->params[param].update != UPDATE_DENSE) continue;
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

/* Clear the gradients to which no row adds. */
static enum status clear_unwritten(const struct exec *e) {
    for (int i = 0; i < e->program->n_params; i++) {
        const struct param *w = &e->program->params[i];
        if (w->no_grad) TRY(e->device->clear(e->device, w->grad, resident_bytes(w)));
    }
    return OK;
}

static enum status look(const struct exec *e, struct place at, enum row_kind kind, const struct call *c) {
    return e->watch.row && at.training ? e->watch.row(e->watch.self, kind, c) : OK;
}

static enum status run_step_row(struct exec *e, struct place at, const struct row *r) {
    struct call c = call_of(e, at, r);
    bool by_leaves = c.fixed_sums && r->kind == ROW_BACKWARD_WEIGHT;
    if (!by_leaves) TRY(prepare_gradients(e, at, r, &c));
    TRY(by_leaves ? exec_weight_sums(e, at, r, &c) : r->fused ? r->fused(&c, &c) : op_run(&c, r->kind));
    return look(e, at, r->kind, &c);
}

static enum status run_param_row(struct exec *e, struct place at, const struct row *r) {
    const struct param *w = &e->program->params[r->id];
    bool grad = r->kind == ROW_GRAD_READY;
    int v = grad ? r->dweight[0] : r->weight[0];
    void *buffer = v != RESIDENT ? exec_value(e, at, v) : grad ? w->grad : w->weight;
    const struct param_event event = {r->kind, r->id, buffer, row_is_final(r, at.action), at.action->kind == ACTION_F};
    return e->hooks.param_event(e->hooks.self, &event);
}

static enum status start_copy(struct exec *e, struct place at, const struct row *r) {
    int64_t bytes = e->chunks[at.chunk].values[r->in[0]].bytes;
    e->parked_bytes += bytes;
    return e->device->copy_beside(e->device, exec_value(e, at, r->out[0]), exec_value(e, at, r->in[0]), bytes,
                                  &e->copies[r->id]);
}

/* Start to copy a slot to host memory, or back. The next rows run meanwhile, and the row ROW_COPIED waits for the copy.
 * In tests the copy starts only in ROW_COPIED, so that a read before it returns wrong numbers. Evaluation has no
 * backward pass, and so it copies nothing. */
static enum status run_copy_row(struct exec *e, struct place at, const struct row *r) {
    bool ends = r->kind == ROW_COPIED;
    if (!at.training) return OK;
    if (ends == e->paint) TRY(start_copy(e, at, r));
    return ends ? e->device->copy_join(e->device, &e->copies[r->id]) : OK;
}

/* Run the rows of these kinds that lie between two joined rows. */
static enum status run_between(struct exec *e, struct place at, const struct row *first, const struct row *end,
                               unsigned kinds) {
    for (const struct row *r = first; r < end; r++)
        if (kinds >> r->kind & 1) TRY(row_kind_is_copy(r->kind) ? run_copy_row(e, at, r) : run_param_row(e, at, r));
    return OK;
}

/* Run two rows as one kernel, with the param events between them (join.c). */
static enum status run_joined_rows(struct exec *e, struct place at, const struct row *r) {
    const struct row *last = r + r->joined - 1;
    struct call first = call_of(e, at, r), second = call_of(e, at, last);
    TRY(run_between(e, at, r + 1, last, 1u << ROW_PARAM_AHEAD));
    TRY(run_between(e, at, r + 1, last, 1u << ROW_PARAM_NEEDED | 1u << ROW_COPIED));
    TRY(prepare_gradients(e, at, r, &first));
    TRY(fusion_run(r->fused, &first, &second));
    TRY(look(e, at, r->kind, &first));
    TRY(look(e, at, last->kind, &second));
    return run_between(e, at, r + 1, last, 1u << ROW_PARAM_DONE | 1u << ROW_PARK | 1u << ROW_UNPARK);
}

/* Wait for an exchange that an earlier row of the tape has started. Its results are complete now, so the watcher reads
 * them. */
static enum status run_wait_row(struct exec *e, struct place at, const struct row *r) {
    TRY(comm_wait(&e->step_requests[r->id]));
    if (!e->watch.row) return OK;
    const struct row *started = r;
    while (started->id != r->id || started->kind != ROW_BACKWARD_INPUT) started--;
    struct call c = call_of(e, at, started);
    return look(e, at, ROW_WAIT, &c);
}

static enum status run_row(struct exec *e, struct place at, const struct row *r) {
    if (r->kind == ROW_WAIT) return run_wait_row(e, at, r);
    if (row_kind_is_event(r->kind)) return run_param_row(e, at, r);
    if (row_kind_is_copy(r->kind)) return run_copy_row(e, at, r);
    if (r->joined > 1) return run_joined_rows(e, at, r);
    return run_step_row(e, at, r);
}

static enum status paint_dead(struct exec *e, struct place at, const struct row *r) {
    const struct storage *storages = e->chunks[at.chunk].storages;
    for (int i = r->dying; i >= 0; i = storages[i].next_dying)
        TRY(arena_paint(arena_of(e, &storages[i]), storage_at(e, at.chunk, at.frame, i), storages[i].bytes));
    return OK;
}

static enum status run_tape(struct exec *e, struct place at, enum tape_kind tape) {
    const struct tape *t = &e->chunks[at.chunk].tapes[tape];
    for (int i = 0; i < t->n; i += t->rows[i].joined) {
        const struct row *r = &t->rows[i];
        struct timed_row timed;
        TRY(record_row_start(e, at, t, i, &timed));
        TRY(run_row(e, at, r));
        TRY(record_row_end(e, at, t, i, &timed));
        for (int j = 0; e->paint && j < r->joined; j++) TRY(paint_dead(e, at, r + j));
        comm_progress();
    }
    return OK;
}

/* ---- actions ---- */
static double *sums_of(struct exec *e) { return e->loss_at ? e->loss_at : e->sums; }

static enum status add_loss(struct exec *e, const void *loss) {
    return reduce_add(e->device, sums_of(e), loss, e->program->slots[e->program->loss].type.dtype);
}

/* Add the losses of inner steps: SUM_AUX_LOSS and the sums after it. Only forward rows are counted; a replay computes
 * the same losses again. */
static enum status add_losses(struct exec *e, const struct chunk *k, struct place at) {
    for (int i = 0; i < k->n_losses; i++) {
        const char *numbers = exec_value(e, at, k->losses[i].value);
        enum dtype dtype = k->losses[i].dtype;
        for (int j = SUM_AUX_LOSS; j < N_LOSS_SUMS; j++, numbers += dtype_size(dtype))
            TRY(reduce_add(e->device, sums_of(e) + j, numbers, dtype));
    }
    return OK;
}

/* Copy the chunk's input data (tokens, targets, ...) into its values. */
static enum status feed(struct exec *e, const struct action *a, const struct chunk *k, struct place at) {
    void *data[N_DATA];
    bool any = k->features >= 0;
    for (int d = 0; d < N_DATA; d++) any |= (data[d] = exec_value(e, at, k->data[d])) != NULL;
    if (!any) return OK;
    int span = span_open(e->recording, SPAN_FETCH, 0);
    TRY(feed_microbatch(e->feed, &e->hooks, a->microbatch, data));
    if (k->features >= 0)
        TRY(e->hooks.fetch_features(e->hooks.self, a->microbatch, exec_value(e, at, k->features)));
    span_close(e->recording, span);
    return OK;
}

static enum status run_compute(struct exec *e, const struct action *a, struct place at) {
    const struct chunk *k = &e->chunks[a->chunk];
    bool forward = a->kind == ACTION_F;
    enum tape_kind loss_tape = at.training ? k->loss_tape : TAPE_F;
    if (forward) TRY(feed(e, a, k, at));
    TRY(run_tape(e, at, (enum tape_kind)a->kind));
    if (!at.training && k->scores >= 0 && e->hooks.see_scores)
        TRY(e->hooks.see_scores(e->hooks.self, exec_value(e, at, k->scores), exec_value(e, at, k->data[DATA_TARGETS])));
    if (forward && at.training) TRY(add_losses(e, k, at));
    return k->loss >= 0 && (enum tape_kind)a->kind == loss_tape ? add_loss(e, exec_value(e, at, k->loss)) : OK;
}

/* The frame of an action's microbatch. In a schedule without a flush, microbatches are numbered on from step to
 * step. */
static int frame_of(const struct exec *e, const struct action *a) {
    int64_t n = schedule_frames(e->schedule), before = e->since_flush % n * (e->schedule->n_microbatches % n);
    return (int)((before + a->microbatch) % n);
}

/* ---- single rows, for exec_rows_of ---- */
static enum status run_if(struct exec *e, struct place at, const struct row *r, const struct op *op) {
    const struct row *last = r + r->joined - 1;
    struct call first = call_of(e, at, r), second = call_of(e, at, last);
    if (first.step->op != op && second.step->op != op) return OK;
    return r->fused ? r->fused(&first, &second) : op_run(&first, r->kind);
}

enum status exec_rows_of(struct exec *e, const struct schedule *s, const struct op *op) {
    e->schedule = s;
    for (int i = s->n_fill; i < s->n; i++) {
        const struct action *a = &s->actions[i];
        const struct place at = {a->chunk, frame_of(e, a), a, true};
        if (!action_is_compute(a->kind) || !a->first) continue;
        const struct tape *t = &e->chunks[a->chunk].tapes[a->kind];
        for (int j = 0; j < t->n; j += t->rows[j].joined)
            if (row_kind_is_step(t->rows[j].kind)) TRY(run_if(e, at, &t->rows[j], op));
    }
    return OK;
}

/* ---- a step ---- */
static enum status clear_sums(struct exec *e) {
    e->loss_sum = (struct exact){.n_added = 0};
    return e->device->clear(e->device, sums_of(e), N_LOSS_SUMS * sizeof(double));
}

/* Discard the results of early actions and the messages still in flight. Such a message is received into the buffer of
 * the channel's first message, which is sent again later. */
static enum status drop_early(struct exec *e, const struct schedule *s) {
    int left[N_CHANNELS];
    memcpy(left, s->under_way, sizeof left);
    for (int i = 0; i < s->n; i++) {
        const struct action *a = &s->actions[i];
        if (a->kind != RECV_F) continue;
        const struct place at = {a->chunk, frame_of(e, a), a, true};
        for (int *n = &left[schedule_channel(s, a)]; *n > 0; --*n) TRY(exec_transfer(e, a, at, NULL));
    }
    return clear_sums(e);
}

/* Check the last update. *next: the index of the action that runs next, 0 if early actions run again. */
static enum status settle(struct exec *e, const struct schedule *s, int *next) {
    bool again = false;
    TRY(e->hooks.settle(e->hooks.self, &again));
    if (!again) return OK;
    *next = 0;
    return drop_early(e, s);
}

enum status exec_run(struct exec *e, const struct schedule *s, bool training) {
    e->recording = training ? e->spans : NULL;
    e->schedule = s;
    e->transfer_s = 0;
    TRY(clear_sums(e));
    memset(e->seconds, 0, sizeof e->seconds);
    for (int i = e->since_flush ? s->n_fill : 0; i < s->n; i++) {
        if (training && s->validates && i == s->n_early) TRY(settle(e, s, &i));
        const struct action *a = &s->actions[i];
        if (s->n_frames && a->microbatch >= e->n_begin) continue;
        struct place at = {a->chunk, training ? frame_of(e, a) : memory_first_microbatch(e->memory, a->chunk), a,
                           training};
        int span = record_action(e, a, i);
        TRY(action_is_compute(a->kind) ? run_compute(e, a, at) : exec_transfer(e, a, at, span_at(e->recording, span)));
        span_close(e->recording, span);
    }
    spans_outside(e->recording);
    if (training) TRY(clear_unwritten(e));
    bool goes_on = s->n_frames && e->n_begin > s->n_microbatches;
    return goes_on ? OK : exec_finish_sends(e);
}
