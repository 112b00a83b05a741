/* Without a flush: PipeDream, vertical sync, 2BW and PipeMare. Here p = 4, k = 4 microbatches per update, two updates.
 *
 * 1F1B without a drain between updates: after the fill every rank alternates forward and backward, and updates after
 * every k backwards. Only fill and drain have a bubble, (p-1)(F+B) per flush; peak p - stage microbatches.
 * 0  F0 F1 F2 F3 .  .  .  .  .  .  B0--- F4 B1--- F5 B2--- F6 B3--- F7 B4--- .  B5--- .  B6--- .  B7---
 * 1  .  F0 F1 F2 .  .  .  .  B0--- F3 B1--- F4 B2--- F5 B3--- F6 B4--- F7 B5--- .  B6--- .  B7--- .  .
 * 2  .  .  F0 F1 .  .  B0--- F2 B1--- F3 B2--- F4 B3--- F5 B4--- F6 B5--- F7 B6--- .  B7--- .  .  .  .
 * 3  .  .  .  F0 B0--- F1 B1--- F2 B2--- F3 B3--- F4 B4--- F5 B5--- F6 B6--- F7 B7--- .  .  .  .  .  .
 *
 * The price: a gradient is stale, and the weights that a microbatch reads depend on the stage. Let w = p - 1 - stage,
 * and t the microbatch's number since the last flush. Each formula counts the updates in the weights that t reads:
 *
 * PipeDream: max(0, floor((t - w) / k)), forward and backward. A stage stashes the weights that a microbatch's forward
 * reads until its backward. Invented to remove the flush. ceil(w / k) + 1 versions of the weights.
 * 0  F 0 0 0 0 0 0 0 1  B 0 0 0 0 0 0 0 1  2 versions
 * 1  F 0 0 0 0 0 0 1 1  B 0 0 0 0 0 0 1 1  2 versions
 * 2  F 0 0 0 0 0 1 1 1  B 0 0 0 0 0 1 1 1  2 versions
 * 3  F 0 0 0 0 1 1 1 1  B 0 0 0 0 1 1 1 1  1 version
 * Vertical sync: max(0, floor((t - (p-1)) / k)) on every stage: a microbatch reads weights of one update everywhere.
 * Invented to make PipeDream's gradient one of a single model. ceil((p-1) / k) + 1 versions on every stage.
 * 0  F 0 0 0 0 0 0 0 1  B 0 0 0 0 0 0 0 1  2 versions
 * 1  F 0 0 0 0 0 0 0 1  B 0 0 0 0 0 0 0 1  2 versions
 * 2  F 0 0 0 0 0 0 0 1  B 0 0 0 0 0 0 0 1  2 versions
 * 3  F 0 0 0 0 0 0 0 1  B 0 0 0 0 0 0 0 1  2 versions
 * 2BW: max(0, floor(t / k) - 1) on every stage: one update late, always. Invented to need two versions, however deep
 * the pipeline. k has to be at least p.
 * 0  F 0 0 0 0 0 0 0 0  B 0 0 0 0 0 0 0 0  2 versions
 * 1  F 0 0 0 0 0 0 0 0  B 0 0 0 0 0 0 0 0  2 versions
 * 2  F 0 0 0 0 0 0 0 0  B 0 0 0 0 0 0 0 0  2 versions
 * 3  F 0 0 0 0 0 0 0 0  B 0 0 0 0 0 0 0 0  2 versions
 * PipeMare: always the newest weights; forward and backward may read different ones. Invented to keep one version only.
 * 0  F 0 0 0 0 0 0 0 1  B 0 0 0 0 1 1 1 1  1 version
 * 1  F 0 0 0 0 0 0 1 1  B 0 0 0 0 1 1 1 1  1 version
 * 2  F 0 0 0 0 0 1 1 1  B 0 0 0 0 1 1 1 1  1 version
 * 3  F 0 0 0 0 1 1 1 1  B 0 0 0 0 1 1 1 1  1 version
 *
 * Each action has an age: the number of updates between its weights and the newest weights on its rank. The
 * executor finds their slot (lib/run/versions.h). pp_ages.c has the ages.
 *
 * Source: Narayanan et al. 2019 (PipeDream), section 3.3; Narayanan et al. 2021, "Memory-efficient pipeline-parallel
 * DNN training" (2BW); Yang et al. 2021 (PipeMare). */
#include "pp/pp_orders.h"

static void endless(const struct pp_shape *x, int stage, pp_ages_of *ages, struct schedule *out) {
    int warm = x->n_stages - 1 - stage;
    for (int f = 0; f < warm; f++) pp_add(out, action_of(ACTION_F, 0, f));
    out->n_fill = out->n;
    for (int j = 0; j < x->n_microbatches; j++) {
        struct pp_ages age = ages(x, stage, j);
        struct action f = action_of(ACTION_F, 0, j + warm), b = action_of(ACTION_B, 0, j);
        f.age = (int)age.forward, b.age = (int)age.backward;
        pp_add(out, f);
        pp_add(out, b);
    }
    out->n_frames = warm + 1;
    out->n_ahead = x->n_stages - 1;
    out->n_versions = pp_versions(x, stage, ages);
}

static int peak(const struct pp_shape *x, int stage) { return x->n_stages - stage; }
static double bubble(const struct pp_shape *x, const struct pp_work *t) {
    return (x->n_stages - 1) * (t->f + t->bi + t->w);
}

/* ---- one function of ages each ---- */
static void pipedream_order(const struct pp_shape *x, int stage, struct schedule *out) {
    endless(x, stage, pp_stashed, out);
}
static void vertical_order(const struct pp_shape *x, int stage, struct schedule *out) {
    endless(x, stage, pp_vertical_sync, out);
}
static void two_bw_order(const struct pp_shape *x, int stage, struct schedule *out) {
    endless(x, stage, pp_double_buffered, out);
}
static enum status two_bw_legal(const struct pp_shape *x) {
    if (x->n_microbatches >= x->n_stages) return OK;
    return FAIL(E_CONFIG,
                "schedule=2bw is one update late and no more if there are as many microbatches per update as stages; "
                "pp=%d and %d microbatches: use a smaller micro-batch, or schedule=pipedream",
                x->n_stages, x->n_microbatches);
}

static struct pp_ages newest(const struct pp_shape *x, int stage, int j) {
    return (void)x, (void)stage, (void)j, (struct pp_ages){0, 0};
}
static void pipemare_order(const struct pp_shape *x, int stage, struct schedule *out) {
    endless(x, stage, newest, out);
}

#define ENDLESS \
    .place = &pp_wind, .endless = true, .peak = peak, .bubble = bubble, .bubble_text = "per flush (p-1)(F+B)"
const struct pp_schedule pp_pipedream = {.name = "pipedream", ENDLESS, .order = pipedream_order};
const struct pp_schedule pp_vertical = {.name = "vertical", ENDLESS, .order = vertical_order};
const struct pp_schedule pp_2bw = {.name = "2bw", ENDLESS, .one_age = true, .order = two_bw_order,
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
