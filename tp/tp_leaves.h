/* With --sums fixed: the parts, or leaves, of a sum over an axis that tp may cut. See tp_leaves.c. */
#pragma once

#include "lib/run/technique.h"

/** Set the leaves of all axes that tp or sp may cut (struct axis). Pure. */
void tp_leaves_mark(struct program *);
/** The elements that each of `ranks` ranks has of an axis with leaves. Pure. */
int64_t tp_leaves_part(const struct axis *, int64_t ranks);
/** Check that the plan's tp splits no leaf. @errors E_CONFIG  @collective{none} */
enum status tp_leaves_check(const struct plan *);
