/* The plan: the user's options. One struct has two states. The option table fills in a *requested* plan, in which some
 * values may be open. plan_settle computes the open values and checks all values. All other code reads a *settled*
 * plan, and never changes it. */
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
    PLAN_MAX_MICROBATCHES = 1 << 20,     /* schedules have rows for each microbatch; more would be slow to search */
    PLAN_OWN_BYTES = 32768,
    PLAN_AUTO = -1                       /* micro_batch: the planner chooses it before the plan is settled */
};

struct recipe;
struct model;
struct membership_shape;                 /* lib/comm/membership/membership.h */

/* The options of one owner: a technique, a model or a job. `at` of each option is an offset into the owner's struct,
 * which has `bytes` bytes; 0: the values are in the struct of another owner with the same table. */
struct own_options { const struct option *option; int n; size_t bytes; };

/* Options that several owners share, at the start of the plan's `own`: those of all models, of all techniques that sum
 * gradients, of all techniques that offload, and of lib/comm. */
struct model_options {
    int64_t kv_heads, head_dim, ffn;     /* plan_kv_heads, plan_head_dim and plan_ffn replace a 0 */
    int64_t experts, experts_per_token;  /* experts 0: a dense MLP */
    int64_t moe_group;                   /* 0: plan_moe_group */
    double capacity, aux_loss, z_loss, dropout, norm_eps;
    int moe_packed;                      /* rows of experts without empty places (moe_pack.h) */
    int attention, dropout_masks, activation;      /* enum plan_attention; enum plan_masks; enum activation */
    int tie;                             /* the head's matrix is the embedding's */
};
struct grad_options { double bucket_mb, topk; int codec, feedback; };   /* MiB; percent; codec_kind; plan_feedback */
struct offload_options { double window; char path[OPTION_TEXT_MAX]; int io; };   /* MiB; ""; disk_engine_choice */
struct comm_options {
    double timeout;                      /* s */
    int64_t ranks_per_node;              /* 0: nodes are hosts */
    int placement;
    char algorithm[OPTION_TEXT_MAX];
    char link_inside[OPTION_TEXT_MAX], link_between[OPTION_TEXT_MAX];   /* "": not emulated */
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
    struct mesh_sizes mesh;              /* dp 0: plan_settle fills the world */
    /* machine */
    int device, comm, attention_core, fuse, gemm;   /* attention_core: enum attention_core */
    char gemm_algorithms[OPTION_TEXT_MAX];   /* products.h; "": none */
    int64_t threads;                     /* OpenMP threads of a rank; 0: chosen by run_compile and run_create */
    int check_collectives, check_types;
    /* the job's options that lib reads; train_options are the others (recipe.h) */
    double memory_limit;                 /* MiB; 0: none */
    int64_t save_every;
    char save[OPTION_TEXT_MAX];

    const struct model *arch;            /* the model that has the preset `model`; before recipe_preset the first */
    /* own: struct shared_options, then a struct for each of the recipe's job, techniques and models (plan_own) */
    const struct recipe *recipe;
    unsigned char own[PLAN_OWN_BYTES] __attribute__((aligned(8)));   /* char, because C lets it alias all types */

    /* ---- set by plan_settle ---- */
    bool settled;
    int64_t workers;                     /* the first replicas along dp, which share the batch; the others serve them */
    int n_microbatches;
    struct mesh_place place;             /* of the rank that has this copy of the plan; set by plan_place */
    int64_t prefill;                     /* tokens of a prompt in one forward (models/decode/); 0 stands for 1 */
    bool undrawn;                        /* weights are loaded right after: initialize them to 0, not at random */
};

/** The options whose fields are in struct plan, without those of the job, in the order of --help. */
extern const struct option_table plan_options;

/** The shared structs in a plan. The result is not const, for the reason given at plan_own. */
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
/** The owner's struct in a plan; NULL: the owner is not in the plan's recipe. pp_options(plan) is an example. The
 *  result is not const, like strchr's, because a caller whose plan is not const may change it. */
void *plan_own(const struct plan *, const struct own_options *);

/** Compute open values (dp from the world, micro-batch from a technique, min-lr, vocab), and refuse impossible values:
 *  sizes that do not divide, a world whose size is not the mesh's. world 0: the layout's own number of ranks, with dp 1
 *  for dp=0. Pure, except for plan_settle_device.
 *  @errors E_CONFIG with value, limit and remedy  @collective{none} */
enum status plan_settle(struct plan *, int world);
/** The part of plan_settle that reads the machine: it replaces auto in device and precision. @errors E_CONFIG */
enum status plan_settle_device(struct plan *);
/** Do steps overlap, so that ranks are at different updates at the same time? A technique that does not support this
 *  refuses the plan in its check. */
bool plan_is_asynchronous(const struct plan *);
/** The option that makes an asynchronous plan a synchronous one, for a message: "schedule 1f1b". */
const char *plan_synchronous_option(const struct plan *);
/** The number of replicas without samples, which serve the others (dp_variants/server/). They are the last along dp.
 *  Pure. */
int64_t plan_serving(const struct plan *);
/** Does this copy's rank train on samples? If so, it has share place.rank.dp of `workers` shares. The plan is settled.
 */
static inline bool plan_has_samples(const struct plan *p) { return p->place.rank.dp < p->workers; }
/** Configure the world from a settled plan: deadline, algorithms, nodes, links (comm_configure, comm_emulate_links).
 *  time_work: see comm_work_s. slowdown: factor on the times of this rank's emulated links, at least 1.
 *  @collective{world} @errors E_CONFIG, E_COMM, E_MEMORY */
enum status plan_use_comm(const struct plan *, bool time_work, double slowdown);
/** The transport between the GPU memories of the ranks: NCCL if --comm is nccl, or if it is auto and NCCL works; else
 *  the host.
 *  @collective{world} @errors E_COMM, E_DEVICE */
enum status plan_transport(const struct plan *, const struct device *, enum comm_transport *out);
/** Read the plan's links; links that the plan does not name stay unchanged. Pure. @errors E_CONFIG */
struct hop_links;
enum status plan_links(const struct plan *, struct hop_links *);
/** The plan's emulated nodes; ranks_per_node is 0 if no nodes are emulated. Pure. */
struct nodes plan_nodes(const struct plan *);
/** Are nodes or links emulated? If so, reports must mention the emulation. Pure. */
bool plan_emulates(const struct plan *);
static inline bool plan_emulates_links(const struct plan *p) {
    return comm_options(p)->link_inside[0] || comm_options(p)->link_between[0];
}
/** The part of plan_settle that checks comm_options. @errors E_CONFIG */
enum status plan_settle_comm(const struct plan *);
/** The node of a rank of the layout: its emulated node; else its host, if this job has all of the plan's ranks; else
 *  -1, unknown. */
int plan_node(const struct plan *, int rank);
/** The unit that a new membership may leave out: a replica of tp x cp x pp ranks. Pure. */
struct membership_shape plan_membership_shape(const struct plan *);
/** The part of plan_settle about --sums fixed. Pure. @errors E_CONFIG: options that it cannot be combined with */
enum status plan_check_sums(const struct plan *);
/** The number of bytes of gradients that fill a bucket. Pure. */
static inline int64_t plan_bucket_bytes(const struct plan *p) { return (int64_t)(grad_options(p)->bucket_mb * 0x1p20); }
/** The bytes of the buffer in host memory through which a rank reads and writes its file, at most. Pure. */
static inline int64_t plan_window_bytes(const struct plan *p) { return (int64_t)(offload_options(p)->window * 0x1p20); }
/** The codec of sent gradients. plan_has_feedback: is the codec's rounding error added to the next step's gradient?
 *  Both are pure. */
struct codec plan_codec(const struct plan *);
bool plan_has_feedback(const struct plan *);
/** The part of plan_settle about --grad-codec. Pure. @errors E_CONFIG: options that it cannot be combined with */
enum status plan_check_codec(const struct plan *);
/** Make this copy the plan of one rank. */
void plan_place(struct plan *, int rank);
/** The number of ranks of a settled plan. It fits into an int, because plan_settle refuses more. */
static inline int plan_ranks(const struct plan *p) { return (int)mesh_n_ranks(&p->mesh); }
/** The number of ranks of one replica: all ranks divided by dp. */
static inline int64_t plan_replica_ranks(const struct plan *p) {
    struct mesh_sizes one = p->mesh;
    one.dp = 1;
    return (int64_t)mesh_n_ranks(&one);
}

/** The number of heads of keys and values, each shared by heads / kv-heads heads; the default is heads. plan_ffn: the
 *  number of hidden units of the MLP. */
static inline int64_t plan_kv_heads(const struct plan *p) {
    return model_options(p)->kv_heads ? model_options(p)->kv_heads : p->heads;
}
static inline int64_t plan_head_dim(const struct plan *p) {
    return model_options(p)->head_dim ? model_options(p)->head_dim : p->hidden / p->heads;
}
static inline int64_t plan_ffn(const struct plan *p) {
    return model_options(p)->ffn ? model_options(p)->ffn : 4 * p->hidden;
}

/** The number of tokens that compete for the places of an expert. The default is the same in all layouts. */
static inline int64_t plan_moe_group(const struct plan *p) {
    return model_options(p)->moe_group ? model_options(p)->moe_group : p->seq < 256 ? p->seq : 256;
}

/** The dtype in which a model builds its program: fp64 for fp64, else fp32. mixed_precision/ narrows it later. */
enum dtype plan_dtype(const struct plan *);
/** The dtype of the operands of matrix products. */
enum dtype plan_product_dtype(const struct plan *);

/** The number of rows of the vocabulary on each of `parts` ranks. Rows beyond the vocabulary are padding: they are
 *  zero, never trained and never saved. On CUDA the number is a multiple of 64, so that rows of logits start at
 *  multiples of 16 bytes. With 50257 rows, GPT-2's, all three products of the head would run slow kernels. */
int64_t plan_vocab_rows(const struct plan *, int64_t parts);

/** The row of --optimizer and --momentum. Pure. */
static inline const struct optimizer *plan_optimizer(const struct plan *p) {
    return optimizer_of((enum optimizer_choice)p->optimizer, p->momentum);
}

/** The learning rate of update n_step, counted from 0 without skipped steps: linear warmup to lr over `warmup` steps,
 *  then half a cosine down to min-lr at the last step. Source: Radford et al. 2018; Brown et al. 2020, appendix B. */
double plan_lr(const struct plan *, int64_t n_step);

/** The divisors of n up to `limit`, as "1, 2, 4, 8, 16", for remedies. Static storage. */
const char *plan_divisors(int64_t n, int64_t limit);
