#include "lib/ops/cost.h"

#include "lib/ops/fusion.h"

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

/* The bytes that one kernel saves. Forward: the read of the value between the rows. Two input gradients: write and read
 * of the gradient between them. Both rows of one step: the second read of dy and of the operands that both need. */
static double read_by_both(const struct call *first, const struct call *second, enum row_kind kind) {
    const struct step *a = first->step, *b = second->step;
    const struct needs *needs = &b->op->needs;
    double bytes = 0;
    if (kind == ROW_BACKWARD_INPUT) return 2 * (double)type_bytes(first->in[0].type);
    if (kind == ROW_BACKWARD_WEIGHT)
        return bytes_of(second->in, b->n_in, needs->bi_in & needs->bw_in) +
               bytes_of(second->out, b->n_out, needs->bi_out & needs->bw_out) +
               bytes_of(second->out, b->n_out, ~b->op->no_grad_out);
    for (int i = 0; i < b->n_in; i++)
        if (b->in[i] == a->out[0]) bytes += (double)type_bytes(second->in[i].type);
    return bytes;
}

struct cost cost_joined(const struct call *first, const struct call *second, enum row_kind kind) {
    struct cost a = op_cost(first, kind), b = op_cost(second, fusion_second(kind));
    return (struct cost){.flops = a.flops + b.flops, .left_out = a.left_out + b.left_out,
                         .bytes = a.bytes + b.bytes - read_by_both(first, second, kind)};
}

void cost_product(struct cost *c, int64_t m, int64_t n, int64_t k, int64_t batch) {
    c->product[c->n_products++] = (struct matmul){m, n, k, batch};
    c->flops += 2.0 * (double)m * (double)n * (double)k * (double)batch;
}
