/* A layout: one choice for each decision that a plan leaves open.
 *
 * The planner depends on names of techniques' options, and on no technique. */
#pragma once

#include "lib/run/run.h"

/* In the order of a search's loops, outermost first. dp takes all remaining ranks. */
enum decision {
    DECIDE_TP, DECIDE_PP, DECIDE_CP, DECIDE_EP, DECIDE_MICRO, DECIDE_SCHEDULE, DECIDE_CHUNKS, DECIDE_ZERO,
    DECIDE_RECOMPUTE, N_DECISIONS,
    DECIDE_SP = N_DECISIONS              /* not a loop: sp is on if tp > 1 */
};
/* A set of decisions has a bit for each of them. */
enum { ALL_DECISIONS = (1 << (N_DECISIONS + 1)) - 1 };

/* Choices of schedule and recompute are numbers of these; other choices count ranks, sequences, chunks, ... */
enum { ORDER_PLAIN, ORDER_ZB_H1, ORDER_ZB_V, N_SEARCHED_ORDERS };   /* plain: 1f1b, or interleaved */
enum { KEEP_ALL, KEEP_DEAR, KEEP_NONE, KEEP_SOME };    /* recompute none, selective, full; block:N, least N that fits */

/** The name of the decision's option: "tp". */
const char *decision_name(enum decision);
/** "4", or "selective". Static storage. */
const char *choice_text(enum decision, int64_t choice);

/* blocks: the N of KEEP_SOME. split: "8,8,8,6", layers of the stages; "": evenly. */
struct layout { int64_t choice[N_DECISIONS], dp, blocks; char split[96]; };

/** "dp16 tp4 pp16 micro-batch 2 chunks 6 zero 1 selective": choices other than the default. */
const char *layout_text(const struct layout *, char *text, size_t size);
/** "--dp 16 --tp 4 --sp on --pp 16 ...": its options; choices of 0 that mean "off" are left out. */
const char *layout_options(const struct layout *, char *text, size_t size);

/** The layout of an unsettled plan; a size that the plan leaves out is 1. */
struct layout layout_of_plan(const struct plan *);
/** Set a layout's choices in the plan, except decisions with a bit in `fixed`. Not settled. */
void layout_apply(const struct layout *, unsigned fixed, struct plan *);

/** Is something offloaded to the host's memory? Are activations parked there? */
bool layout_offloads(const struct plan *);
bool layout_parks(const struct plan *);

/** Settle the plan and run every technique's check. false: refused; the error is cleared. */
bool layout_is_legal(const struct recipe *, struct plan *);
/** Apply a layout to the asked plan and settle it. false: refused. */
bool layout_settle(const struct recipe *, const struct layout *, unsigned fixed, const struct plan *asked,
                   struct plan *out);
