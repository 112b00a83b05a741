/* In both directions at once: Chimera and DualPipe. p = 4, m = 8, F = Bi = W = 1; small letters: the other direction.
 *
 * Half of the microbatches pass the ranks from the first to the last, half from the last to the first. While one
 * direction waits for its fill or drain, the other has work. Every rank keeps two stages, so every stage has two
 * copies, whose gradients are added once per step (AXIS_MIRROR).
 *
 * Chimera: backwards first; B with both gradients. Invented to halve 1F1B's bubble without a second chunk of messages.
 * Bubble (p-2)B if F = B, or m = p; peak p/2 + 1 to p microbatches; 2 copies of the weights.
 * 0  F0 F1 F2 f4 b4--- f5 b5--- .  B0--- F3 .  B1--- f6 b6--- f7 b7--- .  B2--- .  .  B3---
 * 1  .  F0 f4 F1 f5 .  b4--- B0--- b5--- B1--- F2 f6 F3 f7 .  b6--- B2--- b7--- B3--- .  .
 * 2  .  f4 F0 f5 F1 .  B0--- b4--- B1--- b5--- f6 F2 f7 F3 .  B2--- b6--- B3--- b7--- .  .
 * 3  f4 f5 f6 F0 B0--- F1 B1--- .  b4--- f7 .  b5--- F2 B2--- F3 B3--- .  b6--- .  .  b7---
 *
 * DualPipe: W apart. Invented to overlap expert-parallel messages of one direction with the other's work, at a small
 * bubble. Bubble at most (p/2-1)(F+2Bi-W) if F = Bi = W; peak p + 2 microbatches (by the published phases p + 1);
 * 2 copies.
 * 0  F0 F1 F2 f4 b4 f5 b5 B0 F3 B1 w4 f6 b6 w5 W0 B2 W1 f7 b7 w6 W2 B3 w7 W3 .
 * 1  .  F0 f4 F1 f5 b4 B0 b5 B1 F2 f6 w4 F3 b6 B2 W0 f7 w5 W1 b7 B3 w6 W2 w7 W3
 * 2  .  f4 F0 f5 F1 B0 b4 B1 b5 f6 F2 W0 f7 B2 b6 w4 F3 W1 w5 B3 b7 W2 w6 W3 w7
 * 3  f4 f5 f6 F0 B0 F1 B1 b4 f7 b5 W0 F2 B2 W1 w4 b6 w5 F3 B3 W2 w6 b7 W3 w7 .
 *
 * Source: Li and Hoefler 2021 (Chimera); DeepSeek-AI 2024, DeepSeek-V3, section 3.2.1. */
#include "pp/pp_orders.h"

static enum status legal(const struct pp_shape *x) {
    if (x->n_stages % 2 == 0 && x->n_microbatches >= 2) return OK;
    return FAIL(E_CONFIG,
                "a pipeline in both directions takes an even pp and 2 microbatches or more, and there are pp=%d and %d "
                "microbatch%s; change them, or use schedule=1f1b",
                x->n_stages, x->n_microbatches, x->n_microbatches == 1 ? "" : "es");
}

static void chimera_order(const struct pp_shape *x, struct schedule *stages) {
    pp_list(&pp_chimera, x, &(struct pp_policy){.slope = 1}, stages);
}
static double chimera_bubble(const struct pp_shape *x, const struct pp_work *t) {
    return (x->n_stages - 2) * (t->bi + t->w);
}
const struct pp_schedule pp_chimera = {
    .name = "chimera", .place = &pp_mirror, .legal = legal, .order_all = chimera_order, .depth = pp_simulated_depth,
    .bubble = chimera_bubble, .bubble_text = "(p-2)B (if F = B or m = p)"};

static void dualpipe_order(const struct pp_shape *x, struct schedule *stages) {
    pp_list(&pp_dualpipe, x, &(struct pp_policy){.memory = x->n_stages + 2, .slope = 1, .more = 1, .gap = 50}, stages);
}
static double dualpipe_bubble(const struct pp_shape *x, const struct pp_work *t) {
    return (x->n_stages / 2.0 - 1) * (t->f + 2 * t->bi - t->w);
}
const struct pp_schedule pp_dualpipe = {
    .name = "dualpipe", .place = &pp_mirror, .split_weight = true, .legal = legal, .order_all = dualpipe_order,
    .depth = pp_simulated_depth, .bubble = dualpipe_bubble, .bubble_text = "at most (p/2-1)(F+2Bi-W)"};
