#include "lib/ops/embedding.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

static enum status embedding_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct type *tokens = call->in[0].type, *w = call->weight[0].type;
    TRY(shape_expect_tags(call, 0, "BT"));
    if (tokens->dtype != INT32) return shape_refuse(call, "tokens must be int32");
    if (w->shape.n_axes != 2 || (w->shape.axis[0].tag != 'V' && w->shape.axis[0].tag != '2'))
        return shape_refuse(call, "the table's axes must be (V, C), or (2, C) of segments");
    out[0].dtype = w->dtype;
    out[0].shape = tokens->shape;
    out[0].shape.axis[out[0].shape.n_axes++] = w->shape.axis[1];
    return OK;
}

/* Counts only the table rows that the tokens select, not the whole table. */
static struct cost embedding_cost(const struct call *call, enum row_kind kind) {
    double y = (double)type_bytes(call->out[0].type), tokens = (double)type_bytes(call->in[0].type);
    struct cost cost = {.bytes = tokens + (kind == ROW_BACKWARD_WEIGHT ? 3 : 2) * y};
    return cost;
}

/* A GPU sorts the positions by token before it adds their gradients. */
static int64_t embedding_work(const struct call *call, enum row_kind kind) {
    if (call->on != DEVICE_CUDA || kind != ROW_BACKWARD_WEIGHT) return 0;
    return embedding_sort_bytes(type_n(call->in[0].type), call->weight[0].type->shape.axis[0].n);
}

DECLARE_KERNELS_FW(embedding, cpu);
DECLARE_KERNELS_FW(embedding, cuda);

const struct op op_embedding = {
    .name = "embedding",
    .typing = TYPING_LOOKUP,
    .shape = embedding_shape,
    .needs = {.bw_in = IN(0)},
    .no_grad_in = IN(0),
    .has_backward_weight = true,
    .work = embedding_work,
    .cost = embedding_cost,
    .kernels = {[DEVICE_CPU] = KERNELS_FW(embedding, cpu), WITH_CUDA([DEVICE_CUDA] = KERNELS_FW(embedding, cuda))},
};
