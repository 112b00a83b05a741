/* Lowering: steps become rows over values.
 *
 *   program --rewrite--> program --lower--> rows + values --plan--> offsets --execute--> numbers
 *
 * A chunk is a run of consecutive blocks on one rank. Its tapes are what the rank does for one microbatch:
 *   F  forward rows       B  backward rows (replays, input gradients, weight gradients)
 *   W  deferred weight gradients, when a schedule splits them off; else they are in B and W is empty
 * A *value* is one buffer with a birth and a death on the time line F, B, W. Values that cross from one action to
 * another live in a *frame* (one a microbatch); the rest is *scratch* and is reused by every action.
 *
 * Everything about memory and order is decided here, from the ops' declarations. The executor derives nothing. */
#ifndef TRIVIUM_PROGRAM_LOWER_H
#define TRIVIUM_PROGRAM_LOWER_H

#include "lib/device/arena.h"
#include "lib/ops/fusion.h"
#include "lib/program/program.h"

enum tape_kind { TAPE_F, TAPE_B, TAPE_W, N_TAPES };

/* Operand of a row: a value of the chunk, or one of these. */
enum { NO_VALUE = -1, RESIDENT = -2 /* the whole param, in its arena */ };

struct row {
    enum row_kind kind;
    int id;                    /* of the step; of the param for PARAM_AHEAD, _NEEDED, _DONE, GRAD_READY; of the slot
                                * for PARK, UNPARK and COPIED, which copy in[0] to out[0] */
    int in[MAX_IN], out[MAX_OUT], din[MAX_IN], dout[MAX_OUT], weight[MAX_WEIGHTS], dweight[MAX_WEIGHTS], work;
    unsigned accumulate;       /* bit i: din[i] += */
    unsigned fresh;            /* bit i: dweight[i] holds nothing yet; a resident one in the step's first action only */
    bool final;                /* GRAD_READY: completes the gradient, in the step's last action (gradients.c) */
    int wait;                  /* the ROW_WAIT that ends this row; -1: it ends by itself */
    /* One kernel for this row and the last of the `joined` rows that begin with it (join.c), or for this row alone
     * (joined is 1); NULL: each by itself. */
    fused_kernel *fused;
    int joined;
    int dying;                 /* the first of the storages that die in this row; -1: none */
};
struct tape { int n; struct row *rows; };

struct row_time { enum tape_kind tape; int row; };   /* row -1: before the first; n: after the last */
struct value {
    const char *name;
    int64_t bytes;
    enum role role;
    struct row_time birth, death;
    int storage;               /* values written over each other share one */
    enum tier tier;            /* TIER_HOST: what is parked there */
};
struct storage {
    int64_t bytes, offset;
    enum role role;
    struct row_time birth, death;
    enum tier tier;
    int next_dying;            /* the next that dies in the same row; -1: it is the last */
};

/* By the first and the last tape that touch a storage; parked values have frames of their own, in host memory. */
enum frame_class { FRAME_FB, FRAME_FW, FRAME_BW, PARKED_FB, PARKED_FW, N_FRAMES, SCRATCH };
enum frame_class storage_class(const struct storage *);

struct loss_value { int value; enum dtype dtype; };

struct chunk {
    struct tape tapes[N_TAPES];
    int n_values, n_storages;
    struct value *values;
    struct storage *storages;
    /* Values that cross the chunk's edges, by stream; NO_VALUE: none. One that only passes through is in and out. */
    int in[MAX_STREAMS], out[MAX_STREAMS], din[MAX_STREAMS], dout[MAX_STREAMS];
    int data[N_DATA], loss;
    int features, scores;              /* of clicks (struct program); scores: to the end of tape F */
    int n_losses;                      /* other steps' terms of the loss (op->loss_out), if this rank counts it: */
    struct loss_value *losses;         /* complete at the end of tape F */
    enum tape_kind loss_tape;          /* at its end there is the loss, in training (all_in_backward); else TAPE_F */
    int64_t frame_bytes[N_FRAMES];                 /* of one microbatch; role act */
    int64_t scratch_bytes[N_TAPES][N_ROLES];       /* packed over the tape's rows, each role by itself */
    int64_t scratch_floor[N_TAPES][N_ROLES];       /* the most that is alive at once: no packing can beat it */
};

/** Lower one chunk. split_weight: deferrable weight gradients go to tape W.
 *  @errors E_MEMORY  @collective{none} */
enum status chunk_lower(const struct program *, int chunk, bool split_weight, struct chunk *out);
void chunk_fini(struct chunk *);

/* Where the operands of a row lie: a value of the chunk, a resident weight, a resident gradient. */
struct addresses {
    const void *self;
    void *(*value)(const void *self, int value);
    void *(*weight)(const void *self, int param), *(*grad)(const void *self, int param);
};
/** Put the addresses of a row's operands into the call of its step. */
void row_bind(const struct row *, const struct addresses *, struct call *);

/** Find the neighboring rows that one kernel can run, after chunk_lower: sets row.fused and row.joined (join.c). */
void chunk_join(const struct program *, struct chunk *);

/* ---- storage.c: values that may share bytes, and their offsets ---- */
/** Find the values that share storage (in-place ops), then set frame and scratch offsets. Called by chunk_lower.
 *  @errors E_MEMORY */
enum status chunk_place(const struct program *, struct chunk *);

/* An interval of time that needs bytes; both ends included. */
struct interval { int64_t bytes, offset; int from, to, id; };
struct packing {
    int64_t extent;            /* end of the highest byte */
    int64_t floor;             /* the most bytes alive at one time, which nothing can beat */
    int64_t looks;             /* the work: intervals and nodes of the tree that were visited */
};
/** Give every interval an offset such that those that overlap in time do not overlap in bytes: first fit, biggest
 *  first, among equals the earliest first. Offsets are multiples of what the device aligns to. Reorders x; ids come
 *  back in x[i].id.
 *  @errors E_MEMORY  @collective{none} */
enum status interval_pack(struct interval *x, int n, enum device_kind on, struct packing *out);

#endif
