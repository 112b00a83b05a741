#include "lib/ops/fusion.h"

#include "lib/ops/fusions.h"
#include <stddef.h>

static bool overlap(const struct tensor *a, const struct tensor *b) {
    if (!a->data || !b->data) return false;
    const char *x = a->data, *y = b->data;
    return x < y + type_bytes(b->type) && y < x + type_bytes(a->type);
}

static bool any_overlap(const struct tensor *a, int n_a, const struct tensor *b, int n_b) {
    for (int i = 0; i < n_a; i++)
        for (int j = 0; j < n_b; j++)
            if (overlap(&a[i], &b[j])) return true;
    return false;
}

/* Run apart, the second's results may take the place of what the first has finished reading. Run together, they may not. */
static bool forward_collides(const struct call *first, const struct call *second) {
    return any_overlap(second->out, second->step->n_out, first->in, first->step->n_in);
}
static bool backward_collides(const struct call *first, const struct call *second) {
    return any_overlap(second->din, second->step->n_in, first->dout, first->step->n_out) ||
           any_overlap(second->din, second->step->n_in, first->in, first->step->n_in);
}

static bool joined(const struct call *first, const struct call *second, enum row_kind kind) {
    if (kind == ROW_BACKWARD_INPUT)
        return first->din[0].data && first->din[0].data == second->dout[0].data && !(first->accumulate & 1) &&
               !backward_collides(first, second);
    return second->in[0].data == first->out[0].data && !forward_collides(first, second);
}

fused_kernel *fusion_of(const struct call *first, const struct call *second, enum row_kind kind) {
    enum row_kind wanted = kind == ROW_REPLAY ? ROW_FORWARD : kind;
    for (const struct fusion *f = fusions; f->first; f++)
        if (f->first == first->step->op && f->second == second->step->op && f->kind == wanted) {
            fused_kernel *run = f->run[first->on][op_dtype(first)];
            return run && joined(first, second, kind) ? run : NULL;
        }
    return NULL;
}
