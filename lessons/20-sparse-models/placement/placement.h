/* The placement of tables on ranks: the contract of this exercise.
 *
 * A table has rows, which take memory, and lookups per step, which are work. A table is whole on one rank, or divided
 * by row over all n ranks. Each rank then has an n-th of its lookups, and an n-th of its rows, rounded up.
 *
 *   the rule    Place tables one after another, the one with the most lookups first (of equals, the smaller number). A
 *               table with more lookups than a rank's share, all lookups / n, is divided. Every other table goes to the
 *               rank with the fewest lookups so far that has room (of equals, the smaller rank). If no rank has room,
 *               the table is divided. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

enum { BY_ROW = -1, MOST_TABLES = 64, MOST_RANKS = 16 };
struct table { int64_t rows; double lookups; };

/** The largest number of lookups on a rank. owner: the rank of each table, or BY_ROW.
 *  @param t [n_tables], n ranks  @collective{none} */
double placement_busiest(const struct table *t, int n_tables, int n, const int *owner);
/** The largest number of rows on a rank. @param t [n_tables], n ranks, owner as above  @collective{none} */
int64_t placement_largest(const struct table *t, int n_tables, int n, const int *owner);

/** Set each table's owner by the rule; no rank may have more than most_rows. Every rank calls this function, and all
 *  must get the same result. @param t [n_tables], n ranks; owner written
 *  @errors E_CONFIG: a table fits on no rank, even if divided ("table 3 ...")  @collective{none} */
enum status placement_choose(const struct table *t, int n_tables, int n, int64_t most_rows, int *owner);
