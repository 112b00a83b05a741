/* Read the samples of a step, let the model change them, and take the positions that this rank holds. */
#include "lib/run/run_state.h"

#include "lib/program/sums.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* The number, in the step's batch, of a microbatch's first sample. With fixed sums, samples whose gradients are added
 * first are neighbors. */
static int64_t first_number(const struct run *r, int microbatch) {
    const struct plan *p = &r->plan;
    if (!r->program.fixed_sums)
        return schedule_first_sample(microbatch, p->place.rank.dp, p->workers, p->micro_batch);
    return sums_first_sample(&r->program, &p->place, &r->schedule, microbatch, p->micro_batch);
}

/* A resumed run continues with the next sample, even if its batch has another size than before. */
int64_t run_samples_before(const struct run *r, int64_t step) {
    return r->first_sample + step * r->plan.global_batch;
}
int64_t run_samples_used(const struct run *r) { return run_samples_before(r, r->n_done); }
void run_go_on_at_sample(struct run *r, int64_t sample) {
    r->first_sample = sample - r->n_step * r->plan.global_batch;
}

static enum status read_sample(const struct run *r, const struct data_split *split, int64_t sample, int64_t counted,
                               int32_t *const whole[N_DATA]) {
    const struct plan *p = &r->plan;
    TRY(data_sample(split, sample, p->vocab, whole[DATA_TOKENS], whole[DATA_TARGETS]));
    return p->arch->sample ? p->arch->sample(p, counted, whole) : OK;
}

static void note_unread(struct evaluation *e) {
    if (!e->unread[0]) snprintf(e->unread, sizeof e->unread, "%s", status_message());
    status_clear();
}

/* Read sample `number` of the step's batch: T tokens for each kind of data d, in whole[d]. The model's sample function
 * gets the sample's number in the run: training counts from 0 up, evaluation from -1 down. */
static enum status fetch_sample(const struct run *r, int64_t number, int32_t *const whole[N_DATA]) {
    const struct plan *p = &r->plan;
    bool training = !r->evaluation;
    const struct data_split *split = training ? &r->train : &r->val;
    int64_t at = number + (training ? run_samples_before(r, r->n_step) : r->evaluation->first);
    int64_t counted = training ? at : -1 - at;
    int64_t sample = training ? data_shuffled(split, (uint64_t)p->seed, at) : at;
    if (training || sample < data_split_samples(split)) {
        enum status status = read_sample(r, split, sample, counted, whole);
        if (status == OK || training) return status;
        note_unread(r->evaluation);
    }
    for (int64_t t = 0; t < p->seq; t++) {                           /* after the split's end: no loss */
        whole[DATA_TOKENS][t] = whole[DATA_SEGMENTS][t] = whole[DATA_DECODER][t] = 0;
        whole[DATA_TARGETS][t] = -1;
    }
    return OK;
}

/* Copy the positions of sequence b that this rank holds. */
static void take(const struct type *type, int64_t b, const int32_t *whole, int32_t *to) {
    const struct axis *held = shape_axis(&type->shape, 'T');
    for (int64_t i = 0; i < held->n; i++) to[b * held->n + i] = whole[axis_global(held, i)];
}

enum status run_fetch(void *self, int microbatch, int32_t *const data[N_DATA]) {
    struct run *r = self;
    int64_t T = r->plan.seq;
    const struct program *p = &r->program;
    int32_t *room = malloc(N_DATA * (size_t)T * sizeof *room), *whole[N_DATA];
    enum status status = room ? OK : FAIL(E_MEMORY, "no memory for %" PRId64 " tokens", T);
    for (int d = 0; d < N_DATA && room; d++) whole[d] = room + d * T;
    for (int64_t b = 0; status == OK && b < r->plan.micro_batch; b++) {
        status = fetch_sample(r, first_number(r, microbatch) + b, whole);
        for (int d = 0; d < N_DATA && status == OK; d++)
            if (data[d]) take(&p->slots[p->data[d]].type, b, whole[d], data[d]);
    }
    free(room);
    return status;
}

enum status run_check_first_batch(const struct run *r) {
    const struct group *mesh = r->mesh.group[AXIS_MESH];
    const struct plan *p = &r->plan;
    int64_t n = group_size(mesh), rank = group_rank(mesh), end = p->global_batch * (rank + 1) / n;
    enum status status = OK;
    for (int64_t s = p->global_batch * rank / n; status == OK && !p->arch->clicks && s < end; s++)
        status = data_check(&r->train, data_shuffled(&r->train, (uint64_t)p->seed, s), 1, p->vocab);
    return fail_agree(mesh, status);
}
