/* The grid of walls: one search per cell. A model's row gives the reach of its products, and then its cells' walls. */
#include "driver/plan/budget_walls.h"

#include "driver/recipe.h"
#include "planner/budget.h"
#include "planner/search.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#define GIB 1073741824.0

/* Sizes are those of Brown et al. 2020, table 2.1, and for the last two of Narayanan et al. 2021, table 1. (There the
 * largest model has 160 heads; we have 200, because no kernel takes 160 channels per head.) Batches are near the
 * published ones, and multiples of large powers of two. */
const struct walls_model walls_models[N_WALL_MODELS] = {{"1.3B", 24, 2048, 16, 512},
                                                        {"13B", 40, 5120, 40, 1024},
                                                        {"175B", 96, 12288, 96, 1536},
                                                        {"310B", 96, 16384, 128, 2048},
                                                        {"1T", 128, 25600, 200, 3072}};
const int64_t walls_sizes[N_WALL_SIZES] = {8, 64, 512, 4096, 16384};
enum { SEQ = 2048, VOCAB = 51200 };

/* ---- a cell ---- */
static struct plan plan_of(const struct plan *base, const struct walls_model *m) {
    struct plan p = *base;
    p.layers = m->layers, p.hidden = m->hidden, p.heads = m->heads, p.global_batch = m->batch;
    p.seq = SEQ, p.vocab = VOCAB;
    return p;
}

static void take_best(const struct plan *p, const struct cluster *c, const struct walls_of *of, int64_t ranks,
                      const struct found *best, struct walls_cell *cell) {
    const struct price *x = &best->price;
    double flops = p->arch->flops_per_token(p) * 20 * (double)p->arch->n_params(p);
    const struct budget b = budget_make(c, &(struct budget_of){
        flops, c->flops_per_s[plan_product_dtype(p)], x->mfu, (double)ranks, of->stall_s, of->restart_s,
        of->interval_s});
    cell->of = (struct wall_of){.fits = true, .step_s = x->step_s, .mfu = x->mfu, .slowest = b.slowest,
                                .goodput = b.goodput};
    for (int i = 0; i < N_PRICE_PHASES; i++) cell->of.phase_s[i] = x->phase_s[i];
    layout_text(&best->layout, cell->layout, sizeof cell->layout);
}

static enum status make_cell(const struct plan *p, const struct cluster *c, const struct walls_of *of, int64_t ranks,
                             struct walls_cell *cell) {
    struct search *s = calloc(1, sizeof *s);
    if (!s) return FAIL(E_MEMORY, "no memory to search");
    *cell = (struct walls_cell){0};
    enum status status = search_layouts(&train_recipe, p, 1u << DECIDE_SCHEDULE, c, ranks, true, s);
    if (status == OK && s->n_best) take_best(p, c, of, ranks, &s->best[0], cell);
    else if (status == OK && s->smallest.layout.dp) {
        cell->least_gib = (double)s->smallest.price.total_bytes / GIB;
        layout_text(&s->smallest.layout, cell->layout, sizeof cell->layout);
    }
    search_fini(s);
    free(s);
    return status;
}

void walls_judge_row(struct walls_cell *row, int n) {
    double reach = 0;
    for (int i = 0; i < n; i++) {
        const struct wall_of *x = &row[i].of;
        if (x->fits) reach = fmax(reach, wall_reach(x->mfu, x->step_s, x->phase_s[PRICE_PRODUCTS]));
    }
    for (int i = 0; i < n; i++) {
        struct walls_cell *cell = &row[i];
        cell->of.reach = reach;
        cell->wall = wall_of(&cell->of);
        if (!cell->of.fits) continue;
        cell->loss = wall_loss(&cell->of, &cell->loss_part);
        cell->exchanges = wall_exchanges(&cell->of);
        cell->mfu_left = cell->of.mfu / cell->of.slowest * cell->of.goodput;
    }
}

enum status walls_choose_sizes(int64_t least, int64_t most, struct walls *out) {
    *out = (struct walls){0};
    for (int i = N_WALL_SIZES - 1; i >= 0; i--)
        if (walls_sizes[i] >= least && walls_sizes[i] <= most) out->first = i, out->n++;
    return out->n ? OK : FAIL(E_USAGE, "no number of ranks of --walls lies in %" PRId64 ":%" PRId64 "; they are 8, 64, "
                                       "512, 4096 and 16384", least, most);
}

enum status walls_make(const struct plan *base, const struct cluster *c, const struct walls_of *of,
                       void (*done)(const struct walls *, int row), struct walls *w) {
    for (int row = 0; row < N_WALL_MODELS; row++) {
        const struct plan p = plan_of(base, &walls_models[row]);
        for (int i = 0; i < w->n; i++) TRY(make_cell(&p, c, of, walls_sizes[w->first + i], &w->cell[row][i]));
        walls_judge_row(w->cell[row], w->n);
        if (done) done(w, row);
    }
    return OK;
}

/* ---- as text ---- */
/* Name the loss and its number, because "bubble 31%" explains the wall "efficiency". */
static void say_number(const struct walls_cell *x, char *out, size_t size) {
    if (x->wall == WALL_MEMORY && x->least_gib == 0) snprintf(out, size, "none can be");
    else if (x->wall == WALL_MEMORY) snprintf(out, size, "%.0f GiB at least", x->least_gib);
    else if (x->wall == WALL_COMMUNICATION) snprintf(out, size, "exchanges %.0f%%", 100 * x->exchanges);
    else if (x->wall == WALL_COMPUTE) snprintf(out, size, "%.0f%% of reach", 100 * x->of.mfu / x->of.reach);
    else snprintf(out, size, "%s %.0f%%", loss_name(x->loss), 100 * x->loss_part);
}

static void say_wall(const struct walls_cell *x, char *out, size_t size) {
    if (x->of.fits) snprintf(out, size, "%s, mfu %.0f%%", wall_name(x->wall), 100 * x->mfu_left);
    else snprintf(out, size, "%s", wall_name(x->wall));
}

void walls_print_head(FILE *f, const struct walls *w) {
    fprintf(f, "%-6s", "");
    for (int i = 0; i < w->n; i++) fprintf(f, "  %-24" PRId64, walls_sizes[w->first + i]);
    fprintf(f, "\n");
}

void walls_print_row(FILE *f, const struct walls *w, int row) {
    char text[40];
    fprintf(f, "%-6s", walls_models[row].name);
    for (int i = 0; i < w->n; i++) {
        say_wall(&w->cell[row][i], text, sizeof text);
        fprintf(f, "  %-24s", text);
    }
    fprintf(f, "\n%-6s", "");
    for (int i = 0; i < w->n; i++) {
        say_number(&w->cell[row][i], text, sizeof text);
        fprintf(f, "  %-24s", text);
    }
    fprintf(f, "\n");
}

/* ---- as JSON ---- */
static json_t *cell_json(const struct walls_model *m, int64_t ranks, const struct walls_cell *x) {
    json_t *o = json_pack("{s:s, s:I, s:I, s:s, s:b, s:s}", "model", m->name, "global_batch", (json_int_t)m->batch,
                          "ranks", (json_int_t)ranks, "wall", wall_name(x->wall), "fits", x->of.fits, "layout",
                          x->layout);
    if (!x->of.fits) {
        json_object_set_new(o, "least_bytes", json_real(x->least_gib * GIB));
        return o;
    }
    const struct { const char *name; double value; } NUMBERS[] = {
        {"step_s", x->of.step_s}, {"mfu", x->of.mfu}, {"reach", x->of.reach}, {"exchanges", x->exchanges},
        {"slowest", x->of.slowest}, {"goodput", x->of.goodput}, {"mfu_left", x->mfu_left},
        {"loss_part", x->loss_part}};
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++)
        json_object_set_new(o, NUMBERS[i].name, json_real(NUMBERS[i].value));
    json_object_set_new(o, "loss", json_string(loss_name(x->loss)));
    return o;
}

json_t *walls_json(const struct walls *w) {
    json_t *cells = json_array();
    for (int row = 0; row < N_WALL_MODELS; row++)
        for (int i = 0; i < w->n; i++)
            json_array_append_new(cells, cell_json(&walls_models[row], walls_sizes[w->first + i], &w->cell[row][i]));
    return json_pack("{s:o}", "walls", cells);
}

/* ---- as a page ---- */
static json_t *words_json(const struct walls *w, int row, int column) {
    const struct walls_cell *x = &w->cell[row][column];
    char first[40], second[40];
    say_wall(x, first, sizeof first);
    say_number(x, second, sizeof second);
    return json_pack("{s:i, s:i, s:i, s:s, s:s}", "row", row, "column", column, "series", x->wall, "first", first,
                     "second", second);
}

json_t *walls_page_json(const struct cluster *c, const struct walls *w) {
    json_t *page = walls_json(w), *cells = json_array();
    for (int row = 0; row < N_WALL_MODELS; row++)
        for (int i = 0; i < w->n; i++) json_array_append_new(cells, words_json(w, row, i));
    json_t *head = json_pack("{s:s, s:s, s:o}", "kind", "walls", "cluster", c->name, "cells", cells);
    json_object_update(page, head);
    json_decref(head);
    return page;
}
