#include "planner/price_stage.h"

#include "lib/base/grow.h"
#include "lib/base/integer.h"
#include "lib/cost/op_time.h"
#include "lib/cost/timeline.h"
#include "planner/layout.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *price_phase_name(enum price_phase p) {
    static const char *const NAMES[N_PRICE_PHASES] = {"products", "memory", "casts", "replay", "tp",     "cp",     "ep",
                                                      "bubble",   "pp",     "dp",    "gather", "optim", "offload"};
    return (unsigned)p < N_PRICE_PHASES ? NAMES[p] : "?";
}

/* wire: 1, or 0 where messages take no time */
struct stages { struct stage *at; int n; double wire; struct run_stem *stem; };

static enum status compile_stage(const struct recipe *recipe, const struct plan *plan, struct stages *s, int i) {
    if (s->at[i].like) return OK;
    s->at[i].like = &s->at[i];
    return run_compile_stage(&s->at[i].run, recipe, plan, i, s->n, s->stem);
}

static int64_t room_of(const struct cluster *c) { return c->memory_bytes - c->reserve_bytes; }
/* A stack's fragments are part of role work. */
static void bytes_of(const struct run *r, const struct cluster *c, int64_t bytes[N_ROLES]) {
    memcpy(bytes, r->memory.bytes[TIER_DEVICE], N_ROLES * sizeof *bytes);
    if (c->stack.in_place) bytes[ROLE_COMM] = 0;
    bytes[ROLE_WORK] += (int64_t)(c->stack.fragments * (double)roles_total(bytes));
}
static int64_t total_of(const struct run *r, const struct cluster *c) {
    int64_t bytes[N_ROLES];
    bytes_of(r, c, bytes);
    return roles_total(bytes);
}

static bool alike(const struct run *a, const struct run *b) {
    return a->program.n_steps == b->program.n_steps && a->program.n_chunks == b->program.n_chunks &&
           a->memory.bytes[TIER_DEVICE][ROLE_PARAM] == b->memory.bytes[TIER_DEVICE][ROLE_PARAM];
}

/* If two stages are alike, all stages between them are, too, and need no more memory: layers are equal, and the stages
 * with one more layer are neighbors. uneven: stages may differ, so each is compiled. */
static enum status compile_between(const struct recipe *recipe, const struct plan *plan, bool uneven, struct stages *s,
                                   int first, int last) {
    int middle = (first + last) / 2;
    if (last - first < 2) return OK;
    if (!uneven && alike(&s->at[first].run, &s->at[last].run)) {
        for (int i = first + 1; i < last; i++) s->at[i].like = &s->at[first];
        return OK;
    }
    TRY(compile_stage(recipe, plan, s, middle));
    TRY(compile_between(recipe, plan, uneven, s, first, middle));
    return compile_between(recipe, plan, uneven, s, middle, last);
}

/* c: of several, the one with the most room. */
static enum status compile_stages(const struct recipe *recipe, const struct plan *plan, const struct price_wish *wish,
                                  const struct cluster *c, struct stages *s) {
    enum { ENDS = 4 };
    const int ends[ENDS] = {0, s->n - 1, s->n > 1 ? 1 : 0, s->n > 1 ? s->n - 2 : 0};
    for (int i = 0; i < ENDS; i++) {
        TRY(compile_stage(recipe, plan, s, ends[i]));
        if (wish->one_is_enough && total_of(&s->at[ends[i]].run, c) > room_of(c)) return OK;
    }
    return compile_between(recipe, plan, wish->uneven, s, 1, s->n - 2);
}

static int threads_of(const struct plan *p, const struct cluster *c) {
    int64_t given = p->threads > 0 ? p->threads : c->cores / plan_ranks(p);
    return (int)max64(1, min64(given, c->cores));
}

/* A rank of n threads computes and moves n times as much in a second. If ranks outnumber cores, a rank that waits for
 * an operation leaves its core, and returns later with cold caches. */
static struct cluster rank_of(const struct cluster *core, const struct plan *p) {
    struct cluster c = *core;
    int threads = threads_of(p, core);
    if (plan_ranks(p) <= c.cores) c.switch_s = c.cold_s = 0;
    for (int d = 0; d < N_DTYPES; d++) c.flops_per_s[d] *= threads;
    for (int i = 0; i < c.n_movers; i++) c.mover[i].bytes_per_s *= threads;
    c.memory_bytes_per_s *= threads;
    return c;
}

static enum status price_stages(const struct plan *p, const struct cluster *c, struct stages *s) {
    struct cluster rank = c->cores ? rank_of(c, p) : *c;
    for (int i = 0; i < s->n; i++)
        if (s->at[i].like == &s->at[i]) TRY(price_stage(&rank, &s->at[i]));
    return OK;
}

static double time_of(const void *self, int stage, const struct action *a) {
    const struct stages *s = self;
    const struct stage *g = s->at[stage].like;
    return action_is_compute(a->kind) ? g->chunk[a->chunk].tape[a->kind] : s->wire * g->send_s;
}

static enum status run_schedules(struct stages *s, double wire, struct timeline *out) {
    const struct schedule *schedules = s->stem->schedules;
    int depth = schedules[0].send_depth;
    s->wire = wire;
    return timeline_make(schedules, s->n, depth > 1 ? depth : 1, time_of, s, out);
}

static enum status time_line(struct stages *s, double wire, double *makespan) {
    struct timeline t = {0};
    enum status status = run_schedules(s, wire, &t);
    *makespan = t.makespan;
    timeline_fini(&t);
    return status;
}

static int layers_of(const struct program *p) {
    int n = 0;
    for (int b = 0; b < p->n_blocks; b++) n += p->blocks[b].is_layer && p->blocks[b].chunk >= 0;
    return n;
}

static void judge_memory(const struct stages *s, const struct cluster *c, struct price *out) {
    for (int i = 0; i < s->n; i++) {
        if (!s->at[i].like) continue;                                /* not compiled: another stage is too full */
        const struct run *r = &s->at[i].like->run;
        int64_t total = total_of(r, c), host = 0;
        for (int role = 0; role < N_ROLES; role++) host += role == ROLE_SAVE ? 0 : r->memory.bytes[TIER_HOST][role];
        out->host_bytes = max64(out->host_bytes, host);
        out->stage[i] = (struct stage_price){.bytes = total, .layers = layers_of(&r->program)};
        if (i && total <= out->total_bytes) continue;
        out->total_bytes = total, out->fullest = i;
        bytes_of(r, c, out->bytes);
    }
    out->fits = out->total_bytes <= room_of(c);
}

/* ---- ranks that share cores ---- */
static double messages_of(const struct schedule *s) {
    int n = 0;
    for (int i = 0; i < s->n; i++) n += !action_is_compute(s->actions[i].kind);
    return n;
}

/* The sender of a message copies it, and so does the receiver. @return the sum of the phases */
static double work_of_all(const struct plan *p, const struct stages *s, double phase_s[N_PRICE_PHASES]) {
    double ranks = (double)plan_ranks(p) / s->n, sum = 0;
    for (int i = 0; i < s->n; i++) {
        const struct stage *g = s->at[i].like;
        for (int k = 0; k < N_PRICE_PHASES; k++) phase_s[k] += ranks * (g->phase_s[k] + g->end_s[k]);
        phase_s[PRICE_PP] += ranks * messages_of(&s->stem->schedules[i]) * (g->send_s + g->cold_s);
    }
    for (int k = 0; k < N_PRICE_PHASES; k++) sum += phase_s[k];
    return sum;
}

static void share_cores(const struct plan *p, const struct cluster *c, const struct stages *s, struct price *out) {
    double phase_s[N_PRICE_PHASES] = {0}, all_s = work_of_all(p, s, phase_s), threads = threads_of(p, c);
    double at_once = (double)c->cores / threads;
    for (int i = 0; i < s->n; i++) {
        const struct stage *g = s->at[i].like;
        out->work_s += threads * plan_ranks(p) / s->n * (g->own_s + messages_of(&s->stem->schedules[i]) * g->cold_s);
    }
    if (all_s / at_once < out->step_s) return;
    out->step_s = all_s / at_once;
    for (int k = 0; k < N_PRICE_PHASES; k++) out->phase_s[k] = phase_s[k] / at_once;
}

static double processors(const struct plan *p, const struct cluster *c) {
    double ranks = mesh_n_ranks(&p->mesh);
    return c->cores ? fmin(ranks * threads_of(p, c), (double)c->cores) : ranks;
}

static enum status add_up(const struct plan *p, const struct cluster *c, bool only_the_step, struct stages *s,
                          struct price *out) {
    double with_wire, without = 0;
    int last = 0;
    TRY(time_line(s, 1, &with_wire));
    if (!only_the_step) TRY(time_line(s, 0, &without));
    for (int i = 0; i < s->n; i++) {
        out->stage[i].s = s->at[i].like->busy_s;
        if (s->at[i].busy_s > s->at[out->busiest].busy_s) out->busiest = i;
        if (stage_end_s(&s->at[i]) > stage_end_s(&s->at[last])) last = i;
    }
    for (int i = 0; i < N_PRICE_PHASES; i++)
        out->phase_s[i] = s->at[out->busiest].phase_s[i] + s->at[last].end_s[i];
    out->forward_s = s->at[out->busiest].forward_s;
    if (!only_the_step) {
        out->phase_s[PRICE_BUBBLE] = without - s->at[out->busiest].busy_s;
        out->phase_s[PRICE_PP] = with_wire - without;
    }
    out->step_s = with_wire + stage_end_s(&s->at[last]);
    if (c->cores) share_cores(p, c, s, out);
    double flops = p->arch->flops_per_token(p) * (double)p->global_batch * (double)p->seq;
    out->mfu = flops / (out->step_s * processors(p, c) * c->flops_per_s[plan_product_dtype(p)]);
    return OK;
}

static void stages_fini(struct stages *s) {
    for (int i = 0; s->at && i < s->n; i++) {
        if (s->at[i].like == &s->at[i]) run_destroy(&s->at[i].run);
        free(s->at[i].chunk);
    }
    free(s->at);
}

static enum status price_on(const struct plan *plan, const struct cluster *c, const struct price_wish *wish,
                            struct stages *s, struct price *out) {
    *out = (struct price){0};
    judge_memory(s, c, out);
    if (wish->only_if_it_fits && !out->fits) return OK;
    TRY(price_stages(plan, c, s));
    return add_up(plan, c, wish->only_the_step, s, out);
}

enum status price_check(const struct plan *plan, const struct cluster *c) {
    bool cuda = plan->device == PLAN_DEVICE_CUDA, offloads = cuda && layout_offloads(plan),
         parks = cuda && layout_parks(plan);
    int bits = plan_number(plan, "fp8-recipe") ? 4 : 8;              /* GPUs that have block scales multiply in fp4 */
    if (!(c->flops_per_s[plan_product_dtype(plan)] > 0))
        return FAIL(E_CONFIG, "%s has no peak in %s; give its tflops, or another precision", c->name,
                    dtype_name(plan_product_dtype(plan)));
    if (plan->optimizer == OPTIMIZER_MUON && !(c->flops_per_s[plan_dtype(plan)] > 0))
        return FAIL(E_CONFIG, "%s has no peak in %s, in which muon multiplies; give its tflops-%s, or use adamw",
                    c->name, dtype_name(plan_dtype(plan)), dtype_name(plan_dtype(plan)));
    if (cuda && plan_number(plan, "fp8") && !(c->flops_per_s[bits == 4 ? FP4_E2M1 : FP8_E4M3] > 0))
        return FAIL(E_CONFIG, "%s has no peak in fp%d; give its tflops-fp%d, or leave --fp8 out", c->name, bits, bits);
    if (offloads && !(c->host_bytes_per_s > 0 && c->host_memory_bytes_per_s > 0))
        return FAIL(E_CONFIG, "%s: host-gbs=%g and host-memory-gbs=%g must both be above 0 for --offload; give them, "
                    "or use --offload none", c->name, c->host_bytes_per_s / 1e9, c->host_memory_bytes_per_s / 1e9);
    if (parks && !(c->host_bytes_per_s > 0))
        return FAIL(E_CONFIG, "%s: host-gbs=%g must be above 0 for --park; give it, or use --park none", c->name,
                    c->host_bytes_per_s / 1e9);
    if (plan_has_word(plan, "offload-to", "disk"))
        return FAIL(E_CONFIG, "offload-to=disk has no price: a cluster does not say how fast its disks are; use "
                    "--offload-to host (show memory says how fast a disk must be)");
    if (plan_serving(plan))
        return FAIL(E_CONFIG, "server-ranks=own has no price: a step waits for the servers' links, and only the first "
                    "replica is priced, a worker; use server-ranks shared");
    if (plan_is_asynchronous(plan))
        return FAIL(E_CONFIG, "steps that overlap have no seconds of their own to price; use %s",
                    plan_synchronous_option(plan));
    return OK;
}

enum status price_plan_on(const struct recipe *recipe, const struct plan *plan, const struct cluster *c, int n,
                          const struct price_wish *wish, struct price *out) {
    static const struct price_wish none = {.uneven = false};
    const struct cluster *largest = c;
    if (!wish) wish = &none;
    struct run_stem own = {.n_stages = 0};
    struct stages s = {.n = plan->mesh.pp ? (int)plan->mesh.pp : 1, .stem = wish->stem ? wish->stem : &own};
    for (int i = 0; i < n; i++) {
        TRY(price_check(plan, &c[i]));
        if (room_of(&c[i]) > room_of(largest)) largest = &c[i];
    }
    s.at = calloc((size_t)s.n, sizeof *s.at);
    enum status status = s.at ? compile_stages(recipe, plan, wish, largest, &s)
                              : FAIL(E_MEMORY, "no memory to price %d stages", s.n);
    for (int i = 0; i < n && status == OK; i++) status = price_on(plan, &c[i], wish, &s, &out[i]);
    stages_fini(&s);
    run_stem_fini(&own);
    return status;
}

enum status price_plan(const struct recipe *recipe, const struct plan *plan, const struct cluster *c,
                       const struct price_wish *wish, struct price *out) {
    return price_plan_on(recipe, plan, c, 1, wish, out);
}

enum status price_profile(const struct run *r, const struct cluster *c, struct profile_forecast *out) {
    const struct cluster rank = c->cores ? rank_of(c, &r->plan) : *c;
    TRY(price_check(&r->plan, c));
    *out = (struct profile_forecast){.row_s = calloc((size_t)r->program.n_steps + 1, sizeof *out->row_s)};
    if (!out->row_s) return FAIL(E_MEMORY, "no memory to price %d steps", r->program.n_steps);
    price_each_row(&rank, r, out->row_s);
    out->update_s = price_update_seconds(&rank, r);
    return OK;
}

enum status price_time_line(const struct recipe *recipe, const struct plan *plan, const struct cluster *c, bool uneven,
                            struct price_time_line *out) {
    const struct price_wish wish = {.uneven = uneven};
    struct run_stem stem = {.n_stages = 0};
    struct stages s = {.n = plan->mesh.pp ? (int)plan->mesh.pp : 1, .stem = &stem};
    *out = (struct price_time_line){.n_stages = s.n};
    TRY(price_check(plan, c));
    s.at = calloc((size_t)s.n, sizeof *s.at);
    enum status status = s.at ? compile_stages(recipe, plan, &wish, c, &s)
                              : FAIL(E_MEMORY, "no memory to price %d stages", s.n);
    if (status == OK) status = price_stages(plan, c, &s);
    if (status == OK) status = run_schedules(&s, 1, &out->timeline);
    out->schedules = stem.schedules, stem.schedules = table_new(s.n, sizeof *stem.schedules);   /* now out's */
    stages_fini(&s);
    run_stem_fini(&stem);
    return status;
}

void price_time_line_fini(struct price_time_line *t) {
    for (int i = 0; t->schedules && i < t->n_stages; i++) schedule_fini(&t->schedules[i]);
    free(t->schedules);
    timeline_fini(&t->timeline);
    *t = (struct price_time_line){0};
}
