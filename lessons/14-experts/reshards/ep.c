/* Exercise: expert parallelism as an edit of the program (lesson 14).
 *
 * Without ep every rank has all E experts, and a layer has these steps (lib/run/build_moe.c):
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
 * ep_check, slot_beside and insert_reshard are given. Write the parts marked TODO: 20 lines. Shapes are inferred after
 * the rewrite, so set only those of the weights. The theory is in lesson 14, "Two all-to-alls". You need mesh_size,
 * mesh_index (lib/comm/mesh.h); axis_part and struct axis (lib/device/tensor.h); struct step and struct param
 * (lib/program/program.h).
 *
 * Grade a copy in my/ with: make grade LESSON=14 FILE=my/ep.c */
#include "ep/ep.h"

#include "lib/base/integer.h"
#include "lib/ops/moe/expert_linear.h"
#include "lib/ops/moe/moe_dispatch.h"
#include "lib/comm/reshard.h"
#include <inttypes.h>
#include <string.h>

static bool ep_wanted(const struct plan *plan) { return plan->mesh.ep > 1; }

static enum status ep_check(const struct plan *plan) {
    const struct model_options *m = model_options(plan);
    int64_t ep = plan->mesh.ep, replicas = plan->mesh.dp * (plan->mesh.cp ? plan->mesh.cp : 1);
    if (m->experts == 0)
        return FAIL(E_CONFIG, "ep=%" PRId64 " shards experts, and experts=0; give --experts, or leave ep out", ep);
    if (m->experts % ep || replicas % ep)
        return FAIL(E_CONFIG,
                    "ep=%" PRId64 " does not divide both experts=%" PRId64 " and dp x cp = %" PRId64 "; use one of "
                    "ep=%s, or more experts",
                    ep, m->experts, replicas,
                    plan_divisors(common_divisor(m->experts, replicas), m->experts));
    return OK;
}

/* ---- rewrite ---- */
/* TODO: set the step's mesh_axis, parts and part: the axis of the mesh over which axis P is sharded, its number of
 * ranks, and this rank's index. It is the axis that shards experts, over neighboring dp x cp replicas (see mesh.h). */
static void over_ep(const struct plan *plan, struct step *s) { (void)plan, (void)s; }

/* Given. A new slot, "h0.sent" -> "h0.sent.suffix". @return its number */
static int slot_beside(struct program *p, int slot, const char *suffix) {
    char name[NAME_MAX_LEN];
    snprintf(name, sizeof name, "%.30s.%s", p->slots[slot].name, suffix);
    int made = program_add_slot(p, "", "");
    memcpy(p->slots[made].name, name, sizeof name);
    return made;
}

/* Given. A reshard from slot `from` to slot `to`, before step `at`: the axis `gathers` becomes whole, the axis `cuts`
 * is sharded instead. */
static void insert_reshard(const struct plan *plan, struct program *p, int at, int from, int to, char gathers,
                           char cuts) {
    struct step s = {.op = &op_reshard, .n_in = 1, .n_out = 1, .in = {from}, .out = {to},
                     .block = p->steps[at - 1].block, .mesh_axis = AXIS_EP,
                     .reshard = {.gathers = gathers, .cuts = cuts, .moves = 1u << AXIS_EP}};
    over_ep(plan, &s);
    program_insert(p, at, &s);
}

/* TODO: keep this rank's part of the weight's axis 0, the experts. Set the bit of the mesh axis in the axis's `cut`,
 * from which the group that sums the gradient is computed. */
static enum status shard_experts(const struct plan *plan, struct param *w) {
    (void)plan;
    return FAIL(E_TODO, "%s is still to be sharded", w->name);
}

/* TODO: step `at` is a dispatch. sent = dispatch(..)  ->  sent.out = dispatch(..); sent = reshard(sent.out) */
static enum status send(const struct plan *plan, struct program *p, int at) {
    (void)plan, (void)p, (void)at, (void)slot_beside, (void)insert_reshard;
    return FAIL(E_TODO, "the first all-to-all, after dispatch, is still to be written");
}

/* TODO: step `at` is a combine. combine(y, ..)  ->  y.back = reshard(y); combine(y.back, ..) */
static enum status bring_back(const struct plan *plan, struct program *p, int at) {
    (void)plan, (void)p, (void)at;
    return FAIL(E_TODO, "the second all-to-all, before combine, is still to be written");
}

/* Given. Loop from the end, because an insertion moves all later steps. */
static enum status ep_rewrite(const struct plan *plan, struct program *p) {
    for (int i = p->n_steps - 1; i >= 0; i--) {
        const struct step *s = &p->steps[i];
        if (s->op == &op_expert_linear) TRY(shard_experts(plan, &p->params[s->weight[0]]));
        else if (s->op == &op_moe_combine) TRY(bring_back(plan, p, i));
        else if (s->op == &op_moe_dispatch) TRY(send(plan, p, i));
    }
    return OK;
}

const struct technique technique_ep = {.name = "ep", .wanted = ep_wanted, .check = ep_check, .rewrite = ep_rewrite};
