/* GPipe, 1F1B and interleaved 1F1B. Here p = 4 stages, m = 8 microbatches, F = 1 and B = 2; . is idle.
 *
 * GPipe: all forwards, then all backwards. Invented to keep all stages busy at once, by cutting the batch.
 * Bubble (p-1)(F+B), filling and draining; peak m microbatches in flight; 1 copy of the weights.
 * 0  F0 F1 F2 F3 F4 F5 F6 F7 .  .  .  .  .  .  .  .  .  B0--- B1--- B2--- B3--- B4--- B5--- B6--- B7---
 * 1  .  F0 F1 F2 F3 F4 F5 F6 F7 .  .  .  .  .  .  B0--- B1--- B2--- B3--- B4--- B5--- B6--- B7--- .  .
 * 2  .  .  F0 F1 F2 F3 F4 F5 F6 F7 .  .  .  B0--- B1--- B2--- B3--- B4--- B5--- B6--- B7--- .  .  .  .
 * 3  .  .  .  F0 F1 F2 F3 F4 F5 F6 F7 B0--- B1--- B2--- B3--- B4--- B5--- B6--- B7--- .  .  .  .  .  .
 *
 * 1F1B: p - 1 - stage forwards to fill, then one forward, one backward; then drain. Invented because GPipe keeps all m
 * microbatches' activations. Bubble (p-1)(F+B), the same; peak min(p - stage, m); 1 copy.
 * 0  F0 F1 F2 F3 .  .  .  .  .  .  B0--- F4 B1--- F5 B2--- F6 B3--- F7 B4--- .  B5--- .  B6--- .  B7---
 * 1  .  F0 F1 F2 .  .  .  .  B0--- F3 B1--- F4 B2--- F5 B3--- F6 B4--- F7 B5--- .  B6--- .  B7--- .  .
 * 2  .  .  F0 F1 .  .  B0--- F2 B1--- F3 B2--- F4 B3--- F5 B4--- F6 B5--- F7 B6--- .  B7--- .  .  .  .
 * 3  .  .  .  F0 B0--- F1 B1--- F2 B2--- F3 B3--- F4 B4--- F5 B5--- F6 B6--- F7 B7--- .  .  .  .  .  .
 *
 * Interleaved, v = 2: 1F1B over v chunks of the model per stage, here F, B and f, b. Virtual stage = chunk p + stage:
 * the model passes all stages v times, and filling and draining are v times shorter, for v times as many messages.
 * Microbatches come in groups of p: a group passes all chunks before the next one starts.
 * Bubble (p-1)(F+B)/v; peak min(2(p-1-stage) + (v-1)p + 1, m v) chunks; 1 copy.
 * 0  F0F1F2F3f0f1f2f3F4F5F6. . . b0- F7b1- . f4b2- f5b3- f6B0- f7B1- B2- . B3- . b4- . b5- . b6- . b7- B4- B5- B6- B7-
 * 1  . F0F1F2F3f0f1f2f3F4. . b0- F5b1- F6b2- F7b3- f4B0- f5B1- f6B2- f7B3- . b4- . b5- . b6- . b7- B4- B5- B6- B7- . .
 * 2  . . F0F1F2F3f0f1f2. b0- f3b1- F4b2- F5b3- F6B0- F7B1- f4B2- f5B3- f6b4- f7b5- . b6- . b7- B4- B5- B6- B7- . . . .
 * 3  . . . F0F1F2F3f0b0- f1b1- f2b2- f3b3- F4B0- F5B1- F6B2- F7B3- f4b4- f5b5- f6b6- f7b7- B4- B5- B6- B7- . . . . . .
 *
 * All are one rule (pp_count.c): forwards are at most `warm` + 1 ahead of backwards.
 *   GPipe         warm = everything
 *   1F1B          warm = p - 1 - stage
 *   interleaved   warm = (v - 1) p, the first group's way through the earlier chunks, plus 2 (p - 1 - stage): between
 *                 two forwards of the last chunk a backward must come back through the pipeline
 *
 * Source: Huang et al. 2019 (GPipe); Narayanan et al. 2019 (PipeDream), 2021 (Megatron-LM, section 2.2). */
#include "pp/pp_orders.h"

#include "lib/base/integer.h"

/* ---- the order ---- */
void pp_add(struct schedule *s, struct action a) {
    const struct hop *hop = s->hops[a.chunk];
    bool forward = a.kind == ACTION_F, alone = a.kind == ACTION_W;   /* a weight gradient needs no transfer */
    bool receives = !alone && hop[forward ? HOP_BEFORE : HOP_NEXT].rank >= 0;
    bool sends = !alone && hop[forward ? HOP_NEXT : HOP_BEFORE].rank >= 0;
    if (receives) schedule_add(s, forward ? RECV_F : RECV_B, a.chunk, a.microbatch);
    schedule_add(s, a.kind, a.chunk, a.microbatch);
    s->actions[s->n - 1].age = a.age;
    if (sends) schedule_add(s, forward ? SEND_F : SEND_B, a.chunk, a.microbatch);
}

/* ---- GPipe ---- */
void pp_gpipe_order(const struct pp_shape *x, int stage, struct schedule *out) {
    (void)stage;
    pp_count(x, (struct pp_count){.warm = x->n_microbatches, .group = x->n_microbatches}, out);
}
int pp_gpipe_peak(const struct pp_shape *x, int stage) { return (void)stage, x->n_microbatches; }

/* ---- 1F1B ---- */
void pp_1f1b_order(const struct pp_shape *x, int stage, struct schedule *out) {
    pp_count(x, (struct pp_count){.warm = x->n_stages - 1 - stage, .group = x->n_microbatches}, out);
}
int pp_1f1b_peak(const struct pp_shape *x, int stage) {
    return (int)min64(x->n_stages - stage, x->n_microbatches);
}

/* ---- interleaved: with one chunk it is 1F1B ---- */
static int interleaved_warmup(const struct pp_shape *x, int stage) {
    int after = x->n_stages - 1 - stage;
    return x->n_chunks == 1 ? after : 2 * after + (x->n_chunks - 1) * x->n_stages;
}
void pp_interleaved_order(const struct pp_shape *x, int stage, struct schedule *out) {
    pp_count(x, (struct pp_count){.warm = interleaved_warmup(x, stage), .group = x->n_stages}, out);
}
int pp_interleaved_peak(const struct pp_shape *x, int stage) {
    return (int)min64(interleaved_warmup(x, stage) + 1, x->n_microbatches * x->n_chunks);
}

/* ---- of all three: idle time, and activations in flight ---- */
double pp_bubble(const struct pp_shape *x, double f_and_b) { return (x->n_stages - 1) * f_and_b / x->n_chunks; }

int pp_peak_in_flight(const struct schedule *s) {
    int now = 0, peak = 0;
    for (int i = 0; i < s->n; i++) {
        if (s->actions[i].kind == ACTION_F && ++now > peak) peak = now;
        if (s->actions[i].kind == (s->split_weight ? ACTION_W : ACTION_B)) now--;
    }
    return peak;
}
