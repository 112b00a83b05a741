#include "driver/show/show_params.h"

#include "driver/chart/memory_chart.h"
#include "driver/command.h"
#include "lib/run/recipe.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* What a rank keeps of them all: the optimizer's states, and what techniques make of that. */
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
                              "params out",
                    plan->mesh.ep);
    const int64_t local_steps = plan_number(plan, "local-steps"), zero = plan_number(plan, "zero");
    if (local_steps && zero)
        return FAIL(E_CONFIG, "local-steps=%" PRId64 " has states that replicas do not share, and zero=%" PRId64
                              " shards what they share; leave one of them out",
                    local_steps, zero);
    if (plan_number(plan, "offload"))
        return FAIL(E_CONFIG, "params counts bytes on the device, and offload moves some to the host; leave offload or "
                              "params out");
    return OK;
}

/* Settles as plan_settle does, which needs a batch. */
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

static const char *precision_name(const struct plan *plan) {
    static const char *const names[] = {"fp32", "fp64", "bf16", "fp16"};
    return names[plan->precision];
}

static enum status print_json(const struct plan *plan, double params, struct state_bytes x) {
    json_t *bytes = json_pack("{s:I, s:I, s:I}", "param", (json_int_t)x.weight, "grad", (json_int_t)x.grad, "optim",
                              (json_int_t)x.optim);
    return command_print(json_pack("{s:I, s:I, s:I, s:s, s:o, s:I}", "parameters", (json_int_t)params, "dp",
                                   (json_int_t)(plan->mesh.dp ? plan->mesh.dp : 1), "zero",
                                   (json_int_t)plan_number(plan, "zero"), "precision", precision_name(plan), "bytes",
                                   bytes, "total", (json_int_t)(x.weight + x.grad + x.optim)),
                         JSON_INDENT(2));
}

static void print_line(const struct plan *plan, double params, struct state_bytes x) {
    char cp[48] = "";
    if (plan->mesh.cp > 1) snprintf(cp, sizeof cp, " cp=%" PRId64, plan->mesh.cp);
    printf("%.0f parameters, dp=%" PRId64 "%s zero=%" PRId64 " %s: a rank keeps %.4g GB (1e9 bytes) of model states: "
           "%.4g param + %.4g grad + %.4g optim\n",
           params, plan->mesh.dp ? plan->mesh.dp : 1, cp, plan_number(plan, "zero"), precision_name(plan),
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

/* ---- as a picture: the four stages of ZeRO, a name and under it a bar each ---- */
enum { LEFT = CHART_MARGIN, RIGHT = CHART_WIDTH - CHART_MARGIN - 84, NAME_LINE = 19, BAR = 15, STAGE = 46, N_STAGES = 4,
       TOP = 38, AXIS = 44, TITLE_BYTES = 128 };
static const char UNIT[] = "GB (1e9 bytes)";

static double x_of(const struct chart_scale *s, double value) {
    return LEFT + (RIGHT - LEFT) * chart_scale_at(s, value);
}

static void draw_axis(FILE *f, const struct chart_scale *s, double top, double bottom) {
    char text[CHART_NUMBER_BYTES];
    for (int i = 0; i <= s->n_steps; i++) {
        double x = x_of(s, i * s->step);
        chart_line(f, x, top, x, bottom + 4, CHART_GRID, false);
        chart_label(f, x, bottom + 18, CHART_MIDDLE, chart_number(i * s->step, text), CHART_NUMBER_BYTES);
    }
    chart_line(f, LEFT, bottom, RIGHT, bottom, CHART_INK, false);
    chart_label(f, RIGHT, bottom + 35, CHART_RIGHT, UNIT, 110);
}

static double draw_part(FILE *f, const struct chart_scale *s, enum role role, double from, double part, double y) {
    char hint[64], number[CHART_NUMBER_BYTES];
    const struct chart_series *of = &memory_chart_roles[role];
    double x = x_of(s, from);
    snprintf(hint, sizeof hint, "%s: %s %s", of->name, chart_number(part, number), UNIT);
    if (part > 0) chart_box(f, x, y, x_of(s, from + part) - x, BAR, of->colour, hint);
    return from + part;
}

static void draw_stage(FILE *f, const struct chart_scale *s, int zero, const struct state_bytes *x, double y) {
    static const char *const names[N_STAGES] = {"zero=0: every rank has all of it", "zero=1: optimizer states sharded",
                                                "zero=2: and gradients", "zero=3: and weights"};
    char number[CHART_NUMBER_BYTES];
    chart_words(f, CHART_MARGIN, y + 14, CHART_LEFT, names[zero], 118, " font-weight=\"bold\"");
    double end = draw_part(f, s, ROLE_PARAM, 0, x->weight / 1e9, y + NAME_LINE);
    end = draw_part(f, s, ROLE_GRAD, end, x->grad / 1e9, y + NAME_LINE);
    end = draw_part(f, s, ROLE_OPTIM, end, x->optim / 1e9, y + NAME_LINE);
    chart_label(f, x_of(s, end) + 6, y + NAME_LINE + 12, CHART_LEFT, chart_number(end, number), CHART_NUMBER_BYTES);
}

static void draw_stages(struct plan *plan, double params, FILE *f) {
    const unsigned used = 1u << ROLE_PARAM | 1u << ROLE_GRAD | 1u << ROLE_OPTIM;
    const double top = chart_legend(NULL, memory_chart_roles, N_ROLES, used, TOP) + 4, bottom = top + N_STAGES * STAGE;
    struct state_bytes x[N_STAGES];
    char title[TITLE_BYTES];
    for (int zero = 0; zero < N_STAGES; zero++) {
        plan_set_number(plan, "zero", zero);
        x[zero] = bytes_of(plan, params);
    }
    const struct chart_scale scale = chart_scale_of(x[0].weight / 1e9 + x[0].grad / 1e9 + x[0].optim / 1e9);
    snprintf(title, sizeof title, "Model states of a rank: %.4g%s parameters, dp=%" PRId64 ", %s",
             params < 1e9 ? params : params / 1e9, params < 1e9 ? "" : " billion", plan->mesh.dp ? plan->mesh.dp : 1,
             precision_name(plan));
    chart_open(f, CHART_WIDTH, bottom + AXIS, title);
    chart_legend(f, memory_chart_roles, N_ROLES, used, TOP);
    draw_axis(f, &scale, top, bottom);
    for (int zero = 0; zero < N_STAGES; zero++) draw_stage(f, &scale, zero, &x[zero], top + zero * STAGE);
    chart_close(f);
}

enum status show_params_svg(const struct plan *asked, double params, const char *path) {
    struct plan plan = *asked;
    TRY(refuse_the_rest(&plan));
    const int64_t local_steps = plan_number(&plan, "local-steps");
    if (local_steps)
        return FAIL(E_CONFIG, "the picture is of zero's stages, which local-steps=%" PRId64 " excludes; leave "
                              "local-steps or svg out",
                    local_steps);
    TRY(settle(&plan));
    FILE *f;
    TRY(chart_file_open(path, &f));
    draw_stages(&plan, params, f);
    return chart_file_close(path, f);
}
