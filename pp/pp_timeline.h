/* A schedule in simulated time: when every action of every stage starts and ends. See pp_timeline.c. */
#ifndef TRIVIUM_PP_PP_TIMELINE_H
#define TRIVIUM_PP_PP_TIMELINE_H

#include "pp/pp_schedule.h"

/* In any unit: an action of each kind on one chunk and microbatch; a message's transfer. */
struct pp_times { double tape[N_TAPES], transfer; };

/** Those of a row's actions, when a stage's work on a microbatch takes this long; a chunk takes its share of it. */
struct pp_times pp_times_of(const struct pp_schedule *, const struct pp_shape *, const struct pp_work *,
                            double transfer);

struct pp_span { double start, end; };
struct pp_timeline {
    int n_stages;
    struct pp_span **span;     /* [stage][action]; for a send or receive: the time it waited */
    double makespan;           /* end of the last action of all stages */
};

/** Run the schedules of all stages, each action as early as possible. A send takes no time unless `depth` (>= 1;
 *  INT_MAX: no bound) of the stage's messages in that direction are not received yet. A receive waits for its message.
 *  Free *out with pp_timeline_fini, also after an error.
 *  @errors E_INTERNAL naming stage, action and fault: a deadlock, a receive that gets another message than its own, a
 *  message that is never received; E_MEMORY  @collective{none} */
enum status pp_timeline_make(const struct schedule *stages, int n_stages, int depth, const struct pp_times *,
                             struct pp_timeline *out);
void pp_timeline_fini(struct pp_timeline *);

/** The part of the makespan in which a stage computes nothing. */
double pp_timeline_idle(const struct pp_timeline *, const struct schedule *stages, int stage);
/** What stages idle between their own first action and their own last, the most of all: the bubble of a schedule whose
 *  steps follow each other without a sum over all stages in between. Else they idle as above. */
double pp_timeline_bubble(const struct pp_timeline *, const struct schedule *stages);

/** "recv_F of chunk 0, microbatch 3": an action as text. Static storage, 2 in turn. */
const char *pp_action_text(const struct action *);

#endif
