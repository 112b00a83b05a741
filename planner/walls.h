/* Which resource ends scaling: the four walls that a model meets on a number of ranks.
 *
 *   memory          no layout fits, or every layout is refused
 *   communication   exchanges (tp, cp, ep, pp, dp, and gathers of sharded weights) take more than a third of the step
 *   compute         mfu is more than 0.9 of the reach of the model's products: little is left but the arithmetic
 *   efficiency      none of these: the bubble, narrow products, rows that only move data, replays, updates, slow
 *                   machines and failures. The largest of these losses is named
 *
 * Products reach a part of the peak: mfu divided by the products' part of the step. A model's reach is the highest over
 * all numbers of ranks, because products become narrow on many ranks. */
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
/** The largest loss of time, without wide products, and *part, its share. The layout must fit. */
enum loss wall_loss(const struct wall_of *, double *part);
