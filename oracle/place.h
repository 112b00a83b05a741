/* Places of a rank's elements in published tensors, which have other names and shapes (lib/run/published.h).
 *
 * A rank holds a range of each axis (tp cuts heads, cp takes two runs of positions, padding reaches beyond the end),
 * and of the product of these ranges a run of elements (ZeRO's shard). A published tensor is divided into boxes:
 * [first, first + n) along each of its axes. So the held elements are cut until each part is a box:
 *
 *   a run           at most two boxes per axis: the ends of its rows, and the whole rows between them
 *   two runs        a box for each
 *   (3, H, D)       one published axis, 3 x H x D: a range of heads is contiguous only within one of the three
 *   (2, J, D, C)    keys and values are a tensor each */
#pragma once

#include "lib/base/box.h"
#include "lib/device/tensor.h"
#include "lib/base/status.h"
#include "lib/run/published.h"
#include <stdint.h>

/* A box, and its elements' places in the rank's array: nested loops over the counts, the last innermost, from
 * `offset`. */
struct placed {
    char name[PUBLISHED_NAME_MAX];
    struct box box;
    int n_loops;
    int64_t offset, count[MAX_AXES], stride[MAX_AXES];
};

/** Call visit with every box of [run_first, run_first + run_n) of the held elements, counted row-major; padding is
 *  left out.  @errors those of visit; E_INTERNAL: the row is of another shape  @collective{none} */
typedef enum status place_visit(void *self, const struct placed *);
enum status place_each(const struct published *row, int layer, const struct shape *held, int64_t run_first,
                       int64_t run_n, place_visit *visit, void *self);
