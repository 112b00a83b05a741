/* Which samples a step trains on, and which of their tokens this rank gets. */
#include "lib/run/run_state.h"

#include "lib/program/sums.h"

#include <inttypes.h>
#include <stdlib.h>

/* The number of a microbatch's first sample in the step's batch. No layout enters beyond who asks; but where sums are
 * fixed, samples that are added first are neighbours. */
static int64_t first_number(const struct run *r, int microbatch) {
    const struct plan *p = &r->plan;
    if (!r->program.fixed_sums)
        return schedule_first_sample(microbatch, p->place.rank.dp, p->workers, p->micro_batch);
    return sums_first_sample(&r->program, &p->place, &r->schedule, microbatch, p->micro_batch);
}

/* Samples go on where they stopped, though the batch may be of another size now. */
int64_t run_samples_before(const struct run *r, int64_t step) {
    return r->resumed_samples + (step - r->resumed_step) * r->plan.global_batch;
}
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

enum status run_fetch(void *self, int microbatch, int32_t *tokens, int32_t *targets) {
    struct run *r = self;
    int64_t T = r->plan.seq;
    const struct program *p = &r->program;
    const struct axis *held = shape_axis(&p->slots[tokens ? p->tokens : p->targets].type.shape, 'T');
    int32_t *sample = malloc(2 * (size_t)T * sizeof *sample);        /* whole: its tokens, its targets */
    enum status status = sample ? OK : FAIL(E_MEMORY, "no memory for %" PRId64 " tokens", T);
    for (int64_t b = 0; status == OK && b < r->plan.micro_batch; b++) {
        status = fetch_sample(r, first_number(r, microbatch) + b, sample, sample + T);
        if (tokens) take(held, sample, tokens + b * held->n);
        if (targets) take(held, sample + T, targets + b * held->n);
    }
    free(sample);
    return status;
}
