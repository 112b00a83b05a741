/* Recomputation: activations are dropped after forward and recomputed where backward needs them. See recompute.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_recompute;

enum recompute_kind { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL, RECOMPUTE_UNIFORM, RECOMPUTE_BLOCK,
                      RECOMPUTE_AUTO /* the planner chooses */ };
struct recompute_options { int kind, n; };   /* n: of uniform:N and block:N */
static inline struct recompute_options *recompute_options(const struct plan *p) {
    return plan_own(p, &technique_recompute.options);
}
