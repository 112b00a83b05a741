/* Elastic training.
 *
 * Idea. When a rank dies, its shard of the weights and moments is lost. A checkpoint on disk has the shard, but it is
 * minutes old. So each rank keeps its shard of the last steps in another rank's memory, too. Then the survivors have
 * all shards, and continue within a second. (lib/comm/membership/membership.c chooses the ranks that continue, and when
 * a copy may be dropped; lib/checkpoint/snapshot.h defines a snapshot.)
 *
 *     replica r   own shard after step s         copy of replica r-1's shard after s         same place (tp, cp, pp)
 *                 own shard after s - K          copy of replica r-1's shard after s - K
 *
 * Formula. For a shard of B bytes (AdamW in fp32: 12 per own element; snapshot_bytes) and a snapshot every K steps:
 *     memory   2 (B + B of the left neighbor)      on the host, role save
 *     wire     B in K steps, to the right neighbor
 *
 * Stored where: in the run's memory. When an epoch ends, its run is destroyed and this memory is handed over. The new
 * run has its own memory, and the old snapshots stay until the new epoch is committed.
 *
 * Sent when. After step s the shard is copied, and the copy is sent while step s + 1 computes. It must arrive before
 * the all-reduce of step s + 1. So when a rank has finished a step, every copy of the step before has arrived.
 *
 *     step s+1   | forward, backward ...........  | BACKWARD_END: wait | all-reduce, update |
 *     wire       | snapshot of s -> right         |
 *
 * What breaks: a snapshot that counts before its copy has arrived; old snapshots that are overwritten too early;
 * moments without their weights; the step's number without its moments (Adam's t).
 *
 * Source: Wang et al. 2023, "Gemini: fast failure recovery in distributed training with in-memory checkpoints",
 * sections 4 and 5. */
#include "elastic/elastic_job.h"

#include "lib/checkpoint/snapshot.h"
#include "lib/comm/comm.h"
#include <inttypes.h>
#include <stdlib.h>

static const struct option OPTIONS[] = {
    {"replicate-every", OPTION_INT, "0", 0, 1e9, NULL, "steps",
     "each rank's state, after every N-th step, in its own and its neighbor's memory, for launch --elastic; 0: on disk "
     "alone",
     "checkpoints", offsetof(struct elastic_options, every)},
    {"replace-stragglers", OPTION_BOOL, "off", 0, 0, NULL, "",
     "with replicate-every: a rank that is slow in three windows of 20 steps gives its place to a spare of launch, if "
     "there is one, and ends",
     "checkpoints", offsetof(struct elastic_options, replace)},
};

static bool elastic_wanted(const struct plan *plan) {
    return elastic_options(plan)->every > 0 || elastic_options(plan)->replace;
}

static struct elastic_job job = {.state = MEMBER_DISK,
                                 .store.kept = {{-1, {{-1, -1}, {-1, -1}}}, {-1, {{-1, -1}, {-1, -1}}}}};
struct elastic_job *elastic_job(void) { return &job; }

enum member_action elastic_happens(enum member_event event) {
    const struct member_row *row = member_row(job.state, event);
    if (!row) return DO_NOTHING;
    job.state = row->next;
    return row->action;
}

struct generation *elastic_of(const struct run *r) {
    for (int i = 0; i < r->n_active; i++)
        if (r->active[i] == &technique_elastic) return r->self[i];
    return NULL;
}

/* ---- what it cannot do ---- */
static enum status elastic_check(const struct plan *plan) {
    int64_t every = elastic_options(plan)->every;
    if (every == 0)
        return FAIL(E_CONFIG, "replace-stragglers moves a rank's state from its memory to a spare's, and with "
                              "replicate-every=0 no rank has it there; give replicate-every 1");
    if (plan_is_asynchronous(plan))
        return FAIL(E_CONFIG, "replicate-every=%" PRId64 " keeps the state between two steps, and asynchronous "
                              "steps have no such moment; use %s, or replicate-every 0",
                    every, plan_synchronous_option(plan));
    if (plan_says(plan, "spike-guard"))
        return FAIL(E_CONFIG, "replicate-every=%" PRId64 " goes back to the last step, and spike-guard=%g to a "
                              "checkpoint, with other samples; leave spike-guard out, or replicate-every",
                    every, plan_real(plan, "spike-guard"));
    return OK;
}

/* The epoch of the plan's ranks, for their hosts. If the plan has another number of ranks, all are on one host. */
static struct membership epoch_of(const struct plan *plan) {
    struct membership now, from;
    comm_epoch_members(&now, &from);
    return now.n == plan_ranks(plan) ? now : (struct membership){.n = plan_ranks(plan)};
}

/* ---- cost ---- */
/* Bytes of the left neighbor's snapshot. Its program is compiled, because it may differ from this rank's. */
static enum status bytes_of_left(const struct plan *plan, int64_t *bytes) {
    struct plan other = *plan;
    struct run left;
    const struct membership_shape shape = plan_membership_shape(plan);
    const struct membership now = epoch_of(plan);
    int rank = membership_left(&shape, &now, mesh_rank_of(&plan->place));
    *bytes = 0;
    if (now.n == 1) return OK;
    *elastic_options(&other) = (struct elastic_options){0};
    enum status status = run_compile(&left, plan->recipe, &other, rank, NULL, NULL);
    if (status == OK) *bytes = snapshot_bytes(&left.program, &left.bill);
    run_destroy(&left);
    return status;
}

/* elastic is the last technique, so the bill already has the other techniques' save bytes. */
static enum status elastic_cost(const struct plan *plan, const struct compiled *c, struct bill *bill) {
    int64_t own = snapshot_bytes(c->program, bill), left;
    if (c->schedule->validates)
        return FAIL(E_CONFIG, "replicate-every keeps a state that is certain, and with optim-sync=validate an update "
                              "may be taken back; use optim-sync wait");
    TRY(bytes_of_left(plan, &left));
    bill->snapshot_bytes = 2 * (own + left);
    bill_exchange(bill, &plan->place, (struct exchange){.axis = AXIS_MESH, .op = COMM_SEND, .dtype = FP64,
                                                        .count = own / (int64_t)sizeof(double),
                                                        .every = elastic_options(plan)->every, .when = AT_END});
    return OK;
}

/* ---- events ---- */
static enum status elastic_backward_end(struct run *r, void *self, const struct event *e) {
    (void)r, (void)e;
    return elastic_finish(self);
}

/* ---- attach ---- */
static enum status elastic_attach(struct run *r, void **self) {
    struct generation *g = *self = calloc(1, sizeof *g);
    if (!g) return FAIL(E_MEMORY, "no memory for the table of snapshots");
    if (r->loop.step)
        return FAIL(E_CONFIG, "replicate-every=%" PRId64 " keeps the state between two steps, and server-mode ssp and "
                              "async have no such moment; use server-mode sync, or replicate-every 0",
                    elastic_options(&r->plan)->every);
    const struct arena *arena = &r->arenas[TIER_HOST][ROLE_SAVE];
    char *at = arena_at(arena, arena->bytes - r->bill.snapshot_bytes);
    const struct membership_shape shape = plan_membership_shape(&r->plan);
    const struct membership now = epoch_of(&r->plan);
    int rank = mesh_rank_of(&r->plan.place);
    g->left_rank = membership_left(&shape, &now, rank);
    g->right_rank = membership_right(&shape, &now, rank);
    g->own_bytes = snapshot_bytes(&r->program, &r->bill);
    g->left_bytes = r->bill.snapshot_bytes / 2 - g->own_bytes;
    for (int i = 0; i < 2; i++, at += g->left_bytes) {
        g->own[i] = at;
        g->left[i] = at += g->own_bytes;
    }
    return run_subscribe(r, EVENT_BACKWARD_END, elastic_backward_end, g);
}

static void generation_free(struct generation *g) {
    if (g->handed_over.base) arena_fini(&g->handed_over);
    free(g->own_header);
    free(g->left_header);
    free(g);
}

void elastic_drop(int k) {
    struct generation *g = job.of[k];
    job.of[k] = NULL;
    job.store.kept[k].epoch = -1;
    if (g) generation_free(g);
}

void elastic_leave(struct run *r) {
    struct generation *g = elastic_of(r);
    if (!g) return;
    g->goes_on = true;
    g->coming = NULL;                        /* the copies in flight will not arrive */
    if (job.of[0] != g && job.of[1] != g) return;            /* the run has kept no snapshot yet */
    g->handed_over = r->arenas[TIER_HOST][ROLE_SAVE];
    r->arenas[TIER_HOST][ROLE_SAVE] = (struct arena){0};
}

/* If elastic_leave was not called, the job is over, and all snapshots are dropped. If it was called before the run kept
 * a snapshot (its epoch ended while it began), the older snapshots stay. */
static void elastic_detach(struct run *r, void *self) {
    struct generation *g = self;
    bool kept = job.of[0] == g || job.of[1] == g;
    (void)r;
    if (!g->goes_on && elastic_finish(g) != OK) status_clear();
    for (int k = 0; k < 2 && !g->goes_on; k++) elastic_drop(k);
    if (!g->goes_on) job.state = MEMBER_DISK;
    if (!kept) generation_free(g);
}

static const struct keeper keeper = {elastic_begin, elastic_is_due, elastic_keep, elastic_drain, elastic_leave,
                                     elastic_report, elastic_go_on};

const struct technique technique_elastic = {
    .name = "elastic", .options = {OPTIONS, 2, sizeof(struct elastic_options)}, .wanted = elastic_wanted,
    .check = elastic_check, .cost = elastic_cost, .attach = elastic_attach, .detach = elastic_detach,
    .keeper = &keeper};
