/* The schedule: this rank's actions of a step, in order. Pure functions make it: those of pp/, or schedule_accumulate.
 * The executor, the memory planner, the simulator and the charts read the same table. */
#pragma once

#include "lib/base/status.h"
#include "lib/program/lower.h"

/* The first three run the tapes F, B and W. A receive comes immediately before the action that reads it. */
enum action_kind { ACTION_F = TAPE_F, ACTION_B = TAPE_B, ACTION_W = TAPE_W, SEND_F, RECV_F, SEND_B, RECV_B, N_ACTIONS };
const char *action_name(enum action_kind);
static inline bool action_is_compute(enum action_kind k) { return k <= ACTION_W; }

struct action {
    enum action_kind kind;
    int chunk, microbatch;
    int age;               /* number of updates by which the weights that it reads are older than the newest */
    int nth;               /* how often the step has run this chunk's tape before (gradients.c) */
    bool first, last;      /* the step's first and last run of the chunk's tape (gradients.c); false for transfers */
};
static inline struct action action_of(enum action_kind kind, int chunk, int microbatch) {
    return (struct action){.kind = kind, .chunk = chunk, .microbatch = microbatch};
}

/* The edge from a chunk to its neighbor in the model: the next virtual stage, or the one before. rank: the neighbor's
 * rank along AXIS_PP; -1 if the chunk is at the model's end. If it is this rank itself, the message is copied in
 * memory. The message's channel is way + (backward ? 1 : 0). way is 0 if the next stage is on the next rank, 2 if it is
 * on the rank before. So each channel into a rank has one sender, and its messages are received in order. */
struct hop { int rank, chunk, way; };
enum { HOP_NEXT, HOP_BEFORE, N_CHANNELS = 4 };

struct schedule {
    int n;
    struct action *actions;
    int n_microbatches;    /* of a step */
    /* Without a flush (asynchronous pipelines) the first n_fill actions run once, the others in every step;
     * microbatches are numbered on into the next step. When one rank ends its step, another may have begun n_ahead
     * microbatches of the next. n_versions of the weights are kept, for actions with an age. All 0: there is a
     * flush, so a step runs the whole table after the step before has ended. */
    int n_fill, n_frames, n_ahead, n_versions;
    int rank;              /* of the rank whose schedule this is, along AXIS_PP */
    int n_ways;           /* directions in which ranks send: 0 none, 1 to the next rank, 2 to the rank before as well */
    int n_pipes;           /* 2: two directions, and chunk k of a rank belongs to pipeline k; 0 or 1: one */
    struct hop (*hops)[2]; /* [chunk][forward, backward]; NULL: nothing is sent */
    bool split_weight;     /* weight gradients run as actions of their own */
    /* A step may begin before the last update is checked (lib/run/update.h). The check comes after the first n_early
     * actions, all forward; if the update was wrong, these actions run again. under_way: for each channel, the messages
     * from other ranks' early actions that are then in flight to this rank. */
    bool validates;
    int n_early, under_way[N_CHANNELS];
    int send_depth;        /* staging buffers of a channel, so that a run cannot deadlock */
};

/** Add an action at the end. */
void schedule_add(struct schedule *, enum action_kind, int chunk, int microbatch);
void schedule_fini(struct schedule *);
/** Copy a schedule; the caller frees the copy. */
void schedule_copy(const struct schedule *, int n_chunks, struct schedule *out);
/** The other end of a send or receive, with the way of its channel; and its channel. */
struct hop schedule_hop(const struct schedule *, const struct action *transfer);
int schedule_channel(const struct schedule *, const struct action *transfer);
/** The values that a transfer moves: one message for each stream, in the order of streams. chunk_moved_bytes: the sum
 *  of their bytes. */
const int *chunk_moves(const struct chunk *, enum action_kind transfer);
int64_t chunk_moved_bytes(const struct chunk *, enum action_kind transfer);

/** The number, in a step's batch, of the first sample of replica d's microbatch m: (m n + d) B, for n replicas and
 *  microbatches of B samples. */
static inline int64_t schedule_first_sample(int64_t m, int64_t d, int64_t n, int64_t B) { return (m * n + d) * B; }

/** The number of frames that microbatches use in turns; and the number of versions of the weights. */
static inline int schedule_frames(const struct schedule *s) { return s->n_frames ? s->n_frames : s->n_microbatches; }
static inline int schedule_versions(const struct schedule *s) { return s->n_versions ? s->n_versions : 1; }
/** Does the microbatch pass through this chunk? With two pipelines, the first gets the first half of microbatches. */
bool schedule_passes(const struct schedule *, int chunk, int microbatch);

/* An iterator over the rows of a step, in order. Begin with {0}. action: the action of the row that was returned last.
 * ends: visit only the first and the last action of each tape (gradients.h). */
struct row_walk { const struct action *action; int next_action, next_row; bool ends; };
/** @return the next row; NULL: there is none */
struct row *schedule_next_row(const struct schedule *, const struct chunk *, struct row_walk *);
/** The number of rows of a step. */
size_t schedule_n_rows(const struct schedule *, const struct chunk *);

/** The schedule of one stage: forward and backward of each microbatch in turn (gradient accumulation).
 *  @errors none: the return type is that of every schedule function */
enum status schedule_accumulate(int n_microbatches, struct schedule *out);
