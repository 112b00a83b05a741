#include "planner/walls.h"

#include <math.h>

const char *wall_name(enum wall w) {
    static const char *const NAMES[N_WALLS] = {"memory", "communication", "compute", "efficiency"};
    return (unsigned)w < N_WALLS ? NAMES[w] : "?";
}

const char *loss_name(enum loss l) {
    static const char *const NAMES[N_LOSSES] = {"bubble",  "narrow products", "memory-bound", "replays",
                                                "updates", "slow machines",   "failures"};
    return (unsigned)l < N_LOSSES ? NAMES[l] : "?";
}

double wall_reach(double mfu, double step_s, double products_s) {
    return products_s > 0 ? mfu * step_s / products_s : 0;
}

double wall_exchanges(const struct wall_of *x) {
    static const enum price_phase EXCHANGES[] = {PRICE_TP, PRICE_CP, PRICE_EP, PRICE_PP, PRICE_DP, PRICE_GATHER};
    double sum = 0;
    for (size_t i = 0; i < sizeof EXCHANGES / sizeof *EXCHANGES; i++) sum += x->phase_s[EXCHANGES[i]];
    return sum / x->step_s;
}

enum wall wall_of(const struct wall_of *x) {
    if (!x->fits) return WALL_MEMORY;
    if (wall_exchanges(x) > WALL_EXCHANGES) return WALL_COMMUNICATION;
    return x->mfu > WALL_REACH * x->reach ? WALL_COMPUTE : WALL_EFFICIENCY;
}

/* Narrow products lose the time that wide ones would save. Slow machines and failures lose a part of the wall time,
 * the other losses a part of the step. */
enum loss wall_loss(const struct wall_of *x, double *part) {
    const double *phase = x->phase_s, products = phase[PRICE_PRODUCTS];
    double narrow = x->reach > 0 ? 1 - wall_reach(x->mfu, x->step_s, products) / x->reach : 0;
    const double losses[N_LOSSES] = {
        [LOSS_BUBBLE] = phase[PRICE_BUBBLE] / x->step_s, [LOSS_NARROW] = fmax(0, narrow) * products / x->step_s,
        [LOSS_MOVING] = phase[PRICE_MEMORY] / x->step_s, [LOSS_REPLAY] = phase[PRICE_REPLAY] / x->step_s,
        [LOSS_UPDATE] = (phase[PRICE_OPTIM] + phase[PRICE_OFFLOAD]) / x->step_s, [LOSS_SLOWEST] = 1 - 1 / x->slowest,
        [LOSS_FAILURES] = 1 - x->goodput};
    enum loss most = LOSS_BUBBLE;
    for (enum loss l = LOSS_BUBBLE; l < N_LOSSES; l++)
        if (losses[l] > losses[most]) most = l;
    *part = losses[most];
    return most;
}
