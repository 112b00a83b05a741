/* The pipeline of a plan: its schedule, its shape, and the virtual stage of each layer. */
#include "pp/pp.h"
#include "lib/base/stage_notation.h"
#include "pp/pp_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

const struct pp_schedule *pp_row(const struct plan *plan) {
    const struct pp_options *o = pp_options(plan);
    if (o->schedule != SCHEDULE_FILE) return pp_schedule_at(o->schedule);
    const struct pp_table *t;
    if (pp_table_of(o->file, &t) == OK) return &t->row;
    status_clear();                                                  /* pp_check reports it */
    return &pp_1f1b;
}

struct pp_shape pp_shape_of_plan(const struct plan *plan) {
    const struct pp_options *o = pp_options(plan);
    struct pp_shape x = pp_shape_of(pp_row(plan), (int)plan->mesh.pp, o->chunks, plan->n_microbatches);
    pp_read_times(o, &x.cost);
    return x;
}

/* ---- actions ---- */
enum status pp_schedule(const struct plan *plan, struct schedule *out) {
    const struct pp_schedule *row = pp_row(plan);
    struct pp_shape shape = pp_shape_of_plan(plan);
    pp_schedule_make(row, &shape, plan->place.rank.pp, out);
    out->send_depth = pp_send_depth(row, &shape);
    if (pp_options(plan)->optim_sync == OPTIM_SYNC_VALIDATE) pp_validate(row, &shape, out);
    return OK;
}

enum status pp_schedules(const struct plan *plan, struct schedule *out) {
    const struct pp_schedule *row = pp_row(plan);
    struct pp_shape shape = pp_shape_of_plan(plan);
    int depth = pp_send_depth(row, &shape);
    pp_schedules_make(row, &shape, out);
    for (int i = 0; i < shape.n_stages; i++) {
        out[i].send_depth = depth;
        if (pp_options(plan)->optim_sync == OPTIM_SYNC_VALIDATE) pp_validate(row, &shape, &out[i]);
    }
    return OK;
}

/* ---- layers ---- */
static int64_t n_virtual(const struct plan *plan) {
    const struct pp_shape shape = pp_shape_of_plan(plan);
    return pp_n_virtual(pp_row(plan)->place, &shape);
}

/* "pp=2 stages", or "pp=2 x chunks=4 = 8 virtual stages". Static storage. */
static const char *stages_text(const struct plan *plan) {
    static char text[128];
    int64_t pp = plan->mesh.pp, chunks = n_virtual(plan) / pp;
    if (chunks == 1) snprintf(text, sizeof text, "pp=%" PRId64 " stages", pp);
    else
        snprintf(text, sizeof text, "pp=%" PRId64 " x chunks=%" PRId64 " = %" PRId64 " virtual stages", pp, chunks,
                 n_virtual(plan));
    return text;
}

static enum status assign_evenly(const struct plan *plan, int *stage_of) {
    int64_t each = plan->layers / n_virtual(plan), more = plan->layers % n_virtual(plan);
    for (int64_t stage = 0, layer = 0; stage < n_virtual(plan); stage++)
        for (int64_t i = 0; i < each + (stage < more); i++) stage_of[layer++] = (int)stage;
    return OK;
}

static enum status refuse_split(const struct plan *plan) {
    return FAIL(E_CONFIG,
                "pp-split=%s does not split layers=%" PRId64 " over %s; give %" PRId64 " positive counts, separated by "
                "commas, that sum to %" PRId64 ", or as Megatron's layout, Et*2|(t*2|)*3tL",
                pp_options(plan)->split, plan->layers, stages_text(plan), n_virtual(plan), plan->layers);
}

static enum status assign_as_told(const struct plan *plan, int *stage_of) {
    int64_t layer = 0, stage = 0;
    char counts[OPTION_TEXT_MAX];
    const char *at = stage_notation_counts(pp_options(plan)->split, counts, sizeof counts);
    for (bool more = true; more; stage++) {
        char *end;
        long n = strtol(at, &end, 10);
        more = *end == ',';
        if (end == at || (*end && !more) || n < 1 || n > plan->layers - layer || stage >= n_virtual(plan))
            return refuse_split(plan);
        for (long i = 0; i < n; i++) stage_of[layer++] = (int)stage;
        at = end + 1;
    }
    return layer == plan->layers && stage == n_virtual(plan) ? OK : refuse_split(plan);
}

static enum status refuse_too_many(const struct plan *plan) {
    bool fewer_chunks = plan->mesh.pp <= plan->layers && pp_options(plan)->chunks > 1;
    int64_t chunks = n_virtual(plan) / plan->mesh.pp;
    int64_t most = fewer_chunks ? plan->layers / plan->mesh.pp : plan->layers / chunks;
    if (most == 0)
        return FAIL(E_CONFIG, "%s are more than layers=%" PRId64 "; use layers %" PRId64 " or more", stages_text(plan),
                    plan->layers, n_virtual(plan));
    return FAIL(E_CONFIG, "%s are more than layers=%" PRId64 "; use %s %" PRId64 " or less", stages_text(plan),
                plan->layers, fewer_chunks ? "chunks" : "pp", most);
}

enum status pp_assign_layers(const struct plan *plan, int *stage_of) {
    if (n_virtual(plan) > plan->layers) return refuse_too_many(plan);
    return pp_options(plan)->split[0] ? assign_as_told(plan, stage_of) : assign_evenly(plan, stage_of);
}
