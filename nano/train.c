/* The training program: options, data, forward and backward of a step, and its end.
 *
 *   mpirun -n 8 build/nano --tp 2 --dp 2 --pp 2 --zero 1 --recompute 1 --steps 20
 *
 * A step:  microbatches pass through the pipeline, forward and backward in turn (1F1B); gradients add up in dw
 *          replicas sum their gradients: each gets all sums, or with ZeRO-1 only those of its shard
 *          the norm of the whole gradient, clipping, AdamW on the weights that this rank owns
 *          with ZeRO-1 the new weights are gathered
 *
 * Numbers per weight: the weight, its gradient and AdamW's two moments, 4. ZeRO-1 shards the moments: 2 + 2/d. */
#include "nano.h"

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ---- */

struct layout { int tp, dp, pp; };

/* All options by name. `whole` points to an integer, `number` to a real number, `text` to a string. */
static void parse(int n, char **words, struct plan *p, struct layout *l) {
    struct { const char *name; int *whole; double *number; const char **text; } options[] = {
        {"tp", &l->tp}, {"dp", &l->dp}, {"pp", &l->pp}, {"zero", &p->zero}, {"recompute", &p->recompute},
        {"layers", &p->layers}, {"hidden", &p->hidden}, {"heads", &p->heads}, {"vocab", &p->vocab}, {"seq", &p->seq},
        {"micro-batch", &p->micro_batch}, {"global-batch", &p->global_batch}, {"steps", &p->steps},
        {"warmup", &p->warmup}, {"seed", &p->seed}, {"lr", NULL, &p->lr}, {"min-lr", NULL, &p->min_lr},
        {"beta1", NULL, &p->beta1}, {"beta2", NULL, &p->beta2}, {"eps", NULL, &p->eps},
        {"weight-decay", NULL, &p->weight_decay}, {"clip", NULL, &p->clip}, {"data", NULL, NULL, &p->data}};
    enum { MANY = sizeof options / sizeof *options };
    for (int i = 1; i < n; i += 2) {
        int o = 0;
        while (o < MANY && (strncmp(words[i], "--", 2) || strcmp(words[i] + 2, options[o].name))) o++;
        char *end = words[i + 1];
        if (o == MANY || i + 1 == n)
            fail("%s: %s", words[i], o == MANY ? "no such option; see nano/train.c" : "its value is missing");
        if (options[o].whole) *options[o].whole = (int)strtol(words[i + 1], &end, 10);
        if (options[o].number) *options[o].number = strtod(words[i + 1], &end);
        if (options[o].text) *options[o].text = words[i + 1], end = "";
        if (*end || end == words[i + 1]) fail("%s %s is not a number", words[i], words[i + 1]);
    }
}

/* ---- data: a text; each byte is a token ---- */

static unsigned char *text;
static int64_t n_samples;

static void data_open(const struct plan *p) {
    FILE *f = fopen(p->data, "rb");
    if (!f || fseek(f, 0, SEEK_END)) fail("%s cannot be read", p->data);
    int64_t n = ftell(f);
    rewind(f);
    text = malloc((size_t)n + 1);
    if (!text || fread(text, 1, (size_t)n, f) != (size_t)n) fail("%s cannot be read", p->data);
    fclose(f);
    n_samples = (n - 1) / p->seq;
    if (n_samples < 1) fail("%s has %lld bytes, and a sample needs seq + 1 = %d", p->data, (long long)n, p->seq + 1);
}

/* Sample s of the run, counted over all steps. targets[t] is the token after tokens[t]. */
static void data_sample(const struct plan *p, int64_t s, int *tokens, int *targets) {
    int64_t i = random_permute((uint64_t)p->seed, "data.shuffle", (uint64_t)(s / n_samples), (uint64_t)n_samples,
                               (uint64_t)(s % n_samples));
    for (int t = 0; t < p->seq; t++) {
        tokens[t] = text[i * p->seq + t], targets[t] = text[i * p->seq + t + 1];
        if (targets[t] >= p->vocab || tokens[t] >= p->vocab)
            fail("%s: a byte is not below vocab=%d", p->data, p->vocab);
    }
}

/* Microbatch k of this replica. The samples that all replicas together read in a step do not depend on the layout. */
void data_microbatch(const struct plan *p, int64_t step, int k, int *tokens, int *targets) {
    for (int b = 0; b < p->micro_batch; b++) {
        int64_t s = step * p->global_batch + ((int64_t)k * grid.d + grid.d_i) * p->micro_batch + b;
        data_sample(p, s, tokens + b * p->seq, targets + b * p->seq);
    }
}

/* ---- forward and backward of a step ---- */

#ifndef MY_SCHEDULE
/* 1F1B (Narayanan and others 2019, "PipeDream", without its stale weights). Stage i begins with p - 1 - i forwards, and
 * then alternates one forward and one backward. The last stage goes backward right after each forward. So stage i
 * has at most p - i microbatches in flight, whatever their number. */
double forward_backward(struct model *m, struct kept **kept, int64_t step, int *tokens, int *targets) {
    const struct plan *p = m->plan;
    int n = p->global_batch / (p->micro_batch * grid.d), warm = grid.p - 1 - grid.p_i, in_flight = warm + 1;
    double loss = 0;
    for (int k = 0; k < n + warm; k++) {
        if (k < n) {
            data_microbatch(p, step, k, tokens, targets);
            loss += model_forward(m, kept[k % in_flight], tokens, targets);
        }
        if (k >= warm) {
            data_microbatch(p, step, k - warm, tokens, targets);
            model_backward(m, kept[(k - warm) % in_flight], tokens);
        }
    }
    stage_finish();
    return loss;
}
#endif

/* ---- the end of a step ---- */

/* The elements at .. end-1 of a weight that lie in the range from .. to-1 of all weights; none if end <= at. */
struct run { int64_t at, end; };
static struct run own_part(const struct weight *w, int64_t from, int64_t to) {
    return (struct run){w->at > from ? w->at : from, w->at + w->n < to ? w->at + w->n : to};
}

double squares(const struct model *m, int64_t from, int64_t to) {
    double sum = 0;
    for (const struct weight *w = m->weights; w < m->weights + m->n_weights; w++) {
        struct run own = own_part(w, from, to);
        for (int64_t i = own.at; i < own.end && w->counted; i++) sum += (double)m->dw[i] * m->dw[i];
    }
    return sum;
}

static double learning_rate(const struct plan *p, int step) {
    double min = p->min_lr < 0 ? p->lr / 10 : p->min_lr;
    if (step < p->warmup) return p->lr * (step + 1) / p->warmup;
    if (p->steps - 1 <= p->warmup) return p->lr;
    double done = (double)(step - p->warmup) / (p->steps - 1 - p->warmup);
    return min + (p->lr - min) * 0.5 * (1 + cos(3.14159265358979323846 * done));
}

/* m = beta1 m + (1 - beta1) g     v = beta2 v + (1 - beta2) g^2
 * w = (1 - lr decay) w - lr m' / (sqrt(v') + eps),   m' = m / (1 - beta1^step), v' likewise
 * Source: Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization" */
void adamw(struct model *m, const struct states *s, int64_t from, int64_t to, int step, double factor) {
    const struct plan *p = m->plan;
    double lr = learning_rate(p, step), rate = lr / (1 - pow(p->beta1, step + 1));
    double root = 1 / sqrt(1 - pow(p->beta2, step + 1));
    for (const struct weight *w = m->weights; w < m->weights + m->n_weights; w++) {
        struct run own = own_part(w, from, to);
        for (int64_t i = own.at; i < own.end; i++) {
            real *mean = &s->m[i - from], *square = &s->v[i - from];
            double g = factor * m->dw[i], keep = w->decay ? 1 - lr * p->weight_decay : 1;
            *mean = (real)(p->beta1 * *mean + (1 - p->beta1) * g);
            *square = (real)(p->beta2 * *square + (1 - p->beta2) * g * g);
            m->w[i] = (real)(keep * m->w[i] - rate * *mean / (sqrt(*square) * root + p->eps));
        }
    }
}

#ifndef MY_UPDATE
/* This rank updates all weights, or with ZeRO only shard d_i. In both cases it adds shard d_i to the norm, so that each
 * number counts once. */
double update(struct model *m, const struct states *s, int step) {
    int64_t from = m->shard * grid.d_i, to = from + m->shard;
    model_tie(m);
    if (m->plan->zero)
        dp_reduce_scatter(m->dw, m->shard);
    else
        dp_sum(m->dw, m->shard * grid.d);
    double norm = sqrt(world_sum(squares(m, from, to))), clip = m->plan->clip, factor = clip / (norm + 1e-6);
    if (clip <= 0 || factor > 1) factor = 1;
    if (m->plan->zero) {
        adamw(m, s, from, to, step, factor);
        dp_all_gather(m->w, m->shard);
    } else
        adamw(m, s, 0, m->shard * grid.d, step, factor);
    memset(m->dw, 0, sizeof(real) * (size_t)(m->shard * grid.d));
    return norm;
}
#endif

int main(int n, char **words) {
    struct plan p = {.layers = 4, .hidden = 64, .heads = 4, .vocab = 256, .seq = 64, .micro_batch = 1,
                     .global_batch = 8, .steps = 20, .seed = 1234, .lr = 5e-4, .min_lr = -1, .beta1 = 0.9,
                     .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .clip = 1, .data = "configs/demo.txt"};
    struct layout l = {1, 1, 1};
    struct model model;
    MPI_Init(&n, &words);
    parse(n, words, &p, &l);
    grid_init(l.tp, l.dp, l.pp);
    if (p.micro_batch < 1 || p.global_batch % (p.micro_batch * grid.d))
        fail("micro-batch=%d x dp=%d does not divide global-batch=%d", p.micro_batch, grid.d, p.global_batch);
    data_open(&p);
    model_init(&model, &p);
    struct kept *kept[64];
    if (grid.p > 64) fail("pp=%d is above 64", grid.p);
    for (int i = 0; i < grid.p - grid.p_i; i++) kept[i] = kept_new(&model);
    size_t own = (size_t)(model.shard * (p.zero ? 1 : grid.d)), rows = (size_t)p.micro_batch * (size_t)p.seq;
    struct states states = {calloc(own, sizeof(real)), calloc(own, sizeof(real))};
    int *tokens = calloc(rows, sizeof *tokens), *targets = calloc(rows, sizeof *targets);
    if (!states.m || !states.v || !tokens || !targets) fail("no memory for %zu numbers", 2 * own);
    for (int step = 0; step < p.steps; step++) {
        double loss = forward_backward(&model, kept, step, tokens, targets), norm = update(&model, &states, step);
        loss = world_sum(grid.t_i == 0 ? loss : 0);                      /* tensor parallel ranks have equal losses */
        if (grid.rank == 0)
            printf("step %d/%d | loss %.15g | norm %.4f\n", step + 1, p.steps, loss, norm), fflush(stdout);
    }
    MPI_Finalize();
    return 0;
}
