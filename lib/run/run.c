/* Create, step, destroy. The step is the whole algorithm in one screen: see run_step. */
#include "lib/run/run.h"

#include "lib/base/clock.h"
#include "lib/base/grow.h"
#include "lib/device/stopwatch.h"
#include "lib/ops/adamw.h"
#include "lib/ops/reduce.h"
#include "lib/run/combine.h"
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- events ---- */
enum status run_subscribe(struct run *r, enum event_kind kind, subscriber *fn, void *self) {
    r->subscriptions = table_grow(r->subscriptions, r->n_subscriptions, sizeof *r->subscriptions);
    r->subscriptions[r->n_subscriptions++] = (struct subscription){kind, fn, self};
    return OK;
}

static enum status emit(struct run *r, struct event event) {
    for (int i = 0; i < r->n_subscriptions; i++) {
        const struct subscription *s = &r->subscriptions[i];
        if (s->kind == event.kind) TRY(s->fn(r, s->self, &event));
    }
    return OK;
}
static enum status emit_phase(struct run *r, enum event_kind kind) { return emit(r, (struct event){.kind = kind, .param = -1}); }

/* ---- hooks of the executor ---- */
static enum status on_param_event(void *self, enum row_kind kind, int param, void *buffer, bool final) {
    static const enum event_kind events[N_ROW_KINDS] = {
        [ROW_PARAM_AHEAD] = EVENT_PARAM_AHEAD, [ROW_PARAM_NEEDED] = EVENT_PARAM_NEEDED,
        [ROW_PARAM_DONE] = EVENT_PARAM_DONE, [ROW_GRAD_READY] = EVENT_GRAD_READY};
    return emit(self, (struct event){events[kind], param, buffer, final});
}

/* Sample b of microbatch m on replica d is number (m dp + d) micro + b of the step's global batch: no layout enters beyond
 * who asks. */
static int64_t batch_index(const struct plan *p, int microbatch, int64_t b) {
    return ((int64_t)microbatch * p->mesh.dp + p->place.rank.dp) * p->micro_batch + b;
}

/* Samples go on where they stopped, though the batch may be of another size now. */
int64_t run_samples_before(const struct run *r, int64_t step) { return r->resumed_samples + (step - r->resumed_step) * r->plan.global_batch; }
int64_t run_samples_used(const struct run *r) { return run_samples_before(r, r->n_done); }
void run_go_on_at_sample(struct run *r, int64_t sample) {
    r->resumed_step = r->n_step;
    r->resumed_samples = sample;
}

static enum status fetch_sample(const struct run *r, int64_t number, int32_t *tokens, int32_t *targets) {
    const struct plan *p = &r->plan;
    if (r->eval_first < 0) {
        int64_t sample = data_shuffled(&r->train, (uint64_t)p->seed, run_samples_before(r, r->n_step) + number);
        return data_sample(&r->train, sample, p->vocab, tokens, targets);
    }
    int64_t sample = r->eval_first + number;
    if (sample < data_split_samples(&r->val)) return data_sample(&r->val, sample, p->vocab, tokens, targets);
    for (int64_t t = 0; t < p->seq; t++) {                           /* beyond the end: no loss is taken here */
        tokens[t] = 0;
        targets[t] = -1;
    }
    return OK;
}

/* The places of a sequence that this rank holds. */
static void take(const struct axis *held, const int32_t *whole, int32_t *to) {
    for (int64_t i = 0; i < held->n; i++) to[i] = whole[axis_global(held, i)];
}

static enum status on_fetch(void *self, int microbatch, int32_t *tokens, int32_t *targets) {
    struct run *r = self;
    int64_t T = r->plan.seq;
    const struct program *p = &r->program;
    const struct axis *held = shape_axis(&p->slots[tokens ? p->tokens : p->targets].type.shape, 'T');
    int32_t *sample = malloc(2 * (size_t)T * sizeof *sample);        /* whole: its tokens, its targets */
    enum status status = sample ? OK : FAIL(E_MEMORY, "no memory for %" PRId64 " tokens", T);
    for (int64_t b = 0; status == OK && b < r->plan.micro_batch; b++) {
        status = fetch_sample(r, batch_index(&r->plan, microbatch, b), sample, sample + T);
        if (tokens) take(held, sample, tokens + b * held->n);
        if (targets) take(held, sample + T, targets + b * held->n);
    }
    free(sample);
    return status;
}

/* ---- create and destroy ---- */
static void bind_params(struct run *r) {
    for (int i = 0; i < r->program.n_params; i++) {
        struct param *w = &r->program.params[i];
        if (!w->present) continue;
        const struct arena *weights = w->weight_on_host ? r->host_arenas : r->arenas;
        const struct arena *states = w->state_on_host ? r->host_arenas : r->arenas;
        w->weight = arena_at(&weights[ROLE_PARAM], w->weight_offset);
        w->grad = arena_at(&r->arenas[ROLE_GRAD], w->grad_offset);
        w->moment1 = arena_at(&states[ROLE_OPTIM], w->moment1_offset);
        w->moment2 = arena_at(&states[ROLE_OPTIM], w->moment2_offset);
        if (w->master) w->master_weight = arena_at(&states[ROLE_OPTIM], w->master_offset);
    }
}

static void prepare_exec(struct run *r) {
    const struct plan *p = &r->plan;
    r->exec = (struct exec){
        .program = &r->program, .chunks = r->chunks, .memory = &r->memory, .mesh = &r->mesh, .arenas = r->arenas,
        .device = r->device, .loss_at = &r->scalars[SCALAR_LOSS], .hooks = {r, on_fetch, on_param_event},
        .watched = r->watch != WATCH_NOTHING,
        .paint = r->watch == WATCH_LIFETIMES, .fuse = p->fuse, .seed = (uint64_t)p->seed,
        .micro = p->micro_batch, .loss_scale = 1.0 / ((double)p->global_batch * (double)p->seq), .grad_scale = 1};
}

/* The scalars, and scratch of the reductions: where work begins. Cleared, so that they count as written. */
static enum status place_scalars(struct run *r) {
    const struct device *d = r->device;
    char *at = arena_at(&r->arenas[ROLE_WORK], 0);
    TRY(d->clear(d, at, r->memory.run_bytes));
    r->scalars = (double *)at;
    r->reduce_work = at + arena_align(N_SCALARS * sizeof(double));
    for (int i = 0; i < STEPS_AHEAD; i++) {
        void *pinned;
        TRY(d->pin(d, N_SCALARS * sizeof(double), &pinned));
        r->record[i].scalars = pinned;
    }
    return OK;
}

/* NCCL wants a GPU for each rank; where there are fewer, memory goes through the host. */
static enum status choose_transport(const struct plan *p, int n_gpus, enum comm_transport *out) {
    int32_t own_gpu = comm_local_size() <= n_gpus;
    TRY(comm_all_reduce(group_world(), &own_gpu, 1, INT32, COMM_MIN));
    *out = p->comm == PLAN_COMM_NCCL || (p->comm == PLAN_COMM_AUTO && own_gpu) ? COMM_NCCL : COMM_STAGED;
    return OK;
}

static enum status open_device(struct run *r) {
    r->device = device_cpu();
    if (r->plan.device != PLAN_DEVICE_CUDA) return OK;
    enum comm_transport transport = COMM_ALONE;
    int n = device_cuda_count();
    enum status status = device_cuda(n > 0 ? comm_local_rank() % n : 0, &r->device);
    if (plan_ranks(&r->plan) > 1) {                                  /* else every process by itself: nobody to talk to */
        TRY(fail_agree(group_world(), status));
        TRY(choose_transport(&r->plan, n, &transport));
    }
    TRY(status);
    return comm_use_device(r->device, transport);
}

static enum status allocate(struct run *r, enum run_watch wanted) {
    bool watch = wanted != WATCH_NOTHING;
    r->watch = wanted;
    r->unscale = 1;
    for (enum role role = 0; role < N_ROLES; role++) {
        TRY(arena_init(&r->arenas[role], r->device, role, r->memory.bytes[role], watch));
        TRY(arena_init(&r->host_arenas[role], device_cpu(), role, r->memory.host_bytes[role], watch));
    }
    /* so that its pages are there before the first save, which training waits for */
    if (!watch) TRY(device_cpu()->clear(device_cpu(), r->host_arenas[ROLE_SAVE].base, r->memory.host_bytes[ROLE_SAVE]));
    r->combining = calloc((size_t)r->program.n_params + 1, sizeof *r->combining);
    if (!r->combining) return FAIL(E_MEMORY, "no memory for %d requests", r->program.n_params);
    bind_params(r);
    TRY(params_initialise(r));
    TRY(place_scalars(r));
    prepare_exec(r);
    if (r->plan.profile && r->device->mark_timed) TRY(stopwatch_create(r->device, &r->exec.stopwatch));
    return exec_init(&r->exec);
}

static enum status attach(struct run *r) {
    for (int i = 0; i < r->n_active; i++)
        if (r->active[i]->attach) TRY(r->active[i]->attach(r, &r->self[i]));
    if (r->comm_taken != r->bill.technique_comm_bytes)
        return FAIL(E_INTERNAL, "techniques asked for %" PRId64 " comm bytes and took %" PRId64,
                    r->bill.technique_comm_bytes, r->comm_taken);
    return OK;
}

static enum status make_mesh(struct run *r, const struct plan *p) {
    TRY(open_device(r));
    return mesh_init(&r->mesh, &p->mesh);
}

/* Alone: each rank may fail by itself in here, and no other waits for it. */
static enum status furnish(struct run *r, enum run_watch watch) {
    TRY(allocate(r, watch));
    return attach(r);
}

enum status run_open(struct run *r, enum run_watch watch) {
    TRY(make_mesh(r, &r->plan));
    return furnish(r, watch);
}

enum status run_stand_by(struct run *r, const struct plan *plan) {
    *r = (struct run){.plan = *plan};
    return make_mesh(r, plan);
}

enum status run_create(struct run *r, const struct recipe *recipe, const struct plan *plan, enum run_watch watch) {
    int rank = plan_ranks(plan) == 1 ? 0 : comm_world_rank();
    enum status status = run_compile(r, recipe, plan, rank, NULL, NULL);
    TRY(fail_agree(group_world(), status));
    TRY(make_mesh(r, plan));
    status = furnish(r, watch);
    return fail_agree(r->mesh.group[AXIS_MESH], status);
}

void run_destroy(struct run *r) {
    for (int i = r->n_active - 1; i >= 0; i--)
        if (r->active[i]->detach && r->self[i]) r->active[i]->detach(r, r->self[i]);
    for (int i = 0; i < STEPS_AHEAD && r->device; i++) {
        if (r->record[i].scalars) r->device->unpin(r->device, r->record[i].scalars);
        r->device->mark_fini(r->device, &r->record[i].mark);
    }
    if (r->offload_staging) r->device->unpin(r->device, r->offload_staging);
    stopwatch_destroy(&r->exec.stopwatch);
    exec_fini(&r->exec);
    for (enum role role = 0; role < N_ROLES; role++) {
        if (r->arenas[role].base) arena_fini(&r->arenas[role]);
        if (r->host_arenas[role].base) arena_fini(&r->host_arenas[role]);
    }
    bill_fini(&r->bill);
    for (int k = 0; r->chunks && k < r->program.n_chunks; k++) chunk_fini(&r->chunks[k]);
    free(r->chunks);
    free(r->subscriptions);
    free(r->combining);
    schedule_fini(&r->schedule);
    memory_plan_fini(&r->memory);
    program_fini(&r->program);
    if (r->mesh.group[AXIS_MESH]) mesh_fini(&r->mesh);
    *r = (struct run){0};
}

void run_set_data(struct run *r, const struct data_split *train, const struct data_split *val) {
    r->train = *train;
    r->val = *val;
}

enum status run_take_comm(struct run *r, int64_t bytes, void **out) {
    if (r->comm_taken + bytes > r->bill.technique_comm_bytes)
        return FAIL(E_INTERNAL, "%" PRId64 " comm bytes wanted, %" PRId64 " of %" PRId64 " left", bytes,
                    r->bill.technique_comm_bytes - r->comm_taken, r->bill.technique_comm_bytes);
    *out = arena_at(&r->arenas[ROLE_COMM], r->memory.technique_offset + r->comm_taken);
    r->comm_taken += bytes;
    return OK;
}

enum status run_check_threads(const struct run *r) {
    int now = omp_get_max_threads();
    if (now <= r->n_threads) return OK;
    return FAIL(E_INTERNAL, "%d OpenMP threads, and scratch was planned for %d; set the threads before the run is created", now,
                r->n_threads);
}

enum status run_measure(const struct run *r, int64_t bytes[N_ROLES], int64_t host_bytes[N_ROLES]) {
    if (r->watch == WATCH_NOTHING) return FAIL(E_INTERNAL, "the run was created without watching its memory");
    for (enum role role = 0; role < N_ROLES; role++) {
        TRY(arena_measure(&r->arenas[role], &bytes[role]));
        TRY(arena_measure(&r->host_arenas[role], &host_bytes[role]));
    }
    return OK;
}

/* ---- the step ---- */
/* Shards of gradients, which buckets are added to. Whole gradients are set by the first row that writes them (exec.c). Neighbours in
 * the arena are cleared together. */
static enum status clear_gradients(struct run *r) {
    char *from = NULL, *end = NULL;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (!w->present || w->grad_at == RESIDENT_WHOLE) continue;
        if (w->grad != end) {
            TRY(r->device->clear(r->device, from, end - from));
            from = w->grad;
        }
        end = (char *)w->grad + param_resident_n(w, w->grad_at) * (int64_t)dtype_size(w->grad_type.dtype);
    }
    return r->device->clear(r->device, from, end - from);
}

/* The last stage has the loss; of ranks that have the same one (tp's), one speaks. Every rank learns it. */
static enum status sum_loss(struct run *r) {
    double *loss = &r->scalars[SCALAR_LOSS];
    if (!program_counts_loss(&r->program)) TRY(r->device->clear(r->device, loss, sizeof *loss));
    return comm_all_reduce(r->mesh.group[AXIS_MESH], loss, 1, FP64, COMM_SUM);
}

/* What is not finite once keeps every later update from changing a weight, however late the host learns of it. */
static enum status note_health(struct run *r) {
    double *health = &r->scalars[SCALAR_HEALTH];
    if (r->may_skip) return OK;
    TRY(reduce_add(r->device, health, &r->scalars[SCALAR_LOSS], FP64));
    return reduce_add(r->device, health, &r->scalars[SCALAR_SQUARES], FP64);
}

/* ---- recording (lib/base/span.h): the step, and in it one phase after the other ---- */
const char *run_phase_name(enum run_phase phase) {
    static const char *const names[N_PHASES] = {"clear gradients", "forward and backward", "sum loss", "end of backward", "combine gradients",
                                                "unscale", "norm", "update", "publish"};
    return names[phase];
}

static void record_step(struct run *r) {
    if (!r->spans) return;
    r->spans->now.step = (int32_t)r->n_step;
    r->step_span = span_open(r->spans, SPAN_STEP, 0);
    r->phase_span = -1;
}

static void enter(struct run *r, enum run_phase phase) {
    if (!r->spans) return;
    span_close(r->spans, r->phase_span);
    r->phase_span = span_open(r->spans, SPAN_PHASE, (int)phase);
}

static void record_end(struct run *r) {
    if (!r->spans) return;
    span_close(r->spans, r->phase_span);
    span_close(r->spans, r->step_span);
    r->spans->now.step = -1;
}

/* Gradients are complete, own elements summed over all replicas: norm, clipping, AdamW, and publishing what changed. */
static enum status update(struct run *r, double lr) {
    double *s = r->scalars, start = clock_s();
    enter(r, PHASE_NORM);
    if (r->exec.stopwatch) TRY(stopwatch_start(r->exec.stopwatch));
    TRY(emit_phase(r, EVENT_GRAD_NORM));
    TRY(optim_norm(r));
    TRY(note_health(r));
    TRY(adamw_decide(r->device, &s[SCALAR_MULTIPLIER], &s[SCALAR_NORM], &s[SCALAR_SQUARES], &s[SCALAR_HEALTH], r->plan.clip,
                     r->unscale));
    enter(r, PHASE_UPDATE);
    TRY(optim_step(r, lr));
    if (r->exec.stopwatch) TRY(stopwatch_stop(r->exec.stopwatch, &r->update_s));
    else r->update_s += clock_s() - start;
    r->n_update++;
    TRY(emit_phase(r, EVENT_OPTIM_STEP));
    enter(r, PHASE_PUBLISH);
    return emit_phase(r, EVENT_PARAM_PUBLISH);
}

/* The rate follows the updates, not the steps: while a dynamic loss scale finds its level, warmup waits. As Megatron. */
static struct step_record begin_step(struct run *r) {
    r->exec.n_step = (uint64_t)r->n_step;
    r->skipped = false;
    return (struct step_record){.n_step = r->n_step, .n_update = r->n_update, .lr = plan_lr(&r->plan, r->n_update),
                                .loss_scale = r->exec.grad_scale};
}

/* The step's numbers start on their way to the host; the mark says when they are there. */
static enum status end_step(struct run *r, const struct step_record *step) {
    struct step_record *to = &r->record[r->n_step % STEPS_AHEAD];
    double *pinned = to->scalars;
    struct device_mark mark = to->mark;
    *to = *step;
    to->scalars = pinned;
    to->mark = mark;
    to->skipped = r->skipped;
    to->unscale = r->unscale;
    TRY(r->device->download_start(r->device, pinned, r->scalars, N_SCALARS * sizeof *pinned));
    TRY(r->device->mark_set(r->device, &to->mark));
    r->n_step++;
    r->n_started++;
    return OK;
}

enum status run_step_start(struct run *r) {
    if (r->n_started >= (r->may_skip ? 1 : STEPS_AHEAD))
        return FAIL(E_INTERNAL, "%d steps are started and none of them is finished", r->n_started);
    struct step_record step = begin_step(r);
    TRY(run_check_threads(r));
    record_step(r);
    enter(r, PHASE_CLEAR);
    TRY(clear_gradients(r));
    enter(r, PHASE_SCHEDULE);
    TRY(exec_run(&r->exec, &r->schedule, true));                     /* every microbatch forward and backward */
    enter(r, PHASE_LOSS);
    TRY(sum_loss(r));
    enter(r, PHASE_BACKWARD_END);
    TRY(emit_phase(r, EVENT_BACKWARD_END));
    enter(r, PHASE_COMBINE);
    TRY(combine_gradients(r));
    TRY(emit_phase(r, EVENT_GRAD_COMBINE));
    enter(r, PHASE_UNSCALE);
    TRY(emit_phase(r, EVENT_GRAD_UNSCALE));
    if (!r->skipped) TRY(update(r, step.lr));
    record_end(r);
    return end_step(r, &step);
}

/* On the CPU work is done when it is issued, and there may be no world. */
static enum status wait_for(const struct run *r, const struct device_mark *mark, const char *what) {
    return r->device->kind == DEVICE_CPU ? OK : comm_wait_device(mark, what);
}

enum status run_read_scalar(struct run *r, enum run_scalar which, double *value) {
    struct step_record *free_record = &r->record[r->n_step % STEPS_AHEAD];
    TRY(r->device->download_start(r->device, &free_record->scalars[which], &r->scalars[which], sizeof *value));
    TRY(r->device->mark_set(r->device, &free_record->mark));
    TRY(wait_for(r, &free_record->mark, "a number of the step"));
    *value = free_record->scalars[which];
    return OK;
}

/* Nothing has changed a weight since that step: it is undone by counting it as not done. */
static enum status refuse_non_finite(struct run *r, const struct step_record *step, const char *what, double value) {
    if (isfinite(value)) return OK;
    r->n_step = step->n_step;
    r->n_update = step->n_update;
    return FAIL(E_NUMERIC, "the %s of step %" PRId64 " is %g; no weight was changed. Lower lr=%g, raise warmup=%" PRId64
                ", or look at the data", what, step->n_step + 1, isnan(value) ? fabs(value) : value, r->plan.lr, r->plan.warmup);
}

enum status run_step_finish(struct run *r) {
    if (r->n_started == 0) return FAIL(E_INTERNAL, "no step has been started");
    const struct step_record *step = &r->record[(r->n_step - r->n_started) % STEPS_AHEAD];
    char what[48];
    snprintf(what, sizeof what, "step %" PRId64, step->n_step + 1);
    TRY(wait_for(r, &step->mark, what));
    if (r->exec.stopwatch) TRY(stopwatch_collect(r->exec.stopwatch));
    r->n_started--;
    r->loss = step->scalars[SCALAR_LOSS];
    r->grad_norm = step->skipped ? NAN : step->scalars[SCALAR_NORM];
    r->clip_factor = step->skipped ? NAN : optim_clip_factor(r->grad_norm, r->plan.clip);
    r->lr = step->lr;
    r->loss_scale = step->loss_scale;
    r->skipped = step->skipped;
    /* every rank has the same numbers: all leave here or none */
    if (!r->may_skip) TRY(refuse_non_finite(r, step, "loss", r->loss));
    if (!r->skipped) TRY(refuse_non_finite(r, step, "gradient norm", r->grad_norm));
    r->n_done = step->n_step + 1;
    return OK;
}

enum status run_step(struct run *r) {
    TRY(run_step_start(r));
    return run_step_finish(r);
}
