/* The life of a gradient in a step: the row that begins it, and the row that completes it; see gradients.c. */
#ifndef TRIVIUM_PROGRAM_GRADIENTS_H
#define TRIVIUM_PROGRAM_GRADIENTS_H

#include "lib/program/schedule.h"

/** Set action.first, .last and .nth, row.fresh of resident gradients and row.final, and param.no_grad. Once, after
 *  lowering and before anything that reads them: techniques' cost, the executor.
 *  @errors E_MEMORY  @collective{none} */
enum status gradients_mark(struct program *, struct chunk *chunks, struct schedule *);

/** Is the gradient complete after this ROW_GRAD_READY, in this action? True once a step. */
static inline bool row_is_final(const struct row *r, const struct action *a) { return r->final && a->last; }

#endif
