/* Choices that a plan leaves to the planner: --micro-batch auto, --recompute auto, --pp-split auto.
 *
 * The first two are a search in which all other decisions are fixed (search.h). Its result, and any other layout, is
 * then refined:
 *
 *   recompute   block:N recomputes the first N layers of a stage in full, and the others not at all. Layers are alike,
 *               so the best such mixture has the least N that fits
 *   pp-split    layers to stages so that the slowest is as fast as can be, within each stage's memory (split.h). Where
 *               a stage has several chunks, its layers are divided among them; only --pp-split auto does this, since a
 *               search would take longer
 *
 * A refinement is kept if it shortens the step. */
#pragma once

#include "planner/search.h"

/** Try both refinements on a found layout; decisions with a bit in `fixed` stay (search_layouts).
 *  @errors those of price_plan; E_MEMORY  @collective{none} */
enum status choose_refine(const struct recipe *, const struct plan *asked, unsigned fixed, bool split,
                          const struct cluster *, struct found *);

/** Replace the values auto in an unsettled plan, if it has any.
 *  @param text the choices, as command-line options
 *  @errors E_CONFIG: nothing fits, with the least bytes; those of price_plan  @collective{none} */
enum status choose_auto(const struct recipe *, const struct cluster *, struct plan *, char *text, size_t size);
/** Has any option the value auto? */
bool choose_is_asked(const struct plan *);
