/* A schedule in simulated time: when every action of every stage starts and ends. See timeline.c. */
#pragma once

#include "lib/program/schedule.h"

/** How long an action of a stage takes, in any unit; of a send: its message, until it is there. Never of a receive. */
typedef double action_time(const void *self, int stage, const struct action *);

struct timeline_span { double start, end; };
struct timeline {
    int n_stages;
    struct timeline_span **span;     /* [stage][action]; for a send or receive: the time it waited */
    double makespan;                 /* end of the last action of all stages */
};

/** Run the schedules of all stages, each action as early as possible. A send takes no time unless `depth` (>= 1;
 *  INT_MAX: no bound) of the stage's messages in that direction are not received yet. A receive waits for its message.
 *  Free *out with timeline_fini, also after an error.
 *  @errors E_INTERNAL naming stage, action and fault: a deadlock, a receive that gets another message than its own, a
 *  message that is never received; E_MEMORY  @collective{none} */
enum status timeline_make(const struct schedule *stages, int n_stages, int depth, action_time *, const void *self,
                          struct timeline *out);
void timeline_fini(struct timeline *);

/** The part of the makespan in which a stage computes nothing. */
double timeline_idle(const struct timeline *, const struct schedule *stages, int stage);
/** What stages idle between their own first action and their own last, the most of all: the bubble of a schedule whose
 *  steps follow each other without a sum over all stages in between. Else they idle as above. */
double timeline_bubble(const struct timeline *, const struct schedule *stages);

/** "recv_F of chunk 0, microbatch 3": an action as text. Static storage, 2 in turn. */
const char *action_text(const struct action *);
