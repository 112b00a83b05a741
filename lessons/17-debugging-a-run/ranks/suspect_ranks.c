/* Exercise: what do ranks have that should agree, and do not (lesson 17, "Reading signatures")?
 *
 *   unsummed      the sum of what the ranks have is the reference's: an all-reduce is missing
 *   unaveraged    their mean is: the mean over ranks is missing
 *   one rank      some ranks have the reference's, others have not: name one of those
 *   untied        this tensor and another one of the run, which the reference has not, make the reference's: a tied
 *                 weight is two
 *
 * A copy is a piece of the run with the tensor's name that has all its elements and is no summand (parts is 1):
 *
 *   n = kept_find(e->run, e->c.name, &first)       pieces e->run->piece[first], ..., [first + n - 1]
 *   e->run->values + piece.at                      its elements, box_n(&piece.box) of them; e->y.n are all
 *
 * The first three are about ranks that differ: c.verdict is TENSOR_APART. A copy equals the reference's, e->y.x, if no
 * element is off by more than e->limit (suspect_same); a sum or mean of n copies may be off by n times that.
 *
 * detail: in numbers. The tests look for "sum of what the 2 ranks", "mean of what the 4 ranks", "rank 3", and the name
 * of the other tensor. oracle/suspect.h is the contract. */
#include "oracle/suspect.h"

#include <stdio.h>
#include <string.h>

/* TODO */
bool suspect_unsummed(const struct evidence *e, char detail[160]) {
    (void)e, (void)detail;
    return (void)FAIL(E_TODO, "suspect_unsummed is still to be written"), false;
}

/* TODO */
bool suspect_unaveraged(const struct evidence *e, char detail[160]) {
    (void)e, (void)detail;
    return (void)FAIL(E_TODO, "suspect_unaveraged is still to be written"), false;
}

/* TODO */
bool suspect_untied(const struct evidence *e, char detail[160]) {
    (void)e, (void)detail;
    return (void)FAIL(E_TODO, "suspect_untied is still to be written"), false;
}

/* TODO */
bool suspect_one_rank(const struct evidence *e, char detail[160]) {
    (void)e, (void)detail;
    return (void)FAIL(E_TODO, "suspect_one_rank is still to be written"), false;
}
