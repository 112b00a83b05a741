#include "driver/plan/plan_page.h"

#include "driver/plan/plan_tables.h"
#include "driver/recipe.h"
#include "driver/report/report.h"
#include <math.h>

json_t *plan_part_names(void) {
    json_t *names = json_array();
    for (int i = 0; i < N_PARTS; i++) json_array_append_new(names, json_string(part_name((enum part)i)));
    return names;
}

json_t *plan_parts_json(const struct price *x) {
    double part_s[N_PARTS];
    json_t *parts = json_array();
    part_seconds(x->phase_s, x->step_s, part_s);
    for (int i = 0; i < N_PARTS; i++) json_array_append_new(parts, json_real(fmax(0, part_s[i])));   /* rounding */
    return parts;
}

/* ---- memory against time, and why a layout is not the fastest ---- */
static json_t *dot_json(const struct plan_dot *d, enum why why) {
    char text[192];
    return json_pack("{s:s, s:f, s:I, s:s}", "layout", layout_text(&d->layout, text, sizeof text), "step_s", d->step_s,
                     "memory_bytes", (json_int_t)d->bytes, "why", why_name(why));
}

static json_t *dots_json(const struct plan_page *p) {
    const struct plan_dots *d = p->dots;
    double best[N_PARTS];
    json_t *fit = json_array(), *no_fit = json_array(), *whys = json_array();
    if (p->fastest) part_seconds(p->fastest->price.phase_s, p->fastest->price.step_s, best);
    for (int i = 0; i < N_WHYS; i++) json_array_append_new(whys, json_string(why_name((enum why)i)));
    for (int i = 0; i < d->no_fit.n; i++) json_array_append_new(no_fit, dot_json(&d->no_fit.dot[i], WHY_NO_FIT));
    for (int i = 0; i < d->fit.n; i++) {
        const struct plan_dot *x = &d->fit.dot[i];
        json_array_append_new(fit, dot_json(x, p->fastest ? why_of(x->part_s, true, best) : WHY_TIED));
    }
    return json_pack("{s:o, s:o, s:o, s:i}", "whys", whys, "fit", fit, "no_fit", no_fit, "refined", d->refined);
}

/* ---- the page ---- */
static json_t *shown_json(const struct plan_page *p) {
    json_t *shown = json_array();
    for (int i = 0; i < p->n_shown; i++) json_array_append_new(shown, plan_parts_json(&p->search->best[i].price));
    return shown;
}

static void print_ties(FILE *f, const void *self) {
    const struct plan_page *p = self;
    plan_write_ties(f, p->n_tied, p->n_shown);
}

enum status plan_page_json(const struct plan_page *p, json_t **out) {
    json_t *pipeline = NULL;
    char text[192];
    *out = NULL;
    if (p->n_shown && recipe_draws_pipeline())
        TRY(recipe_draws_pipeline()->draw(&train_recipe, p->asked, p->fixed, p->cluster, &p->search->best[0].layout,
                                          NULL, &pipeline));
    *out = json_pack("{s:s, s:I, s:I, s:s, s:s, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "kind", "plan",
                     "global_batch", (json_int_t)p->asked->global_batch, "room_bytes",
                     (json_int_t)(p->cluster->memory_bytes - p->cluster->reserve_bytes), "command", p->command,
                     "fastest", p->fastest ? layout_text(&p->fastest->layout, text, sizeof text) : "", "fastest_step_s",
                     p->fastest ? p->fastest->price.step_s : 0, "ties", report_words(print_ties, p), "parts",
                     plan_part_names(), "parts_s", shown_json(p), "dots", dots_json(p), "tipping",
                     plan_rows_tipping(p), "families", plan_rows_families(p), "pipeline",
                     pipeline ? pipeline : json_null());
    return *out ? OK : FAIL(E_MEMORY, "no memory for the page of a plan");
}
