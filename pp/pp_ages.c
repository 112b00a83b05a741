/* Ages of the weights that a stage reads without a flush, and the versions that it keeps: see pp_async.c. */
#include "pp/pp_orders.h"

#include "lib/base/integer.h"

struct pp_ages pp_stashed(const struct pp_shape *x, int stage, int j) {
    int64_t warm = x->n_stages - 1 - stage;
    return (struct pp_ages){0, ceil_div(max64(0, warm - j), x->n_microbatches)};
}

struct pp_ages pp_vertical_sync(const struct pp_shape *x, int stage, int j) {
    return (struct pp_ages){ceil_div(max64(0, stage - j), x->n_microbatches),
                            ceil_div(max64(0, x->n_stages - 1 - j), x->n_microbatches)};
}

struct pp_ages pp_double_buffered(const struct pp_shape *x, int stage, int j) {
    bool of_next_update = j + x->n_stages - 1 - stage >= x->n_microbatches;
    return (struct pp_ages){of_next_update ? 0 : 1, 1};
}

/* The oldest is read by the backward of a step's first microbatch. */
int pp_versions(const struct pp_shape *x, int stage, pp_ages_of *ages) { return 1 + (int)ages(x, stage, 0).backward; }
