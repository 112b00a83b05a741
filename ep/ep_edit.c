/* What ep edits: the weights of experts, and the two all-to-alls around them. See ep.c. */
#include "ep/ep.h"

enum status ep_over(const struct plan *plan, struct step *s) {
    s->mesh_axis = AXIS_EP;
    s->parts = mesh_size(AXIS_EP, &plan->place);
    s->part = mesh_index(AXIS_EP, &plan->place);
    return OK;
}

enum status ep_shard_experts(const struct plan *plan, struct program *p, int param) {
    struct axis *experts = &p->params[param].type.shape.axis[0];
    *experts = axis_part(experts, mesh_size(AXIS_EP, &plan->place), mesh_index(AXIS_EP, &plan->place));
    experts->cut |= 1u << AXIS_EP;
    return OK;
}

enum status ep_send(const struct plan *plan, struct program *p, int at, int out) {
    int to = p->steps[at].out[out], from = ep_slot_beside(p, to, "out");
    TRY(ep_over(plan, &p->steps[at]));
    p->steps[at].out[out] = from;
    return ep_insert_reshard(plan, p, at + 1, from, to, 'P', 'E');
}

enum status ep_bring_back(const struct plan *plan, struct program *p, int at) {
    int from = p->steps[at].in[0], to = ep_slot_beside(p, from, "back");
    TRY(ep_over(plan, &p->steps[at]));
    p->steps[at].in[0] = to;
    return ep_insert_reshard(plan, p, at, from, to, 'E', 'P');
}
