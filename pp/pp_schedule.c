/* Schedules.
 *
 *   GPipe   all forwards, then all backwards           F0 F1 F2 F3 | B0 B1 B2 B3
 *   1F1B    warm up with p - 1 - stage forwards, then one forward, one backward; then drain
 *             stage 0 of 2:  F0 F1 B0 F2 B1 F3 B2 B3          stage 1 of 2:  F0 B0 F1 B1 F2 B2 F3 B3
 *
 * Both idle (p-1)(F+B) a step: filling and draining. The difference is memory: GPipe keeps all m microbatches' activations,
 * 1F1B at most min(p - stage, m).
 *
 * Both are one rule, "keep at most `warm` + 1 forwards ahead of the backwards", with warm = m for GPipe.
 *
 * Source: Huang et al. 2019 (GPipe); Narayanan et al. 2019 (PipeDream), 2021 (Megatron-LM, section 2.2). */
#include "pp/pp_schedule.h"

#include <stdlib.h>

static int warmup(enum plan_schedule kind, int n_stages, int stage, int n_microbatches) {
    int warm = kind == SCHEDULE_GPIPE ? n_microbatches : n_stages - 1 - stage;
    return warm < n_microbatches ? warm : n_microbatches;
}

static void put_forward(struct schedule *s, int n_stages, int stage, int m) {
    if (stage > 0) schedule_add(s, RECV_F, 0, m);
    schedule_add(s, ACTION_F, 0, m);
    if (stage < n_stages - 1) schedule_add(s, SEND_F, 0, m);
}
static void put_backward(struct schedule *s, int n_stages, int stage, int m) {
    if (stage < n_stages - 1) schedule_add(s, RECV_B, 0, m);
    schedule_add(s, ACTION_B, 0, m);
    if (stage > 0) schedule_add(s, SEND_B, 0, m);
}

void pp_schedule_make(enum plan_schedule kind, int n_stages, int stage, int n_microbatches, struct schedule *out) {
    int warm = warmup(kind, n_stages, stage, n_microbatches);
    *out = (struct schedule){.n_microbatches = n_microbatches};
    for (int f = 0, b = 0; b < n_microbatches;) {
        bool forward = f < n_microbatches && f - b <= warm;
        if (forward) put_forward(out, n_stages, stage, f++);
        else put_backward(out, n_stages, stage, b++);
    }
}

int pp_peak_in_flight(const struct schedule *s) {
    int now = 0, peak = 0;
    for (int i = 0; i < s->n; i++) {
        if (s->actions[i].kind == ACTION_F && ++now > peak) peak = now;
        if (s->actions[i].kind == ACTION_B) now--;
    }
    return peak;
}

/* ---- simulation: one first-in-first-out wire into each stage from each side ---- */
struct wire { int *microbatch; int head, tail; };

struct simulation { const struct schedule *stages; int n_stages, depth, *done; struct wire *wires; };

static bool is_send(enum action_kind k) { return k == SEND_F || k == SEND_B; }
static bool is_receive(enum action_kind k) { return k == RECV_F || k == RECV_B; }

static struct wire *wire_into(struct simulation *s, int stage, bool backward) {
    return &s->wires[2 * ((stage + s->n_stages) % s->n_stages) + backward];
}

/* Try to take a stage's next action. False: it must wait, or (wrong = true) it received what it did not expect. */
static bool advance(struct simulation *s, int stage, bool *wrong) {
    struct action a = s->stages[stage].actions[s->done[stage]];
    bool backward = a.kind == SEND_B || a.kind == RECV_B;
    if (is_send(a.kind)) {
        struct wire *out = wire_into(s, stage + (backward ? -1 : 1), backward);
        if (out->tail - out->head >= s->depth) return false;
        out->microbatch[out->tail++] = a.microbatch;
    }
    if (is_receive(a.kind)) {
        struct wire *in = wire_into(s, stage, backward);
        if (in->head == in->tail) return false;
        if (in->microbatch[in->head++] != a.microbatch) return !(*wrong = true);
    }
    s->done[stage]++;
    return true;
}

static bool all_done(const struct simulation *s) {
    for (int i = 0; i < s->n_stages; i++)
        if (s->done[i] < s->stages[i].n) return false;
    return true;
}

static bool all_received(const struct simulation *s) {
    for (int i = 0; i < 2 * s->n_stages; i++)
        if (s->wires[i].head < s->wires[i].tail) return false;
    return true;
}

static bool run_simulation(struct simulation *s) {
    bool wrong = false;
    for (bool moved = true; moved && !wrong;) {
        moved = false;
        for (int i = 0; i < s->n_stages; i++)
            while (!wrong && s->done[i] < s->stages[i].n && advance(s, i, &wrong)) moved = true;
    }
    return !wrong && all_done(s) && all_received(s);
}

bool pp_simulate(const struct schedule *stages, int n_stages, int depth) {
    struct simulation s = {.stages = stages, .n_stages = n_stages, .depth = depth};
    size_t longest = 1;
    for (int i = 0; i < n_stages; i++)
        if ((size_t)stages[i].n > longest) longest = (size_t)stages[i].n;
    if (n_stages < 1) return false;
    s.done = calloc((size_t)n_stages, sizeof *s.done);
    s.wires = calloc(2 * (size_t)n_stages, sizeof *s.wires);
    int *room = calloc(2 * (size_t)n_stages * longest, sizeof *room);
    bool ok = s.done && s.wires && room;
    for (int i = 0; ok && i < 2 * n_stages; i++) s.wires[i].microbatch = room + (size_t)i * longest;
    ok = ok && run_simulation(&s);
    free(s.done);
    free(s.wires);
    free(room);
    return ok;
}

int pp_send_depth(enum plan_schedule kind, int n_stages, int n_microbatches) {
    struct schedule *stages = calloc((size_t)n_stages, sizeof *stages);
    int depth = 0;
    for (int i = 0; stages && i < n_stages; i++) pp_schedule_make(kind, n_stages, i, n_microbatches, &stages[i]);
    for (int d = 1; stages && d <= n_microbatches && !depth; d++)
        if (pp_simulate(stages, n_stages, d)) depth = d;
    for (int i = 0; stages && i < n_stages; i++) schedule_fini(&stages[i]);
    free(stages);
    return depth;
}
