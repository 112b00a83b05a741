/* The first wrong tensor of a check in words: what to print, and to paste into an issue. */
#include "oracle/causes/causes.h"

#include "lib/base/say.h"
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int finding_layer(const char *name) {
    int layer;
    const char *at = strstr(name, ".h.");
    if (!at) at = strstr(name, ".layers.");
    return at && sscanf(strchr(at + 1, '.') + 1, "%d", &layer) == 1 ? layer : -1;
}

/* ---- how far it is off ---- */
static double eps_of(enum dtype d) {
    static const double EPS[] = {[FP64] = DBL_EPSILON, [FP32] = FLT_EPSILON, [BF16] = 0x1p-7, [FP16] = 0x1p-10};
    return EPS[d];
}

static void say_eps(const struct check *k, double error, FILE *to) {
    const struct checked *c = &k->row[k->first];
    double eps = eps_of(k->run.dtype);
    int runs = (int)json_integer_value(json_object_get(k->scale, "runs"));
    fprintf(to, "  in eps of %s: %.3g; the limit is %.3g, %g times the most that moved roundings make in %d runs\n",
            dtype_name(k->run.dtype), error / eps, CHECK_FACTOR * c->scale / eps, CHECK_FACTOR, runs);
}

static void say_how_far(const struct check *k, FILE *to) {
    const struct checked *c = &k->row[k->first];
    switch (c->verdict) {
    case TENSOR_APART:
        fprintf(to, "  ranks %d and %d ", c->rank, c->other);
        if (isinf(c->apart)) fprintf(to, "should have the same values, and one has infinity or NaN\n");
        else fprintf(to, "differ by %.2g of the largest element, and should have the same values\n", c->apart);
        if (!isinf(c->apart)) say_eps(k, c->apart, to);
        break;
    case TENSOR_IN_PART: fprintf(to, "  %" PRId64 " elements are on no rank\n", c->missing); break;
    case TENSOR_OF_ANOTHER_SHAPE: break;
    default:
        if (isinf(c->error)) {
            fprintf(to, "  it has infinity or NaN where the reference has numbers\n");
            return;
        }
        fprintf(to, "  it is off by %.2g of %s; rounding explains %.2g, so this is %.3g times too far\n", c->error,
                strchr(c->name, '.') ? "its largest element" : "its value", CHECK_FACTOR * c->scale,
                c->error / (CHECK_FACTOR * c->scale));
        say_eps(k, c->error, to);
    }
}

/* ---- where ---- */
/* The element that is off most, of what any rank has. rank -1: none; its place in the whole tensor. */
struct worst { int rank; int64_t place; double value, off; };

static struct worst worst_of(struct kept *run, const struct whole *y) {
    struct worst w = {.rank = -1};
    int first, n = kept_find(run, y->name, &first);
    for (int k = first; k < first + n; k++) {
        const struct kept_piece *p = &run->piece[k];
        int64_t size = p->parts == 1 && box_whole_n(&p->box) == y->n ? box_n(&p->box) : 0;
        for (int64_t i = 0; i < size; i++) {
            double value = run->values[p->at + i], off = fabs(value - y->x[box_place(&p->box, i)]);
            if (isnan(off)) off = INFINITY;
            if (off > w.off) w = (struct worst){p->rank, box_place(&p->box, i), value, off};
        }
    }
    return w;
}

static void say_where(const struct worst *w, const struct whole *y, FILE *to) {
    const struct box *b = &y->box;
    int64_t stride = y->n, left = w->place;
    fprintf(to, "  worst on rank %d", w->rank);
    for (int a = 0; a < b->n_axes && y->n > 1; a++) {
        stride /= b->of[a];
        fprintf(to, "%s%" PRId64, a ? ", " : ": element (", left / stride);
        left %= stride;
    }
    fprintf(to, "%s is %.9g, and should be %.9g\n", y->n > 1 ? ")" : ": it", printed(w->value), y->x[w->place]);
}

/* *ranks: of the recording */
static enum status say_worst(const struct check *k, int *ranks, FILE *to) {
    const struct checked *c = &k->row[k->first];
    struct kept run = {0}, reference = {0};
    struct whole y;
    TRY(recording_read(&k->run, c->step, &run));
    enum status status = recording_read(&k->reference, c->step, &reference);
    if (status == OK) status = kept_whole(&reference, c->name, &y);
    else y.x = NULL;
    for (int i = 0; i < run.n; i++)
        if (run.piece[i].rank >= *ranks) *ranks = run.piece[i].rank + 1;
    if (status == OK && c->verdict != TENSOR_OF_ANOTHER_SHAPE) {
        struct worst w = worst_of(&run, &y);
        if (w.rank >= 0) say_where(&w, &y, to);
    }
    whole_fini(&y);
    kept_fini(&run);
    kept_fini(&reference);
    return status;
}

/* ---- all of it ---- */
static void say_suspects(const struct suspicion *suspect, int n, FILE *to) {
    for (int i = 0; i < n; i++)
        fprintf(to, "  suspect: %s: %s (%s)\n    to confirm: %s\n", suspect[i].id, suspect[i].what, suspect[i].detail,
                suspect[i].confirm);
    if (n == 0)
        fprintf(to, "  no signature fits; what it is made of was right when it was recorded: which rank read it, when, "
                    "and of which step?\n");
}

enum status finding_write(const struct check *k, const char *version, struct suspicion suspect[MAX_SUSPECTS], int *n,
                          FILE *to) {
    int before = 0, ranks = 1;
    say_how_far(k, to);
    TRY(say_worst(k, &ranks, to));
    for (int i = 0; i < k->first; i++) before += k->row[i].verdict == TENSOR_RIGHT;
    fprintf(to, "  before it %d tensors are right; after it %d of %d are wrong\n", before, k->n_wrong - 1,
            k->n_compared - before - 1);
    TRY(suspect_first(k, suspect, n));
    say_suspects(suspect, *n, to);
    fprintf(to, "  run: %s, %s, %d rank%s, %" PRId64 " steps; reference: %s; checked by trivium %s\n", k->run.by,
            dtype_name(k->run.dtype), ranks, ranks > 1 ? "s" : "", k->run.steps, k->reference.by, version);
    return OK;
}
