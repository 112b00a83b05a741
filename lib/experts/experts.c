/* A mixture of experts, in place of an MLP. For token t:
 *
 *   y[t] = sum over the k experts e of token t of  gate[t,e] expert_e(h[t])      expert_e(h) = down_e(act(up_e(h)))
 *
 * h -> logits -> route (gates, picks) -> dispatch -> up, act, down of each expert -> combine. Between dispatch and
 * combine tensors are (E,P,R,..): a row for each place of each expert (lib/ops/moe/); ep/ shards axis E. With
 * --moe-packed a step `pack` removes the rows of empty places, and counts the others for the products. The hidden
 * units' axis is F instead of K, because tp does not shard it. */
#include "lib/experts/experts.h"

#include "lib/ops/moe/expert_linear.h"
#include "lib/ops/moe/moe_dispatch.h"
#include "lib/ops/moe/moe_logits.h"
#include "lib/ops/moe/moe_pack.h"
#include "lib/ops/moe/moe_route.h"

static int router(struct builder *b, int h) {
    int w = build_matrix(b, "router.w", "EC", 0.02);
    b->p->params[w].precise = true;
    return build_step(b, &op_moe_logits, "router", (struct inputs){h, NONE, w, NONE});
}

/* Axis F has `units` units. */
static int linear(struct builder *b, int64_t units, const char *name, const char *weight, const char *axes, double std,
                  struct inputs in) {
    in.weight = build_matrix(b, weight, axes, std);
    build_set_axis(b, in.weight, 'F', units);
    return build_step(b, &op_expert_linear, name, in);
}

/* @return the last step's second output */
static int second_output(const struct builder *b) { return b->p->steps[b->p->n_steps - 1].out[1]; }

/* Add `slot` to the inputs of the last step. @return out */
static int also_reads(struct builder *b, int slot, int out) {
    struct step *s = &b->p->steps[b->p->n_steps - 1];
    s->in[s->n_in++] = slot;
    return out;
}

int build_experts(struct builder *b, const struct experts *e, int h, enum activation act, double down_std) {
    const struct experts usual = {.units = plan_ffn(b->plan)};
    if (!e) e = &usual;
    int gates = build_step(b, &op_moe_route, "route", (struct inputs){router(b, h), NONE, NONE, NONE});
    b->p->steps[b->p->n_steps - 1].moe.raw = e->raw;
    int picks = second_output(b), counts = NONE;
    if (model_options(b->plan)->moe_packed) {
        picks = build_step(b, &op_moe_pack, "pack", (struct inputs){picks, NONE, NONE, NONE});
        counts = second_output(b);
    }
    int x = build_step(b, &op_moe_dispatch, "sent", (struct inputs){h, picks, NONE, NONE});
    const char *up = activation_is_gated(act) ? "E2FC" : "EFC";
    x = linear(b, e->units, "experts.up", "experts.up.w", up, 0.02, (struct inputs){x, counts, NONE, NONE});
    x = build_step(b, activation_op(act), "experts.act", (struct inputs){x, NONE, NONE, NONE});
    x = linear(b, e->units, "experts.down", "experts.down.w", "ECF", down_std,
               (struct inputs){x, counts, NONE, NONE});
    return also_reads(b, gates, build_step(b, &op_moe_combine, "moe", (struct inputs){x, picks, NONE, NONE}));
}
