#include "lib/comm/sums_rows.h"

#include "lib/device/arena.h"
#include "lib/ops/reduce.h"

/* The leaves of a row on this rank: `pieces` of each of `samples`. If tp cuts the weight, the row has whole sequences
 * in every layout. Otherwise (norms, the biases after a region) it may have a shard of each, and a sample has as many
 * pieces as there can be shards (axis.leaves of T). `over`: the axes of the mesh, as bits, whose ranks have the other
 * pieces. */
struct leaves { int64_t samples; int pieces; unsigned over; };

static const struct axis *tokens_of(const struct call *c) { return shape_axis(&c->in[0].type->shape, 'T'); }

static bool has_leaves(const struct shape *s) {
    for (int i = 0; i < s->n_axes; i++)
        if (s->axis[i].leaves) return true;
    return false;
}

static struct leaves leaves_of(const struct call *c) {
    const struct axis *t = tokens_of(c);
    struct leaves x = {c->in[0].type->shape.axis[0].n, 1, 0};
    if (has_leaves(&c->weight[0].type->shape) || !t->leaves) return x;
    x.pieces = axis_leaves_here(t);
    x.over = t->cut & ~shape_cuts(&c->weight[0].type->shape);
    return x;
}

unsigned sums_over(const struct call *c) { return leaves_of(c).over; }

/* A row on one leaf: operands with a batch axis are cut to the leaf's part. */
struct leaf_call { struct call call; struct type type[2 * (MAX_IN + MAX_OUT)]; int n_types; };

/* Cut x to part `part` of `parts` of an axis; all axes before it have size 1. */
static void cut_axis(struct tensor *x, struct type *type, int axis, int64_t parts, int64_t part) {
    int64_t bytes = type_bytes(type) / parts;
    type->shape.axis[axis] = axis_part(&type->shape.axis[axis], parts, part);
    if (x->data) x->data = (char *)x->data + part * bytes;
}

static void cut(struct leaf_call *l, const struct leaves *leaves, struct tensor *x, int64_t i) {
    if (!x->type || x->type->shape.n_axes < 2 || x->type->shape.axis[0].tag != 'B') return;
    struct type *type = &l->type[l->n_types++];
    *type = *x->type;
    x->type = type;
    cut_axis(x, type, 0, leaves->samples, i / leaves->pieces);
    if (type->shape.axis[1].tag == 'T') cut_axis(x, type, 1, leaves->pieces, i % leaves->pieces);
}

static void call_of_leaf(const struct call *whole, const struct leaves *leaves, int64_t i, struct leaf_call *l) {
    l->call = *whole;
    l->n_types = 0;
    for (int k = 0; k < whole->step->n_in; k++)
        cut(l, leaves, &l->call.in[k], i), cut(l, leaves, &l->call.din[k], i);
    for (int k = 0; k < whole->step->n_out; k++)
        cut(l, leaves, &l->call.out[k], i), cut(l, leaves, &l->call.dout[k], i);
    l->call.first_sample += i / leaves->pieces;
    l->call.fresh = whole->step->op->sets_dweight;
}

/* Scratch for one weight. waiting: at each level of the tree, the sum that waits for its sibling; sum: the new one. */
struct counter { float *waiting[64], *sum; int64_t n; };

static int64_t own_work(const struct call *c, const struct leaves *leaves) {
    struct leaf_call l;
    call_of_leaf(c, leaves, 0, &l);
    return arena_align(op_work(&l.call, ROW_BACKWARD_WEIGHT));
}

/* @return the bytes of scratch: first the op's own, then the counters'. If counters is not NULL, set its pointers. */
static int64_t lay_out(const struct call *c, const struct leaves *leaves, char *work, struct counter *counters) {
    int64_t end = own_work(c, leaves);
    int levels = sums_levels(leaves->samples * leaves->pieces);
    for (int i = 0; i < c->step->n_weight; i++)
        for (int l = 0; l <= levels; l++) {
            int64_t from = arena_align(end), n = type_n(c->dweight[i].type);
            float **buffer = !counters ? NULL : l < levels ? &counters[i].waiting[l] : &counters[i].sum;
            if (buffer) *buffer = (float *)(work + from), counters[i].n = n;
            end = from + n * (int64_t)sizeof(float);
        }
    return end;
}

int64_t sums_work(const struct call *c) {
    const struct leaves leaves = leaves_of(c);
    return lay_out(c, &leaves, NULL, NULL);
}

static enum status run_leaf(const struct call *whole, const struct leaves *leaves, int64_t i,
                            struct counter *counters) {
    struct leaf_call l;
    call_of_leaf(whole, leaves, i, &l);
    for (int k = 0; k < whole->step->n_weight; k++) {
        l.call.dweight[k].data = counters[k].sum;
        if (!(l.call.fresh >> k & 1))
            TRY(whole->device->clear(whole->device, counters[k].sum, type_bytes(whole->dweight[k].type)));
    }
    return op_run(&l.call, ROW_BACKWARD_WEIGHT);
}

static enum status add_ranks(const struct mesh *mesh, unsigned over, const struct counter *x) {
    for (enum mesh_axis a = AXIS_SELF + 1; a < AXIS_MESH; a++)
        if (over >> a & 1) TRY(comm_all_reduce(mesh->group[a], x->sum, x->n, FP32, COMM_SUM));
    return OK;
}

static enum status join_waiting(const struct device *d, struct counter *x, int64_t i, int *level, int end) {
    for (; *level < end && i >> *level & 1; ++*level)
        TRY(reduce_accumulate(d, x->sum, x->waiting[*level], x->n, FP32));
    return OK;
}

/* Leaf i's gradient is computed: add the waiting sums of its neighbors. If the sample is complete, add the sums of
 * other ranks. Then let the sum wait at its level. */
static enum status count(const struct call *c, const struct mesh *mesh, const struct leaves *leaves, int64_t i,
                         struct counter *x) {
    int level = 0, of_sample = sums_levels(leaves->pieces), all = sums_levels(leaves->samples * leaves->pieces);
    TRY(join_waiting(c->device, x, i, &level, of_sample));
    if (level == of_sample) TRY(add_ranks(mesh, leaves->over, x));
    if (level == of_sample) TRY(join_waiting(c->device, x, i, &level, all));
    if (level == all) return OK;
    float *next = x->waiting[level];
    x->waiting[level] = x->sum;
    x->sum = next;
    return OK;
}

enum status sums_run(const struct call *c, const struct mesh *mesh, float *sum[MAX_WEIGHTS]) {
    const struct leaves leaves = leaves_of(c);
    struct counter counters[MAX_WEIGHTS];
    lay_out(c, &leaves, c->work, counters);
    for (int64_t i = 0; i < leaves.samples * leaves.pieces; i++) {
        TRY(run_leaf(c, &leaves, i, counters));
        for (int k = 0; k < c->step->n_weight; k++) TRY(count(c, mesh, &leaves, i, &counters[k]));
    }
    for (int k = 0; k < c->step->n_weight; k++) sum[k] = counters[k].sum;
    return OK;
}

/* One exchange per sample and weight. */
int sums_exchanges(const struct call *c, struct exchange out[MAX_WEIGHTS]) {
    const struct leaves leaves = leaves_of(c);
    int n = 0;
    for (enum mesh_axis a = AXIS_SELF + 1; a < AXIS_MESH && leaves.over; a++)
        for (int k = 0; leaves.over >> a & 1 && k < c->step->n_weight; k++)
            out[n++] = (struct exchange){.axis = a, .op = COMM_ALL_REDUCE, .dtype = FP32,
                                         .count = leaves.samples * type_n(c->dweight[k].type),
                                         .pieces = (int)leaves.samples};
    return n;
}
