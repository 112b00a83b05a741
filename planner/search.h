/* Search: find the layout of n ranks with the shortest step, and why the others lose.
 *
 * A layout is a choice in each *decision*. All combinations are tried, and each ends in one of these:
 *
 *   refused   by plan_settle or a technique's check
 *   too large the states and activations of its layers alone are beyond the cluster's memory
 *   bound     its microbatches through the layers of a stage, with fill and drain and nothing else, already take more
 *             than 1.25 times the best step so far
 *   priced    (price.h); it may not fit
 *
 * A layout is only bound after each of its choices was seen in a priced layout. For each choice the best layout is
 * kept, a *family* of the table: compared with the optimum it shows the cost of the choice, and the phase. */
#pragma once

#include "planner/layout.h"
#include "planner/price.h"

struct found { struct layout layout; struct price price; };

enum { MAX_BEST = 16, MAX_CHOICES = 64 };
struct family { enum decision decision; int64_t choice; bool fits; struct found best; };   /* no fit: few bytes */
struct search {
    int n_best, n_families;
    struct found best[MAX_BEST];                     /* shortest step first */
    struct found smallest;                           /* if nothing fits: the least bytes */
    struct family *families;
    /* seen = refused + too_large + bound + priced; no_fit are priced */
    struct search_stat { int64_t seen, refused, too_large, bound, priced, no_fit; } stat;
};

/** @param asked as typed, not settled; decisions with a bit in `fixed` keep its values. `prune` false: nothing is
 *  bound. Free *out with search_fini, also after an error.
 *  @errors those of price_plan that do not depend on the layout; E_MEMORY  @collective{none} */
enum status search_layouts(const struct recipe *, const struct plan *asked, unsigned fixed, const struct cluster *,
                           int64_t ranks, bool prune, struct search *out);
/** The same, and calls `told`(self, it) for each priced layout, in the order of the search. For one that fits, the step
 *  is set, but not the times of the bubble and of pp's messages; for one that does not, a lower bound of its bytes.
 *  The result does not depend on `told`. @errors as above  @collective{none} */
typedef void search_told(void *self, const struct found *);
enum status search_layouts_telling(const struct recipe *, const struct plan *asked, unsigned fixed,
                                   const struct cluster *, int64_t ranks, bool prune, search_told *told, void *self,
                                   struct search *out);
void search_fini(struct search *);
