/* The names of spans: a step, param or slot of a rank's program, and the kind of row. */
#include "lib/trace/trace_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status trace_names_of(const struct run *r, struct trace_rank *out) {
    const struct program *g = &r->program;
    size_t bytes = 0;
    *out = (struct trace_rank){.n_steps = g->n_steps, .n_params = g->n_params,
                               .n_names = g->n_steps + g->n_params + g->n_slots};
    FILE *f = open_memstream(&out->text, &bytes);
    if (!f) return FAIL(E_MEMORY, "no memory for the names of %d steps", g->n_steps);
    for (int i = 0; i < g->n_steps; i++) {
        const struct step *s = &g->steps[i];
        fprintf(f, "%s %s%c", s->op->name, g->slots[s->out[0]].name, 0);
    }
    for (int i = 0; i < g->n_params; i++) fprintf(f, "%s%c", g->params[i].name, 0);
    for (int i = 0; i < g->n_slots; i++) fprintf(f, "%s%c", g->slots[i].name, 0);
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
