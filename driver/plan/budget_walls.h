/* trivium budget --walls: for models from 1B to 1T parameters and 8 to 16384 ranks, which resource ends scaling
 * (planner/walls.h). */
#pragma once

#include "lib/cost/cluster.h"
#include "lib/run/plan.h"
#include "planner/walls.h"
#include <jansson.h>
#include <stdio.h>

enum { N_WALL_MODELS = 5, N_WALL_SIZES = 5 };

/* One of the grid's language models. batch: sequences per step, near the published number. */
struct walls_model { const char *name; int64_t layers, hidden, heads, batch; };
extern const struct walls_model walls_models[N_WALL_MODELS];
extern const int64_t walls_sizes[N_WALL_SIZES];

/* One model on one number of ranks. */
struct walls_cell {
    struct wall_of of;
    enum wall wall;
    enum loss loss;                      /* largest loss, and its part of the time; if a layout fits */
    double loss_part, exchanges, mfu_left;
    char layout[192];                    /* the fastest that fits, otherwise the smallest; "": none is possible */
    double least_gib;                    /* of the smallest layout, if none fits; 0: none is possible */
};
/* The grid for n of walls_sizes, from index `first` on. */
struct walls { int first, n; struct walls_cell cell[N_WALL_MODELS][N_WALL_SIZES]; };

/* Times of training outside its steps, as in budget_of. */
struct walls_of { double stall_s, restart_s, interval_s; };

/** Choose the sizes from `least` to `most` ranks. @errors E_USAGE: no size  @collective{none} */
enum status walls_choose_sizes(int64_t least, int64_t most, struct walls *out);

/** Search every cell of these sizes, row by row. `done` (or NULL) is called with each complete row.
 *  @param base settings that all models share: device, precision  @errors those of search_layouts  @collective{none} */
enum status walls_make(const struct plan *base, const struct cluster *, const struct walls_of *,
                       void (*done)(const struct walls *, int row), struct walls *);
/** Set the walls of a model's n cells. The caller sets each cell's `of` except reach. This function sets reach, to the
 *  highest reach of the cells.  @param row (n) read and written */
void walls_judge_row(struct walls_cell *row, int n);

/** Print the head of the text, and one row. */
void walls_print_head(FILE *, const struct walls *);
void walls_print_row(FILE *, const struct walls *, int row);
/** {"walls": [{"model", "ranks", "wall", ...}, ...]}. NULL: no memory  */
json_t *walls_json(const struct walls *);
/** walls_json for a page: with "cells", which have row, column, wall and text. NULL: no memory */
json_t *walls_page_json(const struct cluster *, const struct walls *);
