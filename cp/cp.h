/* Context parallelism: the sequence is sharded over cp ranks, everywhere. See cp.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_cp;

enum cp_by { CP_BY_RING, CP_BY_ULYSSES, CP_BY_GATHER };
struct cp_options { int by; };
static inline struct cp_options *cp_options(const struct plan *p) { return plan_own(p, &technique_cp.options); }
