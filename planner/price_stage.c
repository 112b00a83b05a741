#include "planner/price_stage.h"

#include "lib/cost/op_time.h"
#include "lib/cost/wire_time.h"
#include "lib/ops/cost.h"
#include "planner/layout.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- exchanges ---- */
static double exchange_seconds(const struct cluster *c, const struct mesh_place *place, const struct exchange *x) {
    double size = (double)x->count * (double)dtype_size(x->dtype);
    return wire_seconds(c, x->op, size, mesh_size(x->axis, place), mesh_stride(x->axis, place), x->pieces + !x->pieces);
}

static enum price_phase phase_of_axis(enum mesh_axis a) {
    return a == AXIS_CP || a == AXIS_CP_HEADS ? PRICE_CP : a == AXIS_EP || a == AXIS_EDP ? PRICE_EP : PRICE_TP;
}

/* The cost of an exchange during `work` seconds: its part that is not hidden, and the slowdown of the work. */
static double beside(const struct cluster *c, double exchange, double work) {
    if (c->cores) return exchange;
    return fmax(0, exchange - c->overlap_part * work) + c->overlap_slowdown * fmin(exchange, work);
}

/* ---- rows ---- */
/* casts: the part of own that casts before the products take. */
struct row_price { double own, exchange, casts; enum price_phase phase, phase_of_exchange; bool message; };

/* A CPU emulates fp8 and fp4: their products run at the speed of the model's dtype. */
static enum dtype product_dtype(const struct cluster *c, const struct call *call) {
    enum dtype dtype = op_product_dtype(call);
    return c->flops_per_s[dtype] > 0 ? dtype : op_dtype(call);
}

static enum price_phase phase_of_row(const struct step *s, const struct seconds *own) {
    if (own->compute >= own->memory) return PRICE_PRODUCTS;
    return s->op->rule == RULE_FP8 || s->op->rule == RULE_BLOCKS ? PRICE_CASTS : PRICE_MEMORY;
}

static struct row_price price_row(const struct cluster *c, const struct program *p, const struct row *r) {
    const struct step *s = &p->steps[r->id];
    struct call call = program_call(p, s);
    struct cost cost = op_cost(&call, r->kind);
    struct seconds own = op_seconds(c, s->op->name, product_dtype(c, &call), &cost, r->kind);
    struct row_price out = {own.total, 0, own.casts, phase_of_row(s, &own), PRICE_TP, false};
    struct exchange x[MAX_EXCHANGES] = {{.axis = (enum mesh_axis)s->mesh_axis}, {.axis = (enum mesh_axis)s->mesh_axis}};
    for (int i = 0, n = s->op->exchanges ? s->op->exchanges(&call, r->kind, x) : 0; i < n; i++) {
        out.exchange += exchange_seconds(c, &p->place, &x[i]);
        if (mesh_size(x[i].axis, &p->place) > 1) out.exchange += c->switch_s, out.own += c->cold_s;
        out.message |= x[i].op == COMM_SEND;
        out.phase_of_exchange = phase_of_axis(x[i].axis);
    }
    if (r->kind == ROW_REPLAY) out.phase = out.phase_of_exchange = PRICE_REPLAY, out.casts = 0;
    return out;
}

/* Price the rows in order. The exchange of an asynchronous row is complete at `ready`; its wait row waits for it. */
static enum status price_tape(const struct cluster *c, const struct program *p, const struct tape *t, double *total,
                              double *own, double *phase) {
    struct pending { double ready, exchange; enum price_phase phase; };
    struct pending *pending = calloc((size_t)t->n + 1, sizeof *pending);
    double clock = 0;
    if (!pending) return FAIL(E_MEMORY, "no memory to price %d rows", t->n);
    for (int i = 0; i < t->n; i++) {
        const struct row *r = &t->rows[i];
        double start = clock, waited = 0;
        if (r->kind == ROW_WAIT) {
            waited = fmax(0, pending[i].ready - clock);
            waited += c->overlap_slowdown * fmax(0, pending[i].exchange - waited);
            phase[pending[i].phase] += waited;
            clock = start + waited;
        }
        if (!row_kind_is_step(r->kind)) continue;
        struct row_price x = price_row(c, p, r);
        phase[x.phase] += x.own - x.casts, phase[PRICE_CASTS] += x.casts;
        clock += x.own, *own += x.own;
        if (r->wait >= 0 && !c->cores)
            pending[r->wait] = (struct pending){clock + x.exchange, x.exchange, x.phase_of_exchange};
        else waited = x.message ? beside(c, x.exchange, x.own) : x.exchange;
        phase[x.phase_of_exchange] += waited;
        clock += waited;
    }
    *total = clock;
    free(pending);
    return OK;
}

/* Copies of parked activations (slot.park). On a GPU they use the host's link while the tape's rows run. On a CPU they
 * are copies within its memory, which are work of their own. Adds to *total, *own and phase. */
static void price_copies(const struct cluster *c, const struct chunk *k, enum tape_kind tape, double *total,
                         double *own, double *phase) {
    double bytes = 0, copies;
    for (int i = 0; i < k->tapes[tape].n; i++) {
        const struct row *r = &k->tapes[tape].rows[i];
        if (r->kind == ROW_PARK || r->kind == ROW_UNPARK) bytes += (double)k->values[r->in[0]].bytes;
    }
    if (bytes == 0) return;
    copies = c->cores ? 2 * bytes / op_bytes_per_s(c, "pack") : beside(c, bytes / c->host_bytes_per_s, *total);
    *total += copies, phase[PRICE_OFFLOAD] += copies;
    if (c->cores) *own += copies;
}

void price_each_row(const struct cluster *c, const struct run *r, double (*row_s)[ROW_WAIT]) {
    struct row_walk at = {0};
    for (const struct row *row; (row = schedule_next_row(&r->schedule, r->chunks, &at));) {
        if (!row_kind_is_step(row->kind)) continue;
        struct row_price x = price_row(c, &r->program, row);
        row_s[row->id][row->kind] += x.own + (row->wait >= 0 && !c->cores ? 0 : x.exchange);
    }
}

/* ---- what another stack does otherwise (lib/cost/stack.h) ---- */
/* Forward rows of layers that are recomputed whole, without those that are rows of a replay already. */
static double rows_left_out(const struct cluster *c, const struct program *p, const struct tape *forward,
                            const bool *replayed, const bool *has_replays) {
    double seconds = 0;
    for (int i = 0; i < forward->n; i++) {
        const struct row *r = &forward->rows[i];
        if (r->kind != ROW_FORWARD || replayed[r->id] || !has_replays[p->steps[r->id].block]) continue;
        struct row_price x = price_row(c, p, r);
        seconds += x.own + x.exchange;
    }
    return seconds;
}

static bool recomputes_whole(const struct plan *p) { return plan_number(p, "recompute") >= KEEP_NONE; }

/* Adds to the chunk's backward what a stack with whole_layers runs again, and this program does not. */
static enum status replay_whole_layers(const struct cluster *c, const struct run *r, int chunk, struct chunk_price *k) {
    const struct program *p = &r->program;
    const struct tape *backward = &r->chunks[chunk].tapes[TAPE_B];
    if (!c->stack.whole_layers || !recomputes_whole(&r->plan)) return OK;
    bool *replayed = calloc((size_t)p->n_steps + (size_t)p->n_blocks + 1, sizeof *replayed);
    if (!replayed) return FAIL(E_MEMORY, "no memory to price %d steps", p->n_steps);
    bool *has_replays = replayed + p->n_steps;
    for (int i = 0; i < backward->n; i++) {
        const struct row *row = &backward->rows[i];
        if (row->kind == ROW_REPLAY) replayed[row->id] = has_replays[p->steps[row->id].block] = true;
    }
    double again = rows_left_out(c, p, &r->chunks[chunk].tapes[TAPE_F], replayed, has_replays);
    k->tape[TAPE_B] += again, k->own[TAPE_B] += again, k->phase[TAPE_B][PRICE_REPLAY] += again;
    free(replayed);
    return OK;
}

/* Products of the tape hide a part of tp's exchanges, but no more than half of their own time. */
static void hide_tp(const struct stack *s, double *seconds, double *phase) {
    double hidden = fmin(s->tp_hidden_part * phase[PRICE_TP], 0.5 * phase[PRICE_PRODUCTS]);
    *seconds -= hidden, phase[PRICE_TP] -= hidden;
}

static bool sums_are_exposed(const struct stack *s, const struct plan *p) {
    bool late = s->sums_hide_from_zero && plan_number(p, "zero") >= s->sums_hide_from_zero;
    return s->sums_wait && !late;
}

static bool is_weights_gather(const struct exchange *x) {
    return x->op == COMM_ALL_GATHER && (x->when == BEHIND_BLOCK || x->when == BEHIND_FORWARD || x->when == AT_END);
}

static int64_t times_of(const struct exchange *x) { return x->times ? x->times : 1; }

/* Seconds of a step's gathers of weights. Those of a mesh axis are one gather, or where blocks hide them (ZeRO-3), one
 * for each block as often as the mean element is gathered. */
static double gather_seconds_in_buckets(const struct cluster *c, const struct run *r, bool by_block) {
    double seconds = 0;
    for (int axis = 0; axis < N_MESH_AXES; axis++) {
        struct exchange all = {.count = 0};
        int64_t once = 0;
        for (int i = 0; i < r->bill.n_exchanges; i++) {
            const struct exchange *x = &r->bill.exchanges[i];
            if (!is_weights_gather(x) || (int)x->axis != axis || (x->when == BEHIND_BLOCK) != by_block) continue;
            int64_t count = all.count + times_of(x) * x->count;
            all = *x, all.count = count, once += x->count;
        }
        if (!all.count) continue;
        if (by_block) all.pieces = (int)lround((double)r->program.n_blocks * (double)all.count / (double)once);
        seconds += exchange_seconds(c, &r->program.place, &all);
    }
    return seconds;
}

/* ---- a stage ---- */
static int64_t actions_of(const struct schedule *s, enum tape_kind kind, int chunk) {
    int64_t n = 0;
    for (int i = 0; i < s->n; i++) n += (int)s->actions[i].kind == (int)kind && s->actions[i].chunk == chunk;
    return n;
}

/* The norm reads the gradient. The optimizer reads it again, and reads and writes the weight and its states. With a
 * master copy it also writes the model's rounded weight. */
static double update_bytes(const struct param *w) {
    double state = (double)dtype_size(w->state_dtype), gradient = (double)dtype_size(w->grad_type.dtype);
    double rounded = w->master ? (double)dtype_size(w->type.dtype) : 0;
    return (double)w->own_n * (2 * (1 + w->optimizer->n_states) * state + 2 * gradient + rounded);
}

double price_update_bytes(const struct program *p) {
    double bytes = 0;
    for (int i = 0; i < p->n_params; i++)
        if (param_is_stored(&p->params[i]) && !p->params[i].cache) bytes += update_bytes(&p->params[i]);
    return bytes;
}

double price_update_seconds(const struct cluster *c, const struct run *r) {
    double bytes = price_update_bytes(&r->program) - price_offload(r).update_bytes;
    double seconds = bytes / op_bytes_per_s(c, r->program.optimizer->name);
    for (const struct update_cost *u = r->bill.updates; u < r->bill.updates + r->bill.n_updates; u++)
        seconds += u->times * op_seconds(c, "update", u->dtype, &u->cost, ROW_FORWARD).total;
    return seconds;
}

static void price_end(const struct cluster *c, struct stage *g) {
    const struct bill *b = &g->run.bill;
    double behind = 0, blocks = 0, forward = 0, packing = 0, message = 0;
    g->send_s = 0, g->cold_s = c->cold_s;
    memset(g->end_s, 0, sizeof g->end_s);
    for (int i = 0; i < b->n_exchanges; i++) {
        const struct exchange *x = &b->exchanges[i];
        double seconds = exchange_seconds(c, &g->run.program.place, x);
        double times = (double)times_of(x) / (x->every ? (double)x->every : 1);
        packing += times * x->packing / op_bytes_per_s(c, "pack");
        if (x->when == BESIDE_BLOCKS) message = seconds + (x->along ? message : c->switch_s);
        if (x->when == BESIDE_BLOCKS) g->send_s = fmax(g->send_s, message);
        if (c->stack.buckets && is_weights_gather(x)) continue;
        if (x->when == BEHIND_BACKWARD) behind += times * seconds;
        if (x->when == BEHIND_FORWARD) forward += times * seconds;
        if (x->when == BEHIND_BLOCK) blocks += times * seconds;
        if (x->when == AT_END) g->end_s[x->op == COMM_ALL_GATHER ? PRICE_GATHER : PRICE_OPTIM] += times * seconds;
    }
    if (c->stack.buckets) {
        forward += gather_seconds_in_buckets(c, &g->run, false);
        blocks += gather_seconds_in_buckets(c, &g->run, true);
    }
    if (c->stack.replay_gathers && recomputes_whole(&g->run.plan)) blocks *= 1.5;
    g->end_s[PRICE_DP] = beside(c, behind, sums_are_exposed(&c->stack, &g->run.plan) ? 0 : g->window_s);
    g->end_s[PRICE_MEMORY] = packing;
    g->end_s[PRICE_GATHER] += beside(c, blocks, g->busy_s) +
                             beside(c, forward, c->stack.gathers_wait ? 0 : g->first_s);
    struct price_offload o = price_offload(&g->run);
    double update_s = price_update_seconds(c, &g->run);
    if (o.link_bytes > 0)
        g->end_s[PRICE_OFFLOAD] = o.link_bytes / c->host_bytes_per_s + o.host_bytes / c->host_memory_bytes_per_s;
    g->end_s[PRICE_OPTIM] += update_s;
    g->own_s += update_s + packing;
}

enum status price_stage(const struct cluster *c, struct stage *g) {
    const struct run *r = &g->run;
    free(g->chunk);
    g->chunk = calloc((size_t)r->program.n_chunks, sizeof *g->chunk);
    if (!g->chunk) return FAIL(E_MEMORY, "no memory to price %d chunks", r->program.n_chunks);
    g->busy_s = g->forward_s = g->own_s = g->window_s = g->first_s = 0;
    memset(g->phase_s, 0, sizeof g->phase_s);
    for (int k = 0; k < r->program.n_chunks; k++)
        for (int kind = 0; kind < N_TAPES; kind++) {
            double n = (double)actions_of(&r->schedule, (enum tape_kind)kind, k), *seconds = &g->chunk[k].tape[kind];
            TRY(price_tape(c, &r->program, &r->chunks[k].tapes[kind], seconds, &g->chunk[k].own[kind],
                           g->chunk[k].phase[kind]));
            if (kind == TAPE_B) TRY(replay_whole_layers(c, r, k, &g->chunk[k]));
            hide_tp(&c->stack, seconds, g->chunk[k].phase[kind]);
            price_copies(c, &r->chunks[k], (enum tape_kind)kind, seconds, &g->chunk[k].own[kind],
                         g->chunk[k].phase[kind]);
            if (n == 0) *seconds = 0;
            g->busy_s += n * *seconds, g->own_s += n * g->chunk[k].own[kind];
            if (kind == TAPE_F) g->forward_s += n * *seconds, g->first_s += *seconds;
            for (int i = 0; i < N_PRICE_PHASES; i++) g->phase_s[i] += n * g->chunk[k].phase[kind][i];
            if (kind != TAPE_F) g->window_s += *seconds;
        }
    price_end(c, g);
    return OK;
}

double stage_end_s(const struct stage *g) {
    double sum = 0;
    for (int i = 0; i < N_PRICE_PHASES; i++) sum += g->end_s[i];
    return sum;
}
