/* Placements: which rank has which virtual stage of the model.
 *
 *            wind, v = 2        vee                mirror
 *   rank 0   0 4                0 7                pipe 0: 0   pipe 1: 3
 *   rank 1   1 5                1 6                        1           2
 *   rank 2   2 6                2 5                        2           1
 *   rank 3   3 7                3 4                        3           0
 *
 *   wind     stage after stage, then around again with the next chunk: the first stage is on the first rank, the last
 *            on the last. One chunk: the pipeline of the textbooks.
 *   vee      down the ranks and back. The first and the last stage are on one rank, so the tied embedding costs no
 *            message; at the turn, two stages in sequence are on one rank.
 *   mirror   two pipelines in opposite directions, for half of the microbatches each. Every rank holds two stages, and
 *            every stage is held by two ranks, which add their gradients together (AXIS_MIRROR).
 *
 * What breaks: the two ends of a message computing different placements. So both call the same function. */
#include "pp/pp_schedule.h"

#include "lib/base/grow.h"
#include <math.h>

static struct hop wind(const struct pp_shape *x, int pipe, int s) {
    (void)pipe;
    return (struct hop){.rank = s % x->n_stages, .chunk = s / x->n_stages};
}
static struct hop vee(const struct pp_shape *x, int pipe, int s) {
    (void)pipe;
    bool back = s >= x->n_stages;
    return (struct hop){.rank = back ? 2 * x->n_stages - 1 - s : s, .chunk = back};
}
static struct hop mirror(const struct pp_shape *x, int pipe, int s) {
    return (struct hop){.rank = pipe ? x->n_stages - 1 - s : s, .chunk = pipe};
}
const struct pp_placement pp_wind = {1, 0, wind}, pp_vee = {1, 2, vee}, pp_mirror = {2, 2, mirror};

struct pp_shape pp_shape_of(const struct pp_schedule *row, int n_stages, int64_t chunks, int n_microbatches) {
    bool open = row->place->n_chunks == 0 || chunks > 1;             /* chunks > 1 is refused then: pp_schedule_legal */
    return (struct pp_shape){.n_stages = n_stages, .n_chunks = open ? (int)chunks : row->place->n_chunks,
                             .n_microbatches = n_microbatches, .table = row->table};
}

/* Times are rounded to millionths of their unit: microseconds, if they are seconds. */
struct pp_costs pp_costs_of(const struct pp_work *t, double transfer, double held, int memory) {
    return (struct pp_costs){llround(1e6 * t->f), llround(1e6 * t->bi), llround(1e6 * t->w), llround(1e6 * transfer),
                             (int)lround(1e3 * held), memory};
}

int pp_n_virtual(const struct pp_placement *place, const struct pp_shape *x) {
    return x->n_stages * x->n_chunks / place->n_pipes;
}

/* The channel: along the ranks, or against them. */
static int way_of(const struct pp_shape *x, int from, int to) { return to == (from + 1) % x->n_stages ? 0 : 2; }

static struct hop neighbor(const struct pp_placement *place, const struct pp_shape *x, int pipe, int s, int step) {
    if (s + step < 0 || s + step >= pp_n_virtual(place, x)) return (struct hop){-1, -1, 0};
    struct hop here = place->where(x, pipe, s), there = place->where(x, pipe, s + step);
    there.way = step > 0 ? way_of(x, here.rank, there.rank) : way_of(x, there.rank, here.rank);
    return there;
}

void pp_place(const struct pp_placement *place, const struct pp_shape *x, int stage, struct schedule *out) {
    out->rank = stage;
    out->n_pipes = place->n_pipes;
    for (int c = 0; c < x->n_chunks; c++) out->hops = table_grow(out->hops, c, sizeof *out->hops);
    for (int pipe = 0; pipe < place->n_pipes; pipe++)
        for (int s = 0; s < pp_n_virtual(place, x); s++) {
            struct hop here = place->where(x, pipe, s), next = neighbor(place, x, pipe, s, +1);
            if (next.rank >= 0 && next.rank != here.rank) out->n_ways = next.way > 0 || out->n_ways == 2 ? 2 : 1;
            if (here.rank != stage) continue;
            out->hops[here.chunk][HOP_NEXT] = next;
            out->hops[here.chunk][HOP_BEFORE] = neighbor(place, x, pipe, s, -1);
        }
}
