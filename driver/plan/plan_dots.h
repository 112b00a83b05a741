/* The layouts that a search has priced, as dots: bytes, seconds, and parts of the step. Memory is bounded: of the
 * layouts that fit, and of those that do not, a fixed number is kept, evenly over the search. */
#pragma once

#include "planner/search.h"
#include "planner/why.h"

enum { MOST_DOTS_THAT_FIT = 4096, MOST_DOTS_THAT_DO_NOT = 128 };

struct plan_dot { struct layout layout; double step_s, part_s[N_PARTS]; int64_t bytes; };

/* Every `stride`-th of what came; where there is no more room every second one goes. Zeroed is empty. */
struct dot_sample { int n, most; int64_t seen, stride; struct plan_dot *dot; };

/* refined: number of dots in `fit` added after the search. */
struct plan_dots { struct dot_sample fit, no_fit; int refined; };

/** Empty; free with plan_dots_fini. */
void plan_dots_init(struct plan_dots *);
void plan_dots_fini(struct plan_dots *);

/** Keep a layout: a search_told of search.h, `self` being the struct plan_dots. */
void plan_dots_take(void *self, const struct found *);
/** Keep a layout that was priced in full: in its own place, or as one more, whatever the room. */
void plan_dots_put(struct plan_dots *, const struct found *);

/** Price the layouts that do not fit, in seconds and bytes: the search stops pricing a layout once it does not fit.
 *  @errors those of price_plan  @collective{none} */
enum status plan_dots_price_the_rest(struct plan_dots *, const struct recipe *, const struct plan *asked,
                                     unsigned fixed, const struct cluster *);
