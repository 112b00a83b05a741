/* How a recommendation model combines its dense part and its pooled vectors. Three ops of one form:
 *
 *   in[0] x (P,B,.)    in[1] pooled (P,F,B,D)    out[0] y (P,B,.)
 *
 *   interaction_dots     x (P,B,D)    y (P,B,I): x, then the dot products of all pairs of a_0 = x, a_f = pooled of
 *                                     feature f - 1: I = D + (F+1) F / 2, pairs (i, j < i) in the order of i, then j
 *   interaction_concat   x (P,B,X)    y (P,B,I): x, then the vectors of all features: I = X + F D
 *   interaction_sum      x (P,B,1)    y = x + sum over features, of vectors of length 1: the wide part of Wide & Deep
 *
 *   dots, backward:  da_i = sum over j of dy_ij a_j      dx = da_0 + dy of x
 *
 * Source: Naumov et al. 2019, "DLRM"; Cheng et al. 2016, "Wide & Deep". */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_interaction_dots, op_interaction_concat, op_interaction_sum;
