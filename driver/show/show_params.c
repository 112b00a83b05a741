#include "driver/show/show_views.h"

#include "driver/command.h"
#include "driver/report/report.h"
#include "lib/run/recipe.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>

/* Bytes of a rank: weights, gradients and optimizer states, as the plan's techniques shard or widen them. */
static struct state_bytes bytes_of(const struct plan *plan, double params) {
    const double element = (double)dtype_size(plan_dtype(plan));
    struct state_bytes x = {element, element, plan_optimizer(plan)->n_states * element};
    for (int i = 0; i < plan->recipe->n_techniques; i++) {
        const struct technique *t = plan->recipe->techniques[i];
        if (t->state_bytes && t->wanted(plan)) t->state_bytes(plan, &x);
    }
    return (struct state_bytes){round(params * x.weight), round(params * x.grad), round(params * x.optim)};
}

static enum status refuse_the_rest(const struct plan *plan) {
    if (plan->mesh.tp * plan->mesh.pp > 1)
        return FAIL(E_CONFIG,
                    "params counts what the replicas of one dp group share, and tp=%" PRId64 " pp=%" PRId64
                    "; leave tp and pp out, and give params / %" PRId64,
                    plan->mesh.tp, plan->mesh.pp, plan->mesh.tp * plan->mesh.pp);
    if (plan->mesh.ep > 1)
        return FAIL(E_CONFIG, "params counts what all replicas share, and ep=%" PRId64 " shards experts; leave ep or "
                              "params out", plan->mesh.ep);
    const int64_t local_steps = plan_number(plan, "local-steps"), zero = plan_number(plan, "zero");
    if (local_steps && zero)
        return FAIL(E_CONFIG, "local-steps=%" PRId64 " has states that replicas do not share, and zero=%" PRId64
                              " shards what they share; leave one of them out", local_steps, zero);
    if (plan_number(plan, "offload"))
        return FAIL(E_CONFIG, "params counts bytes on the device, and offload moves some to the host; leave offload or "
                              "params out");
    return OK;
}

/* Settle the plan as plan_settle does, which cannot be called without a batch. */
static enum status settle(struct plan *plan) {
    TRY(plan_settle_device(plan));
    for (int i = 0; i < plan->recipe->n_techniques; i++) {
        const struct technique *t = plan->recipe->techniques[i];
        if (!t->state_bytes || !t->settle || !t->wanted(plan)) continue;
        TRY(t->settle(plan));
        TRY(t->check(plan));
    }
    return OK;
}

const char *show_precision(const struct plan *plan) {
    return (const char *const[]){"fp32", "fp64", "bf16", "fp16"}[plan->precision];
}

static json_t *bytes_json(struct state_bytes x) {
    return json_pack("{s:I, s:I, s:I}", "param", (json_int_t)x.weight, "grad", (json_int_t)x.grad, "optim",
                     (json_int_t)x.optim);
}

static enum status print_json(const struct plan *plan, double params, struct state_bytes x) {
    return command_print(json_pack("{s:I, s:I, s:I, s:s, s:o, s:I}", "parameters", (json_int_t)params, "dp",
                                   (json_int_t)(plan->mesh.dp ? plan->mesh.dp : 1), "zero",
                                   (json_int_t)plan_number(plan, "zero"), "precision", show_precision(plan), "bytes",
                                   bytes_json(x), "total", (json_int_t)(x.weight + x.grad + x.optim)), JSON_INDENT(2));
}

static void print_line(const struct plan *plan, double params, struct state_bytes x) {
    char cp[48] = "";
    if (plan->mesh.cp > 1) snprintf(cp, sizeof cp, " cp=%" PRId64, plan->mesh.cp);
    printf("%.0f parameters, dp=%" PRId64 "%s zero=%" PRId64 " %s: a rank keeps %.4g GB (1e9 bytes) of model states: "
           "%.4g param + %.4g grad + %.4g optim\n",
           params, plan->mesh.dp ? plan->mesh.dp : 1, cp, plan_number(plan, "zero"), show_precision(plan),
           (x.weight + x.grad + x.optim) / 1e9, x.weight / 1e9, x.grad / 1e9, x.optim / 1e9);
}

enum status show_params(const struct plan *asked, double params, bool json) {
    struct plan settled = *asked, *plan = &settled;
    TRY(refuse_the_rest(plan));
    TRY(settle(plan));
    struct state_bytes x = bytes_of(plan, params);
    if (json) return print_json(plan, params, x);
    print_line(plan, params, x);
    return OK;
}

/* ---- as a page: the four stages of ZeRO ---- */
enum status show_params_page(const struct plan *asked, double params, const char *dir, bool json) {
    enum { N_STAGES = 4, TITLE_BYTES = 128 };
    struct plan plan = *asked;
    char title[TITLE_BYTES];
    TRY(refuse_the_rest(&plan));
    const int64_t local_steps = plan_number(&plan, "local-steps");
    if (local_steps)
        return FAIL(E_CONFIG, "the page is of zero's stages, which local-steps=%" PRId64 " excludes; leave "
                              "local-steps or out out", local_steps);
    TRY(settle(&plan));
    json_t *stages = json_array();
    for (int zero = 0; zero < N_STAGES; zero++) {
        plan_set_number(&plan, "zero", zero);
        json_array_append_new(stages, bytes_json(bytes_of(&plan, params)));
    }
    snprintf(title, sizeof title, "Model states of a rank: %.4g%s parameters, dp=%" PRId64 ", %s",
             params < 1e9 ? params : params / 1e9, params < 1e9 ? "" : " billion", plan.mesh.dp ? plan.mesh.dp : 1,
             show_precision(&plan));
    return report_page(dir, "memory", json_pack("{s:s, s:s, s:o}", "kind", "states", "title", title, "stages", stages),
                       json);
}
