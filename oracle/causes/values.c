/* Causes that the wrong values show next to the right ones of other places, precisions and steps. */
#include "oracle/causes/causes.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_wrong(const struct evidence *e, int64_t i) { return !(fabs(e->x.x[i] - e->y.x[i]) <= e->limit); }
static bool is_act(const struct evidence *e) {
    return suspect_ends_with(e->c.name, ".act") && e->y.box.n_axes > 1 && e->c.verdict != TENSOR_APART;
}

/* ---- samples ---- */
enum { FEWEST = 8 };        /* fewer wrong elements may agree with another sample by chance */

/* The sample of the reference that has what sample i of the run has where it is wrong; -1: none. */
static int64_t sample_like(const struct evidence *e, int64_t i) {
    int64_t n = e->y.box.of[0], width = e->y.n / n, j = 0;
    for (; j < n; j++) {
        int64_t k = 0;
        const double *x = e->x.x + i * width, *y = e->y.x + j * width;
        while (k < width && (!is_wrong(e, i * width + k) || fabs(x[k] - y[k]) <= e->limit)) k++;
        if (k == width && j != i) return j;
    }
    return -1;
}

/* (samples, ...): each sample that is wrong has what another one should have. */
bool suspect_other_samples(const struct evidence *e, char detail[160]) {
    int64_t n = e->y.box.of[0], width = e->y.n / n, first = -1, like = -1;
    for (int64_t i = 0; is_act(e) && i < n; i++) {
        int64_t wrong = 0;
        for (int64_t k = 0; k < width; k++) wrong += is_wrong(e, i * width + k);
        int64_t other = wrong >= FEWEST ? sample_like(e, i) : -1;
        if (wrong && other < 0) return false;
        if (wrong && first < 0) first = i, like = other;
    }
    if (first < 0) return false;
    snprintf(detail, 160, "where sample %" PRId64 " is wrong, it has what sample %" PRId64 " should have", first, like);
    return true;
}

/* ---- precision ---- */
static bool is_bf16(double x) {
    int exponent;
    double m = 256 * frexp(x, &exponent);
    return m == rint(m);
}

/* In a run of fp32 or fp64 all values are bf16's, near the right ones. */
bool suspect_rounded(const struct evidence *e, char detail[160]) {
    int64_t different = 0;
    double far = 0;
    for (int64_t i = 0; i < e->y.n; i++) far = fmax(far, fabs(e->y.x[i]) / 64);
    for (int64_t i = 0; i < e->y.n; i++) {
        if (!is_bf16(e->x.x[i]) || !(fabs(e->x.x[i] - e->y.x[i]) <= far)) return false;
        different += e->x.x[i] != e->x.x[0];
    }
    if (different < 16 || dtype_size(e->dtype) < 4) return false;
    snprintf(detail, 160, "all elements are numbers of bf16, in a run of %s", dtype_name(e->dtype));
    return true;
}

/* ---- tokens ---- */
/* x = a y for each token, with an a of its own, as a norm's divisor would make it. */
bool suspect_by_token(const struct evidence *e, char detail[160]) {
    int64_t width = e->y.box.of[e->y.box.n_axes - 1];
    double least = INFINITY, most = -INFINITY;
    if (!is_act(e) || width < FEWEST) return false;
    for (int64_t t = 0; t < e->y.n; t += width) {
        const double *x = e->x.x + t, *y = e->y.x + t;
        double xy = 0, yy = 0;
        for (int64_t k = 0; k < width; k++) xy += x[k] * y[k], yy += y[k] * y[k];
        double a = yy > 0 ? xy / yy : 0;
        for (int64_t k = 0; k < width; k++)
            if (!(fabs(x[k] - a * y[k]) <= e->limit * fmax(1, fabs(a)))) return false;
        least = fmin(least, a), most = fmax(most, a);
    }
    if (!(most - least > 1e-4 * fabs(most))) return false;
    snprintf(detail, 160, "the factors are from %.6g to %.6g", least, most);
    return true;
}

/* ---- steps ---- */
static double number(const struct evidence *e, const char *key, int64_t i) {
    return json_number_value(json_array_get(json_object_get(e->adamw, key), (size_t)i));
}

/* A moment of this step's gradient alone. */
bool suspect_begun_again(const struct evidence *e, char detail[160]) {
    struct whole g = {.x = NULL};
    bool second = suspect_ends_with(e->c.name, ".moment2"), moment = second || suspect_ends_with(e->c.name, ".moment1");
    double beta = number(e, "betas", second);
    bool fits = moment && e->c.step > 1 && kept_sibling(e->reference, e->c.name, ".grad", &g) && g.n == e->y.n;
    for (int64_t i = 0; fits && i < g.n; i++) {
        double clipped = e->clip_factor * g.x[i];
        fits = fabs(e->x.x[i] - (1 - beta) * (second ? clipped * clipped : clipped)) <= e->limit;
    }
    if (fits) snprintf(detail, 160, "it has this step's gradient, and nothing of the steps before");
    whole_fini(&g);
    return fits;
}

/* The learning rate of the step before, or of the next. A script's reference has no list of rates. */
bool suspect_other_step(const struct evidence *e, char detail[160]) {
    struct whole old;
    if (strcmp(e->c.name, "lr")) return false;
    for (int64_t by = -1; by <= 1; by += 2) {
        double rate = number(e, "lr", e->c.step - 1 + by);
        if (by < 0 && kept_sibling(e->last, "lr", NULL, &old)) rate = old.x[0], whole_fini(&old);
        if (!(fabs(rate / e->x.x[0] - 1) <= 1e-6)) continue;
        snprintf(detail, 160, "it is that of the %s", by < 0 ? "step before" : "next step");
        return true;
    }
    return false;
}

/* ---- the norm ---- */
/* A family: all gradients whose names begin alike, with "*" for each number, or without: layers.*.mlp.experts. */
static bool is_in_family(const char *name, const char *family) {
    for (; *family && *name; family++) {
        if (*family != '*' || !isdigit((unsigned char)*name)) {
            if (*family != *name++) return false;
        } else
            while (isdigit((unsigned char)*name)) name++;
    }
    return !*family && (!*name || *name == '.');
}

static double squares_of_family(const struct evidence *e, const char *family) {
    double sum = 0;
    for (int i = 0; i < e->reference->n; i++) {
        const struct kept_piece *p = &e->reference->piece[i];
        const double *x = e->reference->values + p->at;
        if (!suspect_ends_with(p->name, ".grad") || !is_in_family(p->name, family)) continue;
        for (int64_t k = 0; k < box_n(&p->box); k++) sum += x[k] * x[k];
    }
    return sum;
}

/* "*" for each number between dots. */
static void mask(const char *name, char *out) {
    for (char *begin = out; *name; name++) {
        bool number = isdigit((unsigned char)*name) && out > begin && out[-1] == '.';
        *out++ = number ? '*' : *name;
        while (number && isdigit((unsigned char)name[1])) name++;
    }
    *out = '\0';
}

/* Is gradient i the first of its family? */
static bool is_first(const struct evidence *e, int i, const char *family) {
    for (int j = 0; j < i; j++) {
        const char *name = e->reference->piece[j].name;
        if (suspect_ends_with(name, ".grad") && is_in_family(name, family)) return false;
    }
    return true;
}

/* The norm leaves out, or counts again, a family of gradient i. */
static bool miscounts(const struct evidence *e, int i, char *family, char detail[160]) {
    for (char *dot = strrchr(family, '.'); dot; dot = strrchr(family, '.')) {
        *dot = '\0';
        if (!is_first(e, i, family)) continue;
        double squares = squares_of_family(e, family), times = suspect_times_counted(e, squares);
        if (isnan(times) || squares < 2000 * fabs(e->y.x[0]) * e->limit) continue;
        suspect_say_times(times, family, detail);
        return true;
    }
    return false;
}

bool suspect_norm_of_family(const struct evidence *e, char detail[160]) {
    char plain[sizeof e->reference->piece->name], masked[sizeof plain];
    bool is_norm = !strcmp(e->c.name, "grad_norm") && e->c.verdict != TENSOR_APART;
    if (!is_norm || suspect_norm_counts(e, detail)) return false;
    for (int i = 0; i < e->reference->n; i++) {
        const char *name = e->reference->piece[i].name;
        if (!suspect_ends_with(name, ".grad")) continue;
        snprintf(plain, sizeof plain, "%s", name);
        mask(name, masked);
        if (miscounts(e, i, plain, detail) || miscounts(e, i, masked, detail)) return true;
    }
    return false;
}

/* ---- weights of the step before ----
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
