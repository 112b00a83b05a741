/* Lowering: steps become rows over values.
 *
 *   program --rewrite--> program --lower--> rows + values --plan--> offsets --execute--> numbers
 *
 * A chunk is a run of consecutive blocks on one rank. Its tapes are what the rank does for one microbatch:
 *   F  forward rows       B  backward rows (replays, input gradients, weight gradients)
 *   W  deferred weight gradients, if the schedule splits them off; otherwise they are in B
 * A *value* is one buffer with a birth and a death on the time line F, B, W. Values that cross from one action to
 * another live in a *frame* (one per microbatch); all other values are *scratch*, which every action reuses.
 *
 * Lowering decides memory and order completely, from the ops' declarations. The executor derives nothing. */
#pragma once

#include "lib/device/arena.h"
#include "lib/ops/fusion.h"
#include "lib/program/program.h"

enum tape_kind { TAPE_F, TAPE_B, TAPE_W, N_TAPES };

/* The index of a row's operand: a value of the chunk, or one of these constants. */
enum { NO_VALUE = -1, RESIDENT = -2 /* the whole param, in its arena */ };

struct row {
    enum row_kind kind;
    int id;                    /* index of the step; of the param for PARAM_* and GRAD_READY; of the slot for PARK,
                                * UNPARK and COPIED, which copy in[0] to out[0] */
    int in[MAX_IN], out[MAX_OUT], din[MAX_IN], dout[MAX_OUT], weight[MAX_WEIGHTS], dweight[MAX_WEIGHTS], work;
    unsigned accumulate;       /* bit i: the row adds to din[i] */
    unsigned fresh;            /* bit i: the row sets dweight[i]; if it is resident, in the first action only */
    bool final;              /* GRAD_READY: in the step's last action this row completes the gradient (gradients.c) */
    int wait;                  /* the ROW_WAIT that completes this row; -1: the row completes by itself */
    /* The kernel that runs this row and the `joined` - 1 rows after it (join.c), or this row alone (joined is 1). NULL:
     * each row runs its own kernel. */
    fused_kernel *fused;
    int joined;
    int dying;                 /* index of the first storage that dies in this row; -1: none */
};
struct tape { int n; struct row *rows; };

struct row_time { enum tape_kind tape; int row; };   /* row -1: before the first row; n: after the last */
struct value {
    const char *name;
    int64_t bytes;
    enum role role;
    struct row_time birth, death;
    int storage;               /* index; a value that is written over another one shares its storage */
    enum tier tier;            /* TIER_HOST: the storage of a parked value */
};
struct storage {
    int64_t bytes, offset;
    enum role role;
    struct row_time birth, death;
    enum tier tier;
    int next_dying;            /* index of the next storage that dies in the same row; -1: none */
};

/* The lifetime of a storage, by the first and the last tape that use it. Parked values have frames of their own, in
 * host memory. */
enum frame_class { FRAME_FB, FRAME_FW, FRAME_BW, PARKED_FB, PARKED_FW, N_FRAMES, SCRATCH };
enum frame_class storage_class(const struct storage *);

struct loss_value { int value; enum dtype dtype; };

struct chunk {
    struct tape tapes[N_TAPES];
    int n_values, n_storages;
    struct value *values;
    struct storage *storages;
    /* Values that cross the chunk's edges, by stream; NO_VALUE: none. A value that only passes through is in both
     * arrays. */
    int in[MAX_STREAMS], out[MAX_STREAMS], din[MAX_STREAMS], dout[MAX_STREAMS];
    int data[N_DATA], loss;
    int features, scores;              /* of a model of clicks (struct program); scores lives to the end of tape F */
    int n_losses;                      /* terms of the loss that other steps compute (op->loss_out) */
    struct loss_value *losses;         /* [n_losses], those that this rank counts; complete at the end of tape F */
    enum tape_kind loss_tape;        /* at its end the training loss is complete: TAPE_F, unless op.all_in_backward */
    int64_t frame_bytes[N_FRAMES];                 /* of one microbatch; role act */
    int64_t scratch_bytes[N_TAPES][N_ROLES];       /* packed over the tape's rows, each role by itself */
    int64_t scratch_floor[N_TAPES][N_ROLES];       /* the most bytes alive at once: no packing needs less */
};

/** Lower one chunk. split_weight: weight gradients that can be deferred go to tape W.
 *  @errors E_MEMORY  @collective{none} */
enum status chunk_lower(const struct program *, int chunk, bool split_weight, struct chunk *out);
void chunk_fini(struct chunk *);

/* Functions that return the address of a value of the chunk, of a resident weight, of a resident gradient. */
struct addresses {
    const void *self;
    void *(*value)(const void *self, int value);
    void *(*weight)(const void *self, int param), *(*grad)(const void *self, int param);
};
/** Put the addresses of a row's operands into the call of its step. */
void row_bind(const struct row *, const struct addresses *, struct call *);

/** Find the neighboring rows that one kernel can run, and set row.fused and row.joined (join.c). After chunk_lower. */
void chunk_join(const struct program *, struct chunk *);

/* ---- storage.c: values that may share bytes, and their offsets ---- */
/** Find the values that share storage (in-place ops), then set frame and scratch offsets. Called by chunk_lower.
 *  @errors E_MEMORY */
enum status chunk_place(const struct program *, struct chunk *);

/* A buffer of `bytes` bytes that is alive from `from` to `to`, both included. */
struct interval { int64_t bytes, offset; int from, to, id; };
struct packing {
    int64_t extent;            /* bytes from 0 to the end of the highest interval */
    int64_t floor;             /* the most bytes alive at one time: no packing needs less */
    int64_t looks;             /* a count of the work: intervals and tree nodes visited */
};
/** Give every interval an offset such that intervals that overlap in time do not overlap in bytes. First fit, biggest
 *  first; of equal sizes the earliest first. Offsets are multiples of the device's alignment. Reorders x; x[i].id still
 *  identifies each interval.
 *  @errors E_MEMORY  @collective{none} */
enum status interval_pack(struct interval *x, int n, enum device_kind on, struct packing *out);
