#include "tests/layouts.h"

#include "cp/cp.h"
#include "dp_variants/main_rank/main_rank.h"
#include "dp_variants/server/server.h"
#include "driver/recipe.h"
#include "lib/base/integer.h"
#include "lib/comm/comm_backend.h"
#include "lib/run/sent.h"
#include "park/park.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/test.h"
#include "tp/tp.h"
#include "zero/zero.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plan parity_plan(void) {
    static struct plan of_options;
    struct plan p;
    if (!of_options.recipe) assert_ok(recipe_plan(&of_options));       /* the same each time, and slow to make */
    p = of_options;
    snprintf(p.model, sizeof p.model, "parity");
    p.layers = p.heads = p.seq = 8;
    p.hidden = p.global_batch = p.micro_batch = 16;
    p.vocab = 131;
    model_options(&p)->dropout = 0.1;
    p.steps = 20;
    p.lr = 1e-2;
    p.min_lr = 1e-3;
    p.eps = 1e-6;
    p.clip = 0.5;
    p.precision = PRECISION_FP64;
    p.device = PLAN_DEVICE_CPU;
    p.mesh.dp = 1;
    grad_options(&p)->bucket_mb = 0.01;
    return p;
}

static const char *if_more(char text[32], const char *name, int64_t n, int64_t usual) {
    text[0] = 0;
    if (n != usual) snprintf(text, 32, " %s%d", name, (int)n);
    return text;
}

const char *layout_name(const struct plan *p) {
    const struct model_options *m = model_options(p);
    static const char *const offloads[] = {"", " offload-optimizer", " offload-params"};
    static const char *const recomputes[] = {"", " selective", " full", " uniform", " block"};
    static const char *const parks[] = {"", " park-attention", " park-all", " park-block"};
    static const char *const styles[] = {"", " main"};
    static const char *const cp_forms[] = {"ring", "ulysses", "gather"};
    static char name[256];
    char chunks[32], zero[32], shard[32], servers[32], ep[32], cp[64] = "";
    const struct pp_options *pipe = pp_options(p);
    const struct zero_options *z = zero_options(p);
    if (p->mesh.cp > 1)
        snprintf(cp, sizeof cp, "cp%d %s heads%d ", (int)p->mesh.cp, cp_forms[cp_options(p)->by],
                 (int)p->mesh.cp_heads);
    snprintf(name, sizeof name, "%sdp%d%s tp%d pp%d%s %s%s micro%d%s%.40s%s%s%s%s%s%s%s%s%s%s", cp, (int)p->mesh.dp,
             if_more(ep, "ep", p->mesh.ep, 1), (int)p->mesh.tp, (int)p->mesh.pp, plan_number(p, "sp") ? " sp" : "",
             pp_row(p)->name, if_more(chunks, "chunks", pipe->chunks, 1), (int)p->micro_batch,
             pipe->split[0] ? " split " : "", pipe->split, if_more(zero, "zero", z->stage, 0),
             if_more(shard, z->secondary ? "second" : "shard", p->mesh.shard, 0), offloads[z->offload],
             recomputes[recompute_options(p)->kind], m->attention == ATTENTION_MATERIALISED ? " materialised" : "",
             m->dropout_masks == MASKS_STORE ? " stored" : "", p->loss_chunk > 0 ? " loss-chunk" : "",
             parks[park_options(p)->kind], styles[main_rank_options(p)->style],
             if_more(servers, "servers", server_options(p)->servers, 0));
    return name;
}

/* ---- data: the demonstration text, opened once ---- */
enum status layout_use_demo(struct run *r) {
    static struct data_file *file;
    struct data_split train, val;
    if (!file) TRY(data_open("configs/demo.txt", &file));
    TRY(data_split_tail(file, r->plan.seq, 0.1, &train, &val));
    run_set_data(r, &train, &val);
    return OK;
}

enum status layout_open(struct run *r, struct plan p, enum run_watch watch) {
    memset(r, 0, sizeof *r);
    TRY(plan_settle(&p, comm_world_size()));
    TRY(run_create(r, &train_recipe, &p, watch));
    return layout_use_demo(r);
}

/* ---- reading device memory ---- */
/* A copy in host memory of n elements of device memory; the caller frees it. NULL: the copy failed. */
static void *fetched(const struct device *device, const void *x, enum dtype dtype, int64_t n) {
    int64_t bytes = n * (int64_t)dtype_size(dtype);
    void *copy = malloc((size_t)bytes + 1);
    if (copy && device->download(device, copy, x, bytes) == OK) return copy;
    free(copy);
    return NULL;
}

static void *own_weight(const struct run *r, const struct param *w) {
    return fetched(run_tier_device(r, w->weight_tier), param_own_weight(w), w->type.dtype, w->own_n);
}
static void *own_grad(const struct run *r, const struct param *w) {
    return fetched(run_grad_device(r), param_own_grad(w), w->grad_type.dtype, w->own_n);
}

/* ---- the reference: always on the CPU ---- */
static double *as_double(const void *x, enum dtype dtype, int64_t n) {
    double *copy = malloc((size_t)n * sizeof *copy);
    for (int64_t i = 0; copy && i < n; i++) copy[i] = dtype_get(x, dtype, i);
    return copy;
}

static void remember(struct reference *ref, int step) {
    ref->loss[step] = ref->run.last.loss;
    ref->norm[step] = ref->run.last.grad_norm;
    for (int i = 0; i < ref->run.program.n_params; i++) {
        const struct param *w = &ref->run.program.params[i];
        ref->grad[step][i] = as_double(w->grad, w->grad_type.dtype, type_n(&w->type));
        if (step == PARITY_STEPS - 1) ref->weight[i] = as_double(w->weight, w->type.dtype, type_n(&w->type));
    }
}

enum status reference_init_with(struct reference *ref, const struct plan *plan, before_step *before, void *self) {
    struct plan p = *plan;
    memset(ref, 0, sizeof *ref);
    p.device = PLAN_DEVICE_CPU;
    p.loss_chunk = 0;                                                /* the plain form */
    TRY(plan_settle(&p, 1));
    TRY(run_create(&ref->run, &train_recipe, &p, WATCH_NOTHING));
    TRY(layout_use_demo(&ref->run));
    for (int s = 0; s < PARITY_STEPS; s++) {
        if (before) TRY(before(&ref->run, self));
        TRY(run_step(&ref->run));
        remember(ref, s);
    }
    return OK;
}

enum status reference_init(struct reference *ref, const struct plan *plan) {
    return reference_init_with(ref, plan, NULL, NULL);
}

void reference_fini(struct reference *ref) {
    for (int i = 0; i < MAX_PARAMS; i++) {
        free(ref->weight[i]);
        for (int s = 0; s < PARITY_STEPS; s++) free(ref->grad[s][i]);
    }
    run_destroy(&ref->run);
}

/* ---- comparing ---- */
static double worse(double a, double b) { return isnan(a) || isnan(b) ? NAN : a > b ? a : b; }
static double relative(double value, double reference) { return fabs(value - reference) / fabs(reference); }

/* A tensor of zeros (a bias that no step changes) is equal if there is no difference. */
static double share(double diff, double most) { return diff == 0 ? 0 : diff / most; }

static double largest(const double *x, int64_t n) {
    double max = 0;
    for (int64_t i = 0; i < n; i++) max = worse(max, fabs(x[i]));
    return max;
}

/* max |x - reference| over own elements, which are found by their global index. */
static double own_difference(const struct param *w, const void *own, enum dtype dtype, const double *reference,
                             double *padding) {
    double max = 0;
    for (int64_t i = 0; i < w->own_n; i++) {
        int64_t global = shape_global_index(&w->type.shape, w->own_first + i);
        double x = dtype_get(own, dtype, i);
        if (global < 0) *padding = worse(*padding, fabs(x));
        else max = worse(max, fabs(x - reference[global]));
    }
    return max;
}

static void compare_grads(const struct run *r, const struct reference *ref, int step, struct difference *d) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        int64_t n = type_n(&ref->run.program.params[i].type);
        if (!w->present) continue;
        void *own = own_grad(r, w);
        double diff = own ? own_difference(w, own, w->grad_type.dtype, ref->grad[step][i], &d->padding) : NAN;
        free(own);
        double error = share(diff, largest(ref->grad[step][i], n));
        d->grad = worse(d->grad, error);
        if (step == 0) d->first_grad = worse(d->first_grad, error);
    }
}

static void compare_weights(const struct run *r, const struct reference *ref, struct difference *d) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        int64_t n = type_n(&ref->run.program.params[i].type);
        if (!w->present) continue;
        void *own = own_weight(r, w);
        double diff = own ? own_difference(w, own, w->type.dtype, ref->weight[i], &d->padding) : NAN;
        free(own);
        d->weight = worse(d->weight, share(diff, largest(ref->weight[i], n)));
        d->weight_absolute = worse(d->weight_absolute, diff);
    }
}

static uint64_t hash(uint64_t h, const void *bytes, size_t n) {   /* FNV-1a */
    for (size_t i = 0; i < n; i++) h = (h ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
    return h;
}

static void hash_weights(const struct run *r, struct difference *d) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (!w->present) continue;
        void *own = own_weight(r, w);
        d->bits = own ? hash(d->bits, own, (size_t)w->own_n * dtype_size(w->type.dtype)) : 0;
        free(own);
    }
}

/* Every rank sends its marks to rank 0, which compiles the other ranks' programs and compares. */
static enum status compare_memory(const struct run *r, struct difference *d) {
    int64_t measured[N_TIERS][N_ROLES], all[64][N_TIERS][N_ROLES];
    TRY(run_measure(r, measured));
    TRY(comm_all_gather(group_world(), measured, all, sizeof measured, UINT8));
    for (int rank = 0; rank < plan_ranks(&r->plan) && comm_is_rank_0(); rank++) {
        struct run ghost;
        TRY(run_compile(&ghost, &train_recipe, &r->plan, rank, NULL, NULL));
        for (enum tier t = 0; t < N_TIERS; t++)
            for (enum role role = 0; role < N_ROLES; role++)
                d->memory = worse(d->memory, fabs((double)(all[rank][t][role] - ghost.memory.bytes[t][role])));
        run_destroy(&ghost);
    }
    return OK;
}

/* The number of operations in n steps. */
static int64_t operations(const struct bill *b, enum mesh_axis axis, enum comm_op op, int n_steps) {
    int64_t n = 0;
    for (int i = 0; i < b->n_exchanges; i++) {
        const struct exchange *x = &b->exchanges[i];
        if (x->axis == axis && x->op == op) n += exchange_operations(x) * (n_steps / (x->every > 0 ? x->every : 1));
    }
    return n;
}

static void compare_wire(const struct run *r, int n_steps, struct difference *d) {
    for (enum mesh_axis a = AXIS_TP; a < AXIS_MESH; a++) {
        double bytes = 0, billed = n_steps * r->bill.wire_bytes[a];
        const struct ledger *l = group_ledger(r->mesh.group[a]);
        for (int op = 0; op < N_COMM_OPS; op++) bytes += l->entry[op].bytes;
        d->wire = worse(d->wire, fabs(bytes - billed) / (billed > 1 ? billed : 1));
        for (enum comm_op op = 0; group_size(r->mesh.group[a]) > 1 && op < COMM_RECV; op++)
            d->wire = worse(d->wire, fabs((double)(l->entry[op].calls - operations(&r->bill, a, op, n_steps))));
    }
}

static struct sent_rules rules_in_force(void) {
    const struct comm_settings *settings = comm_settings_in_force();
    struct sent_rules rules = {.nodes = settings->nodes};
    memcpy(rules.rule, settings->rule, sizeof rules.rule);
    return rules;
}

static double off(double counted, double sent) { return fabs(counted - sent); }

/* The tables predict what is sent: to the message and to the byte, inside nodes and between. Messages are compared only
 * in sum, because a line of the bill does not name the receiver. Collectives must not take more memory than predicted.
 * Fixed sums have other tables. */
static enum status compare_sent(const struct run *r, int n_steps, struct difference *d) {
    const struct sent_rules rules = rules_in_force();
    int64_t memory[N_MESH_AXES];
    TRY(sent_memory(&rules, &r->plan.mesh, comm_world_rank(), &r->bill, memory));
    for (enum mesh_axis a = AXIS_TP; a < AXIS_MESH && r->program.device == DEVICE_CPU; a++) {
        struct sent sent[2];
        const struct ledger *l = group_ledger(r->mesh.group[a]);
        double messages[2] = {0}, bytes[2] = {0};
        if (group_size(r->mesh.group[a]) == 1 || r->program.fixed_sums) continue;
        TRY(sent_by_axis(&rules, &r->plan.mesh, comm_world_rank(), &r->bill, a, n_steps, sent));
        d->memory = worse(d->memory, (double)max64(0, l->hop_bytes - memory[a]));
        for (int b = 0; b < 2; b++) {
            for (int op = 0; op < COMM_SEND; op++) {
                messages[b] += (double)l->entry[op].messages[b];
                bytes[b] += l->entry[op].sent[b];
            }
            d->wire = worse(d->wire, off(messages[b], (double)sent[0].count.messages[b]));
            d->wire = worse(d->wire, off(bytes[b], (double)sent[0].count.bytes[b]));
        }
        const struct ledger_entry *e = &l->entry[COMM_SEND];
        const struct hop_count *m = &sent[1].count;
        d->wire = worse(d->wire, off((double)(e->messages[0] + e->messages[1]),
                                     (double)(m->messages[0] + m->messages[1])));
        d->wire = worse(d->wire, off(e->sent[0] + e->sent[1], (double)(m->bytes[0] + m->bytes[1])));
    }
    return OK;
}

enum status layout_compare_bytes(const struct run *r, int n_steps, struct difference *d) {
    compare_wire(r, n_steps, d);
    TRY(compare_sent(r, n_steps, d));
    return compare_memory(r, d);
}

double layout_own_difference(const struct run *r, const struct param *w, bool gradient, const double *reference) {
    double padding = 0;
    void *own = gradient ? own_grad(r, w) : own_weight(r, w);
    double diff =
        own ? own_difference(w, own, gradient ? w->grad_type.dtype : w->type.dtype, reference, &padding) : NAN;
    free(own);
    return diff;
}

static enum status steps_compare(struct run *r, const struct reference *ref, struct difference *d) {
    for (int s = 0; s < PARITY_STEPS; s++) {
        TRY(run_step(r));
        d->loss = worse(d->loss, relative(r->last.loss, ref->loss[s]));
        if (s == 0) d->first_loss = d->loss;
        d->norm = worse(d->norm, relative(r->last.grad_norm, ref->norm[s]));
        d->bits = hash(d->bits, &r->last.loss, sizeof r->last.loss);
        compare_grads(r, ref, s, d);
    }
    compare_weights(r, ref, d);
    hash_weights(r, d);
    return layout_compare_bytes(r, PARITY_STEPS, d);
}

static void agree(struct difference *d) {
    double *const fields[] = {&d->loss, &d->norm, &d->grad, &d->weight, &d->first_loss, &d->first_grad,
                              &d->weight_absolute, &d->memory, &d->wire, &d->padding};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) *fields[i] = agree_max(*fields[i]);
}

enum status layout_compare(const struct plan *plan, const struct reference *ref, struct difference *d) {
    struct run r;
    struct plan p = *plan;
    *d = (struct difference){.bits = 1469598103934665603u};
    p.device = test_device()->kind == DEVICE_CUDA ? PLAN_DEVICE_CUDA : PLAN_DEVICE_CPU;
    enum status status = run_create(&r, &train_recipe, &p, WATCH_LIFETIMES);
    if (status == OK) status = layout_use_demo(&r);
    if (status == OK) status = steps_compare(&r, ref, d);
    run_destroy(&r);
    TRY(status);
    agree(d);
    return OK;
}

/* ---- all layouts ---- */
static void each_split(const struct plan *base, void (*visit)(void *, const struct plan *), void *self) {
    static const char *const uneven[] = {[2] = "3,5", [4] = "1,3,2,2"};
    struct plan p = *base;
    pp_options(&p)->split[0] = 0;
    visit(self, &p);
    const struct pp_shape shape = pp_shape_of_plan(&p);
    int n = pp_n_virtual(pp_row(&p)->place, &shape);
    if (n != 2 && n != 4) return;
    snprintf(pp_options(&p)->split, sizeof pp_options(&p)->split, "%s", uneven[n]);
    visit(self, &p);
}

static void each_schedule(const struct plan *base, void (*visit)(void *, const struct plan *), void *self) {
    struct plan p = *base;
    for (pp_options(&p)->schedule = SCHEDULE_GPIPE; pp_options(&p)->schedule <= SCHEDULE_1F1B;
         pp_options(&p)->schedule++)
        for (p.micro_batch = 1; p.micro_batch <= p.global_batch / p.mesh.dp; p.micro_batch *= 2) {
            struct plan settled = p;
            if (plan_settle(&settled, plan_ranks(&p)) == OK) each_split(&settled, visit, self);
            else status_clear();
        }
}

static bool is_legal(const struct plan *p) {
    const struct pp_schedule *row = pp_row(p);
    const struct pp_shape shape = pp_shape_of_plan(p);
    return pp_n_virtual(row->place, &shape) <= p->layers && pp_schedule_legal(row, &shape) == OK;
}

/* Small microbatches only, because then there are enough of them for groups of pp. */
static void each_interleaved(const struct plan *base, void (*visit)(void *, const struct plan *), void *self) {
    struct plan p = *base;
    pp_options(&p)->schedule = SCHEDULE_INTERLEAVED;
    for (pp_options(&p)->chunks = 2; p.mesh.pp > 1 && p.mesh.pp * pp_options(&p)->chunks <= p.layers;
         pp_options(&p)->chunks *= 2)
        for (p.micro_batch = 1; p.micro_batch <= 2; p.micro_batch *= 2) {
            struct plan settled = p;
            if (plan_settle(&settled, plan_ranks(&p)) == OK && is_legal(&settled)) each_split(&settled, visit, self);
            status_clear();
        }
}

bool layout_is_serial(const struct plan *p, enum status settled, const struct reference *reference) {
    struct difference d = {0};
    enum status status = settled == OK ? layout_compare(p, reference, &d) : settled;
    bool ok = agree_all(status == OK && d.loss < 1e-10 && d.norm < 1e-10 && d.grad < 1e-10 && d.weight < 1e-10 &&
                        d.memory == 0 && d.wire < 1e-12 && d.padding == 0);
    if (!ok && comm_is_rank_0())
        fprintf(stderr, "%s: %s, loss %.1e norm %.1e grad %.1e weight %.1e memory %g B wire %.1e\n", layout_name(p),
                status_name(status), d.loss, d.norm, d.grad, d.weight, d.memory, d.wire);
    status_report();
    return ok;
}

struct plan layout_scheduled_in_company(struct plan serial, int company, int schedule) {
    struct plan p = layout_in_company(serial, company);
    struct mesh_sizes *n = &p.mesh;
    if (n->pp == 1) n->pp = 2, *(n->dp > 1 ? &n->dp : &n->tp) /= 2;
    if (n->tp == 1) plan_set_number(&p, "sp", 0);
    pp_options(&p)->schedule = schedule;
    pp_options(&p)->chunks = pp_schedule_at(schedule)->chunked ? 2 : 1;
    p.loss_chunk = company % 2 ? 0 : -1;
    return p;
}

bool layouts_want_all(void) {
    const char *text = getenv("LONG");
    return text && !strcmp(text, "1");
}

/* The other schedules, in pipelines only: each with one size of microbatches; LONG=1 or PARITY: with all sizes. */
static void each_other(const struct plan *base, void (*visit)(void *, const struct plan *), void *self) {
    struct plan p = *base;
    for (int k = SCHEDULE_INTERLEAVED + 1; p.mesh.pp > 1 && k < N_SYNCHRONOUS; k++)
        for (p.micro_batch = 1; p.micro_batch <= 4; p.micro_batch *= 2) {
            struct plan settled = p;
            bool chosen = p.micro_batch == 1 << (k + p.mesh.dp + p.mesh.tp) % 3;
            if (!chosen && !layouts_want_all() && !getenv("PARITY")) continue;
            pp_options(&settled)->schedule = k;
            pp_options(&settled)->chunks = pp_schedule_at(k)->chunked && 2 * p.mesh.pp <= p.layers ? 2 : 1;
            settled.loss_chunk = p.micro_batch == 2 ? 0 : -1;        /* two operations; else the schedule chooses */
            if (plan_settle(&settled, plan_ranks(&p)) == OK && is_legal(&settled)) each_split(&settled, visit, self);
            status_clear();
        }
}

void layouts_each(const struct plan *base, int world, void (*visit)(void *, const struct plan *), void *self) {
    struct plan p = *base;
    for (p.mesh.dp = 1; p.mesh.dp <= world; p.mesh.dp++)
        for (p.mesh.tp = 1; p.mesh.dp * p.mesh.tp <= world; p.mesh.tp++) {
            p.mesh.pp = world / (p.mesh.dp * p.mesh.tp);
            if (p.mesh.dp * p.mesh.tp * p.mesh.pp != world || p.heads % p.mesh.tp || p.mesh.pp > p.layers) continue;
            each_schedule(&p, visit, self);
            each_interleaved(&p, visit, self);
            each_other(&p, visit, self);
        }
}

/* ---- every technique ---- */
/* `order`: the dimensions that get the first, second and third factor of two of the world. */
static const struct companion {
    const char *order;
    int zero, offload, recompute, recompute_n, sp, chunks, schedule;
} companies[N_COMPANIES] = {
    {"dtp", .zero = 1}, {"dtp", .zero = 2}, {"dtp", .zero = 3}, {"dpt", .zero = 1, .offload = OFFLOAD_OPTIMIZER},
    {"dpt", .zero = 3, .offload = OFFLOAD_PARAMS}, {"tpd", .recompute = RECOMPUTE_SELECTIVE},
    {"pdt", .recompute = RECOMPUTE_FULL}, {"dtp", .recompute = RECOMPUTE_UNIFORM, .recompute_n = 2}, {"tdp", .sp = 1},
    {"pdt", .chunks = 2}, {"tdp", .zero = 3, .recompute = RECOMPUTE_FULL, .sp = 1},
    {"ptd", .zero = 2, .chunks = 2, .sp = 1}, {"pdt", .zero = 1, .schedule = SCHEDULE_ZB_V},
    {"pdt", .zero = 3, .schedule = SCHEDULE_CHIMERA}, {"ptd", .sp = 1, .schedule = SCHEDULE_DUALPIPE},
    {"pdt", .recompute = RECOMPUTE_FULL, .schedule = SCHEDULE_ZB_H2}};

struct plan layout_in_company(struct plan p, int company) {
    const struct companion *c = &companies[company];
    const char *next = c->order;
    for (int world = comm_world_size(); world > 1; world /= 2, next++)
        *(*next == 'd' ? &p.mesh.dp : *next == 't' ? &p.mesh.tp : &p.mesh.pp) *= 2;
    plan_set_number(&p, "zero", c->zero), zero_options(&p)->offload = c->offload,
    recompute_options(&p)->kind = c->recompute, recompute_options(&p)->n = c->recompute_n;
    plan_set_number(&p, "sp", c->sp && p.mesh.tp > 1);
    if (c->chunks && p.mesh.pp > 1) pp_options(&p)->schedule = SCHEDULE_INTERLEAVED, pp_options(&p)->chunks = c->chunks;
    if (c->schedule && p.mesh.pp > 1) pp_options(&p)->schedule = c->schedule;
    p.micro_batch = 2;
    return p;
}

/* ---- all of them against the serial run ---- */
void layout_try_settled(struct layout_tally *t, struct plan p) {
    enum status settled = plan_settle(&p, comm_world_size());
    t->failed += !layout_is_serial(&p, settled, t->reference);
}

struct listed { struct layout_tally *tally; const struct layout_tries *tries; };

static void try_listed(void *self, const struct plan *p) {
    struct listed *l = self;
    if (l->tries->takes(p)) l->tries->try(l->tally, *p);
}

int layouts_differ(const struct plan *serial, const struct layout_tries *tries) {
    struct reference reference;
    struct layout_tally t = {&reference, 0};
    enum status status = reference_init(&reference, serial);
    status_report();
    bool ready = agree_all(status == OK);
    for (int i = 0; ready && i < N_COMPANIES; i++) tries->try(&t, layout_in_company(*serial, i));
    if (ready) tries->others(&t, tries->try);
    if (ready && tries->takes && layouts_want_all())
        layouts_each(serial, comm_world_size(), try_listed, &(struct listed){&t, tries});
    reference_fini(&reference);
    return ready ? t.failed : -1;
}
