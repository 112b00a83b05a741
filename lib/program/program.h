/* The program: a model as flat tables of slots, params, steps and blocks.
 *
 *   slot    a named tensor that flows between steps                    "h0.ln1"
 *   param   a named tensor that is learned; a tied weight is one param "embed.wte"
 *   step    one line: an op over slots and params (lib/ops/op.h)
 *   block   a stretch of steps between two boundaries: embedding | a layer | head and loss
 *
 * A model builds the program (models/), techniques rewrite it (tp inserts steps and narrows axes, pp drops other
 * stages' blocks, recompute marks slots), and lowering (lower.h) turns it into rows. None of this needs a device or a
 * peer: any process can build and rewrite the program of any rank, so a laptop can plan a cluster. */
#pragma once

#include "lib/comm/mesh.h"
#include "lib/device/arena.h"
#include "lib/device/piece.h"
#include "lib/ops/op.h"
#include "lib/ops/optimizer.h"
#include <stdio.h>

enum { NAME_MAX_LEN = 40 };

struct slot {
    char name[NAME_MAX_LEN];
    struct type type;         /* inferred by the shape function of the op that makes it; the builder sets it for data */
    struct type grad_type;     /* type of its gradient: the same as `type`, but never fp8 (program_infer) */
    bool replay;               /* recompute: drop it after forward, and run its step again before backward reads it */
    bool park;                 /* park: move it to host memory after forward, and back before backward reads it */
};

/* An array of a param that a rank keeps between steps: its place, and its name in checkpoints. The owner adds the array
 * (program_add_array) and finds it by its name; memory_plan places it, and run_create sets its address. */
struct param_array {
    const char *name;          /* "moment1"; a literal */
    const char *saved_as;      /* suffix of its name in a checkpoint, after the param's: ".exp_avg"; NULL: not saved */
    int64_t n;                 /* elements of one copy, with padding */
    enum dtype dtype;
    enum role role;
    enum tier tier;
    int copies;                /* number of copies, `stride` bytes apart; 0: this param has no such array */
    enum { AMONG_PARAMS, BEHIND_PARAMS, LAST } place;   /* in the arena: next to the param's other arrays, or later */
    int64_t offset, stride;    /* offset of the first copy in its arena (tier, role), and the distance of copies */
    void *at;                  /* its address */
};

/* The cached rows of a table in another tier, where kernels read them (lib/rows/hot_rows.h). */
#define HOT_ROWS "hot rows"

/* Arrays that have the same index in every param's list. A state belongs to the optimizer: AdamW has two moments. */
enum { MAX_ARRAYS = 14 };
enum fixed_array {
    ARRAY_GRAD, ARRAY_WEIGHT, ARRAY_STATE, ARRAY_MASTER = ARRAY_STATE + OPTIMIZER_STATES, N_FIXED_ARRAYS
};

/* The rule that updates a param. DENSE: the program's optimizer. ROWS: an embedding table, of which a step uses only
 * the rows that its bags name. Its gradient is the microbatches' records (op.record), and rowwise Adagrad updates those
 * rows (lib/rows/optim_rows.h). STATE: Adagrad's state of a table, one number for each row, stored and saved like a
 * param. */
enum learned_by { UPDATE_DENSE, UPDATE_ROWS, UPDATE_STATE };

/* The part of a param's tensor that a rank keeps between steps: all, its own elements, or nothing. */
enum residence { RESIDENT_WHOLE, RESIDENT_OWN, RESIDENT_NONE };

struct param {
    /* Set by the builder: what is learned, its initial values, and its update rule. */
    char name[NAME_MAX_LEN];
    struct type type;          /* the type this rank computes with; rewrites shard axes (tp) and choose the dtype */
    double init_std, init_constant;   /* initial weight = init_constant + init_std x a standard normal number */
    bool decay;                /* weight decay applies (to matrices, not to biases and layernorm weights) */
    bool precise;              /* stays in full precision even if the model computes in less (router) */
    bool cache;                /* decode's key-value cache: not learned, not saved, zero at first */
    enum learned_by update;
    const struct optimizer *optimizer;   /* UPDATE_DENSE: its row; the program's, unless a rewrite chooses another */
    double lr_scale;           /* UPDATE_ROWS: factor of the step's learning rate */
    /* Set by rewrites: the precision of training, the residence in memory, and the owners of the parts. */
    enum dtype state_dtype;    /* of the optimizer's states and of master weights */
    bool master;               /* a state_dtype copy of the weights is kept, because `type` is less precise */
    int delay;      /* UPDATE_ROWS: the records of this step and of the `delay` steps before it wait for their update */
    enum residence weight_residence, grad_residence;
    enum tier weight_tier, state_tier;   /* beyond TIER_DEVICE: offloaded, also on a CPU */
    enum tier grad_tier;                 /* equal for all params */
    enum mesh_axis shared;     /* along this axis other ranks hold the same param (pp/); AXIS_SELF: none */
    /* shard_axis: ranks that hold different parts (shards, or parts of any size); AXIS_SELF: this rank holds all.
     * replicate_axis: ranks that hold the same part; their gradients are summed after those along shard_axis
     * (combine.h). */
    enum mesh_axis shard_axis, replicate_axis;
    /* This rank updates the elements [own_first, own_first + own_n). If shards are equal, each has shard_n elements,
     * and padded_n = shard_n x ranks is the whole rounded up. If parts may have any size, padded_n is 0. */
    int64_t own_first, own_n, shard_n, padded_n;
    int gradient_of;           /* --sums fixed: 1 + index of the param whose additional gradient this is; 0: a param */
    /* Set by program_infer: the number of its users, the ranks that sum its gradient, and which of them counts it. */
    struct type grad_type;     /* type of the gradient: the same shape, and the dtype in which it is accumulated */
    bool present;              /* some step of this rank uses this param */
    int uses, model_uses;      /* number of steps that use it: of this rank; of the whole model */
    int64_t record_bytes;      /* UPDATE_ROWS: bytes of one microbatch's record, which replaces the gradient */
    unsigned reduce;           /* mesh axes, as bits, over which its gradient is summed */
    bool counted;        /* its own elements count in the model's norm on this rank (each element counts on one rank) */
    bool in_norm;              /* as `counted`, but within its replica, if replicas differ (program.n_apart) */
    /* Set by lowering: what rows do with the gradient. */
    bool no_grad;              /* no row of a step adds to the gradient, so it stays zero (gradients.c) */
    unsigned summed;           /* --sums fixed: the axes of `reduce` over which the rows themselves sum (sums.h) */
    /* Set by memory_plan: all arrays that this rank keeps of the param. Owners have added theirs before. */
    int n_arrays;
    struct param_array arrays[MAX_ARRAYS];
    /* Addresses, set at run_create. If there are several versions of the weight, the newest. */
    void *weight, *grad;
    const int32_t *hot_place;  /* [rows] index in the array HOT_ROWS (lib/rows/hot_rows.h); NULL: no such array */
};

/* Streams: the slots that go from block to block. Most models have one stream. An encoder-decoder (models/t5/) has two,
 * and some of its blocks only pass one of them on. A stream has the same number in all blocks, so that sender and
 * receiver agree. */
enum { MAX_STREAMS = 2 };

struct block {
    char name[16];
    int in[MAX_STREAMS], out[MAX_STREAMS];   /* boundary slots, by stream; -1: no slot; all -1 at the pipeline's ends */
    int chunk;                 /* index of this rank's model chunk; -1: the block is on another rank */
    bool is_layer;
};

/* The kinds of data of a sample. Each is a slot of (B,T) int32 (for models of clicks see dlrm.h); T may be shorter than
 * the text. SEGMENTS: 0 or 1, for the first or second text of a pair. DECODER: the decoder's input, in addition to the
 * encoder's tokens. */
enum data_kind { DATA_TOKENS, DATA_TARGETS, DATA_SEGMENTS, DATA_DECODER, N_DATA };

struct program {
    struct mesh_place place;   /* coordinates of the rank whose program this is */
    int n_slots, n_params, n_steps, n_blocks, n_chunks;
    struct slot *slots;
    struct param *params;
    struct step *steps;
    struct block *blocks;
    int data[N_DATA], loss;    /* slots of the data and of the loss; -1 if this rank has none */
    /* For models of clicks: the slots of the dense features, and of the logits, which an evaluation reads; -1 in other
     * models. Their tokens are bags of ids, and their targets are labels. */
    int features, scores;
    /* The number of replicas that update independently (dp_variants/local/), and the index of this replica. Their
     * weights differ until they are averaged, and their moments always differ. 0: all replicas are equal. */
    int n_apart, apart;
    const struct optimizer *optimizer;   /* the optimizer of dense params */
    enum device_kind device;   /* scratch and kernels depend on this and the next two members */
    int n_threads;             /* OpenMP threads per rank */
    bool plain_gemm;           /* products are plain loops (not BLAS) */
    bool fixed_sums;           /* --sums fixed (sums.h) */
    bool forward_only;         /* no training: no backward tapes, and params have no own elements (decode) */
};

/** Elements of the param in the param and grad arenas, and in each array of the optimizer, with padding. */
int64_t param_resident_n(const struct param *, enum residence);
int64_t param_state_n(const struct param *);

/** fp32 elements of a gradient that waits for its neighbor (sums.h): this rank's part, without the padding of whole
 *  gradients. */
int64_t param_waiting_n(const struct param *);
/** Must the weight be gathered before a block reads it? Yes if this rank keeps no whole one, or others update shards of
 *  it. */
static inline bool param_is_gathered(const struct param *w) { return w->present && w->padded_n > 0; }
/** Does the param have a dense gradient, which is summed over ranks, clipped and given to the optimizer? */
static inline bool param_is_dense(const struct param *w) { return w->present && w->update == UPDATE_DENSE; }
/** UPDATE_ROWS: the number of records of one step; and the address of a step's first record (records are record_bytes
 *  apart). */
int param_records_of_step(const struct param *);
char *param_records(const struct param *, uint64_t n_step);
/** The offset of the param's gradient in the arena of gradients. */
static inline int64_t param_grad_offset(const struct param *w) { return w->arrays[ARRAY_GRAD].offset; }
/** Is w a param, and not an additional gradient of another param? */
static inline bool param_is_stored(const struct param *w) { return w->present && !w->gradient_of; }

/** Add an array to a param, or change its array of that name. Before memory_plan. An array that is saved has as many
 *  elements as the optimizer's states. @errors E_INTERNAL: MAX_ARRAYS are there */
enum status program_add_array(struct program *, int param, const struct param_array *);
/** The array of that name; NULL: the param has none. */
const struct param_array *param_array(const struct param *, const char *name);
/** The address of the optimizer's state i, or of the master weights; NULL: the param has none. */
static inline void *param_state(const struct param *w, int i) { return w->arrays[ARRAY_STATE + i].at; }
static inline void *param_master(const struct param *w) { return w->arrays[ARRAY_MASTER].at; }
static inline int64_t param_array_bytes(const struct param_array *a) { return a->n * (int64_t)dtype_size(a->dtype); }

/** The axis whose ranks hold the same param. These ranks sum the param's gradient, and may shard it over all of them or
 *  over groups of them (shard_axis, replicate_axis). */
static inline enum mesh_axis param_replicas(const struct param *w) { return mesh_replicas(w->reduce); }

/** The address of the first own element (the elements that this rank updates), in the weight and in the gradient. */
void *param_own_weight(const struct param *);
void *param_own_grad(const struct param *);
/** The own elements, their optimizer states and master weights, as the optimizer's arguments. */
struct optimizer_elements param_elements(const struct param *);
/** The piece of a param that this rank saves: its own elements, without padding; n 0: none. */
struct piece param_own_piece(const struct param *);
/** The param's i-th array to save. Array 0 is the weight (the master weights, if there are any). If replicas differ,
 *  each saves its own optimizer states, and the first one saves all other arrays. @return NULL: there are only i */
const struct param_array *param_saved(const struct param *, int i);
/** Is the array a state of the optimizer? If replicas differ, each has its own states. */
static inline bool array_is_state(const struct param *w, const struct param_array *a) {
    return a - w->arrays >= ARRAY_STATE && a - w->arrays < ARRAY_MASTER;
}

/** Make an empty program; program_fini frees its tables. */
void program_init(struct program *);
void program_fini(struct program *);
/** Remove the slots and params that no step uses, and that no block of this rank passes on. If a removed slot was a
 *  boundary of a block, that boundary becomes -1. */
void program_drop_unused(struct program *);
/** Copy the tables for another place in the mesh; the caller frees them. */
void program_copy(const struct program *, const struct mesh_place *, struct program *out);

/* Builders. Names longer than NAME_MAX_LEN - 1 are cut. Returned indices stay valid; pointers only until the next add.
 * The tables are small: if one cannot grow, the process has no memory left to report the error, and aborts. */
int program_add_slot(struct program *, const char *block, const char *name);
int program_add_param(struct program *, const char *block, const char *name, struct type, double init_std,
                      double init_constant, bool decay);
/** in: slot of the block's first stream; the other streams are not set. */
int program_add_block(struct program *, const char *name, int in, bool is_layer);
/** Is the slot one of the block's outputs? */
bool block_gives(const struct block *, int slot);
/** Insert a copy of the step before position `at` (n_steps: at the end). @return its position */
int program_insert(struct program *, int at, const struct step *);

/** Run every op's shape, in order, and infer the types of gradients, the params that are present, the ranks that sum
 *  their gradients, and the rank that counts them. The gradient of a tensor that is cast to fp8 has the dtype before
 *  the cast. Called after the builder and after every rewrite.
 *
 *  A gradient is a sum over the inputs and outputs of the steps that use the param. If an axis of the mesh shards these
 *  inputs and outputs, but not the param, each rank has a part of the sum:
 *      reduce(w) = union over the steps that use w of  cuts(inputs, outputs) - cuts(w)          (mesh_cuts_beyond)
 *  A param that is not sharded along an axis is the same on all its ranks, and the first of them counts it.
 *  @errors E_CONFIG from the ops  @collective{none} */
enum status program_infer(struct program *);

/** Is this rank's loss a term of the mesh's sum? No if another rank has the same loss and counts it. */
bool program_counts_loss(const struct program *);

/** The step's call with all types and no data, for the functions shape, work and cost. */
struct call program_call(const struct program *, const struct step *);

/** Learned elements of the whole model, each counted once, without padding. The program must not be rewritten yet. */
int64_t program_n_params(const struct program *);

/** Print the tables as text: one line a step with op, inputs, outputs, shapes, params and marks. */
void program_print(const struct program *, FILE *);
