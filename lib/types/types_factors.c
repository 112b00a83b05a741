/* The mesh as a product of factors. An axis of the mesh is a group of ranks that lie `stride` apart, so it spans
 * [stride, stride x size) of the rank numbers. The sorted ends of all spans are the limits between factors, if each end
 * divides the next. The ends of the dimensions always do; an axis whose ends do not is left out.
 *
 *   tp=2 cp=2 dp=4, ep=4:   1 |tp| 2 |cp| 4 |dp/2| 8 |edp| 16        ep = cp x dp/2 */
#include "lib/types/types.h"

/* Ranks of one stage, which have the same program. */
static int stage_ranks(const struct mesh_place *p) { return mesh_size(AXIS_MESH, p) / mesh_size(AXIS_PP, p); }

struct ends { int n, at[MAX_FACTORS + 1]; };
static bool ends_fit(const struct ends *e, int end) {
    bool fits = e->n <= MAX_FACTORS;
    for (int i = 0; i < e->n; i++) fits = fits && (end % e->at[i] == 0 || e->at[i] % end == 0);
    return fits;
}
static void ends_add(struct ends *e, int end) {
    int at = e->n;
    for (int i = 0; i < e->n; i++)
        if (e->at[i] == end) return;
    if (!ends_fit(e, end)) return;
    for (; at > 0 && e->at[at - 1] > end; at--) e->at[at] = e->at[at - 1];
    e->at[at] = end;
    e->n++;
}

struct range { int from, to; };
static struct range range_of_axis(enum mesh_axis axis, const struct mesh_place *p) {
    int size = mesh_size(axis, p), stride = mesh_stride(axis, p);
    bool alone = size == 1 || stride * size > stage_ranks(p);
    return alone ? (struct range){1, 1} : (struct range){stride, stride * size};
}
static struct range range_of_dim(int dim, const struct mesh_place *p) {
    struct range s = {1, 1};
    for (int d = 0; d <= dim; d++) s.from = s.to, s.to *= p->n.at[d] ? p->n.at[d] : 1;
    return s;
}

/* A factor has the name of its dimension or axis; otherwise of the dimension of which it is a part. */
static void name_factor(struct factor *f, const struct mesh_place *p) {
    for (int d = N_DIMS; d-- > 0;) {
        struct range s = range_of_dim(d, p);
        if (f->stride >= s.from && f->stride < s.to)
            snprintf(f->name, sizeof f->name, "%s/%d", mesh_dim_name((enum mesh_dim)d), f->size);
    }
    for (int a = AXIS_MESH; --a > AXIS_SELF;) {
        struct range s = range_of_axis((enum mesh_axis)a, p);
        if (f->stride == s.from && f->stride * f->size == s.to)
            snprintf(f->name, sizeof f->name, "%s", mesh_axis_name((enum mesh_axis)a));
    }
    for (int d = 0; d < N_DIMS; d++) {
        struct range s = range_of_dim(d, p);
        if (f->stride == s.from && f->stride * f->size == s.to)
            snprintf(f->name, sizeof f->name, "%s", mesh_dim_name((enum mesh_dim)d));
    }
}

static void find_axis(struct factors *f, enum mesh_axis axis, const struct mesh_place *p) {
    struct range s = range_of_axis(axis, p);
    int product = 1;
    for (int i = 0; i < f->n; i++) {
        int from = f->at[i].stride, to = from * f->at[i].size;
        if (to <= s.from || from >= s.to) continue;
        f->over[axis] |= 1u << i;
        product *= f->at[i].size;
    }
    f->exact[axis] = product * s.from == s.to;
}

struct factors factors_of(const struct mesh_place *p) {
    struct factors f = {0};
    struct ends e = {1, {1}};
    int rank = mesh_rank_of(p);
    for (int d = 0; d < N_DIMS; d++)
        if (range_of_dim(d, p).to <= stage_ranks(p)) ends_add(&e, range_of_dim(d, p).to);
    for (enum mesh_axis a = AXIS_SELF + 1; a < AXIS_MESH; a++) {
        struct range s = range_of_axis(a, p);
        if (!ends_fit(&e, s.from) || !ends_fit(&e, s.to)) continue;
        ends_add(&e, s.from);
        ends_add(&e, s.to);
    }
    for (int i = 0; i + 1 < e.n; i++) {
        struct factor *x = &f.at[f.n++];
        *x = (struct factor){.stride = e.at[i], .size = e.at[i + 1] / e.at[i]};
        x->index = rank / x->stride % x->size;
        name_factor(x, p);
    }
    for (enum mesh_axis a = AXIS_SELF; a < N_MESH_AXES; a++) find_axis(&f, a, p);
    return f;
}
