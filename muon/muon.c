/* Muon: an optimizer for matrices.
 *
 * Idea: AdamW scales each element of a gradient by itself. Muon treats the gradient of a matrix as a matrix. It
 * replaces the momentum u = U S V^T by O = U V^T, so that all directions move equally far, and not mostly the few with
 * large singular values. A Newton-Schulz iteration computes O by products alone (lib/ops/muon.c). Embeddings, the head,
 * norms and biases stay with AdamW. One state, the momentum, is kept instead of two: with the weight 8 bytes per
 * parameter in fp32, not 12.
 *
 * Formula, for a matrix of A outputs and B inputs (muon_rounds.c: which params are matrices):
 *   W = (1 - lr weight_decay) W - lr adjust O      adjust: sqrt(max(1, A/B)), 0.2 sqrt(max(A, B)) or sqrt(A/B)
 * O has singular values near 1, so its elements have the root mean square 1/sqrt(max(A, B)). 0.2 sqrt(max(A, B)) makes
 * that 0.2, as AdamW's steps have, and one lr serves both.
 *
 * Stored where: as AdamW's states. Zero may shard momentum and weight, and tp cut them, as for any
 * optimizer.
 *
 * Sent when: OPTIM_STEP, one round of matrices after the other. An element of O depends on all elements of u. So u's
 * parts come together on one rank, or on each (muon_rounds.c), and those of O go back:
 *   1. momentum   own elements of m and u
 *   2. there      shards -> boxes over zero's ranks, boxes -> matrices over tp's
 *   3. iterate    on the ranks that have whole matrices
 *   4. back       the same ways
 *   5. step       own elements of W
 * Replicas that share no states have the same u, and compute the same O without sending.
 *
 * What breaks: an iteration on a shard or a box, whose singular values are others; the norm of a shard; a triple of q,
 * k and v taken as one matrix; adjust by the shape of a box instead of the matrix.
 *
 * Source: Jordan et al. 2024, "Muon"; Liu et al. 2025, "Muon is scalable for LLM training" (arXiv 2502.16982), section
 * 2.2 on adjust and weight decay, 2.3 on ZeRO-1; torch.optim.Muon for names and defaults. */
#include "muon/muon.h"

#include "lib/base/grow.h"
#include "lib/base/integer.h"
#include "lib/ops/reduce.h"
#include "lib/run/run.h"
#include "muon/muon_rounds.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define AT(field) offsetof(struct muon_options, field)
static const struct option OPTIONS[] = {
    {"muon-momentum", OPTION_REAL, "0.95", 0, 0.999999, NULL, "", "muon: decay of the mean of gradients", "training",
     AT(momentum)},
    {"muon-nesterov", OPTION_BOOL, "on", 0, 0, NULL, "",
     "muon: orthogonalize the mean of the momentum and the gradient", "training", AT(nesterov)},
    {"muon-steps", OPTION_INT, "5", 0, 99, NULL, "iterations", "muon: Newton-Schulz iterations", "training", AT(steps)},
    {"muon-adjust", OPTION_CHOICE, "match-rms-adamw", 0, 0, "original|match-rms-adamw|spectral-unclamped", "",
     "muon: factor of lr for a matrix of A outputs and B inputs: sqrt(max(1, A/B)), 0.2 sqrt(max(A, B)) or sqrt(A/B)",
     "training", AT(adjust)},
    {"muon-lr", OPTION_REAL, "0", 0, 1e6, NULL, "", "muon: peak learning rate of matrices; 0: lr", "training", AT(lr)},
};

double muon_adjusted(enum muon_adjust adjust, int64_t rows, int64_t columns) {
    double ratio = (double)rows / (double)columns;
    if (adjust == MUON_MATCH_RMS_ADAMW) return 0.2 * sqrt((double)max64(rows, columns));
    return sqrt(adjust == MUON_ORIGINAL ? fmax(1, ratio) : ratio);
}

static bool muon_wanted(const struct plan *plan) {
    const struct muon_options *o = muon_options(plan);
    return plan->optimizer == OPTIMIZER_MUON || o->momentum != 0.95 || !o->nesterov || o->steps != 5 ||
           o->adjust != MUON_MATCH_RMS_ADAMW || o->lr != 0;
}

static enum status muon_check(const struct plan *plan) {
    if (plan->optimizer != OPTIMIZER_MUON)
        return FAIL(E_CONFIG, "options of muon are given, and optimizer=%s reads none of them; use optimizer muon, or "
                              "leave muon-momentum, muon-nesterov, muon-steps, muon-adjust and muon-lr out",
                    plan_optimizer(plan)->name);
    if (plan->sums == PLAN_SUMS_FIXED)
        return FAIL(E_CONFIG, "optimizer=muon multiplies whole matrices, and sums=fixed has no order for these "
                              "products; use sums fast, or optimizer adamw");
    if (plan_number(plan, "servers") > 0)
        return FAIL(E_CONFIG, "optimizer=muon needs whole matrices, and each of servers=%" PRId64
                              " updates elements of its own; use servers 0, or optimizer adamw",
                    plan_number(plan, "servers"));
    if (!isfinite(muon_options(plan)->lr / plan->lr) && muon_options(plan)->lr > 0)   /* step() multiplies lr by it */
        return FAIL(E_CONFIG, "muon-lr=%g follows the schedule of lr, and lr=%g has none that can be scaled; use a "
                              "larger lr (1e-30 moves nothing else), or muon-lr 0", muon_options(plan)->lr, plan->lr);
    return OK;
}

/* ---- rewrite: the rows of params ---- */
static enum status muon_rewrite(const struct plan *plan, struct program *p) {
    (void)plan;
    for (int i = 0; i < p->n_params; i++)
        if (!p->params[i].optimizer->apart)
            p->params[i].optimizer = muon_is_matrix(p, i) ? &optimizer_muon_matrix : &optimizer_adamw;
    return OK;
}

static enum status muon_lowered(const struct compiled *c, struct program *p) {
    for (int i = 0; i < p->n_params; i++)
        if (p->params[i].present && p->params[i].state_tier != TIER_DEVICE)
            return FAIL(E_CONFIG, "optimizer=muon updates matrices on the device, and offload moves their states away; "
                                  "use offload none, or optimizer adamw");
    if (c->schedule->validates)
        return FAIL(E_CONFIG, "optim-sync=validate may repeat an update, and optimizer=muon would exchange matrices "
                              "twice; use optim-sync wait, or optimizer adamw");
    return OK;
}

/* ---- memory ---- */
/* Largest sizes over all rounds, in bytes. */
struct room { int64_t buffer, gram, gemm; };

static struct room room_of(const struct program *p, const struct muon_rounds *rounds) {
    struct room x = {0};
    for (int i = 0; i < rounds->n; i++) {
        const struct muon_round *r = &rounds->round[i];
        const int64_t element = (int64_t)dtype_size(r->shape.dtype);
        const int64_t gemm = newton_schulz_work(&r->shape, p->device, p->n_threads, p->plain_gemm);
        x.buffer = max64(x.buffer, arena_align_on(DEVICE_CUDA, muon_round_room(r) * element));
        x.gram = max64(x.gram, arena_align_on(DEVICE_CUDA, newton_schulz_gram(&r->shape)));
        x.gemm = max64(x.gemm, arena_align_on(DEVICE_CUDA, gemm));
    }
    return x;
}

/* Four numbers: 2 of newton_schulz; 1 or NaN, the multiplier of a step; and its root. A library's workspace begins at a
 * multiple of ARENA_ALIGN_CUDA, at which the memory of a technique need not begin. */
enum { NUMBER_BYTES = ARENA_ALIGN_CUDA };
static int64_t work_bytes(struct room x) { return x.gram + x.gemm + NUMBER_BYTES + ARENA_ALIGN_CUDA; }

/* The iterations of the matrices that come to this rank in a round. */
static void bill_iterations(const struct plan *plan, const struct muon_round *r, struct bill *bill) {
    const double times = (double)(r->cut.here * r->n_matrices) * (double)muon_options(plan)->steps;
    bill->updates = table_grow(bill->updates, bill->n_updates, sizeof *bill->updates);
    bill->updates[bill->n_updates++] = (struct update_cost){newton_schulz_cost(&r->shape), r->shape.dtype, times};
}

static enum status muon_cost(const struct plan *plan, const struct compiled *c, struct bill *bill) {
    struct muon_rounds rounds;
    enum status status = muon_rounds_init(c->program, &rounds);
    struct room x = room_of(c->program, &rounds);
    bill->technique_comm_bytes += 2 * x.buffer;
    bill->technique_work_bytes[TIER_DEVICE] += work_bytes(x);
    for (int i = 0; i < rounds.n; i++) muon_round_bill(&rounds.round[i], &c->program->place, bill);
    for (int i = 0; i < rounds.n; i++) bill_iterations(plan, &rounds.round[i], bill);
    muon_rounds_fini(&rounds);
    return status;
}

/* ---- the update ---- */
struct muon {
    struct muon_rounds rounds;
    char *at, *spare;                /* buffers of exchanges */
    struct newton_schulz memory;
    double *usable;                  /* 1, or NaN with which nothing changes */
};

/* 1. The own elements' momentum, and u in parts of `inner` elements. What is no own element is zero. */
static enum status take_momentum(struct run *r, struct muon *m, const struct muon_round *x) {
    const struct muon_options *o = muon_options(&r->plan);
    const struct optimizer_settings a = {.momentum = o->momentum, .beta1 = o->nesterov ? o->momentum : 1,
                                         .grad_multiplier = &run_scalars(r)[SCALAR_MULTIPLIER]};
    struct optimizer_elements e[sizeof x->param / sizeof *x->param];
    const int64_t size = (int64_t)dtype_size(x->shape.dtype), part = x->shards.inner * size;
    TRY(r->device->clear(r->device, m->at, x->n_params * part));
    for (int i = 0; i < x->n_params; i++) {
        e[i] = param_elements(&r->program.params[x->param[i]]);
        e[i].weight = m->at + i * part, e[i].weight_dtype = x->shape.dtype, e[i].master = NULL, e[i].decay = false;
        e[i].optimizer = NULL;
    }
    return optimizer_update(&optimizer_muon_momentum, r->device, &a, e, x->n_params);
}

/* Copy boxes from places of `from` bytes to places of `to` bytes. */
static enum status respace(const struct device *d, const struct muon_round *x, char *out, int64_t to, const char *in,
                           int64_t from) {
    for (int64_t i = 0; i < x->shards.here; i++) TRY(d->copy(d, out + i * to, in + i * from, min64(from, to)));
    return OK;
}

static enum status orthogonalize(struct run *r, struct muon *m, const struct muon_round *x) {
    const int64_t matrix = x->shape.rows * x->shape.columns * (int64_t)dtype_size(x->shape.dtype);
    m->memory.spare = m->spare;
    for (int64_t i = 0; i < x->cut.here * x->n_matrices; i++)
        TRY(newton_schulz(r->device, &x->shape, (int)muon_options(&r->plan)->steps, m->at + i * matrix, &m->memory));
    return OK;
}

static void change_places(struct muon *m) {
    char *at = m->at;
    m->at = m->spare, m->spare = at;
}

/* 2. to 4. A box of shards is followed by their padding, and a box of a matrix is not. */
static enum status update_whole(struct run *r, struct muon *m, const struct muon_round *x) {
    const struct device *d = r->device;
    const enum dtype t = x->shape.dtype;
    const int64_t size = (int64_t)dtype_size(t), padded = x->shards.n_ranks * x->shards.inner * size;
    const int64_t box = x->cut.outer * x->cut.inner * size;
    TRY(muon_exchange_there(d, &r->mesh, &x->shards, t, m->at, m->spare));
    TRY(respace(d, x, m->spare, box, m->at, padded));
    change_places(m);
    TRY(muon_exchange_there(d, &r->mesh, &x->cut, t, m->at, m->spare));
    TRY(orthogonalize(r, m, x));
    TRY(muon_exchange_back(d, &r->mesh, &x->cut, t, m->at, m->spare));
    TRY(respace(d, x, m->spare, padded, m->at, box));
    change_places(m);
    return muon_exchange_back(d, &r->mesh, &x->shards, t, m->at, m->spare);
}

/* 5. The multiplier is in u already, so here it says only whether anything may change. lr adjust multiplies O, and lr
 * weight_decay the weight. */
static enum status step(struct run *r, struct muon *m, const struct muon_round *x) {
    const struct muon_options *o = muon_options(&r->plan);
    const struct step_record *s = &r->record[r->n_step % STEPS_AHEAD];
    const double lr = o->lr > 0 ? s->result.lr * (o->lr / r->plan.lr) : s->result.lr;
    const double adjust = muon_adjusted((enum muon_adjust)o->adjust, x->shape.rows, x->shape.columns);
    const struct optimizer_settings a = {.lr = lr * adjust, .weight_decay = r->plan.weight_decay / adjust,
                                         .grad_multiplier = m->usable};
    struct optimizer_elements e[sizeof x->param / sizeof *x->param];
    for (int i = 0; i < x->n_params; i++) {
        e[i] = param_elements(&r->program.params[x->param[i]]);
        e[i].grad = m->at + i * x->shards.inner * (int64_t)dtype_size(x->shape.dtype);
        e[i].grad_dtype = x->shape.dtype, e[i].optimizer = NULL;
    }
    return optimizer_update(&optimizer_muon_step, r->device, &a, e, x->n_params);
}

static enum status muon_optim_step(struct run *r, void *self, const struct event *e) {
    struct muon *m = self;
    (void)e;
    TRY(optimizer_decide(r->device, m->usable, m->usable + 1, &run_scalars(r)[SCALAR_MULTIPLIER], NULL, 0, 1));
    for (int i = 0; i < m->rounds.n; i++) {
        const struct muon_round *x = &m->rounds.round[i];
        TRY(take_momentum(r, m, x));
        TRY(update_whole(r, m, x));
        TRY(step(r, m, x));
    }
    return OK;
}

/* ---- attach ---- */
static enum status place(struct run *r, struct muon *m) {
    const struct room x = room_of(&r->program, &m->rounds);
    void *comm, *work;
    TRY(run_take_comm(r, 2 * x.buffer, &comm));
    TRY(run_take_work(r, TIER_DEVICE, work_bytes(x), &work));
    char *aligned = (char *)work + (ARENA_ALIGN_CUDA - (uintptr_t)work % ARENA_ALIGN_CUDA) % ARENA_ALIGN_CUDA;
    m->at = comm, m->spare = m->at + x.buffer;
    m->memory = (struct newton_schulz){.n_threads = r->program.n_threads, .plain = r->program.plain_gemm,
                                       .gram = aligned + NUMBER_BYTES, .numbers = (double *)aligned,
                                       .gemm_work = aligned + NUMBER_BYTES + x.gram, .reduce_work = r->reduce_work};
    m->usable = m->memory.numbers + 2;
    return r->device->clear(r->device, comm, 2 * x.buffer);          /* what no round writes counts as written, too */
}

static enum status muon_attach(struct run *r, void **self) {
    struct muon *m = *self = calloc(1, sizeof *m);
    if (!m) return FAIL(E_MEMORY, "no memory for the tables of muon");
    TRY(muon_rounds_init(&r->program, &m->rounds));
    TRY(place(r, m));
    return run_subscribe(r, EVENT_OPTIM_STEP, muon_optim_step, m);
}

static void muon_detach(struct run *r, void *self) {
    struct muon *m = self;
    (void)r;
    muon_rounds_fini(&m->rounds);
    free(m);
}

const struct technique technique_muon = {
    .name = "muon", .options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, sizeof(struct muon_options)},
    .wanted = muon_wanted, .check = muon_check, .rewrite = muon_rewrite, .lowered = muon_lowered, .cost = muon_cost,
    .attach = muon_attach, .detach = muon_detach};
