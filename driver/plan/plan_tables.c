/* Texts of a plan's page and terminal output, and the rows of the page's tables. */
#include "driver/plan/plan_tables.h"

#include "driver/report/report.h"
#include "lib/base/say.h"
#include <math.h>

#define GIB 1073741824.0

/* ---- ties ---- */
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

/* ---- assumptions ---- */
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

struct assumed { enum assumption what; const struct tipping *tipping; };
static void print_now(FILE *f, const void *self) {
    const struct assumed *x = self;
    plan_write_now(f, x->what, x->tipping);
}
static void print_tipping(FILE *f, const void *self) {
    const struct assumed *x = self;
    plan_write_tipping(f, x->what, x->tipping);
}

json_t *plan_rows_tipping(const struct plan_page *p) {
    char text[192];
    json_t *rows = json_array();
    for (enum assumption i = 0; p->fastest && i < N_ASSUMPTIONS; i++) {
        const struct assumed x = {i, &p->tipping[i]};
        json_array_append_new(rows, json_pack("[s, o, o, s]", ASSUMPTIONS[i].name, report_words(print_now, &x),
                                              report_words(print_tipping, &x),
                                              x.tipping->beyond == 0 ? "" : layout_text(&x.tipping->other, text,
                                                                                        sizeof text)));
    }
    return rows;
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

struct compared { const struct price *it, *best; };
static void print_differences(FILE *f, const void *self) {
    const struct compared *x = self;
    if (x->it->step_s <= x->best->step_s) fprintf(f, "is the fastest's");
    else plan_write_differences(f, x->it, x->best);
}

static json_t *family_json(const struct plan_page *p, const struct family *x) {
    char layout[192], step[64], longer[32], room[32];
    const struct price *it = &x->best.price;
    const struct compared pair = {it, p->fastest ? &p->fastest->price : it};
    layout_text(&x->best.layout, layout, sizeof layout);
    if (x->fits) snprintf(step, sizeof step, "%.4g", it->step_s);
    else snprintf(step, sizeof step, "does not fit: %s", bytes_text((double)it->total_bytes, room));
    if (!x->fits)
        return json_pack("[s, s, s, s, {s:s}, s]", decision_name(x->decision), choice_text(x->decision, x->choice), "",
                         "", "reason", step, layout);
    snprintf(longer, sizeof longer, "%+.1f%%", fmax(0, 100 * (it->step_s / pair.best->step_s - 1)));
    return json_pack("[s, s, s, s, o, s]", decision_name(x->decision), choice_text(x->decision, x->choice), step,
                     longer, report_words(print_differences, &pair), layout);
}

json_t *plan_rows_families(const struct plan_page *p) {
    json_t *rows = json_array();
    for (int i = 0; i < p->search->n_families; i++)
        if (plan_family_is_open(p->search, i))
            json_array_append_new(rows, family_json(p, &p->search->families[i]));
    return rows;
}
