/* The gradient norm, and AdamW's update. Names as in Loshchilov and Hutter 2019, algorithm 2. */
#include "oracle/suspect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the norm ---- */
/* Sum of the squares of a tensor of the reference. */
static double squares_of(const struct evidence *e, const char *name, int *n_axes) {
    struct whole w;
    double sum = 0;
    kept_sibling(e->reference, name, NULL, &w);
    for (int64_t i = 0; w.x && i < w.n; i++) sum += w.x[i] * w.x[i];
    *n_axes = w.x ? w.box.n_axes : 0;
    whole_fini(&w);
    return sum;
}

double suspect_times_counted(const struct evidence *e, double squares) {
    double x = e->x.x[0], y = e->y.x[0], limit = 2 * fabs(y) * e->limit;
    double times = 1 + (x * x - y * y) / squares, whole = round(times);
    bool fits = squares > 8 * limit && whole >= 0 && whole <= 64 && whole != 1;
    return fits && fabs(times - whole) * squares <= limit + 1e-6 * squares ? whole : NAN;
}

void suspect_say_times(double times, const char *what, char detail[160]) {
    if (times == 0) snprintf(detail, 160, "it leaves out %.120s", what);
    else snprintf(detail, 160, "it counts %.120s %.0f times", what, times);
}

/* The norm miscounts one tensor, or all vectors (norms and biases), or all matrices. */
bool suspect_norm_counts(const struct evidence *e, char detail[160]) {
    double of_kind[2] = {0, 0};
    const char *last = "";
    if (strcmp(e->c.name, "grad_norm") || e->c.verdict == TENSOR_APART) return false;
    for (int i = 0; i < e->reference->n; i++) {
        const char *name = e->reference->piece[i].name;
        int n_axes;
        if (!suspect_ends_with(name, ".grad") || !strcmp(name, last)) continue;
        double squares = squares_of(e, last = name, &n_axes), times = suspect_times_counted(e, squares);
        of_kind[n_axes > 1] += squares;
        if (isnan(times)) continue;
        suspect_say_times(times, name, detail);
        return true;
    }
    for (int kind = 0; kind < 2; kind++) {
        double times = suspect_times_counted(e, of_kind[kind]);
        if (isnan(times)) continue;
        suspect_say_times(times, kind ? "all matrices" : "all norms' weights and biases", detail);
        return true;
    }
    return false;
}

/* ---- moments ---- */
static double adamw_number(const struct evidence *e, const char *key) {
    return json_number_value(json_object_get(e->adamw, key));
}
static double beta(const struct evidence *e, int i) {
    return json_number_value(json_array_get(json_object_get(e->adamw, "betas"), (size_t)i));
}
static double rate_of_step(const struct evidence *e, int64_t step) {     /* from 1; 0: there is no such step */
    const json_t *lr = json_object_get(e->adamw, "lr");
    return step < 1 ? 0 : json_number_value(json_array_get(lr, (size_t)step - 1));
}

bool suspect_unclipped(const struct evidence *e, char detail[160]) {
    double c = e->clip_factor;
    bool first = suspect_ends_with(e->c.name, ".moment1"), second = suspect_ends_with(e->c.name, ".moment2");
    if ((!first && !second) || !(c < 0.999) || e->c.step > 1) return false;
    double factor = first ? 1 / c : 1 / (c * c);
    if (!suspect_same(e, e->x.x, e->y.x, factor)) return false;
    snprintf(detail, 160, "it is that of gradients that were not clipped (by %.4g)", c);
    return true;
}

/* Is x = y + a w, with the weight w of the step before, and more than rounding? */
static bool has_decay(const struct evidence *e, double a) {
    double most = 0;
    for (int64_t i = 0; i < e->y.n; i++) {
        double more = a * e->before.x[i];
        if (!(fabs(e->x.x[i] - e->y.x[i] - more) <= e->limit)) return false;
        most = fmax(most, fabs(more));
    }
    return most > e->limit;
}

/* Adam with decay in the gradient: the first moment has (1 - beta1) wd w more. */
bool suspect_coupled_decay(const struct evidence *e, char detail[160]) {
    double wd = adamw_number(e, "weight_decay");
    if (!suspect_ends_with(e->c.name, ".moment1") || !e->before.x || e->c.step > 1) return false;
    if (!has_decay(e, (1 - beta(e, 0)) * wd)) return false;
    snprintf(detail, 160, "weight decay, %.3g, is added to the gradient: Adam's, not AdamW's", wd);
    return true;
}

/* ---- weights ---- */
static bool is_weight(const struct evidence *e) { return suspect_ends_with(e->c.name, ".param") && e->before.x; }

bool suspect_decay(const struct evidence *e, char detail[160]) {
    double decay = rate_of_step(e, e->c.step) * adamw_number(e, "weight_decay");
    bool less = is_weight(e) && has_decay(e, decay), more = is_weight(e) && has_decay(e, -decay);
    if (less || more) snprintf(detail, 160, more ? "it decays, and should not" : "it does not decay, and should");
    return less || more;
}

bool suspect_rate(const struct evidence *e, char detail[160]) {
    double factor, rate = rate_of_step(e, e->c.step);
    if (!is_weight(e) || !suspect_factor(e, e->before.x, &factor)) return false;
    const char *whose = "";
    if (fabs(factor * rate / rate_of_step(e, e->c.step + 1) - 1) < 1e-3) whose = ", the next step's";
    if (fabs(factor * rate / rate_of_step(e, e->c.step - 1) - 1) < 1e-3) whose = ", that of the step before";
    snprintf(detail, 160, "the step is %.4g times as long: a rate of %.4g%s", factor, factor * rate, whose);
    return true;
}

/* u = m / c1 / (sqrt(v / c2) + eps); AdamW has c1 = 1 - beta1^n, c2 = 1 - beta2^n. Is w - lr (u + wd w) = x? */
struct adam { double c1, c2, eps; };
static bool makes(const struct evidence *e, const struct whole *m, const struct whole *v, struct adam a, double decay) {
    double lr = rate_of_step(e, e->c.step);
    for (int64_t i = 0; i < e->y.n; i++) {
        double w = e->before.x[i], u = m->x[i] / a.c1 / (sqrt(v->x[i] / a.c2) + a.eps);
        if (!(fabs(w - lr * u - lr * decay * w - e->x.x[i]) <= e->limit)) return false;
    }
    return true;
}

static bool another_adam(const struct evidence *e, const struct adam *wrong, int n, int *which) {
    struct whole m = {.x = NULL}, v = m;
    double wd = e->y.box.n_axes > 1 ? adamw_number(e, "weight_decay") : 0;
    bool found = false, there = is_weight(e) && kept_sibling(e->reference, e->c.name, ".moment1", &m) &&
                                kept_sibling(e->reference, e->c.name, ".moment2", &v) && m.n == e->y.n && v.n == m.n;
    for (*which = 0; there && *which < n && !found; ++*which) found = makes(e, &m, &v, wrong[*which], wd);
    --*which;
    whole_fini(&m);
    whole_fini(&v);
    return found;
}

bool suspect_bias_correction(const struct evidence *e, char detail[160]) {
    double c1 = 1 - pow(beta(e, 0), (double)e->c.step), c2 = 1 - pow(beta(e, 1), (double)e->c.step);
    double eps = adamw_number(e, "eps");
    const struct adam WRONG[] = {{1, 1, eps}, {c1, 1, eps}, {1, c2, eps}};
    static const char *const WHICH[] = {"neither moment is", "the second moment is not", "the first moment is not"};
    int which;
    if (!another_adam(e, WRONG, 3, &which)) return false;
    snprintf(detail, 160, "%s corrected for having begun with 0", WHICH[which]);
    return true;
}

bool suspect_epsilon(const struct evidence *e, char detail[160]) {
    static const double EPS[] = {1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12, 0};
    enum { N = sizeof EPS / sizeof *EPS };
    double c1 = 1 - pow(beta(e, 0), (double)e->c.step), c2 = 1 - pow(beta(e, 1), (double)e->c.step);
    struct adam wrong[N + 1];
    int which;
    for (int i = 0; i < N; i++) wrong[i] = (struct adam){c1, c2, EPS[i]};
    wrong[N] = (struct adam){c1, c2, adamw_number(e, "eps") / sqrt(c2)};
    if (!another_adam(e, wrong, N + 1, &which)) return false;
    if (which == N) snprintf(detail, 160, "epsilon is added before the second moment is corrected");
    else snprintf(detail, 160, "epsilon is %g, and not %g", wrong[which].eps, adamw_number(e, "eps"));
    return true;
}
