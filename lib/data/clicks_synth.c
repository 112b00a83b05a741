#include "lib/data/clicks.h"

#include "lib/base/auc.h"
#include "lib/base/rng.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double DENSE_STD = 0.6, SPARSE_STD = 1.0, BIAS = -1;   /* BIAS makes about a third of the labels 1 */

struct synth { struct clicks_layout layout; uint64_t seed, ids, dense, label, weight, order; double a, c; };

static double uniform(const struct synth *s, uint64_t stream, int64_t sample, int64_t place) {
    return rng_uniform(s->seed, stream, (uint64_t)(sample * clicks_words(&s->layout) + place));
}

static int64_t row_of(const struct synth *s, int64_t sample, int64_t f, int64_t m) {
    const struct clicks_layout *c = &s->layout;
    double u = uniform(s, s->ids, sample, c->dense + f * c->bag + m);
    int64_t popular = (int64_t)floor(pow(c->rows + 1.0, u)) - 1;
    if (popular >= c->rows) popular = c->rows - 1;
    return (int64_t)rng_permute(s->seed, s->order, (uint64_t)f, (uint64_t)c->rows, (uint64_t)popular);
}

/* Write the bags. @return their part of the logit */
static double make_bags(const struct synth *s, int64_t sample, int32_t *bags) {
    const struct clicks_layout *c = &s->layout;
    double sum = 0;
    for (int64_t f = 0; f < c->features; f++) {
        int64_t n = 1 + (int64_t)(uniform(s, s->order, sample, f) * c->bag);
        for (int64_t m = 0; m < c->bag; m++) {
            int64_t id = m < n ? row_of(s, sample, f, m) : -1;
            bags[f * c->bag + m] = (int32_t)id;
            if (id >= 0) sum += s->c * rng_normal(s->seed, s->weight, (uint64_t)(f * c->rows + id));
        }
    }
    return sum;
}

static double make_sample(const struct synth *s, int64_t sample, int32_t *words) {
    const struct clicks_layout *c = &s->layout;
    double logit = BIAS + make_bags(s, sample, words + 1 + c->dense);
    for (int64_t k = 0; k < c->dense; k++) {
        float x = (float)rng_normal(s->seed, s->dense, (uint64_t)(sample * c->dense + k));
        memcpy(words + 1 + k, &x, sizeof x);
        logit += s->a * (k % 2 ? -1 : 1) * (double)x;
    }
    words[0] = uniform(s, s->label, sample, 0) < 1 / (1 + exp(-logit));
    return logit;
}

static enum status write_all(const struct synth *s, int64_t n, int32_t *words, struct score *tail,
                             struct clicks_writer *w, double *best_auc) {
    int64_t from = n - (int64_t)(0.1 * (double)n);
    for (int64_t i = 0; i < n; i++) {
        double logit = make_sample(s, i, words);
        if (i >= from) tail[i - from] = (struct score){logit, words[0]};
        TRY(clicks_append(w, words));
    }
    double auc = auc_of(tail, n - from);
    *best_auc = isnan(auc) ? 0 : auc;
    return OK;
}

enum status clicks_synth(const char *path, const struct clicks_layout *layout, int64_t n, uint64_t seed,
                         double *best_auc) {
    const struct clicks_layout *c = layout;
    struct synth s = {*c, seed, rng_stream("clicks.ids"), rng_stream("clicks.dense"), rng_stream("clicks.label"),
                      rng_stream("clicks.weight"), rng_stream("clicks.order"),
                      DENSE_STD / sqrt(c->dense > 0 ? c->dense : 1),
                      SPARSE_STD / sqrt(c->features * (1 + c->bag) / 2.0)};
    struct clicks_writer *w = NULL;
    int32_t *words = malloc((size_t)clicks_words(c) * sizeof *words);
    struct score *tail = malloc(((size_t)n / 10 + 2) * sizeof *tail);
    enum status status = words && tail ? clicks_create(path, c, &w) : FAIL(E_MEMORY, "no memory to make %s", path);
    if (status == OK) status = write_all(&s, n, words, tail, w, best_auc);
    if (status == OK) status = clicks_finish(&w, *best_auc);
    clicks_abandon(&w);
    free(words);
    free(tail);
    return status;
}
