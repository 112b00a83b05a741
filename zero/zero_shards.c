/* Hybrid sharding: dp x cp replicas = replicate x shard.
 *
 * Idea: a network between nodes is many times slower than the links within one, and stage 3 gathers all weights twice a
 * microbatch. So the state is sharded over the L replicas of a node only, and each of the N nodes has a copy. Gathers
 * and reduce-scatters stay in the node. Between nodes own gradients are all-reduced, once a step (S bytes in all).
 *
 *   shard        replicas i = k L .. k L + L - 1      gather, reduce-scatter            nothing between nodes
 *   replicate    replicas i with the same i % L       all-reduce S / L of gradients     2 (S/L) (N-1)/N between nodes
 *
 * Price: (w + g + s) / L bytes a parameter instead of (w + g + s) / (L N), with w, g, s as in zero.c.
 *
 * The axes are the mesh's (AXIS_SHARD, AXIS_REPLICATE). zero sums over AXIS_SHARD only. After BACKWARD_END the run sums
 * own gradients over AXIS_REPLICATE (lib/run/combine.h). One copy counts in the norm.
 *
 * Source: Zhao et al. 2023, "PyTorch FSDP", section 3.2.2 (hybrid sharding). */

#include "zero/zero.h"
#include <inttypes.h>

static const char *name_of(const struct plan *plan) { return zero_options(plan)->shard ? "shard" : "zero-secondary"; }
static int n_replicas(const struct plan *plan) {
    const struct mesh_place first = mesh_place_of(&plan->mesh, 0);
    return mesh_size(AXIS_DP, &first);
}

/* ---- nodes ---- */
/* The number of replicas on rank 0's node, from rank 0 on along AXIS_DP without a gap. */
static int on_node_of_rank_0(const struct plan *plan, int replicas, int stride) {
    int n = 1;
    while (n < replicas && plan_node(plan, n * stride) == plan_node(plan, 0)) n++;
    return n;
}

/* Is every block of n replicas on one node? */
static bool fits_nodes(const struct plan *plan, int n, int stride) {
    for (int rank = 0; rank < plan_ranks(plan); rank++) {
        const struct mesh_place p = mesh_place_of(&plan->mesh, rank);
        int before = mesh_index(AXIS_DP, &p) % n;
        if (plan_node(plan, rank) != plan_node(plan, rank - before * stride)) return false;
    }
    return true;
}

static enum status settle_node(struct plan *plan) {
    const struct mesh_place first = mesh_place_of(&plan->mesh, 0);
    int replicas = n_replicas(plan), stride = mesh_stride(AXIS_DP, &first);
    if (plan_node(plan, 0) < 0)
        return FAIL(E_CONFIG, "%s=node, and there is no job whose nodes could be looked at; give --ranks-per-node, "
                              "or use one of %s", name_of(plan), plan_divisors(replicas, replicas));
    int n = on_node_of_rank_0(plan, replicas, stride);
    if (replicas % n || !fits_nodes(plan, n, stride))
        return FAIL(E_CONFIG, "%s=node: rank 0's node has %d of the %d replicas (dp x cp), and not every node has %d; "
                              "use one of %s", name_of(plan), n, replicas, n, plan_divisors(replicas, replicas));
    if (n == 1 && replicas > 1)
        return FAIL(E_CONFIG, "%s=node: each of the %d replicas (dp x cp) is on a node of its own, with no other to "
                              "share with; leave it out, or use a smaller tp", name_of(plan), replicas);
    plan->mesh.shard = n;
    return OK;
}

enum status zero_shards_settle(struct plan *plan) {
    const struct zero_options *o = zero_options(plan);
    plan->mesh.shard = o->shard ? o->shard : o->secondary;
    return plan->mesh.shard == SHARD_NODE ? settle_node(plan) : OK;
}

/* ---- refusals ---- */
static enum status check_secondary(const struct plan *plan, int64_t replicas) {
    const struct zero_options *o = zero_options(plan);
    if (o->secondary && o->shard)
        return FAIL(E_CONFIG, "with shard no gather leaves its %" PRId64 " replicas, and zero-secondary would keep the "
                              "same again; leave shard out, or zero-secondary", plan->mesh.shard);
    if (o->secondary && o->stage < 3)
        return FAIL(E_CONFIG, "zero-secondary keeps what zero=3 gathers, and zero=%" PRId64 "; use zero 3, or leave "
                              "zero-secondary out", o->stage);
    if (o->secondary && plan->mesh.shard == replicas)
        return FAIL(E_CONFIG, "zero-secondary=%" PRId64 " is all replicas (dp x cp), and the copy would be the shard; "
                              "leave zero-secondary out", replicas);
    return OK;
}

enum status zero_shards_check(const struct plan *plan) {
    int64_t n = plan->mesh.shard, replicas = n_replicas(plan), ep = plan->mesh.ep;
    TRY(check_secondary(plan, replicas));
    if (n > replicas || replicas % n)
        return FAIL(E_CONFIG, "%s=%" PRId64 " does not divide the %" PRId64 " replicas (dp x cp); use one of %s",
                    name_of(plan), n, replicas, plan_divisors(replicas, replicas));
    if (n == 1 && replicas > 1 && zero_options(plan)->shard)
        return FAIL(E_CONFIG, "shard=1 shares nothing; use shard %" PRId64 ", or leave shard out", replicas);
    if (n == replicas) return OK;
    if (ep > 1 && n % ep && ep % n)
        return FAIL(E_CONFIG, "%s=%" PRId64 " and ep=%" PRId64 ": neither divides the other; use %" PRId64,
                    name_of(plan), n, ep, ep);
    if (plan->sums == PLAN_SUMS_FIXED && zero_options(plan)->shard)
        return FAIL(E_CONFIG, "sums=fixed adds up replicas before microbatches, and shard=%" PRId64 " of %" PRId64
                              " replicas adds the others after them; use shard %" PRId64, n, replicas, replicas);
    return OK;
}
