/* Arguments of an op beyond its operands. Each kind of op has a rule of its own; op->rule says which, and the step
 * carries it. */
#pragma once

#include "lib/device/tensor.h"

enum op_rule {
    RULE_NONE, RULE_DROPOUT, RULE_ATTENTION, RULE_NORM, RULE_HEAD, RULE_GATHER, RULE_RESHARD, RULE_ROPE, RULE_FP8,
    RULE_MOE, RULE_SCALE
};

/* add_position, bias_dropout_residual (dropout.h). */
struct dropout_rule {
    uint64_t stream;                     /* the site's random stream: rng_stream of its name */
    double p;                            /* probability of dropping; 0: none */
};

/* Whose kernels run blocked attention on CUDA. AUTO: cuDNN's where it can (attention_cudnn.h). CUDNN: what it cannot do
 * is refused, E_CONFIG: a shape when the program is inferred, an element type or a GPU when the first row runs. */
enum attention_core { ATTENTION_CORE_AUTO, ATTENTION_CORE_OWN, ATTENTION_CORE_CUDNN };
/* The keys that a query sees: those up to its own, or all. */
enum attention_mask { MASK_CAUSAL, MASK_FULL };
struct attention_rule {
    struct dropout_rule dropout;         /* of the probabilities */
    enum attention_core core;
    enum attention_mask mask;
    bool cross;                          /* keys and values are of another sequence (mask FULL): its T is its own */
    bool unscaled;                       /* scores are q . k, not divided by sqrt(D) */
};

/* moe_route, moe_pack, moe_dispatch, moe_combine (moe/moe_route.h): a token goes to k of `experts`; `group` tokens
 * compete for the `places` of an expert; the weights of the two losses. packed: no place stays empty (moe_pack.h). */
struct moe_rule {
    int64_t experts, k, group, places;
    double aux, z;
    bool packed;
};

/* layernorm, rmsnorm: what is added to the variance; 0: LAYERNORM_EPS, RMSNORM_EPS. */
struct norm_rule { double eps; };

/* scale: what everything is multiplied by. */
struct scale_rule { double by; };

/* rope: the base of its angles. */
struct rope_rule { double theta; };

/* linear_cross_entropy. */
struct head_rule { int64_t rows; };      /* tokens whose logits exist at a time; 0: all */

/* sp_enter: what the sharded axis was before, which a part of two runs cannot tell. */
struct gather_rule { struct axis whole; };

/* reshard: the tag of the axis that becomes whole, and of that which is sharded instead; `moves`: which bits of
 * axis.cut go along. whole: what the first was before, if it is no run of places (n 0: it is one). */
struct reshard_rule { char gathers, cuts; unsigned moves; struct axis whole; };

/* cast_fp8, linear_fp8 (fp8.h). first: the number of the tensor x; w's and dy's are the next two. By number: scale, in
 * host memory, and amax, in the device's; NULL until there is a device. */
struct fp8_rule {
    int first;
    const double *scale;
    double *amax;
};
