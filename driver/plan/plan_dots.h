/* Priced layouts of a search as dots: bytes, seconds, and parts of the step. Memory is bounded: at most a fixed number
 * of layouts that fit, and of layouts that do not, is kept, evenly spaced over the search. */
#pragma once

#include "planner/search.h"
#include "planner/why.h"

enum { MOST_DOTS_THAT_FIT = 4096, MOST_DOTS_THAT_DO_NOT = 128 };

struct plan_dot { struct layout layout; double step_s, part_s[N_PARTS]; int64_t bytes; };

/* A sample of every `stride`-th layout. When it is full, every second dot is removed and the stride doubles. */
struct dot_sample { int n, most; int64_t seen, stride; struct plan_dot *dot; };

/* refined: number of dots in `fit` added after the search. */
struct plan_dots { struct dot_sample fit, no_fit; int refined; };

/** Make an empty sample; free with plan_dots_fini. */
void plan_dots_init(struct plan_dots *);
void plan_dots_fini(struct plan_dots *);

/** Offer a layout to the sample: a search_told of search.h. @param self the struct plan_dots */
void plan_dots_take(void *self, const struct found *);
/** Keep a fully priced layout: replace its dot, or add one even if the sample is full. */
void plan_dots_put(struct plan_dots *, const struct found *);

/** Finish the prices of layouts that do not fit, because the search stops pricing a layout once it does not fit.
 *  @errors those of price_plan  @collective{none} */
enum status plan_dots_price_the_rest(struct plan_dots *, const struct recipe *, const struct plan *asked,
                                     unsigned fixed, const struct cluster *);
