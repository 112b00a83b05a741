/* The wrong tensor against the right one, as arrays of numbers. */
#include "oracle/suspect.h"

#include "lib/base/sort.h"
#include "oracle/causes/causes.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_number(const struct evidence *e) { return e->y.n == 1; }

bool suspect_same(const struct evidence *e, const double *x, const double *y, double factor) {
    double limit = e->limit * fmax(1, fabs(factor));
    for (int64_t i = 0; i < e->y.n; i++)
        if (!(fabs(x[i] - factor * y[i]) <= limit)) return false;
    return true;
}

bool suspect_factor(const struct evidence *e, const double *base, double *factor) {
    double xy = 0, yy = 0;
    for (int64_t i = 0; i < e->y.n; i++) {
        double from = base ? base[i] : 0, y = e->y.x[i] - from;
        xy += (e->x.x[i] - from) * y, yy += y * y;
    }
    double a = *factor = yy > 0 ? xy / yy : 0, limit = e->limit * fmax(1, fabs(a));
    for (int64_t i = 0; i < e->y.n; i++) {
        double from = base ? base[i] : 0;
        if (!(fabs(e->x.x[i] - from - a * (e->y.x[i] - from)) <= limit)) return false;
    }
    return a != 0;
}

static bool is_apart(const struct evidence *e) { return e->c.verdict == TENSOR_APART; }

bool suspect_zero(const struct evidence *e, char detail[160]) {
    for (int64_t i = 0; i < e->x.n; i++)
        if (e->x.x[i] != 0) return false;
    snprintf(detail, 160, "all %" PRId64 " elements are 0", e->x.n);
    return true;
}

/* ---- a constant factor ---- */
bool suspect_ratio(const struct evidence *e, char detail[160]) {
    double a;
    char name[96];
    if (is_apart(e) || suspect_betas(e, detail) || suspect_other_step(e, detail) || !suspect_factor(e, NULL, &a))
        return false;
    suspect_name_factor(e, a, name);
    if (is_number(e) && !name[0]) return false;
    snprintf(detail, 160, "%.6g times what it should be%s%s", a, name[0] ? ": " : "", name);
    return true;
}

/* ---- another time, another place ---- */
bool suspect_stale(const struct evidence *e, char detail[160]) {
    if (!e->before.x || is_number(e) || !suspect_same(e, e->x.x, e->before.x, 1)) return false;
    snprintf(detail, 160, "it has the values of the step before");
    return true;
}

/* The stride of an axis: elements from one place to the next. */
static int64_t stride_of(const struct box *b, int axis) {
    int64_t stride = 1;
    for (int a = axis + 1; a < b->n_axes; a++) stride *= b->of[a];
    return stride;
}

/* Does x at place i + by equal y at place i, for every i where both exist? */
static bool is_shifted(const struct evidence *e, int axis, int64_t by) {
    int64_t stride = stride_of(&e->y.box, axis), n = e->y.box.of[axis];
    for (int64_t i = 0; i < e->y.n; i++) {
        int64_t place = i / stride % n;
        if (place + by < 0 || place + by >= n) continue;
        if (!(fabs(e->x.x[i + by * stride] - e->y.x[i]) <= e->limit)) return false;
    }
    return true;
}

bool suspect_shifted(const struct evidence *e, char detail[160]) {
    for (int axis = 0; axis < e->y.box.n_axes; axis++)
        for (int by = -1; by <= 1; by += 2) {
            if (e->y.box.of[axis] < 3 || !is_shifted(e, axis, by)) continue;
            snprintf(detail, 160, "its values are one place further %s along axis %d", by > 0 ? "up" : "down", axis);
            return true;
        }
    return false;
}

bool suspect_transposed(const struct evidence *e, char detail[160]) {
    int64_t n = e->y.box.of[0];
    if (e->y.box.n_axes != 2 || n < 2 || e->y.box.of[1] != n) return false;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++)
            if (!(fabs(e->x.x[i * n + j] - e->y.x[j * n + i]) <= e->limit)) return false;
    snprintf(detail, 160, "rows and columns have changed places");
    return true;
}

/* ---- permuted along an axis ---- */
static double *norms_along(const struct whole *w, int axis) {
    int64_t stride = stride_of(&w->box, axis), n = w->box.of[axis];
    double *norm = calloc((size_t)n, sizeof *norm);
    for (int64_t i = 0; norm && i < w->n; i++) norm[i / stride % n] += w->x[i] * w->x[i];
    for (int64_t i = 0; norm && i < n; i++) norm[i] = sqrt(norm[i]);
    return norm;
}

/* Norms in any order are a quarter as far apart, at most, as in this order. */
static bool is_permuted(const struct evidence *e, int axis) {
    int64_t n = e->y.box.of[axis];
    double *x = norms_along(&e->x, axis), *y = norms_along(&e->y, axis), most = 0, apart = 0;
    double limit = e->limit * sqrt((double)(e->y.n / n));
    bool permuted = x && y;
    for (int64_t i = 0; permuted && i < n; i++) apart = fmax(apart, fabs(x[i] - y[i])), most = fmax(most, y[i]);
    if (permuted) sort_doubles(x, n), sort_doubles(y, n);
    permuted = permuted && apart > limit && y[n - 1] - y[0] > 0.01 * most;    /* else all orders look alike */
    for (int64_t i = 0; permuted && i < n; i++) permuted = fabs(x[i] - y[i]) <= fmin(limit, apart / 4);
    free(x);
    free(y);
    return permuted;
}

bool suspect_permuted(const struct evidence *e, char detail[160]) {
    for (int axis = 0; axis < e->y.box.n_axes; axis++) {
        if (e->y.box.of[axis] < 3 || is_apart(e) || !is_permuted(e, axis)) continue;
        snprintf(detail, 160, "the same rows in another order along axis %d of %d", axis, e->y.box.n_axes);
        return true;
    }
    return false;
}

/* ---- where it is wrong ---- */
/* What the wrong elements have: nothing, or the values of the step before. Empty: neither. */
static const char *have_instead(const struct evidence *e) {
    bool none = true, old = e->before.n == e->x.n;
    for (int64_t i = 0; i < e->x.n; i++) {
        if (fabs(e->x.x[i] - e->y.x[i]) <= e->limit) continue;
        none = none && e->x.x[i] == 0;
        old = old && fabs(e->x.x[i] - e->before.x[i]) <= e->limit;
    }
    return none ? ": they are 0, as a tail that was dropped" : old ? ": they have the values of the step before" : "";
}

#define BY_CHANCE 1e-6

static bool is_wrong(const struct evidence *e, int64_t i) { return !(fabs(e->x.x[i] - e->y.x[i]) <= e->limit); }

/* The median of the wrong elements' errors, each relative to what it should be. */
static double relative_error(const struct evidence *e) {
    double *off = calloc((size_t)e->y.n, sizeof *off);
    int64_t n = 0;
    for (int64_t i = 0; off && i < e->y.n; i++) {
        double relative = fabs((e->x.x[i] - e->y.x[i]) / e->y.x[i]);
        if (is_wrong(e, i)) off[n++] = isnan(relative) ? INFINITY : relative;
    }
    sort_doubles(off, n);
    double median = n ? off[n / 2] : 0;
    free(off);
    return median;
}

/* Noise makes wrong those elements that are large. An element that is right counts only if the wrong ones' relative
 * error would show in it. If m of the M elements that count lie in this part, chance puts all n wrong ones there with
 * m/M (m-1)/(M-1) ... (m-n+1)/(M-n+1). There are as many such parts as places. */
bool suspect_is_part(const struct evidence *e, int axis, int64_t first, int64_t end) {
    int64_t stride = stride_of(&e->y.box, axis), places = e->y.box.of[axis], n = 0, m = 0, all = 0;
    double relative = relative_error(e), chance = (double)places;
    for (int64_t i = 0; i < e->y.n; i++) {
        int64_t place = i / stride % places;
        bool wrong = is_wrong(e, i), counts = wrong || relative * fabs(e->y.x[i]) > e->limit;
        n += wrong, all += counts, m += counts && place >= first && place < end;
    }
    for (int64_t i = 0; i < n && chance >= BY_CHANCE; i++) chance *= (double)(m - i) / (double)(all - i);
    return chance < BY_CHANCE;
}

/* Places of an axis with a wrong element: the first, one after the last, how many. */
struct reach { int64_t first, end, n; };
static struct reach reach_of(const struct evidence *e, int axis) {
    int64_t stride = stride_of(&e->y.box, axis), n = e->y.box.of[axis];
    struct reach r = {n, 0, 0};
    char *wrong = calloc((size_t)n, 1);
    for (int64_t i = 0; wrong && i < e->y.n; i++)
        if (is_wrong(e, i)) wrong[i / stride % n] = 1;
    for (int64_t i = 0; wrong && i < n; i++)
        if (wrong[i]) {
            r.n++;
            r.end = i + 1;
            if (i < r.first) r.first = i;
        }
    free(wrong);
    return r;
}

bool suspect_ends_with(const char *name, const char *suffix) {
    size_t n = strlen(name), m = strlen(suffix);
    return n >= m && !strcmp(name + n - m, suffix);
}
static bool is_activation(const struct evidence *e) {
    return suspect_ends_with(e->c.name, ".act") || suspect_ends_with(e->c.name, ".act_grad");
}

/* (samples, positions, channels): right up to a position, and wrong from there to the end. */
bool suspect_positions(const struct evidence *e, char detail[160]) {
    if (!is_activation(e) || e->y.box.n_axes < 2 || suspect_scores(e, detail)) return false;
    struct reach r = reach_of(e, 1);
    int64_t n = e->y.box.of[1];
    if (r.n == 0 || r.n == n || r.n != r.end - r.first || (r.first > 0 && r.end < n)) return false;
    if (!suspect_is_part(e, 1, r.first, r.end)) return false;
    snprintf(detail, 160, "positions %" PRId64 " to %" PRId64 " of %" PRId64 " are wrong, all others right", r.first,
             r.end - 1, n);
    return true;
}

bool suspect_region(const struct evidence *e, char detail[160]) {
    for (int axis = 0; axis < e->y.box.n_axes && !is_number(e); axis++) {
        struct reach r = reach_of(e, axis);
        if (r.n == 0 || r.n > e->y.box.of[axis] / 2 || r.n != r.end - r.first) continue;
        if (!suspect_is_part(e, axis, r.first, r.end)) continue;
        snprintf(detail, 160, "only places %" PRId64 " to %" PRId64 " of %" PRId64 " along axis %d are wrong%s",
                 r.first, r.end - 1, e->y.box.of[axis], axis, have_instead(e));
        return true;
    }
    return false;
}

/* The difference is the same vector at every token, such as a bias that is added too often or not at all. The mean over
 * tokens is that vector. */
bool suspect_constant_vector(const struct evidence *e, char detail[160]) {
    int64_t width = e->y.box.of[e->y.box.n_axes - 1], n = e->y.n;
    double most = 0;
    if (!suspect_ends_with(e->c.name, ".act") || e->y.box.n_axes < 3 || is_apart(e)) return false;
    if (suspect_unmasked_rows(e, detail)) return false;
    for (int64_t c = 0; c < width; c++) {
        double mean = 0;
        for (int64_t i = c; i < n; i += width) mean += (e->x.x[i] - e->y.x[i]) * (double)width / (double)n;
        for (int64_t i = c; i < n; i += width)
            if (!(fabs(e->x.x[i] - e->y.x[i] - mean) <= e->limit)) return false;
        most = fmax(most, fabs(mean));
    }
    snprintf(detail, 160, "the same vector, of up to %.2g, is too much at every token", most);
    return true;
}

/* Some elements are zero, and all others are larger by one factor. */
bool suspect_dropout(const struct evidence *e, char detail[160]) {
    int64_t zeros = 0;
    double factor = 0;
    if (!suspect_ends_with(e->c.name, ".act")) return false;
    for (int64_t i = 0; i < e->y.n; i++) {
        double y = e->y.x[i];
        if (e->x.x[i] == 0 && fabs(y) > e->limit) zeros++;
        else if (fabs(y) > 100 * e->limit && factor == 0) factor = e->x.x[i] / y;
        if (e->x.x[i] != 0 && !(fabs(e->x.x[i] - factor * y) <= 0.02 * fabs(y) + e->limit)) return false;
    }
    double p = (double)zeros / (double)e->y.n;
    if (zeros == 0 || fabs(factor * (1 - p) - 1) > 0.05) return false;
    snprintf(detail, 160, "%.0f%% are 0, the rest %.3g times too large", 100 * p, factor);
    return true;
}
