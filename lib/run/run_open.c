/* Allocate a run's memory, make its groups, and attach its techniques; and free all of them. */
#include "lib/run/run_state.h"

#include "lib/data/data_ahead.h"
#include "lib/device/stopwatch.h"
#include "lib/ops/reduce.h"
#include "lib/run/optim_offload.h"
#include "lib/run/products.h"
#include <inttypes.h>
#include <omp.h>
#include <stdlib.h>

/* Set the addresses of weights and gradients. A param that is a second gradient reads the first param's weight. */
static void bind_params(struct run *r) {
    for (struct param *w = r->program.params; w < r->program.params + r->program.n_params; w++) {
        if (!w->present) continue;
        for (struct param_array *a = w->arrays; a < w->arrays + w->n_arrays; a++)
            if (a->copies) a->at = arena_at(&r->arenas[a->tier][a->role], a->offset);
        const struct param *stored = w->gradient_of ? &r->program.params[w->gradient_of - 1] : w;
        w->weight = stored->arrays[ARRAY_WEIGHT].at;
        w->grad = w->arrays[ARRAY_GRAD].at;
    }
}

static struct exec_hooks hooks_of(struct run *r) {
    const struct own_samples *own = r->plan.arch->clicks;
    return (struct exec_hooks){r, run_fetch, run_param_event, run_settle, own ? own->fetch_features : NULL,
                               own ? own->see_scores : NULL};
}

static void prepare_exec(struct run *r, enum run_watch watch) {
    const struct plan *p = &r->plan;
    r->exec = (struct exec){
        .program = &r->program, .chunks = r->chunks, .memory = &r->memory, .mesh = &r->mesh,
        .arenas = r->arenas[TIER_DEVICE], .host_arenas = r->arenas[TIER_HOST], .device = r->device,
        .loss_at = r->record[0].on_device, .workers = p->workers,
        .hooks = hooks_of(r), .watched = watch != WATCH_NOTHING,
        .paint = watch == WATCH_LIFETIMES, .seed = (uint64_t)p->seed, .micro = p->micro_batch, .loss_scale = 1,
        .loss_weight = 1.0 / ((double)p->global_batch * (double)model_targets(p))};
}

/* Place the scalars and the scratch of reductions at the start of the work arena. They are cleared, and so count as
 * written when memory is measured. */
static enum status place_scalars(struct run *r) {
    const struct device *d = r->device;
    char *at = arena_at(&r->arenas[TIER_DEVICE][ROLE_WORK], 0);
    TRY(d->clear(d, at, r->memory.run_bytes));
    r->health = (double *)at;
    r->reduce_work = at + arena_align((1 + STEPS_AHEAD * N_SCALARS) * sizeof(double));
    for (int i = 0; i < STEPS_AHEAD; i++) {
        void *pinned;
        TRY(d->pin(d, N_SCALARS * sizeof(double), &pinned));
        r->record[i].scalars = pinned;
        r->record[i].on_device = r->health + 1 + i * N_SCALARS;
    }
    return OK;
}

static enum status open_device(struct run *r) {
    r->device = device_cpu();
    if (r->plan.device != PLAN_DEVICE_CUDA) return OK;
    enum comm_transport transport = COMM_ALONE;
    int n = device_cuda_count();
    enum status status = device_cuda(n > 0 ? comm_local_rank() % n : 0, &r->device);
    if (plan_ranks(&r->plan) > 1) {                                  /* with one rank each process runs alone */
        TRY(fail_agree(group_world(), status));
        TRY(plan_transport(&r->plan, r->device, &transport));
    }
    TRY(status);
    return comm_use_device(r->device, transport);
}

/* Open the file, with room for its arenas and their guards. */
static enum status open_disk(struct run *r) {
    const struct plan *p = &r->plan;
    const struct offload_options *o = offload_options(p);
    int64_t bytes = 0;
    for (enum role role = 0; role < N_ROLES; role++)
        if (r->memory.bytes[TIER_DISK][role]) bytes += arena_held_bytes(r->memory.bytes[TIER_DISK][role]);
    if (!bytes) return OK;
    return disk_open(o->path, round_up(bytes, DISK_PAGE), (enum disk_engine_choice)o->io, &disk_system_calls, &r->disk);
}

/* Three arenas in host memory are pinned, because the device copies them asynchronously: parked values, the window of
 * the update, and buffers of sums. */
static enum status open_arena(struct run *r, enum tier tier, enum role role, bool watch) {
    int64_t bytes = r->memory.bytes[tier][role];
    struct arena *a = &r->arenas[tier][role];
    if (tier == TIER_DISK && !bytes) return OK;
    if (tier == TIER_HOST && bytes && (role == ROLE_WORK || role == ROLE_ACT || role == ROLE_COMM))
        return arena_init_pinned(a, r->device, role, bytes, watch);
    return arena_init(a, run_tier_device(r, tier), role, bytes, watch);
}

static enum status allocate(struct run *r, enum run_watch wanted) {
    bool watch = wanted != WATCH_NOTHING;
    r->unscale = 1;
    r->norm_axis = AXIS_MESH;
    TRY(open_disk(r));
    for (enum tier tier = 0; tier < N_TIERS; tier++)
        for (enum role role = 0; role < N_ROLES; role++) TRY(open_arena(r, tier, role, watch));
    /* touch the arena's pages now, because training waits for a save */
    const struct arena *save = &r->arenas[TIER_HOST][ROLE_SAVE];
    if (!watch) TRY(save->device->clear(save->device, save->base, save->bytes));
    r->combining = calloc((size_t)r->program.n_params + 1, sizeof *r->combining);
    if (!r->combining) return FAIL(E_MEMORY, "no memory for %d requests", r->program.n_params);
    bind_params(r);
    TRY(params_initialise(r));
    TRY(optim_offload_create(r, &r->offload));
    TRY(place_scalars(r));
    prepare_exec(r, wanted);
    if (plan_says(&r->plan, "profile") && r->device->mark_timed) TRY(stopwatch_create(r->device, &r->exec.stopwatch));
    return exec_init(&r->exec);
}

static enum status attach(struct run *r) {
    void *room;
    for (int i = 0; i < r->n_active; i++)
        if (r->active[i]->attach) TRY(r->active[i]->attach(r, &r->self[i]));
    TRY(run_take_work(r, TIER_HOST, run_ahead_bytes(r), &room));
    TRY(run_open_ahead(r, room));
    if (r->comm_taken != r->bill.technique_comm_bytes)
        return FAIL(E_INTERNAL, "techniques requested %" PRId64 " comm bytes and took %" PRId64,
                    r->bill.technique_comm_bytes, r->comm_taken);
    for (enum tier tier = 0; tier < N_TIERS; tier++)
        if (r->work_taken[tier] != r->bill.technique_work_bytes[tier])
            return FAIL(E_INTERNAL, "techniques requested %" PRId64 " work bytes and took %" PRId64,
                        r->bill.technique_work_bytes[tier], r->work_taken[tier]);
    return OK;
}

/* Does a step send messages over step->mesh_axis? */
static bool sends(const struct program *p, const struct step *s) {
    struct exchange x[MAX_EXCHANGES] = {{0}};
    struct call call = program_call(p, s);
    int n = s->op->exchanges ? s->op->exchanges(&call, ROW_BACKWARD_INPUT, x) : 0;
    for (int i = 0; i < n; i++)
        if (x[i].op == COMM_SEND) return true;
    return false;
}

/* Prepare the groups that send device memory point to point: the pipeline's, and those of steps that send around a
 * ring. */
static enum status carry_messages(struct run *r) {
    enum { ALL_TAGS = 4 };
    TRY(group_carry_messages(r->mesh.group[AXIS_PP], 2 * r->schedule.n_ways));
    for (int i = 0; i < r->program.n_steps; i++)
        if (sends(&r->program, &r->program.steps[i]))
            TRY(group_carry_messages(r->mesh.group[r->program.steps[i].mesh_axis], ALL_TAGS));
    return OK;
}

static enum status make_mesh(struct run *r, const struct plan *p) {
    comm_fix_sums(p->sums == PLAN_SUMS_FIXED);
    TRY(open_device(r));
    TRY(mesh_init(&r->mesh, &p->mesh));
    return fail_agree(group_world(), carry_messages(r));
}

/* Allocate and attach. A rank may fail here by itself, because no other rank waits for it. */
static enum status furnish(struct run *r, enum run_watch watch) {
    TRY(allocate(r, watch));
    return attach(r);
}

enum status run_open(struct run *r, enum run_watch watch) {
    TRY(make_mesh(r, &r->plan));
    return furnish(r, watch);
}

enum status run_idle(struct run *r, const struct plan *plan) {
    *r = (struct run){.plan = *plan};
    return make_mesh(r, plan);
}

enum status run_check_memory(const struct run *r) {
    double mib = (double)roles_total(r->memory.bytes[TIER_DEVICE]) / (1 << 20), limit = r->plan.memory_limit;
    if (limit == 0 || mib <= limit) return OK;
    return FAIL(E_MEMORY, "rank %d would need %.2f MiB, and memory-limit is %g MiB; use more ranks, zero or recompute",
                mesh_rank_of(&r->plan.place), mib, limit);
}

enum status run_create(struct run *r, const struct recipe *recipe, const struct plan *plan, enum run_watch watch) {
    int rank = plan_ranks(plan) == 1 ? 0 : comm_world_rank();
    struct plan here = *plan;
    if (here.threads == 0) here.threads = omp_get_max_threads();
    enum status status = run_compile(r, recipe, &here, rank, NULL, NULL);
    if (status == OK) status = run_check_memory(r);
    int64_t bytes = roles_total(r->memory.bytes[TIER_HOST]);
    if (plan->device == PLAN_DEVICE_CPU) bytes += roles_total(r->memory.bytes[TIER_DEVICE]);
    if (status == OK) status = device_cpu_room(bytes, plan_ranks(plan) == 1 ? 1 : comm_local_size());
    TRY(fail_agree(group_world(), status));
    TRY(make_mesh(r, plan));
    status = furnish(r, watch);
    TRY(fail_agree(r->mesh.group[AXIS_MESH], status));
    return products_choose(r);
}

void run_destroy(struct run *r) {
    if (r->train.ahead) data_ahead_destroy(&r->train.ahead);
    for (int i = r->n_active - 1; i >= 0; i--)
        if (r->active[i]->detach && r->self[i]) r->active[i]->detach(r, r->self[i]);
    for (int i = 0; i < STEPS_AHEAD && r->device; i++) {
        if (r->record[i].scalars) r->device->unpin(r->device, r->record[i].scalars);
        r->device->mark_fini(r->device, &r->record[i].mark);
    }
    optim_offload_destroy(r, &r->offload);
    stopwatch_destroy(&r->exec.stopwatch);
    exec_fini(&r->exec);
    for (enum tier tier = 0; tier < N_TIERS; tier++)
        for (enum role role = 0; role < N_ROLES; role++)
            if (r->arenas[tier][role].base) arena_fini(&r->arenas[tier][role]);
    disk_close(&r->disk);
    optim_blocks_fini(&r->blocks);
    bill_fini(&r->bill);
    for (int k = 0; r->chunks && k < r->program.n_chunks; k++) chunk_fini(&r->chunks[k]);
    free(r->chunks);
    free(r->subscriptions);
    free(r->combining);
    schedule_fini(&r->schedule);
    memory_plan_fini(&r->memory);
    program_fini(&r->program);
    if (r->mesh.group[AXIS_SELF]) mesh_fini(&r->mesh);              /* also a mesh that was not completed */
    *r = (struct run){0};
}

void run_set_data(struct run *r, const struct data_split *train, const struct data_split *val) {
    data_ahead_forget(r->train.ahead);
    r->train = (struct data_split){train->file, train->first, train->n_tokens, train->T, r->train.ahead};
    r->val = *val;
}

enum status run_take_comm(struct run *r, int64_t bytes, void **out) {
    if (r->comm_taken + bytes > r->bill.technique_comm_bytes)
        return FAIL(E_INTERNAL, "%" PRId64 " comm bytes wanted, %" PRId64 " of %" PRId64 " left", bytes,
                    r->bill.technique_comm_bytes - r->comm_taken, r->bill.technique_comm_bytes);
    *out = arena_at(&r->arenas[TIER_DEVICE][ROLE_COMM], r->memory.technique_offset + r->comm_taken);
    r->comm_taken += bytes;
    return OK;
}

/* The techniques' part of device memory follows the run's own numbers; in host memory, the update's window. */
enum status run_take_work(struct run *r, enum tier tier, int64_t bytes, void **out) {
    int64_t all = r->bill.technique_work_bytes[tier], left = all - r->work_taken[tier];
    int64_t begin = tier == TIER_DEVICE ? r->memory.run_bytes - all : round_up(r->blocks.bytes, DISK_PAGE);
    if (bytes > left)
        return FAIL(E_INTERNAL, "%" PRId64 " work bytes wanted, %" PRId64 " of %" PRId64 " left", bytes, left, all);
    *out = arena_at(&r->arenas[tier][ROLE_WORK], begin + r->work_taken[tier]);
    r->work_taken[tier] += bytes;
    return OK;
}

enum status run_measure(const struct run *r, int64_t bytes[N_TIERS][N_ROLES]) {
    if (!r->exec.watched) return FAIL(E_INTERNAL, "the run was created without watching its memory");
    for (enum tier tier = 0; tier < N_TIERS; tier++)
        for (enum role role = 0; role < N_ROLES; role++) {
            bytes[tier][role] = 0;
            if (r->arenas[tier][role].base) TRY(arena_measure(&r->arenas[tier][role], &bytes[tier][role]));
        }
    return OK;
}
