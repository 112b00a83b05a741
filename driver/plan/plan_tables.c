/* The tables of a plan's page, and the words that it shares with the text. */
#include "driver/plan/plan_tables.h"

#include "driver/chart/markup.h"
#include <math.h>

#define GIB 1073741824.0

static void write_layout(const struct layout *l, FILE *f) {
    char text[192];
    fprintf(f, "<td class=\"text\">");
    markup_text(f, layout_text(l, text, sizeof text));
    fprintf(f, "</td></tr>\n");
}

/* ---- what was found ---- */
void plan_write_ties(FILE *f, int n_tied, int n_shown) {
    if (n_tied < 2) {
        fprintf(f, "no other layout is within %.1f%% of the fastest, the model's error", 100 * MODEL_ERROR);
        return;
    }
    fprintf(f, "= %d layouts", n_tied);
    if (n_shown < n_tied) fprintf(f, ", %d of them here,", n_shown);
    fprintf(f, " are within %.1f%% of the fastest, the model's error: any of them may be; the one that needs least "
               "memory comes first", 100 * MODEL_ERROR);
}

void plan_table_layouts(const struct plan_page *p, FILE *f) {
    if (!p->n_shown) return;
    fprintf(f, "<h2 id=\"layouts\">What was found</h2>\n<p class=\"small\">");
    plan_write_ties(f, p->n_tied, p->n_shown);
    fprintf(f, "</p>\n<div class=\"wide\"><table class=\"narrow\">\n<thead><tr><th scope=\"col\">tied</th>"
               "<th scope=\"col\">step, s</th><th scope=\"col\">mfu, %%</th><th scope=\"col\">GiB</th>"
               "<th scope=\"col\" class=\"text\">layout</th></tr></thead>\n<tbody>\n");
    for (int i = 0; i < p->n_shown; i++) {
        const struct price *x = &p->search->best[i].price;
        fprintf(f, "<tr><th scope=\"row\">%s</th><td>%.4g</td><td>%.1f</td><td>%.1f</td>", i < p->n_tied ? "=" : "",
                x->step_s, 100 * x->mfu, (double)x->total_bytes / GIB);
        write_layout(&p->search->best[i].layout, f);
    }
    fprintf(f, "</tbody>\n</table></div>\n");
}

/* ---- what it rests on ---- */
static const struct { const char *name, *unit_name; double unit; } ASSUMPTIONS[N_ASSUMPTIONS] = {
    [ASSUME_WIRE] = {"bandwidth of the outermost level", " GB/s", 1e9},
    [ASSUME_PRODUCTS] = {"part of the peak that products reach", "", 1},
    [ASSUME_RESERVE] = {"reserve: memory that is not ours", " GiB", GIB}};

const char *plan_assumption_name(enum assumption what) { return ASSUMPTIONS[what].name; }

void plan_write_now(FILE *f, enum assumption what, const struct tipping *t) {
    fprintf(f, "%.3g%s", t->now / ASSUMPTIONS[what].unit, ASSUMPTIONS[what].unit_name);
}

void plan_write_tipping(FILE *f, enum assumption what, const struct tipping *t) {
    if (t->beyond == 0) fprintf(f, "no value from a quarter to four times as much changes the choice");
    else
        fprintf(f, "%s %.3g%s", t->beyond > t->now ? "above" : "below", t->beyond / ASSUMPTIONS[what].unit,
                ASSUMPTIONS[what].unit_name);
}

void plan_table_tipping(const struct plan_page *p, FILE *f) {
    char text[192];
    if (!p->fastest) return;
    fprintf(f, "<h2 id=\"tipping\">What would win otherwise</h2>\n<p class=\"small\">What the fastest, ");
    markup_text(f, layout_text(&p->fastest->layout, text, sizeof text));
    fprintf(f, ", rests on, and the nearest value at which another layout wins.</p>\n"
               "<div class=\"wide\"><table class=\"narrow\">\n<thead><tr><th scope=\"col\" "
               "class=\"text\">assumption</th><th scope=\"col\">now</th><th scope=\"col\" class=\"text\">another "
               "wins</th><th scope=\"col\" class=\"text\">which</th></tr></thead>\n<tbody>\n");
    for (enum assumption i = 0; i < N_ASSUMPTIONS; i++) {
        const struct tipping *t = &p->tipping[i];
        fprintf(f, "<tr><th scope=\"row\">%s</th><td>", ASSUMPTIONS[i].name);
        plan_write_now(f, i, t);
        fprintf(f, "</td><td class=\"text\">");
        plan_write_tipping(f, i, t);
        fprintf(f, "</td>");
        if (t->beyond == 0) fprintf(f, "<td></td></tr>\n");
        else write_layout(&t->other, f);
    }
    fprintf(f, "</tbody>\n</table></div>\n");
}

/* ---- why others lose ---- */
bool plan_family_is_open(const struct search *s, int i) {
    enum decision d = s->families[i].decision;
    return (i > 0 && s->families[i - 1].decision == d) || (i + 1 < s->n_families && s->families[i + 1].decision == d);
}

void plan_write_differences(FILE *f, const struct price *x, const struct price *best) {
    bool told[N_PRICE_PHASES] = {false};
    for (int n = 0; n < 3; n++) {
        int most = -1;
        for (int i = 0; i < N_PRICE_PHASES; i++)
            if (!told[i] && (most < 0 || fabs(x->phase_s[i] - best->phase_s[i]) >
                                             fabs(x->phase_s[most] - best->phase_s[most]))) most = i;
        double seconds = x->phase_s[most] - best->phase_s[most];
        told[most] = true;
        if (fabs(seconds) > 0.002 * best->step_s)
            fprintf(f, "%s %s %+.3g s", n ? "," : "", price_phase_name((enum price_phase)most), seconds);
    }
}

static void write_family(const struct plan_page *p, const struct family *x, FILE *f) {
    fprintf(f, "<tr><th scope=\"row\">%s</th><td>%s</td>", decision_name(x->decision),
            choice_text(x->decision, x->choice));
    if (!x->fits) {
        fprintf(f, "<td></td><td></td><td class=\"reason\">does not fit: %.1f GiB</td>",
                (double)x->best.price.total_bytes / GIB);
    } else {
        const struct price *best = p->fastest ? &p->fastest->price : &x->best.price;
        fprintf(f, "<td>%.4g</td><td>%+.1f%%</td><td class=\"text\">", x->best.price.step_s,
                fmax(0, 100 * (x->best.price.step_s / best->step_s - 1)));
        if (x->best.price.step_s <= best->step_s) fprintf(f, "is the fastest's");
        else plan_write_differences(f, &x->best.price, best);
        fprintf(f, "</td>");
    }
    write_layout(&x->best.layout, f);
}

void plan_table_families(const struct plan_page *p, FILE *f) {
    fprintf(f, "<h2 id=\"families\">Why others lose</h2>\n<p class=\"small\">The best layout of each choice, beside "
               "the fastest of all: how much longer its step is, and the phases that differ most.</p>\n"
               "<div class=\"wide\"><table class=\"narrow\">\n<thead><tr><th scope=\"col\">decision</th>"
               "<th scope=\"col\">choice</th><th scope=\"col\">step, s</th><th scope=\"col\">longer by</th>"
               "<th scope=\"col\" class=\"text\">where it goes</th><th scope=\"col\" class=\"text\">layout</th>"
               "</tr></thead>\n<tbody>\n");
    for (int i = 0; i < p->search->n_families; i++)
        if (plan_family_is_open(p->search, i)) write_family(p, &p->search->families[i], f);
    fprintf(f, "</tbody>\n</table></div>\n");
}
