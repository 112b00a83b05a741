/* The steps of a mixture of experts, in place of an MLP. experts.c has the formula. router_bias.c: the technique that
 * moves the bias of choices by the load of experts. */
#pragma once

#include "lib/run/build.h"
#include "lib/run/technique.h"

extern const struct technique technique_router_bias;

/* What --experts does not say. units: hidden units of an expert. raw: gates are the router's scores themselves, and not
 * divided by their sum over the chosen experts. router_bias: of the router's product. biases: of the experts' products.
 * swiglu_limit: of swiglu_clamped (lib/ops/swiglu.h), in place of swiglu; 0: none. sigmoid, scale, sets: as in struct
 * moe_rule. With sigmoid the choice has a bias, which no optimizer changes. NULL: { plan_ffn, false }. */
struct experts {
    int64_t units;
    bool raw, router_bias, biases;
    double swiglu_limit;
    bool sigmoid;
    double scale;
    int64_t sets, sets_per_token;
};

/** Append the steps: each token of h (B,T,C) goes through some of the experts. down_std: the initial deviation of an
 *  expert's output matrix.
 *  @return the slot of the experts' weighted sum (B,T,C) */
int build_experts(struct builder *, const struct experts *, int h, enum activation, double down_std);

/** Change a program's steps of experts to those of --moe-packed on. They are not packed yet, and no ep has sharded
 *  them. */
void experts_pack(struct program *);
