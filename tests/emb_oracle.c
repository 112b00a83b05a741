#include "tests/emb_oracle.h"

#include "driver/recipe.h"
#include "emb/emb.h"
#include "lib/data/clicks.h"
#include "models/dlrm/dlrm.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { I = D + (F + 1) * F / 2, WIDEST = I };

/* ---- initial weights: the product's own, of a run on one rank ---- */
static const struct param *param_of(const struct run *r, const char *name) {
    for (int i = 0; i < r->program.n_params; i++)
        if (!strcmp(r->program.params[i].name, name)) return &r->program.params[i];
    return NULL;
}

static struct learned learned_of(const struct run *r, const char *block, int layer, const char *which, int n) {
    struct learned x = {.n = n, .decay = *which == 'w'};
    snprintf(x.name, sizeof x.name, "%s.%d.%s", block, layer, which);
    double **arrays[] = {&x.x, &x.g, &x.m, &x.v};
    for (int i = 0; i < 4; i++) *arrays[i] = calloc((size_t)n, sizeof(double));
    memcpy(x.x, param_of(r, x.name)->weight, (size_t)n * sizeof(double));
    return x;
}

static void take_layers(const struct run *r, const char *block, int n, const int *sizes, struct layer *layers) {
    for (int i = 0; i < n; i++)
        layers[i] = (struct layer){sizes[i], sizes[i + 1], learned_of(r, block, i, "w", sizes[i] * sizes[i + 1]),
                                   learned_of(r, block, i, "b", sizes[i + 1])};
}

/* ---- one sample ---- */
/* y = relu(W x + b), or without relu; backward: dy is the gradient of y, x the layer's input. */
static void forward(const struct layer *l, bool relu, const double *x, double *y) {
    for (int k = 0; k < l->out; k++) {
        double sum = l->b.x[k];
        for (int c = 0; c < l->in; c++) sum += l->w.x[k * l->in + c] * x[c];
        y[k] = relu && sum <= 0 ? 0 : sum;
    }
}
static void backward(struct layer *l, bool relu, const double *x, const double *y, const double *dy, double *dx) {
    for (int c = 0; c < l->in; c++) dx[c] = 0;
    for (int k = 0; k < l->out; k++) {
        double g = relu && y[k] == 0 ? 0 : dy[k];
        l->b.g[k] += g;
        for (int c = 0; c < l->in; c++) l->w.g[k * l->in + c] += g * x[c], dx[c] += g * l->w.x[k * l->in + c];
    }
}

struct sample { double label, dense[X]; const int32_t *ids; };

static double run_sample(struct oracle *o, const struct sample *s, double (*dtables)[V][D], bool (*used)[V]) {
    double h0[WIDEST], a[F + 1][D] = {{0}}, y[I], h1[WIDEST], h2[WIDEST], logit;
    forward(&o->bottom[0], true, s->dense, h0);
    forward(&o->bottom[1], true, h0, a[0]);
    for (int f = 0; f < F; f++)
        for (int m = 0; m < M; m++)
            for (int d = 0; d < D && s->ids[f * M + m] >= 0; d++) a[f + 1][d] += o->tables[f][s->ids[f * M + m]][d];
    int n = 0;
    for (int d = 0; d < D; d++) y[n++] = a[0][d];
    for (int i = 1; i <= F; i++)
        for (int j = 0; j < i; j++, n++) {
            y[n] = 0;
            for (int d = 0; d < D; d++) y[n] += a[i][d] * a[j][d];
        }
    forward(&o->top[0], true, y, h1);
    forward(&o->top[1], true, h1, h2);
    forward(&o->top[2], false, h2, &logit);

    double dlogit = (1 / (1 + exp(-logit)) - s->label) / B, d2[WIDEST], d1[WIDEST], dy[I], da[F + 1][D] = {{0}};
    double dh0[WIDEST], dx[WIDEST];
    backward(&o->top[2], false, h2, &logit, &dlogit, d2);
    backward(&o->top[1], true, h1, h2, d2, d1);
    backward(&o->top[0], true, y, h1, d1, dy);
    for (int d = 0; d < D; d++) da[0][d] = dy[d];
    n = D;
    for (int i = 1; i <= F; i++)
        for (int j = 0; j < i; j++, n++)
            for (int d = 0; d < D; d++) da[i][d] += dy[n] * a[j][d], da[j][d] += dy[n] * a[i][d];
    backward(&o->bottom[1], true, h0, a[0], da[0], dh0);
    backward(&o->bottom[0], true, s->dense, h0, dh0, dx);
    for (int f = 0; f < F; f++)
        for (int m = 0; m < M; m++) {
            int id = s->ids[f * M + m];
            if (id < 0) continue;
            used[f][id] = true;
            for (int d = 0; d < D; d++) dtables[f][id][d] += da[f + 1][d];
        }
    return (log1p(exp(logit)) - s->label * logit) / B;
}

/* ---- a step ---- */
static double squares(const double *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += x[i] * x[i];
    return sum;
}

static void each(struct oracle *o, void (*visit)(struct learned *, void *), void *self) {
    struct layer *const layers[] = {&o->bottom[0], &o->bottom[1], &o->top[0], &o->top[1], &o->top[2]};
    for (int i = 0; i < 5; i++) visit(&layers[i]->w, self), visit(&layers[i]->b, self);
}
static void clear(struct learned *x, void *self) {
    (void)self;
    memset(x->g, 0, (size_t)x->n * sizeof *x->g);
}
static void add_squares(struct learned *x, void *sum) { *(double *)sum += squares(x->g, x->n); }
static void release(struct learned *x, void *self) {
    (void)self;
    free(x->x), free(x->g), free(x->m), free(x->v);
}

struct adam { const struct plan *p; double lr, factor; int t; };
static void update(struct learned *x, void *self) {
    const struct adam *a = self;
    const struct plan *p = a->p;
    for (int i = 0; i < x->n; i++) {
        double g = x->g[i] * a->factor;
        x->x[i] *= 1 - (x->decay ? a->lr * p->weight_decay : 0);
        x->m[i] = p->beta1 * x->m[i] + (1 - p->beta1) * g;
        x->v[i] = p->beta2 * x->v[i] + (1 - p->beta2) * g * g;
        double root = sqrt(x->v[i] / (1 - pow(p->beta2, a->t)));
        x->x[i] -= a->lr * (x->m[i] / (1 - pow(p->beta1, a->t))) / (root + p->eps);
    }
}

/* Rowwise Adagrad for all rows that the step used. */
static void update_tables(struct oracle *o, int slot, double lr, double eps) {
    for (int f = 0; f < F; f++)
        for (int v = 0; v < V; v++) {
            const double *g = o->waiting[slot][f][v];
            if (!o->used[slot][f][v]) continue;
            o->kept[f][v] += squares(g, D) / D;
            for (int d = 0; d < D; d++) o->tables[f][v][d] -= lr * g[d] / (sqrt(o->kept[f][v]) + eps);
        }
}

static void step(struct oracle *o, const struct plan *p, const struct data_split *train, int n) {
    int slot = n % (o->delay + 1);
    memset(o->waiting[slot], 0, sizeof o->waiting[slot]);
    memset(o->used[slot], 0, sizeof o->used[slot]);
    each(o, clear, NULL);
    o->loss[n] = 0;
    for (int i = 0; i < B; i++) {
        const int32_t *words = clicks_sample(train, data_shuffled(train, (uint64_t)p->seed, n * B + i));
        struct sample s = {.label = words[0], .ids = words + 1 + X};
        for (int k = 0; k < X; k++) {
            float x;
            memcpy(&x, words + 1 + k, sizeof x);
            s.dense[k] = (double)x;
        }
        o->loss[n] += run_sample(o, &s, o->waiting[slot], o->used[slot]);
    }
    double sum = squares(&o->waiting[slot][0][0][0], F * V * D);
    each(o, add_squares, &sum);
    o->norm[n] = sqrt(sum);
    double factor = p->clip / (o->norm[n] + 1e-6), lr = plan_lr(p, n);
    struct adam a = {p, lr, factor < 1 ? factor : 1, n + 1};
    each(o, update, &a);
    for (int i = 0; i < F * V * D; i++) (&o->waiting[slot][0][0][0])[i] *= a.factor;
    int ripe = n - o->delay;
    if (ripe >= 0) update_tables(o, ripe % (o->delay + 1), dlrm_options(p)->emb_lr * lr / p->lr, p->eps);
}

void oracle_init(struct oracle *o, const struct plan *plan, const struct data_file *clicks) {
    struct plan p = *plan;
    struct run r;
    struct data_split train, val;
    p.mesh.dp = 1, p.micro_batch = 0;
    assert_ok(plan_settle(&p, 1));
    memset(o, 0, sizeof *o);
    o->delay = (int)emb_options(plan)->delay;
    enum status status = run_create(&r, &train_recipe, &p, WATCH_NOTHING);
    if (status == OK) {
        take_layers(&r, "bottom", 2, (int[]){X, 7, D}, o->bottom);
        take_layers(&r, "top", 3, (int[]){I, 9, 5, 1}, o->top);
        memcpy(o->tables, param_of(&r, "emb.tables")->weight, sizeof o->tables);
    }
    run_destroy(&r);
    assert_ok(status);
    assert_ok(clicks_split(clicks, 0.1, &train, &val));
    for (int n = 0; n < ORACLE_STEPS; n++) step(o, &p, &train, n);
}

void oracle_fini(struct oracle *o) { each(o, release, NULL); }

/* ---- comparing ---- */
struct against { const struct run *r; double worst; };
static void compare_values(struct against *a, const struct param *w, const double *reference) {
    const double *own = param_own_weight(w);
    double largest = 0, off = 0;
    int64_t n = shape_global_n(&w->type.shape);
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(reference[i]));
    for (int64_t i = 0; i < w->own_n; i++)
        off = fmax(off, fabs(own[i] - reference[shape_global_index(&w->type.shape, w->own_first + i)]));
    a->worst = fmax(a->worst, largest > 0 ? off / largest : off);
}
static void compare_learned(struct learned *x, void *self) {
    struct against *a = self;
    compare_values(a, param_of(a->r, x->name), x->x);
}

double oracle_difference(const struct oracle *o, const struct run *r) {
    struct against a = {r, 0};
    each((struct oracle *)o, compare_learned, &a);
    compare_values(&a, param_of(r, "emb.tables"), &o->tables[0][0][0]);
    compare_values(&a, param_of(r, "emb.adagrad"), &o->kept[0][0]);
    return a.worst;
}
