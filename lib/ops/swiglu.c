#include "lib/ops/swiglu.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

/* The last axis but one, of size 2, must be the two halves; y does not have it. */
static enum status gated_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct shape *x = &call->in[0].type->shape;
    int last = x->n_axes - 1;
    if (last < 1 || x->axis[last - 1].tag != '2' || x->axis[last - 1].n != 2)
        return shape_refuse(call, "the last axis but one must be the two halves");
    out[0] = *call->in[0].type;
    out[0].shape.axis[last - 1] = x->axis[last];
    out[0].shape.n_axes = last;
    return OK;
}

DECLARE_KERNELS_FB(swiglu, cpu);
DECLARE_KERNELS_FB(swiglu, cuda);
DECLARE_KERNELS_FB(geglu, cpu);
DECLARE_KERNELS_FB(geglu, cuda);
DECLARE_KERNELS_FB(swiglu_clamped, cpu);
DECLARE_KERNELS_FB(swiglu_clamped, cuda);

#define GATED_UNIT(f, of)                                                                                              \
    {                                                                                                                  \
        .name = #f, .typing = TYPING_LOCAL, .mixes = "2", .shape = gated_shape, .needs = {.bi_in = IN(0)},             \
        .has_backward_input = true, .backward_over_in = true, .cost = cost_traffic, .rule = of,                        \
        .kernels = {[DEVICE_CPU] = KERNELS_FB(f, cpu), WITH_CUDA([DEVICE_CUDA] = KERNELS_FB(f, cuda))},                \
    }

const struct op op_swiglu = GATED_UNIT(swiglu, RULE_NONE), op_geglu = GATED_UNIT(geglu, RULE_NONE),
                op_swiglu_clamped = GATED_UNIT(swiglu_clamped, RULE_CLAMP);
