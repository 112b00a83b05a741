/* Signs that rounding decides.
 *
 * AdamW moves a weight by lr u, u = m' / (sqrt(v') + eps), where m' and v' are the corrected moments. In the first step
 * u is the sign of the gradient; later |u| stays near 1. If m is off by up to d, the error that rounding explains in
 * the first moment (check.h), u is off by about 2 |u| d / |m|; if d > |m| the sign is open, and u is off by up to 2.
 * So after n steps an element may be off by
 *
 *   sum over steps of  lr min(2, 2 max(1, |u|) d / |m|)
 *
 * An element whose gradients were all exactly zero (a token that never occurs) has no open sign. */
#include "oracle/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct slack { char name[PUBLISHED_NAME_MAX + 16]; double *x; int64_t n; struct slack *next; };

static struct slack *slack_of(struct check *k, const char *name, int64_t n) {
    struct slack *s = k->slack;
    while (s && strcmp(s->name, name)) s = s->next;
    if (s) return s->n == n ? s : NULL;
    s = calloc(1, sizeof *s);
    if (!s) return NULL;
    *s = (struct slack){.x = calloc((size_t)n, sizeof *s->x), .n = n, .next = k->slack};
    snprintf(s->name, sizeof s->name, "%s", name);
    k->slack = s;
    return s->x ? s : NULL;
}

static double largest(const struct whole *w) {
    double most = 0;
    for (int64_t i = 0; i < w->n; i++) most = fmax(most, fabs(w->x[i]));
    return most;
}

/* adamw: the reference's optimizer. */
static void add_step(const json_t *adamw, int64_t step, const struct whole *m, const struct whole *v, double off,
                     double *slack) {
    const json_t *betas = json_object_get(adamw, "betas");
    double lr = json_number_value(json_array_get(json_object_get(adamw, "lr"), (size_t)step - 1));
    double c1 = 1 - pow(json_number_value(json_array_get(betas, 0)), (double)step);
    double c2 = 1 - pow(json_number_value(json_array_get(betas, 1)), (double)step);
    double eps = json_number_value(json_object_get(adamw, "eps"));
    for (int64_t i = 0; i < m->n; i++) {
        double u = fabs(m->x[i]) / c1 / (sqrt(v->x[i] / c2) + eps);
        if (v->x[i] > 0) slack[i] += lr * fmin(2, 2 * fmax(1, u) * off / fabs(m->x[i]));
    }
}

enum status check_slack(struct check *k, struct kept *reference, const struct checked *c, const double **out) {
    const char *dot = strrchr(c->name, '.');
    struct whole m, v = {.x = NULL};
    *out = NULL;
    if (!dot || strcmp(dot, ".param")) return OK;
    enum status status = OK;
    if (kept_sibling(reference, c->name, ".moment1", &m) && kept_sibling(reference, c->name, ".moment2", &v) &&
        m.n == v.n) {
        struct slack *s = slack_of(k, c->name, m.n);
        double off = CHECK_FACTOR * scale_of(k->scale, c->step, m.name) * largest(&m);
        if (!s) status = FAIL(E_MEMORY, "no memory to check %s", c->name);
        else add_step(json_object_get(k->reference.head, "optimizer"), c->step, &m, &v, off, s->x);
        if (s) *out = s->x;
    }
    whole_fini(&m);
    whole_fini(&v);
    return status;
}

void check_slack_fini(struct check *k) {
    for (struct slack *next, *s = k->slack; s; s = next) {
        next = s->next;
        free(s->x);
        free(s);
    }
    k->slack = NULL;
}
