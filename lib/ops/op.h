/* An op is a row in a table: the shape of its result, what its backward pass reads, its cost, and its kernels.
 *
 * Everything else follows from these declarations. The lowering (lib/program) derives from `needs` which activations
 * must be saved and for how long, from the aliases which buffers may be shared, from `work` the scratch, from `cost`
 * the bill. No op depends on a program, a schedule or a technique. Techniques add their own ops (tp_enter, tp_exit) in
 * the same way.
 *
 * Backward is two functions. backward_input makes the gradients of the inputs; backward_weight adds to the gradients of
 * the weights (or sets them: `fresh`). They are separate because a pipeline schedule may run them at different times,
 * and because they read different operands: a linear layer needs W for dx, and x for dW. */
#pragma once

#include "lib/base/status.h"
#include "lib/device/device.h"
#include "lib/device/tensor.h"
#include "lib/ops/rules.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes of tables. An op with more operands may raise them, up to the 32 bits of a set. */
enum { MAX_IN = 3, MAX_OUT = 4, MAX_WEIGHTS = 2 };

/* A set of operands, as ops declare them: IN(0) | IN(1). */
#define IN(i) (1u << (i))
#define OUT(i) (1u << (i))
#define WEIGHT(i) (1u << (i))

struct op;
struct group;        /* lib/comm/comm.h; ops of this folder do not read its fields */
struct comm_request; /* lib/comm/comm.h */
struct exact;        /* lib/base/exact.h */
struct attention_pair;   /* lib/ops/attention/attention_pair.h */

/* One line of the program: an op, the slots it reads and writes, the params it uses, and its rule (rules.h). */
struct step {
    const struct op *op;
    int n_in, n_out, n_weight;
    int in[MAX_IN], out[MAX_OUT], weight[MAX_WEIGHTS];   /* indices into the program's slots and params */
    int block;                                           /* index into the program's blocks */
    int mesh_axis;                                       /* if the op communicates: over this axis (lib/comm/mesh.h) */
    int parts, part;                                     /* that axis's size, this rank's index in it; 1, 0: no axis */
    union {                                              /* op->rule selects the member */
        struct dropout_rule dropout;
        struct attention_rule attention;                 /* begins with its dropout */
        struct head_rule head;
        struct gather_rule gather;
        struct reshard_rule reshard;
        struct norm_rule norm;
        struct rope_rule rope;
        struct scale_rule scale;
        struct fp8_rule fp8;
        struct block_rule blocks;                        /* begins with fp8 */
        struct moe_rule moe;
        struct mla_rule mla;
        struct clamp_rule clamp;
    };
};

enum row_kind {
    ROW_FORWARD, ROW_REPLAY, ROW_BACKWARD_INPUT, ROW_BACKWARD_WEIGHT,     /* one step's kernel */
    ROW_WAIT,                                                             /* ends an asynchronous backward_input */
    ROW_PARAM_AHEAD, ROW_PARAM_NEEDED, ROW_PARAM_DONE, ROW_GRAD_READY,    /* events, for techniques */
    ROW_PARK, ROW_UNPARK, ROW_COPIED,                                     /* copy to the host; back; await a copy */
    N_ROW_KINDS
};
static inline bool row_kind_is_step(enum row_kind k) { return k < ROW_WAIT; }
static inline bool row_kind_is_event(enum row_kind k) { return k > ROW_WAIT && k < ROW_PARK; }
static inline bool row_kind_is_copy(enum row_kind k) { return k >= ROW_PARK && k < N_ROW_KINDS; }

/* One execution of one step on one microbatch, operands resolved to addresses.
 * An operand that the op does not declare in `needs` has data == NULL, so that a wrong declaration crashes at once.
 * The types are always set: `shape`, `work` and `cost` get a call with types and without data. */
struct call {
    const struct step *step;
    struct tensor in[MAX_IN], out[MAX_OUT], weight[MAX_WEIGHTS];
    struct tensor din[MAX_IN], dout[MAX_OUT], dweight[MAX_WEIGHTS];
    void *work;                      /* op->work bytes, aligned as arenas are on the device; content undefined */
    unsigned accumulate;             /* bit i: din[i] += instead of din[i] = */
    unsigned fresh;                  /* bit i: dweight[i] = instead of +=, for its first gradient (sets_dweight) */
    bool training;                   /* false: evaluation; dropout is the identity */
    bool watched;                    /* the high-water mark of memory is measured: see op_touch_work */
    uint64_t seed, n_step;           /* with dropout.stream: the dropout key */
    int64_t first_sample;            /* index of this microbatch's sample 0 in the step's global batch */
    /* The loss (cross_entropy) is the sum over tokens times loss_weight, 1 / global tokens. Its gradients are also
     * multiplied by loss_scale, against underflow. */
    double loss_weight, loss_scale;
    /* Scratch depends on the next four, so they are set before a device exists. */
    enum device_kind on;
    int n_threads;                   /* the most OpenMP threads that run the call */
    bool plain_gemm;                 /* matrix products are plain loops (struct gemm) */
    bool fixed_sums;                 /* --sums fixed: sums are the same in all layouts (lib/program/sums.h) */
    /* With --sums fixed, each token's loss is also added here, before the product with loss_weight. In host memory;
     * NULL: no such sum. */
    struct exact *loss_sum;
    /* If weight[0] is a table with rows in slots, the slot of each row (rec/rows.h). In host memory; NULL: rows are in
     * order. */
    const int32_t *row_place;
    const struct device *device;     /* set when the call runs; NULL in shape, work and cost */
    const struct group *group;       /* of step->mesh_axis */
    struct comm_request *request;    /* async_backward: start here, the executor waits at ROW_WAIT */
};

/* Bit i: backward_input (bi) or backward_weight (bw) reads in[i], out[i] or weight[i]. Both always get dout. */
struct needs { unsigned bi_in, bi_out, bi_weight, bw_in, bw_out; };

/* VIEW: the result is the operand itself, at the same address, and the kernel must not write it. If the op has no other
 * result, its row is not emitted. IN_PLACE: the result may be written over the operand, if the operand dies in this
 * row. */
enum alias { ALIAS_NONE, ALIAS_VIEW, ALIAS_IN_PLACE };

/* `batch` products of (m, k) and (k, n). */
struct matmul { int64_t m, n, k, batch; };
enum { MAX_PRODUCTS = 3 };
struct cost {
    double flops;        /* a multiply-add is two; only matrix products and attention count, as in the MFU formula */
    double bytes;        /* memory traffic with perfect caches: each operand once */
    struct matmul product[MAX_PRODUCTS];   /* the matrix products that make up the flops */
    int n_products;                         /* 0: attention by tiles, which mixes products with other work */
    double left_out;                        /* flops left out: the half that a causal mask hides */
    double cast_bytes;                      /* traffic of casts before the products: nothing hides it */
};

/* The collectives of a row over step->mesh_axis. Ops that communicate include the definition, lib/comm/exchange.h. */
struct exchange;
enum { MAX_EXCHANGES = 2 };

typedef enum status kernel(const struct call *);

struct op_kernels { kernel *forward, *backward_input, *backward_weight; };

/* The op's rule for how tensors lie over ranks: replicated, sharded, or partial sums (lib/types/types.h). Ops that
 * communicate do so over step->mesh_axis. */
enum typing {
    TYPING_NONE,          /* not stated: the type checker refuses a program with this op */
    TYPING_LOCAL,         /* an output element reads inputs at its own indices; along axes in `mixes`, at all indices */
    TYPING_LOCAL_ACROSS,  /* as LOCAL, but the first axis in `mixes` is sharded: the op exchanges its shards */
    TYPING_PRODUCT,       /* x W + b: a sum over the axes that x and W share and y does not have */
    TYPING_LOOKUP,        /* rows of the weight, by number; zero for a row of another rank's shard */
    TYPING_BAG,           /* sums of rows, from several tables; ids are sharded by table if the tables are */
    TYPING_LOSS,          /* a sum over tokens; the axes in `mixes` must not be sharded */
    TYPING_LOSS_ACROSS,   /* a sum over tokens; the axis in `mixes` is sharded */
    TYPING_HEAD, TYPING_HEAD_ACROSS,   /* a product and its loss */
    TYPING_SUM_BACKWARD,  /* forward is the identity, backward an all-reduce */
    TYPING_SUM,           /* forward is an all-reduce, backward the identity */
    TYPING_GATHER,        /* forward an all-gather, backward a reduce-scatter */
    TYPING_SCATTER,       /* forward a reduce-scatter, backward an all-gather */
    TYPING_EXCHANGE,      /* an all-to-all by step->reshard */
    TYPING_ROUTE, TYPING_PACK, TYPING_DISPATCH, TYPING_COMBINE,   /* tokens to rows of experts, and back (moe/) */
    N_TYPINGS
};

struct op {
    const char *name;
    enum op_rule rule;
    enum typing typing;
    const char *mixes;               /* tags of the axes along which an element reads other elements; NULL: none */
    /* The type of every output, from the types of inputs and weights (call->in[i].type ...), into out[0 .. n_out).
     * Runs again after every rewrite, and must refuse types that the op does not support. @errors E_CONFIG */
    enum status (*shape)(const struct call *, struct type out[MAX_OUT]);
    struct needs needs;

    /* Sets of operands. */
    unsigned no_grad_in;             /* in[i] has no gradient (token ids) */
    unsigned no_grad_out;            /* out[i] has no gradient: a statistic, the loss, a mask */
    unsigned statistic_out;          /* out[i] is a number or two per row; counted apart from the activations */
    unsigned kept_out;               /* out[i] is never recomputed: other rounding could change the op's decision */
    /* The first number of out[i] is added to the loss in training. The op's backward computes that term's gradient. */
    unsigned loss_out;
    /* out[i] keeps dropout's draws; the first is the mask. These are the last outputs. A step that draws again in
     * backward leaves them out (step->n_out). */
    unsigned dropout_out;
    const char *out_name[MAX_OUT];   /* names of out[1] and the following; NULL: no more outputs */

    /* Memory. */
    enum alias forward_alias;        /* out[0] over in[0] */
    enum alias backward_alias;       /* din[alias_in] over dout[0] */
    int alias_in;
    bool backward_over_in;           /* din[0] may be written over in[0], if in[0] dies in this row */

    /* Backward. */
    bool has_backward_input, has_backward_weight;
    unsigned sets_dweight;           /* WEIGHT(i): the kernel obeys call->fresh. Other gradients are cleared first */
    bool defer_weight;               /* backward_weight is a heavy GEMM; run after dx, it hides communication */
    bool async_backward;             /* backward_input only starts an exchange; a ROW_WAIT awaits its end */
    /* In training forward does nothing. backward_input also writes the outputs, which `needs` must name, and adds the
     * weights' gradients; there is no backward_weight. */
    bool all_in_backward;
    bool weights_with_input;         /* backward_input also adds the weights' gradients; there is no backward_weight */

    int64_t (*work)(const struct call *, enum row_kind);     /* scratch bytes of a row; NULL: none */
    /* Bytes of the record of a microbatch that backward_weight writes to dweight[0], in place of a gradient as large as
     * weight[0] (rec/rows.h). Each call writes all bytes. NULL: backward_weight adds up gradients */
    int64_t (*record)(const struct call *);
    struct cost (*cost)(const struct call *, enum row_kind); /* NULL: the cost is counted as zero */
    /* Writes op, count, dtype and pieces of each collective of a row, and zeros elsewhere. Returns the number of
     * collectives. NULL: none */
    int (*exchanges)(const struct call *, enum row_kind, struct exchange *out /* [MAX_EXCHANGES] */);
    /* Attention only: writes one pair, without memory, for each kind that the kernels run. Returns their number.
     * Pure */
    int (*pairs)(const struct call *, bool backward, struct attention_pair *out /* [ATTENTION_PAIRS] */);
    struct op_kernels kernels[N_DEVICES][N_DTYPES]; /* by op_dtype */
};

/** The dtype by which kernels are chosen and in which the step computes: that of in[0]; if that is an integer or fp8,
 *  of weight[0]. */
enum dtype op_dtype(const struct call *);

/** The dtype of the operands of the step's products: that of their codes, if they are cast to codes, else op_dtype. It
 *  sets their speed. */
enum dtype op_product_dtype(const struct call *);

/** Run one row's kernel, on call->device. @errors those of the kernel; E_CONFIG: this op has no kernel for the dtype on
 *  the device */
enum status op_run(const struct call *, enum row_kind);

/** The step's dropout; NULL: its op has none. Borrowed. (The result is not const, as with strchr.) */
static inline struct dropout_rule *step_dropout(const struct step *s) {
    return s->op->rule == RULE_DROPOUT || s->op->rule == RULE_ATTENTION ? (struct dropout_rule *)&s->dropout : NULL;
}

/** Does backward_input add the weights' gradients? */
static inline bool op_input_adds_weights(const struct op *op) { return op->all_in_backward || op->weights_with_input; }

/** The number of outputs of a step of this op; store_masks counts dropout_out as well. */
int op_n_out(const struct op *, bool store_masks);

/** The scratch bytes of a row, and (op_cost) its cost; 0 if the op declares none. */
int64_t op_work(const struct call *, enum row_kind);
/** The plan counts a library's scratch whole, but the library may write less of it. If memory is watched, write the
 *  scratch's last bytes, so that the measured high-water mark includes all of it (lib/device/arena.h). Otherwise queue
 *  nothing. @errors E_DEVICE */
enum status op_touch_work(const struct call *, enum row_kind);
struct cost op_cost(const struct call *, enum row_kind);

#ifdef __cplusplus
}
#endif
