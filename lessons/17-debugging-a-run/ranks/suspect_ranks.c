/* Exercise: why do ranks differ that should have the same tensor (lesson 17, "Reading signatures")?
 *
 *   unsummed      the sum of the ranks' copies equals the reference: an all-reduce is missing
 *   unaveraged    the mean of the ranks' copies equals the reference: the mean over ranks is missing
 *   one rank      some ranks' copies equal the reference, others do not: name one that does not
 *   untied        the sum of this tensor and another tensor of the run, which the reference lacks, equals the
 *                 reference: a tied weight has become two
 *
 * A copy is a piece of the run with the tensor's name that has all its elements and is not a summand (parts is 1):
 *
 *   n = kept_find(e->run, e->c.name, &first)       pieces e->run->piece[first], ..., [first + n - 1]
 *   e->run->values + piece.at                      its box_n(&piece.box) elements; the whole tensor has e->y.n
 *
 * The first three need ranks that differ: c.verdict is TENSOR_APART. A copy equals the reference e->y.x if no element
 * differs by more than e->limit (suspect_same). For a sum or mean of n copies the limit is n times larger.
 *
 * detail: a text with numbers. The tests search it for "sum of what the 2 ranks", "mean of what the 4 ranks", "rank 3",
 * and the name of the other tensor. oracle/suspect.h is the contract. */
#include "oracle/suspect.h"

#include <stdio.h>
#include <string.h>

signature ranks_unsummed, ranks_unaveraged, ranks_untied, ranks_one_rank;

/* TODO */
bool ranks_unsummed(const struct evidence *e, char detail[160]) {
    (void)e, (void)detail;
    return (void)FAIL(E_TODO, "ranks_unsummed is still to be written"), false;
}

/* TODO */
bool ranks_unaveraged(const struct evidence *e, char detail[160]) {
    (void)e, (void)detail;
    return (void)FAIL(E_TODO, "ranks_unaveraged is still to be written"), false;
}

/* TODO */
bool ranks_untied(const struct evidence *e, char detail[160]) {
    (void)e, (void)detail;
    return (void)FAIL(E_TODO, "ranks_untied is still to be written"), false;
}

/* TODO */
bool ranks_one_rank(const struct evidence *e, char detail[160]) {
    (void)e, (void)detail;
    return (void)FAIL(E_TODO, "ranks_one_rank is still to be written"), false;
}
