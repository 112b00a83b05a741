/* Pipeline schedules: each is a row of pure functions. A simulation proves that a row's actions do not deadlock.
 *
 *   schedule = placement (which rank has which virtual stage: pp_place.c) + order (what each rank computes, and when)
 *
 * GPipe, 1F1B and interleaved are in pp_schedule.c, others in files of their own. The list, rows of two files that are
 * exercises, and the rest are in pp_schedules.c. How to add one: docs/how-to/add-a-schedule.md. */
#pragma once

#include "lib/program/schedule.h"

/* The input of a schedule: stages of the pipeline (ranks along pp), model chunks per stage, microbatches per step. */
struct pp_shape {
    int n_stages, n_chunks, n_microbatches;
    /* The input of list scheduling. Times of F, Bi, W and of a message, integers of any unit (0: F = Bi = W). held: the
     * part of F's activations that W needs, in thousandths (0: all). memory: chunks of microbatches that a rank may
     * keep (0: as many as the schedule says). */
    struct pp_costs { int64_t f, bi, w, transfer; int held, memory; } cost;
    const struct pp_table *table;   /* of a user's schedule */
};

/* Times of a stage's forward, input gradient and weight gradient of a microbatch, summed over its chunks. */
struct pp_work { double f, bi, w; };

/* The virtual stages of the model, in its order, and the rank of each. */
struct pp_placement {
    int n_pipes;    /* 2: microbatches pass the ranks in two directions, each through its own copy of the model */
    int n_chunks;   /* chunks of a rank; 0: as --chunks says */
    struct hop (*where)(const struct pp_shape *, int pipe, int virtual_stage);   /* its rank and chunk */
};
/** wind: stage after stage, and around again for each chunk; vee: down the ranks and back; mirror: down in one pipe, up
 *  in the other. */
extern const struct pp_placement pp_wind, pp_vee, pp_mirror;

struct pp_schedule {
    const char *name;                  /* as typed */
    const struct pp_placement *place;
    bool chunked;                      /* takes --chunks */
    bool grouped;                      /* takes microbatches in groups of n_stages */
    bool split_weight;                 /* weight gradients are actions of their own */
    bool timed;                        /* its order depends on the shape's cost */
    bool endless;                      /* without a flush: asynchronous (pp_async.c) */
    bool one_age;                      /* endless, but a microbatch reads weights of one age on all stages */
    /* Refuse a shape that `order` does not support; NULL: it supports all. n_stages and n_microbatches are at least 1;
     * n_chunks is the placement's unless chunked. @errors E_CONFIG */
    enum status (*legal)(const struct pp_shape *);
    /* Append the compute actions of `stage` in the schedule's order, with pp_add(out, action_of(ACTION_F, chunk,
     * microbatch)) and so on. All other fields of out are set before. */
    void (*order)(const struct pp_shape *, int stage, struct schedule *out);
    void (*order_all)(const struct pp_shape *, struct schedule *stages);   /* instead of `order`: all stages at once */
    /* The least number of staging buffers per channel with which no send ever waits for room: the number of copies
     * of sent activations that a stage keeps. NULL: 1. */
    int (*depth)(const struct pp_schedule *, const struct pp_shape *);
    /* Closed forms, which tests compare with the order; NULL: none is known. peak: of pp_peak_in_flight. bubble, and
     * its formula as text: the time a stage idles between its first and last action if transfers take no time. */
    int (*peak)(const struct pp_shape *, int stage);
    double (*bubble)(const struct pp_shape *, const struct pp_work *);
    const char *bubble_text;
    const struct pp_table *table;      /* of a user's schedule (pp_table.h); otherwise NULL */
};

/* Every schedule: its number, its row, its name as typed. One line more makes it a choice of --schedule. */
#define EVERY_SCHEDULE(X)                                             \
    X(SCHEDULE_GPIPE, pp_gpipe, "gpipe")                              \
    X(SCHEDULE_1F1B, pp_1f1b, "1f1b")                                 \
    X(SCHEDULE_INTERLEAVED, pp_interleaved, "interleaved")            \
    X(SCHEDULE_NAIVE, pp_naive, "naive")                              \
    X(SCHEDULE_BREADTH_FIRST, pp_breadth_first, "breadth-first")      \
    X(SCHEDULE_ZB_H1, pp_zb_h1, "zb-h1")                              \
    X(SCHEDULE_ZB_H2, pp_zb_h2, "zb-h2")                              \
    X(SCHEDULE_INTERLEAVED_ZB, pp_interleaved_zb, "interleaved-zb")   \
    X(SCHEDULE_ZB_2P, pp_zb_2p, "zb-2p")                              \
    X(SCHEDULE_ZB_V, pp_zb_v, "zb-v")                                 \
    X(SCHEDULE_V_HALF, pp_v_half, "v-half")                           \
    X(SCHEDULE_V_MIN, pp_v_min, "v-min")                              \
    X(SCHEDULE_DUALPIPE_V, pp_dualpipe_v, "dualpipe-v")               \
    X(SCHEDULE_CHIMERA, pp_chimera, "chimera")                        \
    X(SCHEDULE_DUALPIPE, pp_dualpipe, "dualpipe")                     \
    X(SCHEDULE_PIPEDREAM, pp_pipedream, "pipedream")                  \
    X(SCHEDULE_VERTICAL, pp_vertical, "vertical")                     \
    X(SCHEDULE_2BW, pp_2bw, "2bw")                                    \
    X(SCHEDULE_PIPEMARE, pp_pipemare, "pipemare")

#define SCHEDULE_NUMBER(number, row, name) number,
#define SCHEDULE_ROW(number, row, name) extern const struct pp_schedule row;
#define SCHEDULE_NAME(number, row, name) "|" name
enum { EVERY_SCHEDULE(SCHEDULE_NUMBER) N_SCHEDULES, SCHEDULE_FILE = N_SCHEDULES,   /** --schedule in pp_options */
       N_SYNCHRONOUS = SCHEDULE_PIPEDREAM };   /* schedules before PipeDream end each step with a flush */
EVERY_SCHEDULE(SCHEDULE_ROW)                            /** pp_gpipe and so on */
#define PP_SCHEDULES (&(EVERY_SCHEDULE(SCHEDULE_NAME) "|file:PATH")[1]) /* "gpipe|1f1b|...", as typed */
/** Schedule i, in that order; NULL beyond the last. */
const struct pp_schedule *pp_schedule_at(int i);

/** The shape of a row. `chunks` (--chunks) counts only if the placement does not fix the number. Pure. */
struct pp_shape pp_shape_of(const struct pp_schedule *, int n_stages, int64_t chunks, int n_microbatches);
/** Virtual stages of a pipe. */
int pp_n_virtual(const struct pp_placement *, const struct pp_shape *);
/** The shape's cost. Times are in any unit; held: the share of a microbatch's activations that W needs (0: all). */
struct pp_costs pp_costs_of(const struct pp_work *, double transfer, double held, int memory);

/** Refuse a shape that the schedule does not support. Pure.
 *  @errors E_CONFIG: chunks with a schedule that takes none, or without a pipeline; or the row refuses the shape */
enum status pp_schedule_legal(const struct pp_schedule *, const struct pp_shape *);

/** The actions of one stage of a legal schedule: 0 <= stage < n_stages. send_depth is left 0. Free with schedule_fini.
 *  @collective{none} */
void pp_schedule_make(const struct pp_schedule *, const struct pp_shape *, int stage, struct schedule *out);
/** The actions of all stages: stages[n_stages]. */
void pp_schedules_make(const struct pp_schedule *, const struct pp_shape *, struct schedule *stages);

/** Unroll a schedule without a flush: the fill, `updates` updates, and the drain. It borrows the original's hops, so
 *  free the actions only. */
void pp_unroll(const struct schedule *, int updates, struct schedule *out);

/** Mark the early actions of a stage's finished schedule, those that begin before the last step is known to be right,
 *  and the messages in flight then (struct schedule; pp_validate.c). */
void pp_validate(const struct pp_schedule *, const struct pp_shape *, struct schedule *stage);

/** Append one compute action with its transfers: a receive directly before it, a send directly after it, wherever the
 *  chunk has a neighbor. */
void pp_add(struct schedule *, struct action);

/** Write the neighbors of each chunk of `stage`, and the number of pipes, into out. */
void pp_place(const struct pp_placement *, const struct pp_shape *, int stage, struct schedule *out);

/** Run all stages' schedules against each other; a send blocks while `depth` earlier ones are not received. True if
 *  every stage reaches its end, every receive gets its own message, and no message is left over. If false,
 *  pp_timeline_make returns the fault. */
bool pp_simulate(const struct schedule *stages, int n_stages, int depth);

/** The `depth` of a row without a formula, from a simulation of all stages in which F, Bi and W take equal time. */
int pp_simulated_depth(const struct pp_schedule *, const struct pp_shape *);

/** The row's depth. */
int pp_send_depth(const struct pp_schedule *, const struct pp_shape *);

/** The largest number of (chunk, microbatch) pairs in flight at any time: the forward has run, but not yet the action
 *  that frees its activations (backward, or W where that is an action of its own). */
int pp_peak_in_flight(const struct schedule *);
