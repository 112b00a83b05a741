/* The executor: interprets the schedule, and for each action the rows of its tape. The executor decides nothing: marks
 * in the rows say which gradients a row sets or completes, and which rows run as one kernel (gradients.c, join.c).
 *
 * The executor owns the requests in flight. Its input is program, chunks, schedule, memory plan, arenas and mesh, and
 * the callbacks of struct exec_hooks. */
#pragma once

#include "lib/base/exact.h"
#include "lib/base/span.h"
#include "lib/comm/comm_request.h"
#include "lib/comm/mesh.h"
#include "lib/program/memory.h"

/* Sums over microbatches. SUM_LOSS: the loss of the data. The others are summed in training only: the auxiliary losses
 * of steps inside the model, and over all layers the load of experts and the share of dropped choices (moe_route.h). */
enum loss_sum { SUM_LOSS, SUM_AUX_LOSS, SUM_EXPERT_LOAD, SUM_DROPPED, N_LOSS_SUMS };

/* An event of a param. buffer: the weight, which the hook starts to fill at ROW_PARAM_AHEAD, must have filled at
 * _NEEDED, and may release at _DONE; at ROW_GRAD_READY the gradient. final: no later row of this step adds to the
 * gradient. forward: the row is in tape F. */
struct param_event { enum row_kind kind; int param; void *buffer; bool final, forward; };

struct exec_hooks {
    void *self;
    /* Write a microbatch's data, each kind (B,T) int32; a NULL entry: this rank does not need that kind. */
    enum status (*fetch)(void *self, int microbatch, int32_t *const data[N_DATA]);
    enum status (*param_event)(void *self, const struct param_event *);
    /* Called after the early actions of a schedule that validates. *again: the early actions have read wrong weights
     * and must run again; the right weights are in place now. */
    enum status (*settle)(void *self, bool *again);
    /* For a model of clicks (struct program): write the dense features of a microbatch (fetch writes the rest). In
     * evaluation the hook also reads the microbatch's logits and labels. */
    enum status (*fetch_features)(void *self, int microbatch, void *features);
    enum status (*see_scores)(void *self, const void *logits, const int32_t *labels);
};

/* Called after each row of training. If the row only starts an exchange, the call comes after its ROW_WAIT. A watcher
 * reads the row's results, and may change them (oracle/). */
struct exec_watch { void *self; enum status (*row)(void *self, enum row_kind, const struct call *); };

struct exec {
    const struct program *program;
    const struct chunk *chunks;
    const struct memory_plan *memory;
    const struct mesh *mesh;
    const struct arena *arenas;          /* [N_ROLES] */
    const struct arena *host_arenas;     /* [N_ROLES], parked values, in host memory that the device copies from */
    const struct device *device;
    struct exec_hooks hooks;
    struct exec_watch watch;             /* row NULL: no watcher */
    /* Sums over this rank's microbatches, [N_LOSS_SUMS] in device memory; unused sums are 0. NULL (CPU only): the array
     * `sums` is used. */
    double *loss_at;
    bool watched;                        /* measure the arenas' high-water marks */
    bool paint;                         /* tests: overwrite values with NaN when they die, so that a later read shows */
    struct stopwatch *stopwatch;         /* times rows of training on the device; NULL: the host's clock. Borrowed */
    struct spans *spans;                 /* records actions and rows of training; NULL: nothing is recorded. Borrowed */
    /* The run sets these for each step. */
    uint64_t seed, n_step;
    int64_t micro;                       /* sequences of a microbatch */
    int64_t workers;                     /* the first `workers` replicas along dp share the batch */
    double loss_weight, loss_scale;
    /* results of exec_run */
    struct exact loss_sum;               /* fixed_sums: the sum SUM_LOSS without weight and rounding (sums.h) */
    double sums[N_LOSS_SUMS];            /* the sums of loss_at, if that is NULL */
    double seconds[N_ROW_KINDS];         /* time in rows by kind */
    double transfer_s;                   /* time of waiting for neighbor stages (bubble and wire) */
    int64_t parked_bytes;                /* bytes that training has copied to host memory and back */
    /* Seconds by step of the program, over all steps of training so far (ROW_FORWARD .. ROW_BACKWARD_WEIGHT). The time
     * of a fused pair is counted at its first step. */
    double (*step_seconds)[ROW_WAIT];
    /* internals */
    struct spans *recording;             /* = spans while a step of training runs; else NULL */
    struct comm_request *step_requests;  /* asynchronous exchanges in flight, by step */
    struct device_mark *copies;          /* copies of slots to host memory or back, by slot */
    struct comm_request *ring_requests[N_CHANNELS];   /* by slot and stream */
    int ring_used[N_CHANNELS], ring_taken[N_CHANNELS];   /* ring_taken: slots of messages from this rank to itself */
    const struct schedule *schedule;     /* the running schedule */
    /* For a schedule without a flush, set by the run: the number of steps since the last flush, and the number of
     * microbatches, from this step's first one, that may begin (INT_MAX: all). */
    int64_t since_flush;
    int n_begin;
    struct feed *feed;                   /* microbatches that are being copied to the device (exec_feed.c) */
};

/** Run only the kernels of an op's rows, and only in the first action of each kind of each chunk. It serves to time
 *  kernels before the first step: the kernels read arbitrary memory, and their results are not used.
 *  @errors those of the kernels  @collective{none: the op does not communicate} */
enum status exec_rows_of(struct exec *, const struct schedule *, const struct op *);

/** Allocate the internals; all other fields of *e must be set before. @errors E_MEMORY @collective{none} */
enum status exec_init(struct exec *);
void exec_fini(struct exec *);

/** Run every action of the schedule; early actions run twice if the last update was wrong. Afterwards whole gradients
 *  have this step's values. A shard of a gradient (RESIDENT_OWN) is cleared by its technique, which also adds to it.
 *  training: dropout is on, and each microbatch has a frame of its own. Without training the schedule has only forward
 *  actions, and every microbatch uses frame 0.
 *  @collective{mesh} @errors of ops and comm */
enum status exec_run(struct exec *, const struct schedule *, bool training);

/** After exec_run: the address, in device memory, of the output of a chunk's forward tape (its last block's first
 *  stream); NULL: the chunk has none. Only for a program without training (forward_only), because in training another
 *  microbatch may have overwritten the frame. */
void *exec_out(const struct exec *, int chunk);
