/* Elastic training: two ranks' memories hold each shard, so that the job continues when ranks die. See elastic.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_elastic;

/* every: steps between snapshots, 0: off. replace: replace slow ranks (driver/train/train_straggler.c). */
struct elastic_options { int64_t every; int replace; };
static inline struct elastic_options *elastic_options(const struct plan *p) {
    return plan_own(p, &technique_elastic.options);
}
