/* Evaluation runs the forward half of the training rows, without dropout, over the validation split in order.
 *
 * It runs one global batch at a time: sample first + i is number i of the batch, so replicas share the work as in
 * training. Samples beyond the end have targets -1, which cross_entropy skips, so that each target counts once.
 *
 * A rank that cannot read a sample must not leave the other ranks waiting in the middle of a batch. So it treats the
 * sample as one beyond the end, and the ranks agree on the failure after the last batch. */
#include "lib/base/integer.h"
#include "lib/comm/comm.h"
#include "lib/run/run_state.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The forward half of the training schedule, in its order. Each action waits for at most the same actions as in the
 * whole schedule, so the proof that the whole schedule cannot deadlock also holds for the half. */
static void forward_schedule(const struct run *r, struct schedule *s) {
    *s = r->schedule;
    s->actions = NULL;
    s->n = s->n_fill = s->n_frames = 0;
    for (int i = 0; i < r->schedule.n; i++) {
        const struct action *a = &r->schedule.actions[i];
        bool forward = a->kind == RECV_F || a->kind == ACTION_F || a->kind == SEND_F;
        if (forward && a->microbatch < s->n_microbatches)
            schedule_add(s, a->kind, a->chunk, a->microbatch);
    }
}

/* Add this rank's loss of the batch: one number, or with fixed sums EXACT_NUMBERS that add without rounding. */
static enum status add_batch(struct run *r, double sums[EXACT_NUMBERS]) {
    double numbers[EXACT_NUMBERS] = {0};
    if (r->program.fixed_sums) exact_numbers(&r->exec.loss_sum, numbers);
    else TRY(run_read_scalar(r, &run_scalars(r)[SCALAR_LOSS], numbers));
    for (int i = 0; i < EXACT_NUMBERS; i++) sums[i] += numbers[i];
    return OK;
}

/* A running evaluation and its progress. */
struct progress { const struct schedule *schedule; evaluation_watcher *watch; void *self; struct evaluated *out; };

static bool is_whole(const struct progress *e) { return e->out->batches == e->out->all; }

static enum status evaluate_batches(struct run *r, const struct progress *e, double *sums) {
    double scale = r->exec.loss_weight;
    r->exec.loss_weight = 1;                                          /* the plain sum over tokens */
    enum status status = OK;
    for (bool ends = false; !is_whole(e) && !ends && status == OK;) {
        r->evaluation->first = e->out->batches * r->plan.global_batch;
        status = exec_run(&r->exec, e->schedule, false);
        if (status == OK) status = add_batch(r, sums);
        e->out->batches += status == OK;
        if (status == OK && e->watch && !is_whole(e)) status = e->watch(e->self, &ends);
    }
    r->exec.loss_weight = scale;
    return status;
}

/* All ranks have run the same batches, so they can agree on a failure of one rank. */
static enum status agree(const struct run *r, const char *mine) {
    char text[512];
    enum status status = mine[0] ? FAIL(E_DATA, "%s", mine) : OK;
    status = fail_share(r->mesh.group[AXIS_MESH], status, text, sizeof text);
    return status == OK || !text[0] ? status : FAIL(status, "%s", text);
}

static enum status run_batches(struct run *r, const struct progress *e, double *sums) {
    struct evaluation now = {0};
    r->evaluation = &now;
    enum status status = evaluate_batches(r, e, sums);
    r->evaluation = NULL;
    if (status == OK && is_whole(e) && r->plan.arch->clicks)
        status = r->plan.arch->clicks->auc(r, now.kept, &e->out->auc);
    free(now.kept);
    TRY(status);
    status = agree(r, now.unread);
    e->out->unread = status == E_DATA;
    return status;
}

static int64_t n_batches_of(const struct run *r, int64_t wanted) {
    int64_t all = ceil_div(data_split_samples(&r->val), r->plan.global_batch);
    return wanted == 0 || wanted > all ? all : wanted;
}

static enum status mean_loss(struct run *r, double sums[EXACT_NUMBERS], int64_t n_batches, double *loss) {
    int64_t samples = data_split_samples(&r->val), B = r->plan.global_batch;
    if (!program_counts_loss(&r->program)) memset(sums, 0, EXACT_NUMBERS * sizeof *sums);
    int n = r->program.fixed_sums ? EXACT_NUMBERS : 1;
    TRY(comm_all_reduce(r->mesh.group[AXIS_MESH], sums, n, FP64, COMM_SUM));
    double sum = n > 1 ? exact_value(sums) : sums[0];
    int64_t counted = n_batches * B < samples ? n_batches * B : samples;
    *loss = sum / ((double)counted * (double)model_targets(&r->plan));
    return OK;
}

enum status run_evaluate_until(struct run *r, int64_t n_batches, evaluation_watcher *watch, void *self,
                               struct evaluated *out) {
    if (data_split_samples(&r->val) < 1)
        return FAIL(E_DATA, "there is no validation data; give val-data, or a val-fraction above 0");
    *out = (struct evaluated){.loss = NAN, .auc = NAN, .all = n_batches_of(r, n_batches)};
    TRY(run_check_threads(r));
    if (r->exec.since_flush > 0)
        return FAIL(E_INTERNAL, "evaluation after step %" PRId64 ", and the pipeline is not empty", r->n_done);
    double sums[EXACT_NUMBERS] = {0};
    struct schedule s;
    const struct progress e = {&s, watch, self, out};
    forward_schedule(r, &s);
    enum status status = run_batches(r, &e, sums);
    s.hops = NULL;                                                   /* hops belong to the training schedule */
    schedule_fini(&s);
    TRY(status);
    return is_whole(&e) ? mean_loss(r, sums, out->all, &out->loss) : OK;
}

enum status run_evaluate(struct run *r, int64_t n_batches, double *loss) {
    struct evaluated out = {.loss = NAN};
    TRY(run_evaluate_until(r, n_batches, NULL, NULL, &out));
    *loss = out.loss;
    return OK;
}

/* Each rank reads one contiguous share, in rank order, so that the first failing rank names the first bad sample. */
enum status run_check_validation(const struct run *r, int64_t n_batches) {
    const struct group *mesh = r->mesh.group[AXIS_MESH];
    int64_t samples = data_split_samples(&r->val), n = group_size(mesh), rank = group_rank(mesh);
    samples = min64(samples, n_batches_of(r, n_batches) * r->plan.global_batch);
    if (samples == 0) return OK;
    int64_t first = samples * rank / n, end = samples * (rank + 1) / n;
    return fail_warn(mesh, r->plan.arch->clicks ? r->plan.arch->clicks->check(r, &r->val, first, end - first)
                                                : data_check(&r->val, first, end - first, r->plan.vocab));
}
