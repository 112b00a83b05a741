/* The executor: interprets the schedule, and for each action the rows of its tape. It decides nothing: the rows have
 * marks for gradients that are set or complete, and for joined kernels (gradients.c, join.c).
 *
 * It owns the requests in flight. Its input is program, chunks, schedule, memory plan, arenas and mesh, and the
 * callbacks of struct exec_hooks. */
#ifndef TRIVIUM_PROGRAM_EXEC_H
#define TRIVIUM_PROGRAM_EXEC_H

#include "lib/base/span.h"
#include "lib/comm/comm_request.h"
#include "lib/comm/mesh.h"
#include "lib/program/memory.h"

/* Sums over microbatches: the loss of the data; in training the losses of inner steps, and their statistics
 * (moe_route.h): load of experts, and the share of choices that were dropped, over all layers. */
enum loss_sum { SUM_LOSS, SUM_AUX_LOSS, SUM_EXPERT_LOAD, SUM_DROPPED, N_LOSS_SUMS };

/* ROW_PARAM_AHEAD, _NEEDED, _DONE: buffer is the weight to start filling, to have filled, to release. ROW_GRAD_READY:
 * buffer is the gradient; final: no later row of this step adds to it. forward: a row of tape F. */
struct param_event { enum row_kind kind; int param; void *buffer; bool final, forward; };

struct exec_hooks {
    void *self;
    /* Write a microbatch's data, each kind (B,T) int32; NULL: this rank does not need it. */
    enum status (*fetch)(void *self, int microbatch, int32_t *const data[N_DATA]);
    enum status (*param_event)(void *self, const struct param_event *);
    /* Called after the early actions of a schedule that validates. *again: they have read wrong weights, and the
     * right ones are in place now. */
    enum status (*settle)(void *self, bool *again);
    /* For a model of clicks (struct program): write the dense features of a microbatch, in addition to fetch; and in
     * evaluation, get its logits and labels. */
    enum status (*fetch_features)(void *self, int microbatch, void *features);
    enum status (*see_scores)(void *self, const void *logits, const int32_t *labels);
};

/* Called after each row of training; for an exchange that a row only starts, after its ROW_WAIT. A watcher reads the
 * row's results, and may change them (oracle/). */
struct exec_watch { void *self; enum status (*row)(void *self, enum row_kind, const struct call *); };

struct exec {
    const struct program *program;
    const struct chunk *chunks;
    const struct memory_plan *memory;
    const struct mesh *mesh;
    const struct arena *arenas;          /* [N_ROLES] */
    const struct arena *host_arenas;     /* [N_ROLES], in host memory that the device copies from: what is parked */
    const struct device *device;
    struct exec_hooks hooks;
    struct exec_watch watch;             /* row NULL: no watcher */
    /* Device memory: sums over this rank's microbatches, 0 if none, [N_LOSS_SUMS]. NULL (CPU only): `sums`. */
    double *loss_at;
    struct exact *loss_sum;              /* SUM_LOSS without loss_weight and rounding (sums.h); NULL: no. Borrowed */
    bool watched;                        /* arenas' high-water marks are measured */
    bool paint;                          /* overwrite values with NaN when they die: reads after death show (tests) */
    struct stopwatch *stopwatch;         /* times rows of training on the device; NULL: the host's clock. Borrowed */
    struct spans *spans;                 /* actions and rows of training are recorded here; NULL: nowhere. Borrowed */
    /* per step, set by the run */
    uint64_t seed, n_step;
    int64_t micro;                       /* sequences of a microbatch */
    int64_t workers;                     /* number of replicas that share the batch: the first along dp */
    double loss_weight, loss_scale;
    /* results of exec_run */
    double sums[N_LOSS_SUMS];            /* if loss_at is NULL: the same sums */
    double seconds[N_ROW_KINDS];         /* time in rows by kind */
    double transfer_s;                   /* waiting for neighbors: the bubble, and the wire */
    int64_t parked_bytes;                /* of training: copied to host memory and back */
    /* by step of the program, over all steps of training so far (ROW_FORWARD .. ROW_BACKWARD_WEIGHT); of a fused pair:
     * the first's */
    double (*step_seconds)[ROW_WAIT];
    /* internals */
    struct spans *recording;             /* spans, while a step of training runs */
    struct comm_request *step_requests;  /* by step: asynchronous rows in flight */
    struct device_mark *copies;          /* by slot: parked, or on its way back */
    struct comm_request *ring_requests[N_CHANNELS];   /* by slot and stream */
    int ring_used[N_CHANNELS], ring_taken[N_CHANNELS];   /* taken: messages from this rank to itself */
    const struct schedule *schedule;     /* that is running */
    /* For a schedule without a flush, set by the run: the step's number since the last flush, and how many microbatches
     * from its first on may be begun (INT_MAX: all). */
    int64_t since_flush;
    int n_begin;
    struct feed *feed;                   /* batches on their way to the device (exec_feed.c) */
};

/** For timing, before the first step: run only the kernels of an op's rows, once in each action that is a chunk's first
 *  of its kind. They read arbitrary memory, and their results are not used.
 *  @errors those of the kernels  @collective{none: the op does not communicate} */
enum status exec_rows_of(struct exec *, const struct schedule *, const struct op *);

/** Allocate the internals; everything else in *e must be set already. @errors E_MEMORY  @collective{none} */
enum status exec_init(struct exec *);
void exec_fini(struct exec *);

/** Run every action of the schedule, early ones twice if need be. Then whole gradients have this step's values; shards
 *  of gradients (RESIDENT_OWN) are cleared and added to by their technique. training: dropout is on, and each
 *  microbatch has a frame of its own; otherwise the schedule has only forward actions, and every microbatch uses frame
 *  0.
 *  @collective{mesh} @errors of ops and comm */
enum status exec_run(struct exec *, const struct schedule *, bool training);

/** After exec_run: the address, in device memory, of the output of a chunk's forward tape (its last block's out, of the
 *  first stream); NULL: it has none. Only for a program that is forward only; in others another microbatch may have
 *  overwritten the frame. */
void *exec_out(const struct exec *, int chunk);

#endif
