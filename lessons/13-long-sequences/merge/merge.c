/* A softmax over keys that come in blocks. merge.h has each function's contract; the theory is in lesson 13, "One
 * query, key by key" and "Merging two blocks".
 *
 * Grade a copy in my/ with: make grade LESSON=13 FILE=my/merge.c */
#include "lessons/13-long-sequences/merge/merge.h"

enum status merge_key(struct running *x, double s, const double v[MERGE_D]) {
    /* Which of the three fields change if s is larger than all earlier scores, and which if it is not? */
    (void)x, (void)s, (void)v;
    return FAIL(E_TODO, "merge_key is still to be written");
}

enum status merge_close(const struct running *x, struct found *out) {
    /* y must still be divided. What are y and lse if no key has come? */
    (void)x, (void)out;
    return FAIL(E_TODO, "merge_close is still to be written");
}

enum status merge_two(struct found *x, const struct found *more) {
    /* Which weights have x and more in the mean of both? What if both have seen no key? */
    (void)x, (void)more;
    return FAIL(E_TODO, "merge_two is still to be written");
}

enum status merge_ranks(const struct group *group, struct found *x, int n) {
    /* Use comm_all_reduce(group, buffer, count, FP64, COMM_MAX or COMM_SUM). All ranks must make the same number of
     * calls, with the same counts. */
    (void)group, (void)x, (void)n;
    return FAIL(E_TODO, "merge_ranks is still to be written");
}

enum status merge_gradient(const double q[MERGE_D], const struct found *all, const double dy[MERGE_D],
                           const struct keys *block, double dq[MERGE_D], double (*dk)[MERGE_D], double (*dv)[MERGE_D]) {
    /* The scores are not kept: compute the dot products again. */
    (void)q, (void)all, (void)dy, (void)block, (void)dq, (void)dk, (void)dv;
    return FAIL(E_TODO, "merge_gradient is still to be written");
}
