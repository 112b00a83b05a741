#include "lib/ops/cost.h"

static double bytes_of(const struct tensor *tensors, int n, unsigned mask) {
    double bytes = 0;
    for (int i = 0; i < n; i++)
        if (mask >> i & 1) bytes += (double)type_bytes(tensors[i].type);
    return bytes;
}

static double forward_bytes(const struct call *call) {
    const struct step *s = call->step;
    return bytes_of(call->in, s->n_in, ~0u) + bytes_of(call->weight, s->n_weight, ~0u) +
           bytes_of(call->out, s->n_out, ~0u);
}

/* The gradient of a value has the value's type, so the types of in and out stand for those of din and dout. */
static double backward_input_bytes(const struct call *call) {
    const struct step *s = call->step;
    const struct op *op = s->op;
    double reads = bytes_of(call->in, s->n_in, op->needs.bi_in) + bytes_of(call->out, s->n_out, op->needs.bi_out) +
                   bytes_of(call->weight, s->n_weight, op->needs.bi_weight) +
                   bytes_of(call->out, s->n_out, ~op->no_grad_out);
    return reads + bytes_of(call->in, s->n_in, ~op->no_grad_in);
}

static double backward_weight_bytes(const struct call *call) {
    const struct step *s = call->step;
    const struct op *op = s->op;
    double reads = bytes_of(call->in, s->n_in, op->needs.bw_in) + bytes_of(call->out, s->n_out, op->needs.bw_out) +
                   bytes_of(call->out, s->n_out, ~op->no_grad_out);
    return reads + 2 * bytes_of(call->weight, s->n_weight, ~0u);   /* += : the gradient is read and written */
}

struct cost cost_traffic(const struct call *call, enum row_kind kind) {
    struct cost cost = {0};
    if (kind == ROW_FORWARD || kind == ROW_REPLAY) cost.bytes = forward_bytes(call);
    if (kind == ROW_BACKWARD_INPUT) cost.bytes = backward_input_bytes(call);
    if (kind == ROW_BACKWARD_WEIGHT) cost.bytes = backward_weight_bytes(call);
    return cost;
}

void cost_product(struct cost *c, int64_t m, int64_t n, int64_t k, int64_t batch) {
    c->product[c->n_products++] = (struct matmul){m, n, k, batch};
    c->flops += 2.0 * (double)m * (double)n * (double)k * (double)batch;
}
