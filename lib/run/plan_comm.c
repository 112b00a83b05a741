/* A plan's communication options, for lib/comm. */
#include "lib/run/plan.h"

#include "lib/comm/hops/comm_links.h"
#include "lib/comm/hops/comm_rules.h"
#include "lib/comm/membership/membership.h"

enum status plan_links(const struct plan *p, struct hop_links *links) {
    const struct comm_options *c = comm_options(p);
    if (c->link_inside[0]) TRY(comm_link_parse("link-inside", c->link_inside, 0, links));
    if (c->link_between[0]) TRY(comm_link_parse("link-between", c->link_between, 1, links));
    return OK;
}

struct nodes plan_nodes(const struct plan *p) {
    return (struct nodes){(int)comm_options(p)->ranks_per_node, comm_options(p)->placement == PLACEMENT_CYCLIC};
}

bool plan_emulates(const struct plan *p) { return comm_options(p)->ranks_per_node || plan_emulates_links(p); }

int plan_node(const struct plan *p, int rank) {
    const struct nodes nodes = plan_nodes(p);
    if (nodes.ranks_per_node) return node_emulated(&nodes, rank, plan_ranks(p));
    return plan_ranks(p) <= comm_world_size() ? comm_host(rank) : -1;
}

/* Serving ranks belong to all replicas, so a new membership cannot leave one out. */
struct membership_shape plan_membership_shape(const struct plan *p) {
    if (plan_serving(p)) return (struct membership_shape){plan_ranks(p), 1, p->global_batch, 0, 0, {0}};
    return (struct membership_shape){(int)(p->mesh.tp * p->mesh.cp), (int)p->mesh.pp, p->global_batch, 0, 0, {0}};
}

enum status plan_settle_comm(const struct plan *p) {
    const struct comm_options *c = comm_options(p);
    struct comm_rule rule[COMM_MAX_AXES];
    struct hop_links links = {0};
    if (c->placement == PLACEMENT_CYCLIC && !c->ranks_per_node)
        return FAIL(E_CONFIG, "placement=cyclic deals ranks to emulated nodes, and there are none; give "
                    "--ranks-per-node, or mpirun --map-by node for real ones");
    TRY(comm_rules_parse(c->algorithm, rule));
    TRY(plan_links(p, &links));
    for (int a = 0; a < COMM_MAX_AXES && !comm_has_library(); a++)
        if (rule[a].library)
            return FAIL(E_CONFIG, "comm-algorithm=%.64s: the direct transport has no library of collectives; use an "
                        "algorithm by its name, or auto", c->algorithm);
    for (int a = 0; a < COMM_MAX_AXES; a++)
        if (rule[a].library && plan_emulates_links(p))
            return FAIL(E_CONFIG, "comm-algorithm=%.64s: the library's messages cannot be slowed, and link-inside or "
                        "link-between says so; use an algorithm by its name, or auto", c->algorithm);
    return OK;
}

enum status plan_transport(const struct plan *p, const struct device *d, enum comm_transport *out) {
    bool fits = p->comm == PLAN_COMM_NCCL;                   /* NCCL itself reports why it fails */
    if (p->comm == PLAN_COMM_AUTO) TRY(comm_nccl_fits(d, &fits));
    *out = fits ? COMM_NCCL : COMM_STAGED;
    return OK;
}

enum status plan_use_comm(const struct plan *p, bool time_work, double slowdown) {
    const struct comm_options *c = comm_options(p);
    struct comm_settings settings = {.timeout_s = c->timeout, .check_collectives = p->check_collectives,
                                     .time_work = time_work, .nodes = plan_nodes(p)};
    struct hop_links links = {0};
    TRY(comm_rules_parse(c->algorithm, settings.rule));
    TRY(plan_links(p, &links));
    comm_configure(&settings);
    return comm_emulate_links(plan_emulates_links(p) ? &links : NULL, slowdown);
}
