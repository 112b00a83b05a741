#include "tests/combinations.h"

#include "cp/cp.h"
#include "dp_variants/main_rank/main_rank.h"
#include "dp_variants/server/server.h"
#include "driver/recipe.h"
#include "models/t5/t5.h"
#include "park/park.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp.h"
#include "zero/zero.h"
#include <string.h>

static const struct { int by, heads; } CP_FORMS[] = {
    {CP_BY_RING, 1}, {CP_BY_RING, 2}, {CP_BY_ULYSSES, 1}, {CP_BY_GATHER, 1}};
static const int EPS[] = {1, 2, 4};
static const struct { const char *arch; int experts; } MODELS[] = {
    {"gpt", 0}, {"gpt", 8}, {"llama", 0}, {"mixtral", 8}, {"bert", 0}, {"t5", 0}};
static const struct { int zero, offload, shard, second, main, servers; } SUMS[] = {
    {.zero = 0}, {.zero = 1}, {.zero = 2}, {.zero = 3}, {.zero = 1, .offload = OFFLOAD_OPTIMIZER},
    {.zero = 2, .offload = OFFLOAD_OPTIMIZER}, {.zero = 3, .offload = OFFLOAD_OPTIMIZER},
    {.zero = 3, .offload = OFFLOAD_PARAMS}, {.zero = 1, .shard = 2}, {.zero = 2, .shard = 2}, {.zero = 3, .shard = 2},
    {.zero = 3, .offload = OFFLOAD_OPTIMIZER, .shard = 2},
    {.zero = 3, .second = 2}, {.zero = 3, .offload = OFFLOAD_PARAMS, .second = 2},
    {.main = DP_STYLE_MAIN}, {.servers = 1}, {.servers = 2}};
static const struct { int kind, n; } RECOMPUTES[] = {
    {RECOMPUTE_NONE, 0}, {RECOMPUTE_SELECTIVE, 0}, {RECOMPUTE_FULL, 0}, {RECOMPUTE_UNIFORM, 2}, {RECOMPUTE_BLOCK, 1}};
static const struct { int kind, chunks; } SCHEDULES[] = {
    {SCHEDULE_GPIPE, 1}, {SCHEDULE_1F1B, 1}, {SCHEDULE_INTERLEAVED, 2}, {SCHEDULE_INTERLEAVED, 4}};
static const struct { int kind, n; } PARKS[] = {{PARK_NONE, 0}, {PARK_ATTENTION, 0}, {PARK_ALL, 0}, {PARK_BLOCK, 1}};
static const int MICROS[] = {1, 2};
static const struct { int attention, masks, loss_chunk; } CORES[] = {
    {ATTENTION_BLOCKED, MASKS_REDRAW, 0}, {ATTENTION_BLOCKED, MASKS_REDRAW, 5},
    {ATTENTION_MATERIALISED, MASKS_REDRAW, 5}, {ATTENTION_MATERIALISED, MASKS_STORE, 0}};
#define COUNT(x) ((int)(sizeof(x) / sizeof *(x)))
_Static_assert(COUNT(MODELS) == COMBINATION_MODELS, "as the header says");

static struct { int dp, cp, tp, pp; } shapes[MAX_VALUES];
static int n_shapes;

void combinations_of_world(int world) {
    n_shapes = 0;
    for (int dp = 1; dp <= world; dp++)
        for (int cp = 1; dp * cp <= world; cp++)
            for (int tp = 1; dp * cp * tp <= world; tp++)
                if (world % (dp * cp * tp) == 0) {
                    shapes[n_shapes].dp = dp;
                    shapes[n_shapes].cp = cp;
                    shapes[n_shapes].tp = tp;
                    shapes[n_shapes++].pp = world / (dp * cp * tp);
                }
}

const int *combination_choices(void) {
    static int n[N_CHOICES] = {
        [CP_FORM] = COUNT(CP_FORMS), [EP] = COUNT(EPS), [SP] = 2, [SUM] = COUNT(SUMS),
        [RECOMPUTE] = COUNT(RECOMPUTES), [SCHEDULE] = COUNT(SCHEDULES), [MODEL] = COUNT(MODELS),
        [CORE] = COUNT(CORES), [PARK] = COUNT(PARKS), [MICRO] = COUNT(MICROS)};
    n[SHAPE] = n_shapes;
    return n;
}

/* The model alone, on one rank. Groups of two tokens compete for one place of each expert, so a third of the choices is
 * dropped. Mixtral drops none, and its rows are packed. */
struct plan combination_model(int model) {
    const char *arch = MODELS[model].arch;
    struct plan p = parity_plan();
    struct model_options *m = model_options(&p);
    assert_ok(recipe_arch(&p, arch));
    if (!strcmp(arch, "llama") || !strcmp(arch, "mixtral")) m->kv_heads = p.heads / 2, m->ffn = 24, m->tie = 0;
    m->experts = MODELS[model].experts;
    if (m->experts) m->experts_per_token = 2, m->moe_group = 2, m->capacity = 1, m->aux_loss = 0.05;
    if (!strcmp(arch, "mixtral")) m->capacity = 0, m->moe_packed = 1;
    if (!strcmp(arch, "t5")) p.seq = 16, t5_options(&p)->noise = 0.25, t5_options(&p)->span = 1;   /* 16 tokens and 8 */
    return p;
}

/* The plan of a combination; false when a technique refuses it. */
bool combination_plan(const struct combination *c, struct plan *p) {
    const int *v = c->value;
    *p = combination_model(v[MODEL]);
    p->mesh.dp = shapes[v[SHAPE]].dp;
    p->mesh.cp = shapes[v[SHAPE]].cp;
    p->mesh.tp = shapes[v[SHAPE]].tp;
    p->mesh.pp = shapes[v[SHAPE]].pp;
    p->mesh.ep = EPS[v[EP]];
    p->mesh.cp_heads = CP_FORMS[v[CP_FORM]].heads;
    cp_options(p)->by = CP_FORMS[v[CP_FORM]].by;
    plan_set_number(p, "sp", v[SP]);
    plan_set_number(p, "zero", SUMS[v[SUM]].zero);
    zero_options(p)->offload = SUMS[v[SUM]].offload;
    zero_options(p)->shard = SUMS[v[SUM]].shard;
    zero_options(p)->secondary = SUMS[v[SUM]].second;
    main_rank_options(p)->style = SUMS[v[SUM]].main;
    server_options(p)->servers = SUMS[v[SUM]].servers;
    recompute_options(p)->kind = RECOMPUTES[v[RECOMPUTE]].kind;
    recompute_options(p)->n = RECOMPUTES[v[RECOMPUTE]].n;
    park_options(p)->kind = PARKS[v[PARK]].kind;
    park_options(p)->n = PARKS[v[PARK]].n;
    pp_options(p)->schedule = SCHEDULES[v[SCHEDULE]].kind;
    pp_options(p)->chunks = SCHEDULES[v[SCHEDULE]].chunks;
    p->micro_batch = MICROS[v[MICRO]];
    model_options(p)->attention = CORES[v[CORE]].attention;
    model_options(p)->dropout_masks = CORES[v[CORE]].masks;
    p->loss_chunk = CORES[v[CORE]].loss_chunk;
    if (!strcmp(MODELS[v[MODEL]].arch, "t5") && p->mesh.cp > 1) return false;   /* models/t5/t5.c */
    enum status status = plan_settle(p, plan_ranks(p));
    for (int i = 0; i < train_recipe.n_techniques && status == OK; i++) {
        const struct technique *t = train_recipe.techniques[i];
        if (t->wanted(p) && t->check) status = t->check(p);
    }
    status_clear();
    return status == OK;
}

const char *combination_arch(int model) { return MODELS[model].arch; }

int combination_count(int n_choices) {
    int total = 1;
    for (int i = 0; i < n_choices; i++) total *= combination_choices()[i];
    return total;
}

struct combination combination_of(int k) {
    const int *n = combination_choices();
    struct combination c = {{0}};
    for (int i = 0; i < N_CHOICES; k /= n[i++]) c.value[i] = k % n[i];
    return c;
}
