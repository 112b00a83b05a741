/* The first and the last row of a step that write a gradient; see gradients.c. */
#pragma once

#include "lib/program/schedule.h"

/** Set action.first, .last and .nth, row.final, param.no_grad, and row.fresh of resident gradients. Call it once, after
 *  lowering and before the techniques' cost and the executor, which read these.
 *  @errors E_MEMORY  @collective{none} */
enum status gradients_mark(struct program *, struct chunk *chunks, struct schedule *);

/** Is the gradient complete after this ROW_GRAD_READY, in this action? True once a step. */
static inline bool row_is_final(const struct row *r, const struct action *a) { return r->final && a->last; }
