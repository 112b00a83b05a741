#include "oracle/verdict.h"

#include <math.h>
#include <string.h>

double whole_difference(const double *x, const double *y, const double *slack, int64_t n, int64_t *at) {
    double difference = 0, most = 0;
    int64_t where = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs(x[i] - y[i]) - (slack ? slack[i] : 0);
        if (isnan(d)) d = INFINITY;
        if (d > difference) difference = d, where = i;
        most = fmax(most, fabs(y[i]));
    }
    if (at) *at = where;
    return most > 0 ? difference / most : difference;
}

static bool is_of_one_shape(const struct box *a, const struct box *b) {
    return a->n_axes == b->n_axes && !memcmp(a->of, b->of, (size_t)a->n_axes * sizeof *a->of);
}

/* A comparison with NaN is false, so the conditions test for right, not for wrong. */
void verdict_of(const struct whole *run, const struct whole *reference, const double *slack, struct checked *c) {
    double limit = CHECK_FACTOR * c->scale;
    c->missing = run->missing, c->apart = run->apart, c->rank = run->rank, c->other = run->other;
    c->verdict = is_of_one_shape(&run->box, &reference->box) ? TENSOR_IN_PART : TENSOR_OF_ANOTHER_SHAPE;
    if (c->verdict == TENSOR_OF_ANOTHER_SHAPE || run->missing) return;
    c->error = whole_difference(run->x, reference->x, slack, run->n, &c->at);
    c->verdict = !(c->apart <= limit) ? TENSOR_APART : c->error <= limit ? TENSOR_RIGHT : TENSOR_WRONG;
}

int verdict_first(const struct checked *row, int n, int *n_compared, int *n_wrong) {
    int first = -1;
    *n_compared = *n_wrong = 0;
    for (int i = 0; i < n; i++) {
        if (row[i].verdict == TENSOR_NOT_RECORDED) continue;
        ++*n_compared;
        if (row[i].verdict == TENSOR_RIGHT) continue;
        ++*n_wrong;
        if (first < 0) first = i;
    }
    return first;
}
