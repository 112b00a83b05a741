/* A piece of a tensor: what one rank holds of it, or what one checkpoint file does.
 *
 * Tensor parallelism cuts axes: a rank has a box. ZeRO cuts what is left into equal runs of elements, whatever the
 * axes: a rank has a run of its box, counted row-major inside the box. So a piece is a box and a run of it, and both
 * cuts can be of any number.
 *
 *   global tensor  (6, 4)          box: rows 2 .. 4, columns 0 .. 3        run: elements 5 .. 9 of the box's 12
 *       . . . .                        . . . .                                 . . . .
 *       . . . .                        . . . .                                 . . . .
 *       . . . .        ->              a b c d                   ->            . . . .
 *       . . . .                        e f g h                                 . f g h
 *       . . . .                        i j k l                                 i j . .
 *
 * Loading a checkpoint in another layout is this: for each piece that is wanted, and each piece that is there, copy
 * what they share. The elements that two pieces share are found row by row along the last axis, and neighbors that
 * follow each other in both are handed out as one: between equal layouts that is one copy. */
#pragma once

#include "lib/base/status.h"
#include "lib/device/tensor.h"

/* An axis may reach beyond the global tensor (padding): such elements belong to no other piece. */
struct piece { struct shape box; int64_t first, n; };

/** Called for n elements that lie together in both, from element `to_at` of one run and element `from_at` of the
 *  other. */
typedef enum status piece_visit(void *self, int64_t to_at, int64_t from_at, int64_t n);

/** Every element that both hold, once, in the order of `to`. Both are of the same global tensor: the same axes, the
 *  same global sizes.
 *  @errors E_INTERNAL: they are not; those of visit  @collective{none} */
enum status piece_common(const struct piece *to, const struct piece *from, piece_visit *visit, void *self);

/** Elements of the run that are no padding. */
int64_t piece_real_n(const struct piece *);

/** Without the rows of a padded vocabulary, which are the first axis' last. */
struct piece piece_without_padding(struct piece);
