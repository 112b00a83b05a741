/* Exercise: compute weight gradients while 1F1B idles (lesson 07, "Splitting the backward").
 *
 * Backward has two parts. B computes the gradient of the input, for which the stage before waits. W computes the
 * gradient of the weights, for which no stage waits. There are three types: struct pp_shape (pp/pp_schedule.h) has
 * n_stages and n_microbatches, struct pp_work (there) the times f, bi and w, and struct schedule is the list of actions
 * that you make. Add actions of kinds ACTION_F, ACTION_B and ACTION_W to `out`, in any order in which F, B and W of a
 * microbatch come in this order: pp_add(out, action_of(ACTION_W, 0, microbatch)). pp_add also adds sends and receives.
 * With p stages and m microbatches:
 *
 *   ZB-H1   on any stage at most min(p, m) microbatches in flight (from F to W), as on 1F1B's first stage. The bubble
 *           is (p-1)(F+Bi-W), a third of 1F1B's if F, Bi (the time of B) and W are equal
 *   ZB-H2   min(2p-1, m) in flight, and a bubble of (p-1)(F+Bi-2W), none of it between a stage's first and last action
 *
 * Draw your schedule: make mine LESSON=07 EXERCISE=zero-bubble FILE=my/pp_zero_bubble.c builds the program with your
 * file; then build/mine/trivium schedule --schedule zb-h1 --pp 4 --microbatches 8. Any order is right that has this
 * peak and bubble, and does not deadlock. You may use the loop pp_count (pp_orders.h), or write your own. */
#include "pp/pp_orders.h"

/* ---- ZB-H1 ---- */
/* TODO 1. The peak of microbatches in flight on a stage; a stage's idle time; all actions of `stage`.
 * A first claim holds when both rows have 1F1B's order, with each W directly after its B. Then move W. */
int pp_h1_peak(const struct pp_shape *x, int stage) { return (void)x, (void)stage, -1; }
double pp_h1_bubble(const struct pp_shape *x, const struct pp_work *t) { return (void)x, (void)t, -1; }
void pp_h1_order(const struct pp_shape *x, int stage, struct schedule *out) { (void)x, (void)stage, (void)out; }

/* ---- ZB-H2 ---- */
/* TODO 2. The same three functions. What does a stage need so that it is busy from its first forward on? */
int pp_h2_peak(const struct pp_shape *x, int stage) { return (void)x, (void)stage, -1; }
double pp_h2_bubble(const struct pp_shape *x, const struct pp_work *t) { return (void)x, (void)t, -1; }
void pp_h2_order(const struct pp_shape *x, int stage, struct schedule *out) { (void)x, (void)stage, (void)out; }
