/* An op is a row in a table: what shape it makes, what its backward pass reads, what it costs, and its kernels.
 *
 * Everything else follows from these declarations. The lowering (lib/program) derives from `needs` which activations
 * must be saved and for how long, from the aliases which buffers may be shared, from `work` the scratch, from `cost`
 * the bill. No op depends on a program, a schedule or a technique; a technique adds ops of its own (tp_enter, tp_exit)
 * the same way.
 *
 * Backward is two functions. backward_input makes the gradients of the inputs; backward_weight adds to the gradients of
 * the weights (or sets them: `fresh`). They are separate because a pipeline schedule may want to run them at different
 * times, and because what each reads differs: a linear layer needs W for dx, and x for dW. */
#pragma once

#include "lib/base/status.h"
#include "lib/device/device.h"
#include "lib/device/tensor.h"
#include "lib/ops/rules.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes of tables; ops of more operands raise them, up to the bits of a set. */
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
    int mesh_axis;                                       /* ops that communicate: over which axis (lib/comm/mesh.h) */
    int parts, part;                                     /* ... its size and this rank's index in it; 1, 0 otherwise */
    union {                                              /* which of them: op->rule */
        struct dropout_rule dropout;
        struct attention_rule attention;                 /* begins with its dropout */
        struct head_rule head;
        struct gather_rule gather;
        struct reshard_rule reshard;
        struct norm_rule norm;
        struct rope_rule rope;
        struct scale_rule scale;
        struct fp8_rule fp8;
        struct moe_rule moe;
    };
};

enum row_kind {
    ROW_FORWARD, ROW_REPLAY, ROW_BACKWARD_INPUT, ROW_BACKWARD_WEIGHT,     /* one step's kernel */
    ROW_WAIT,                                                             /* ends an asynchronous backward_input */
    ROW_PARAM_AHEAD, ROW_PARAM_NEEDED, ROW_PARAM_DONE, ROW_GRAD_READY,    /* events, for techniques */
    ROW_PARK, ROW_UNPARK, ROW_COPIED,                                     /* a slot to host memory and back; awaited */
    N_ROW_KINDS
};
static inline bool row_kind_is_step(enum row_kind k) { return k < ROW_WAIT; }
static inline bool row_kind_is_event(enum row_kind k) { return k > ROW_WAIT && k < ROW_PARK; }
static inline bool row_kind_is_copy(enum row_kind k) { return k >= ROW_PARK && k < N_ROW_KINDS; }

/* One execution of one step on one microbatch, operands resolved to addresses.
 * What an op did not declare in `needs` arrives as data == NULL, so that a false declaration crashes at once.
 * The types are always there: `shape`, `work` and `cost` get a call without any data. */
struct call {
    const struct step *step;
    struct tensor in[MAX_IN], out[MAX_OUT], weight[MAX_WEIGHTS];
    struct tensor din[MAX_IN], dout[MAX_OUT], dweight[MAX_WEIGHTS];
    void *work;                      /* op->work bytes, aligned as arenas are on the device; content undefined */
    unsigned accumulate;             /* bit i: din[i] += instead of din[i] = */
    unsigned fresh;                  /* bit i: dweight[i] = instead of +=, as it holds nothing yet (op->sets_dweight) */
    bool training;                   /* false: evaluation; dropout is the identity */
    bool watched;                    /* its memory's high-water mark is measured: see op_touch_work */
    uint64_t seed, n_step;           /* with dropout.stream: the dropout key */
    int64_t first_sample;            /* index of this microbatch's sample 0 in the step's global batch */
    /* The loss (cross_entropy) is loss_weight, 1 / global tokens, times the sum over tokens; its gradients are
     * multiplied by loss_scale as well, against underflow. */
    double loss_weight, loss_scale;
    /* Known before there is a device, because scratch depends on them: where it runs, how many OpenMP threads run it at
     * most, whether products are plain loops (struct gemm), and whether sums are the same in all layouts. */
    enum device_kind on;
    int n_threads;
    bool plain_gemm;
    bool fixed_sums;                 /* --sums fixed (lib/program/sums.h) */
    /* Each token's loss is also added here, before it is multiplied by loss_weight, in host memory (--sums fixed);
     * NULL: it is not. */
    struct exact *loss_sum;
    /* If weight[0] is a table whose rows lie in slots: the slot of each row (rec/rows.h); NULL: all lie in order. In
     * host memory. */
    const int32_t *row_place;
    const struct device *device;     /* set when the call runs; NULL in shape, work and cost */
    const struct group *group;       /* of step->mesh_axis */
    struct comm_request *request;    /* async_backward: start here, the executor waits at ROW_WAIT */
};

/* Bit i: backward_input (bi) or backward_weight (bw) reads in[i], out[i] or weight[i]. dout is always there. */
struct needs { unsigned bi_in, bi_out, bi_weight, bw_in, bw_out; };

/* VIEW: the result is the operand, bit for bit; no memory. A row with nothing left to compute is not emitted; one that
 * still has another result gets the same address for both, and leaves it alone. IN_PLACE: the result may be written
 * over the operand, when the operand dies in this row. */
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
};

/* What a row exchanges over step->mesh_axis is named with these, of lib/comm/exchange.h, which ops that communicate
 * include. */
struct exchange;
enum { MAX_EXCHANGES = 2 };

typedef enum status kernel(const struct call *);

struct op_kernels { kernel *forward, *backward_input, *backward_weight; };

/* What the op does to how tensors lie over ranks: replicated, sharded, a partial sum (lib/types/types.h, which has a
 * rule for each). Those that communicate do so over step->mesh_axis. */
enum typing {
    TYPING_NONE,          /* not stated: the type checker refuses a program with this op */
    TYPING_LOCAL,         /* outputs follow from the inputs' same places, but along `mixes`; no sum */
    TYPING_LOCAL_ACROSS,  /* the same, and of the first axis in `mixes` each rank has a shard */
    TYPING_PRODUCT,       /* x W + b: sums over the axes that x and W share and y has not */
    TYPING_LOOKUP,        /* rows of the weight, by number; zero for a row that another rank has */
    TYPING_BAG,           /* the same in several tables, each by numbers of its own, which may lie where it does */
    TYPING_LOSS,          /* a sum over tokens; all of `mixes` must be here */
    TYPING_LOSS_ACROSS,   /* a sum over tokens; each rank has a shard of `mixes` */
    TYPING_HEAD, TYPING_HEAD_ACROSS,   /* a product and its loss */
    TYPING_SUM_BACKWARD,  /* forward nothing, backward an all-reduce */
    TYPING_SUM,           /* forward an all-reduce, backward nothing */
    TYPING_GATHER,        /* forward an all-gather, backward a reduce-scatter */
    TYPING_SCATTER,       /* forward a reduce-scatter, backward an all-gather */
    TYPING_EXCHANGE,      /* an all-to-all: step->reshard */
    TYPING_ROUTE, TYPING_PACK, TYPING_DISPATCH, TYPING_COMBINE,   /* tokens to rows of experts, and back (moe/) */
    N_TYPINGS
};

struct op {
    const char *name;
    enum op_rule rule;
    enum typing typing;
    const char *mixes;               /* tags of the axes along which results depend on other places; NULL: none */
    /* The type of every output, from the types of inputs and weights (call->in[i].type ...), into out[0 .. n_out).
     * Runs again after every rewrite; must refuse what it cannot do. @errors E_CONFIG */
    enum status (*shape)(const struct call *, struct type out[MAX_OUT]);
    struct needs needs;

    /* Sets of operands. */
    unsigned no_grad_in;             /* in[i] has no gradient (token ids) */
    unsigned no_grad_out;            /* out[i] has none: a statistic, the loss, a mask */
    unsigned statistic_out;          /* out[i] is a number or two per row; counted apart from the activations */
    unsigned kept_out;               /* out[i] is never recomputed: a decision, which a rounding could turn */
    /* out[i] is a few numbers, the first of which adds to the loss in training. Its gradient is the op's own affair. */
    unsigned loss_out;
    /* out[i] keeps what dropout drew, the first of them the mask. They come last, and a step that draws again in
     * backward has none of them (step->n_out). */
    unsigned dropout_out;
    const char *out_name[MAX_OUT];   /* names of out[1] and the next outputs; NULL: no more outputs */

    /* Memory. */
    enum alias forward_alias;        /* out[0] over in[0] */
    enum alias backward_alias;       /* din[alias_in] over dout[0] */
    int alias_in;
    bool backward_over_in;           /* din[0] may be written over in[0], when in[0] dies in this row */

    /* Backward. */
    bool has_backward_input, has_backward_weight;
    unsigned sets_dweight;           /* WEIGHT(i): reads call->fresh. Other gradients are cleared first */
    bool defer_weight;               /* backward_weight is a heavy GEMM: after dx it can hide communication */
    bool async_backward;             /* backward_input only starts an exchange; a ROW_WAIT ends it */
    /* In training forward does nothing and backward_input does all of it: it writes the outputs too, which `needs` must
     * name, and adds the weights' gradients; there is no backward_weight. */
    bool all_in_backward;
    bool weights_with_input;         /* backward_input adds the weights' gradients, too; there is no backward_weight */

    int64_t (*work)(const struct call *, enum row_kind);     /* scratch bytes of a row; NULL: none */
    /* Bytes of what backward_weight leaves of a microbatch instead of a gradient as large as weight[0] (rec/rows.h):
     * dweight[0] is where it goes, and all of it is written each time. NULL: gradients are added up */
    int64_t (*record)(const struct call *);
    struct cost (*cost)(const struct call *, enum row_kind); /* NULL: nothing worth counting */
    /* Writes op, count, dtype and pieces of each collective of a row, and zeros elsewhere. Returns the number of
     * collectives. NULL: none */
    int (*exchanges)(const struct call *, enum row_kind, struct exchange *out /* [MAX_EXCHANGES] */);
    /* attention alone: a pair of each kind that its kernels will meet, without memory; how many. Pure */
    int (*pairs)(const struct call *, bool backward, struct attention_pair *out /* [ATTENTION_PAIRS] */);
    struct op_kernels kernels[N_DEVICES][N_DTYPES]; /* by op_dtype */
};

/** The dtype by which kernels are chosen and in which the step computes: that of in[0]; if that is an integer or fp8,
 *  of weight[0]. */
enum dtype op_dtype(const struct call *);

/** Run one row's kernel, on call->device. @errors those of the kernel; E_CONFIG: this op has no kernel for the dtype on
 *  the device */
enum status op_run(const struct call *, enum row_kind);

/** What the step drops; NULL: its op never drops. Borrowed. (Not const, as with strchr.) */
static inline struct dropout_rule *step_dropout(const struct step *s) {
    return s->op->rule == RULE_DROPOUT || s->op->rule == RULE_ATTENTION ? (struct dropout_rule *)&s->dropout : NULL;
}

/** Does backward_input add the weights' gradients? */
static inline bool op_input_adds_weights(const struct op *op) { return op->all_in_backward || op->weights_with_input; }

/** How many outputs a step of this op has: all of them, or without those that keep what dropout drew. */
int op_n_out(const struct op *, bool store_masks);

/** Scratch bytes and cost of a row; zero where the op declares none. */
int64_t op_work(const struct call *, enum row_kind);
/** The plan counts a library's scratch whole, but the library may write less of it. Where memory is watched, its last
 *  bytes are written here, so that the measured high-water mark includes all that was reserved (lib/device/arena.h).
 *  Elsewhere nothing is queued. @errors E_DEVICE */
enum status op_touch_work(const struct call *, enum row_kind);
struct cost op_cost(const struct call *, enum row_kind);

#ifdef __cplusplus
}
#endif
