/* The result of a search, in the words that its text and its page share: the layouts with their ties, the assumptions
 * that would tip the choice (planner/explain.h), and why others lose. */
#pragma once

#include "driver/plan/plan_page.h"

/** "= 3 layouts are within 3.3% of the fastest, ..." */
void plan_write_ties(FILE *, int n_tied, int n_shown);

/** "bandwidth of the outermost level". Static storage. */
const char *plan_assumption_name(enum assumption);
/** "20 GB/s" */
void plan_write_now(FILE *, enum assumption, const struct tipping *);
/** "above 64 GB/s", or that nothing near changes the choice. */
void plan_write_tipping(FILE *, enum assumption, const struct tipping *);

/** Has the family's decision another choice? Else it is not printed. */
bool plan_family_is_open(const struct search *, int family);
/** " tp +1.2 s, bubble -0.3 s": the three largest differences between two prices, by part of the step. */
void plan_write_differences(FILE *, const struct price *, const struct price *best);

/** Rows of the page's tables, cells as text. [assumption, now, another wins, which], none where nothing fits; and of
 *  each choice [decision, choice, step, longer by, where it goes, layout], where one that does not fit has {"reason"}
 *  in the place of where it goes. */
json_t *plan_rows_tipping(const struct plan_page *);
json_t *plan_rows_families(const struct plan_page *);
