/* The list of schedules, and what is computed from a row: its legality, the neighbors of chunks, a stage's actions, the
 * number of staging buffers. */
#include "pp/pp_schedule.h"

#include "lib/base/grow.h"
#include "pp/pp_timeline.h"
#include <stdio.h>
#include <string.h>

static const struct pp_schedule *const ROWS[] = {&pp_gpipe, &pp_1f1b, &pp_interleaved};
enum { N_ROWS = sizeof ROWS / sizeof *ROWS };

const struct pp_schedule *pp_schedule_at(int i) { return i >= 0 && i < N_ROWS ? ROWS[i] : NULL; }

/* "interleaved, breadth-first": those that take chunks. Static storage. */
static const char *chunked_names(void) {
    static char text[256];
    text[0] = 0;
    for (int i = 0; i < N_ROWS; i++)
        if (ROWS[i]->chunked)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", text[0] ? ", " : "", ROWS[i]->name);
    return text;
}

enum status pp_schedule_legal(const struct pp_schedule *row, const struct pp_shape *x) {
    if (x->n_chunks > 1 && !row->chunked)
        return FAIL(E_CONFIG, "chunks=%d needs schedule=%s; use that, or leave chunks at 1", x->n_chunks,
                    chunked_names());
    if (x->n_chunks > 1 && x->n_stages == 1)
        return FAIL(E_CONFIG, "chunks=%d needs a pipeline, and pp=1 has none; use pp 2 or more, or chunks 1",
                    x->n_chunks);
    return row->legal ? row->legal(x) : OK;
}

/* ---- a stage's schedule ---- */
static struct hop at(const struct pp_shape *x, int virtual_stage) {
    bool exists = virtual_stage >= 0 && virtual_stage < x->n_stages * x->n_chunks;
    return exists ? (struct hop){virtual_stage % x->n_stages, virtual_stage / x->n_stages, 0} : (struct hop){-1, -1, 0};
}

void pp_place(const struct pp_shape *x, int stage, struct schedule *out) {
    out->rank = stage;
    for (int chunk = 0; chunk < x->n_chunks; chunk++) {
        out->hops = table_grow(out->hops, chunk, sizeof *out->hops);
        int here = chunk * x->n_stages + stage;
        out->hops[chunk][HOP_NEXT] = at(x, here + 1);
        out->hops[chunk][HOP_BEFORE] = at(x, here - 1);
    }
}

void pp_schedule_make(const struct pp_schedule *row, const struct pp_shape *x, int stage, struct schedule *out) {
    *out = (struct schedule){.n_microbatches = x->n_microbatches};
    pp_place(x, stage, out);
    row->order(x, stage, out);
}

/* ---- the proof, by running it ---- */
bool pp_simulate(const struct schedule *stages, int n_stages, int depth) {
    const struct pp_times timeless = {{0}, 0};
    struct pp_timeline unused;
    enum status status = pp_timeline_make(stages, n_stages, depth, &timeless, &unused);
    if (status != OK) status_clear();
    pp_timeline_fini(&unused);
    return status == OK;
}

int pp_send_depth(const struct pp_schedule *row, const struct pp_shape *x) { return row->depth ? row->depth(x) : 1; }
