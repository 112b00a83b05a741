/* Exercise: the three schedules (lesson 07, "Three orders"), what they cost, and nothing else: the proof that they do not deadlock is
 * given, at the end.
 *
 *   GPipe         all forwards, then all backwards       F0 F1 F2 F3 | B0 B1 B2 B3
 *   1F1B          stage i of p warms up with p - 1 - i forwards; then one forward, one backward; then it drains
 *   interleaved   1F1B over v chunks of the model a stage: virtual stage = chunk p + stage. Microbatches go in groups of p: a group
 *                 passes all chunks before the next one starts. Warm-up: 2 (p - 1 - i) + (v - 1) p
 *
 * A schedule is a list of actions (lib/program/schedule.h), made with schedule_add(out, kind, chunk, microbatch). A receive stands
 * directly before the action that reads it and a send directly after the one that made it: RECV_F F SEND_F, RECV_B B SEND_B. The first
 * virtual stage has nobody before it, the last nobody behind it. The run will send what the table says and nothing else.
 *
 * pp_schedule.h says what each function returns. Start with 1F1B: n_chunks is 1 then. */
#include "pp/pp_schedule.h"

#include "pp/pp_timeline.h"
#include <stdlib.h>

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

/* TODO: all actions of `stage`, in order. */
void pp_schedule_make(enum plan_schedule kind, int n_stages, int n_chunks, int stage, int n_microbatches, struct schedule *out) {
    *out = (struct schedule){.n_microbatches = n_microbatches};
    (void)kind, (void)n_stages, (void)n_chunks, (void)stage;
}

/* TODO: walk the table and count. */
int pp_peak_in_flight(const struct schedule *s) {
    (void)s;
    return -1;
}

/* TODO: what a stage idles in a step. */
double pp_bubble_formula(int n_stages, int n_chunks, double forward, double backward) {
    (void)n_stages, (void)n_chunks, (void)forward, (void)backward;
    return -1;
}

/* TODO: the same peak without walking. */
int pp_peak_formula(enum plan_schedule kind, int n_stages, int n_chunks, int stage, int n_microbatches) {
    (void)kind, (void)n_stages, (void)n_chunks, (void)stage, (void)n_microbatches;
    return -1;
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

int pp_send_depth(enum plan_schedule kind, int n_stages, int n_chunks, int n_microbatches) {
    struct schedule *stages = calloc((size_t)n_stages, sizeof *stages);
    int depth = 0;
    for (int i = 0; stages && i < n_stages; i++) pp_schedule_make(kind, n_stages, n_chunks, i, n_microbatches, &stages[i]);
    for (int d = 1; stages && d <= n_microbatches && !depth; d++)
        if (pp_simulate(stages, n_stages, d)) depth = d;
    for (int i = 0; stages && i < n_stages; i++) schedule_fini(&stages[i]);
    free(stages);
    return depth;
}
