/* Pipeline schedules: a row of pure functions each, what is made of a row, and the proof that it does not deadlock.
 * GPipe, 1F1B and interleaved are in pp_schedule.c, others in files of their own; the list of them and the rest are in
 * pp_schedules.c. How to add one: docs/how-to/add-a-schedule.md. */
#ifndef TRIVIUM_PP_PP_SCHEDULE_H
#define TRIVIUM_PP_PP_SCHEDULE_H

#include "lib/program/schedule.h"

/** The input of a schedule: stages of the pipeline, model chunks per stage, microbatches per step. */
struct pp_shape { int n_stages, n_chunks, n_microbatches; };

struct pp_schedule {
    const char *name;                  /* as typed */
    bool chunked;                      /* a stage may have more than one chunk */
    /* Refuse a shape that `order` does not support; NULL: it supports all. n_stages and n_microbatches are at least 1;
     * n_chunks is 1 unless chunked. @errors E_CONFIG */
    enum status (*legal)(const struct pp_shape *);
    /* What `stage` computes, in any order: pp_add(out, action_of(ACTION_F, chunk, microbatch)) and so on. Of out, all
     * but the actions is set. */
    void (*order)(const struct pp_shape *, int stage, struct schedule *out);
    /* Staging buffers per direction with which no send ever waits for room, the least number of them: so many copies of
     * sent activations a stage keeps. NULL: 1. */
    int (*depth)(const struct pp_shape *);
    /* Closed forms, by which the tests judge the order. Peak: of pp_peak_in_flight. Bubble, and its formula in words:
     * what a stage idles in a step when one microbatch's forward and backward through all of a stage's chunks take this
     * long, and a transfer takes no time. */
    int (*peak)(const struct pp_shape *, int stage);
    double (*bubble)(const struct pp_shape *, double forward, double backward);
    const char *bubble_text;
};

/** Huang et al. 2019 | Narayanan et al. 2019 | Narayanan et al. 2021, section 2.2 */
extern const struct pp_schedule pp_gpipe, pp_1f1b, pp_interleaved;

enum { SCHEDULE_GPIPE, SCHEDULE_1F1B, SCHEDULE_INTERLEAVED };
#define PP_SCHEDULES "gpipe|1f1b|interleaved"        /* as typed, in the order above */
/** All of them, in that order; NULL beyond the last. */
const struct pp_schedule *pp_schedule_at(int i);

/** Refuse a shape that has no schedule. Pure.
 *  @errors E_CONFIG: chunks with a schedule that takes none, or without a pipeline; what the row refuses */
enum status pp_schedule_legal(const struct pp_schedule *, const struct pp_shape *);

/** The actions of one stage of a legal schedule: 0 <= stage < n_stages. send_depth is left 0. Free with schedule_fini.
 *  @collective{none} */
void pp_schedule_make(const struct pp_schedule *, const struct pp_shape *, int stage, struct schedule *out);

/** Append one compute action with its transfers: a receive directly before it, a send directly after it, wherever the
 *  chunk has a neighbor. */
void pp_add(struct schedule *, struct action);

/** Write the neighbors of each chunk of `stage` into out. Virtual stage s is chunk s / n_stages of stage s % n_stages:
 *  the model passes all stages, then again with the next chunk. */
void pp_place(const struct pp_shape *, int stage, struct schedule *out);

/** Run all stages' schedules against each other; a send blocks while `depth` earlier ones are not received. True if
 *  every stage reaches its end, every receive gets its own message, and no message is left over. If false,
 *  pp_timeline_make says why. */
bool pp_simulate(const struct schedule *stages, int n_stages, int depth);

/** The row's depth. */
int pp_send_depth(const struct pp_schedule *, const struct pp_shape *);

/** The largest number of (chunk, microbatch) pairs in flight at any time: forward has run, backward has not. */
int pp_peak_in_flight(const struct schedule *);

#endif
