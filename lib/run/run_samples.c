/* Read the samples of a step, let the model change them, and take the positions that this rank holds. */
#include "lib/run/run_state.h"

#include "lib/base/clock.h"
#include "lib/base/integer.h"
#include "lib/data/data_ahead.h"
#include "lib/program/sums.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* The number, in the step's batch, of a microbatch's first sample. With fixed sums, samples whose gradients are added
 * first are neighbors. */
static int64_t first_number(const struct run *r, int microbatch, int64_t replica) {
    const struct plan *p = &r->plan;
    if (!r->program.fixed_sums || p->arch->clicks)
        return schedule_first_sample(microbatch, replica, p->workers, p->micro_batch);
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

static enum status fetch_tokens(const struct run *r, int microbatch, int32_t *const data[N_DATA]) {
    int64_t T = r->plan.seq;
    const struct program *p = &r->program;
    int32_t *room = malloc(N_DATA * (size_t)T * sizeof *room), *whole[N_DATA];
    enum status status = room ? OK : FAIL(E_MEMORY, "no memory for %" PRId64 " tokens", T);
    for (int d = 0; d < N_DATA && room; d++) whole[d] = room + d * T;
    for (int64_t b = 0; status == OK && b < r->plan.micro_batch; b++) {
        status = fetch_sample(r, first_number(r, microbatch, r->plan.place.rank.dp) + b, whole);
        for (int d = 0; d < N_DATA && status == OK; d++)
            if (data[d]) take(&p->slots[p->data[d]].type, b, whole[d], data[d]);
    }
    free(room);
    return status;
}

enum status run_fetch(void *self, int microbatch, int32_t *const data[N_DATA]) {
    struct run *r = self;
    const struct own_samples *own = r->plan.arch->clicks;
    double start_s = clock_s();
    TRY(own ? own->fetch(r, microbatch, data) : fetch_tokens(r, microbatch, data));
    if (!r->evaluation) r->data_s += clock_s() - start_s;
    return OK;
}

/* ---- --data-ahead N: slots of this step and the next N, in turns ---- */
/* What this rank reads of a step: n samples of its own replica, or of the replicas P of its clicks' ids. */
struct reads { const struct axis *P; int64_t n, words, steps; };

static struct reads reads_of(const struct run *r) {
    const struct plan *p = &r->plan;
    int ids = p->arch->clicks ? r->program.data[DATA_TOKENS] : -1;
    const struct axis *P = ids >= 0 ? shape_axis(&r->program.slots[ids].type.shape, 'P') : NULL;
    struct reads x = {P, 0, p->arch->clicks ? p->arch->clicks->words(p) : p->seq + 1, plan_number(p, "data-ahead") + 1};
    for (int k = 0; k < r->program.n_chunks && x.steps > 1 && plan_has_samples(p); k++)
        for (int d = 0; d < N_DATA; d++)
            if (r->chunks[k].data[d] >= 0) x.n = p->n_microbatches * p->micro_batch * (P ? P->n : 1);
    return x;
}

int64_t run_ahead_bytes(const struct run *r) {
    const struct reads x = reads_of(r);
    return x.steps * x.n * x.words * (int64_t)sizeof(int32_t);
}

static bool read_ahead(void *self, int64_t sample, int32_t *words) {
    const struct run *r = self;
    return data_words(&r->train, sample, r->plan.vocab, reads_of(r).words, words);
}

enum status run_open_ahead(struct run *r, void *room) {
    const struct reads x = reads_of(r);
    if (x.n == 0) return OK;
    return data_ahead_create(x.steps * x.n, x.words, room, (struct data_ahead_reader){r, read_ahead}, &r->train.ahead);
}

void run_read_ahead(const struct run *r) {
    const struct reads x = reads_of(r);
    int64_t B = r->plan.micro_batch, n = x.P ? x.P->n : 1;
    for (int64_t step = r->n_step; step < min64(r->n_step + x.steps, r->plan.steps); step++)
        for (int64_t k = 0; k < x.n; k++) {
            int64_t replica = x.P ? axis_global(x.P, k / B % n) : r->plan.place.rank.dp;
            int64_t s = run_samples_before(r, step) + first_number(r, (int)(k / B / n), replica) + k % B;
            data_ahead_put(r->train.ahead, step % x.steps * x.n + k,
                           data_shuffled(&r->train, (uint64_t)r->plan.seed, s));
        }
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
