/* Naive: one microbatch at a time, forward through all stages and back. Here p = 4, m = 8, F = 1 and B = 2:
 *
 * 0  F.........BBF.........BBF.........BBF.........BBF.........BBF.........BBF.........BBF.........BB
 * 1  .F......BB...F......BB...F......BB...F......BB...F......BB...F......BB...F......BB...F......BB..
 * 2  ..F...BB......F...BB......F...BB......F...BB......F...BB......F...BB......F...BB......F...BB....
 * 3  ...FBB.........FBB.........FBB.........FBB.........FBB.........FBB.........FBB.........FBB......
 *
 * A model that does not fit on one device is partitioned by depth. While one stage works, the others wait, so p devices
 * are as fast as one. Every other schedule is measured against this one.
 * Bubble m(p-1)(F+B); peak 1 microbatch in flight, the minimum; 1 copy of the weights.
 *
 * A microbatch makes 2p - 2 hops, one after the other, and leaves 2p - 1 tensors on its way: the p inputs that stages
 * keep, and the p - 1 gradients that come back. */
#include "pp/pp_orders.h"

static void order(const struct pp_shape *x, int stage, struct schedule *out) {
    (void)stage;
    pp_count(x, (struct pp_count){.warm = 0, .group = 1}, out);
}
static int peak(const struct pp_shape *x, int stage) { return (void)x, (void)stage, 1; }
static double bubble(const struct pp_shape *x, const struct pp_work *t) {
    return x->n_microbatches * (x->n_stages - 1) * (t->f + t->bi + t->w);
}
const struct pp_schedule pp_naive = {.name = "naive", .place = &pp_wind, .order = order, .peak = peak, .bubble = bubble,
                                     .bubble_text = "m(p-1)(F+B)"};
