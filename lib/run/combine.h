/* Sums of partial gradients over the axes other than dp. (dp and zero sum over replicas, during backward.)
 *
 * There are three kinds. With sequence parallelism a layernorm reads T/tp of the tokens, so each tp rank has a part of
 * its gradient. A tied weight has one part from each end of the pipeline. And if only some replicas share shards
 * (zero/, --shard), each such group has a part of a shard's gradient. program_infer finds the params and their axes
 * (param.reduce), so that one routine serves every technique.
 *
 * Each rank sends its own elements after the sum over replicas. The messages are many and small, so all messages of an
 * axis are in flight at the same time. */
#pragma once

#include "lib/run/run.h"

/** Sum the partial gradients. @collective{mesh} @errors E_TIMEOUT, E_COMM, E_DEVICE */
enum status combine_gradients(struct run *);

/** Bill these sums. A sum of S bytes over n ranks adds 2 S (n-1)/n to the bytes of its axis. Pure. */
void combine_bill(const struct program *, struct bill *);
