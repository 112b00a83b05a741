/* Which rank has which table: the contract of this exercise.
 *
 * A table has rows, which are memory, and is looked up so often in a step, which is work. It is whole on one rank, or
 * divided by row over all n ranks: then each has an n-th of its lookups, and of its rows an n-th, rounded up.
 *
 *   the rule    tables one after another, the most looked up first (of equals, the one with the smaller number). One
 *               with more lookups than the share of a rank, all lookups / n, is divided. Every other goes to the rank
 *               with the fewest lookups so far that has room (of equals, the smaller rank). If none has room, it is
 *               divided */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

enum { BY_ROW = -1, MOST_TABLES = 64, MOST_RANKS = 16 };
struct table { int64_t rows; double lookups; };

/** The most lookups that a rank has. owner: of each table its rank, or BY_ROW.
 *  @param t [n_tables], n ranks  @collective{none} */
double placement_busiest(const struct table *t, int n_tables, int n, const int *owner);
/** The most rows that a rank has. @param t [n_tables], n ranks, owner as above  @collective{none} */
int64_t placement_largest(const struct table *t, int n_tables, int n, const int *owner);

/** owner of each table by the rule, where no rank may have more than most_rows. Every rank calls this, and all must get
 *  the same. @param t [n_tables], n ranks; owner written
 *  @errors E_CONFIG: a table fits nowhere, and not divided either ("table 3 ...")  @collective{none} */
enum status placement_choose(const struct table *t, int n_tables, int n, int64_t most_rows, int *owner);
