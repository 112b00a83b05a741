/* The schedule: this rank's actions of a step, in order. Pure functions make it (pp/, or schedule_accumulate below);
 * the executor, the memory planner, the simulator and the charts read the same table. */
#ifndef TRIVIUM_PROGRAM_SCHEDULE_H
#define TRIVIUM_PROGRAM_SCHEDULE_H

#include "lib/base/status.h"
#include "lib/program/lower.h"

/* The first three are the tapes. A receive stands directly before the action that reads it. */
enum action_kind { ACTION_F = TAPE_F, ACTION_B = TAPE_B, ACTION_W = TAPE_W, SEND_F, RECV_F, SEND_B, RECV_B, N_ACTIONS };
const char *action_name(enum action_kind);
static inline bool action_is_compute(enum action_kind k) { return k <= ACTION_W; }

struct action {
    enum action_kind kind;
    int chunk, microbatch;
    int age;               /* it reads weights this many updates older than the newest */
    int nth;               /* number of runs of this chunk's tape before it in the step (gradients.c) */
    bool first, last;      /* the step's first and last run of this chunk's tape (gradients.c); false for transfers */
};
static inline struct action action_of(enum action_kind kind, int chunk, int microbatch) {
    return (struct action){.kind = kind, .chunk = chunk, .microbatch = microbatch};
}

/* The edge from a chunk to its neighbor in the model: the next virtual stage, or the one before. rank: along AXIS_PP;
 * -1: the model ends here; this rank's own: handed over in memory, on no wire. A message travels on channel
 * way + (backward ? 1 : 0); way is 0 where stages follow each other along the ranks, 2 against them. So each channel
 * into a rank has one sender, and its messages are received in the order in which they were sent. */
struct hop { int rank, chunk, way; };
enum { HOP_NEXT, HOP_BEFORE, N_CHANNELS = 4 };

struct schedule {
    int n;
    struct action *actions;
    int n_microbatches;    /* of a step */
    /* Without a flush (asynchronous): the first n_fill actions come once, the others in every step, and microbatch
     * n_microbatches + 1 is the next step's second. When one rank ends its step, another may have begun n_ahead
     * microbatches of the next. n_versions of the weights are kept, for actions with an age. 0: a step is the whole
     * table, and begins when the one before has ended. */
    int n_fill, n_frames, n_ahead, n_versions;
    int rank;              /* along AXIS_PP, whose schedule it is */
    int n_ways;            /* of any rank's messages: 0 none, 1 along the ranks, 2 against them, too */
    int n_pipes;           /* 2: two directions, and chunk k of each rank is of pipe k; 0 and 1: one */
    struct hop (*hops)[2]; /* by chunk; NULL: nothing is sent */
    bool split_weight;     /* weight gradients are actions of their own */
    /* A step may begin before the last update is known to be right (lib/run/update.h). The update is checked after the
     * first n_early actions, all forwards; if it was wrong they run again. under_way: messages per channel that are in
     * flight to this rank then, from other ranks' early actions. */
    bool validates;
    int n_early, under_way[N_CHANNELS];
    int send_depth;        /* staging buffers that a used channel needs for a run without deadlock */
};

/** Add an action at the end. */
void schedule_add(struct schedule *, enum action_kind, int chunk, int microbatch);
void schedule_fini(struct schedule *);
/** A copy, for the caller to free. */
void schedule_copy(const struct schedule *, int n_chunks, struct schedule *out);
/** Where the other end of a send or receive is, and on which channel it travels. */
struct hop schedule_hop(const struct schedule *, const struct action *transfer);
int schedule_channel(const struct schedule *, const struct action *transfer);
/** The values that it moves, by stream, each a message of its own, in this order; and the sum of their bytes. */
const int *chunk_moves(const struct chunk *, enum action_kind transfer);
int64_t chunk_moved_bytes(const struct chunk *, enum action_kind transfer);

/** Sample b of microbatch m is number first + b of a step's batch, which n replicas share; this is replica d of them:
 *  first = (m n + d) B, for microbatches of B samples. */
static inline int64_t schedule_first_sample(int64_t m, int64_t d, int64_t n, int64_t B) { return (m * n + d) * B; }

/** Frames that microbatches take turns in, and versions of the weights. */
static inline int schedule_frames(const struct schedule *s) { return s->n_frames ? s->n_frames : s->n_microbatches; }
static inline int schedule_versions(const struct schedule *s) { return s->n_versions ? s->n_versions : 1; }
/** Does the microbatch pass this chunk? Of two pipes the first has the first half of the microbatches. */
bool schedule_passes(const struct schedule *, int chunk, int microbatch);

/* An iterator over the rows of a step, in order. Begin with {0}; action: that of the last row returned. ends: visit
 * only actions that are the first or the last of their tape (gradients.h). */
struct row_walk { const struct action *action; int next_action, next_row; bool ends; };
/** @return the next row; NULL: there is none */
struct row *schedule_next_row(const struct schedule *, const struct chunk *, struct row_walk *);
/** How many there are. */
size_t schedule_n_rows(const struct schedule *, const struct chunk *);

/** One stage: forward, backward, microbatch by microbatch (gradient accumulation).
 *  @errors none: the type is that of every schedule */
enum status schedule_accumulate(int n_microbatches, struct schedule *out);

#endif
