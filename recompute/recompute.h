/* Recomputation: activations are dropped after forward and computed again where backward wants them. See recompute.c. */
#ifndef TRIVIUM_RECOMPUTE_RECOMPUTE_H
#define TRIVIUM_RECOMPUTE_RECOMPUTE_H

#include "lib/run/technique.h"

extern const struct technique technique_recompute;

#endif
