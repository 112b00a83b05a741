/* Dispatch copies tokens to their places, and combine brings the experts' results back. Each is the other's transpose.
 *
 *   dispatch   out[e, row] = x[t] where a choice of t has place `row` of expert e; zero where no choice has
 *              dx[t] = sum_j dout[place of j]                                    over choices that were not dropped
 *   combine    out[t] = sum_j gate[t,j] y[place of j]                            the same
 *              dy[place of j] = gate[t,j] dout[t]      dgate[t,j] = sum_c y[place of j, c] dout[t,c]
 *
 * dispatch   in[0] x (B,T,C)     in[1] picks (B,T,k)   out[0] (E,P,R,C)
 * combine    in[0] y (E,P,R,C)   in[1] picks   in[2] gates (B,T,k), in the accumulator's dtype   out[0] (B,T,C)
 *
 * in[1] may be moe_pack's rows instead; E then counts boxes (moe_pack.h).
 *
 * E: experts. P: sending ranks; in this op only the rank itself, P = 1 (ep/ exchanges P for E). R: rows, S places of
 * each group (moe_route.h). Sizes do not depend on the data: an empty place is a row of zeros. Sums over j = 1 .. k are
 * in order, sums over channels in lanes. Source: Lepikhin et al. 2020, "GShard". */
#pragma once

#include "lib/ops/op.h"

extern const struct op op_moe_dispatch, op_moe_combine;
