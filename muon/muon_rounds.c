/* The matrices that Muon updates, and how whole ones come together.
 *
 * Which: a param that a step of a layer multiplies its input by. Its last axes are then those of the input, and the
 * axes before are the outputs: proj.w (C, H, D) of the input (B, T, H, D) is a matrix of C rows and H D columns. The
 * leading axis of a triple or pair ('3' of q, k and v; '2' of k and v, of gate and up) and the experts number matrices:
 * each is orthogonalized by itself, as if it were a param of its own. Embeddings, the head, norms and biases are no
 * matrices of layers.
 *
 * Exchanges: a rank has a shard of each matrix (zero), of a box of its rows or columns (tp). First the shards of a box
 * come together, then the boxes of a matrix. With n ranks and k matrices of S elements, a rank sends
 *
 *   gather       k S (n-1)/n                      every rank gets all k, and all compute the same
 *   distribute   2 ceil(k/n) S (n-1)/n            a rank gets ceil(k/n), and sends parts of the results back
 *
 * The smaller number is chosen; if both are equal, distribute, which computes less. A round takes up to as many
 * matrices as there are ranks, so that each has one: 2 S (n-1)/n for n matrices, 2/n of what gathering sends. */
#include "muon/muon_rounds.h"

#include "lib/base/grow.h"
#include "lib/base/integer.h"
#include "lib/ops/pieces.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- which params ---- */
/* Axes of the weight that are, from the end, those of the step's input. */
static int input_axes(const struct shape *w, const struct shape *x) {
    int n = 0;
    while (n < w->n_axes && n < x->n_axes) {
        const struct axis *a = &w->axis[w->n_axes - 1 - n], *b = &x->axis[x->n_axes - 1 - n];
        if (a->tag != b->tag || a->global != b->global) break;
        n++;
    }
    return n;
}

/* Leading axes that number matrices. */
static int numbering_axes(const struct shape *w, const struct shape *x) {
    int n = x->axis[0].tag == 'E' && w->axis[0].tag == 'E';
    return n + (w->axis[n].tag == '2' || w->axis[n].tag == '3');
}

static const struct step *user_of(const struct program *p, int param) {
    for (int i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->steps[i];
        if (s->n_weight && s->weight[0] == param && p->blocks[s->block].is_layer) return s;
    }
    return NULL;
}

bool muon_is_matrix(const struct program *p, int param) {
    const struct step *s = user_of(p, param);
    const struct param *w = &p->params[param];
    if (!s || !s->n_in || w->update != UPDATE_DENSE || !w->decay) return false;
    const struct shape *x = &p->slots[s->in[0]].type.shape, *shape = &w->type.shape;
    int n_in = input_axes(shape, x), n_numbers = numbering_axes(shape, x);
    return n_in > 0 && n_numbers + n_in < shape->n_axes;
}

/* ---- a round of one param ---- */
static struct muon_exchange exchange_of(enum mesh_axis axis, const struct mesh_place *place, int64_t parts,
                                        int64_t outer, int64_t inner) {
    struct muon_exchange x = {.axis = axis, .n_ranks = mesh_size(axis, place), .parts = parts, .outer = outer,
                              .inner = inner};
    int64_t each = ceil_div(parts, x.n_ranks), before = each * mesh_index(axis, place);
    x.gathers = parts < 2 * each;
    x.slots = x.gathers ? parts : each;
    x.here = x.gathers ? parts : max64(0, min64(each, parts - before));
    return x;
}

static int64_t product_of(const struct shape *s, int from, int to, bool global) {
    int64_t n = 1;
    for (int i = from; i < to; i++) n *= global ? s->axis[i].global : s->axis[i].n;
    return n;
}

/* The axis of the mesh that cuts this axis of a matrix into equal parts in the order of the ranks; AXIS_SELF: none. */
static enum status cut_of(const struct program *p, const struct param *w, const struct axis *a, enum mesh_axis *out) {
    for (enum mesh_axis m = *out = AXIS_SELF; m < N_MESH_AXES && axis_is_sharded(a); m++)
        if (a->cut == 1u << m) *out = m;
    int n = mesh_size(*out, &p->place), index = mesh_index(*out, &p->place);
    if (a->n * n == a->global && a->first == index * a->n && !a->turn) return OK;
    return FAIL(E_INTERNAL, "%s has %" PRId64 " of %" PRId64 " places from %" PRId64
                            " on, which is no equal part of a matrix", w->name, a->n, a->global, a->first);
}

/* Fill in all of a round but its params' number, as if it had `n` params. */
static enum status describe(const struct program *p, int param, int n, struct muon_round *r) {
    const struct param *w = &p->params[param];
    const struct shape *s = &w->type.shape, *x = &p->slots[user_of(p, param)->in[0]].type.shape;
    int first = numbering_axes(s, x), columns = s->n_axes - input_axes(s, x), at = s->n_axes;
    enum mesh_axis cut = AXIS_SELF;
    for (int i = first; i < s->n_axes; i++) {
        enum mesh_axis of_axis;
        TRY(cut_of(p, w, &s->axis[i], &of_axis));
        if (of_axis == AXIS_SELF) continue;
        if (cut != AXIS_SELF)
            return FAIL(E_INTERNAL, "two axes of %s are cut, and a matrix is put together along one", w->name);
        cut = of_axis, at = i;
    }
    int64_t box = type_n(&w->type), outer = at < s->n_axes ? product_of(s, 0, at, false) : 1;
    r->shape = (struct muon_shape){product_of(s, first, columns, true), product_of(s, columns, s->n_axes, true),
                                   w->state_dtype};
    r->n_matrices = product_of(s, 0, first, false);
    r->shards = exchange_of(w->padded_n ? w->shard_axis : AXIS_SELF, &p->place, n, 1, w->padded_n ? w->shard_n : box);
    r->cut = exchange_of(cut, &p->place, r->shards.here, outer, box / outer);
    return OK;
}

/* ---- all rounds ---- */
static bool is_alike(const struct muon_round *a, const struct muon_round *b) {
    return a->shape.rows == b->shape.rows && a->shape.columns == b->shape.columns && a->shape.dtype == b->shape.dtype &&
           a->n_matrices == b->n_matrices && a->shards.axis == b->shards.axis && a->cut.axis == b->cut.axis &&
           a->shards.inner == b->shards.inner && a->cut.outer == b->cut.outer;
}

/* Params without own elements are other ranks' (dp-style main), unless shards are equal. */
static bool is_mine(const struct param *w) {
    return param_is_dense(w) && param_is_stored(w) && w->optimizer == &optimizer_muon_matrix &&
           (w->padded_n || w->own_n);
}

/* Add a param to the first round that has room for it, or to a new one. */
static enum status add(const struct program *p, int param, struct muon_rounds *out) {
    struct muon_round one = {.n_params = 1, .param = {param}};
    TRY(describe(p, param, 1, &one));
    int most = (int)min64(one.shards.n_ranks * one.cut.n_ranks, (int64_t)(sizeof one.param / sizeof *one.param));
    for (int i = 0; i < out->n; i++) {
        struct muon_round *r = &out->round[i];
        if (r->n_params == most || !is_alike(r, &one)) continue;
        r->param[r->n_params++] = param;
        return OK;
    }
    out->round = table_grow(out->round, out->n, sizeof *out->round);
    out->round[out->n++] = one;
    return OK;
}

enum status muon_rounds_init(const struct program *p, struct muon_rounds *out) {
    *out = (struct muon_rounds){0};
    for (int i = 0; i < p->n_params; i++)
        if (is_mine(&p->params[i])) TRY(add(p, i, out));
    for (int i = 0; i < out->n; i++)
        TRY(describe(p, out->round[i].param[0], out->round[i].n_params, &out->round[i]));
    return OK;
}

void muon_rounds_fini(struct muon_rounds *r) {
    free(r->round);
    *r = (struct muon_rounds){0};
}

/* ---- sizes ---- */
static int64_t room_of(const struct muon_exchange *x) { return x->slots * x->n_ranks * x->outer * x->inner; }

int64_t muon_round_room(const struct muon_round *r) { return max64(room_of(&r->shards), room_of(&r->cut)); }

static void bill_one(const struct muon_exchange *x, enum dtype dtype, const struct mesh_place *place,
                     struct bill *bill) {
    const struct exchange e = {.axis = x->axis, .op = x->gathers ? COMM_ALL_GATHER : COMM_ALL_TO_ALL,
                               .count = room_of(x), .dtype = dtype, .times = x->gathers ? 1 : 2, .when = AT_END};
    if (x->parts > 0) bill_exchange(bill, place, e);
}

void muon_round_bill(const struct muon_round *r, const struct mesh_place *place, struct bill *bill) {
    bill_one(&r->shards, r->shape.dtype, place, bill);
    bill_one(&r->cut, r->shape.dtype, place, bill);
}

/* ---- exchanging ---- */

enum status muon_exchange_there(const struct device *d, const struct mesh *mesh, const struct muon_exchange *x,
                                enum dtype dtype, char *at, char *spare) {
    const struct group *group = mesh->group[x->axis];
    int64_t each = x->slots * x->outer * x->inner;
    if (x->parts == 0) return OK;
    TRY(x->gathers ? comm_all_gather(group, at, spare, each, dtype)
                   : comm_all_to_all(group, at, spare, each, dtype));
    /* [rank][thing][run] -> [thing][run][rank] */
    return pieces_transpose(d, at, spare, x->n_ranks, x->slots * x->outer, x->inner * (int64_t)dtype_size(dtype));
}

enum status muon_exchange_back(const struct device *d, const struct mesh *mesh, const struct muon_exchange *x,
                               enum dtype dtype, char *at, char *spare) {
    const struct group *group = mesh->group[x->axis];
    int64_t each = x->slots * x->outer * x->inner, size = (int64_t)dtype_size(dtype);
    if (x->parts == 0) return OK;
    TRY(pieces_transpose(d, spare, at, x->slots * x->outer, x->n_ranks, x->inner * size));
    if (!x->gathers) return comm_all_to_all(group, spare, at, each, dtype);
    return d->copy(d, at, spare + group_rank(group) * each * size, each * size);
}
