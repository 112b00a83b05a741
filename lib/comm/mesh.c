/* The mesh's axes: the members of a rank's group along each, by a table. The arithmetic of ranks: mesh_ranks.c. Pure.
 *
 * The group along an axis has the ranks that differ only in the axis's coordinates, so its colour is the rank with
 * these coordinates set to zero. With tp=2 dp=2 pp=2:
 *
 *   tp: {0 1} {2 3} {4 5} {6 7}     dp: {0 2} {1 3} {4 6} {5 7}     pp: {0 4} {1 5} {2 6} {3 7} */
#include "lib/comm/mesh.h"

#include <inttypes.h>
#include <stdio.h>

static const char *const DIMS[N_DIMS] = {[DIM_TP] = "tp", [DIM_CP] = "cp", [DIM_DP] = "dp", [DIM_PP] = "pp"};
enum { ALWAYS_SHOWN = 1 << DIM_TP | 1 << DIM_DP | 1 << DIM_PP };   /* others if n > 1 */

/* For groups of two stages: the first stage of this rank's group; -1: the rank is alone. */
static int first_of_ends(const struct mesh_place *p) {
    return p->n.pp > 1 && (p->rank.pp == 0 || p->rank.pp == p->n.pp - 1) ? 0 : -1;
}
static int first_of_mirror(const struct mesh_place *p) {
    int image = p->n.pp - 1 - p->rank.pp;
    return image == p->rank.pp ? -1 : image < p->rank.pp ? image : p->rank.pp;
}

enum { ALL_DIMS = (1 << N_DIMS) - 1, REPLICAS = 1 << DIM_DP | 1 << DIM_CP };
/* n ranks differ along an axis's dimensions, numbered with the innermost dimension first. A group may be a part of
 * them: `size` ranks whose numbers are `apart` from each other. If two axes would have the same groups, one of them has
 * groups of one rank: AXIS_EDP without ep, and AXIS_SHARD if all replicas share a state, would equal AXIS_DP. */
struct part { int apart, size; };
static int at_least_1(int n) { return n ? n : 1; }                   /* 0: not given */
static int n_sharing(const struct mesh_place *p, int n) { return p->shard ? p->shard : n; }
static struct part heads_of(const struct mesh_place *p, int n) {
    (void)n;
    return (struct part){1, at_least_1(p->cp_heads)};
}
static struct part ring_of(const struct mesh_place *p, int n) {
    return (struct part){at_least_1(p->cp_heads), n / at_least_1(p->cp_heads)};
}
static struct part ep_of(const struct mesh_place *p, int n) {
    (void)n;
    return (struct part){1, at_least_1(p->ep)};
}
static struct part edp_of(const struct mesh_place *p, int n) {
    return p->ep > 1 ? (struct part){p->ep, n / p->ep} : (struct part){1, 1};
}
static struct part shard_of(const struct mesh_place *p, int n) {
    return (struct part){1, n_sharing(p, n) < n ? p->shard : 1};
}
static struct part replicate_of(const struct mesh_place *p, int n) {
    return (struct part){n_sharing(p, n), n / n_sharing(p, n)};
}
static struct part eshard_of(const struct mesh_place *p, int n) {
    bool alone = p->ep <= 1 || n_sharing(p, n) == n || p->shard < p->ep;
    return alone ? (struct part){1, 1} : (struct part){p->ep, p->shard / p->ep};
}
static struct part half_of(const struct mesh_place *p, int n) {
    (void)p;
    return n % 2 ? (struct part){1, 1} : (struct part){1, n / 2};
}
static struct part ereplicate_of(const struct mesh_place *p, int n) {
    int apart = n_sharing(p, n) > p->ep ? n_sharing(p, n) : p->ep;
    return p->ep > 1 ? (struct part){apart, n / apart} : (struct part){1, 1};
}

/* along: bits of the dimensions in which members differ. part: the part of these ranks, NULL: all. copies: a value that
 * is not cut along the axis is equal on all its ranks (for replicas: see covers()). first_stage: for a group of two
 * stages, the first stage. To add an axis, add a row. */
static const struct axis_row {
    const char *name;
    unsigned along;
    bool copies;
    struct part (*part)(const struct mesh_place *, int n);
    int (*first_stage)(const struct mesh_place *);
} AXES[N_MESH_AXES] = {
    [AXIS_SELF] = {.name = "self"},
    [AXIS_TP]   = {.name = "tp", .along = 1 << DIM_TP, .copies = true},
    [AXIS_CP]   = {.name = "cp", .along = 1 << DIM_CP, .part = ring_of},
    [AXIS_CP_HEADS] = {.name = "heads", .along = 1 << DIM_CP, .part = heads_of},
    [AXIS_DP]   = {.name = "dp", .along = REPLICAS},
    [AXIS_EP]   = {.name = "ep", .along = REPLICAS, .part = ep_of},
    [AXIS_EDP]  = {.name = "edp", .along = REPLICAS, .part = edp_of},
    [AXIS_SHARD] = {.name = "shard", .along = REPLICAS, .part = shard_of},
    [AXIS_REPLICATE] = {.name = "replicate", .along = REPLICAS, .part = replicate_of},
    [AXIS_ESHARD] = {.name = "eshard", .along = REPLICAS, .part = eshard_of},
    [AXIS_EREPLICATE] = {.name = "ereplicate", .along = REPLICAS, .part = ereplicate_of},
    [AXIS_PP]   = {.name = "pp", .along = 1 << DIM_PP},
    [AXIS_TIE]  = {.name = "tie", .along = 1 << DIM_PP, .first_stage = first_of_ends},
    [AXIS_MIRROR] = {.name = "mirror", .along = 1 << DIM_PP, .first_stage = first_of_mirror},
    [AXIS_HALF] = {.name = "half", .along = 1 << DIM_PP, .part = half_of},
    [AXIS_MESH] = {.name = "mesh", .along = ALL_DIMS},
    [AXIS_MODEL] = {.name = "model", .along = ALL_DIMS & ~(1 << DIM_DP)},
};

const char *mesh_dim_name(enum mesh_dim dim) { return (unsigned)dim < N_DIMS ? DIMS[dim] : "unknown dimension"; }
bool mesh_dim_is_shown(enum mesh_dim dim, int64_t n) { return ALWAYS_SHOWN >> dim & 1 || n > 1; }
const char *mesh_axis_name(enum mesh_axis axis) {
    return (unsigned)axis < N_MESH_AXES ? AXES[axis].name : "unknown axis";
}

static int64_t size_along(const struct mesh_sizes *sizes, int dim) { return sizes->at[dim] ? sizes->at[dim] : 1; }

double mesh_n_ranks(const struct mesh_sizes *sizes) {
    double n = 1;
    for (int d = 0; d < N_DIMS; d++) n *= (double)size_along(sizes, d);
    return n;
}

const char *mesh_sizes_text(const struct mesh_sizes *sizes, char *text, size_t size) {
    size_t used = 0;
    snprintf(text, size, "dp=%" PRId64, size_along(sizes, DIM_DP));
    for (int d = 0; d < N_DIMS && used < size; d++)
        if (size_along(sizes, d) != 1)
            used +=
                (size_t)snprintf(text + used, size - used, "%s%s=%" PRId64, used ? " x " : "", DIMS[d], sizes->at[d]);
    return text;
}

const char *mesh_place_text(const struct mesh_place *p, char *text, size_t size) {
    size_t used = 0;
    text[0] = 0;
    for (int d = N_DIMS; d-- > 0 && used < size;)
        if (p->n.at[d] > 1)
            used += (size_t)snprintf(text + used, size - used, "%s%s%d", used ? " " : "", DIMS[d], p->rank.at[d]);
    return text;
}

/* ---- groups ---- */
/* For all ranks that differ along the axis's dimensions: their number, and the index of this rank among them (the
 * innermost dimension counts first, so that ranks ascend). */
static int n_along(enum mesh_axis axis, const struct mesh_place *p) {
    int n = 1;
    for (int d = 0; d < N_DIMS; d++)
        if (AXES[axis].along >> d & 1) n *= at_least_1(p->n.at[d]);  /* 0: no layout yet */
    return n;
}
static int index_along(enum mesh_axis axis, const struct mesh_place *p) {
    int index = 0;
    for (int d = N_DIMS; d-- > 0;)
        if (AXES[axis].along >> d & 1) index = index * p->n.at[d] + p->rank.at[d];
    return index;
}

/* This rank's group. size: of the group; index: of the rank in it. first: the index of the first member among all ranks
 * along the axis, -1: the rank is alone; apart: the distance between neighbors. The caller checks that sizes divide. */
struct group_of { int size, index, first, apart; };
static struct part part_of(enum mesh_axis axis, const struct mesh_place *p) {
    int n = n_along(axis, p);
    struct part part = AXES[axis].part ? AXES[axis].part(p, n) : (struct part){1, n};
    return (struct part){part.apart, at_least_1(part.size)};
}
static struct group_of two_stages(int first, const struct mesh_place *p) {
    if (first < 0) return (struct group_of){1, 0, -1, 1};
    return (struct group_of){2, p->rank.pp != first, first, p->n.pp - 1 - 2 * first};
}
static struct group_of group_of(enum mesh_axis axis, const struct mesh_place *p) {
    if (AXES[axis].first_stage) return two_stages(AXES[axis].first_stage(p), p);
    struct part part = part_of(axis, p);
    int i = index_along(axis, p), index = i / part.apart % part.size;
    return (struct group_of){part.size, index, i - index * part.apart, part.apart};
}

int mesh_colour(enum mesh_axis axis, const struct mesh_place *p) {
    int first = group_of(axis, p).first;
    return first < 0 ? -1 : mesh_rank_along(AXES[axis].along, *p, first);
}
int mesh_size(enum mesh_axis axis, const struct mesh_place *p) { return group_of(axis, p).size; }
int mesh_index(enum mesh_axis axis, const struct mesh_place *p) { return group_of(axis, p).index; }
int mesh_stride(enum mesh_axis axis, const struct mesh_place *p) {
    const struct group_of g = group_of(axis, p);
    const unsigned dims = AXES[axis].along;
    return g.size == 1 ? 1 : mesh_rank_along(dims, *p, g.first + g.apart) - mesh_rank_along(dims, *p, g.first);
}

struct mesh_place mesh_in_first_replica(const struct mesh_place *p) {
    struct mesh_place first = *p;
    first.rank.dp = 0;
    return first;
}

bool mesh_is_first(enum mesh_axis axis, const struct mesh_place *p) { return mesh_index(axis, p) == 0; }

/* A cut along all replicas is a cut along both EP and EDP. */
enum { BOTH = 1 << AXIS_EP | 1 << AXIS_EDP };
static unsigned unfolded(unsigned cuts) { return cuts >> AXIS_DP & 1 ? (cuts | BOTH) & ~(1u << AXIS_DP) : cuts; }
static unsigned folded(unsigned cuts) {
    return (cuts & BOTH) == BOTH ? (cuts & ~(unsigned)BOTH) | 1u << AXIS_DP : cuts;
}

unsigned mesh_cuts_beyond(unsigned seen, unsigned own) { return folded(unfolded(seen) & ~unfolded(own)); }

enum mesh_axis mesh_replicas(unsigned sum) { return sum >> AXIS_EDP & 1 ? AXIS_EDP : AXIS_DP; }

enum mesh_axis mesh_shard_axis(enum mesh_axis replicas, const struct mesh_place *p) {
    if (n_sharing(p, n_along(AXIS_DP, p)) == n_along(AXIS_DP, p)) return replicas;
    return replicas == AXIS_EDP ? AXIS_ESHARD : AXIS_SHARD;
}
enum mesh_axis mesh_replicate_axis(enum mesh_axis replicas, const struct mesh_place *p) {
    if (mesh_shard_axis(replicas, p) == replicas) return AXIS_SELF;
    return replicas == AXIS_EDP ? AXIS_EREPLICATE : AXIS_REPLICATE;
}

/* Do the cuts cover this part of a replica's index? The index has three parts, split at the sizes of ep and shard; each
 * axis covers some of them. */
static bool covers(unsigned cuts, const struct mesh_place *p, int from, int to) {
    bool covered = false;
    for (enum mesh_axis a = 0; a < N_MESH_AXES; a++) {
        struct part part = part_of(a, p);
        covered |= AXES[a].along == REPLICAS && cuts >> a & 1 && part.apart <= from && to <= part.apart * part.size;
    }
    return covered;
}
static bool speaks_of_replicas(unsigned cuts, const struct mesh_place *p) {
    int n = n_along(AXIS_DP, p), i = index_along(AXIS_DP, p), ep = at_least_1(p->ep), shard = n_sharing(p, n);
    const int ends[] = {1, ep < shard ? ep : shard, ep < shard ? shard : ep, n};
    for (int k = 0; k < 3; k++)
        if (i / ends[k] % at_least_1(ends[k + 1] / ends[k]) && !covers(cuts, p, ends[k], ends[k + 1])) return false;
    return true;
}

bool mesh_speaks(unsigned cuts, const struct mesh_place *p) {
    for (enum mesh_axis a = 0; a < N_MESH_AXES; a++)
        if (AXES[a].copies && !(cuts >> a & 1) && !mesh_is_first(a, p)) return false;
    return speaks_of_replicas(cuts, p);
}
