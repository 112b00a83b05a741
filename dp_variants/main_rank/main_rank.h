/* Data parallelism in which one rank sums and updates, as in torch.nn.DataParallel. See main_rank.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_main_rank;

enum dp_style { DP_STYLE_ALL_REDUCE, DP_STYLE_MAIN };
struct main_rank_options { int style; };       /* enum dp_style */
static inline struct main_rank_options *main_rank_options(const struct plan *p) {
    return plan_own(p, &technique_main_rank.options);
}
