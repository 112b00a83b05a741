/* The bias of a router's choices moves against the load of its experts.
 *
 * Idea: if few experts get most tokens, the others learn nothing, and with ep the ranks of the few are late. A loss
 * that evens out the load pulls the router away from the model's loss. A bias that takes part in the choice alone
 * disturbs no gradient (lib/ops/moe/moe_route.h).
 *
 * Formula, after each step, for each expert e of a layer:
 *   b[e] = b[e] + rate sign(mean load - load[e])        load[e]: choices of e, dropped ones too, in the whole batch
 * At the mean the bias stays. Weight decay, momentum, clipping and the schedule of lr have no part in it.
 *
 * Stored where: b is a weight of the layer, so checkpoints and exports have it. The load is its gradient: E (choices of
 * e) - tokens k, which has the sign of load - mean. No state.
 *
 * Sent when: as any gradient, by dp, cp, tp or zero; nothing is sent for the bias itself.
 *
 * What breaks: the load of one rank or microbatch; the other sign, which gives all tokens to few experts; a bias in the
 * gates; a bias that the program's optimizer decays; counts in bf16, which has no 257.
 *
 * Source: Wang et al. 2024, "Auxiliary-loss-free load balancing strategy for mixture-of-experts" (arXiv 2408.15664),
 * algorithm 1; DeepSeek-AI 2024, "DeepSeek-V3" (arXiv 2412.19437), sections 2.1.2 and 4.2: rate 0.001. */
#include "lib/experts/experts.h"

#include "lib/ops/moe/moe_route.h"
#include "lib/run/run.h"
#include <inttypes.h>
#include <stdlib.h>

struct bias_options { double rate; };
static const struct option OPTIONS[] = {
    {"router-bias-rate", OPTION_REAL, "0", 0, 1e3, NULL, "",
     "after each step the bias of a sigmoid router's choices moves by this against the load of each expert "
     "(DeepSeek-V3: 0.001); 0: it stays", "training", offsetof(struct bias_options, rate)}};

static double rate_of(const struct plan *p) {
    return ((const struct bias_options *)plan_own(p, &technique_router_bias.options))->rate;
}

static bool bias_wanted(const struct plan *p) { return rate_of(p) > 0; }

static enum status bias_check(const struct plan *p) {
    if (plan_number(p, "servers") > 0)
        return FAIL(E_CONFIG, "router-bias-rate=%g needs the load of a whole step, and workers of servers=%" PRId64
                              " end their steps by themselves; use servers 0, or router-bias-rate 0",
                    rate_of(p), plan_number(p, "servers"));
    if (plan_number(p, "local-steps") > 0)
        return FAIL(E_CONFIG, "router-bias-rate=%g needs the load of all replicas, and with local-steps=%" PRId64
                              " each counts its own; use local-steps 0, or router-bias-rate 0",
                    rate_of(p), plan_number(p, "local-steps"));
    if (plan_codec(p).kind != CODEC_NONE)
        return FAIL(E_CONFIG, "router-bias-rate=%g needs whole numbers, and grad-codec=%s rounds them; use grad-codec "
                              "none, or router-bias-rate 0", rate_of(p), codec_name(plan_codec(p).kind));
    return OK;
}

/* Before pp: a stage may have no router. */
static enum status bias_rewrite(const struct plan *plan, struct program *p) {
    int n = 0;
    for (int i = 0; i < p->n_steps; i++) {
        if (p->steps[i].op != &op_moe_route_biased) continue;
        p->params[p->steps[i].weight[0]].optimizer = &optimizer_sign;
        n++;
    }
    if (n) return OK;
    return FAIL(E_CONFIG, "router-bias-rate=%g moves the bias of sigmoid routers, and this model of arch=%s has none; "
                          "use arch moe with experts and router-scores sigmoid, or router-bias-rate 0",
                rate_of(plan), plan->arch->name);
}

static enum status bias_lowered(const struct compiled *c, struct program *p) {
    (void)c;
    for (int i = 0; i < p->n_params; i++)
        if (p->params[i].optimizer == &optimizer_sign && p->params[i].state_tier != TIER_DEVICE)
            return FAIL(E_CONFIG, "router-bias-rate moves biases on the device, and offload updates on the host; use "
                                  "offload none, or router-bias-rate 0");
    return OK;
}

/* Own elements: zero's other ranks get them with the other weights. */
static enum status move(struct run *r, void *self, const struct event *event) {
    const struct optimizer_settings a = {.lr = rate_of(&r->plan),
                                         .grad_multiplier = &run_scalars(r)[SCALAR_MULTIPLIER]};
    struct optimizer_elements *table = malloc(((size_t)r->program.n_params + 1) * sizeof *table);
    int n = 0;
    (void)self, (void)event;
    if (!table) return FAIL(E_MEMORY, "no memory for a table of %d params", r->program.n_params);
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (w->optimizer == &optimizer_sign && param_is_stored(w) && w->own_n > 0) table[n++] = param_elements(w);
    }
    enum status status = optimizer_update(&optimizer_sign, r->device, &a, table, n);
    free(table);
    return status;
}

static enum status bias_attach(struct run *r, void **self) { return run_subscribe(r, EVENT_OPTIM_STEP, move, *self); }

const struct technique technique_router_bias = {
    .name = "router bias", .options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, sizeof(struct bias_options)},
    .wanted = bias_wanted, .check = bias_check, .rewrite = bias_rewrite, .lowered = bias_lowered,
    .attach = bias_attach};
