/* Partial gradients: sums over other axes than the replicas (dp and zero sum over replicas, while backward runs).
 *
 * With sequence parallelism a layernorm sees T/tp of the tokens, so each tp rank has a part of its gradient; a tied
 * weight has one part from each end of the pipeline; and where only some replicas share shards (zero/, --shard) the
 * others have the rest of a shard's gradient. The params and their axes follow from the program (param.reduce,
 * program_infer), so that one routine serves every technique.
 *
 * Sent when: after the sum over replicas, own elements only. They are many and small: all of an axis are in flight at
 * once. */
#pragma once

#include "lib/run/run.h"

/** @collective{mesh} @errors E_TIMEOUT, E_COMM, E_DEVICE */
enum status combine_gradients(struct run *);

/** Bill these sums: each adds 2 S (n-1)/n to the bytes of its axis of n ranks. Pure. */
void combine_bill(const struct program *, struct bill *);
