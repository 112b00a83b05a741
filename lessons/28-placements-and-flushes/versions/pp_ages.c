/* Exercise: which weights a microbatch reads (lesson 28, "No flush").
 *
 * Without a flush rank `stage` of p first runs w = p - 1 - stage forwards. Then in each step, for j = 0 .. k-1, it runs
 * the forward of microbatch j + w and the backward of microbatch j, both counted from the step's first microbatch; at
 * the end of the step it updates the weights. For both compute the age of the weights that they read: 0 is the newest
 * version on this rank at that moment, 1 the version before it. Microbatch q since the last flush must read the version
 * after this number of updates:
 *
 *   PipeDream      max(0, floor((q - w) / k)), forward and backward
 *   vertical sync  max(0, floor((q - (p-1)) / k)), forward and backward, on every stage
 *   2BW            max(0, floor(q / k) - 1), forward and backward, on every stage
 *
 * In step n the rank has made n updates, and its microbatch j is q = n k + j. An age that reaches beyond the flush
 * means the version of the flush, so you can ignore this case.
 *
 * There are two types: struct pp_shape (pp/pp_schedule.h), of which you need n_stages, p, and n_microbatches, k; and
 * struct pp_ages (pp/pp_orders.h), your result. Each function has a claim of its own. pp/pp_async.c makes the order.
 *
 * Grade a copy in my/ with: make grade LESSON=28 FILE=my/pp_ages.c */
#include "pp/pp_orders.h"

#include "lib/base/integer.h"

/* TODO 1. PipeDream: the weights of a microbatch's forward are kept for its backward. (lib/base/integer.h has ceil_div
 * and max64.) */
struct pp_ages pp_stashed(const struct pp_shape *x, int stage, int j) {
    (void)x, (void)stage, (void)j;
    return (struct pp_ages){-1, -1};
}

/* TODO 2. Vertical sync. */
struct pp_ages pp_vertical_sync(const struct pp_shape *x, int stage, int j) {
    (void)x, (void)stage, (void)j;
    return (struct pp_ages){-1, -1};
}

/* TODO 3. 2BW. Microbatch j + w may belong to the next update. */
struct pp_ages pp_double_buffered(const struct pp_shape *x, int stage, int j) {
    (void)x, (void)stage, (void)j;
    return (struct pp_ages){-1, -1};
}

/* TODO 4. The number of versions that a stage keeps, the newest included: which is the oldest that is read? `ages` is
 * one of the functions above. */
int pp_versions(const struct pp_shape *x, int stage, pp_ages_of *ages) {
    (void)x, (void)stage, (void)ages;
    return -1;
}
