/* The times of a pipeline schedule's actions, and functions that draw them. */
#pragma once

#include "pp/pp_schedule.h"
#include "pp/pp_timeline.h"
#include <jansson.h>
#include <stdio.h>

struct schedule_chart {
    /* input */
    const struct pp_schedule *row;
    int n_stages, n_chunks, n_microbatches;
    struct pp_work time;                     /* of a microbatch in all chunks of a stage */
    double transfer;                         /* seconds of a message */
    int memory;                              /* limit, for schedules built from costs (pp_costs_of); 0: their default */
    double held;                             /* for these schedules: share of activations that W needs; 0: all */
    const char *heading, *unit;              /* text above the picture's title; unit of time. NULL: none. Borrowed */
    double plot;                             /* length of the picture's time line in pixels; 0: chosen */
    /* output */
    int send_depth;
    struct schedule *stages;
    struct timeline timeline;
    struct pp_times times;                   /* of one action */
    /* Times of one stage. All stages have the same work, so all have the same idle time in a step. bubble: idle time
     * between a stage's first and last action. */
    double work, idle, bubble;
};

/** Make the schedules of all stages, check them, and compute their times. The caller calls schedule_chart_fini, also
 *  after an error.
 *  @errors E_CONFIG: not legal, or too large; E_INTERNAL: the schedule is not sound; E_MEMORY */
enum status schedule_chart_make(struct schedule_chart *);
void schedule_chart_fini(struct schedule_chart *);
/** The chart's stages, chunks and microbatches. */
struct pp_shape schedule_chart_shape(const struct schedule_chart *);

/** "interleaved: 4 stages, 8 microbatches, 2 chunks per stage" */
void schedule_chart_title(const struct schedule_chart *, FILE *);
/** Draw as text, one row per stage, one column per unit of time; if that is too wide, print a sentence instead. */
void schedule_chart_text(const struct schedule_chart *, FILE *);
/** JSON for a page: heading, title, unit, makespan, work, idle, chunks, pipes, and for each stage's actions that
 *  compute [kind, microbatch, chunk, start, end]. NULL: no memory */
json_t *schedule_chart_json(const struct schedule_chart *);
/** Draw as an SVG file. */
void schedule_chart_svg(const struct schedule_chart *, FILE *);
