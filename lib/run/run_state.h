/* Declarations shared by the files of a run: its memory and groups (run_open.c), samples (run_samples.c), events
 * (run_events.c), step (run_step.c) and the step's numbers (run_scalars.c). Private to them. */
#pragma once

#include "lib/run/run.h"
#include "lib/run/scores.h"

/* A running evaluation (evaluate.c). */
struct evaluation {
    int64_t first;                       /* the first sample of the running batch */
    char unread[512];                    /* the error of the first sample that this rank could not read; "": none */
    struct scores scores;                /* of a model of clicks */
};

/* ---- run_samples.c ---- */
/* The executor's hook `fetch` of a run: read a microbatch's data, at the positions of a sequence that this rank holds.
 * @errors E_MEMORY, E_DATA, those of the model's sample */
enum status run_fetch(void *run, int microbatch, int32_t *const data[N_DATA]);

/* ---- run_clicks.c: of a model of clicks (struct program) ---- */
/* The executor's hooks, of a run: a microbatch's ids and labels (data: of those kinds, NULL where this rank has none),
 * its dense features; and in evaluation, the logits that the model gives it. A microbatch beyond the step's last is one
 * of the next step.  @errors E_DATA */
enum status run_fetch_ids(void *run, int microbatch, int32_t *const data[N_DATA]);
enum status run_fetch_features(void *run, int microbatch, void *features);
enum status run_see_scores(void *run, const void *logits, const int32_t *labels);

/* Are samples first .. first + n - 1 of the model's sizes, with ids that its tables have? Reads all of them.
 * @errors E_DATA */
enum status run_check_ids(const struct run *, const struct data_split *, int64_t first, int64_t n);

/* ---- run_step.c ---- */
/* The executor's hook `settle` of a run: settle the step before this one (update.h). Then gradients may be written.
 * @collective{mesh} @errors those of update_settle */
enum status run_settle(void *run, bool *again);

/* ---- run_events.c ---- */
/* The executor's hook for a param's event, of a run: call the subscribers. The param's weight or gradient lies in
 * `buffer`; final: as in struct event.  @errors those of the subscribers */
enum status run_param_event(void *run, const struct param_event *);
/* Record spans (lib/base/span.h), if the run has a recorder: begin the step; end the phase and begin the next one; end
 * the step. */
void run_record_step(struct run *);
void run_enter(struct run *, enum run_phase);
void run_record_end(struct run *);
