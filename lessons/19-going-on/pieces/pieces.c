/* After a change of members, find the pieces that each rank lacks, and a rank that has them (lesson 19, "Who has
 * what"). pieces.h states the contract of each function. */
#include "lessons/19-going-on/pieces/pieces.h"

/* TODO: shards are as equal as possible; the last shard ends at the array's end. */
int64_t pieces_first(int64_t n, int m, int i) { return (void)n, (void)m, (void)i, -1; }

enum status pieces_plan(int64_t n, const struct membership *from, const struct membership *now, struct transfer *out,
                        int most,
                        int *n_out) {
    /* For each member of `now`, in order of place: which elements are its shard? Which old shards overlap them? Does
     * the member have these itself? If not, which process does? */
    (void)n, (void)from, (void)now, (void)out, (void)most;
    *n_out = 0;
    return FAIL(E_TODO, "pieces_plan is still to be written");
}
