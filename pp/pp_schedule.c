/* Schedules.
 *
 *   GPipe         all forwards, then all backwards       F0 F1 F2 F3 | B0 B1 B2 B3
 *   1F1B          warm up with p - 1 - stage forwards, then one forward, one backward; then drain
 *                   stage 0 of 2:  F0 F1 B0 F2 B1 F3 B2 B3          stage 1 of 2:  F0 B0 F1 B1 F2 B2 F3 B3
 *   interleaved   1F1B over v chunks of the model a stage: virtual stage = chunk p + stage, so the model winds through all
 *                 stages v times, and filling and draining take steps that are v times shorter. Microbatches go in groups of p:
 *                 a group passes all chunks before the next one starts. With v = 2, chunks a and b, capital backward:
 *                   stage 0 of 2:  a0 a1 b0 b1 a2 B0 a3 B1 b2 A0 b3 A1 ...     stage 1 of 2:  a0 a1 b0 B0 b1 B1 a2 A0 ...
 *
 * GPipe and 1F1B idle (p-1)(F+B) a step: filling and draining. The difference is memory: GPipe keeps all m microbatches'
 * activations, 1F1B at most min(p - stage, m). Interleaved idles (p-1)(F+B)/v, keeps a little more (the warm-up is longer) and
 * sends v times as often.
 *
 * All are one rule, "keep at most `warm` + 1 forwards ahead of the backwards": warm = everything for GPipe; p - 1 - stage for
 * 1F1B; for interleaved the first group's way through the earlier chunks, (v - 1) p, and 2 (p - 1 - stage), since between two
 * forwards of the last chunk a backward has to come up the pipe.
 *
 * Source: Huang et al. 2019 (GPipe); Narayanan et al. 2019 (PipeDream), 2021 (Megatron-LM, section 2.2). */
#include "pp/pp_schedule.h"

#include "pp/pp_timeline.h"
#include <stdlib.h>

static int least(int a, int b) { return a < b ? a : b; }

enum status pp_schedule_legal(enum plan_schedule kind, int n_stages, int n_chunks, int n_microbatches) {
    if (n_chunks > 1 && kind != SCHEDULE_INTERLEAVED)
        return FAIL(E_CONFIG, "chunks=%d needs schedule=interleaved; ask for that, or leave chunks at 1", n_chunks);
    if (n_chunks > 1 && n_stages == 1)
        return FAIL(E_CONFIG, "chunks=%d divides the stages of a pipeline, and pp=1 is none; use pp 2 or more, or chunks 1", n_chunks);
    if (kind == SCHEDULE_INTERLEAVED && n_microbatches % n_stages)
        return FAIL(E_CONFIG, "schedule=interleaved takes microbatches in groups of pp=%d, and there are %d (global-batch / dp / "
                    "micro-batch); use a multiple, such as %d", n_stages, n_microbatches,
                    (n_microbatches / n_stages + 1) * n_stages);
    return OK;
}

/* ---- the order ---- */
/* The k-th forward (or backward) of a stage. Backwards take the chunks from the last to the first. */
static struct action nth(enum action_kind kind, int n_stages, int n_chunks, int k) {
    int group = n_stages * n_chunks, chunk = k % group / n_stages;
    int microbatch = k / group * n_stages + k % n_stages;
    return (struct action){kind, kind == ACTION_F ? chunk : n_chunks - 1 - chunk, microbatch};
}

static int warmup(enum plan_schedule kind, int n_stages, int n_chunks, int stage, int n_forwards) {
    int after = n_stages - 1 - stage;
    int warm = kind == SCHEDULE_GPIPE ? n_forwards : n_chunks == 1 ? after : 2 * after + (n_chunks - 1) * n_stages;
    return least(warm, n_forwards);
}

/* A receive directly before, a send directly after, wherever the virtual stage has a neighbour. */
static void put_forward(struct schedule *s, int stage, int n_stages, int last, struct action a) {
    int virtual_stage = a.chunk * n_stages + stage;
    if (virtual_stage > 0) schedule_add(s, RECV_F, a.chunk, a.microbatch);
    schedule_add(s, ACTION_F, a.chunk, a.microbatch);
    if (virtual_stage < last) schedule_add(s, SEND_F, a.chunk, a.microbatch);
}
static void put_backward(struct schedule *s, int stage, int n_stages, int last, struct action a) {
    int virtual_stage = a.chunk * n_stages + stage;
    if (virtual_stage < last) schedule_add(s, RECV_B, a.chunk, a.microbatch);
    schedule_add(s, ACTION_B, a.chunk, a.microbatch);
    if (virtual_stage > 0) schedule_add(s, SEND_B, a.chunk, a.microbatch);
}

void pp_schedule_make(enum plan_schedule kind, int n_stages, int n_chunks, int stage, int n_microbatches, struct schedule *out) {
    int n = n_microbatches * n_chunks, warm = warmup(kind, n_stages, n_chunks, stage, n), last = n_stages * n_chunks - 1;
    *out = (struct schedule){.n_microbatches = n_microbatches};
    for (int f = 0, b = 0; b < n;) {
        if (f < n && f - b <= warm) put_forward(out, stage, n_stages, last, nth(ACTION_F, n_stages, n_chunks, f++));
        else put_backward(out, stage, n_stages, last, nth(ACTION_B, n_stages, n_chunks, b++));
    }
}

/* ---- what it costs ---- */
int pp_peak_in_flight(const struct schedule *s) {
    int now = 0, peak = 0;
    for (int i = 0; i < s->n; i++) {
        if (s->actions[i].kind == ACTION_F && ++now > peak) peak = now;
        if (s->actions[i].kind == ACTION_B) now--;
    }
    return peak;
}

double pp_bubble_formula(int n_stages, int n_chunks, double forward, double backward) {
    return (n_stages - 1) * (forward + backward) / n_chunks;
}

int pp_peak_formula(enum plan_schedule kind, int n_stages, int n_chunks, int stage, int n_microbatches) {
    if (kind == SCHEDULE_GPIPE) return n_microbatches;
    if (n_chunks == 1) return least(n_stages - stage, n_microbatches);
    return least(n_microbatches * n_chunks, 2 * (n_stages - stage - 1) + (n_chunks - 1) * n_stages + 1);
}

/* ---- the proof, by running it ---- */
bool pp_simulate(const struct schedule *stages, int n_stages, int depth) {
    const struct pp_times timeless = {{0}, 0};
    struct pp_timeline unused;
    enum status status = pp_timeline_make(stages, n_stages, depth, &timeless, &unused);
    if (status != OK) status_clear();
    pp_timeline_fini(&unused);
    return status == OK;
}

/* Filling and draining take less than two rounds of n_stages microbatches; all that more of them add is the same round
 * again. So a step of a million is simulated with four rounds. */
int pp_send_depth(enum plan_schedule kind, int n_stages, int n_chunks, int n_microbatches) {
    struct schedule *stages = calloc((size_t)n_stages, sizeof *stages);
    int depth = 0, n = least(n_microbatches, 4 * n_stages);
    for (int i = 0; stages && i < n_stages; i++) pp_schedule_make(kind, n_stages, n_chunks, i, n, &stages[i]);
    for (int d = 1; stages && d <= n && !depth; d++)
        if (pp_simulate(stages, n_stages, d)) depth = d;
    for (int i = 0; stages && i < n_stages; i++) schedule_fini(&stages[i]);
    free(stages);
    return depth;
}
