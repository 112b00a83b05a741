/* Checks of a plan against its schedule: --schedule-times and --schedule-memory must affect the order, and some options
 * need a flush. */
#include "pp/pp.h"

#include "lib/run/recipe.h"
#include <stdlib.h>

/* Four or five positive numbers; only a message's time may be 0. */
bool pp_read_times(const struct pp_options *o, struct pp_costs *out) {
    double t[5] = {1, 1, 1, 0, 0};
    const char *at = o->times;
    int n = 0;
    for (; *at && n < 5; n++) {
        char *end;
        t[n] = strtod(at, &end);
        if (end == at || (*end && *end != ',') || !(t[n] < 1e6) || t[n] < (n == 3 ? 0 : 1e-6)) return false;
        at = *end ? end + 1 : end;
    }
    *out = pp_costs_of(&(struct pp_work){t[0], t[1], t[2]}, t[3], t[4], (int)o->memory);
    return n == 0 || (n >= 4 && !*at && t[4] <= 1);
}

enum status pp_check_times(const struct plan *plan) {
    const struct pp_options *o = pp_options(plan);
    struct pp_costs unused;
    const struct pp_schedule *row = pp_row(plan);
    if (!pp_read_times(o, &unused))
        return FAIL(E_CONFIG,
                    "schedule-times=%.64s: give four numbers, for a forward, input gradients, weight gradients and a "
                    "message, as in 2.1,2.0,1.1,0.1; or a fifth, 0 to 1, for the share of activations that weight "
                    "gradients need",
                    o->times);
    if (!row->timed && (o->times[0] || o->memory))
        return FAIL(E_CONFIG, "%s: schedule=%s goes by neither times nor memory; use schedule=zb-2p, or leave it out",
                    o->times[0] ? "schedule-times" : "schedule-memory", row->name);
    return OK;
}

/* ---- without a flush ---- */
/* A tied matrix and the norm of all gradients need weights of one age on all stages. */
enum status pp_check_endless(const struct plan *plan) {
    const char *name = pp_row(plan)->name;
    if (!pp_row(plan)->endless) return OK;
    if (pp_options(plan)->optim_sync == OPTIM_SYNC_VALIDATE)
        return FAIL(E_CONFIG,
                    "optim-sync=validate puts the end of a step right, and with schedule=%s steps have none; leave it "
                    "out",
                    name);
    if (model_options(plan)->tie && plan->mesh.pp > 1 && !pp_row(plan)->one_age)
        return FAIL(E_CONFIG,
                    "schedule=%s reads weights of another age on every stage, and with tie=on the first and the last "
                    "share a matrix; use tie=off, or schedule=2bw",
                    name);
    if (plan->clip > 0 && !pp_row(plan)->one_age)
        return FAIL(E_CONFIG,
                    "schedule=%s takes the gradients of an update at weights of different ages, and clip=%g needs the "
                    "norm of one gradient; use clip=0, or schedule=2bw",
                    name, plan->clip);
    if (plan_says(plan, "spike-guard"))
        return FAIL(E_CONFIG,
                    "spike-guard=%g undoes steps that are over, and with schedule=%s the next have begun; leave "
                    "it out",
                    plan_real(plan, "spike-guard"), name);
    return OK;
}
