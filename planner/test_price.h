/* Plans to price, and clusters to price them on. */
#pragma once

#include "driver/recipe.h"
#include "planner/search.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/test.h"
#include "tp/tp.h"
#include "zero/zero.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static inline struct plan plan_of(int dp, int tp, int pp) {
    struct plan p;
    assert_ok(recipe_plan(&p));
    snprintf(p.model, sizeof p.model, "priced");
    p.layers = 16, p.hidden = 1024, p.heads = 16, p.seq = 1024, p.vocab = 8192, p.global_batch = 64, p.micro_batch = 2;
    p.precision = PRECISION_BF16, p.device = PLAN_DEVICE_CUDA;
    p.mesh.dp = dp ? dp : 1, p.mesh.tp = tp ? tp : 1, p.mesh.pp = pp ? pp : 1;
    return p;
}
static inline struct price price_of(struct plan p, const struct cluster *c) {
    struct price price;
    assert_ok(plan_settle(&p, 0));
    assert_ok(price_plan(&train_recipe, &p, c, NULL, &price));
    return price;
}
static inline struct cluster gpus(void) {
    struct cluster c;
    assert_ok(cluster_read("dgx-a100", &c));
    return c;
}
static inline double sum_of(const struct price *p) {
    double sum = 0;
    for (int i = 0; i < N_PRICE_PHASES; i++) sum += p->phase_s[i];
    return sum;
}

/* Set *p to layout i of a list that has every kind of layout; false: the list has no layout i. */
static inline bool layout(int i, struct plan *p) {
    static const struct layout { int dp, tp, pp, cp, ep, schedule, chunks, zero, recompute, sp, offload; } LAYOUTS[] = {
        {.dp = 1}, {.dp = 16, .zero = 1}, {.dp = 8, .zero = 3}, {.tp = 8, .sp = 1, .recompute = RECOMPUTE_SELECTIVE},
        {.tp = 16}, {.dp = 2, .tp = 4, .pp = 4, .recompute = RECOMPUTE_FULL},
        {.pp = 4, .schedule = SCHEDULE_INTERLEAVED, .chunks = 4},
        {.dp = 4, .tp = 2, .pp = 2, .schedule = SCHEDULE_ZB_H1, .zero = 2, .sp = 1},
        {.tp = 2, .pp = 8, .schedule = SCHEDULE_ZB_V}, {.cp = 4}, {.dp = 4, .tp = 2, .ep = 4, .zero = 1},
        {.dp = 2, .cp = 2, .tp = 2, .pp = 2, .ep = 4, .zero = 1, .sp = 1, .recompute = RECOMPUTE_FULL},
        {.dp = 4, .pp = 2, .zero = 1, .offload = OFFLOAD_OPTIMIZER}, {.dp = 8, .zero = 3, .offload = OFFLOAD_PARAMS}};
    if (i == sizeof LAYOUTS / sizeof *LAYOUTS) return false;
    const struct layout *l = &LAYOUTS[i];
    *p = plan_of(l->dp, l->tp, l->pp);
    p->mesh.cp = l->cp, p->mesh.ep = l->ep;
    if (l->ep) model_options(p)->experts = 8, model_options(p)->experts_per_token = 2;
    pp_options(p)->schedule = l->schedule ? l->schedule : SCHEDULE_1F1B;
    pp_options(p)->chunks = l->chunks ? l->chunks : 1;
    plan_set_number(p, "zero", l->zero), recompute_options(p)->kind = l->recompute, plan_set_number(p, "sp", l->sp);
    zero_options(p)->offload = l->offload;
    return true;
}

/* Nothing hides anything, and nothing is slowed down. */
static inline struct cluster bare(void) {
    struct cluster c = gpus();
    c.overlap_part = 0, c.overlap_slowdown = 0;
    return c;
}
