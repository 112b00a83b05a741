/* Parts of a search's result that the terminal and the page share: ties, assumptions whose change would tip the choice
 * (planner/explain.h), and why other layouts are slower. */
#pragma once

#include "driver/plan/plan_page.h"

/** "= 3 layouts are within 3.3% of the fastest, ..." */
void plan_write_ties(FILE *, int n_tied, int n_shown);

/** "bandwidth of the outermost level". Static storage. */
const char *plan_assumption_name(enum assumption);
/** Write the assumption's present value: "20 GB/s" */
void plan_write_now(FILE *, enum assumption, const struct tipping *);
/** Write the value at which another layout wins: "above 64 GB/s", or that no value near the present one does. */
void plan_write_tipping(FILE *, enum assumption, const struct tipping *);

/** Does the family's decision have another choice? Only such families are printed. */
bool plan_family_is_open(const struct search *, int family);
/** Write the three largest differences between two prices, by phase: " tp +1.2 s, bubble -0.3 s". */
void plan_write_differences(FILE *, const struct price *, const struct price *best);

/** Rows of the page's tables, with cells as text. tipping: [assumption, present value, tipping value, winning layout];
 *  empty if nothing fits. families: [decision, choice, step, longer by, differences, layout]; a choice that does not
 *  fit has {"reason"} in place of the differences. */
json_t *plan_rows_tipping(const struct plan_page *);
json_t *plan_rows_families(const struct plan_page *);
