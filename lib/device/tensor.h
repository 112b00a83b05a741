/* Tensors are views: an address, and a type. Arenas own the memory (arena.h).
 *
 * Every axis has its place in the global tensor. A rank that holds heads 4..7 of 16 has the axis {'H', n 4, first 4,
 * global 16}. Initial values, dropout, checkpoints and resharding identify an element by this alone. */
#pragma once

#include "lib/device/dtype.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MAX_AXES = 5 };

/* Tags in use: B batch, T tokens (position), C channels, H heads, D head size, K hidden size of the MLP, V vocabulary,
 * '3' the query-key-value triple, '2' and '1' small literal axes. first + n may exceed global (a padded vocabulary):
 * the elements beyond are padding. A rank's part of an axis is one run of places, or two: from element `turn` on,
 * places are `jump` further. One run: both 0. `cut`: the axes of the mesh that shard the axis, as bits
 * (lib/comm/mesh.h); program_infer derives from them which ranks sum a gradient. `leaves`: a sum over the axis is split
 * into `leaves` runs of ceil(global / leaves) places, which are added up by halves (--sums fixed,
 * lib/ops/gemm/gemm_leaves.h); 0: it is summed in the fastest way. */
struct axis { char tag; int64_t n, first, global, turn, jump; unsigned cut; int leaves; };
struct shape { int n_axes; struct axis axis[MAX_AXES]; };
struct type { enum dtype dtype; struct shape shape; };   /* row-major, the last axis contiguous */
struct tensor { void *data; const struct type *type; };  /* data NULL: not there */

static inline struct axis axis_whole(char tag, int64_t n) { struct axis a = {tag, n, 0, n, 0, 0, 0, 0}; return a; }
static inline bool axis_is_sharded(const struct axis *a) { return a->n != a->global; }
/** The place of local element i in the whole axis. Grows with i. */
DTYPE_FUNCTION int64_t axis_global(const struct axis *a, int64_t i) {
    return a->first + i + (i >= a->turn ? a->jump : 0);
}
/** Places of a leaf; this rank's leaves, filled up with empty leaves to a power of two; and this rank's places without
 *  padding. */
static inline int64_t axis_leaf(const struct axis *a) { return (a->global + a->leaves - 1) / a->leaves; }
static inline int axis_leaves_here(const struct axis *a) {
    int n = 1;
    while (n * axis_leaf(a) < a->n) n *= 2;
    return n;
}
static inline int64_t axis_real_n(const struct axis *a) {
    int64_t left = a->global - a->first;
    return left < 0 ? 0 : left < a->n ? left : a->n;
}
/** Part `part` of `parts` equal parts of this rank's places; parts divides n. */
struct axis axis_part(const struct axis *, int64_t parts, int64_t part);
/** The shard of a whole axis that gives every part the same number of pairs (i, j <= i), as causal attention needs: of
 *  2 parts equal pieces, number `part` and number 2 parts - 1 - part. 2 parts divides global.  @source Llama 3, section
 *  3.3.2 */
struct axis axis_zigzag(char tag, int64_t global, int64_t parts, int64_t part);

/** Elements held here. */
int64_t shape_n(const struct shape *);
/** Elements of the global tensor, without padding. */
int64_t shape_global_n(const struct shape *);
/** Index in the global tensor of local element i; -1 for padding. */
int64_t shape_global_index(const struct shape *, int64_t i);
/** The axes of the mesh that shard the shape: the union of its axes' bits. */
unsigned shape_cuts(const struct shape *);
/** The axis with this tag, or NULL. */
const struct axis *shape_axis(const struct shape *, char tag);
/** Do both axes have the same places? The mesh axes that cut them may differ. */
bool axis_same(const struct axis *, const struct axis *);
bool shape_same(const struct shape *, const struct shape *);

static inline int64_t type_n(const struct type *t) { return shape_n(&t->shape); }
static inline int64_t type_bytes(const struct type *t) {
    return shape_n(&t->shape) * (int64_t)dtype_size(t->dtype) / (t->dtype == FP4_E2M1 ? 2 : 1);
}

/** "(B 4, T 64, H 2/4@2, D 32)": a sharded axis shows n/global@first. Writes at most `size` bytes with the final 0. */
void shape_print(const struct shape *, char *text, size_t size);

#ifdef __cplusplus
}
#endif
