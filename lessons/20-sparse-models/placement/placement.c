/* The placement of tables on ranks (lesson 20, "By table or by row"). placement.h has each function's contract. */
#include "lessons/20-sparse-models/placement/placement.h"

/* TODO: sum the whole tables of each owner, and a share of the divided tables. */
double placement_busiest(const struct table *t, int n_tables, int n, const int *owner) {
    return (void)t, (void)n_tables, (void)n, (void)owner, -1;
}

/* TODO: the same with rows; 10 rows on 4 ranks count as 3. */
int64_t placement_largest(const struct table *t, int n_tables, int n, const int *owner) {
    return (void)t, (void)n_tables, (void)n, (void)owner, -1;
}

enum status placement_choose(const struct table *t, int n_tables, int n, int64_t most_rows, int *owner) {
    /* In which order are tables placed? Which tables are divided? Which rank gets each other table? */
    (void)t, (void)n_tables, (void)n, (void)most_rows, (void)owner;
    return FAIL(E_TODO, "placement_choose is still to be written");
}
