/* Tensor parallelism: each layer's matrices are sharded over tp ranks. See tp.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_tp;

struct tp_options { int sp; };           /* sequence parallelism */
static inline struct tp_options *tp_options(const struct plan *p) { return plan_own(p, &technique_tp.options); }
