/* Rules: the arguments of an op besides its operands. op->rule names the kind of rule, and each step has a rule of that
 * kind. */
#pragma once

#include "lib/device/tensor.h"
#include "lib/ops/block.h"

enum op_rule {
    RULE_NONE, RULE_DROPOUT, RULE_ATTENTION, RULE_NORM, RULE_HEAD, RULE_GATHER, RULE_RESHARD, RULE_ROPE, RULE_FP8,
    RULE_MOE, RULE_SCALE, RULE_BLOCKS, RULE_MLA, RULE_CLAMP
};

/* add_position, bias_dropout_residual (dropout.h). */
struct dropout_rule {
    uint64_t stream;                     /* the site's random stream: rng_stream of its name */
    double p;                            /* probability of dropping; 0: none */
};

/* The kernels that run blocked attention on CUDA. AUTO: cuDNN's, if cuDNN supports the call (attention_cudnn.h), else
 * our own. CUDNN: cuDNN's; E_CONFIG refuses an unsupported shape when the program is inferred, and an unsupported
 * element type or GPU when the first row runs. */
enum attention_core { ATTENTION_CORE_AUTO, ATTENTION_CORE_OWN, ATTENTION_CORE_CUDNN };
/* The keys that a query reads: those up to its own position, or all. */
enum attention_mask { MASK_CAUSAL, MASK_FULL };
/* What becomes of a score before the softmax. Positions are those in the whole sequence. */
struct attention_view {
    int64_t window;                      /* a query sees itself and the window - 1 before it; 0: all before it */
    double cap;                          /* a score s becomes cap tanh(s / cap); 0: it does not */
    bool sinks;                          /* a weight has one more score for each head, of a key with value 0 */
};
struct attention_rule {
    struct dropout_rule dropout;         /* of the probabilities */
    enum attention_core core;
    enum attention_mask mask;
    bool cross;                          /* keys and values are another sequence, of another length (mask FULL) */
    bool unscaled;                       /* scores are q . k, not divided by sqrt(D) */
    double factor;                       /* one more factor of the scores; 0 stands for 1 */
    struct attention_view view;          /* of causal attention */
};

/* moe_route, moe_pack, moe_dispatch, moe_combine (moe/moe_route.h): a token goes to k of `experts`; `group` tokens
 * compete for the `places` of an expert; aux, z: the two losses' weights. packed: no place stays empty (moe_pack.h).
 * raw: gates are not divided by their sum. sigmoid: scores are sigmoids. scale: of gates. A token's experts are in
 * `sets_per_token` of `sets` sets of neighboring experts. scale and sets 0: 1. */
struct moe_rule {
    int64_t experts, k, group, places;
    double aux, z;
    bool packed, raw, sigmoid;
    double scale;
    int64_t sets, sets_per_token;
};

/* layernorm, rmsnorm: the number added to the variance; 0: LAYERNORM_EPS, RMSNORM_EPS. */
struct norm_rule { double eps; };

/* scale: the factor of every element. */
struct scale_rule { double by; };

/* swiglu_clamped: the largest gate, and the largest magnitude of what it multiplies. */
struct clamp_rule { double limit; };

/* rope: the base of its angles, and how they are slowed (rope.h). attention: 0 stands for 1. first: the channels of a
 * head before it do not turn. neighbors: a pair is two neighboring channels. */
enum rope_scaling { ROPE_UNSCALED, ROPE_LINEAR, ROPE_LLAMA3, ROPE_YARN, ROPE_YARN_UNTRUNCATED };
struct rope_rule {
    double theta;
    enum rope_scaling scaling;
    double factor, context, slow, fast, attention;
    int64_t first;
    bool neighbors;
};

/* mla_split, mla_keys, mla_values (mla.h): channels of the latent, and of a head's value. */
struct mla_rule { int64_t latent, value; };

/* linear_cross_entropy. */
struct head_rule { int64_t rows; };      /* tokens whose logits exist at a time; 0: all */

/* sp_enter: the axis before it was sharded. A shard with two runs of positions does not determine it. */
struct gather_rule { struct axis whole; };

/* reshard: axis `gathers` becomes whole, and axis `cuts` is sharded instead. moves: the bits of axis.cut that move from
 * the first to the second. whole: the gathered axis, if its shards are not contiguous; else n is 0. */
struct reshard_rule { char gathers, cuts; unsigned moves; struct axis whole; };

/* cast_fp8, linear_fp8 (fp8.h). first: the number of tensor x; w and dy have the next two. scale (in host memory) and
 * amax (in device memory) are indexed by these numbers, and NULL until there is a device. */
struct fp8_rule {
    int first;
    const double *scale;
    double *amax;
};

/* cast_blocks, linear_blocks (fp8.h): the formats of x and W, and of dy. scales: as above; only NVFP4 has this second
 * level. square: a scale of W is of size x size numbers, so that y and dx have the same codes. stochastic: dy is
 * rounded by draws from this stream. hadamard: block_mix multiplies both operands of dW, along tokens. */
struct block_rule {
    struct fp8_rule scales;
    struct block_format operand, gradient;
    bool square, stochastic, hadamard;
    uint64_t stream;
};
