#include "lib/ops/moe/moe_route.h"
#include "lib/base/integer.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"
#include <inttypes.h>
#include <math.h>

int64_t moe_places(double capacity, int64_t group, int64_t k, int64_t experts) {
    double places = ceil(capacity * (double)group * (double)k / (double)experts);
    return capacity > 0 && places < (double)group ? (int64_t)places : group;
}

/* Each rank has whole groups: every run of positions begins and ends at a multiple of g. */
static enum status expect_whole_groups(const struct call *call, const struct axis *t) {
    int64_t g = call->step->moe.group, run = common_divisor(t->n, t->turn);
    if (run % g == 0 && t->first % g == 0 && t->jump % g == 0) return OK;
    return FAIL(E_CONFIG,
                "%s: moe-group=%" PRId64 " does not divide the run of %" PRId64
                " tokens of a sample that a rank holds; use moe-group %" PRId64,
                call->step->op->name, g, run, common_divisor(g, run));
}

static enum status moe_route_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct moe_rule *rule = &call->step->moe;
    const struct type *logits = call->in[0].type;
    TRY(shape_expect_tags(call, 0, "BTE"));
    int64_t E = logits->shape.axis[2].n, sets = rule->sets ? rule->sets : 1;
    if (rule->k < 1 || rule->k > E) return shape_refuse(call, "a token cannot go to more experts than there are");
    if (sets > MOE_SETS || E % sets || (sets > 1 && rule->k > rule->sets_per_token * (E / sets)))
        return shape_refuse(call, "the sets of experts are not equal, or a token's sets have too few experts");
    if (call->step->n_weight && (type_n(call->weight[0].type) != E ||
                                 call->weight[0].type->dtype != dtype_accumulator(logits->dtype)))
        return shape_refuse(call, "the bias is not a number of full precision for each expert");
    TRY(expect_whole_groups(call, &logits->shape.axis[1]));
    out[0] = out[1] = *logits;
    out[0].shape.axis[2] = out[1].shape.axis[2] = axis_whole('k', rule->k);
    out[1].dtype = INT32;
    out[2] = (struct type){dtype_accumulator(logits->dtype), {1, {axis_whole('3', MOE_SUMS)}}};
    return OK;
}

struct moe_route_scratch moe_route_scratch(const struct call *call, enum row_kind kind) {
    const struct type *logits = call->in[0].type;
    const struct moe_rule *rule = &call->step->moe;
    int64_t n = type_n(logits), E = logits->shape.axis[2].n, tokens = n / E, groups = tokens / rule->group;
    int64_t size = (int64_t)dtype_size(dtype_accumulator(logits->dtype));
    bool backward = kind == ROW_BACKWARD_INPUT;
    struct moe_route_scratch at = {.second = n * size};
    at.integers = at.second + (backward ? n : groups * MOE_SUMS) * size;
    at.bytes = at.integers + (backward ? groups * E : tokens * rule->k) * (int64_t)sizeof(int32_t);
    return at;
}

/* On the CPU each group has scratch of its own: three rows of E numbers, and in forward its sums. */
static int64_t moe_route_work(const struct call *call, enum row_kind kind) {
    if (call->on == DEVICE_CUDA) return kind == ROW_BACKWARD_WEIGHT ? 0 : moe_route_scratch(call, kind).bytes;
    const struct type *logits = call->in[0].type;
    int64_t E = logits->shape.axis[2].n, groups = type_n(logits) / E / call->step->moe.group;
    if (kind == ROW_BACKWARD_WEIGHT) return E * (int64_t)sizeof(int64_t);
    int64_t numbers = 3 * E + (kind == ROW_BACKWARD_INPUT ? 0 : MOE_SUMS);
    return groups * numbers * (int64_t)dtype_size(dtype_accumulator(logits->dtype));
}

DECLARE_KERNELS_FBW(moe_route, cpu);
DECLARE_KERNELS_FBW(moe_route, cuda);

#define ROUTE \
    .typing = TYPING_ROUTE, .mixes = "E", .rule = RULE_MOE, .shape = moe_route_shape, \
    .needs = {.bi_in = IN(0), .bi_out = OUT(1), .bw_out = OUT(1)}, .no_grad_out = OUT(1) | OUT(2), \
    .out_name = {[1] = "picks", "sums"}, .kept_out = OUT(0) | OUT(1) | OUT(2), .loss_out = OUT(2), \
    .backward_over_in = true, .has_backward_input = true, .work = moe_route_work, .cost = cost_traffic

const struct op op_moe_route = {
    .name = "moe_route", ROUTE,
    .kernels = {[DEVICE_CPU] = KERNELS_FB(moe_route, cpu), WITH_CUDA([DEVICE_CUDA] = KERNELS_FB(moe_route, cuda))},
};

const struct op op_moe_route_biased = {
    .name = "moe_route_biased", ROUTE, .has_backward_weight = true,
    .kernels = {[DEVICE_CPU] = KERNELS_FBW(moe_route, cpu), WITH_CUDA([DEVICE_CUDA] = KERNELS_FBW(moe_route, cuda))},
};
