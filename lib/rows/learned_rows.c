#include "lib/rows/learned_rows.h"

#include "lib/rows/optim_rows.h"
#include <stdlib.h>

/* NULL: no caches. fetch: the run's, which reads samples. */
struct learned_rows {
    struct hot_rows *hot;
    struct optim_rows *optim;
    enum status (*fetch)(void *run, int microbatch, int32_t *const data[N_DATA]);
};

static bool rows_wanted(const struct plan *plan) { return plan->arch->clicks != NULL; }

static enum status rows_cost(const struct plan *plan, const struct compiled *c, struct bill *bill) {
    const struct program *p = c->program;
    bill->technique_work_bytes[TIER_DEVICE] += hot_rows_work(p) + optim_rows_work(p);
    bill->technique_work_bytes[TIER_HOST] += hot_rows_window(p, plan_window_bytes(plan));
    return OK;
}

/* ---- events ---- */
static enum status add_squares(struct run *r, void *self, const struct event *event) {
    struct learned_rows *l = self;
    (void)event;
    return optim_rows_squares(l->optim, r->n_step, &run_scalars(r)[SCALAR_SQUARES]);
}

static enum status update(struct run *r, void *self, const struct event *event) {
    struct learned_rows *l = self;
    const struct step_record *s = &r->record[r->n_step % STEPS_AHEAD];
    (void)event;
    return optim_rows_step(l->optim, s->n_step, s->result.lr, s->on_device[SCALAR_MULTIPLIER]);
}

static enum status complete(struct run *r, void *self, const struct event *event) {
    struct learned_rows *l = self;
    (void)r, (void)event;
    TRY(optim_rows_settle(l->optim));
    return hot_rows_write_back(l->hot);
}

static enum status forget(struct run *r, void *self, const struct event *event) {
    struct learned_rows *l = self;
    (void)r, (void)event;
    optim_rows_forget(l->optim);
    return hot_rows_forget(l->hot);
}

/* ---- samples ---- */
static struct learned_rows *learned_rows_of(const struct run *r) {
    for (int i = 0; i < r->n_active; i++)
        if (r->active[i] == &technique_rows) return r->self[i];
    return NULL;
}

/* Fetch the rows of this microbatch's ids into the cache, and begin to fetch the next microbatch's rows. */
static enum status fetch(void *run, int microbatch, int32_t *const data[N_DATA]) {
    struct run *r = run;
    struct learned_rows *l = learned_rows_of(r);
    int32_t *const next[N_DATA] = {[DATA_TOKENS] = hot_rows_next_ids(l->hot)};
    TRY(l->fetch(r, microbatch, data));
    if (!data[DATA_TOKENS]) return OK;
    TRY(hot_rows_need(l->hot, data[DATA_TOKENS]));
    if (r->evaluation) return OK;
    TRY(l->fetch(r, microbatch + 1, next));
    return hot_rows_ahead(l->hot, next[DATA_TOKENS]);
}

/* ---- attach ---- */
static enum status create(struct run *r, struct learned_rows *l) {
    const struct program *p = &r->program;
    void *work, *window;
    TRY(run_take_work(r, TIER_DEVICE, hot_rows_work(p) + optim_rows_work(p), &work));
    TRY(run_take_work(r, TIER_HOST, hot_rows_window(p, plan_window_bytes(&r->plan)), &window));
    TRY(hot_rows_create(r, work, window, &l->hot));
    return optim_rows_create(r, (char *)work + hot_rows_work(p), l->hot, &l->optim);
}

static enum status rows_attach(struct run *r, void **self) {
    struct learned_rows *l = *self = calloc(1, sizeof *l);
    if (!l) return FAIL(E_MEMORY, "no memory for the tables of a run");
    TRY(create(r, l));
    TRY(run_subscribe(r, EVENT_GRAD_SQUARES, add_squares, l));
    TRY(run_subscribe(r, EVENT_OPTIM_STEP, update, l));
    TRY(run_subscribe(r, EVENT_STATE_READ, complete, l));
    TRY(run_subscribe(r, EVENT_STATE_REPLACED, forget, l));
    l->fetch = r->exec.hooks.fetch;
    if (l->hot) r->exec.hooks.fetch = fetch;
    return OK;
}

static void rows_detach(struct run *r, void *self) {
    struct learned_rows *l = self;
    (void)r;
    optim_rows_destroy(&l->optim);
    hot_rows_destroy(&l->hot);
    free(l);
}

struct hot_traffic learned_rows_traffic(const struct run *r) {
    const struct learned_rows *l = learned_rows_of(r);
    return hot_rows_traffic(l ? l->hot : NULL);
}

const struct technique technique_rows = {.name = "rows", .wanted = rows_wanted, .cost = rows_cost,
                                         .attach = rows_attach, .detach = rows_detach};
