/* A pipeline schedule against a clock, and the ways to draw it. */
#pragma once

#include "pp/pp_schedule.h"
#include "pp/pp_timeline.h"
#include <jansson.h>
#include <stdio.h>

struct schedule_chart {
    /* what is asked for */
    const struct pp_schedule *row;
    int n_stages, n_chunks, n_microbatches;
    struct pp_work time;                     /* of a microbatch in all chunks of a stage */
    double transfer;                         /* of a message's flight */
    int memory;                              /* for schedules that go by it, and by the times; 0: as they say */
    double held;                             /* for them: the share of activations that W needs; 0: all of it */
    const char *heading, *unit;              /* of the picture: above its title; of its time. NULL: none. Borrowed */
    double plot;                             /* the picture's time line, in pixels; 0: as it fits */
    /* what follows */
    int send_depth;
    struct schedule *stages;
    struct timeline timeline;
    struct pp_times times;                   /* of one action */
    /* A stage's times; all stages have the same work, so all idle the same in a step. bubble: from a stage's own first
     * action to its last. */
    double work, idle, bubble;
};

/** Make the schedules of all stages, check them, run them against the clock. The caller frees the chart, also after
 *  an error.
 *  @errors E_CONFIG: not legal, or too large; E_INTERNAL: the schedule is not sound; E_MEMORY */
enum status schedule_chart_make(struct schedule_chart *);
void schedule_chart_fini(struct schedule_chart *);
/** Its stages, chunks and microbatches. */
struct pp_shape schedule_chart_shape(const struct schedule_chart *);

/** "interleaved: 4 stages, 8 microbatches, 2 chunks per stage" */
void schedule_chart_title(const struct schedule_chart *, FILE *);
/** As text: a row a stage and a column a unit of time; a sentence instead when it is too wide for that. */
void schedule_chart_text(const struct schedule_chart *, FILE *);
/** For a page: heading, title, unit, makespan, work, idle, chunks, pipes, and of each stage [kind, microbatch, chunk,
 *  start, end] of each forward and backward. NULL: no memory */
json_t *schedule_chart_json(const struct schedule_chart *);
/** As a picture of its own. */
void schedule_chart_svg(const struct schedule_chart *, FILE *);
