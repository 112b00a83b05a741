/* Tables of recommendation models in a run: a row of functions, as a technique has it. The recipe names it, and every
 * run of a model with tables has it, on any number of ranks.
 *
 *   cost         the index of the update (optim_rows.h) and the caches (hot_rows.h) get their part of the work arena
 *   attach       they are made; with caches, a microbatch's rows are brought in as soon as its ids are known
 *   GRAD_SQUARES, OPTIM_STEP     the tables' squares join the norm, and the rows that the step used are updated
 *   STATE_READ, STATE_REPLACED   late updates are applied, and changed rows written back; or all of both is dropped
 *
 * What breaks: a state that is read while updates wait, or while rows in a cache are newer than the store's. */
#pragma once

#include "lib/rows/hot_rows.h"

extern const struct technique technique_rows;

/** The counts of the run's caches; zero if it has none. */
struct hot_traffic learned_rows_traffic(const struct run *);
