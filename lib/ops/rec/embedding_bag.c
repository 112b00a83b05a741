#include "lib/ops/rec/embedding_bag.h"
#include "lib/ops/kernels.h"
#include "lib/ops/rec/rows.h"
#include "lib/ops/shapes.h"

static bool has_tags(const struct shape *s, const char *tags) {
    for (int i = 0; i < s->n_axes; i++)
        if (tags[i] != s->axis[i].tag) return false;
    return tags[s->n_axes] == 0;
}

static enum status embedding_bag_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct type *ids = call->in[0].type, *w = call->weight[0].type, *kept = call->weight[1].type;
    TRY(shape_expect_tags(call, 0, "PFBM"));
    if (ids->dtype != INT32) return shape_refuse(call, "ids must be int32");
    if (!has_tags(&w->shape, "FVD")) return shape_refuse(call, "the table's axes must be (F, V, D)");
    if (!axis_same(&ids->shape.axis[1], &w->shape.axis[0])) return shape_refuse(call, "ids and tables differ in F");
    if (!has_tags(&kept->shape, "FV") || !axis_same(&kept->shape.axis[0], &w->shape.axis[0]) ||
        !axis_same(&kept->shape.axis[1], &w->shape.axis[1]))
        return shape_refuse(call, "what is kept of rows does not lie as the rows do");
    out[0].dtype = w->dtype;
    out[0].shape = ids->shape;
    out[0].shape.axis[3] = w->shape.axis[2];
    return OK;
}

/* The traffic of one table row for each id, the most that a call may read, and not of the whole tables. */
static struct cost embedding_bag_cost(const struct call *call, enum row_kind kind) {
    double ids = (double)type_n(call->in[0].type), pooled = (double)type_bytes(call->out[0].type);
    double row = (double)(call->weight[0].type->shape.axis[2].n * (int64_t)dtype_size(call->weight[0].type->dtype));
    struct cost cost = {.bytes = kind == ROW_BACKWARD_WEIGHT ? 2 * (4 * ids + pooled) : ids * (4 + row) + pooled};
    return cost;
}

int64_t rows_record_bytes(const struct call *call) {
    return rows_vectors_at(type_n(call->in[0].type)) + arena_align(type_bytes(call->out[0].type));
}

DECLARE_KERNELS_FW(embedding_bag, cpu);
#define FW(suffix) KERNELS_FW_OF(embedding_bag, suffix)

const struct op op_embedding_bag = {
    .name = "embedding_bag",
    .typing = TYPING_BAG,
    .shape = embedding_bag_shape,
    .needs = {.bw_in = IN(0)},
    .no_grad_in = IN(0),
    .has_backward_weight = true,
    .record = rows_record_bytes,
    .cost = embedding_bag_cost,
    .kernels = {[DEVICE_CPU] = {[FP64] = FW(cpu_fp64), [FP32] = FW(cpu_fp32)}},
};
