/* Simulates a schedule: computes when every action of every stage starts and ends. See timeline.c. */
#pragma once

#include "lib/program/schedule.h"

/** The duration of a stage's action, in any unit; of a send, until its message arrives. Not called for a receive. */
typedef double action_time(const void *self, int stage, const struct action *);

struct timeline_span { double start, end; };
struct timeline {
    int n_stages;
    struct timeline_span **span;     /* [stage][action]; for a send or receive: the time that it waits */
    double makespan;                 /* end of the last action of all stages */
};

/** Run the schedules of all stages, each action as early as possible. A send waits only while `depth` (>= 1; INT_MAX:
 *  no bound) messages of the stage in its direction are not received yet. A receive waits for its message.
 *  Free *out with timeline_fini, even after an error.
 *  @errors E_INTERNAL with stage, action and fault: a deadlock, a receive that meets the message of another receive, a
 *  message that is never received; E_MEMORY  @collective{none} */
enum status timeline_make(const struct schedule *stages, int n_stages, int depth, action_time *, const void *self,
                          struct timeline *out);
void timeline_fini(struct timeline *);

/** The time of the makespan in which a stage computes nothing. */
double timeline_idle(const struct timeline *, const struct schedule *stages, int stage);
/** The largest idle time of a stage between its own first and last compute action. This is the bubble if steps follow
 *  each other without a sum over all stages in between; with such a sum the bubble is timeline_idle. */
double timeline_bubble(const struct timeline *, const struct schedule *stages);

/** An action as text: "recv_F of chunk 0, microbatch 3". Two static buffers, used in turn. */
const char *action_text(const struct action *);
