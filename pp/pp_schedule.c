/* Schedules.
 *
 *   GPipe         all forwards, then all backwards       F0 F1 F2 F3 | B0 B1 B2 B3
 *   1F1B          warm up with p - 1 - stage forwards, then one forward, one backward; then drain
 *                   stage 0 of 2:  F0 F1 B0 F2 B1 F3 B2 B3          stage 1 of 2:  F0 B0 F1 B1 F2 B2 F3 B3
 *   interleaved   1F1B over v chunks of the model per stage: virtual stage = chunk p + stage. The model passes all
 *                 stages v times, so filling and draining are v times shorter. Microbatches come in groups of p: a
 *                 group passes all chunks before the next one starts. With v = 2, chunks a and b, capital letters for
 *                 backward:
 *                   stage 0 of 2:  a0 a1 b0 b1 a2 B0 a3 B1 b2 A0 b3 A1 ...
 *                   stage 1 of 2:  a0 a1 b0 B0 b1 B1 a2 A0 ...
 *
 * GPipe and 1F1B idle (p-1)(F+B) per step: filling and draining. The difference is memory: GPipe keeps all m
 * microbatches' activations, 1F1B at most min(p - stage, m). Interleaved idles (p-1)(F+B)/v, keeps a little more (the
 * warm-up is longer) and sends v times as often.
 *
 * All are one rule: forwards are at most `warm` + 1 ahead of backwards.
 *   GPipe         warm = everything
 *   1F1B          warm = p - 1 - stage
 *   interleaved   warm = (v - 1) p, the first group's way through the earlier chunks, plus 2 (p - 1 - stage): between
 *                 two forwards of the last chunk a backward must come back through the pipeline
 *
 * Source: Huang et al. 2019 (GPipe); Narayanan et al. 2019 (PipeDream), 2021 (Megatron-LM, section 2.2). */
#include "pp/pp_schedule.h"

static int least(int a, int b) { return a < b ? a : b; }

/* ---- the order ---- */
void pp_add(struct schedule *s, struct action a) {
    const struct hop *hop = s->hops[a.chunk];
    bool forward = a.kind == ACTION_F, alone = a.kind == ACTION_W;   /* a weight gradient needs no transfer */
    bool receives = !alone && hop[forward ? HOP_BEFORE : HOP_NEXT].rank >= 0;
    bool sends = !alone && hop[forward ? HOP_NEXT : HOP_BEFORE].rank >= 0;
    if (receives) schedule_add(s, forward ? RECV_F : RECV_B, a.chunk, a.microbatch);
    schedule_add(s, a.kind, a.chunk, a.microbatch);
    if (sends) schedule_add(s, forward ? SEND_F : SEND_B, a.chunk, a.microbatch);
}

/* The k-th forward (or backward) of a stage. Backwards take the chunks from the last to the first. */
static struct action nth(enum action_kind kind, const struct pp_shape *x, int k) {
    int group = x->n_stages * x->n_chunks, chunk = k % group / x->n_stages;
    int microbatch = k / group * x->n_stages + k % x->n_stages;
    return action_of(kind, kind == ACTION_F ? chunk : x->n_chunks - 1 - chunk, microbatch);
}

static void keep_ahead(const struct pp_shape *x, int warm, struct schedule *out) {
    int n = x->n_microbatches * x->n_chunks;
    for (int f = 0, b = 0; b < n;)
        if (f < n && f - b <= warm) pp_add(out, nth(ACTION_F, x, f++));
        else pp_add(out, nth(ACTION_B, x, b++));
}

/* ---- GPipe ---- */
static void gpipe_order(const struct pp_shape *x, int stage, struct schedule *out) {
    (void)stage;
    keep_ahead(x, x->n_microbatches, out);
}
static int gpipe_peak(const struct pp_shape *x, int stage) {
    (void)stage;
    return x->n_microbatches;
}
static double bubble(const struct pp_shape *x, double forward, double backward) {
    return (x->n_stages - 1) * (forward + backward) / x->n_chunks;
}
const struct pp_schedule pp_gpipe = {.name = "gpipe", .order = gpipe_order, .peak = gpipe_peak, .bubble = bubble,
                                     .bubble_text = "(p-1)(F+B)"};

/* ---- 1F1B ---- */
static void one_f_one_b_order(const struct pp_shape *x, int stage, struct schedule *out) {
    keep_ahead(x, x->n_stages - 1 - stage, out);
}
static int one_f_one_b_peak(const struct pp_shape *x, int stage) {
    return least(x->n_stages - stage, x->n_microbatches);
}
const struct pp_schedule pp_1f1b = {.name = "1f1b", .order = one_f_one_b_order, .peak = one_f_one_b_peak,
                                    .bubble = bubble, .bubble_text = "(p-1)(F+B)"};

/* ---- interleaved: with one chunk it is 1F1B ---- */
static int interleaved_warmup(const struct pp_shape *x, int stage) {
    int after = x->n_stages - 1 - stage;
    return x->n_chunks == 1 ? after : 2 * after + (x->n_chunks - 1) * x->n_stages;
}
static void interleaved_order(const struct pp_shape *x, int stage, struct schedule *out) {
    keep_ahead(x, interleaved_warmup(x, stage), out);
}
static int interleaved_peak(const struct pp_shape *x, int stage) {
    return least(interleaved_warmup(x, stage) + 1, x->n_microbatches * x->n_chunks);
}
static enum status interleaved_legal(const struct pp_shape *x) {
    int p = x->n_stages, m = x->n_microbatches;
    if (m % p == 0) return OK;
    return FAIL(E_CONFIG,
                "schedule=interleaved takes microbatches in groups of pp=%d, and there are %d (global-batch / dp / "
                "micro-batch); use a multiple, such as %d",
                p, m, (m / p + 1) * p);
}
const struct pp_schedule pp_interleaved = {
    .name = "interleaved", .chunked = true, .legal = interleaved_legal, .order = interleaved_order,
    .peak = interleaved_peak, .bubble = bubble, .bubble_text = "(p-1)(F+B)/v"};

/* ---- what it keeps ---- */
int pp_peak_in_flight(const struct schedule *s) {
    int now = 0, peak = 0;
    for (int i = 0; i < s->n; i++) {
        if (s->actions[i].kind == ACTION_F && ++now > peak) peak = now;
        if (s->actions[i].kind == ACTION_B) now--;
    }
    return peak;
}
