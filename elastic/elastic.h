/* Elastic training: two memories have every rank's state, from which the job goes on when ranks die. See elastic.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_elastic;

/* every: steps between snapshots, 0: off. replace: slow ranks get replaced (driver/train/train_straggler.c). */
struct elastic_options { int64_t every; int replace; };
static inline struct elastic_options *elastic_options(const struct plan *p) {
    return plan_own(p, &technique_elastic.options);
}
