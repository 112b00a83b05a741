/* Down the ranks and back: ZB-V and DualPipeV. p = 4, m = 8, F = Bi = W = 1 of a rank; small letters: the way back.
 *
 * ZB-V. Rank 0 has the first stage and the last: no bubble, in 1F1B's memory, because a rank that keeps activations
 * long on the way down keeps them briefly on the way back. Invented to have ZB-H2's bubble with half of its memory.
 * Bubble 0 if F = Bi = W; peak 2p chunks of half a stage on every rank, p microbatches; 1 copy of the weights.
 * 0  F0F1F2F3F4F5F6f0b0w0f1b1w1f2b2w2f3b3w3F7B0W0f4b4w4B1W1f5b5w5B2W2f6b6w6B3W3f7b7w7B4W4B5W5B6W6B7W7. . .
 * 1  . F0F1F2F3F4f0F5f1b0w0f2b1w1f3b2w2F6B0W0f4b3w3F7B1W1f5b4w4B2W2f6b5w5B3W3f7b6w6B4b7B5W4B6W5B7W6w7W7. .
 * 2  . . F0F1F2f0F3f1F4f2b0w0f3b1w1F5B0W0f4b2w2F6B1W1f5b3w3F7B2W2f6b4w4B3W3f7b5w5B4b6B5b7B6W4B7W5w6w7W6W7.
 * 3  . . . F0f0F1f1F2f2F3f3b0w0F4B0W0f4b1w1F5B1W1f5b2w2F6B2W2f6b3w3F7B3W3f7b4w4B4b5B5b6B6b7B7W4w5w6w7W5W6W7
 *
 * DualPipeV: the same placement, by list scheduling of forwards and backwards of both ways; peak 2p + 2 chunks.
 * Invented as DualPipe without the second copy of the weights. Bubble at most (p-1)(F+2Bi-W)/2; 1 copy.
 * 0  F0F1F2F3F4F5F6f0b0f1b1f2b2w0f3B0b3B1w1B2w2f4b4B3W0F7w3f5b5B4W1W2w4f6b6B5W3w5W4f7b7B6w6W5w7W6. B7W7. .
 * 1  . F0F1F2F3F4f0F5f1b0f2b1f3b2B0w0B1b3B2w1f4w2B3b4F6W0f5W1B4b5F7w3f6W2B5b6W3w4f7W4B6b7w5W5w6W6B7w7W7. .
 * 2  . . F0F1F2f0F3f1F4f2b0f3b1B0b2B1w0B2b3f4w1B3F5W0b4f5w2B4F6W1b5f6W2B5F7w3b6f7W3B6w4W4b7w5W5B7w6W6w7W7.
 * 3  . . . F0f0F1f1F2f2F3f3b0B0b1B1b2B2F4f4b3B3w0W0F5f5b4B4w1W1F6f6b5B5w2W2F7f7b6B6w3W3w4W4b7B7w5W5w6W6w7W7
 *
 * ZB-V's order is made by phases, which need 2p microbatches; with fewer it is made by list scheduling, in the same
 * memory. The embedding and the head are on one rank, so tying them costs no message.
 *
 * Source: Qi et al. 2024, "Pipeline parallelism with controllable memory", section 6; DeepSeek-AI 2025 (DualPipeV). */
#include "pp/pp_orders.h"

#include "lib/base/integer.h"

/* ---- ZB-V ---- */
static void zb_v_stage(const struct pp_shape *x, int i, struct schedule *out) {
    int p = x->n_stages, m = x->n_microbatches;
    const struct pp_phase phases[] = {{2 * (p - i) - 1, "F0"},
                                      {i, "F1F0"},
                                      {p - i, "F1B1W1"},
                                      {UNTIL_FORWARDS_END, "F0B0W0F1B1W1"},
                                      {i, "B0B1"},
                                      {p - i, "B0W0"},
                                      {m, "B1W1"},
                                      {m, "B0W0"}};
    pp_phases(phases, sizeof phases / sizeof *phases, out);
}
static void zb_v_order(const struct pp_shape *x, struct schedule *stages) {
    const struct pp_policy list = {.memory = 2 * x->n_stages, .gap = 50};
    if (x->n_microbatches < 2 * x->n_stages) pp_list(&pp_zb_v, x, &list, stages);
    else
        for (int i = 0; i < x->n_stages; i++) zb_v_stage(x, i, &stages[i]);
}
static int zb_v_peak(const struct pp_shape *x, int stage) {
    (void)stage;
    return 2 * (int)min64(x->n_stages, x->n_microbatches);
}
static double zb_v_bubble(const struct pp_shape *x, const struct pp_work *t) { return (void)x, (void)t, 0; }
const struct pp_schedule pp_zb_v = {.name = "zb-v", .place = &pp_vee, .split_weight = true, .order_all = zb_v_order,
                                    .depth = pp_simulated_depth, .peak = zb_v_peak, .bubble = zb_v_bubble,
                                    .bubble_text = "(if F = Bi = W and m >= 2p)"};

/* ---- DualPipeV ---- */
static void dualpipe_v_order(const struct pp_shape *x, struct schedule *stages) {
    const struct pp_policy list = {.memory = 2 * x->n_stages + 2, .gap = 50};
    pp_list(&pp_dualpipe_v, x, &list, stages);
}
static double dualpipe_v_bubble(const struct pp_shape *x, const struct pp_work *t) {
    return (x->n_stages - 1) * (t->f + 2 * t->bi - t->w) / 2;        /* t has the times of both halves */
}
const struct pp_schedule pp_dualpipe_v = {.name = "dualpipe-v", .place = &pp_vee, .split_weight = true,
                                          .order_all = dualpipe_v_order, .depth = pp_simulated_depth,
                                          .bubble = dualpipe_v_bubble, .bubble_text = "at most (p-1)(F+2Bi-W)/2"};
