/* The technique `rows`: the tables of recommendation models in a run. Each run of a model with tables has it.
 *
 *   cost              bill the work memory of the update's index (optim_rows.h) and of the caches (hot_rows.h)
 *   attach            create both; with caches, fetch a microbatch's rows when its ids are read
 *   GRAD_SQUARES, OPTIM_STEP   add the squares of the tables' gradients to the norm; update the rows of the step
 *   STATE_READ        apply late updates, and write changed rows back to the store
 *   STATE_REPLACED    drop late updates, and empty the caches
 *
 * What breaks: a checkpoint that reads the store while updates wait, or while a cache has newer rows. */
#pragma once

#include "lib/rows/hot_rows.h"

extern const struct technique technique_rows;

/** The counts of the run's caches; zero if it has none. */
struct hot_traffic learned_rows_traffic(const struct run *);
