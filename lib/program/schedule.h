/* The schedule: what this rank does in a step, action by action. Pure functions make it (pp/, or schedule_accumulate below);
 * the executor, the memory planner, the simulator and the charts read the same table. */
#ifndef TRIVIUM_PROGRAM_SCHEDULE_H
#define TRIVIUM_PROGRAM_SCHEDULE_H

#include "lib/base/status.h"
#include "lib/program/lower.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The first three are the tapes. A receive stands directly before the action that reads it. */
enum action_kind { ACTION_F = TAPE_F, ACTION_B = TAPE_B, ACTION_W = TAPE_W, SEND_F, RECV_F, SEND_B, RECV_B, N_ACTIONS };
const char *action_name(enum action_kind);
static inline bool action_is_compute(enum action_kind k) { return k <= ACTION_W; }

struct action { enum action_kind kind; int chunk, microbatch; };
struct schedule {
    int n;
    struct action *actions;
    int n_microbatches;
    bool split_weight;     /* weight gradients are actions of their own */
    int send_depth;        /* staging buffers a direction that a deadlock-free run needs; 0: no neighbours */
};

/** One more action at the end. */
void schedule_add(struct schedule *, enum action_kind, int chunk, int microbatch);
void schedule_fini(struct schedule *);

/** One stage: forward, backward, microbatch by microbatch (gradient accumulation).
 *  @errors none: the type is that of every schedule */
enum status schedule_accumulate(int n_microbatches, struct schedule *out);

#ifdef __cplusplus
}
#endif
#endif
