#include "lib/ops/moe/moe_pack.h"
#include "lib/base/integer.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"
#include <string.h>

struct moe_boxes moe_boxes(const struct step *s, int64_t tokens) {
    const struct moe_rule *rule = &s->moe;
    if (!rule->packed)
        return (struct moe_boxes){rule->experts, rule->group, rule->places, tokens / rule->group * rule->places};
    int64_t rows = tokens * min64(rule->k, rule->experts / s->parts);
    return (struct moe_boxes){s->parts, tokens, rows, rows};
}

/* Counts are sharded by the mesh axes that shard the tokens. */
static enum status moe_pack_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct step *s = call->step;
    const struct axis *t = call->in[0].type->shape.axis;
    TRY(shape_expect_tags(call, 0, "BTk"));
    if (s->moe.experts % s->parts) return shape_refuse(call, "the ranks do not divide the experts");
    struct axis sender = {.tag = 'P', .n = 1, .first = s->part, .global = s->parts, .cut = t[0].cut | t[1].cut};
    out[0] = *call->in[0].type;
    out[1] = (struct type){INT32, {3, {axis_whole('E', s->parts), sender, axis_whole('N', s->moe.experts / s->parts)}}};
    return OK;
}

static int64_t moe_pack_work(const struct call *call, enum row_kind kind) {
    (void)kind;
    return call->step->moe.experts * (int64_t)sizeof(int32_t);
}

static enum status moe_pack_forward(const struct call *call) {
    const struct moe_rule *rule = &call->step->moe;
    int64_t choices = type_n(call->in[0].type), R = moe_boxes(call->step, choices / rule->k).rows;
    int64_t E = rule->experts, N = E / call->step->parts;
    const int32_t *picks = call->in[0].data;
    int32_t *rows = call->out[0].data, *counts = call->out[1].data, *next = call->work;
    memset(counts, 0, (size_t)E * sizeof *counts);
    for (int64_t i = 0; i < choices; i++)
        if (picks[i] >= 0) counts[picks[i] / rule->places]++;
    for (int64_t e = 0; e < E; e++) next[e] = (int32_t)(e % N ? next[e - 1] + counts[e - 1] : e / N * R);
    for (int64_t i = 0; i < choices; i++) rows[i] = picks[i] < 0 ? -1 : next[picks[i] / rule->places]++;
    return OK;
}

extern kernel moe_pack_forward_cuda;

const struct op op_moe_pack = {
    .name = "moe_pack",
    .typing = TYPING_PACK,
    .rule = RULE_MOE,
    .shape = moe_pack_shape,
    .no_grad_in = IN(0),
    .no_grad_out = OUT(0) | OUT(1),
    .out_name = {[1] = "counts"},
    .kept_out = OUT(0) | OUT(1),
    .work = moe_pack_work,
    .kernels = {[DEVICE_CPU] = {[INT32] = {moe_pack_forward, NULL, NULL}},
                WITH_CUDA([DEVICE_CUDA] = {[INT32] = {moe_pack_forward_cuda, NULL, NULL}})},
};
