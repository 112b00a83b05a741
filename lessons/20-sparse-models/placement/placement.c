/* Which rank has which table (lesson 20, "By table or by row"). What each function promises is in placement.h. */
#include "lessons/20-sparse-models/placement/placement.h"

/* TODO: whole tables by owner, and a share of those that are divided. */
double placement_busiest(const struct table *t, int n_tables, int n, const int *owner) {
    return (void)t, (void)n_tables, (void)n, (void)owner, -1;
}

/* TODO: the same of rows; 10 rows on 4 ranks are 3. */
int64_t placement_largest(const struct table *t, int n_tables, int n, const int *owner) {
    return (void)t, (void)n_tables, (void)n, (void)owner, -1;
}

enum status placement_choose(const struct table *t, int n_tables, int n, int64_t most_rows, int *owner) {
    /* In which order? Which are divided? Which rank gets each of the others? */
    (void)t, (void)n_tables, (void)n, (void)most_rows, (void)owner;
    return FAIL(E_TODO, "placement_choose is still to be written");
}
