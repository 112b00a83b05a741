/* Continue in a new epoch, as a restarted job does, but in the same processes.
 *
 * When a rank of an elastic job dies, every wait of the other ranks ends with E_EPOCH. They discard the old epoch's
 * state, enter the new epoch, and set up again by the same request (train_asked.h), except --dp, which is computed from
 * the number of ranks. They continue from
 *
 *     memory      the last step whose shards all have a snapshot on a living rank (--replicate-every; elastic/)
 *     disk        this job's last checkpoint, if a shard is missing in memory, or if the checkpoint is newer
 *     beginning   the start that the options name, if there is no checkpoint either
 *
 * An epoch may also end by plan: a replica comes back, or a rank leaves (lib/comm/membership/planned.c). Then all ranks
 * agree on a step, and end the epoch after it.
 *
 * The global batch stays, and samples and dropout are functions of seed and step. So the losses equal those of a run
 * without a death: bit by bit if a spare replaces the dead rank, up to rounding if there are fewer replicas. */
#include "driver/train/train_membership.h"

#include "driver/train/train_state.h"
#include "lib/base/log.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/comm/membership/comm_membership.h"
#include "lib/comm/comm.h"
#include "lib/comm/membership/membership.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Can the job run with dp replicas? (Three, for instance, are refused by an all-reduce that halves its group.) micro:
 * the user's micro-batch, or 0. */
static bool can_have(const struct plan *p, int64_t dp, int64_t micro) {
    struct plan other = *p;
    struct run run;
    other.mesh.dp = dp;
    other.micro_batch = micro;
    other.settled = false;
    enum status status = plan_settle(&other, (int)(dp * plan_replica_ranks(p)));
    if (status == OK) {
        status = run_compile(&run, p->recipe, &other, 0, NULL, NULL);
        run_destroy(&run);
    }
    status_clear();
    return status == OK && comm_world_suits((int)(dp * plan_replica_ranks(p)));
}

void train_tell_shape(const struct training *t) {
    const struct plan *p = &t->setup.plan;
    struct membership_shape shape = plan_membership_shape(p);
    if (options_source(t->setup.options, "micro-batch") > FROM_DATA) shape.micro = p->micro_batch;
    const int n_first = comm_epoch_wants_shape() / plan_replica_ranks(p);
    const enum log_level level = log_get_level();
    log_set_level(LOG_QUIET);                                        /* hide remarks on layouts that do not run */
    for (int n = 1; n <= n_first && !plan_serving(p); n++)
        if (n != p->mesh.dp && !can_have(p, n, shape.micro)) shape.refused[n / 64] |= (uint64_t)1 << n % 64;
    log_set_level(level);
    if (n_first) comm_epoch_shape(&shape);
}

/* 1 if this process has finished a step of this job, so that the metrics have rows of the job. */
static int32_t has_done_steps;

void train_note_step(void) { has_done_steps = 1; }

/* Is there a readable checkpoint? If not, memory is better, even if it is a step behind the saved one. */
static bool is_there(const char *save) {
    char step[CHECKPOINT_PATH_MAX];
    bool found = checkpoint_resolve(save, step) == OK;
    status_clear();
    return found;
}

struct beginning { int64_t saved; bool from_memory, adds_rows; };

/* Rank 0 finds the job's last save and broadcasts its step, because all ranks must begin alike. adds_rows: the metrics
 * have rows of this job, which must stay. */
static enum status where_to_begin(const struct plan *plan, struct beginning *out) {
    int64_t saved = comm_epoch_kept(), on_disk[2] = {saved, saved && is_there(plan->save) ? saved : 0};
    int32_t rows = has_done_steps;
    TRY(comm_broadcast(group_world(), on_disk, (int64_t)sizeof on_disk, UINT8, 0));
    TRY(comm_all_reduce(group_world(), &rows, 1, INT32, COMM_MAX));
    *out = (struct beginning){.saved = on_disk[0]};
    const struct keeper *keeper = plan_keeper(plan);
    if (keeper) TRY(keeper->report(plan, on_disk[1], &out->from_memory));
    out->adds_rows = rows || out->from_memory;
    return OK;
}

static void change(struct plan *p, int64_t dp, const struct beginning *b) {
    const bool resumes = b->saved && !b->from_memory;
    p->mesh.dp = dp;
    if (resumes) memcpy(train_options(p)->resume, p->save, sizeof train_options(p)->resume);
    if (resumes) train_options(p)->init[0] = 0;
    if (resumes || b->adds_rows) train_options(p)->metrics_append = 1;
}

enum status train_setup_of_epoch(const struct train_asked *asked, struct setup *out, bool *from_memory) {
    struct beginning begin;
    *from_memory = false;
    *out = asked->setup;
    out->is_borrowed = true;
    if (comm_epoch() == 0) return OK;
    log_set_level((enum log_level)train_options(&out->plan)->log);   /* a spare has been quiet */
    const int64_t dp = comm_world_size() / plan_replica_ranks(&out->plan);
    TRY(where_to_begin(&out->plan, &begin));
    change(&out->plan, dp, &begin);
    *from_memory = begin.from_memory;
    if (comm_is_rank_0())
        log_info("epoch %d: %d ranks, dp %" PRId64 ", from %s", comm_epoch(), comm_world_size(), dp,
                 begin.from_memory ? "memory"
                 : begin.saved     ? "the last checkpoint"
                                   : "the beginning (no checkpoint yet)");
    return OK;
}

static enum status hear(struct training *t) {
    TRY(comm_wait(&t->epoch.asking));
    t->epoch.ends |= t->epoch.asked != 0;
    return OK;
}

static enum status ask(struct training *t) {
    t->epoch.asked = comm_epoch_ends();
    return comm_all_reduce_start(group_world(), &t->epoch.asked, 1, INT32, COMM_MAX, &t->epoch.asking);
}

enum status train_hear_of_epoch(struct training *t) {
    if (!t->keeper) return OK;
    TRY(hear(t));
    return ask(t);
}

/* Ranks learn of the epoch's end a step late, as of a request to stop, so that no rank waits for the all-reduce. A step
 * that has started is finished first, because on a GPU its update may have changed the weights. */
enum status train_end_epoch(struct training *t) {
    const struct run *r = &t->run;
    bool last = r->n_done == t->setup.plan.steps;
    if (!t->keeper) return OK;
    TRY(hear(t));
    if (t->epoch.ends && r->n_started > 0) return OK;
    if (t->epoch.ends && !last && !t->stop.agreed && !r->apart) {
        TRY(train_poll_save(t, true));
        return t->keeper->drain(&t->run);
    }
    return last ? OK : ask(t);
}

enum status train_enter_epoch(void) {
    enum status status;
    while ((status = comm_epoch_enter()) == E_EPOCH) comm_epoch_leave();
    return status;
}
