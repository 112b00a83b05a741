/* Evaluation: the forward half of the same rows, dropout off, over the validation split in order.
 *
 * A global batch at a time: sample eval_first + i is the batch's number i, so replicas share the work as in training.
 * What lies beyond the end has targets -1, which cross_entropy leaves out; so all of the split counts, each target
 * once. */
#include "lib/run/run.h"
#include "lib/base/integer.h"
#include "lib/run/scores.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The forward half of the training schedule, in its order. What is left waits for nothing that it did not wait for
 * before, so the proof that the whole does not deadlock holds for the half. */
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

/* This batch's loss on this rank: numbers that add without rounding where sums are fixed, else one. */
static enum status add_batch(struct run *r, double sums[EXACT_NUMBERS]) {
    double numbers[EXACT_NUMBERS] = {0};
    if (r->program.fixed_sums) exact_numbers(&r->loss_sum, numbers);
    else TRY(run_read_scalar(r, &r->scalars[SCALAR_LOSS], numbers));
    for (int i = 0; i < EXACT_NUMBERS; i++) sums[i] += numbers[i];
    return OK;
}

static enum status evaluate_batches(struct run *r, const struct schedule *s, int64_t n_batches, double *sums) {
    double scale = r->exec.loss_weight;
    r->exec.loss_weight = 1;                                          /* the plain sum over tokens */
    enum status status = OK;
    for (int64_t i = 0; i < n_batches && status == OK; i++) {
        r->eval_first = i * r->plan.global_batch;
        status = exec_run(&r->exec, s, false);
        if (status == OK) status = add_batch(r, sums);
    }
    r->exec.loss_weight = scale;
    r->eval_first = -1;
    return status;
}

/* Of a model of clicks also the AUC. */
static enum status evaluate_clicks(struct run *r, const struct schedule *s, int64_t n_batches, double *sums) {
    struct scores scores = {0};
    r->scores = &scores;
    enum status status = evaluate_batches(r, s, n_batches, sums);
    r->scores = NULL;
    if (status == OK) status = scores_auc(&scores, r->mesh.group[AXIS_MESH], &r->auc);
    scores_fini(&scores);
    return status;
}

enum status run_evaluate(struct run *r, int64_t n_batches, double *loss) {
    int64_t B = r->plan.global_batch, samples = data_split_samples(&r->val), all = ceil_div(samples, B);
    if (samples < 1) return FAIL(E_DATA, "there is no validation data; give val-data, or a val-fraction above 0");
    if (n_batches == 0 || n_batches > all) n_batches = all;
    TRY(run_check_threads(r));
    if (r->exec.since_flush > 0)
        return FAIL(E_INTERNAL, "evaluation after step %" PRId64 ", and the pipeline is not empty", r->n_done);
    double sums[EXACT_NUMBERS] = {0};
    struct schedule s;
    forward_schedule(r, &s);
    r->auc = NAN;
    enum status status =
        (r->program.scores >= 0 ? evaluate_clicks : evaluate_batches)(r, &s, n_batches, sums);
    s.hops = NULL;                                                   /* they are the training schedule's */
    schedule_fini(&s);
    TRY(status);
    if (!program_counts_loss(&r->program)) memset(sums, 0, sizeof sums);
    int n = r->program.fixed_sums ? EXACT_NUMBERS : 1;
    TRY(comm_all_reduce(r->mesh.group[AXIS_MESH], sums, n, FP64, COMM_SUM));
    double sum = n > 1 ? exact_value(sums) : sums[0];
    int64_t counted = n_batches * B < samples ? n_batches * B : samples;
    *loss = sum / ((double)counted * (double)model_targets(&r->plan));
    return OK;
}
