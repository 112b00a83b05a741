/* Exercise: which weights a microbatch reads (lesson 07, "No flush").
 *
 * Without a flush rank `stage` of p first runs w = p - 1 - stage forwards. Then in each step, for j = 0 .. k-1, it runs
 * the forward of microbatch j + w and the backward of microbatch j, both counted from the step's first microbatch; at
 * the end of the step it updates the weights. For both compute the age of the weights that they read: 0 is the newest
 * version on this rank at that moment, 1 the version before it. Microbatch q since the last flush must read the version
 * after this number of updates:
 *
 *   PipeDream      max(0, floor((q - w) / k)), forward and backward
 *   vertical sync  max(0, floor((q - (p-1)) / k)), forward and backward, on every stage
 *   2BW            max(0, floor(q / k) - 1), forward and backward, on every stage
 *
 * In step n the rank has made n updates, and its microbatch j is q = n k + j. An age that reaches beyond the flush
 * means the version of the flush, so you can ignore this case. Also set the number of versions that a stage keeps.
 * PipeMare, which always reads the newest version, is given. */
#include "pp/pp_orders.h"

#include "lib/base/integer.h"

/* Ages of the weights that a stage reads for the forward of a step's microbatch j + w, and for the backward of j. */
struct ages { int64_t forward, backward; };

static void endless(const struct pp_shape *x, int stage, struct ages (*ages)(const struct pp_shape *, int stage, int j),
                    struct schedule *out) {
    int warm = x->n_stages - 1 - stage;
    for (int f = 0; f < warm; f++) pp_add(out, action_of(ACTION_F, 0, f));
    out->n_fill = out->n;
    for (int j = 0; j < x->n_microbatches; j++) {
        struct ages age = ages(x, stage, j);
        struct action f = action_of(ACTION_F, 0, j + warm), b = action_of(ACTION_B, 0, j);
        f.age = (int)age.forward, b.age = (int)age.backward;
        pp_add(out, f);
        pp_add(out, b);
    }
    out->n_frames = warm + 1;
    out->n_ahead = x->n_stages - 1;
}

static int peak(const struct pp_shape *x, int stage) { return x->n_stages - stage; }
static double bubble(const struct pp_shape *x, const struct pp_work *t) {
    return (x->n_stages - 1) * (t->f + t->bi + t->w);
}

/* ---- PipeDream ---- */
/* TODO */
static struct ages stashed(const struct pp_shape *x, int stage, int j) {
    (void)x, (void)stage, (void)j;
    return (struct ages){-1, -1};
}
static void pipedream_order(const struct pp_shape *x, int stage, struct schedule *out) {
    endless(x, stage, stashed, out);
    out->n_versions = 1;   /* TODO */
}

/* ---- vertical sync ---- */
/* TODO */
static struct ages vertical(const struct pp_shape *x, int stage, int j) {
    (void)x, (void)stage, (void)j;
    return (struct ages){-1, -1};
}
static void vertical_order(const struct pp_shape *x, int stage, struct schedule *out) {
    endless(x, stage, vertical, out);
    out->n_versions = 1;   /* TODO */
}

/* ---- 2BW ---- */
/* TODO: microbatch j + w may belong to the next update. */
static struct ages double_buffered(const struct pp_shape *x, int stage, int j) {
    (void)x, (void)stage, (void)j;
    return (struct ages){-1, -1};
}
static void two_bw_order(const struct pp_shape *x, int stage, struct schedule *out) {
    endless(x, stage, double_buffered, out);
    out->n_versions = 2;
}
static enum status two_bw_legal(const struct pp_shape *x) {
    if (x->n_microbatches >= x->n_stages) return OK;
    return FAIL(E_CONFIG,
                "schedule=2bw is one update late and no more if there are as many microbatches per update as stages; "
                "pp=%d "
                "and %d microbatches: use a smaller micro-batch, or schedule=pipedream",
                x->n_stages, x->n_microbatches);
}

/* ---- PipeMare ---- */
static struct ages newest(const struct pp_shape *x, int stage, int j) {
    (void)x, (void)stage, (void)j;
    return (struct ages){0, 0};
}
static void pipemare_order(const struct pp_shape *x, int stage, struct schedule *out) {
    endless(x, stage, newest, out);
    out->n_versions = 1;
}

#define ENDLESS \
    .place = &pp_wind, .endless = true, .peak = peak, .bubble = bubble, .bubble_text = "per flush (p-1)(F+B)"
const struct pp_schedule pp_pipedream = {.name = "pipedream", ENDLESS, .order = pipedream_order};
const struct pp_schedule pp_vertical = {.name = "vertical", ENDLESS, .order = vertical_order};
const struct pp_schedule pp_2bw = {.name = "2bw",
                                   ENDLESS,
                                   .one_age = true,
                                   .order = two_bw_order,
                                   .legal = two_bw_legal};
const struct pp_schedule pp_pipemare = {.name = "pipemare", ENDLESS, .order = pipemare_order};

/* ---- unrolled, with an end ---- */
void pp_unroll(const struct schedule *s, int updates, struct schedule *out) {
    int k = s->n_microbatches;
    *out = *s;
    out->actions = NULL;
    out->n = out->n_fill = out->n_frames = 0;
    out->n_microbatches = updates * k;
    for (int u = 0; u < updates; u++)
        for (int i = u ? s->n_fill : 0; i < s->n; i++) {
            struct action a = s->actions[i];
            a.microbatch += u * k;
            if (a.microbatch >= out->n_microbatches) continue;
            schedule_add(out, a.kind, a.chunk, a.microbatch);
            out->actions[out->n - 1].age = a.age;
        }
}
