#include "planner/budget.h"

#include "planner/failure.h"
#include <math.h>

static double machines(const struct cluster *c, double ranks) { return ceil(ranks / (double)c->level[0].ranks); }

/* If a save takes no time, saves can be arbitrarily frequent, so a failure costs only its restart. */
static void fail_sometimes(struct budget *b, const struct budget_of *of) {
    bool saves = isfinite(b->mtbf_s) && of->stall_s > 0;
    b->young_s = saves ? failure_interval_young(of->stall_s, b->mtbf_s) : NAN;
    b->daly_s = saves ? failure_interval_daly(of->stall_s, b->mtbf_s) : NAN;
    b->interval_s = of->interval_s > 0 ? of->interval_s : b->daly_s;
    b->goodput = 1;
    if (isfinite(b->mtbf_s))
        b->goodput = isnan(b->interval_s) ? exp(-of->restart_s / b->mtbf_s)
                                          : failure_goodput(b->interval_s, of->stall_s, b->mtbf_s, of->restart_s);
}

struct budget budget_make(const struct cluster *c, const struct budget_of *of) {
    const double day_s = 86400;
    struct budget b = {.ideal_s = of->flops / (of->ranks * of->peak_flops_per_s * of->mfu)};
    b.slowest = failure_slowest(machines(c, of->ranks), c->jitter_cv, 0, 1);
    b.mtbf_s = failure_mtbf(c->mtbf_rank_s, of->ranks);
    fail_sometimes(&b, of);
    b.wall_s = b.ideal_s * b.slowest / b.goodput;
    b.failures = b.wall_s / b.mtbf_s;
    b.failing_day = -expm1(-day_s / b.mtbf_s);
    b.rank_hours = b.wall_s * of->ranks / 3600;
    b.price = b.rank_hours * c->price_per_hour;
    b.joules = b.wall_s * of->ranks * c->watts;
    return b;
}
