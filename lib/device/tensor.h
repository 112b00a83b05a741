/* Tensors are views: an address, and a type. Arenas own the memory (arena.h).
 *
 * Every axis knows its place in the global tensor. A rank that holds heads 4..7 of 16 has the axis {'H', n 4, first 4,
 * global 16}. Initial values, dropout, checkpoints and resharding need nothing else to know which element is which. */
#ifndef TRIVIUM_DEVICE_TENSOR_H
#define TRIVIUM_DEVICE_TENSOR_H

#include "lib/device/dtype.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MAX_AXES = 5 };

/* Tags in use: B batch, T tokens (position), C channels, H heads, D head size, K hidden size of the MLP, V vocabulary,
 * '3' the query-key-value triple, '2' and '1' small literal axes.
 * first + n may exceed global (a padded vocabulary): the elements beyond are padding. */
struct axis { char tag; int64_t n, first, global; };
struct shape { int n_axes; struct axis axis[MAX_AXES]; };
struct type { enum dtype dtype; struct shape shape; };   /* row-major, the last axis contiguous */
struct tensor { void *data; const struct type *type; };  /* data NULL: not there */

static inline struct axis axis_whole(char tag, int64_t n) { struct axis a = {tag, n, 0, n}; return a; }
static inline bool axis_is_sharded(const struct axis *a) { return a->n != a->global; }

/** Elements held here. */
int64_t shape_n(const struct shape *);
/** Elements of the global tensor, without padding. */
int64_t shape_global_n(const struct shape *);
/** Index in the global tensor of local element i; -1 for padding. */
int64_t shape_global_index(const struct shape *, int64_t i);
/** The axis with this tag, or NULL. */
const struct axis *shape_axis(const struct shape *, char tag);
bool shape_same(const struct shape *, const struct shape *);

static inline int64_t type_n(const struct type *t) { return shape_n(&t->shape); }
static inline int64_t type_bytes(const struct type *t) { return shape_n(&t->shape) * (int64_t)dtype_size(t->dtype); }

/** "(B 4, T 64, H 2/4@2, D 32)": a sharded axis shows n/global@first. Writes at most `size` bytes with the final 0. */
void shape_print(const struct shape *, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
