/* Exercise: compute weight gradients while 1F1B idles (lesson 07, "Splitting the backward").
 *
 * Backward has two parts. B computes the gradient of the input, for which the stage before waits. W computes the
 * gradient of the weights, for which no stage waits. Add actions of kinds ACTION_F, ACTION_B and ACTION_W to `out`, in
 * any order in which F, B and W of a microbatch come in this order: pp_add(out, action_of(ACTION_W, 0, microbatch)).
 * pp_add also adds sends and receives. With p stages and m microbatches:
 *
 *   ZB-H1   on any stage at most min(p, m) microbatches in flight (from F to W), as on 1F1B's first stage. The bubble
 *           is (p-1)(F+Bi-W), a third of 1F1B's if F, Bi (the time of B) and W are equal
 *   ZB-H2   min(2p-1, m) in flight, and a bubble of (p-1)(F+Bi-2W), none of it between a stage's first and last action
 *
 * Draw your schedule: build/trivium schedule --schedule zb-h1 --pp 4 --microbatches 8. Any order is right that has this
 * peak and bubble, and does not deadlock. You may use the loop pp_count (pp_orders.h), or write your own. */
#include "pp/pp_orders.h"

/* ---- ZB-H1 ---- */
/* TODO: add all actions of `stage`. */
static void h1_order(const struct pp_shape *x, int stage, struct schedule *out) { (void)x, (void)stage, (void)out; }
/* TODO: the peak of microbatches in flight on a stage; a stage's idle time. */
static int h1_peak(const struct pp_shape *x, int stage) { return (void)x, (void)stage, -1; }
static double h1_bubble(const struct pp_shape *x, const struct pp_work *t) { return (void)x, (void)t, -1; }

/* ---- ZB-H2 ---- */
/* TODO: the same three functions. What does a stage need so that it is busy from its first forward on? */
static void h2_order(const struct pp_shape *x, int stage, struct schedule *out) { (void)x, (void)stage, (void)out; }
static int h2_peak(const struct pp_shape *x, int stage) { return (void)x, (void)stage, -1; }
static double h2_bubble(const struct pp_shape *x, const struct pp_work *t) { return (void)x, (void)t, -1; }

/* ---- given ---- */
const struct pp_schedule pp_zb_h1 = {.name = "zb-h1", .place = &pp_wind, .split_weight = true, .order = h1_order,
                                     .peak = h1_peak, .bubble = h1_bubble, .bubble_text = "(p-1)(F+Bi-W)"};
const struct pp_schedule pp_zb_h2 = {.name = "zb-h2", .place = &pp_wind, .split_weight = true, .order = h2_order,
                                     .peak = h2_peak, .bubble = h2_bubble, .bubble_text = "(p-1)(F+Bi-2W)"};

/* ---- interleaved, W apart ---- */
static void interleaved_order(const struct pp_shape *x, int stage, struct schedule *out) {
    int after = x->n_stages - 1 - stage, warm = x->n_chunks == 1 ? after : 2 * after + (x->n_chunks - 1) * x->n_stages;
    pp_count(x, (struct pp_count){.warm = warm, .group = x->n_stages, .late = stage}, out);
}
const struct pp_schedule pp_interleaved_zb = {
    .name = "interleaved-zb", .place = &pp_wind, .chunked = true, .grouped = true, .split_weight = true,
    .order = interleaved_order, .depth = pp_simulated_depth};
