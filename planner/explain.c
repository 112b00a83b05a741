#include "planner/explain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- ties ---- */
static int by_memory(const void *a, const void *b) {
    const struct found *x = a, *y = b;
    return (x->price.total_bytes > y->price.total_bytes) - (x->price.total_bytes < y->price.total_bytes);
}
static int by_step(const void *a, const void *b) {
    const struct found *x = a, *y = b;
    return (x->price.step_s > y->price.step_s) - (x->price.step_s < y->price.step_s);
}

int explain_order(struct search *s) {
    int tied = 0;
    qsort(s->best, (size_t)s->n_best, sizeof *s->best, by_step);
    while (tied < s->n_best && s->best[tied].price.step_s <= (1 + MODEL_ERROR) * s->best[0].price.step_s) tied++;
    qsort(s->best, (size_t)tied, sizeof *s->best, by_memory);
    return tied;
}

/* ---- tipping points ---- */
/* A cluster with one of its numbers multiplied by `times`. */
static struct cluster changed(const struct cluster *c, enum assumption what, double times) {
    struct cluster out = *c;
    if (what == ASSUME_WIRE) out.level[c->n_levels - 1].bytes_per_s *= times;
    else out.product_part = fmin(1, c->product_part * times);
    return out;
}

enum { N_FACTORS = 4, N_CHANGES = ASSUME_RESERVE };   /* wire and products */
static const double FACTORS[N_FACTORS] = {0.25, 0.5, 2, 4};

struct explaining {
    const struct recipe *recipe;
    const struct plan *asked;
    unsigned fixed;
    const struct cluster *cluster;
    const struct found **kept;                       /* [n]: the shortest first */
    double (*step_s)[N_CHANGES][N_FACTORS];          /* [n] */
    int n;
    struct price *prices;                            /* [N_CHANGES N_FACTORS] */
};

static bool is_new(const struct explaining *e, const struct found *f) {
    for (int i = 0; i < e->n; i++)
        if (!memcmp(&e->kept[i]->layout, &f->layout, sizeof f->layout)) return false;
    return f->price.fits;
}

static void collect(struct explaining *e, const struct search *s) {
    for (int i = 0; i < s->n_best; i++) {
        if (is_new(e, &s->best[i])) e->kept[e->n++] = &s->best[i];
        if (e->kept[e->n - 1]->price.step_s < e->kept[0]->price.step_s) {
            const struct found *first = e->kept[0];
            e->kept[0] = e->kept[e->n - 1], e->kept[e->n - 1] = first;
        }
    }
    for (int i = 0; i < s->n_families; i++)
        if (is_new(e, &s->families[i].best)) e->kept[e->n++] = &s->families[i].best;
}

static enum status price_on(const struct explaining *e, int i, const struct cluster *clusters, int n) {
    struct plan p;
    if (!layout_settle(e->recipe, &e->kept[i]->layout, e->fixed, e->asked, &p))
        return FAIL(E_INTERNAL, "a layout that was priced cannot be any more");
    const struct price_wish wish = {.uneven = e->kept[i]->layout.split[0] != 0, .only_the_step = true};
    return price_plan_on(e->recipe, &p, clusters, n, &wish, e->prices);
}

static enum status price_changes(struct explaining *e) {
    struct cluster clusters[N_CHANGES * N_FACTORS];
    for (int what = 0; what < N_CHANGES; what++)
        for (int k = 0; k < N_FACTORS; k++)
            clusters[what * N_FACTORS + k] = changed(e->cluster, (enum assumption)what, FACTORS[k]);
    for (int i = 0; i < e->n; i++) {
        TRY(price_on(e, i, clusters, N_CHANGES * N_FACTORS));
        for (int what = 0; what < N_CHANGES; what++)
            for (int k = 0; k < N_FACTORS; k++) e->step_s[i][what][k] = e->prices[what * N_FACTORS + k].step_s;
    }
    return OK;
}

static int winner(const struct explaining *e, int what, int k) {
    int best = 0;
    for (int i = 1; i < e->n; i++)
        if (e->step_s[i][what][k] < e->step_s[best][what][k]) best = i;
    return best;
}

/* Find where, between 1 and `factor`, layout `other` overtakes the first: by halving, on a logarithmic scale. */
static enum status overtakes(const struct explaining *e, enum assumption what, int other, double factor, double *out) {
    double near = 1, far = factor;
    for (int round = 0; round < 7; round++) {
        double middle = sqrt(near * far), first;
        const struct cluster c = changed(e->cluster, what, middle);
        TRY(price_on(e, 0, &c, 1));
        first = e->prices[0].step_s;
        TRY(price_on(e, other, &c, 1));
        if (e->prices[0].step_s < first) far = middle;
        else near = middle;
    }
    *out = far;
    return OK;
}

/* The nearest factor at which another layout wins, in either direction. */
static enum status tip(const struct explaining *e, enum assumption what, struct tipping *out) {
    static const int BY_DISTANCE[N_FACTORS] = {1, 2, 0, 3};
    for (int i = 0; i < N_FACTORS && out->beyond == 0; i++) {
        int k = BY_DISTANCE[i], other = winner(e, what, k);
        double factor;
        if (other == 0) continue;
        TRY(overtakes(e, what, other, FACTORS[k], &factor));
        out->beyond = out->now * factor, out->other = e->kept[other]->layout;
        if (what == ASSUME_PRODUCTS && out->beyond > 1) out->beyond = 0;   /* no product exceeds the peak */
    }
    return OK;
}

/* The fastest layout that needs less memory than the winner. */
static void tip_reserve(const struct explaining *e, struct tipping *out) {
    int other = -1;
    for (int i = 1; i < e->n; i++) {
        if (e->kept[i]->price.total_bytes >= e->kept[0]->price.total_bytes) continue;
        if (other < 0 || e->kept[i]->price.step_s < e->kept[other]->price.step_s) other = i;
    }
    if (other < 0) return;
    out->beyond = (double)(e->cluster->memory_bytes - e->kept[0]->price.total_bytes);
    out->other = e->kept[other]->layout;
}

static enum status explain(struct explaining *e, const struct search *s, struct tipping *out) {
    collect(e, s);
    TRY(price_changes(e));
    TRY(tip(e, ASSUME_WIRE, &out[ASSUME_WIRE]));
    TRY(tip(e, ASSUME_PRODUCTS, &out[ASSUME_PRODUCTS]));
    tip_reserve(e, &out[ASSUME_RESERVE]);
    return OK;
}

enum status explain_tipping(const struct recipe *recipe, const struct plan *asked, unsigned fixed,
                            const struct cluster *c, const struct search *s, struct tipping out[N_ASSUMPTIONS]) {
    size_t most = (size_t)(s->n_best + s->n_families);
    struct explaining e = {recipe, asked, fixed, c, calloc(most, sizeof *e.kept), calloc(most, sizeof *e.step_s), 0,
                           calloc(N_CHANGES * N_FACTORS, sizeof *e.prices)};
    const double now[N_ASSUMPTIONS] = {c->level[c->n_levels - 1].bytes_per_s, c->product_part,
                                       (double)c->reserve_bytes};
    for (int i = 0; i < N_ASSUMPTIONS; i++) out[i] = (struct tipping){.now = now[i]};
    enum status status = e.kept && e.step_s && e.prices ? OK : FAIL(E_MEMORY, "no memory to explain %zu layouts", most);
    if (status == OK && s->n_best > 0) status = explain(&e, s, out);
    free(e.kept);
    free(e.step_s);
    free(e.prices);
    return status;
}
