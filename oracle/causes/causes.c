/* Causes that other tensors show: sums over other ranks than should be, gradients of the step before, targets that are
 * ignored, and the group whose number of ranks is the factor; and causes of one tensor that are no factor, order or
 * place. */
#include "oracle/causes/causes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a sum over other ranks ---- */
/* Pieces of the tensor. first_like[i]: the first piece with piece i's values, wherever they lie. A sum over a group
 * gives its members the same values, so these pieces are a class. n 0: pieces of several sizes, or summands. */
struct pieces { const struct evidence *e; const struct kept_piece *of; int n, *first_like; };

static const double *values(const struct pieces *p, int i) { return p->e->run->values + p->of[i].at; }

static bool are_alike(const struct pieces *p, int i, int j) {
    for (int64_t k = 0, n = box_n(&p->of[0].box); k < n; k++)
        if (!(fabs(values(p, i)[k] - values(p, j)[k]) <= p->e->limit)) return false;
    return true;
}

static bool are_of_one_place(const struct pieces *p, int i, int j) {
    return !memcmp(&p->of[i].box, &p->of[j].box, sizeof p->of->box);
}

static struct pieces pieces_of(const struct evidence *e) {
    int first;
    struct pieces p = {.e = e, .n = kept_find(e->run, e->c.name, &first)};
    p.of = e->run->piece + first;
    p.first_like = calloc((size_t)p.n + 1, sizeof *p.first_like);
    for (int i = 0; p.first_like && i < p.n; i++) {
        if (p.of[i].parts > 1 || box_n(&p.of[i].box) != box_n(&p.of[0].box)) p.n = 0;
        else while (p.first_like[i] < i && !are_alike(&p, p.first_like[i], i)) p.first_like[i]++;
    }
    if (!p.first_like) p.n = 0;
    return p;
}

/* Does piece i come first among those of its class, and of its place? */
static bool is_first(const struct pieces *p, int i) {
    int j = 0;
    while (!(p->first_like[j] == p->first_like[i] && are_of_one_place(p, i, j))) j++;
    return j == i;
}

/* The sum of one piece of each class at a place is `factor` times the sum of the reference over `places` places. */
struct sum { int pieces, classes, places; double factor; };

static bool is_never_summed(const struct sum *s) { return s->places == 1 && s->classes == s->pieces; }
static bool is_mean(const struct sum *s) { return fabs(s->factor / s->classes - 1) < 1e-3; }

static bool sum_at(const struct pieces *p, int at, struct sum *s) {
    int64_t n = box_n(&p->of[at].box);
    double *u = calloc((size_t)n, sizeof *u), *v = calloc((size_t)n, sizeof *v), uv = 0, vv = 0;
    *s = (struct sum){.pieces = 0};
    for (int i = 0; u && v && i < p->n; i++) {
        bool here = are_of_one_place(p, i, at), in_class = p->first_like[i] == p->first_like[at];
        s->pieces += here;
        if (!is_first(p, i)) continue;
        s->classes += here, s->places += in_class;
        for (int64_t k = 0; k < n; k++) {
            if (here) u[k] += values(p, i)[k];
            if (in_class) v[k] += p->e->y.x[box_place(&p->of[i].box, k)];
        }
    }
    for (int64_t k = 0; u && v && k < n; k++) uv += u[k] * v[k], vv += v[k] * v[k];
    s->factor = vv > 0 ? uv / vv : 0;
    if (fabs(s->factor - 1) < 1e-3) s->factor = 1;
    if (is_mean(s)) s->factor = s->classes;
    double limit = p->e->limit * (s->classes + s->places) * fmax(1, fabs(s->factor));
    bool plain = s->factor == 1 || s->factor == s->classes;     /* two numbers always have a factor */
    bool fits = s->classes * s->places > 1 && s->factor != 0 && (n > 1 || plain);
    for (int64_t k = 0; fits && k < n; k++) fits = fabs(u[k] - s->factor * v[k]) <= limit;
    free(u);
    free(v);
    return fits;
}

/* One sum explains the pieces of all places. */
static bool sum_of(const struct evidence *e, struct sum *s) {
    struct pieces p = pieces_of(e);
    bool fits = p.n > 1;
    for (int i = 0; fits && i < p.n; i++)
        if (is_first(&p, i)) fits = sum_at(&p, i, s);
    free(p.first_like);
    return fits;
}

/* Ranks have the same values, so they were summed, but those are other ranks than should have been. */
bool suspect_group(const struct evidence *e, char detail[160]) {
    struct sum s = {.pieces = 0};
    if (!sum_of(e, &s) || is_never_summed(&s)) return false;
    char times[32] = "";
    if (fabs(s.factor - 1) > 1e-3) snprintf(times, sizeof times, "%.4g times ", s.factor);
    if (s.places == 1 && is_mean(&s))
        snprintf(detail, 160, "%d ranks have %d values of it, and the mean of these is right", s.pieces, s.classes);
    else if (s.places == 1)
        snprintf(detail, 160, "%d ranks have %d values of it, and their sum is %sthe right one", s.pieces, s.classes,
                 times);
    else
        snprintf(detail, 160, "ranks have the same values for %d different parts; %s %sthe sum of the right parts",
                 s.places, s.classes > 1 ? "the sum of those of one part is" : "these are", times);
    return true;
}

/* At each place each rank has values of its own, whose sum or mean is right. */
static bool never_summed(const struct evidence *e, bool mean, char detail[160]) {
    struct sum s = {.pieces = 0};
    if (e->c.verdict != TENSOR_APART || !sum_of(e, &s) || !is_never_summed(&s)) return false;
    if (mean ? !is_mean(&s) : s.factor != 1) return false;
    snprintf(detail, 160, "the %s of what the %d ranks have is right", mean ? "mean" : "sum", s.pieces);
    return true;
}

bool suspect_unsummed(const struct evidence *e, char detail[160]) { return never_summed(e, false, detail); }
bool suspect_unaveraged(const struct evidence *e, char detail[160]) { return never_summed(e, true, detail); }

/* ---- targets that are ignored ---- */
/* Each microbatch of each rank has its mean loss, loss_parts (n), and its numbers of targets that are not ignored, and
 * of all: targets (n, 2). */
double suspect_share_of_targets(const struct evidence *e) {
    struct whole t;
    double valid = 0, all = 0;
    bool there = kept_sibling(e->run, "targets", NULL, &t);
    for (int64_t i = 0; there && i + 1 < t.n; i += 2) valid += t.x[i], all += t.x[i + 1];
    whole_fini(&t);
    return all > 0 ? valid / all : 1;
}

/* If the means are weighted by the numbers of their targets, is the loss right? */
bool suspect_mean_of_means(const struct evidence *e, char detail[160]) {
    struct whole means = {.x = NULL}, targets = means;
    double sum = 0, n = 0;
    bool there = !strcmp(e->c.name, "loss") && kept_sibling(e->run, "loss_parts", NULL, &means) &&
                 kept_sibling(e->run, "targets", NULL, &targets) && targets.n == 2 * means.n && means.n > 1;
    for (int64_t i = 0; there && i < means.n; i++) sum += targets.x[2 * i] * means.x[i], n += targets.x[2 * i];
    bool fits = there && fabs(sum / n - e->y.x[0]) <= e->limit;
    if (fits)
        snprintf(detail, 160, "it is the mean of %d means, which are of %.0f and other numbers of targets; weighted by "
                 "these it is right", (int)means.n, targets.x[0]);
    whole_fini(&means);
    whole_fini(&targets);
    return fits;
}

/* ---- what a factor is the number of ---- */
static bool is_factor(double a, double factor) { return factor != 1 && fabs(a / factor - 1) < 1e-3; }

/* A group of some of the ranks. */
static void name_group(const struct evidence *e, double a, char name[96]) {
    double n = e->ranks;
    for (int i = 0; e->calls && i < e->calls->n_groups && !name[0]; i++) {
        const struct call_group *g = &e->calls->group[i];
        int label = (int)strcspn(g->label, " ");
        if (g->n_members == n) continue;
        if (is_factor(a, g->n_members / n))
            snprintf(name, 96, "%d by %.0f: divided by all ranks, and not by those of %.*s?", g->n_members, n, label,
                     g->label);
        else if (is_factor(a, g->n_members) || is_factor(a, 1.0 / g->n_members))
            snprintf(name, 96, "%sthe number of ranks of %.*s", a < 1 ? "one by " : "", label, g->label);
    }
}

void suspect_name_factor(const struct evidence *e, double a, char name[96]) {
    double n = e->ranks, c = e->clip_factor;
    bool is_norm = !strcmp(e->c.name, "grad_norm");                  /* squares that are counted n times */
    const struct { double factor; const char *name; } NAMED[] = {
        {n, "the number of ranks"}, {1 / n, "one by the number of ranks"}, {sqrt(n), "the root of the number of ranks"},
        {1 / sqrt(n), "one by the root of the number of ranks"}, {c, "the factor of clipping"},
        {1 / c, "one by the factor of clipping"},
        {suspect_share_of_targets(e), "the share of targets that are not ignored: padding is counted in the mean"}};
    name[0] = '\0';
    if (!is_norm) name_group(e, a, name);
    for (size_t i = 0; i < sizeof NAMED / sizeof *NAMED && !name[0]; i++)
        if (is_factor(a, NAMED[i].factor)) snprintf(name, 96, "%s", NAMED[i].name);
    if (!name[0]) name_group(e, a, name);
    const char *plain = is_factor(a, 2) ? "doubled" : is_factor(a, 0.5) ? "halved" : is_factor(a, -1) ? "its sign" : "";
    if (!name[0]) snprintf(name, 96, "%s", plain);
}

/* Logits that all ranks have, in a softmax that takes them for parts of the vocabulary: n times the sum, and log n. */
bool suspect_counted_logits(const struct evidence *e, char detail[160]) {
    int of[3] = {e->ranks, 0, 0}, n = 1;
    if (strcmp(e->c.name, "loss") != 0 || e->x.n != 1 || !(e->limit < 0.01)) return false;
    for (int i = 0; e->calls && i < e->calls->n_groups && n < 3; i++) of[n++] = e->calls->group[i].n_members;
    for (int i = 0; i < n; i++)
        if (of[i] > 1 && fabs(e->x.x[0] - e->y.x[0] - log(of[i])) <= e->limit) {
            snprintf(detail, 160, "it is too large by %.6g, the logarithm of %d", log(of[i]), of[i]);
            return true;
        }
    return false;
}

/* ---- gradients of the step before ---- */
/* Is x = y + a b, for the gradient b of the step before? a: 1, or by how much that was clipped. */
bool suspect_accumulated(const struct evidence *e, char detail[160]) {
    struct whole b;
    double ub = 0, bb = 0, most = 0;
    if (!suspect_ends_with(e->c.name, ".grad") || !e->last) return false;
    bool fits = kept_sibling(e->last, e->c.name, NULL, &b) && b.n == e->y.n;
    for (int64_t i = 0; fits && i < b.n; i++) ub += (e->x.x[i] - e->y.x[i]) * b.x[i], bb += b.x[i] * b.x[i];
    double a = bb > 0 ? ub / bb : 0;
    for (int64_t i = 0; fits && i < b.n; i++) {
        fits = fabs(e->x.x[i] - e->y.x[i] - a * b.x[i]) <= e->limit;
        most = fmax(most, fabs(a * b.x[i]));
    }
    fits = fits && most > 2 * e->limit && b.n > 1;
    if (fits) snprintf(detail, 160, "%.4g times the gradient of step %d is in it", a, (int)e->c.step - 1);
    whole_fini(&b);
    return fits;
}

/* ---- another beta ---- */
/* A first moment of step 1 is (1 - beta1) g. All gradients before it are right, so a factor is one of 1 - beta. */
bool suspect_betas(const struct evidence *e, char detail[160]) {
    static const double BETAS[] = {0, 0.85, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999};
    int which = suspect_ends_with(e->c.name, ".moment1") ? 0 : suspect_ends_with(e->c.name, ".moment2") ? 1 : -1;
    double factor;
    if (which < 0 || e->c.step != 1 || e->c.verdict == TENSOR_APART || !suspect_factor(e, NULL, &factor)) return false;
    double beta = json_number_value(json_array_get(json_object_get(e->adamw, "betas"), (size_t)which));
    for (size_t i = 0; i < sizeof BETAS / sizeof *BETAS; i++) {
        if (fabs((1 - BETAS[i]) / (factor * (1 - beta)) - 1) > 1e-3) continue;
        snprintf(detail, 160, "beta%d is %.4g, and not %.4g", which + 1, BETAS[i], beta);
        return true;
    }
    return false;
}

/* ---- a norm of own parts ---- */
bool suspect_own_norms(const struct evidence *e, char detail[160]) {
    int first, n = kept_find(e->run, e->c.name, &first);
    double squares = 0;
    if (strcmp(e->c.name, "grad_norm") || e->c.verdict != TENSOR_APART) return false;
    for (int i = first; i < first + n; i++) squares += pow(e->run->values[e->run->piece[i].at], 2);
    snprintf(detail, 160, "the root of the sum of the squares of what the %d ranks have is right", n);
    return fabs(sqrt(squares) - e->y.x[0]) <= e->limit;
}

/* ---- scores ---- */
/* Position 0 sees only itself, so its attention is right whatever the scores are. */
bool suspect_scores(const struct evidence *e, char detail[160]) {
    int64_t T = e->y.box.n_axes == 3 ? e->y.box.of[1] : 0, C = e->y.box.of[e->y.box.n_axes - 1], n_wrong = 0;
    bool *wrong = calloc((size_t)T + 1, sizeof *wrong);
    for (int64_t i = 0; wrong && T && i < e->y.n; i++)
        if (!(fabs(e->x.x[i] - e->y.x[i]) <= e->limit)) wrong[i / C % T] = true;
    for (int64_t t = 1; wrong && t < T; t++) n_wrong += wrong[t];
    bool fits = wrong && T > 2 && suspect_ends_with(e->c.name, ".act") && !wrong[0] && n_wrong == T - 1 &&
                suspect_is_part(e, 1, 1, T);
    if (fits) snprintf(detail, 160, "position 0, which sees only itself, is right, and all others are wrong");
    free(wrong);
    return fits;
}

/* ---- rows that are not masked ---- */
/* n ranks have the rows of a matrix P, and each gives its first row for tokens that others have. So a token whose row
 * rank k has gets too much: the first rows of all but k. */
static bool is_not_masked(const struct evidence *e, const struct whole *P, int64_t n) {
    int64_t C = P->box.of[1], part = P->box.of[0] / n, most = 0;
    for (int64_t t = 0; t < e->y.n / C; t++) {
        int64_t k = 0;
        for (bool fits = false; k < n && !fits; k += !fits) {
            fits = true;
            for (int64_t j = 0; j < C && fits; j++) {
                double more = 0;
                for (int64_t r = 0; r < n; r++) more += r == k ? 0 : P->x[r * part * C + j];
                double off = e->x.x[t * C + j] - e->y.x[t * C + j];
                fits = fabs(off - more) <= n * e->limit;
                if (fabs(more) > 2 * n * e->limit) most = 1;
            }
        }
        if (k == n) return false;
    }
    return most;
}

bool suspect_unmasked_rows(const struct evidence *e, char detail[160]) {
    if (!suspect_ends_with(e->c.name, ".act") || e->y.box.n_axes < 2 || !e->last) return false;
    for (int i = 0; i < e->last->n; i++) {
        const struct kept_piece *p = &e->last->piece[i];
        struct whole P;
        if (!suspect_ends_with(p->name, ".param") || p->box.n_axes != 2) continue;
        if (p->box.of[1] != e->y.box.of[e->y.box.n_axes - 1] || !kept_sibling(e->last, p->name, NULL, &P)) continue;
        int64_t n = 2;
        while (n <= e->ranks && !(P.box.of[0] % n == 0 && is_not_masked(e, &P, n))) n++;
        if (n <= e->ranks) snprintf(detail, 160, "each of %d ranks gives its first row of %.80s", (int)n, P.name);
        whole_fini(&P);
        if (n <= e->ranks) return true;
    }
    return false;
}
