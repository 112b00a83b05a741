/* Orders by counting, the rule of most schedules. See pp_count.c. */
#ifndef TRIVIUM_PP_PP_COUNT_H
#define TRIVIUM_PP_PP_COUNT_H

#include "pp/pp_schedule.h"

struct pp_count {
    int warm;       /* forwards are at most warm + 1 ahead of backwards */
    int group;      /* microbatches that pass a chunk before the next chunk gets any */
    int late;       /* where W is apart: how far it stays behind its B, until the forwards end */
};
/** All actions of a stage. out->split_weight says whether W is apart. @collective{none} */
void pp_count(const struct pp_shape *, struct pp_count, struct schedule *out);

#endif
