/* Exercise: three schedules (lesson 07, "Three orders"), and their costs.
 *
 *   GPipe         all forwards, then all backwards       F0 F1 F2 F3 | B0 B1 B2 B3
 *   1F1B          stage i of p warms up with p - 1 - i forwards; then one forward, one backward; then it drains
 *   interleaved   1F1B over v chunks of the model per stage: virtual stage = chunk p + stage. Microbatches go in groups
 *                 of p: a group passes all chunks before the next one starts. Warm-up: 2 (p - 1 - i) + (v - 1) p
 *
 * There are three types. struct pp_shape (pp/pp_schedule.h) is what you get: n_stages, n_chunks, n_microbatches. struct
 * schedule (lib/program/schedule.h) is what you make: a list of actions, s->actions[0 .. s->n). struct action, one of
 * them, has kind, chunk and microbatch. schedule_add(out, kind, chunk, microbatch) appends one. A receive comes
 * directly before the action that reads the message, a send directly after the action that computes it: RECV_F F
 * SEND_F, RECV_B B SEND_B. A chunk's neighbors are given: out->hops[chunk][HOP_NEXT] and out->hops[chunk][HOP_BEFORE],
 * whose rank is -1 for no neighbor: the model begins or ends there. The run sends exactly the messages of this table.
 *
 * A first claim holds after pp_add and the order of 1F1B, which has n_chunks = 1. Draw your schedule: make mine
 * LESSON=07 EXERCISE=schedule FILE=my/pp_schedule.c builds the program with your file; then
 * build/mine/trivium schedule --schedule 1f1b --pp 4 --microbatches 8. */
#include "pp/pp_orders.h"

/* TODO 1. Add action F or B, with its receive before and its send after, if there are neighbors; or W, which has no
 * transfers. */
void pp_add(struct schedule *s, struct action a) { (void)s, (void)a; }

/* TODO 2. Add all actions of `stage`, in order: pp_add(out, action_of(ACTION_F, chunk, microbatch)). One function can
 * serve all three schedules. */
void pp_1f1b_order(const struct pp_shape *x, int stage, struct schedule *out) { (void)x, (void)stage, (void)out; }
void pp_gpipe_order(const struct pp_shape *x, int stage, struct schedule *out) { (void)x, (void)stage, (void)out; }

/* TODO 3. Walk the table and count. With separate weight gradients (s->split_weight), W frees the activations of F. */
int pp_peak_in_flight(const struct schedule *s) {
    (void)s;
    return -1;
}

/* TODO 4. The same peaks by formula. */
int pp_1f1b_peak(const struct pp_shape *x, int stage) { return (void)x, (void)stage, -1; }
int pp_gpipe_peak(const struct pp_shape *x, int stage) { return (void)x, (void)stage, -1; }

/* TODO 5. The idle time of a stage in a step, for all three schedules. f_and_b: the time of a microbatch's forward and
 * backward on a stage, in all its chunks. */
double pp_bubble(const struct pp_shape *x, double f_and_b) { return (void)x, (void)f_and_b, -1; }

/* TODO 6. With chunks. */
void pp_interleaved_order(const struct pp_shape *x, int stage, struct schedule *out) {
    (void)x, (void)stage, (void)out;
}
int pp_interleaved_peak(const struct pp_shape *x, int stage) { return (void)x, (void)stage, -1; }
