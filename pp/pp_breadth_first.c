/* Breadth-first: GPipe over v chunks per stage. p = 4, m = 8, v = 2, F = 1 and B = 2 of a stage:
 *
 * 0  F0F1F2F3F4F5F6F7f0f1f2f3f4f5f6f7. . . . . . . . . b0- b1- b2- b3- b4- b5- b6- b7- B0- B1- B2- B3- B4- B5- B6- B7-
 * 1  . F0F1F2F3F4F5F6F7f0f1f2f3f4f5f6f7. . . . . . b0- b1- b2- b3- b4- b5- b6- b7- B0- B1- B2- B3- B4- B5- B6- B7- . .
 * 2  . . F0F1F2F3F4F5F6F7f0f1f2f3f4f5f6f7. . . b0- b1- b2- b3- b4- b5- b6- b7- B0- B1- B2- B3- B4- B5- B6- B7- . . . .
 * 3  . . . F0F1F2F3F4F5F6F7f0f1f2f3f4f5f6f7b0- b1- b2- b3- b4- b5- b6- b7- B0- B1- B2- B3- B4- B5- B6- B7- . . . . . .
 *
 * All microbatches pass the first chunk, then all the second, and so on; backwards likewise, from the last chunk to the
 * first. Invented for ZeRO-3: a chunk's weights are gathered once per step and not once per microbatch, and its
 * gradients are complete as soon as its last backward is done.
 * Bubble (p-1)(F+B)/v, if m is at least p; peak m v chunks, as GPipe; 1 copy of the weights.
 *
 * Source: Lamy-Poirier 2022, "Breadth-first pipeline parallelism". */
#include "pp/pp_orders.h"

#include "lib/base/integer.h"

static void order(const struct pp_shape *x, int stage, struct schedule *out) {
    (void)stage;
    pp_count(x, (struct pp_count){.warm = x->n_microbatches * x->n_chunks, .group = x->n_microbatches}, out);
}
static int peak(const struct pp_shape *x, int stage) { return (void)stage, x->n_microbatches * x->n_chunks; }
/* The first stage receives nothing from the last stage before it has sent all microbatches of a chunk. */
static int depth(const struct pp_schedule *row, const struct pp_shape *x) {
    (void)row;
    return x->n_chunks > 1 ? (int)max64(1, x->n_microbatches - x->n_stages) : 1;
}
/* With fewer microbatches than stages, each chunk waits for the first microbatch to come around. */
static double bubble(const struct pp_shape *x, const struct pp_work *t) {
    int64_t waits = x->n_stages - 1 + (x->n_chunks - 1) * max64(0, x->n_stages - x->n_microbatches);
    return (double)waits * (t->f + t->bi + t->w) / x->n_chunks;
}
const struct pp_schedule pp_breadth_first = {
    .name = "breadth-first", .place = &pp_wind, .chunked = true, .order = order, .depth = depth, .peak = peak,
    .bubble = bubble, .bubble_text = "(p-1)(F+B)/v"};
