#include "lib/ops/attention/attention_bias.h"

#include "lib/base/integer.h"
#include "lib/device/arena.h"
#include "lib/ops/attention/attention.h"
#include "lib/ops/shapes.h"
#include <math.h>
#include <stdlib.h>

/* A bound that is a whole number stays one, however the logarithm rounds (1e-9). */
static int far_bucket(int64_t n, int near) {
    double growth = log((double)n / near) / log((double)ATTENTION_FAR / near);
    return near + (int)fmin(near - 1, floor(near * growth + 1e-9));
}

int attention_bucket(int64_t distance, bool both_sides) {
    int buckets = both_sides ? ATTENTION_BUCKETS / 2 : ATTENTION_BUCKETS, near = buckets / 2;
    int64_t n = both_sides ? llabs(distance) : max64(0, -distance);
    int side = both_sides && distance > 0 ? buckets : 0;
    return side + (n < near ? (int)n : far_bucket(n, near));
}

int64_t attention_bias_bytes(const struct call *call, enum row_kind kind) {
    if (!attention_has_bias(call)) return 0;
    struct attention_sizes s = attention_sizes(call);
    int64_t rows = s.H + (kind == ROW_BACKWARD_INPUT ? s.B * s.H : 0);
    return arena_align(rows * (s.T + s.Tk - 1) * (int64_t)dtype_size(dtype_accumulator(op_dtype(call))));
}

enum status attention_bias_check(const struct call *call) {
    if (!attention_has_bias(call)) return OK;
    const struct shape *w = &call->weight[0].type->shape, *q = &call->in[0].type->shape;
    if (w->n_axes != 2 || w->axis[0].n != ATTENTION_BUCKETS || !axis_same(&w->axis[1], &q->axis[q->n_axes - 2]))
        return shape_refuse(call, "the bias has not a row for each of 32 buckets, over the queries' heads");
    if (call->weight[0].type->dtype != call->in[0].type->dtype)
        return shape_refuse(call, "input and weight have different dtypes");
    return OK;
}
