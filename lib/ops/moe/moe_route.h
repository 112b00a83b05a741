/* Which experts a token goes to, with what weight, and which tokens find no room there.
 *
 *   P = softmax(logits)     e_1 .. e_k: the k largest, of equal ones the lower number
 *   gate_j = P[e_j] / sum_i P[e_i]          k = 1: P[e_1], so that the router has a gradient
 *
 * in[0] logits (B,T,E)   out[0] gates (B,T,k)   out[1] picks (B,T,k) int32: e S + place, or -1 - e: dropped
 * out[2] sums (3), which add up over groups, microbatches and ranks: the losses below; max/mean load; share dropped
 *
 * A *group* is a run of g positions of one sample, and an expert takes S choices of a group, its *places*. First
 * choices come before second ones, then lower positions first: place = how-manieth choice of its expert; a place of S
 * or more is dropped. So which tokens compete depends on no microbatch, rank or layout, and integers alone decide.
 *
 *   S = min(g, ceil(capacity g k / E))        capacity 0: S = g, and nothing is dropped
 *
 * Losses, for a group, so that they can be summed over anything; f_e = choices of e / (g k), dropped ones too, is a
 * constant in backward; p_e = mean of P[e] over the group; N tokens globally, loss_weight = 1/N:
 *
 *   aux E g/N sum_e f_e p_e  +  z/N sum_t lse_t^2          lse = log sum_e e^logit
 *
 * Load of a group: the most choices that an expert has, divided by the mean g k / E. Backward reads the picks that
 * forward made and never makes them again: a rounding could send a token elsewhere. Groups are independent: each is one
 * thread's, its sums in the order of positions, or a GPU's block's.
 *
 * Source: Lepikhin et al. 2020 (groups, places); Fedus et al. 2021 (aux loss, k = 1); Zoph et al. 2022 (z loss);
 * Jiang et al. 2024 (Mixtral's gates); DeepSeek-AI 2024 (balance by sequence). */
#pragma once

#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct op op_moe_route;

enum { MOE_SUMS = 3 };               /* elements of out[2] */

/** S of above. */
int64_t moe_places(double capacity, int64_t group, int64_t k, int64_t experts);

/** Where the parts of a row's scratch begin on CUDA, in bytes. At 0 P (tokens, E) in the accumulator's dtype; second:
 *  forward the groups' sums (groups, 3), backward dP (tokens, E); integers, of 32 bits: forward the choices
 *  (groups, k, g), backward how many chose each expert (groups, E). */
struct moe_route_scratch { int64_t second, integers, bytes; };
struct moe_route_scratch moe_route_scratch(const struct call *, enum row_kind);

#ifdef __cplusplus
}
#endif
