/* Expert parallelism.
 *
 * Idea: a token uses k of E experts, but without ep every rank holds all E. The dp x cp replicas have different tokens.
 * So let ep neighbors of them keep E/ep experts each, and send tokens to the ranks of their experts.
 *
 *   dispatch -> (E, P/ep, R, C)   R rows per expert and sending rank; this rank has the rows that it sends
 *   reshard  -> (E/ep, P, R, C)   an all-to-all: this rank has the rows of its experts, of all ep ranks
 *   experts     (E/ep, P, R, C)   E/ep products, of ep R rows each
 *   reshard  -> (E, P/ep, R, C)   back, and combine
 *
 * Backward is the same two exchanges. Sizes do not depend on where tokens go (lib/ops/moe/moe_route.h): an empty place
 * is a row of zeros, and is sent. When rows are packed (lib/ops/moe/moe_pack.h), ep boxes of R rows, one per rank,
 * replace the E experts, and each box has a count of used rows. ep computes nothing itself, so all layouts give
 * the serial run's numbers.
 *
 * Stored where: E/ep experts per rank, and their states. dp cp / ep ranks have the same experts (AXIS_EDP): dp/ sums
 * their gradients over these ranks, and zero/ shards them. All other params are as without ep. Each tp rank has all
 * experts of its replica, and repeats their work; with sp each has other tokens.
 *
 * Sent when: forward and backward of each layer and microbatch, 2 + 2 times (ep-1)/ep of E R C elements.
 *
 * What breaks: an expert's gradient summed over all replicas; a norm that counts the experts of one rank only.
 *
 * Source: Lepikhin et al. 2020 (GShard); Fedus et al. 2021 (Switch); Liu et al. 2025 (folding ep into dp x cp). */
#include "ep/ep.h"

#include "lib/base/integer.h"
#include "lib/ops/moe/expert_linear.h"
#include "lib/ops/moe/moe_dispatch.h"
#include "lib/ops/moe/moe_pack.h"
#include <inttypes.h>

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
static enum status ep_rewrite(const struct plan *plan, struct program *p) {
    for (int i = p->n_steps - 1; i >= 0; i--) {
        const struct step *s = &p->steps[i];
        bool experts = s->op == &op_expert_linear || s->op == &op_expert_bias;
        if (experts) TRY(ep_shard_experts(plan, p, s->weight[0]));
        else if (s->op == &op_moe_combine) TRY(ep_bring_back(plan, p, i));
        else if (s->op == &op_moe_dispatch) TRY(ep_send(plan, p, i, 0));
        else if (s->op == &op_moe_pack) TRY(ep_send(plan, p, i, 1));
    }
    return OK;
}

const struct technique technique_ep = {.name = "ep", .wanted = ep_wanted, .check = ep_check, .rewrite = ep_rewrite};
