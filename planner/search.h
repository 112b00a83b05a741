/* Search: find the layout of n ranks with the shortest step, and why the others lose.
 *
 * A layout is a choice in each *decision*. All combinations are tried, and each ends in one of these:
 *
 *   refused   by plan_settle or a technique's check
 *   too large the states and activations of its layers alone exceed the cluster's memory
 *   bound     a lower bound of its step is more than 1.25 times the best step so far: its microbatches through the
 *             layers of a stage, with fill and drain
 *   priced    (price.h); it may not fit
 *
 * A layout is bound only if each of its choices occurs in a layout priced before. For each choice the best layout is
 * kept, a *family*: compared with the optimum it shows what the choice costs, and in which phase. */
#pragma once

#include "planner/layout.h"
#include "planner/price.h"
#include <stdio.h>

struct found { struct layout layout; struct price price; };

enum { MAX_BEST = 16, MAX_CHOICES = 64 };
/* fits: some layout with this choice does. If none does, best is the one of least bytes. */
struct family { enum decision decision; int64_t choice; bool fits; struct found best; };
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
/** As search_layouts, and calls `told`(self, found) for each priced layout, in the order of the search. If it fits, its
 *  step is set, but not its bubble and pp phases; if it does not fit, its bytes are a lower bound. The result does not
 *  depend on `told`. @errors as search_layouts  @collective{none} */
typedef void search_told(void *self, const struct found *);
enum status search_layouts_telling(const struct recipe *, const struct plan *asked, unsigned fixed,
                                   const struct cluster *, int64_t ranks, bool prune, search_told *told, void *self,
                                   struct search *out);
void search_fini(struct search *);

/* Clusters side by side: what a rank computes, holds, moves and costs, and what the best layout makes of it. */

/** Print a column for *first and for each of `names`, a list with commas.  @param asked, fixed as for search_layouts
 *  @errors E_CONFIG: too many, or CPUs next to GPUs; those of cluster_read and search_layouts  @collective{none} */
enum status versus_print(const struct recipe *, const struct plan *asked, unsigned fixed, const struct cluster *first,
                         const char *names, int64_t ranks, FILE *);
