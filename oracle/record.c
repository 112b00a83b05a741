#include "oracle/record.h"

#include "lib/base/grow.h"
#include "lib/base/integer.h"
#include "lib/base/rng.h"
#include "lib/comm/comm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is recorded ---- */
/* Outputs of blocks, and of the norm before the head. */
static bool is_layers(const struct published *row) {
    return !strncmp(row->ours, "embed.", 6) || !strncmp(row->ours, "head.", 5) || !strcmp(row->ours, "h%d.res2");
}
static bool is_logits(const struct published *row) { return !strcmp(row->ours, "head.logits"); }

static const struct published *slot_row(const struct published *table, const char *name, enum record_depth depth,
                                        int *layer) {
    const struct published *row = depth >= RECORD_LAYERS ? published_find(table, name, layer) : NULL;
    if (row && depth == RECORD_LAYERS && (!is_layers(row) || is_logits(row))) return NULL;
    return row;
}

static int first_reader_of(const struct program *p, int slot) {
    for (int i = 0; i < p->n_steps; i++)
        for (int j = 0; j < p->steps[i].n_in; j++)
            if (p->steps[i].in[j] == slot) return i;
    return -1;
}

/* ---- rows ---- */
struct keeping { struct recorder *r; const char *suffix; const void *data; enum dtype dtype; double scale; };

static enum status keep_box(void *self, const struct placed *placed) {
    const struct keeping *k = self;
    return kept_add_placed(&k->r->kept, placed, k->suffix, comm_world_rank(), k->data, k->dtype, k->scale);
}

static enum status keep(struct recorder *r, const struct published *row, int layer, const struct shape *held,
                        int64_t run_first, int64_t run_n, struct keeping k) {
    k.r = r;
    return place_each(row, layer, held, run_first, run_n, keep_box, &k);
}

/* Axis B has the number of samples; the call has the number of the first. */
static enum status keep_slot(struct recorder *r, int slot, const struct tensor *x, const struct call *c,
                             const char *suffix, double scale) {
    const struct published *row = r->of_slot[slot];
    struct shape held = x->type->shape;
    if (!row || !x->data) return OK;
    for (int a = 0; a < held.n_axes; a++)
        if (held.axis[a].tag == 'B')
            held.axis[a].first = c->first_sample, held.axis[a].global = r->run->plan.global_batch;
    return keep(r, row, r->slot_layer[slot], &held, 0, shape_n(&held),
                (struct keeping){.suffix = suffix, .data = x->data, .dtype = x->type->dtype, .scale = scale});
}

static void shake_tensor(struct recorder *r, const struct tensor *x) {
    enum dtype d = x->data ? x->type->dtype : N_DTYPES;
    if (d > FP16) return;
    for (int64_t i = 0, n = type_n(x->type); i < n; i++) {
        double u = 2 * rng_uniform(r->shaking.seed, r->n_rows, (uint64_t)i) - 1;
        dtype_set(x->data, d, i, dtype_get(x->data, d, i) * (1 + u * r->shaking.eps));
    }
}

static void shake(struct recorder *r, enum row_kind kind, const struct call *c) {
    const struct step *s = c->step;
    r->n_rows++;
    if (r->shaking.eps == 0) return;
    bool forward = kind == ROW_FORWARD || kind == ROW_REPLAY;
    for (int i = 0; forward && i < s->n_out; i++) shake_tensor(r, &c->out[i]);
    for (int i = 0; kind == ROW_BACKWARD_INPUT && i < s->n_in; i++) shake_tensor(r, &c->din[i]);
    bool weights = kind == ROW_BACKWARD_WEIGHT || op_input_adds_weights(s->op);
    for (int i = 0; !forward && weights && i < s->n_weight; i++) shake_tensor(r, &c->dweight[i]);
}

static enum status see_row(void *self, enum row_kind kind, const struct call *c) {
    struct recorder *r = self;
    const struct step *s = c->step;
    int number = (int)(s - r->run->program.steps);
    shake(r, kind, c);
    for (int i = 0; kind == ROW_FORWARD && i < s->n_out; i++) TRY(keep_slot(r, s->out[i], &c->out[i], c, ".act", 1));
    if (kind != (s->op->async_backward ? ROW_WAIT : ROW_BACKWARD_INPUT)) return OK;
    for (int i = 0; i < s->n_in; i++)
        if (r->first_reader[s->in[i]] == number)
            TRY(keep_slot(r, s->in[i], &c->din[i], c, ".act_grad", 1 / c->loss_scale));
    return OK;
}

/* ---- weights ---- */
/* Own elements of a param, from an array that begins with them. */
static enum status keep_own(struct recorder *r, int param, const char *suffix, const void *own, enum dtype dtype,
                            double scale) {
    const struct param *w = &r->run->program.params[param];
    const struct published *row = r->of_param[param];
    int64_t n = min64(w->own_n, type_n(&w->type) - w->own_first);
    if (!row || !own || n <= 0) return OK;
    const char *base = (const char *)own - w->own_first * (int64_t)dtype_size(dtype);
    return keep(r, row, r->param_layer[param], &w->type.shape, w->own_first, n,
                (struct keeping){.suffix = suffix, .data = base, .dtype = dtype, .scale = scale});
}

static bool is_learned(const struct param *w) { return param_is_stored(w) && !w->cache; }

static enum status see_gradients(struct run *run, void *self, const struct event *event) {
    struct recorder *r = self;
    (void)event;
    for (int i = 0; i < run->program.n_params; i++) {
        const struct param *w = &run->program.params[i];
        if (is_learned(w)) TRY(keep_own(r, i, ".grad", param_own_grad(w), w->grad_type.dtype, run->unscale));
    }
    return OK;
}

static enum status keep_weights(struct recorder *r) {
    for (int i = 0; i < r->run->program.n_params; i++) {
        const struct param *w = &r->run->program.params[i];
        if (!is_learned(w)) continue;
        TRY(keep_own(r, i, ".moment1", param_state(w, 0), w->state_dtype, 1));
        TRY(keep_own(r, i, ".moment2", param_state(w, 1), w->state_dtype, 1));
        TRY(w->master ? keep_own(r, i, ".param", param_master(w), w->state_dtype, 1)
                      : keep_own(r, i, ".param", param_own_weight(w), w->type.dtype, 1));
    }
    return OK;
}

/* ---- a run ---- */
static enum status check(const struct run *run) {
    const struct plan *p = &run->plan;
    if (run->device->kind != DEVICE_CPU)
        return FAIL(E_CONFIG, "device=%s: recording looks at every row, on the CPU alone; use --device cpu",
                    run->device->name);
    if (run->disk)
        return FAIL(E_CONFIG, "offload-to=disk: recording reads states in memory; use --offload-to host");
    if (plan_is_asynchronous(p))
        return FAIL(E_CONFIG,
                    "asynchronous steps have no numbers of their own to compare with others; use %s",
                    plan_synchronous_option(p));
    if (run->program.optimizer != &optimizer_adamw)
        return FAIL(E_CONFIG, "optimizer=%s: the oracle follows the moments of AdamW alone; use --optimizer adamw",
                    run->program.optimizer->name);
    if (!p->arch->published) return FAIL(E_CONFIG, "arch=%s has no published names", p->arch->name);
    return OK;
}

enum status recorder_attach(struct recorder *r, struct run *run, enum record_depth depth, struct shaking shaking) {
    const struct program *p = &run->program;
    const struct published *table = run->plan.arch->published;
    *r = (struct recorder){.run = run, .depth = depth, .shaking = shaking};
    TRY(check(run));
    TRY(call_log_init(&r->calls));
    r->of_slot = table_new(p->n_slots, sizeof *r->of_slot);
    r->of_param = table_new(p->n_params, sizeof *r->of_param);
    r->slot_layer = table_new(p->n_slots, sizeof *r->slot_layer);
    r->param_layer = table_new(p->n_params, sizeof *r->param_layer);
    r->first_reader = table_new(p->n_slots, sizeof *r->first_reader);
    for (int i = 0; i < p->n_slots; i++) {
        r->of_slot[i] = slot_row(table, p->slots[i].name, depth, &r->slot_layer[i]);
        r->first_reader[i] = first_reader_of(p, i);
    }
    for (int i = 0; i < p->n_params && depth >= RECORD_PARAMS; i++)
        r->of_param[i] = published_find(table, p->params[i].name, &r->param_layer[i]);
    run->exec.watch = (struct exec_watch){r, see_row};
    return run_subscribe(run, EVENT_GRAD_NORM, see_gradients, r);
}

void recorder_begin(struct recorder *r) {
    kept_clear(&r->kept);
    call_log_start(&r->calls, r->run->n_step + 1);
}

enum status recorder_end(struct recorder *r) {
    const struct run *run = r->run;
    int rank = comm_world_rank();
    call_log_stop(&r->calls);
    TRY(kept_add_number(&r->kept, "loss", rank, run->last.loss));
    TRY(kept_add_number(&r->kept, "grad_norm", rank, run->last.grad_norm));
    TRY(kept_add_number(&r->kept, "clip_factor", rank, run->last.clip_factor));
    TRY(kept_add_number(&r->kept, "lr", rank, run->last.lr));
    return keep_weights(r);
}

void recorder_detach(struct recorder *r) {
    free(r->of_slot);
    free(r->of_param);
    free(r->slot_layer);
    free(r->param_layer);
    free(r->first_reader);
    kept_fini(&r->kept);
    call_log_stop(&r->calls);
    call_log_fini(&r->calls);
    if (r->run) r->run->exec.watch = (struct exec_watch){.row = NULL};
    *r = (struct recorder){.run = NULL};
}

/* ---- the order of a step ---- */
struct ordering { json_t *list; const struct plan *plan; const char *suffix, *phase; };

static enum status list_box(void *self, const struct placed *placed) {
    struct ordering *o = self;
    char name[PUBLISHED_NAME_MAX + 16];
    snprintf(name, sizeof name, "%s%s", placed->name, o->suffix);
    for (size_t i = 0; i < json_array_size(o->list); i++)            /* another box of a listed tensor */
        if (!strcmp(json_string_value(json_object_get(json_array_get(o->list, i), "name")), name)) return OK;
    json_array_append_new(o->list, json_pack("{s:s,s:s}", "name", name, "phase", o->phase));
    return OK;
}

static enum status list_tensor(struct ordering *o, const char *ours, const struct shape *s, bool is_slot,
                               enum record_depth depth, const char *suffix, const char *phase) {
    const struct published *table = o->plan->arch->published;
    int layer;
    const struct published *row = is_slot ? slot_row(table, ours, depth, &layer) : published_find(table, ours, &layer);
    o->suffix = suffix, o->phase = phase;
    return row ? place_each(row, layer, s, 0, shape_n(s), list_box, o) : OK;
}

static enum status list_slots(struct ordering *o, const struct program *p, const struct step *s,
                              enum record_depth depth, const char *suffix, const char *phase) {
    for (int i = 0; i < s->n_out; i++)
        TRY(list_tensor(o, p->slots[s->out[i]].name, &p->slots[s->out[i]].type.shape, true, depth, suffix, phase));
    return OK;
}

static void list_number(struct ordering *o, const char *name, const char *phase) {
    json_array_append_new(o->list, json_pack("{s:s,s:s}", "name", name, "phase", phase));
}

/* A weight's gradient is whole when the first step that uses it has gone backward. */
static bool uses_first(const struct program *p, int step, int param) {
    for (int i = 0; i < step; i++)
        for (int j = 0; j < p->steps[i].n_weight; j++)
            if (p->steps[i].weight[j] == param) return false;
    return true;
}

static enum status list_step(struct ordering *o, const struct program *p, enum record_depth depth) {
    for (int i = 0; i < p->n_steps; i++) TRY(list_slots(o, p, &p->steps[i], depth, ".act", "forward"));
    list_number(o, "loss", "loss");
    for (int i = p->n_steps - 1; i >= 0; i--) {
        TRY(list_slots(o, p, &p->steps[i], depth, ".act_grad", "backward"));
        for (int j = 0; j < p->steps[i].n_weight && depth >= RECORD_PARAMS; j++) {
            const struct param *w = &p->params[p->steps[i].weight[j]];
            if (uses_first(p, i, p->steps[i].weight[j]))
                TRY(list_tensor(o, w->name, &w->type.shape, false, depth, ".grad", "backward"));
        }
    }
    list_number(o, "grad_norm", "norm");
    list_number(o, "clip_factor", "norm");
    list_number(o, "lr", "update");
    static const char *const SUFFIX[] = {".moment1", ".moment2", ".param"};
    for (int i = 0; i < p->n_params && depth >= RECORD_PARAMS; i++)
        for (int k = p->params[i].optimizer == &optimizer_none ? 2 : 0; k < 3; k++)   /* a router's bias: no moments */
            TRY(list_tensor(o, p->params[i].name, &p->params[i].type.shape, false, depth, SUFFIX[k], "update"));
    return OK;
}

/* The model of one rank. */
static enum status build_whole(const struct plan *plan, struct program *p) {
    struct plan whole = *plan;
    whole.mesh = (struct mesh_sizes){.dp = 1, .cp = 1, .tp = 1, .pp = 1, .cp_heads = 1, .ep = 1};
    plan_place(&whole, 0);
    program_init(p);
    TRY(plan->arch->build(&whole, p));
    return program_infer(p);
}

enum status record_check_names(const struct plan *plan) {
    struct program p;
    enum status status = build_whole(plan, &p);
    for (int i = 0, layer; i < p.n_params && status == OK; i++)
        if (!published_find(plan->arch->published, p.params[i].name, &layer))
            status = FAIL(E_CONFIG, "arch=%s: others have no %s, so nothing could be held against it%s",
                          plan->arch->name, p.params[i].name,
                          model_options(plan)->experts ? "; experts are those of arch=mixtral or moe" : "");
    program_fini(&p);
    return status;
}

enum status record_order(const struct plan *plan, enum record_depth depth, json_t **out) {
    struct program p;
    struct ordering o = {.list = *out = json_array(), .plan = plan};
    enum status status = build_whole(plan, &p);
    if (status == OK) status = list_step(&o, &p, depth);
    program_fini(&p);
    return status;
}
