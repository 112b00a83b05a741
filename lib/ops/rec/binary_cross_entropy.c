#include "lib/ops/rec/binary_cross_entropy.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

static enum status binary_cross_entropy_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct type *logits = call->in[0].type, *labels = call->in[1].type;
    TRY(shape_expect_tags(call, 0, "PB1"));
    TRY(shape_expect_tags(call, 1, "PB"));
    if (labels->dtype != INT32) return shape_refuse(call, "labels must be int32");
    for (int i = 0; i < 2; i++)
        if (!axis_same(&logits->shape.axis[i], &labels->shape.axis[i]))
            return shape_refuse(call, "logits and labels differ");
    out[0].dtype = dtype_accumulator(logits->dtype);
    out[0].shape.n_axes = 1;
    out[0].shape.axis[0] = axis_whole('1', 1);
    return OK;
}

DECLARE_KERNELS_FB(binary_cross_entropy, cpu);

const struct op op_binary_cross_entropy = {
    .name = "binary_cross_entropy",
    .typing = TYPING_LOSS,
    .mixes = "1",
    .shape = binary_cross_entropy_shape,
    .needs = {.bi_in = IN(0) | IN(1)},
    .no_grad_in = IN(1),
    .no_grad_out = OUT(0),
    .backward_over_in = true,
    .has_backward_input = true,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = {[FP64] = KERNELS_FB_OF(binary_cross_entropy, cpu_fp64),
                                [FP32] = KERNELS_FB_OF(binary_cross_entropy, cpu_fp32)}},
};
