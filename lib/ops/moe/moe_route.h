/* The experts and gates of each token, and the choices that are dropped because their expert is full.
 *
 *   P = softmax(logits)     e_1 .. e_k: the k largest, of equal ones the lower number
 *   gate_j = P[e_j] / sum_i P[e_i]          k = 1: P[e_1], so that the router has a gradient; rule.raw: P[e_j]
 *
 * rule.sigmoid (DeepSeek-V3): P = s = 1 / (1 + e^-logit), each expert by itself. The k largest of s + bias are chosen;
 * gates are of s alone, so that the bias moves tokens and no gradient. The losses have P = s / sum s. rule.scale is a
 * factor of gates. rule.sets: experts are in sets of E / sets neighbors, and a token takes its experts from the
 * sets_per_token sets of the largest value: of their largest score, with sigmoids of their two largest s + bias.
 *
 * in[0] logits (B,T,E)   out[0] gates (B,T,k)   out[1] picks (B,T,k) int32: e S + place; if dropped, -1 - e
 * weight[0], of op_moe_route_biased alone: the bias (E), with rule.sigmoid, in the accumulator's dtype. The loss has no
 * slope along it. In place of that its gradient is the load: dbias[e] = E (choices of e) - tokens k, whole numbers that
 * are positive for an expert with more than the mean. A step against its sign is DeepSeek-V3's balance.
 * out[2] sums (3): the losses below; max/mean load; share dropped. They add up over groups, microbatches and ranks
 *
 * A *group* is a run of g positions of one sample, and an expert takes S choices of a group, its *places*. First
 * choices come before second ones, then lower positions first: place = the number of earlier choices of the same
 * expert; a choice with place S or more is dropped. So the microbatch, the rank and the layout do not change which
 * tokens compete, and integers alone decide.
 *
 *   S = min(g, ceil(capacity g k / E))        capacity 0: S = g, and nothing is dropped
 *
 * Losses of one group, which are summed over groups. f_e = choices of e / (g k), with the dropped ones, is a constant
 * in backward; p_e = mean of P[e] over the group; N: tokens of the global batch, loss_weight = 1/N:
 *
 *   aux E g/N sum_e f_e p_e  +  z/N sum_t lse_t^2          lse = log sum_e e^logit
 *
 * Load of a group: the most choices that an expert has, divided by the mean g k / E. Backward reads the picks of
 * forward and never recomputes them, because a rounding could send a token to another expert. Groups are independent.
 * On the CPU a thread has a group and sums in the order of positions; on a GPU a block has a group.
 *
 * Source: Lepikhin et al. 2020 (groups, places); Fedus et al. 2021 (aux loss, k = 1); Zoph et al. 2022 (z loss); Jiang
 * et al. 2024 (Mixtral's gates); DeepSeek-AI 2024 (V2, section 2.1.2: sets, balance by sequence; V3, section 2.1.2:
 * sigmoids and the bias). */
#pragma once

#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct op op_moe_route, op_moe_route_biased;

enum { MOE_SUMS = 3, MOE_SETS = 64 };   /* elements of out[2]; the most sets of experts */

/** S of above. */
int64_t moe_places(double capacity, int64_t group, int64_t k, int64_t experts);

/** Offsets in bytes of the parts of the scratch on CUDA. At 0: P (tokens, E) in the accumulator's dtype. second: the
 *  groups' sums (groups, 3) in forward, dP (tokens, E) in backward. integers, of 32 bits: the choices (groups, k, g) in
 *  forward, each expert's number of choices (groups, E) in backward. */
struct moe_route_scratch { int64_t second, integers, bytes; };
struct moe_route_scratch moe_route_scratch(const struct call *, enum row_kind);

#ifdef __cplusplus
}
#endif
