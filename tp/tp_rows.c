/* What the kernels of tp's ops call: a copy, and the passes over a rank's own columns of the logits. */
#include "lib/ops/cross_entropy.h"
#include "tp/tp_cross_entropy.h"
#include "tp/tp_region.h"

enum status tp_copy(const struct call *c, const struct tensor *to, const struct tensor *from) {
    return to->data == from->data ? OK : c->device->copy(c->device, to->data, from->data, type_bytes(from->type));
}

int64_t tp_n_rows(const struct call *c) { return type_n(c->in[1].type); }
enum dtype tp_accumulator(const struct call *c) { return dtype_accumulator(c->in[0].type->dtype); }

static struct vocab_rows rows_of(const struct call *c) {
    return (struct vocab_rows){c->in[0].data, c->in[1].data, tp_n_rows(c), c->in[0].type->shape.axis[2]};
}
static const struct cross_entropy_pieces *pieces_of(const struct call *c) {
    return cross_entropy_pieces(c->on, c->in[0].type->dtype);
}
enum status tp_rows_max(const struct call *c, void *max) {
    const struct vocab_rows rows = rows_of(c);
    return pieces_of(c)->row_max(c->device, &rows, max);
}
enum status tp_rows_sum(const struct call *c, const void *max, void *sum, void *hit) {
    const struct vocab_rows rows = rows_of(c);
    return pieces_of(c)->row_sum(c->device, &rows, max, sum, hit);
}
enum status tp_rows_loss(const struct call *c, const void *max, const void *sum, const void *hit) {
    const struct vocab_rows rows = rows_of(c);
    return pieces_of(c)->loss(c->device, &rows, max, sum, hit, c->out[1].data, c->loss_weight, c->out[0].data);
}
enum status tp_rows_gradient(const struct call *c, double scale, bool accumulate) {
    const struct vocab_rows rows = rows_of(c);
    return pieces_of(c)->gradient(c->device, &rows, c->out[1].data, scale, accumulate, c->din[0].data);
}
