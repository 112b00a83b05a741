/* Tensor parallelism: each layer's matrices are sharded over tp ranks. See tp.c. */
#ifndef TRIVIUM_TP_TP_H
#define TRIVIUM_TP_TP_H

#include "lib/run/technique.h"

extern const struct technique technique_tp;

struct tp_options { int sp; };           /* sequence parallelism */
static inline struct tp_options *tp_options(const struct plan *p) { return plan_own(p, &technique_tp.options); }

#endif
