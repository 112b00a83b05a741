/* Create, step, destroy. The step is the whole algorithm in one screen: see run_step. */
#include "lib/run/run.h"

#include "lib/base/grow.h"
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

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
    return ((int64_t)microbatch * p->dp + p->place.dp_rank) * p->micro_batch + b;
}

static enum status fetch_sample(const struct run *r, int64_t number, int32_t *tokens, int32_t *targets) {
    const struct plan *p = &r->plan;
    if (r->eval_first < 0) {
        int64_t sample = data_shuffled(&r->train, (uint64_t)p->seed, r->n_step * p->global_batch + number);
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

static enum status on_fetch(void *self, int microbatch, int32_t *tokens, int32_t *targets) {
    struct run *r = self;
    int64_t T = r->plan.seq;
    int32_t *unused = malloc((size_t)T * sizeof *unused);            /* a stage that wants only one of the two */
    enum status status = unused ? OK : FAIL(E_MEMORY, "no memory for %" PRId64 " tokens", T);
    for (int64_t b = 0; status == OK && b < r->plan.micro_batch; b++)
        status = fetch_sample(r, batch_index(&r->plan, microbatch, b), tokens ? tokens + b * T : unused,
                              targets ? targets + b * T : unused);
    free(unused);
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
        .device = r->device, .hooks = {r, on_fetch, on_param_event}, .paint = r->watch == WATCH_LIFETIMES, .seed = (uint64_t)p->seed,
        .micro = p->micro_batch, .loss_scale = 1.0 / ((double)p->global_batch * (double)p->seq), .grad_scale = 1};
}

static enum status allocate(struct run *r, enum run_watch wanted) {
    bool watch = wanted != WATCH_NOTHING;
    r->device = device_cpu();
    r->watch = wanted;
    r->unscale = 1;
    for (enum role role = 0; role < N_ROLES; role++) {
        TRY(arena_init(&r->arenas[role], r->device, role, r->memory.bytes[role], watch));
        TRY(arena_init(&r->host_arenas[role], device_cpu(), role, r->memory.host_bytes[role], watch));
    }
    bind_params(r);
    params_initialise(r);
    prepare_exec(r);
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
    return mesh_init(&r->mesh, (int)p->dp, (int)p->tp, (int)p->pp);
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
    exec_fini(&r->exec);
    for (enum role role = 0; role < N_ROLES; role++) {
        if (r->arenas[role].base) arena_fini(&r->arenas[role]);
        if (r->host_arenas[role].base) arena_fini(&r->host_arenas[role]);
    }
    for (int k = 0; r->chunks && k < r->program.n_chunks; k++) chunk_fini(&r->chunks[k]);
    free(r->chunks);
    free(r->subscriptions);
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
static enum status clear_gradients(struct run *r) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        size_t bytes = (size_t)param_resident_n(w, w->grad_at) * dtype_size(w->grad_type.dtype);
        if (w->present) memset(w->grad, 0, bytes);
    }
    return OK;
}

/* The last stage has the loss; its tp ranks all have the same one, so one of them speaks. Every rank learns it. */
static enum status sum_loss(struct run *r, double *loss) {
    *loss = r->plan.place.tp_rank == 0 ? r->exec.loss : 0;
    return comm_all_reduce(r->mesh.group[AXIS_MESH], loss, 1, FP64, COMM_SUM);
}

static enum status refuse_non_finite(const struct run *r, const char *what, double value) {
    if (isfinite(value)) return OK;
    return FAIL(E_NUMERIC, "the %s of step %" PRId64 " is %g; no weight was changed. Lower lr=%g, raise warmup=%" PRId64
                ", or look at the data", what, r->n_step + 1, isnan(value) ? fabs(value) : value, r->plan.lr, r->plan.warmup);
}

/* Gradients are complete, own elements summed over all replicas: norm, clipping, AdamW, and publishing what changed. */
static enum status update(struct run *r) {
    TRY(emit_phase(r, EVENT_GRAD_NORM));
    TRY(optim_norm(r, &r->grad_norm));
    TRY(refuse_non_finite(r, "gradient norm", r->grad_norm));
    r->clip_factor = optim_clip_factor(r->grad_norm, r->plan.clip);
    TRY(optim_step(r, r->lr, r->clip_factor * r->unscale));
    r->n_update++;
    TRY(emit_phase(r, EVENT_OPTIM_STEP));
    return emit_phase(r, EVENT_PARAM_PUBLISH);
}

/* The rate follows the updates, not the steps: while a dynamic loss scale finds its level, warmup waits. As Megatron. */
static void begin_step(struct run *r) {
    r->exec.n_step = (uint64_t)r->n_step;
    r->loss_scale = r->exec.grad_scale;
    r->lr = plan_lr(&r->plan, r->n_update);
    r->skipped = false;
    r->grad_norm = r->clip_factor = NAN;
}

enum status run_step(struct run *r) {
    begin_step(r);
    TRY(run_check_threads(r));
    TRY(clear_gradients(r));
    TRY(exec_run(&r->exec, &r->schedule, true));                     /* every microbatch forward and backward */
    TRY(sum_loss(r, &r->loss));
    TRY(emit_phase(r, EVENT_BACKWARD_END));
    if (!r->may_skip) TRY(refuse_non_finite(r, "loss", r->loss));    /* every rank has the same loss: all leave here or none */
    TRY(emit_phase(r, EVENT_GRAD_COMBINE));
    TRY(emit_phase(r, EVENT_GRAD_UNSCALE));
    if (!r->skipped) TRY(update(r));
    r->n_step++;
    return OK;
}
