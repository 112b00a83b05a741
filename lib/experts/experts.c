/* A mixture of experts, in place of an MLP. For token t:
 *
 *   y[t] = sum over the k experts e of token t of  gate[t,e] expert_e(h[t])      expert_e(h) = down_e(act(up_e(h)))
 *
 * up_e and down_e may have biases, a step each.
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
#include "lib/ops/swiglu.h"

static int precise(struct builder *b, int param) {
    b->p->params[param].precise = true;
    return param;
}

static int router(struct builder *b, const struct experts *e, int h) {
    int w = precise(b, build_matrix(b, "router.w", "EC", 0.02));
    int bias = e->router_bias ? precise(b, build_vector(b, "router.b", "E", 0)) : NONE;
    return build_step(b, &op_moe_logits, "router", (struct inputs){h, NONE, w, bias});
}

/* The bias of the router's choices; NONE: it has none. The program's optimizer does not change it. */
static int bias(struct builder *b, const struct experts *e) {
    if (!e->sigmoid) return NONE;
    int w = precise(b, build_vector(b, "router.bias", "E", 0));
    b->p->params[w].optimizer = &optimizer_none;
    return w;
}

/* Axis F has `units` units. */
static int linear(struct builder *b, int64_t units, const char *name, const char *weight, const char *axes, double std,
                  struct inputs in) {
    in.weight = build_matrix(b, weight, axes, std);
    build_set_axis(b, in.weight, 'F', units);
    return build_step(b, &op_expert_linear, name, in);
}

/* Axis F has the experts' units. @return x, if experts have no biases */
static int biased(struct builder *b, const struct experts *e, const char *name, const char *weight, const char *axes,
                struct inputs in) {
    if (!e->biases) return in.x;
    in.weight = build_vector(b, weight, axes, 0);
    build_set_axis(b, in.weight, 'F', e->units);
    return build_step(b, &op_expert_bias, name, in);
}

static int hidden_units(struct builder *b, const struct experts *e, enum activation act, int x) {
    const struct op *op = e->swiglu_limit > 0 ? &op_swiglu_clamped : activation_op(act);
    x = build_step(b, op, "experts.act", (struct inputs){x, NONE, NONE, NONE});
    if (e->swiglu_limit > 0) b->p->steps[b->p->n_steps - 1].clamp.limit = e->swiglu_limit;
    return x;
}

/* @return the last step's second output */
static int second_output(const struct builder *b) { return b->p->steps[b->p->n_steps - 1].out[1]; }

/* ---- a program that is built ---- */

static bool is_routing(const struct step *s) { return s->op == &op_moe_route || s->op == &op_moe_route_biased; }

static struct step pack_of(struct program *p, const struct step *route) {
    const char *block = p->blocks[route->block].name;
    struct step s = *route;
    s.op = &op_moe_pack, s.in[0] = route->out[1], s.n_in = 1, s.n_weight = 0, s.n_out = 2;
    s.out[0] = program_add_slot(p, block, "pack"), s.out[1] = program_add_slot(p, block, "pack.counts");
    return s;
}

void experts_pack(struct program *p) {
    struct step pack = {.op = NULL};
    for (int i = 0; i < p->n_steps; i++) {
        struct step *s = &p->steps[i];
        if (s->op->rule == RULE_MOE && s->moe.packed) return;
        if (s->op->rule == RULE_MOE) s->moe.packed = true;
        if (s->op == &op_moe_dispatch || s->op == &op_moe_combine) s->in[1] = pack.out[0];
        if (s->op == &op_expert_linear || s->op == &op_expert_bias) s->in[s->n_in++] = pack.out[1];
        if (!is_routing(s)) continue;
        pack = pack_of(p, s);
        program_insert(p, ++i, &pack);
    }
}

/* ---- building ---- */

/* Add `slot` to the inputs of the last step. @return out */
static int also_reads(struct builder *b, int slot, int out) {
    struct step *s = &b->p->steps[b->p->n_steps - 1];
    s->in[s->n_in++] = slot;
    return out;
}

int build_experts(struct builder *b, const struct experts *e, int h, enum activation act, double down_std) {
    const struct experts usual = {.units = plan_ffn(b->plan)};
    if (!e) e = &usual;
    int logits = router(b, e, h);
    const struct op *route = e->sigmoid ? &op_moe_route_biased : &op_moe_route;
    int gates = build_step(b, route, "route", (struct inputs){logits, NONE, bias(b, e), NONE});
    struct moe_rule *rule = &b->p->steps[b->p->n_steps - 1].moe;
    rule->raw = e->raw, rule->sigmoid = e->sigmoid, rule->scale = e->scale;
    rule->sets = e->sets, rule->sets_per_token = e->sets_per_token;
    int picks = second_output(b), counts = NONE;
    if (model_options(b->plan)->moe_packed) {
        picks = build_step(b, &op_moe_pack, "pack", (struct inputs){picks, NONE, NONE, NONE});
        counts = second_output(b);
    }
    int x = build_step(b, &op_moe_dispatch, "sent", (struct inputs){h, picks, NONE, NONE});
    bool gated = activation_is_gated(act);
    x = linear(b, e->units, "experts.up", "experts.up.w", gated ? "E2FC" : "EFC", 0.02,
               (struct inputs){x, counts, NONE, NONE});
    x = biased(b, e, "experts.up.biased", "experts.up.b", gated ? "E2F" : "EF", (struct inputs){x, counts, NONE, NONE});
    x = hidden_units(b, e, act, x);
    x = linear(b, e->units, "experts.down", "experts.down.w", "ECF", down_std,
               (struct inputs){x, counts, NONE, NONE});
    x = biased(b, e, "experts.down.biased", "experts.down.b", "EC", (struct inputs){x, counts, NONE, NONE});
    return also_reads(b, gates, build_step(b, &op_moe_combine, "moe", (struct inputs){x, picks, NONE, NONE}));
}
