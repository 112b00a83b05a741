/* Partial gradients: what a param's gradient is a sum over, beyond the replicas (dp and zero sum those, while backward
 * runs).
 *
 * With sequence parallelism a layernorm sees T/tp of the tokens, and has as much of its gradient on each tp rank; a
 * tied weight has one part from either end of the pipeline; and where only some of the replicas share shards (zero/,
 * --shard) the others have the rest of a shard's gradient. Which params and which axes follows from the program
 * (param.reduce, program_infer), so that one routine does for every technique.
 *
 * Sent when: after the sum over replicas, own elements only. They are many and small: all of an axis are in flight at
 * once. */
#ifndef TRIVIUM_RUN_COMBINE_H
#define TRIVIUM_RUN_COMBINE_H

#include "lib/run/run.h"

/** @collective{mesh} @errors E_TIMEOUT, E_COMM, E_DEVICE */
enum status combine_gradients(struct run *);

/** What that sends, 2 S (n-1)/n of each sum over n ranks, is added to the axis' bytes. Pure. */
void combine_bill(const struct program *, struct bill *);

#endif
