/* Exercise: three schedules (lesson 07, "Three orders"), and their costs.
 *
 *   GPipe         all forwards, then all backwards       F0 F1 F2 F3 | B0 B1 B2 B3
 *   1F1B          stage i of p warms up with p - 1 - i forwards; then one forward, one backward; then it drains
 *   interleaved   1F1B over v chunks of the model per stage: virtual stage = chunk p + stage. Microbatches go in groups
 *                 of p: a group passes all chunks before the next one starts. Warm-up: 2 (p - 1 - i) + (v - 1) p
 *
 * A schedule is a row (struct pp_schedule). Its order is a list of actions (lib/program/schedule.h), made with
 * schedule_add(out, kind, chunk, microbatch). A receive comes directly before the action that reads the message, a send
 * directly after the action that computes it: RECV_F F SEND_F, RECV_B B SEND_B. A chunk's neighbors are given:
 * out->hops[chunk][HOP_NEXT] and out->hops[chunk][HOP_BEFORE]. Rank -1 means no neighbor: the model begins or ends
 * there. The run sends exactly the messages of this table.
 *
 * pp_schedule.h says what each function returns. Start with pp_add, then 1F1B, which has n_chunks = 1. */
#include "pp/pp_schedule.h"

/* TODO: add action F or B, with its receive before and its send after, if there are neighbors; or W, which has no
 * transfers. */
void pp_add(struct schedule *s, struct action a) { (void)s, (void)a; }

/* TODO: add all actions of `stage`, in order. One function can serve all three schedules. */
static void gpipe_order(const struct pp_shape *x, int stage, struct schedule *out) { (void)x, (void)stage, (void)out; }
static void one_f_one_b_order(const struct pp_shape *x, int stage, struct schedule *out) {
    (void)x, (void)stage, (void)out;
}
static void interleaved_order(const struct pp_shape *x, int stage, struct schedule *out) {
    (void)x, (void)stage, (void)out;
}

/* TODO: walk the table and count. With separate weight gradients (s->split_weight), W frees the activations of F. */
int pp_peak_in_flight(const struct schedule *s) {
    (void)s;
    return -1;
}

/* TODO: the same peaks by formula. */
static int gpipe_peak(const struct pp_shape *x, int stage) { return (void)x, (void)stage, -1; }
static int one_f_one_b_peak(const struct pp_shape *x, int stage) { return (void)x, (void)stage, -1; }
static int interleaved_peak(const struct pp_shape *x, int stage) { return (void)x, (void)stage, -1; }

/* TODO: the idle time of a stage in a step, for all three schedules. */
static double bubble(const struct pp_shape *x, const struct pp_work *t) { return (void)x, (void)t, -1; }

/* ---- given ---- */
const struct pp_schedule pp_gpipe = {.name = "gpipe", .place = &pp_wind, .order = gpipe_order, .peak = gpipe_peak,
                                     .bubble = bubble, .bubble_text = "(p-1)(F+B)"};
const struct pp_schedule pp_1f1b = {.name = "1f1b", .place = &pp_wind, .order = one_f_one_b_order,
                                    .peak = one_f_one_b_peak, .bubble = bubble, .bubble_text = "(p-1)(F+B)"};
const struct pp_schedule pp_interleaved = {
    .name = "interleaved", .place = &pp_wind, .chunked = true, .grouped = true, .order = interleaved_order,
    .peak = interleaved_peak, .bubble = bubble, .bubble_text = "(p-1)(F+B)/v"};
