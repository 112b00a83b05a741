/* Causes that the wrong values show next to the right ones of other places, precisions and steps. */
#include "oracle/causes/causes.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
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
