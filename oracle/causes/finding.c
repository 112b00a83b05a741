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
        if (isinf(c->apart))
            fprintf(to, "  ranks %d and %d should have the same values, and one has infinity or NaN\n", c->rank,
                    c->other);
        else
            fprintf(to, "  ranks %d and %d differ by %.2g of the largest element, and should have the same values\n",
                    c->rank, c->other, c->apart);
        if (!isinf(c->apart)) say_eps(k, c->apart, to);
        break;
    case TENSOR_IN_PART: fprintf(to, "  %" PRId64 " elements are on no rank\n", c->missing); break;
    case TENSOR_OF_ANOTHER_SHAPE: break;                             /* say_shape */
    default:
        if (isinf(c->error)) {
            fprintf(to, "  it has infinity or NaN where the reference has numbers\n");
            break;
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

/* ---- another shape ---- */
static bool is_of_samples(const char *name) {
    return suspect_ends_with(name, ".act") || suspect_ends_with(name, ".act_grad");
}

/* Do two ranks have the same values? In one place, or else in two places. */
static bool have_the_same(const struct kept *run, int first, int n, bool in_one_place, int ranks[2]) {
    for (int i = first; i < first + n; i++)
        for (int j = first; j < i; j++) {
            const struct kept_piece *a = &run->piece[j], *b = &run->piece[i];
            size_t bytes = (size_t)box_n(&a->box) * sizeof *run->values;
            if (a->rank == b->rank || memcmp(a->box.n, b->box.n, sizeof a->box.n)) continue;
            if (in_one_place == !!memcmp(a->box.first, b->box.first, sizeof a->box.first)) continue;
            if (memcmp(run->values + a->at, run->values + b->at, bytes)) continue;
            ranks[0] = a->rank, ranks[1] = b->rank;
            return true;
        }
    return false;
}

/* Activations differ in their number of samples. */
static void say_samples(const struct kept *run, int first, int n, int64_t theirs, FILE *to) {
    int64_t own = run->piece[first].box.of[0];
    int rank[2];
    if (own < theirs && have_the_same(run, first, n, true, rank))
        fprintf(to, "  ranks %d and %d hold the same %" PRId64 " samples, and a step of the reference has %" PRId64
                    ": give each rank its own part of the reference's batch\n", rank[0], rank[1], own, theirs);
    else if (own > theirs && have_the_same(run, first, n, false, rank))
        fprintf(to, "  ranks %d and %d hold the same samples, and say that these are different parts of a batch of %"
                    PRId64 ": give ranks with the same samples the same share, record(share=(k, n))\n", rank[0],
                rank[1], own);
    else
        fprintf(to, "  all ranks together have %" PRId64 " samples in this step, and the reference has %" PRId64
                    ": train on the reference's batch, each rank on its own part\n", own, theirs);
}

static void say_shape(struct kept *run, const struct whole *y, FILE *to) {
    int first, n = kept_find(run, y->name, &first);
    const struct kept_piece *p = &run->piece[first];
    struct box whole = box_whole(&p->box), of_samples = whole;
    char own[BOX_TEXT_MAX], theirs[BOX_TEXT_MAX];
    fprintf(to, "  rank %d gives it another shape than the reference: %s, and not %s\n", p->rank,
            box_text(&whole, own), box_text(&y->box, theirs));
    of_samples.of[0] = of_samples.n[0] = y->box.of[0];
    if (is_of_samples(y->name) && !memcmp(&of_samples, &y->box, sizeof of_samples))
        say_samples(run, first, n, y->box.of[0], to);
}

static enum status say_worst(const struct check *k, FILE *to) {
    const struct checked *c = &k->row[k->first];
    struct kept run = {0}, reference = {0};
    struct whole y;
    TRY(recording_read(&k->run, c->step, &run));
    enum status status = recording_read(&k->reference, c->step, &reference);
    if (status == OK) status = kept_whole(&reference, c->name, &y);
    else y.x = NULL;
    if (status == OK && c->verdict == TENSOR_OF_ANOTHER_SHAPE) say_shape(&run, &y, to);
    else if (status == OK) {
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

static int count_ranks(const struct check *k) {
    struct kept all = {0};
    int most = 0;
    if (recording_read(&k->run, k->row[k->first].step, &all) == OK)
        for (int i = 0; i < all.n; i++) most = all.piece[i].rank > most ? all.piece[i].rank : most;
    kept_fini(&all);
    status_clear();
    return most + 1;
}

enum status finding_write(const struct check *k, const char *version, struct suspicion suspect[MAX_SUSPECTS], int *n,
                          FILE *to) {
    const struct checked *c = &k->row[k->first];
    int before = 0, layer = finding_layer(c->name);
    char where[32] = "";
    if (layer >= 0) snprintf(where, sizeof where, ", layer %d", layer);
    fprintf(to, "first wrong: step %" PRId64 ", %s%s: %s\n", c->step, c->phase, where, c->name);
    say_how_far(k, to);
    TRY(say_worst(k, to));
    for (int i = 0; i < k->first; i++) before += k->row[i].verdict == TENSOR_RIGHT;
    fprintf(to, "  before it %d tensors are right; after it %d of %d are wrong\n", before, k->n_wrong - 1,
            k->n_compared - before - 1);
    TRY(suspect_first(k, suspect, n));
    say_suspects(suspect, *n, to);
    int ranks = count_ranks(k);
    fprintf(to, "  run: %s, %s, %d rank%s, %" PRId64 " steps; reference: %s; checked by trivium %s\n", k->run.by,
            dtype_name(k->run.dtype), ranks, ranks > 1 ? "s" : "", k->run.steps, k->reference.by, version);
    return OK;
}
