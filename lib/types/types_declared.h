/* What a shape by itself says of how a tensor lies over the mesh. Private to lib/types/types*.c. */
#pragma once

#include "lib/types/types.h"

/** The type of what no step makes: data, params, and what another stage sends. B takes the factors of its cut that no
 *  other axis has. @errors E_INTERNAL: a shard of another size, or at another place, than this rank's coordinates
 *  say  @collective{none} */
enum status types_declared(const struct program *, const struct factors *, const struct shape *, const char *name,
                           const char *rewrite, struct typed *);
/** Does the type that the rules gave fit the shape: the axes, by how many ranks, and the bits of their cuts?
 *  @errors E_INTERNAL  @collective{none} */
enum status types_agree(const struct program *, const struct factors *, const struct shape *, const char *name,
                        const char *rewrite, const struct typed *);
