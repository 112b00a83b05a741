/* A piece of a tensor: the part that one rank holds, or that one checkpoint file has.
 *
 * Tensor parallelism cuts axes, so that a rank has a box. ZeRO cuts this box into equal runs of elements, without
 * regard to axes, so that a rank has a run of its box, counted row-major inside the box. So a piece is a box and a run
 * of it, and both can be cut by any number of ranks.
 *
 *   global tensor  (6, 4)          box: rows 2 .. 4, columns 0 .. 3        run: elements 5 .. 9 of the box's 12
 *       . . . .                        . . . .                                 . . . .
 *       . . . .                        . . . .                                 . . . .
 *       . . . .        ->              a b c d                   ->            . . . .
 *       . . . .                        e f g h                                 . f g h
 *       . . . .                        i j k l                                 i j . .
 *
 * To load a checkpoint in another layout, for each piece of a rank and each piece in the checkpoint, the elements that
 * they share are copied. Shared elements are found row by row along the last axis. Rows that follow each other in both
 * pieces are visited as one run: between equal layouts that is one copy. */
#pragma once

#include "lib/base/status.h"
#include "lib/device/tensor.h"

/* An axis may reach beyond the global tensor (padding); no other piece shares such elements. */
struct piece { struct shape box; int64_t first, n; };

/** Called for n elements that are consecutive in both runs, from element `to_at` of one run and element `from_at` of
 *  the other. */
typedef enum status piece_visit(void *self, int64_t to_at, int64_t from_at, int64_t n);

/** Visit every element that both pieces hold, once, in the order of `to`. Both belong to the same global tensor: the
 *  same axes, the same global sizes. @errors E_INTERNAL: they are not; those of visit @collective{none} */
enum status piece_common(const struct piece *to, const struct piece *from, piece_visit *visit, void *self);

/** The number of elements of the run that are not padding. */
int64_t piece_real_n(const struct piece *);

/** The piece without the rows that pad a vocabulary, which are the last of the first axis. */
struct piece piece_without_padding(struct piece);
