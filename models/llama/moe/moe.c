/* Experts in a Llama's layers. See moe.h. */
#include "models/llama/moe/moe.h"

#include "lib/base/integer.h"
#include "lib/checkpoint/checkpoint_model.h"
#include "lib/experts/experts.h"
#include "lib/ops/linear.h"
#include <inttypes.h>
#include <string.h>

static int64_t units(const struct plan *p, const struct moe_options *o) {
    return o->expert_ffn ? o->expert_ffn : plan_ffn(p);
}

bool moe_has_experts(const struct plan *p, const struct moe_options *o, int64_t layer) {
    return model_options(p)->experts && o->expert_layers[(size_t)layer % strlen(o->expert_layers)] == 'e';
}

/* ---- building ---- */

/* Axis K has the shared experts' units. */
static int product(struct builder *b, const struct moe_options *o, const char *name, const char *weight,
                   const char *axes, double std, int x) {
    int w = build_matrix(b, weight, axes, std);
    build_set_axis(b, w, 'K', o->shared_experts * units(b->plan, o));
    return build_step(b, &op_linear, name, (struct inputs){x, NONE, w, NONE});
}

int moe_shared(struct builder *b, const struct moe_options *o, int h, double down_std) {
    if (!o->shared_experts) return NONE;
    h = product(b, o, "shared.up", "shared.up.w", "2KC", 0.02, h);
    h = build_step(b, activation_op(b->act), "shared.act", (struct inputs){h, NONE, NONE, NONE});
    return product(b, o, "shared.down", "shared.down.w", "CK", down_std, h);
}

int moe_experts(struct builder *b, const struct moe_options *o, int h, double down_std) {
    const struct experts e = {.units = units(b->plan, o), .raw = !o->router_norm, .sigmoid = o->router_scores,
                              .scale = o->router_scale, .sets = o->router_groups,
                              .sets_per_token = o->router_groups_per_token, .router_bias = o->router_bias,
                              .biases = o->expert_bias, .swiglu_limit = o->swiglu_limit};
    return build_experts(b, &e, h, b->act, down_std);
}

/* ---- checks ---- */

/* Without experts their options would be ignored. */
static enum status check_off(const struct moe_options *o) {
    if (o->router_scores || o->router_groups > 1 || o->router_groups_per_token > 1 || o->router_scale != 1 ||
        o->shared_experts)
        return FAIL(E_CONFIG, "router-scores=%s router-groups=%" PRId64 " router-groups-per-token=%" PRId64
                    " router-scale=%g shared-experts=%" PRId64 " are of experts, and experts=0; give --experts, or "
                    "leave them out", o->router_scores ? "sigmoid" : "softmax", o->router_groups,
                    o->router_groups_per_token, o->router_scale, o->shared_experts);
    if (o->expert_bias || o->router_bias || o->swiglu_limit > 0)
        return FAIL(E_CONFIG, "expert-bias=%s router-bias=%s swiglu-limit=%g are of experts, and experts=0; give "
                    "--experts, or leave them out", o->expert_bias ? "on" : "off", o->router_bias ? "on" : "off",
                    o->swiglu_limit);
    if (!o->expert_ffn && !strcmp(o->expert_layers, "e") && o->router_norm) return OK;
    return FAIL(E_CONFIG, "expert-ffn=%" PRId64 " expert-layers=%.80s router-norm=%s are of experts, and "
                "experts=0; give --experts, or leave them out", o->expert_ffn, o->expert_layers,
                o->router_norm ? "on" : "off");
}

static enum status check_groups(const struct plan *p, const struct moe_options *o) {
    int64_t experts = model_options(p)->experts, k = model_options(p)->experts_per_token, groups = o->router_groups;
    if (experts % groups)
        return FAIL(E_CONFIG, "router-groups=%" PRId64 " does not divide experts=%" PRId64 "; use one of %s", groups,
                    experts, plan_divisors(experts, MOE_SETS));
    if (o->router_groups_per_token > groups)
        return FAIL(E_CONFIG, "router-groups-per-token=%" PRId64 " is more than router-groups=%" PRId64 "; use at most "
                    "%" PRId64, o->router_groups_per_token, groups, groups);
    int64_t each = experts / groups, least = (k + each - 1) / each;
    if (groups == 1 || k <= o->router_groups_per_token * each) return OK;
    return FAIL(E_CONFIG, "router-groups-per-token=%" PRId64 " groups of %" PRId64 " experts have fewer than "
                "experts-per-token=%" PRId64 "; use --router-groups-per-token %" PRId64, o->router_groups_per_token,
                each, k, least);
}

/* tp cuts the MLPs of layers without experts, and the shared experts. */
static enum status check_tp(const struct plan *p, const struct moe_options *o, bool dense) {
    int64_t tp = p->mesh.tp, shared = o->shared_experts * units(p, o);
    if (tp < 2) return OK;
    if (dense && plan_ffn(p) % tp)
        return FAIL(E_CONFIG, "tp=%" PRId64 " does not divide ffn=%" PRId64 " of the layers without experts; use one "
                    "of %s", tp, plan_ffn(p), plan_divisors(common_divisor(plan_kv_heads(p), plan_ffn(p)), p->heads));
    if (shared % tp == 0) return OK;
    return FAIL(E_CONFIG, "tp=%" PRId64 " does not divide the %" PRId64 " units of shared-experts=%" PRId64 "; use one "
                "of %s", tp, shared, o->shared_experts,
                plan_divisors(common_divisor(plan_kv_heads(p), shared), p->heads));
}

enum status moe_check(const struct plan *p, const struct moe_options *o) {
    const char *layers = o->expert_layers;
    int64_t n = 0;
    if (!layers[0] || layers[strspn(layers, "ed")] || strlen(layers) > MODEL_LETTERS_MAX)
        return FAIL(E_CONFIG, "expert-layers=%.80s; use letters e and d, at most 128, which are repeated over the "
                    "layers (e has experts, d an MLP), or leave expert-layers out", layers);
    if (!model_options(p)->experts) return check_off(o);
    for (int64_t l = 0; l < p->layers; l++) n += moe_has_experts(p, o, l);
    if (n == 0)
        return FAIL(E_CONFIG, "expert-layers=%.80s leaves none of layers=%" PRId64 " experts, and experts=%" PRId64
                    "; use --expert-layers e, or --experts 0", layers, p->layers, model_options(p)->experts);
    if (o->swiglu_limit > 0 && (model_options(p)->activation == ACTIVATION_GEGLU || o->shared_experts))
        return FAIL(E_CONFIG, "swiglu-limit=%g is of experts' swiglu, and activation=%s shared-experts=%" PRId64 "; "
                    "use --activation swiglu and --shared-experts 0, or --swiglu-limit 0", o->swiglu_limit,
                    model_options(p)->activation == ACTIVATION_GEGLU ? "geglu" : "swiglu", o->shared_experts);
    TRY(check_groups(p, o));
    return check_tp(p, o, n < p->layers);
}

/* ---- counting ---- */

int64_t moe_matrices(const struct plan *p, const struct moe_options *o, int64_t n) {
    return (3 * (n + o->shared_experts) * units(p, o) + model_options(p)->experts) * p->hidden;
}

int64_t moe_biases(const struct plan *p, const struct moe_options *o) {
    int64_t each = 2 * units(p, o) + p->hidden, n = (o->router_scores != 0) + o->router_bias + o->expert_bias * each;
    return n * model_options(p)->experts;
}
