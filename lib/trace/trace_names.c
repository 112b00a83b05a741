/* The names of spans: a step, param or slot of a rank's program, and the kind of row. Behind the names lies what each
 * kind of row of a step computes and moves, as a piece of the file. */
#include "lib/trace/trace_state.h"

#include "lib/comm/exchange.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the work of rows ---- */
enum { FORWARD, BACKWARD_INPUT, BACKWARD_WEIGHT, N_WORKS };
static const enum row_kind WORK_KINDS[N_WORKS] = {ROW_FORWARD, ROW_BACKWARD_INPUT, ROW_BACKWARD_WEIGHT};

/* Does the row stand still for other ranks? Then its time says nothing of its work. */
static bool exchanges(const struct program *g, const struct step *s, const struct call *call, enum row_kind kind) {
    struct exchange x[MAX_EXCHANGES] = {{.axis = (enum mesh_axis)s->mesh_axis}, {.axis = (enum mesh_axis)s->mesh_axis}};
    bool any = false;
    for (int i = 0, n = s->op->exchanges ? s->op->exchanges(call, kind, x) : 0; i < n; i++)
        any |= mesh_size(x[i].axis, &g->place) > 1;
    return any;
}

static void write_work(FILE *f, const struct program *g, const struct step *s, enum row_kind kind) {
    struct call call = program_call(g, s);
    struct cost cost = op_cost(&call, kind);
    if (exchanges(g, s, &call, kind) || (cost.flops == 0 && cost.bytes == 0)) return;
    fprintf(f, ",\"dtype\":\"%s\",\"flops\":%.0f,\"bytes\":%.0f", dtype_name(op_product_dtype(&call)),
            cost.flops - cost.left_out, cost.bytes + cost.cast_bytes);
    for (int i = 0; i < cost.n_products; i++) {
        const struct matmul *p = &cost.product[i];
        fprintf(f, "%s[%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", i ? "," : ",\"products\":[", p->m, p->n, p->k,
                p->batch);
    }
    if (cost.n_products) fputc(']', f);
}

const char *trace_span_work(const struct trace_rank *r, const struct span *s) {
    int first = r->n_names - N_WORKS * r->n_steps;
    if (s->kind != SPAN_ROW || s->other >= 0) return "";
    enum row_kind kind = s->what == ROW_REPLAY ? ROW_FORWARD : (enum row_kind)s->what;
    for (int i = 0; i < N_WORKS; i++)
        if (WORK_KINDS[i] == kind) return r->names[first + N_WORKS * s->id + i];
    return "";
}

/* ---- names ---- */
enum status trace_names_of(const struct run *r, struct trace_rank *out) {
    const struct program *g = &r->program;
    size_t bytes = 0;
    *out = (struct trace_rank){.n_steps = g->n_steps, .n_params = g->n_params,
                               .n_names = (1 + N_WORKS) * g->n_steps + g->n_params + g->n_slots};
    FILE *f = open_memstream(&out->text, &bytes);
    if (!f) return FAIL(E_MEMORY, "no memory for the names of %d steps", g->n_steps);
    for (int i = 0; i < g->n_steps; i++) {
        const struct step *s = &g->steps[i];
        fprintf(f, "%s %s%c", s->op->name, g->slots[s->out[0]].name, 0);
    }
    for (int i = 0; i < g->n_params; i++) fprintf(f, "%s%c", g->params[i].name, 0);
    for (int i = 0; i < g->n_slots; i++) fprintf(f, "%s%c", g->slots[i].name, 0);
    for (int i = 0; i < N_WORKS * g->n_steps; i++) {
        write_work(f, g, &g->steps[i / N_WORKS], WORK_KINDS[i % N_WORKS]);
        fputc(0, f);
    }
    if (fclose(f) != 0) return FAIL(E_MEMORY, "no memory for the names of %d steps", g->n_steps);
    out->text_bytes = (int64_t)bytes;
    return trace_names_find(out);
}

enum status trace_names_find(struct trace_rank *r) {
    const char *at = r->text;
    r->names = malloc(((size_t)r->n_names + 1) * sizeof *r->names);
    if (!r->names) return FAIL(E_MEMORY, "no memory for %d names", r->n_names);
    for (int i = 0; i < r->n_names; i++, at += strlen(at) + 1) r->names[i] = at;
    return OK;
}

void trace_names_fini(struct trace_rank *r) {
    free(r->names);
    free(r->text);
    r->names = NULL;
    r->text = NULL;
}

static const char *row_suffix(enum row_kind kind) {
    static const char *const suffixes[N_ROW_KINDS] = {[ROW_FORWARD] = "forward",
                                                      [ROW_REPLAY] = "replay",
                                                      [ROW_BACKWARD_INPUT] = "backward_input",
                                                      [ROW_BACKWARD_WEIGHT] = "backward_weight",
                                                      [ROW_WAIT] = "wait",
                                                      [ROW_PARAM_AHEAD] = "ahead",
                                                      [ROW_PARAM_NEEDED] = "needed",
                                                      [ROW_PARAM_DONE] = "done",
                                                      [ROW_GRAD_READY] = "gradient ready",
                                                      [ROW_PARK] = "parked",
                                                      [ROW_UNPARK] = "on its way back",
                                                      [ROW_COPIED] = "copied"};
    return suffixes[kind];
}

static const char *row_name(const struct trace_rank *r, const struct span *s) {
    static char text[4 * NAME_MAX_LEN + 64];
    enum row_kind kind = (enum row_kind)s->what;
    int first = row_kind_is_copy(kind) ? r->n_steps + r->n_params : row_kind_is_event(kind) ? r->n_steps : 0;
    bool is_pair = s->other >= 0;
    snprintf(text, sizeof text, "%s%s%s %s", r->names[first + s->id], is_pair ? " + " : "",
             is_pair ? r->names[s->other] : "", row_suffix(kind));
    return text;
}

const char *trace_span_name(const struct trace_rank *r, const struct span *s) {
    switch ((enum span_kind)s->kind) {
    case SPAN_STEP: return "step";
    case SPAN_PHASE: return run_phase_name((enum run_phase)s->what);
    case SPAN_ACTION: return action_name((enum action_kind)s->what);
    case SPAN_FETCH: return "fetch tokens";
    case SPAN_ROW: return row_name(r, s);
    case SPAN_COMM: return comm_op_name((enum comm_op)s->what);
    default: return "?";
    }
}
