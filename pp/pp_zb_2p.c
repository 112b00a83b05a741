/* ZB-2p: list scheduling with twice 1F1B's memory. p = 4, m = 8, F = Bi = W = 1; B is Bi.
 *
 * 0  F0 F1 F2 F3 F4 F5 F6 B0 F7 B1 W0 B2 W1 B3 W2 B4 W3 B5 W4 B6 W5 B7 W6 W7 .  .  .
 * 1  .  F0 F1 F2 F3 F4 B0 F5 B1 F6 B2 F7 B3 W0 B4 W1 B5 W2 B6 W3 B7 W4 W5 W6 W7 .  .
 * 2  .  .  F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 W0 B6 W1 B7 W2 W3 W4 W5 W6 W7 .
 * 3  .  .  .  F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7 W0 W1 W2 W3 W4 W5 W6 W7
 *
 * ZB-H2 has no bubble if F = Bi = W. If these times differ, the order must follow them. Given the times, also of a
 * message, this file tries several policies and takes the order with the least bubble. Invented to have (almost) no
 * bubble with the times that GPUs have. Bubble: no closed form; peak 2p microbatches, or as --schedule-memory says; 1
 * copy of the weights.
 *
 * Source: Qi et al. 2023, "Zero bubble pipeline parallelism", section 3.1. */
#include "pp/pp_orders.h"

#include "lib/base/grow.h"
#include "pp/pp_timeline.h"
#include <limits.h>
#include <math.h>

static struct pp_times times_of(const struct pp_shape *x) {
    const struct pp_costs *c = &x->cost;
    if (c->f == 0) return (struct pp_times){{1, 1, 1}, 0};
    return (struct pp_times){{(double)c->f, (double)c->bi, (double)c->w}, (double)c->transfer};
}

/* The idle time of this policy's order; infinite if the run does not end. */
static double bubble_of(const struct pp_shape *x, const struct pp_policy *policy) {
    const struct pp_times times = times_of(x);
    struct schedule *stages = table_new(x->n_stages, sizeof *stages);
    struct timeline t = {0};
    double bubble = INFINITY;
    pp_begin_all(&pp_zb_2p, x, stages);
    if (pp_list(&pp_zb_2p, x, policy, stages) && pp_timeline_make(stages, x->n_stages, INT_MAX, &times, &t) == OK)
        bubble = timeline_bubble(&t, stages);
    timeline_fini(&t);
    for (int i = 0; i < x->n_stages; i++) schedule_fini(&stages[i]);
    free(stages);
    return bubble;
}

static void order(const struct pp_shape *x, struct schedule *stages) {
    struct pp_policy best = {0};
    double least = INFINITY;
    for (int slope = 0; slope <= 2; slope += 2)
        for (int gap = 100; gap >= 0; gap -= 50)
            for (enum pp_prefer prefer = PP_BACKWARD_FIRST; prefer <= PP_IN_TURNS; prefer++) {
                struct pp_policy p = {prefer, x->cost.memory ? x->cost.memory : 2 * x->n_stages, slope, -1, gap};
                double bubble = bubble_of(x, &p);
                if (bubble < least - 1e-9) least = bubble, best = p;
            }
    pp_list(&pp_zb_2p, x, &best, stages);
}
const struct pp_schedule pp_zb_2p = {.name = "zb-2p", .place = &pp_wind, .split_weight = true, .timed = true,
                                     .order_all = order, .depth = pp_simulated_depth};
