/* Elastic training: every rank's state in two memories, and going on from there when ranks have died. See elastic.c. */
#ifndef TRIVIUM_ELASTIC_ELASTIC_H
#define TRIVIUM_ELASTIC_ELASTIC_H

#include "lib/run/technique.h"

extern const struct technique technique_elastic;

/* every 0: off. replace: ranks that are slow (driver/train/train_straggler.c). */
struct elastic_options { int64_t every; int replace; };
static inline struct elastic_options *elastic_options(const struct plan *p) {
    return plan_own(p, &technique_elastic.options);
}

#endif
