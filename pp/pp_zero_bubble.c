/* Zero-bubble schedules in one direction: ZB-H1, ZB-H2, and interleaved with W apart.
 *
 * Backward makes two things. The stage before waits for the gradient of the input, Bi; no stage waits for the gradient
 * of the weights, W. As its own action, W can fill 1F1B's idle time. Here p = 4, m = 8, F = Bi = W = 1; B is Bi.
 *
 * ZB-H1: 1F1B; W stays `stage` microbatches behind its B, and later Ws fill the drain. Invented to have a third of
 * 1F1B's bubble in 1F1B's memory. Bubble (p-1)(F+Bi-W); peak min(p, m) microbatches on every stage; 1 copy of the
 * weights.
 * 0  F0 F1 F2 F3 .  .  .  B0 W0 F4 B1 W1 F5 B2 W2 F6 B3 W3 F7 B4 W4 B5 W5 B6 W6 B7 W7
 * 1  .  F0 F1 F2 .  .  B0 F3 B1 W0 F4 B2 W1 F5 B3 W2 F6 B4 W3 F7 B5 W4 B6 W5 B7 W6 W7
 * 2  .  .  F0 F1 .  B0 F2 B1 F3 B2 W0 F4 B3 W1 F5 B4 W2 F6 B5 W3 F7 B6 W4 B7 W5 W6 W7
 * 3  .  .  .  F0 B0 F1 B1 F2 B2 F3 B3 W0 F4 B4 W1 F5 B5 W2 F6 B6 W3 F7 B7 W4 W5 W6 W7
 *
 * ZB-H2: twice the warm-up, and W twice as far behind, so that the fill is full, too. Invented to have no bubble:
 * (p-1)(F+Bi-2W), from a stage's own first action to its last. The steps of the stages are shifted against each other:
 * a sum over all stages at the end of a step (the gradient norm) makes a rectangle of this parallelogram, and then H2
 * takes as long as H1, unless no stage waits for it (--optim-sync validate). Peak min(2p-1, m); 1 copy.
 * 0  F0 F1 F2 F3 F4 F5 F6 B0 W0 F7 B1 W1 B2 W2 B3 W3 B4 W4 B5 W5 B6 W6 B7 W7 .  .  .
 * 1  .  F0 F1 F2 F3 F4 B0 F5 B1 F6 B2 W0 F7 B3 W1 B4 W2 B5 W3 B6 W4 B7 W5 W6 W7 .  .
 * 2  .  .  F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 W0 F7 B5 W1 B6 W2 B7 W3 W4 W5 W6 W7 .
 * 3  .  .  .  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 W0 F7 B7 W1 W2 W3 W4 W5 W6 W7
 *
 * Interleaved, v = 2, W `stage` chunks behind its B: less bubble than interleaved; no closed form. Peak as interleaved,
 * and more where W is late. 1 copy.
 * 0  F0F1F2F3f0f1f2f3F4F5F6b0w0F7b1w1. f4b2w2f5b3w3f6B0W0f7B1W1B2W2B3W3b4w4. b5w5b6. w6b7w7B4W4B5W5B6W6B7W7
 * 1  . F0F1F2F3f0f1f2f3F4b0F5b1w0F6b2w1F7b3w2f4B0w3f5B1W0f6B2W1f7B3W2b4W3. b5w4b6w5. b7w6B4w7B5W4B6W5B7W6W7
 * 2  . . F0F1F2F3f0f1f2b0f3b1F4b2w0F5b3w1F6B0w2F7B1w3f4B2W0f5B3W1f6b4W2f7b5W3b6w4. b7w5B4w6B5w7B6W4B7W5W6W7
 * 3  . . . F0F1F2F3f0b0f1b1f2b2f3b3w0F4B0w1F5B1w2F6B2w3F7B3W0f4b4W1f5b5W2f6b6W3f7b7w4B4w5B5w6B6w7B7W4W5W6W7
 *
 * W needs most activations of its microbatch, so B alone frees only a part of them (`trivium show memory`).
 *
 * Source: Qi et al. 2023, "Zero bubble pipeline parallelism", section 2. */
#include "pp/pp_orders.h"

#include "lib/base/integer.h"

/* ---- ZB-H1 ---- */
void pp_h1_order(const struct pp_shape *x, int stage, struct schedule *out) {
    pp_count(x, (struct pp_count){.warm = x->n_stages - 1 - stage, .group = x->n_microbatches, .late = stage}, out);
}
int pp_h1_peak(const struct pp_shape *x, int stage) { return (void)stage, (int)min64(x->n_stages, x->n_microbatches); }
double pp_h1_bubble(const struct pp_shape *x, const struct pp_work *t) {
    return (x->n_stages - 1) * (t->f + t->bi - t->w);
}

/* ---- ZB-H2 ---- */
void pp_h2_order(const struct pp_shape *x, int stage, struct schedule *out) {
    int warm = 2 * (x->n_stages - 1 - stage);
    pp_count(x, (struct pp_count){.warm = warm, .group = x->n_microbatches, .late = 2 * stage}, out);
}
int pp_h2_peak(const struct pp_shape *x, int stage) {
    (void)stage;
    return (int)min64(2 * x->n_stages - 1, x->n_microbatches);
}
double pp_h2_bubble(const struct pp_shape *x, const struct pp_work *t) {
    return (x->n_stages - 1) * (t->f + t->bi - 2 * t->w);
}
