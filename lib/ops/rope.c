#include "lib/ops/rope.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"
#include <math.h>

static const double TURN = 6.283185307179586;

/* The pair, a real number, that turns around r times in a context. */
static double pair_of(const struct rope_rule *rule, double half, double r) {
    return half * log(rule->context / (r * TURN)) / log(rule->theta);
}

/* How much of a pair is slowed: 1 all, 0 nothing. */
static double slowed_part(const struct rope_rule *rule, int64_t half, int64_t pair, double speed) {
    if (rule->scaling == ROPE_LINEAR) return 1;
    if (rule->scaling == ROPE_LLAMA3)
        return fmin(fmax((rule->fast - rule->context * speed / TURN) / (rule->fast - rule->slow), 0), 1);
    double n = (double)half, first = pair_of(rule, n, rule->fast), last = pair_of(rule, n, rule->slow);
    if (rule->scaling == ROPE_YARN) first = floor(first), last = ceil(last);
    first = fmax(first, 0), last = fmin(last, 2 * n - 1);
    if (first == last) last += 0.001;                           /* as the reference does */
    return fmin(fmax(((double)pair - first) / (last - first), 0), 1);
}

void rope_speeds(const struct rope_rule *rule, int64_t half, double *speed) {
    for (int64_t i = 0; i < half; i++) {
        speed[i] = pow(rule->theta, -(double)i / (double)half);
        if (rule->scaling == ROPE_UNSCALED) continue;
        double k = slowed_part(rule, half, i, speed[i]);
        speed[i] = speed[i] * (1 - k) + speed[i] / rule->factor * k;
    }
}

struct rope_sizes rope_sizes(const struct call *call) {
    const struct shape *x = &call->in[0].type->shape;
    const struct rope_rule *rule = &call->step->rope;
    int64_t heads = x->n_axes == 3 ? 1 : x->axis[x->n_axes - 2].n, D = x->axis[x->n_axes - 1].n;
    int64_t pairs = (D - rule->first) / 2;
    return (struct rope_sizes){x->axis[0].n, x->axis[1].n, x->n_axes == 5 ? 2 * heads : heads, heads, D,
                               rule->first, pairs, rule->neighbors ? 2 : 1, rule->neighbors ? 1 : pairs};
}

static enum status rope_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct shape *x = &call->in[0].type->shape;
    if (x->n_axes != 3) TRY(shape_expect_tags(call, 0, x->n_axes == 5 ? "BT2JD" : "BTHD"));
    const struct axis *d = &x->axis[x->n_axes - 1];
    int64_t first = call->step->rope.first;
    if (axis_is_sharded(d) || (d->n - first) % 2 || first < 0 || first >= d->n)
        return shape_refuse(call, "the head must be whole, of an even number of channels");
    if (x->n_axes == 5 && x->axis[2].n != 2) return shape_refuse(call, "keys and values must both be there");
    if (call->on == DEVICE_CUDA && d->n > ROPE_CUDA_MAX_D)
        return shape_refuse(call, "a head on CUDA has at most 256 channels: use more heads, or the cpu");
    out[0] = *call->in[0].type;
    return OK;
}

/* Scratch: the speed of each pair of channels. On CUDA the speeds are an argument of the kernel. */
static int64_t rope_work(const struct call *call, enum row_kind kind) {
    (void)kind;
    return call->on == DEVICE_CUDA ? 0 : rope_sizes(call).pairs * (int64_t)sizeof(double);
}

DECLARE_KERNELS_FB(rope, cpu);
DECLARE_KERNELS_FB(rope, cuda);

const struct op op_rope = {
    .name = "rope",
    .typing = TYPING_LOCAL,
    .mixes = "DS",
    .rule = RULE_ROPE,
    .shape = rope_shape,
    .forward_alias = ALIAS_IN_PLACE,
    .backward_alias = ALIAS_IN_PLACE,
    .has_backward_input = true,
    .work = rope_work,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = KERNELS_FB(rope, cpu), WITH_CUDA([DEVICE_CUDA] = KERNELS_FB(rope, cuda))},
};
