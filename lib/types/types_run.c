/* Checks the run's sums and counts, as program_infer and the techniques have marked them, against the types: exactly
 * the gradients of type P are summed, and exactly one of several copies is counted. */
#include "lib/types/types_rules.h"

#define REFUSE(rewrite, format, ...) FAIL(E_INTERNAL, "types after %s: " format, rewrite, __VA_ARGS__)

/* The factors over which a type is of this kind, as bits. */
static unsigned where(const struct factors *f, const struct typed *t, enum spread_kind kind) {
    unsigned set = 0;
    for (int i = 0; i < f->n; i++) set |= (unsigned)spread_is(t->at[i], kind) << i;
    return set;
}
static bool is_first(const struct factors *f, unsigned set) {
    bool first = true;
    for (int i = 0; i < f->n; i++) first &= !(set >> i & 1) || f->at[i].index == 0;
    return first;
}
static unsigned over(const struct factors *f, unsigned axes, unsigned *untyped) {
    unsigned set = 0;
    for (int a = AXIS_SELF + 1; a < AXIS_MESH; a++) {
        if (!(axes >> a & 1)) continue;
        set |= f->over[a];
        if (!f->exact[a]) *untyped |= f->over[a];
    }
    return set;
}

static enum status check_reduce(const struct program *p, const struct types *t, const char *rewrite, int i) {
    const struct factors *f = &t->factors;
    const struct param *x = &p->params[i];
    unsigned untyped = where(f, &t->param_grad[i], VARYING) | where(f, &t->param[i], VARYING);
    unsigned partial = where(f, &t->param_grad[i], PARTIAL), summed = over(f, x->reduce, &untyped);
    unsigned replicas = over(f, 1u << param_replicas(x), &untyped);  /* the factors of dp and zero */
    if (!param_is_dense(x)) replicas = 0;                            /* dp and zero do not sum a table */
    for (int k = 0; k < f->n; k++) {
        bool is_partial = partial >> k & 1, is_summed = (is_partial ? summed : summed | replicas) >> k & 1;
        if (untyped >> k & 1 || is_partial == is_summed) continue;
        return REFUSE(rewrite, "%s over %s: its gradient is %s, and it is %s", x->name, f->at[k].name,
                      spread_text(t->param_grad[i].at[k]),
                      is_summed ? "summed there, which counts it once per rank" : "not summed there (param.reduce)");
    }
    return OK;
}

/* If other stages also use a param, each stage has a part of its gradient. */
static enum status check_stages(const struct program *p, const char *rewrite, int i) {
    const struct param *x = &p->params[i];
    bool is_shared = x->shared != AXIS_SELF;
    if (x->uses < x->model_uses && !is_shared)
        return REFUSE(rewrite, "%s: %d of the %d steps that use it are here, and no other stage shares it", x->name,
                      x->uses, x->model_uses);
    if (!is_shared || x->reduce >> x->shared & 1) return OK;
    return REFUSE(rewrite, "%s is shared over %s, and its gradient is not summed there (param.reduce)", x->name,
                  mesh_axis_name(x->shared));
}

/* With ZeRO, the ranks that hold different shards (shard_axis) and those that hold the same shard (replicate_axis) are
 * together the ranks that sum. Exactly one copy is counted. */
static enum status check_copies(const struct program *p, const struct types *t, const char *rewrite, int i) {
    const struct factors *f = &t->factors;
    const struct param *x = &p->params[i];
    enum mesh_axis shards = x->shard_axis;
    unsigned untyped = where(f, &t->param[i], VARYING), copies = where(f, &t->param[i], REPLICATED);
    int64_t first = x->shard_n * mesh_index(shards, &p->place);
    int64_t n = x->shard_n * mesh_size(shards, &p->place);
    if (x->padded_n && (x->padded_n != n || n < type_n(&x->type) || x->own_first != first))
        return REFUSE(rewrite, "%s: own elements from %lld in shards of %lld are not those of this rank over %s",
                      x->name, (long long)x->own_first, (long long)x->shard_n, mesh_axis_name(shards));
    unsigned sharing = over(f, 1u << shards, &untyped), same = over(f, 1u << x->replicate_axis, &untyped);
    unsigned replicas = over(f, 1u << param_replicas(x), &untyped);
    if (x->padded_n && !untyped && (sharing | same) != replicas)
        return REFUSE(rewrite, "%s: ranks along %s share shards, ranks along %s have the same, and both together are "
                               "not its replicas: a part of its gradient is not summed",
                      x->name, mesh_axis_name(shards), mesh_axis_name(x->replicate_axis));
    copies &= ~sharing;
    if (untyped || x->counted == (is_first(f, copies) && mesh_is_first(x->shared, &p->place))) return OK;
    return REFUSE(rewrite, "%s is %scounted on this rank, which is %sthe first of those that have a copy", x->name,
                  x->counted ? "" : "not ", x->counted ? "not " : "");
}

static enum status check_loss(const struct program *p, const struct types *t, const char *rewrite) {
    const struct factors *f = &t->factors;
    if (p->loss < 0 || p->data[DATA_TARGETS] < 0) return OK;
    const struct typed *loss = &t->slot[p->loss];
    bool counts = program_counts_loss(p), is_made = !spread_is(loss->at[0], SPREAD_NONE);
    if (!is_made || where(f, loss, VARYING) || counts == is_first(f, where(f, loss, REPLICATED))) return OK;
    return REFUSE(rewrite, "%s is %scounted on this rank, which is %sthe first of those that have the same",
                  p->slots[p->loss].name, counts ? "" : "not ", counts ? "not " : "");
}

/* The number of steps' losses of which this rank has the first copy; -1: a loss has type V, which is not checked. */
static int losses_here(const struct program *p, const struct types *t) {
    const struct factors *f = &t->factors;
    int n = 0;
    for (int i = 0; i < p->n_steps && n >= 0; i++)
        for (int k = 0; k < p->steps[i].n_out && n >= 0; k++) {
            const struct typed *x = &t->slot[p->steps[i].out[k]];
            if (!(p->steps[i].op->loss_out >> k & 1)) continue;
            n = where(f, x, VARYING) ? -1 : n + is_first(f, where(f, x, REPLICATED));
        }
    return n;
}

enum status types_check_losses(const struct program *p, int n_added) {
    struct types t;
    enum status status = types_infer(p, "lowering", &t);
    int n = status == OK ? losses_here(p, &t) : -1;
    types_fini(&t);
    TRY(status);
    if (n < 0 || n == n_added) return OK;
    return REFUSE("lowering", "this rank adds %d losses of its steps to the mesh's, and is the first that has %d",
                  n_added, n);
}

enum status types_check_run(const struct program *p, const struct types *t, const char *rewrite) {
    for (int i = 0; i < p->n_params; i++) {
        const struct param *x = &p->params[i];
        if (!x->present || x->cache || p->forward_only) continue;
        TRY(check_reduce(p, t, rewrite, i));
        TRY(check_stages(p, rewrite, i));
        TRY(check_copies(p, t, rewrite, i));
    }
    return check_loss(p, t, rewrite);
}
