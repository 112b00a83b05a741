/* Numbers of one step by name: pieces of tensors from the ranks, in memory.
 *
 *   name       a tensor's published name and its kind: transformer.h.0.attn.c_attn.weight.grad (.act, .act_grad, .grad,
 *              .moment1, .moment2, .param); or a number: loss, grad_norm
 *   box        the part of the whole tensor
 *   part       0 of 1: the elements' values. i of n: the i-th of n summands of the values
 *   rank       the rank that holds the piece
 *
 * kept_whole assembles a tensor and compares the ranks. It adds each part once. Two ranks that hold the same part of
 * the same elements must hold the same values. */
#pragma once

#include "oracle/place.h"

struct kept_piece {
    char name[PUBLISHED_NAME_MAX + 16];
    struct box box;
    int rank, part, parts;
    int64_t at;                          /* its first element in `values` */
};
/* sorted: pieces are in the order of name, part, and arrival. All zero initially. */
struct kept { struct kept_piece *piece; int n; double *values; int64_t n_values, room; bool sorted; };

/** Add a piece. @return where the caller writes its values; NULL: no memory */
double *kept_add(struct kept *, const struct kept_piece *);
/** Add a number. @errors E_MEMORY */
enum status kept_add_number(struct kept *, const char *name, int rank, double value);
/** Add a placed part of `data`, which holds elements of dtype; values are multiplied by `scale`. @errors E_MEMORY */
enum status kept_add_placed(struct kept *, const struct placed *, const char *suffix, int rank, const void *data,
                            enum dtype, double scale);
/** Drop the pieces; memory stays allocated. */
void kept_clear(struct kept *);
void kept_fini(struct kept *);

/* An assembled tensor. */
struct whole {
    const char *name;
    struct box box;                      /* the whole tensor's */
    double *x;
    int64_t n, missing;                  /* elements; those without all of their parts */
    /* The largest difference between two ranks, relative to max |x|; 0: none. */
    double apart;
    int rank, other;
};
/** @return the number of pieces of this name; *first: the first one's index. Sorts the pieces if needed. */
int kept_find(struct kept *, const char *name, int *first);
/** Assemble a tensor. The caller frees *out (whole_fini) in any case.
 *  @errors E_FORMAT: pieces of different tensors or of different sums, or of a tensor 64 times as large; E_MEMORY;
 *  E_DATA: no piece of that name */
enum status kept_whole(struct kept *, const char *name, struct whole *out);
/** Assemble the tensor of this name, or, with a suffix, that whose name has it in place of the part from the last dot
 *  on: layer.weight.param, ".moment1". The caller frees *out. @return is it recorded, and whole? */
bool kept_sibling(struct kept *, const char *name, const char *suffix, struct whole *out);
void whole_fini(struct whole *);
