/* The type of a tensor as its shape alone declares it. Private to lib/types/types*.c. */
#pragma once

#include "lib/types/types.h"

/** The type of a tensor that no step makes: data, params, and slots from another stage. Axis B takes the factors of its
 *  cut that no other axis has. @errors E_INTERNAL: a shard whose size or place does not fit this rank's coordinates
 *  @collective{none} */
enum status types_declared(const struct program *, const struct factors *, const struct shape *, const char *name,
                           const char *rewrite, struct typed *);
/** Does the type that the rules gave fit the shape, in its sharded axes, their numbers of ranks, and the bits of their
 *  cuts? @errors E_INTERNAL @collective{none} */
enum status types_agree(const struct program *, const struct factors *, const struct shape *, const char *name,
                        const char *rewrite, const struct typed *);
