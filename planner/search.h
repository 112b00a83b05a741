/* Search: which layout of so many ranks takes the shortest step, and why the others do not.
 *
 * A layout is a choice in each *decision*. All combinations are tried, and each ends in one of these:
 *
 *   refused   plan_settle or a technique's check says that it cannot be
 *   too large the states and activations of its layers alone are beyond the cluster's memory
 *   bound     it takes more than 1.25 times the best so far: its microbatches through the layers of a stage, with
 *             filling and draining and nothing else, already do
 *   priced    (price.h); it may not fit
 *
 * Nothing is cut before every choice of it has been seen in a priced layout. Of each choice the best layout is kept, a
 * *family* of the table: beside the optimum it says what the choice costs, and in which phase. */
#ifndef TRIVIUM_PLANNER_SEARCH_H
#define TRIVIUM_PLANNER_SEARCH_H

#include "planner/price.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Outermost loop first. dp follows: all ranks that are left. */
enum decision {
    DECIDE_TP, DECIDE_PP, DECIDE_CP, DECIDE_EP, DECIDE_MICRO, DECIDE_CHUNKS, DECIDE_ZERO, DECIDE_RECOMPUTE, N_DECISIONS
};
/** "tp": as its option is called. */
const char *decision_name(enum decision);
/** "4", or "selective". Static storage. */
const char *choice_text(enum decision, int64_t choice);

struct layout { int64_t choice[N_DECISIONS]; };      /* recompute: 0 none, 1 selective, 2 full */
/** "dp16 tp4 pp16 micro-batch 2 chunks 6 zero 1 selective": the decisions that are not the usual ones. */
const char *layout_text(const struct layout *, int64_t dp, char *text, size_t size);

struct found { struct layout layout; int64_t dp; struct price price; };

enum { MAX_BEST = 16, MAX_CHOICES = 64 };
struct family { enum decision decision; int64_t choice; bool fits; struct found best; };   /* no fit: the least bytes */
struct search {
    int n_best, n_families;
    struct found best[MAX_BEST];                     /* shortest step first */
    struct found smallest;                           /* if nothing fits: the least bytes */
    struct family *families;
    /* seen = refused + too_large + bound + priced; no_fit are priced */
    struct search_stat { int64_t seen, refused, too_large, bound, priced, no_fit; } stat;
};

/** @param asked as typed, not settled; what `fixed` has a bit for is left as it is there. `prune` false: nothing is
 *  bound. Free *out with search_fini, also after an error.
 *  @errors those of price_plan, for reasons that are not a layout's; E_MEMORY  @collective{none} */
enum status search_layouts(const struct recipe *, const struct plan *asked, unsigned fixed, const struct cluster *,
                           int64_t ranks, bool prune, struct search *out);
void search_fini(struct search *);

/** What the plan becomes with a layout. Not settled. */
void layout_apply(const struct recipe *, const struct layout *, int64_t dp, struct plan *);

#ifdef __cplusplus
}
#endif
#endif
