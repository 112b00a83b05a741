/* The plan: the user's options. One struct in two states. The option table fills in a *requested* plan, which may leave
 * things open. plan_settle works them out and checks the options: all code reads a *settled* plan, and none changes
 * it. */
#pragma once

#include "lib/base/option.h"
#include "lib/comm/mesh.h"
#include "lib/comm/nodes.h"
#include "lib/device/dtype.h"
#include "lib/ops/codec.h"
#include "lib/ops/optimizer.h"
#include "lib/ops/rules.h"
#include <stdint.h>

enum plan_device { PLAN_DEVICE_AUTO, PLAN_DEVICE_CPU, PLAN_DEVICE_CUDA };
enum plan_sums { PLAN_SUMS_FAST, PLAN_SUMS_FIXED };
enum plan_feedback { FEEDBACK_AUTO, FEEDBACK_ON, FEEDBACK_OFF };
enum plan_gemm { PLAN_GEMM_PACKED, PLAN_GEMM_PLAIN };
enum plan_transport { PLAN_COMM_AUTO, PLAN_COMM_MPI, PLAN_COMM_NCCL };
enum plan_precision { PRECISION_FP32, PRECISION_FP64, PRECISION_BF16, PRECISION_FP16, PRECISION_AUTO };
enum plan_placement { PLACEMENT_BLOCK, PLACEMENT_CYCLIC };
enum plan_masks { MASKS_REDRAW, MASKS_STORE };
enum plan_attention { ATTENTION_BLOCKED, ATTENTION_MATERIALISED };
enum {
    PLAN_MAX_STAGES = 512,
    PLAN_MAX_MICROBATCHES = 1 << 20,     /* a schedule has rows for each, and searching more takes too long */
    PLAN_OWN_BYTES = 24576,
    PLAN_AUTO = -1                       /* micro_batch: the planner's to choose, before the plan is settled */
};

struct recipe;
struct model;
struct membership_shape;                 /* lib/comm/membership/membership.h */

/* Options of one technique, model or job: `at` of each is an offset into a struct of its own, of `bytes`
 * bytes. */
struct own_options { const struct option *option; int n; size_t bytes; };

/* Options of several owners, first in the plan's `own`: of models; of the techniques that sum gradients; of those that
 * offload; and of lib/comm. */
struct model_options {
    int64_t kv_heads, ffn, rope_theta;   /* 0 of the first two: plan_kv_heads, plan_ffn */
    int64_t experts, experts_per_token;  /* experts 0: a dense MLP */
    int64_t moe_group;                   /* 0: plan_moe_group */
    double capacity, aux_loss, z_loss, dropout;
    int moe_packed;                      /* rows of experts without empty places (moe_pack.h) */
    int attention, dropout_masks;        /* enum plan_attention; enum plan_masks */
    int tie;                             /* the head's matrix is the embedding's */
};
struct grad_options { double bucket_mb, topk; int codec, feedback; };   /* MiB; percent; codec_kind; plan_feedback */
struct offload_options { double window; char path[OPTION_TEXT_MAX]; int io; };   /* MiB; ""; disk_engine_choice */
struct comm_options {
    double timeout;                      /* s */
    int64_t ranks_per_node;              /* 0: nodes are hosts */
    int placement;
    char algorithm[OPTION_TEXT_MAX];
    char link_inside[OPTION_TEXT_MAX], link_between[OPTION_TEXT_MAX];   /* "": as they are */
};
struct shared_options {
    struct model_options model;
    struct grad_options grad;
    struct offload_options offload;
    struct comm_options comm;
};

struct plan {
    /* model */
    char model[OPTION_TEXT_MAX], arch_name[OPTION_TEXT_MAX];
    int64_t layers, hidden, heads, seq, vocab;
    int64_t loss_chunk;
    /* training */
    int64_t steps, global_batch, micro_batch, warmup, seed;
    double lr, min_lr, weight_decay, beta1, beta2, eps, momentum, clip;
    int precision, optimizer;            /* enum optimizer_choice */
    int sums;                            /* enum plan_sums: lib/program/sums.h */
    /* parallelism */
    struct mesh_sizes mesh;              /* dp 0: as many as the world has room for */
    /* machine */
    int device, comm, attention_core, fuse, gemm;   /* attention_core: enum attention_core */
    char gemm_algorithms[OPTION_TEXT_MAX];   /* products.h; "": none */
    int64_t threads;                     /* OpenMP's, a rank; 0: not said, see run_compile and run_create */
    int check_collectives, check_types;
    /* the job: the part that lib reads; a recipe's job has the options (recipe.h) */
    double memory_limit;                 /* MiB; 0: none */
    int64_t save_every;
    char save[OPTION_TEXT_MAX];

    const struct model *arch;            /* whose preset `model` is (recipe_preset); until then the recipe's first */
    /* struct shared_options; then those of the recipe's job, techniques and models, each in its own part (plan_own) */
    const struct recipe *recipe;
    unsigned char own[PLAN_OWN_BYTES] __attribute__((aligned(8)));   /* char: any type may be read from it */

    /* ---- worked out by plan_settle ---- */
    bool settled;
    int64_t workers;                     /* replicas that share the batch: the first along dp; the others only serve */
    int n_microbatches;
    struct mesh_place place;             /* of the rank that this copy of the plan is for; set by plan_place */
    int64_t prefill;                     /* models/decode/: tokens of a prompt that are read at once; 0: one */
    bool undrawn;                        /* the weights come from elsewhere at once: begin with zeros, and draw none */
};

/** The option table of everything above but `own` and the job, in --help order. */
extern const struct option_table plan_options;

/** These owners' structs in the plan. (Not const, as plan_own.) */
static inline struct model_options *model_options(const struct plan *p) { return (void *)p->own; }
static inline struct grad_options *grad_options(const struct plan *p) {
    return &((struct shared_options *)p->own)->grad;
}
static inline struct offload_options *offload_options(const struct plan *p) {
    return &((struct shared_options *)p->own)->offload;
}
static inline struct comm_options *comm_options(const struct plan *p) {
    return &((struct shared_options *)p->own)->comm;
}
/** The struct of these options' owner, in the plan: pp_options(plan) and the like. (Not const, as with strchr:
 *  a caller with a plan that is not const may change this.) NULL: their owner is not in the plan's recipe. */
void *plan_own(const struct plan *, const struct own_options *);

/** Fill in open values (dp from the world, micro-batch as a technique needs it, min-lr, vocab) and refuse impossible
 *  ones: sizes that do not divide, a world of another size than the mesh. A world of 0: as many ranks as the layout
 *  takes; dp=0 then means 1. Pure but for plan_settle_device.
 *  @errors E_CONFIG with value, limit and remedy  @collective{none} */
enum status plan_settle(struct plan *, int world);
/** The part of plan_settle that asks the machine: device and precision where they say auto. @errors E_CONFIG */
enum status plan_settle_device(struct plan *);
/** Do steps overlap, so that ranks are at different updates at one time? A technique that does not support this refuses
 *  it in its check. */
bool plan_is_asynchronous(const struct plan *);
/** The option that makes an asynchronous plan a synchronous one, for a message: "schedule 1f1b". */
const char *plan_synchronous_option(const struct plan *);
/** Replicas that have no samples, and only serve the others (dp_variants/server/): their number; they are the last
 *  along dp. Pure. */
int64_t plan_serving(const struct plan *);
/** Does this copy's rank train on samples? Then it has share number place.rank.dp of `workers` shares. Of a settled
 *  plan. */
static inline bool plan_has_samples(const struct plan *p) { return p->place.rank.dp < p->workers; }
/** Configure the world as a settled plan says: deadline, algorithms, nodes, links (comm_configure,
 *  comm_emulate_links). time_work: comm_work_s. slowdown: this rank's emulated links take this many times as long, at
 *  least 1.  @collective{world} @errors E_CONFIG, E_COMM, E_MEMORY */
enum status plan_use_comm(const struct plan *, bool time_work, double slowdown);
/** The transport of this GPU's memory among the ranks: NCCL where --comm says so, or says auto and NCCL can; else the
 *  host.
 *  @collective{world} @errors E_COMM, E_DEVICE */
enum status plan_transport(const struct plan *, const struct device *, enum comm_transport *out);
/** Read the plan's links; links that it does not name stay unchanged. Pure. @errors E_CONFIG */
struct hop_links;
enum status plan_links(const struct plan *, struct hop_links *);
/** Its emulated nodes; of 0 ranks: none. Pure. */
struct nodes plan_nodes(const struct plan *);
/** Are nodes or links emulated? Then results must say so. Pure. */
bool plan_emulates(const struct plan *);
static inline bool plan_emulates_links(const struct plan *p) {
    return comm_options(p)->link_inside[0] || comm_options(p)->link_between[0];
}
/** The part of plan_settle that looks at these options. @errors E_CONFIG */
enum status plan_settle_comm(const struct plan *);
/** The node of a rank of the layout: the emulated one, or else its host if this job has all of the plan's ranks; -1:
 *  unknown. */
int plan_node(const struct plan *, int rank);
/** What may be left out of an epoch: replicas, of tp cp x pp ranks. Pure. */
struct membership_shape plan_membership_shape(const struct plan *);
/** The part of plan_settle about --sums fixed. Pure. @errors E_CONFIG: options that it cannot be combined with */
enum status plan_check_sums(const struct plan *);
/** Bytes of gradients that fill a bucket. Pure. */
static inline int64_t plan_bucket_bytes(const struct plan *p) { return (int64_t)(grad_options(p)->bucket_mb * 0x1p20); }
/** The most host memory through which a rank reads and writes a file. Pure. */
static inline int64_t plan_window_bytes(const struct plan *p) { return (int64_t)(offload_options(p)->window * 0x1p20); }
/** The code in which gradients travel; is its rounding error added to the next step's gradient? Pure. */
struct codec plan_codec(const struct plan *);
bool plan_has_feedback(const struct plan *);
/** The part of plan_settle about --grad-codec. Pure. @errors E_CONFIG: options that it cannot be combined with */
enum status plan_check_codec(const struct plan *);
/** Make this copy the plan of one rank. */
void plan_place(struct plan *, int rank);
/** Ranks of a settled plan: plan_settle refuses more than an int holds. */
static inline int plan_ranks(const struct plan *p) { return (int)mesh_n_ranks(&p->mesh); }
/** Ranks of one replica; dp multiplies this number. */
static inline int64_t plan_replica_ranks(const struct plan *p) {
    struct mesh_sizes one = p->mesh;
    one.dp = 1;
    return (int64_t)mesh_n_ranks(&one);
}

/** Heads of keys and values, each shared by heads / kv-heads heads; by default as many as heads. And hidden units of
 *  the MLP. */
static inline int64_t plan_kv_heads(const struct plan *p) {
    return model_options(p)->kv_heads ? model_options(p)->kv_heads : p->heads;
}
static inline int64_t plan_ffn(const struct plan *p) {
    return model_options(p)->ffn ? model_options(p)->ffn : 4 * p->hidden;
}

/** Tokens that compete for the places of an expert. The default depends on no layout. */
static inline int64_t plan_moe_group(const struct plan *p) {
    return model_options(p)->moe_group ? model_options(p)->moe_group : p->seq < 256 ? p->seq : 256;
}

/** The dtype that the model is built in: fp64 for fp64, else fp32 (mixed_precision/ narrows it when it rewrites). */
enum dtype plan_dtype(const struct plan *);
/** The dtype of products' operands. */
enum dtype plan_product_dtype(const struct plan *);

/** Rows of the vocabulary that each of `parts` ranks has. Rows beyond the vocabulary are padding: zero, never trained,
 *  never saved. On CUDA a multiple of 64, so that rows of logits start at multiples of 16 bytes: with GPT-2's 50257,
 *  for example, all three products of the head would take slow kernels. */
int64_t plan_vocab_rows(const struct plan *, int64_t parts);

/** The row of --optimizer and --momentum. Pure. */
static inline const struct optimizer *plan_optimizer(const struct plan *p) {
    return optimizer_of((enum optimizer_choice)p->optimizer, p->momentum);
}

/** Learning rate of 0-based update n (a step that is not skipped): linear warmup to lr over `warmup` steps, then half a
 *  cosine down to min-lr at the last step. Source: Radford et al. 2018; Brown et al. 2020, appendix B. */
double plan_lr(const struct plan *, int64_t n_step);

/** "1 2 4 8 16": the divisors of n up to `limit`, for remedies. Static storage. */
const char *plan_divisors(int64_t n, int64_t limit);
