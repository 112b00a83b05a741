#include "lib/ops/fusion.h"

#include <stddef.h>

/* ---- memory ---- */

struct span { const char *at; int64_t bytes; };

static bool overlap(struct span a, struct span b) {
    return a.at && b.at && a.at < b.at + b.bytes && b.at < a.at + a.bytes;
}

/* The memory of a call's operands and scratch: of all of them (touched), or of those that it writes (written). */
struct spans { int n; struct span of[2 * (MAX_IN + MAX_OUT + MAX_WEIGHTS) + 1]; };

/* Add the memory of n tensors. `except`: the value between the two rows, which is not added. */
static void add(struct spans *s, const struct tensor *t, int n, const void *except) {
    for (int i = 0; i < n; i++)
        if (t[i].data && t[i].data != except) s->of[s->n++] = (struct span){t[i].data, type_bytes(t[i].type)};
}
static void add_work(struct spans *s, const struct call *c, enum row_kind kind) {
    if (c->work) s->of[s->n++] = (struct span){c->work, op_work(c, kind)};
}

static struct spans touched(const struct call *c, enum row_kind kind, const void *except) {
    struct spans s = {0};
    add(&s, c->in, c->step->n_in, except);
    add(&s, c->out, c->step->n_out, except);
    add(&s, c->weight, c->step->n_weight, except);
    add(&s, c->din, c->step->n_in, except);
    add(&s, c->dout, c->step->n_out, except);
    add(&s, c->dweight, c->step->n_weight, except);
    add_work(&s, c, kind);
    return s;
}
/* The weights count as written, because a gather may write them before either row runs. */
static struct spans written(const struct call *c, enum row_kind kind, const void *except) {
    struct spans s = {0};
    if (kind == ROW_BACKWARD_INPUT) add(&s, c->din, c->step->n_in, except);
    else add(&s, c->out, c->step->n_out, except);
    add(&s, c->weight, c->step->n_weight, except);
    add_work(&s, c, kind);
    return s;
}

static bool collide(const struct call *first, const struct call *second, enum row_kind kind, const void *value) {
    struct spans a = touched(first, kind, value), b = written(second, fusion_second(kind), value);
    for (int i = 0; i < a.n; i++)
        for (int j = 0; j < b.n; j++)
            if (overlap(a.of[i], b.of[j])) return true;
    return false;
}

/* ---- pairs ---- */

static const struct fusion *find(const struct op *first, const struct op *second, enum row_kind kind) {
    enum row_kind wanted = kind == ROW_REPLAY ? ROW_FORWARD : kind;
    for (const struct fusion *f = fusions; f->first; f++)
        if (f->first == first && f->second == second && f->kind == wanted) return f;
    return NULL;
}

bool fusion_listed(const struct op *first, const struct op *second, enum row_kind kind) {
    return find(first, second, kind) != NULL;
}

/* The value that the first row writes and the second reads with the same shape and dtype. After ROW_BACKWARD_WEIGHT,
 * the dy that both rows read. NULL: there is no such value. */
static const void *between(const struct call *first, const struct call *second, enum row_kind kind) {
    bool weight = kind == ROW_BACKWARD_WEIGHT, input = kind == ROW_BACKWARD_INPUT;
    if (weight && first->step != second->step) return NULL;
    const struct tensor *made = weight ? &first->dout[0] : input ? &first->din[0] : &first->out[0];
    const struct tensor *read = weight || input ? &second->dout[0] : &second->in[0];
    bool same = made->type->dtype == read->type->dtype && shape_same(&made->type->shape, &read->type->shape);
    return same && made->data == read->data ? made->data : NULL;
}

fused_kernel *fusion_of(const struct call *first, const struct call *second, enum row_kind kind) {
    const struct fusion *f = find(first->step->op, second ? second->step->op : NULL, kind);
    fused_kernel *run = f ? f->run[first->on][op_dtype(first)] : NULL;
    if (!second) return run;
    const void *value = run ? between(first, second, kind) : NULL;
    return value && !collide(first, second, kind, value) ? run : NULL;
}

static int64_t joined;
int64_t fusion_joined(void) { return joined; }

enum status fusion_run(fused_kernel *run, const struct call *first, const struct call *second) {
    joined++;
    return run(first, second);
}
