/* A rank's part of samples of clicks. The axis P counts replicas. A rank reads the dense features and labels of its own
 * samples (P = 1), and the ids of the replicas and features that its slot has. Every rank can read every sample, so a
 * rank that owns a table reads the ids of other ranks' samples from the file, and no rank sends an id. */
#include "models/dlrm/dlrm.h"

#include "lib/data/clicks.h"
#include "lib/run/run.h"
#include "models/dlrm/scores.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const struct shape *shape_of(const struct run *r, int slot) { return &r->program.slots[slot].type.shape; }

static enum status check_layout(const struct run *r, const struct data_split *split) {
    struct clicks_layout have = clicks_layout(split->file);
    const struct shape *ids = shape_of(r, r->program.data[DATA_TOKENS]), *dense = shape_of(r, r->program.features);
    if (have.features == ids->axis[1].global && have.bag == ids->axis[3].n && have.dense == dense->axis[2].n) return OK;
    return FAIL(E_DATA,
                "%s has %d features in bags of %d, and %d dense ones; the model has %" PRId64 ", %" PRId64 " and %"
                PRId64 "; leave --features, --bag and --dense out",
                data_path(split->file), have.features, have.bag, have.dense, ids->axis[1].global, ids->axis[3].n,
                dense->axis[2].n);
}

/* The rows that the file's ids need: the header's number, unless id is beyond it in a damaged file. */
static int64_t rows_needed(const struct clicks_layout *c, int32_t id) {
    return id < c->rows ? c->rows : (int64_t)id + 1;
}

static enum status check_ids(const struct run *r, const struct data_split *split, int64_t first, int64_t n) {
    const struct clicks_layout c = clicks_layout(split->file);
    TRY(check_layout(r, split));
    for (int64_t i = first; i < first + n; i++) {
        const int32_t *words = clicks_sample(split, i);
        for (int64_t k = 1 + c.dense; k < clicks_words(&c); k++)
            if (words[k] >= r->plan.vocab)
                return FAIL(E_DATA, "%s: id %d of sample %" PRId64 " is beyond the %" PRId64 " rows of a table; use "
                            "--vocab %" PRId64 " or more, or the data this model was made for",
                            data_path(split->file), words[k], i, r->plan.vocab, rows_needed(&c, words[k]));
    }
    return OK;
}

/* Find sample b of replica p in a microbatch. *words NULL: it is beyond the last sample of the split. */
static enum status sample_of(const struct run *r, int microbatch, const struct axis *P, int64_t p, int64_t b,
                             const int32_t **words) {
    const struct plan *plan = &r->plan;
    int64_t number = schedule_first_sample(microbatch, (int)axis_global(P, p), plan->workers, plan->micro_batch) + b;
    bool training = !r->evaluation;
    const struct data_split *split = training ? &r->train : &r->val;
    int64_t i = training ? data_shuffled(split, (uint64_t)plan->seed, run_samples_before(r, r->n_step) + number)
                         : r->evaluation->first + number;
    *words = NULL;
    if (i >= data_split_samples(split)) return OK;
    *words = clicks_sample(split, i);
    return OK;
}

static enum status fetch_ids(const struct run *r, int microbatch, int32_t *ids) {
    const struct axis *a = shape_of(r, r->program.data[DATA_TOKENS])->axis;
    const int32_t *words;
    int64_t M = a[3].n, skip = 1 + shape_of(r, r->program.features)->axis[2].n;
    for (int64_t p = 0; p < a[0].n; p++)
        for (int64_t b = 0; b < a[2].n; b++) {
            TRY(sample_of(r, microbatch, &a[0], p, b, &words));
            for (int64_t f = 0; f < a[1].n; f++) {
                int32_t *bag = ids + ((p * a[1].n + f) * a[2].n + b) * M;
                if (words) memcpy(bag, words + skip + (a[1].first + f) * M, (size_t)M * sizeof *bag);
                else for (int64_t m = 0; m < M; m++) bag[m] = -1;
            }
        }
    return OK;
}

static enum status fetch(void *self, int microbatch, int32_t *const data[N_DATA]) {
    struct run *r = self;
    int32_t *labels = data[DATA_TARGETS];
    const struct axis *a = shape_of(r, r->program.data[DATA_TARGETS])->axis;
    const int32_t *words;
    TRY(check_layout(r, r->evaluation ? &r->val : &r->train));
    if (data[DATA_TOKENS]) TRY(fetch_ids(r, microbatch, data[DATA_TOKENS]));
    for (int64_t i = 0; labels && i < a[0].n * a[1].n; i++) {
        TRY(sample_of(r, microbatch, &a[0], i / a[1].n, i % a[1].n, &words));
        labels[i] = words ? words[0] : -1;
    }
    return OK;
}

static enum status fetch_features(void *self, int microbatch, void *to) {
    struct run *r = self;
    const struct type *t = &r->program.slots[r->program.features].type;
    const struct axis *a = t->shape.axis;
    const int32_t *words;
    int64_t X = a[2].n;
    for (int64_t i = 0; i < a[0].n * a[1].n; i++) {
        TRY(sample_of(r, microbatch, &a[0], i / a[1].n, i % a[1].n, &words));
        for (int64_t k = 0; k < X; k++) {
            float x = 0;
            if (words) memcpy(&x, words + 1 + k, sizeof x);
            dtype_set(to, t->dtype, i * X + k, x);
        }
    }
    return OK;
}

static int64_t words(const struct plan *p) {
    return 1 + plan_number(p, "dense") + plan_number(p, "features") * plan_number(p, "bag");
}

static enum status see_scores(void *self, const void *logits, const int32_t *labels) {
    struct run *r = self;
    const struct type *t = &r->program.slots[r->program.scores].type;
    if (!r->evaluation) return OK;
    struct scores *kept = r->evaluation->kept;
    enum status status = scores_add(&kept, logits, t->dtype, labels, type_n(t));
    r->evaluation->kept = kept;
    return status;
}

static enum status auc(const struct run *r, const void *kept, double *out) {
    return scores_auc(kept, r->mesh.group[AXIS_MESH], out);
}

const struct own_samples dlrm_clicks = {fetch, fetch_features, see_scores, words, check_ids, auc};
