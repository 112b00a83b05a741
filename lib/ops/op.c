#include "lib/ops/op.h"

enum dtype op_dtype(const struct call *call) {
    enum dtype first = call->in[0].type->dtype;
    bool computes = first <= FP16;
    return !computes && call->step->n_weight > 0 ? call->weight[0].type->dtype : first;
}

enum dtype op_product_dtype(const struct call *call) {
    enum dtype first = call->in[0].type->dtype;
    if (call->step->op->rule == RULE_BLOCKS) return call->step->blocks.operand.element;
    return first == FP8_E4M3 ? first : op_dtype(call);
}

static kernel *kernel_of(const struct op_kernels *kernels, enum row_kind kind) {
    switch (kind) {
    case ROW_FORWARD:
    case ROW_REPLAY: return kernels->forward;
    case ROW_BACKWARD_INPUT: return kernels->backward_input;
    case ROW_BACKWARD_WEIGHT: return kernels->backward_weight;
    default: return NULL;
    }
}

static const char *kind_name(enum row_kind kind) {
    switch (kind) {
    case ROW_FORWARD: return "forward";
    case ROW_REPLAY: return "replay";
    case ROW_BACKWARD_INPUT: return "backward_input";
    case ROW_BACKWARD_WEIGHT: return "backward_weight";
    default: return "event";
    }
}

enum status op_run(const struct call *call, enum row_kind kind) {
    static const char *const device_names[N_DEVICES] = {[DEVICE_CPU] = "cpu", [DEVICE_CUDA] = "cuda"};
    const struct op *op = call->step->op;
    enum dtype dtype = op_dtype(call);
    kernel *run = kernel_of(&op->kernels[call->on][dtype], kind);
    if (!run)
        return FAIL(E_CONFIG, "%s has no %s kernel for %s on %s; use another precision or device", op->name,
                    kind_name(kind), dtype_name(dtype), device_names[call->on]);
    TRY(run(call));
    return OK;
}

int op_n_out(const struct op *op, bool store_masks) {
    int n = 1;
    while (n < MAX_OUT && op->out_name[n] && (store_masks || !(op->dropout_out >> n & 1))) n++;
    return n;
}

int64_t op_work(const struct call *call, enum row_kind kind) {
    const struct op *op = call->step->op;
    return op->work ? op->work(call, kind) : 0;
}

enum status op_touch_work(const struct call *call, enum row_kind kind) {
    int64_t bytes = call->watched ? op_work(call, kind) : 0, last = bytes < 8 ? bytes : 8;
    return bytes > 0 ? call->device->clear(call->device, (char *)call->work + bytes - last, last) : OK;
}

struct cost op_cost(const struct call *call, enum row_kind kind) {
    const struct op *op = call->step->op;
    return op->cost ? op->cost(call, kind) : (struct cost){0};
}
