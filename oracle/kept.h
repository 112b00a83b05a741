/* Numbers of one step by name: pieces of tensors from the ranks, in memory.
 *
 *   name       a tensor's published name and its kind: transformer.h.0.attn.c_attn.weight.grad (.act, .act_grad, .grad,
 *              .moment1, .moment2, .param); or a number: loss, grad_norm
 *   box        the part of the whole tensor
 *   part       0 of 1: its values. i of n: the i-th of n summands
 *   rank       the rank that has it
 *
 * kept_whole puts a tensor together, and compares the ranks: parts are added, each once, and two ranks that have the
 * same elements, or the same part of them, must have the same values. */
#pragma once

#include "oracle/place.h"

struct kept_piece {
    char name[PUBLISHED_NAME_MAX + 16];
    struct box box;
    int rank, part, parts;
    int64_t at;                          /* its first element in `values` */
};
/* sorted: pieces of one name lie together, part by part, else in the order in which they came. Zero at first. */
struct kept { struct kept_piece *piece; int n; double *values; int64_t n_values, room; bool sorted; };

/** Room for one more piece, whose values the caller fills in. @return where; NULL: no memory */
double *kept_add(struct kept *, const struct kept_piece *);
/** A number. @errors E_MEMORY */
enum status kept_add_number(struct kept *, const char *name, int rank, double value);
/** A placed part of `data`, which holds elements of dtype; values are multiplied by `scale`. @errors E_MEMORY */
enum status kept_add_placed(struct kept *, const struct placed *, const char *suffix, int rank, const void *data,
                            enum dtype, double scale);
/** Forget the pieces; memory stays. */
void kept_clear(struct kept *);
void kept_fini(struct kept *);

/* A tensor put together. */
struct whole {
    const char *name;
    struct box box;                      /* all of it */
    double *x;
    int64_t n, missing;                  /* elements; those that no rank has, or of which a part is missing */
    /* The largest difference between two ranks, relative to max |x|; 0: none. */
    double apart;
    int rank, other;
};
/** Pieces of this name: their number, and the first's index; sorts if need be. */
int kept_find(struct kept *, const char *name, int *first);
/** Put it together; the caller frees *out (whole_fini) in any case.
 *  @errors E_FORMAT: pieces of different tensors, of a tensor 64 times as large, or parts of different sums; E_MEMORY;
 *  E_DATA: no piece of that name */
enum status kept_whole(struct kept *, const char *name, struct whole *out);
void whole_fini(struct whole *);
