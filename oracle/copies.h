/* Checksums of copies while a run trains: weights that ranks should hold alike. See copies.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_copies;

struct copies_options { int64_t every; };
static inline struct copies_options *copies_options(const struct plan *p) {
    return plan_own(p, &technique_copies.options);
}
