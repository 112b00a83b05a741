/* Exercise: put the weight gradients where 1F1B idles (lesson 07, "Splitting the backward").
 *
 * Backward makes two things. B is the gradient of the input, which the stage before waits for; W that of the weights,
 * which no stage waits for. `out` takes actions of kinds ACTION_F, ACTION_B and ACTION_W, in any order in which B
 * comes after F and W after B of a microbatch: pp_add(out, action_of(ACTION_W, 0, microbatch)). Sends and receives are
 * put in for you.
 *
 *   ZB-H1   no more microbatches in flight (from F to W) on any stage than 1F1B has on its first stage: min(p, m); and
 *           if F, Bi (the time of B) and W are equal, a third of its bubble: (p-1)(F+Bi-W)
 *   ZB-H2   min(2p-1, m) in flight, and no bubble from a stage's own first action to its last: (p-1)(F+Bi-2W)
 *
 * Draw what you have: build/trivium schedule --schedule zb-h1 --pp 4 --microbatches 8. The orders are free: what counts
 * is peak, bubble, and that they do not deadlock. pp_count (pp_orders.h) is a loop that you may use; or write one. */
#include "pp/pp_orders.h"

/* ---- ZB-H1 ---- */
/* TODO: all actions of `stage`. */
static void h1_order(const struct pp_shape *x, int stage, struct schedule *out) { (void)x, (void)stage, (void)out; }
/* TODO: the most that is in flight on it, and what it idles. */
static int h1_peak(const struct pp_shape *x, int stage) { return (void)x, (void)stage, -1; }
static double h1_bubble(const struct pp_shape *x, const struct pp_work *t) { return (void)x, (void)t, -1; }

/* ---- ZB-H2 ---- */
/* TODO: the same three. What does a stage need to be busy from its own first forward on? */
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
