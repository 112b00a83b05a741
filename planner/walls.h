/* Which resource ends scaling: the four walls that a model meets on a number of ranks.
 *
 *   memory          no layout fits, or can be
 *   communication   exchanges (tp, cp, ep, pp, dp, and gathers of sharded weights) take more than a third of the step
 *   compute         mfu is more than 0.9 of what the model's products reach: little is left but the arithmetic
 *   efficiency      none of these: the bubble, products that have become narrow, rows that only move, replays, updates,
 *                   slow machines and failures. The one that takes most is named
 *
 * Products reach a part of the peak: mfu divided by their part of the step. A model's reach is the highest over all
 * numbers of ranks, since products become narrow where ranks are many. */
#pragma once

#include "planner/price.h"

#define WALL_EXCHANGES (1.0 / 3)
#define WALL_REACH 0.9

enum wall { WALL_MEMORY, WALL_COMMUNICATION, WALL_COMPUTE, WALL_EFFICIENCY, N_WALLS };
enum loss { LOSS_BUBBLE, LOSS_NARROW, LOSS_MOVING, LOSS_REPLAY, LOSS_UPDATE, LOSS_SLOWEST, LOSS_FAILURES, N_LOSSES };
/** "memory", ...; "bubble", ... */
const char *wall_name(enum wall);
const char *loss_name(enum loss);

/* The best layout of a model on a number of ranks. slowest >= 1 and goodput: of budget.h. reach: of the model */
struct wall_of { bool fits; double step_s, mfu, phase_s[N_PRICE_PHASES], slowest, goodput, reach; };

/** The part of the peak that a layout's products reach. 0 where there are none. */
double wall_reach(double mfu, double step_s, double products_s);
/** The part of the step that is exchanges. */
double wall_exchanges(const struct wall_of *);
enum wall wall_of(const struct wall_of *);
/** The largest loss of time, apart from wide products, and *part, its share. For a layout that fits. */
enum loss wall_loss(const struct wall_of *, double *part);
