/* The solution of the exercise: see suspect_ranks.c. */
#include "oracle/suspect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

signature ranks_unsummed, ranks_unaveraged, ranks_untied, ranks_one_rank;

/* Ranks that hold the whole tensor: rank[i] holds x[i]. */
struct copies { int n, *rank; const double **x; };

static struct copies copies_of(const struct evidence *e) {
    struct copies c = {.n = 0};
    int first, n = kept_find(e->run, e->c.name, &first);
    c.rank = calloc((size_t)n + 1, sizeof *c.rank);
    c.x = calloc((size_t)n + 1, sizeof *c.x);
    for (int i = first; c.rank && c.x && i < first + n; i++) {
        const struct kept_piece *p = &e->run->piece[i];
        if (box_n(&p->box) != e->y.n || p->parts > 1) continue;
        c.rank[c.n] = p->rank;
        c.x[c.n++] = e->run->values + p->at;
    }
    return c;
}

static void copies_fini(struct copies *c) {
    free(c->rank);
    free(c->x);
}

/* Is the sum of all copies, over `divisor`, the reference's tensor? */
static bool adds_up(const struct evidence *e, const struct copies *c, double divisor) {
    double limit = e->limit * c->n;
    for (int64_t i = 0; i < e->y.n; i++) {
        double sum = 0;
        for (int r = 0; r < c->n; r++) sum += c->x[r][i];
        if (!(fabs(sum / divisor - e->y.x[i]) <= limit)) return false;
    }
    return c->n > 1;
}

static bool add_up(const struct evidence *e, bool mean, char detail[160]) {
    if (e->c.verdict != TENSOR_APART) return false;
    struct copies c = copies_of(e);
    bool fits = adds_up(e, &c, mean ? c.n : 1);
    if (fits) snprintf(detail, 160, "the %s of what the %d ranks have is right", mean ? "mean" : "sum", c.n);
    copies_fini(&c);
    return fits;
}

bool ranks_unsummed(const struct evidence *e, char detail[160]) { return add_up(e, false, detail); }
bool ranks_unaveraged(const struct evidence *e, char detail[160]) { return add_up(e, true, detail); }

/* The sum of this tensor and another one of the run is the reference's: a tied weight has become two weights. */
bool ranks_untied(const struct evidence *e, char detail[160]) {
    for (int i = 0; i < e->run->n; i++) {
        const struct kept_piece *p = &e->run->piece[i];
        const double *other = e->run->values + p->at;
        int first;
        bool fits = box_n(&p->box) == e->x.n && e->x.n > 1 && kept_find(e->reference, p->name, &first) == 0;
        for (int64_t j = 0; fits && j < e->x.n; j++) fits = fabs(e->x.x[j] + other[j] - e->y.x[j]) <= e->limit;
        if (!fits) continue;
        snprintf(detail, 160, "with %.100s, which the reference has not, it is right", p->name);
        return true;
    }
    return false;
}

bool ranks_one_rank(const struct evidence *e, char detail[160]) {
    if (e->c.verdict != TENSOR_APART) return false;
    struct copies c = copies_of(e);
    int right = 0, wrong = -1;
    for (int r = 0; r < c.n; r++)
        if (suspect_same(e, c.x[r], e->y.x, 1)) right++;
        else wrong = c.rank[r];
    bool fits = right > 0 && wrong >= 0;
    if (fits) snprintf(detail, 160, "%d of %d ranks have it right; rank %d, for one, has not", right, c.n, wrong);
    copies_fini(&c);
    return fits;
}
