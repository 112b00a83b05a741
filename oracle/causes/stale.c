/* Weights of the step before, found in a wrong activation.
 *
 * Which weights make an activation is found in the reference. It is one of these forms, y = f(P) + Q, for a matrix or
 * gain P, and Q of a bias, or of positions, or 0:
 *
 *   rows       f(P)[t] = P[r]           an embedding; r is the row that gives the reference's y
 *   product    f(P)[t] = a[t] P         a linear layer; a is another recorded activation, P is (in, out) or (out, in)
 *   gain       f(P)[t] = h[t] P         a norm; h = (y - Q) / P
 *
 * With the weights of the step before, it gives what a stale forward pass has. A rank may have a part of the weights
 * new, its own shard, and the rest stale: so of each element P, Q, both or none may be stale. */
#include "oracle/causes/causes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A weight before this step, and a step earlier. x NULL: none. */
struct weight { struct whole now, old; };

/* of_p: [y.n] what P adds to each element of y if it is stale. */
struct form { const struct evidence *e; struct weight p, q; int64_t width; double *of_p; };

static bool read_weight(const struct evidence *e, const char *name, const char *suffix, struct weight *w) {
    *w = (struct weight){.now = {.x = NULL}};
    return kept_sibling(e->last, name, suffix, &w->now) && kept_sibling(e->older, name, suffix, &w->old) &&
           w->now.n == w->old.n;
}

static void weight_fini(struct weight *w) {
    whole_fini(&w->now);
    whole_fini(&w->old);
}

/* Q's element for element i: of a bias (width), or of positions (T, width), where row t is of position t mod T. */
static int64_t place_of_q(const struct form *f, int64_t i) {
    int64_t T = f->e->y.box.n_axes > 1 ? f->e->y.box.of[1] : 1;
    return f->q.now.n == f->width ? i % f->width : i % (T * f->width);
}
static double q_of(const struct form *f, int64_t i) { return f->q.now.x ? f->q.now.x[place_of_q(f, i)] : 0; }

/* ---- the forms: do they make the reference's values? of_p is then set ---- */
static bool is_row(const struct form *f, int64_t t, const double *row) {
    for (int64_t j = 0; j < f->width; j++) {
        int64_t i = t * f->width + j;
        if (!(fabs(f->e->y.x[i] - q_of(f, i) - row[j]) <= f->e->limit)) return false;
    }
    return true;
}

static bool makes_rows(struct form *f) {
    int64_t C = f->width, n = f->p.now.n / C;
    for (int64_t t = 0; t < f->e->y.n / C; t++) {
        int64_t r = 0;
        while (r < n && !is_row(f, t, f->p.now.x + r * C)) r++;
        if (r == n) return false;
        for (int64_t j = 0; j < C; j++) f->of_p[t * C + j] = f->p.old.x[r * C + j] - f->p.now.x[r * C + j];
    }
    return true;
}

static bool makes_gain(struct form *f) {
    for (int64_t i = 0; i < f->e->y.n; i++) {
        double now = f->p.now.x[i % f->width], old = f->p.old.x[i % f->width];
        if (now == 0) return false;
        f->of_p[i] = (f->e->y.x[i] - q_of(f, i)) / now * (old - now);
    }
    return true;
}

static double product(const double *a, const struct whole *p, int64_t n_in, int64_t n_out, int64_t j, bool turned) {
    double sum = 0;
    for (int64_t k = 0; k < n_in; k++) sum += a[k] * p->x[turned ? j * n_in + k : k * n_out + j];
    return sum;
}

static bool makes_product(struct form *f, const struct whole *a, bool turned) {
    int64_t C = f->width, rows = f->e->y.n / C, n_in = f->p.now.n / C;
    if (a->n != rows * n_in || f->p.now.box.of[!turned] != C) return false;
    for (int64_t i = 0; i < f->e->y.n; i++) {
        const double *row = a->x + i / C * n_in;
        double now = product(row, &f->p.now, n_in, C, i % C, turned);
        if (!(fabs(now + q_of(f, i) - f->e->y.x[i]) <= f->e->limit)) return false;
        f->of_p[i] = product(row, &f->p.old, n_in, C, i % C, turned) - now;
    }
    return true;
}

/* ---- is the run's tensor made of stale weights? ---- */
/* Differences near the limit would fit any small change, so 99% of their squares must be explained. */
static bool is_stale(struct form *f) {
    const struct evidence *e = f->e;
    double squares = 0, left = 0;
    for (int64_t i = 0; i < e->y.n; i++) {
        double off = e->x.x[i] - e->y.x[i], p = f->of_p[i];
        double q = f->q.now.x ? f->q.old.x[place_of_q(f, i)] - f->q.now.x[place_of_q(f, i)] : 0;
        double nearest = fmin(fmin(fabs(off - p), fabs(off - q)), fabs(off - p - q));
        if (!(fabs(off) <= e->limit) && !(nearest <= e->limit)) return false;
        squares += off * off, left += fmin(nearest * nearest, off * off);
    }
    return left < 0.01 * squares;
}

static bool is_stale_product(struct form *f) {
    bool found = false;
    for (int i = 0; i < f->e->reference->n && !found; i++) {
        struct whole a;
        const char *name = f->e->reference->piece[i].name;
        if (!suspect_ends_with(name, ".act") || !strcmp(name, f->e->c.name)) continue;
        if (i && !strcmp(name, f->e->reference->piece[i - 1].name)) continue;
        if (kept_sibling(f->e->reference, name, NULL, &a))
            found = (makes_product(f, &a, false) || makes_product(f, &a, true)) && is_stale(f);
        whole_fini(&a);
    }
    return found;
}

/* The module's own weight and bias. */
static bool has_stale_module(struct form *f) {
    bool found = false;
    if (read_weight(f->e, f->e->c.name, ".weight.param", &f->p)) {
        if (!read_weight(f->e, f->e->c.name, ".bias.param", &f->q) || f->q.now.n != f->width) weight_fini(&f->q);
        int n_axes = f->p.now.box.n_axes;
        if (n_axes == 1 && f->p.now.n == f->width) found = makes_gain(f) && is_stale(f);
        if (n_axes == 2) found = is_stale_product(f);
        weight_fini(&f->q);
    }
    if (!found) weight_fini(&f->p);
    return found;
}

static bool is_matrix(const struct form *f, const struct kept_piece *p) {
    return suspect_ends_with(p->name, ".param") && p->box.n_axes == 2 && p->box.of[1] == f->width;
}

/* Any matrix of rows, and any of positions or none. */
static bool has_stale_rows(struct form *f) {
    const struct kept *k = f->e->last;
    bool found = false;
    for (int i = 0; i < k->n && !found; i++)
        for (int j = -1; j < k->n && !found; j++) {
            if (!is_matrix(f, &k->piece[i]) || i == j || (j >= 0 && !is_matrix(f, &k->piece[j]))) continue;
            if (j >= 0 && k->piece[j].box.of[0] < f->e->y.box.of[1]) continue;
            found = read_weight(f->e, k->piece[i].name, NULL, &f->p) &&
                    (j < 0 || read_weight(f->e, k->piece[j].name, NULL, &f->q)) && makes_rows(f) && is_stale(f);
            weight_fini(&f->q);
            if (!found) weight_fini(&f->p);
        }
    return found;
}

bool suspect_stale_weights(const struct evidence *e, char detail[160]) {
    struct form f = {.e = e, .width = e->y.box.of[e->y.box.n_axes - 1]};
    if (!suspect_ends_with(e->c.name, ".act") || e->y.box.n_axes < 2 || !e->last || !e->older) return false;
    f.of_p = calloc((size_t)e->y.n, sizeof *f.of_p);
    bool found = f.of_p && (has_stale_module(&f) || has_stale_rows(&f));
    if (found) snprintf(detail, 160, "each wrong element is what %.100s gives as it was a step before", f.p.now.name);
    free(f.of_p);
    weight_fini(&f.p);
    return found;
}
