#include "lib/cost/measured.h"

#include "lib/base/input.h"
#include "lib/base/option.h"
#include "lib/base/sort.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GB 1e9

/* ---- a level's terms: t = known[0] / speed + known[1] alpha + fixed, as wire_seconds has them ---- */
struct terms { double known[2], fixed; };

static struct terms terms_of(const struct wire_point *p, int level, const struct cluster *c, double speed,
                             double alpha) {
    double n = p->group, share = p->bytes / (level && p->units > 1 ? p->inside : 1), members = level ? p->units : n;
    struct terms ring = {{(n - 1) / n * share, n - 1}, c->call_s};
    if (p->op == COMM_SEND) return (struct terms){{p->bytes, 1}, c->call_s};
    if (p->op == COMM_ALL_TO_ALL)
        ring.known[0] = p->bytes * (n - (level ? p->inside : 1)) / n;
    if (p->op != COMM_ALL_REDUCE) return ring;
    struct terms tree = {{2 * share / 0.9, 4 * log2(members)}, c->call_s};
    ring = (struct terms){{2 * (n - 1) / n * share, 2 * (members - 1)}, c->call_s};
    if (level && p->inside > 1)
        ring.fixed = tree.fixed += fmin(2 * (p->inside - 1), 4 * log2(p->inside)) * c->level[0].alpha_s;
    bool by_ring = ring.known[0] / speed + ring.known[1] * alpha <= tree.known[0] / speed + tree.known[1] * alpha;
    return by_ring ? ring : tree;
}

/* Least squares of relative errors for 1/speed and alpha, both >= 0. alpha_is_known: x[1] stays. */
static void solve(const struct wire_points *w, const struct terms *t, bool alpha_is_known, double x[2]) {
    double a = 0, b = 0, d = 0, r0 = 0, r1 = 0;
    for (int i = 0; i < w->n; i++) {
        double s = w->at[i].seconds, k0 = t[i].known[0] / s, k1 = t[i].known[1] / s, y = 1 - t[i].fixed / s;
        a += k0 * k0, b += k0 * k1, d += k1 * k1, r0 += k0 * y, r1 += k1 * y;
    }
    double det = a * d - b * b;
    if (!alpha_is_known) x[1] = det > 1e-12 * a * d ? fmax(0, (a * r1 - b * r0) / det) : 0;
    x[0] = fmax(0, (r0 - b * x[1]) / a);
}

/* ring or tree follows from the constants, and the constants from ring or tree. A few rounds settle both. */
static void fit_line(const struct wire_points *w, int level, const struct cluster *c, struct terms *t, double x[2]) {
    const struct level *l = &c->level[level];
    const struct wire_point *least = &w->at[0];
    for (int i = 1; i < w->n; i++)
        if (w->at[i].bytes < least->bytes) least = &w->at[i];
    x[0] = 1 / l->bytes_per_s, x[1] = l->alpha_s;
    bool alpha_is_known = false;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < w->n; i++) t[i] = terms_of(&w->at[i], level, c, x[0] > 0 ? 1 / x[0] : HUGE_VAL, x[1]);
        solve(w, t, alpha_is_known, x);
        /* if the smallest size spends most of its time in bandwidth, latency cannot be seen: the file's stays */
        if (round == 10 && terms_of(least, level, c, 1 / x[0], x[1]).known[0] * x[0] > 0.5 * least->seconds)
            alpha_is_known = true, x[1] = l->alpha_s;
    }
}

/* ---- the level's curve: what the line misses ---- */
struct speed { double bytes, log_speed; int n; };
static int by_bytes(const void *a, const void *b) {
    const struct speed *x = a, *y = b;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Speeds of the sizes that latency does not govern, by the bytes for which level_speed is asked. @return how many */
static int speeds_of(const struct wire_points *w, int level, const struct terms *t, double alpha, struct speed *out) {
    int n = 0, merged = 0;
    for (int i = 0; i < w->n; i++) {
        const struct wire_point *p = &w->at[i];
        double rest = p->seconds - t[i].fixed - t[i].known[1] * alpha;
        bool whole = p->op == COMM_SEND || p->op == COMM_ALL_TO_ALL || level == 0 || p->units <= 1;
        if (rest < 0.5 * p->seconds) continue;
        out[n++] = (struct speed){whole ? p->bytes : p->bytes / p->inside, log(t[i].known[0] / rest), 1};
    }
    qsort(out, (size_t)n, sizeof *out, by_bytes);
    for (int i = 0; i < n; i++) {
        if (merged && out[merged - 1].bytes == out[i].bytes)
            out[merged - 1].log_speed += out[i].log_speed, out[merged - 1].n++;
        else out[merged++] = out[i];
    }
    return merged;
}

static void set_curve(struct level *l, const struct speed *s, int n) {
    struct curve *curve = &l->part_by_size;
    curve->n = n < MAX_CURVE ? n : MAX_CURVE;
    l->bytes_per_s = 0;
    for (int i = 0; i < curve->n; i++) {
        const struct speed *one = &s[n - 1 - (curve->n - 1 - i) * (n - 1) / (curve->n > 1 ? curve->n - 1 : 1)];
        curve->at[i] = one->bytes, curve->is[i] = exp(one->log_speed / one->n);
        l->bytes_per_s = fmax(l->bytes_per_s, curve->is[i]);
    }
    for (int i = 0; i < curve->n; i++) curve->is[i] /= l->bytes_per_s;
}

/* ---- a level ---- */
/* An exchange cannot take less than its fixed part: call-us is an estimate, and gives way. */
static void lower_call(const struct wire_points *w, struct cluster *c, struct measured *m) {
    double least = HUGE_VAL, was = c->call_s;
    for (int i = 0; i < w->n; i++) least = fmin(least, w->at[i].seconds);
    if (least >= c->call_s) return;
    c->call_s = least;
    measured_add(m, "call", "us", w->from, 1e6 * c->call_s, 1e6 * was);
}

static enum status fit_level(const struct wire_points *w, int level, struct cluster *c, struct measured *m) {
    struct level *l = &c->level[level], was = *l;
    struct terms *t = malloc((size_t)w->n * sizeof *t);
    struct speed *s = malloc((size_t)w->n * sizeof *s);
    double x[2];
    if (!t || !s) {
        free(t), free(s);
        return FAIL(E_MEMORY, "no memory for %d times", w->n);
    }
    lower_call(w, c, m);
    fit_line(w, level, c, t, x);
    int n = speeds_of(w, level, t, x[1], s);
    l->alpha_s = x[1];
    if (n) set_curve(l, s, n);
    free(t), free(s);
    if (!n || !(x[0] > 0))
        return FAIL(E_CONFIG, "%s: times do not grow with bytes, so no bandwidth follows; use larger sizes: -e 1G",
                    w->from);
    if (!w->is_share && l->bytes_per_s > 2 * was.bytes_per_s)
        return FAIL(E_CONFIG,
                    "%s: some ranks of each host reach %.4g GB/s, and a rank's share of %s is %.4g of %s, if all "
                    "run; start all %d ranks of each host",
                    w->from, l->bytes_per_s / GB, l->name, was.bytes_per_s / GB, c->name, (int)c->level[0].ranks);
    measured_add(m, l->name, "GB/s", w->from, l->bytes_per_s / GB, was.bytes_per_s / GB);
    if (l->alpha_s != was.alpha_s) measured_add(m, l->name, "us", w->from, 1e6 * l->alpha_s, 1e6 * was.alpha_s);
    return OK;
}

/* ---- which kind of file ---- */
enum kind { KIND_NCCL, KIND_PRODUCTS, KIND_TRACE, KIND_NONE };

static enum status kind_of(const char *path, enum kind *out) {
    struct input in;
    enum status status = input_open(&in, "", path, INPUT_FILE, MEASURED_LINE);
    bool first = true, header = false;
    *out = KIND_NONE;
    while (status == OK && *out == KIND_NONE) {
        if ((status = input_line(&in)) != OK || in.n == 0) break;
        char *text = in.text + strspn(in.text, " \t\r\n");
        if (!*text) continue;
        if (first && (*text == '{' || *text == '[')) *out = KIND_TRACE;
        else if (strstr(text, "# nThread") || strstr(text, "algbw")) *out = KIND_NCCL;
        else if (header && isdigit((unsigned char)*text)) *out = KIND_PRODUCTS;
        header |= isalpha((unsigned char)*text) || *text == '#';
        first = false;
    }
    input_close(&in);
    if (status == E_FORMAT || (status == OK && *out == KIND_NONE))
        return FAIL(E_FORMAT,
                    "%s is neither what nccl-tests prints, nor a table of products below a header, nor a trace; "
                    "give one of these (docs/using.md)",
                    path);
    return status;
}

static enum status read_one(const char *path, struct cluster *c, struct measured *m, struct wire_points *points) {
    enum kind kind;
    TRY(kind_of(path, &kind));
    if (kind == KIND_NCCL) return measured_nccl(path, c, points);
    return kind == KIND_TRACE ? measured_trace(path, c, m) : measured_products(path, c, m);
}

enum status cluster_measure(const char *files, const char *cluster, struct cluster *c, struct measured *out) {
    struct wire_points points[MAX_LEVELS] = {{0}};
    char list[OPTION_TEXT_MAX], *rest;
    enum status status = OK;
    bool is_path = strpbrk(cluster, "/.") != NULL;
    *out = (struct measured){0};
    snprintf(out->cluster, sizeof out->cluster, is_path ? "%.200s" : "configs/clusters/%.200s.ini", cluster);
    snprintf(list, sizeof list, "%s", files);
    for (char *path = strtok_r(list, ",", &rest); path && status == OK; path = strtok_r(NULL, ",", &rest))
        status = read_one(path, c, out, points);
    for (int i = 0; i < MAX_LEVELS; i++) {
        if (status == OK && points[i].n) status = fit_level(&points[i], i, c, out);
        free(points[i].at);
    }
    return status;
}
