/* The program: a model as flat tables of slots, params, steps and blocks.
 *
 *   slot    a named tensor that flows between steps                    "h0.ln1"
 *   param   a named tensor that is learned; a tied weight is one row   "embed.wte"
 *   step    one line: an op over slots and params (lib/ops/op.h)
 *   block   a stretch of steps between two boundaries: embedding | a layer | head and loss
 *
 * A model builds it (models/), techniques rewrite it (tp inserts steps and narrows axes, pp drops other stages' blocks,
 * recompute marks slots), and lowering (lower.h) turns it into rows. Nothing here needs a device or a peer: any process
 * can build and rewrite the program of any rank, so a laptop can plan a cluster. */
#ifndef TRIVIUM_PROGRAM_PROGRAM_H
#define TRIVIUM_PROGRAM_PROGRAM_H

#include "lib/comm/mesh.h"
#include "lib/device/arena.h"
#include "lib/device/piece.h"
#include "lib/device/tier.h"
#include "lib/ops/op.h"
#include "lib/ops/optimizer.h"
#include <stdio.h>

enum { NAME_MAX_LEN = 40 };

struct slot {
    char name[NAME_MAX_LEN];
    struct type type;          /* worked out by the producing op's shape; set by the builder for data */
    struct type grad_type;     /* of its gradient: the same, but never in fp8 (program_infer) */
    bool replay;               /* drop after forward; re-run the producing step where backward reads it (recompute) */
    bool park;                 /* or move to host memory after its last use in forward, and back for backward (park) */
};

/* An array of a param that a rank keeps between steps: its place, and its name in checkpoints. Its owner adds it
 * (program_add_array) and finds it again by its name; memory_plan places it, run_create sets its address. */
struct param_array {
    const char *name;          /* "moment1"; a literal */
    const char *saved_as;      /* what follows the param's name in a checkpoint: ".exp_avg"; NULL: not saved */
    int64_t n;                 /* elements of one copy, padding included */
    enum dtype dtype;
    enum role role;
    enum tier tier;
    int copies;                /* side by side, `stride` bytes from one to the next; 0: this param has no such array */
    enum { AMONG_PARAMS, BEHIND_PARAMS, LAST } place;   /* in its arena: next to the param's other arrays, or later */
    int64_t offset, stride;    /* of the first copy, in the arena of tier and role */
    void *at;                  /* its address */
};

/* The cached rows of a table in another tier, where kernels read them (lib/run/hot_rows.h). */
#define HOT_ROWS "hot rows"

/* Those that have the same place in every list. A state is the optimizer's: of AdamW the two moments. */
enum { MAX_ARRAYS = 14 };
enum fixed_array {
    ARRAY_GRAD, ARRAY_WEIGHT, ARRAY_STATE, ARRAY_MASTER = ARRAY_STATE + OPTIMIZER_STATES, N_FIXED_ARRAYS
};

/* The rule that updates a param. DENSE: the program's optimizer. ROWS: of a table, a step uses the rows that its bags
 * name; its gradient is the microbatches' records (op.record), and rowwise Adagrad updates those rows
 * (lib/run/optim_rows.h). STATE: Adagrad's state of a table, a number a row; stored and saved as a param is. */
enum learned_by { UPDATE_DENSE, UPDATE_ROWS, UPDATE_STATE };

/* The part of a param's tensor that is kept between steps: all, the part that this rank owns, or nothing. */
enum residence { RESIDENT_WHOLE, RESIDENT_OWN, RESIDENT_NONE };

struct param {
    /* Set by the builder: what is learned, its initial values, and its update rule. */
    char name[NAME_MAX_LEN];
    struct type type;          /* what this rank computes with; rewrites cut axes (tp) and choose the dtype */
    double init_std, init_constant;   /* init_constant + init_std x a standard normal of the global element */
    bool decay;                /* weight decay applies: matrices, not biases or layernorm weights */
    bool precise;              /* stays in full precision whatever the model computes in (a router's weight) */
    bool cache;                /* not learned: decode's key-value cache. Zero at first, never saved */
    enum learned_by update;
    double lr_scale;           /* UPDATE_ROWS: times the step's rate */
    /* Set by rewrites: the precision in which it is learned, its memory, and the owners of its parts. */
    enum dtype state_dtype;    /* of the optimizer's states and of master weights */
    bool master;               /* a state_dtype copy of the weights is kept, because `type` is less precise */
    int delay;                 /* UPDATE_ROWS: records of this step and of `delay` steps before it wait for their
                                  update */
    enum residence weight_residence, grad_residence;
    enum tier weight_tier, state_tier;   /* beyond TIER_DEVICE: offloaded, whatever the device */
    enum tier grad_tier;                 /* all params' is the same */
    enum mesh_axis shared;     /* the other ranks along this axis hold it too (pp/); AXIS_SELF: none */
    /* shard_axis: ranks that hold different parts (shards, or parts of any size); AXIS_SELF: this rank holds all.
     * replicate_axis: ranks that hold the same part; their gradients are summed afterwards (combine.h). */
    enum mesh_axis shard_axis, replicate_axis;
    /* This rank updates the elements [own_first, own_first + own_n). Equal shards of shard_n elements fill padded_n,
     * the whole rounded up: shard_n x ranks = padded_n. Parts of any size: padded_n is 0. */
    int64_t own_first, own_n, shard_n, padded_n;
    int gradient_of;           /* --sums fixed: 1 + the param of which this is one more gradient; 0: it is a param */
    /* Set by program_infer: its users, the ranks over which its gradient is a sum, and the rank that counts it. */
    struct type grad_type;     /* the same shape, in the precision in which gradients are accumulated */
    bool present;              /* some step of this rank uses it */
    int uses, model_uses;      /* steps of this rank that do; of the whole model */
    int64_t record_bytes;      /* UPDATE_ROWS: of one microbatch's record, which takes the place of a gradient */
    unsigned reduce;           /* axes of the mesh, as bits, over which its gradient is a sum */
    bool counted;              /* this rank's own elements count in the model's norm: each element on one rank */
    bool in_norm;              /* the same within its replica, where replicas differ (program.n_apart) */
    /* Set by lowering: what rows do with its gradient. */
    bool no_grad;              /* no row of a step adds to it, and it is zero (gradients.c) */
    unsigned summed;           /* --sums fixed: of `reduce`, what is summed where the gradient is made (sums.h) */
    /* Set by memory_plan: every array that is kept of it; owners have added theirs before. */
    int n_arrays;
    struct param_array arrays[MAX_ARRAYS];
    /* Set at run_create: addresses. Of several versions of the weight the newest. */
    void *weight, *grad;
    const int32_t *hot_place;  /* where each row is in the array HOT_ROWS (lib/run/hot_rows.h); NULL: no such array */
};

/* Streams: the slots that go from block to block. Most models have one, an encoder-decoder two (models/t5/), of which
 * some blocks only pass one on. A stream has the same number in all blocks, so that a stage sends what the next one
 * expects. */
enum { MAX_STREAMS = 2 };

struct block {
    char name[16];
    int in[MAX_STREAMS], out[MAX_STREAMS];   /* boundary slots, by stream; -1: none; all -1: the pipeline's ends */
    int chunk;                 /* which of this rank's model chunks it belongs to; -1: another rank's */
    bool is_layer;
};

/* The data of a sample, each kind a slot of (B,T) int32 (of models of clicks: dlrm.h); T may be shorter than the text.
 * SEGMENTS: the number of a token's text, of two. DECODER: the decoder's input, in addition to the encoder's tokens. */
enum data_kind { DATA_TOKENS, DATA_TARGETS, DATA_SEGMENTS, DATA_DECODER, N_DATA };

struct program {
    struct mesh_place place;   /* of the rank that this is the program of */
    int n_slots, n_params, n_steps, n_blocks, n_chunks;
    struct slot *slots;
    struct param *params;
    struct step *steps;
    struct block *blocks;
    int data[N_DATA], loss;    /* slots of the data and of the result; -1 where this rank has none */
    /* For models of clicks, whose tokens are bags of ids and whose targets are labels: the slots of the dense features,
     * and of the logits, which an evaluation looks at; else -1. */
    int features, scores;
    /* The number of replicas that update independently (dp_variants/local/), and this one's index. Their weights differ
     * between two averages, their moments always. 0: replicas are equal. */
    int n_apart, apart;
    const struct optimizer *optimizer;   /* by what dense params are learned */
    enum device_kind device;   /* where it will run, with how many OpenMP threads per rank, and whether products are */
    int n_threads;             /* plain loops: scratch and kernels depend on all three */
    bool plain_gemm;
    bool fixed_sums;           /* sums.h */
    bool forward_only;         /* no training: no backward tapes, and params have no own elements (models/decode/) */
};

/** Elements that lie in the param and grad arenas, and in each of the optimizer's arrays: whole or shard, padding
 *  included. */
int64_t param_resident_n(const struct param *, enum residence);
int64_t param_state_n(const struct param *);

/** Elements of a gradient that waits, fp32 (sums.h): what this rank keeps of one, without padding of whole ones. */
int64_t param_waiting_n(const struct param *);
/** Must its weight be gathered before a block reads it? No whole one is kept, or other ranks update shards of it. */
static inline bool param_is_gathered(const struct param *w) { return w->present && w->padded_n > 0; }
/** Has it a gradient of its size, which is summed over ranks, clipped and given to the optimizer? */
static inline bool param_is_dense(const struct param *w) { return w->present && w->update == UPDATE_DENSE; }
/** UPDATE_ROWS: the number of records of one step; and the address of a step's records, record_bytes from one
 *  microbatch's to the next. */
int param_records_of_step(const struct param *);
char *param_records(const struct param *, uint64_t n_step);
/** Where its gradient begins, in the arena of gradients. */
static inline int64_t param_grad_offset(const struct param *w) { return w->arrays[ARRAY_GRAD].offset; }
/** Is it a param, or one more gradient of another one? */
static inline bool param_is_stored(const struct param *w) { return w->present && !w->gradient_of; }

/** Add an owner's array to a param, before memory_plan, or change the array of that name.
 *  An array that is saved has as many elements as the optimizer's states. @errors E_INTERNAL: MAX_ARRAYS are there */
enum status program_add_array(struct program *, int param, const struct param_array *);
/** The array of that name; NULL: there is none. */
const struct param_array *param_array(const struct param *, const char *name);
/** The address of an array that is there, and of the optimizer's state i and the master; NULL: there is none. */
static inline void *param_state(const struct param *w, int i) { return w->arrays[ARRAY_STATE + i].at; }
static inline void *param_master(const struct param *w) { return w->arrays[ARRAY_MASTER].at; }
static inline int64_t param_array_bytes(const struct param_array *a) { return a->n * (int64_t)dtype_size(a->dtype); }

/** The axis of the mesh over whose ranks the param is the same: they sum its gradient, and may shard it, all of them
 *  together or in parts (shard_axis, replicate_axis). */
static inline enum mesh_axis param_replicas(const struct param *w) { return mesh_replicas(w->reduce); }

/** Own elements: what this rank updates. Address of the first, in weight and in gradient. */
void *param_own_weight(const struct param *);
void *param_own_grad(const struct param *);
/** Own elements with their states and master, for an optimizer. */
struct optimizer_elements param_elements(const struct param *);
/** The piece of a param that this rank saves: its own elements, without padding; n 0: none. And its i-th array to save,
 *  the weight first (the master, if there is one). Where replicas differ, each saves its own optimizer's states, and
 *  the first replica all other arrays.  @return NULL: there are only i */
struct piece param_own_piece(const struct param *);
const struct param_array *param_saved(const struct param *, int i);
/** Is it a state of the optimizer? Replicas that differ have each its own. */
static inline bool array_is_state(const struct param *w, const struct param_array *a) {
    return a - w->arrays >= ARRAY_STATE && a - w->arrays < ARRAY_MASTER;
}

/** An empty program; fini frees its tables. */
void program_init(struct program *);
void program_fini(struct program *);
/** Leave out slots and params that no step uses, and that no block of this rank passes on; a block whose boundary is
 *  one of them has none (-1). */
void program_drop_unused(struct program *);
/** A copy of the tables, for another place; the caller frees it. */
void program_copy(const struct program *, const struct mesh_place *, struct program *out);

/* Builders. Names longer than NAME_MAX_LEN - 1 are cut. Returned indices stay valid; pointers only until the next add.
 * The tables are small: when one cannot grow, the process has no memory left to report with, and ends (abort). */
int program_add_slot(struct program *, const char *block, const char *name);
int program_add_param(struct program *, const char *block, const char *name, struct type, double init_std,
                      double init_constant, bool decay);
/** in: its slot of the first stream, the only one that is set. */
int program_add_block(struct program *, const char *name, int in, bool is_layer);
/** Is the slot one of those that leave the block? */
bool block_gives(const struct block *, int slot);
/** Put a copy of the step before position `at` (n_steps: at the end). @return its position */
int program_insert(struct program *, int at, const struct step *);

/** Run every op's shape, in order, and work out what follows: the types of gradients (that of what is cast to fp8 has
 *  the dtype that it was cast from); which params are present, over which ranks their gradients must be summed, and
 *  which rank counts them. After the builder and after every rewrite.
 *
 *  A gradient is a sum over the inputs and outputs of the steps that use the param. If an axis of the mesh has cut
 *  these, but not the param itself, each rank has a part of the sum:
 *      reduce(w) = union over the steps that use w of  cuts(inputs, outputs) - cuts(w)          (mesh_cuts_beyond)
 *  A param that is neither cut nor divided into shards is the same on all ranks of an axis: the first of them counts
 *  it.
 *  @errors E_CONFIG from the ops  @collective{none} */
enum status program_infer(struct program *);

/** Is this rank's loss a term of the mesh's sum? Else another rank with the same loss counts it. */
bool program_counts_loss(const struct program *);

/** A call with every type filled in and no data, for shape, work and cost. */
struct call program_call(const struct program *, const struct step *);

/** Learned elements of the whole model, each counted once, padding left out; needs a program before any rewrite. */
int64_t program_n_params(const struct program *);

/** The tables as text: one line a step with op, inputs, outputs, shapes, params and marks. */
void program_print(const struct program *, FILE *);

#endif
