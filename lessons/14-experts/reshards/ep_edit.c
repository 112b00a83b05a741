/* Exercise: expert parallelism as an edit of the program (lesson 14, "Two all-to-alls").
 *
 * Without ep every rank has all E experts, and a layer has these steps (lib/experts/experts.c):
 *
 *   sent = moe_dispatch(h, picks)       (E, P, R, C)     P = 1: the rank that sends; R rows for each expert
 *   .. = expert_linear(sent, up)  .. = gelu(..)  y = expert_linear(.., down)
 *   moe = moe_combine(y, picks, gates)
 *
 * With ep a rank has E/ep experts, and all-to-alls send rows from dispatch to experts, and from experts to combine:
 *
 *   dispatch -> (E, P/ep, R, C)   the rows that this rank sends: of P = ep senders only itself
 *   reshard  -> (E/ep, P, R, C)   an all-to-all: the rows of all ep ranks for this rank's experts
 *   experts     (E/ep, P, R, C)
 *   reshard  -> (E, P/ep, R, C)   the all-to-all back; then combine
 *
 * There are three types: struct plan has this rank's place on the mesh, plan->place; struct program has steps[] and
 * params[]; struct step has op, in[], out[], mesh_axis, parts and part (lib/program/program.h). Write four functions of
 * 15 lines together. ep/ep.c walks the steps and calls them; ep_slot_beside and ep_insert_reshard (ep/ep.h) are given.
 * Shapes are inferred after the rewrite, so set only those of the weights. You need mesh_size, mesh_index
 * (lib/comm/mesh.h) and axis_part (lib/device/tensor.h).
 *
 * Grade a copy in my/ with: make grade LESSON=14 FILE=my/ep_edit.c. A first claim holds after ep_shard_experts,
 * when the other functions return OK and do nothing yet. */
#include "ep/ep.h"

/* TODO 1. Keep this rank's part of axis 0, the experts, of p->params[param]. Set the bit of the mesh axis in the axis's
 * `cut`, from which the group that sums the gradient is computed. */
enum status ep_shard_experts(const struct plan *plan, struct program *p, int param) {
    (void)plan;
    return FAIL(E_TODO, "%s is still to be sharded", p->params[param].name);
}

/* TODO 2. Set the step's mesh_axis, parts and part: the axis of the mesh over which axis P is sharded, its number of
 * ranks, and this rank's index. It is the axis that shards experts, over neighboring dp x cp replicas (see mesh.h). */
enum status ep_over(const struct plan *plan, struct step *s) {
    (void)plan, (void)s;
    return FAIL(E_TODO, "ep_over is still to be written");
}

/* TODO 3. Step `at` is a dispatch, and `out` is 0: sent = dispatch(..)  ->  sent.out = dispatch(..); sent =
 * reshard(sent.out). Where rows are packed, it is a pack whose counts, its output 1, are sent likewise. */
enum status ep_send(const struct plan *plan, struct program *p, int at, int out) {
    (void)plan, (void)p, (void)at, (void)out;
    return FAIL(E_TODO, "the first all-to-all, after dispatch, is still to be written");
}

/* TODO 4. Step `at` is a combine. combine(y, ..)  ->  y.back = reshard(y); combine(y.back, ..) */
enum status ep_bring_back(const struct plan *plan, struct program *p, int at) {
    (void)plan, (void)p, (void)at;
    return FAIL(E_TODO, "the second all-to-all, before combine, is still to be written");
}
