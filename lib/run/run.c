/* Create, step, destroy. The step is the whole algorithm in one screen: see run_step. */
#include "lib/run/run.h"

#include "lib/base/grow.h"
#include <inttypes.h>
#include <math.h>
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
    enum event_kind event = kind == ROW_PARAM_NEEDED ? EVENT_PARAM_NEEDED
                          : kind == ROW_PARAM_DONE   ? EVENT_PARAM_DONE : EVENT_GRAD_READY;
    return emit(self, (struct event){event, param, buffer, final});
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
        w->weight = arena_at(&r->arenas[ROLE_PARAM], w->weight_offset);
        w->grad = arena_at(&r->arenas[ROLE_GRAD], w->grad_offset);
        w->moment1 = arena_at(&r->arenas[ROLE_OPTIM], w->moment1_offset);
        w->moment2 = arena_at(&r->arenas[ROLE_OPTIM], w->moment2_offset);
        if (w->master) w->master_weight = arena_at(&r->arenas[ROLE_OPTIM], w->master_offset);
    }
}

static void prepare_exec(struct run *r) {
    const struct plan *p = &r->plan;
    r->exec = (struct exec){
        .program = &r->program, .chunks = r->chunks, .memory = &r->memory, .mesh = &r->mesh, .arenas = r->arenas,
        .device = r->device, .hooks = {r, on_fetch, on_param_event}, .paint = r->watch, .seed = (uint64_t)p->seed,
        .micro = p->micro_batch, .loss_scale = 1.0 / ((double)p->global_batch * (double)p->seq), .grad_scale = 1};
}

static enum status allocate(struct run *r, bool watch) {
    r->device = device_cpu();
    r->watch = watch;
    for (enum role role = 0; role < N_ROLES; role++)
        TRY(arena_init(&r->arenas[role], r->device, role, r->memory.bytes[role], watch));
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

enum status run_create(struct run *r, const struct recipe *recipe, const struct plan *plan, bool watch) {
    int rank = plan_ranks(plan) == 1 ? 0 : comm_world_rank();
    enum status status = run_compile(r, recipe, plan, rank, NULL, NULL);
    TRY(fail_agree(group_world(), status));
    TRY(mesh_init(&r->mesh, (int)plan->dp, (int)plan->tp, (int)plan->pp));
    status = allocate(r, watch);
    if (status == OK) status = attach(r);
    return fail_agree(r->mesh.group[AXIS_MESH], status);
}

void run_destroy(struct run *r) {
    for (int i = r->n_active - 1; i >= 0; i--)
        if (r->active[i]->detach && r->self[i]) r->active[i]->detach(r, r->self[i]);
    exec_fini(&r->exec);
    for (enum role role = 0; role < N_ROLES; role++)
        if (r->arenas[role].base) arena_fini(&r->arenas[role]);
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

enum status run_measure(const struct run *r, int64_t bytes[N_ROLES]) {
    if (!r->watch) return FAIL(E_INTERNAL, "the run was created without watching its memory");
    for (enum role role = 0; role < N_ROLES; role++) TRY(arena_measure(&r->arenas[role], &bytes[role]));
    return OK;
}

/* ---- the step ---- */
static enum status clear_gradients(struct run *r) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        int64_t n = w->grad_at == RESIDENT_OWN ? w->shard_n : w->padded_n ? w->padded_n : type_n(&w->type);
        if (w->present) memset(w->grad, 0, (size_t)n * dtype_size(w->grad_type.dtype));
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

enum status run_step(struct run *r) {
    r->exec.n_step = (uint64_t)r->n_step;
    r->skipped = false;
    TRY(clear_gradients(r));
    TRY(exec_run(&r->exec, &r->schedule, true));                     /* every microbatch forward and backward */
    TRY(sum_loss(r, &r->loss));
    TRY(emit_phase(r, EVENT_BACKWARD_END));
    TRY(refuse_non_finite(r, "loss", r->loss));                      /* every rank has the same loss: all leave here or none */
    TRY(emit_phase(r, EVENT_GRAD_COMBINE));
    TRY(emit_phase(r, EVENT_GRAD_UNSCALE));
    TRY(emit_phase(r, EVENT_GRAD_NORM));
    TRY(optim_norm(r, &r->grad_norm));
    TRY(refuse_non_finite(r, "gradient norm", r->grad_norm));
    r->clip_factor = optim_clip_factor(r->grad_norm, r->plan.clip);
    r->lr = plan_lr(&r->plan, r->n_step);
    TRY(optim_step(r, r->lr, r->clip_factor));
    TRY(emit_phase(r, EVENT_OPTIM_STEP));
    TRY(emit_phase(r, EVENT_PARAM_PUBLISH));
    r->n_step++;
    return OK;
}
