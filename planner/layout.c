#include "planner/layout.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const NAMES[N_DECISIONS + 1] = {"tp",     "pp",   "cp",        "ep", "micro-batch", "schedule",
                                                   "chunks", "zero", "recompute", "sp"};
static const char *const SCHEDULES[] = {"1f1b", "zb-h1", "zb-v"}, *const RECOMPUTES[] = {"none", "selective", "full",
                                                                                         "block"};
const char *decision_name(enum decision d) { return (unsigned)d <= N_DECISIONS ? NAMES[d] : "?"; }

const char *choice_text(enum decision d, int64_t choice) {
    static char text[24];
    if (d == DECIDE_RECOMPUTE) return RECOMPUTES[choice];
    if (d == DECIDE_SCHEDULE) return SCHEDULES[choice];
    snprintf(text, sizeof text, "%" PRId64, choice);
    return text;
}

/* ---- as text ---- */
struct writer { char *at; size_t left; };
__attribute__((format(printf, 2, 3))) static void write_word(struct writer *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(w->at, w->left, format, args);
    va_end(args);
    size_t used = n < 0 ? 0 : (size_t)n < w->left ? (size_t)n : w->left - 1;
    w->at += used, w->left -= used;
}

static void write_recompute(struct writer *w, const char *before, const struct layout *l) {
    int64_t kind = l->choice[DECIDE_RECOMPUTE];
    if (kind == KEEP_SOME) write_word(w, "%sblock:%" PRId64, before, l->blocks);
    else if (kind) write_word(w, "%s%s", before, RECOMPUTES[kind]);
}

const char *layout_text(const struct layout *l, char *text, size_t size) {
    const int64_t *c = l->choice;
    struct writer w = {text, size};
    write_word(&w, "dp%" PRId64 " tp%" PRId64 " pp%" PRId64, l->dp, c[DECIDE_TP], c[DECIDE_PP]);
    if (c[DECIDE_CP] > 1) write_word(&w, " cp%" PRId64, c[DECIDE_CP]);
    if (c[DECIDE_EP] > 1) write_word(&w, " ep%" PRId64, c[DECIDE_EP]);
    write_word(&w, " micro-batch %" PRId64, c[DECIDE_MICRO]);
    if (c[DECIDE_SCHEDULE]) write_word(&w, " %s", SCHEDULES[c[DECIDE_SCHEDULE]]);
    if (c[DECIDE_CHUNKS] > 1) write_word(&w, " chunks %" PRId64, c[DECIDE_CHUNKS]);
    if (l->split[0]) write_word(&w, " split %s", l->split);
    if (c[DECIDE_ZERO]) write_word(&w, " zero %" PRId64, c[DECIDE_ZERO]);
    write_recompute(&w, " ", l);
    return text;
}

static void write_option(struct writer *w, const char *name, int64_t n, bool wanted) {
    if (wanted) write_word(w, "--%s %" PRId64 " ", name, n);
}

const char *layout_options(const struct layout *l, char *text, size_t size) {
    const int64_t *c = l->choice;
    struct writer w = {text, size};
    text[0] = 0;
    write_option(&w, "dp", l->dp, l->dp);
    for (enum decision d = DECIDE_TP; d <= DECIDE_PP; d++) write_option(&w, NAMES[d], c[d], c[d]);
    if (c[DECIDE_TP] > 1) write_word(&w, "--sp on ");
    for (enum decision d = DECIDE_CP; d <= DECIDE_EP; d++) write_option(&w, NAMES[d], c[d], c[d] > 1);
    write_option(&w, "micro-batch", c[DECIDE_MICRO], c[DECIDE_MICRO]);
    if (c[DECIDE_SCHEDULE]) write_word(&w, "--schedule %s ", SCHEDULES[c[DECIDE_SCHEDULE]]);
    if (c[DECIDE_CHUNKS] > 1) write_word(&w, "--schedule interleaved --chunks %" PRId64 " ", c[DECIDE_CHUNKS]);
    if (l->split[0]) write_word(&w, "--pp-split %s ", l->split);
    write_option(&w, "zero", c[DECIDE_ZERO], c[DECIDE_ZERO]);
    write_recompute(&w, "--recompute ", l);
    size_t n = strlen(text);
    if (n && text[n - 1] == ' ') text[n - 1] = 0;
    return text;
}

/* ---- from a plan, and back ---- */
bool layout_offloads(const struct plan *p) { return plan_number(p, "offload") != 0; }

bool layout_parks(const struct plan *p) { return plan_number(p, "park") != 0; }

static int64_t schedule_in(const struct plan *p) {
    for (int i = 1; i < N_SEARCHED_ORDERS; i++)
        if (plan_has_word(p, "schedule", SCHEDULES[i])) return i;
    return ORDER_PLAIN;
}

static int64_t at_least_1(int64_t n) { return n > 0 ? n : 1; }

struct layout layout_of_plan(const struct plan *p) {
    struct layout l = {.dp = at_least_1(p->mesh.dp)};
    int64_t *c = l.choice;
    c[DECIDE_TP] = at_least_1(p->mesh.tp), c[DECIDE_PP] = at_least_1(p->mesh.pp);
    c[DECIDE_CP] = at_least_1(p->mesh.cp), c[DECIDE_EP] = at_least_1(p->mesh.ep);
    c[DECIDE_MICRO] = at_least_1(p->micro_batch), c[DECIDE_SCHEDULE] = schedule_in(p);
    c[DECIDE_CHUNKS] = plan_number(p, "chunks"), c[DECIDE_ZERO] = plan_number(p, "zero");
    c[DECIDE_RECOMPUTE] = plan_number(p, "recompute");               /* its first kinds equal KEEP_ALL to KEEP_NONE */
    return l;
}

void layout_apply(const struct layout *l, unsigned fixed, struct plan *p) {
    const int64_t *c = l->choice;
    p->mesh.dp = l->dp, p->mesh.tp = c[DECIDE_TP], p->mesh.pp = c[DECIDE_PP], p->mesh.cp = c[DECIDE_CP];
    p->mesh.ep = c[DECIDE_EP];
    if (!(fixed >> DECIDE_MICRO & 1)) p->micro_batch = c[DECIDE_MICRO];
    if (!(fixed >> DECIDE_SCHEDULE & 1))
        plan_set_word(p, "schedule", c[DECIDE_CHUNKS] > 1 ? "interleaved" : SCHEDULES[c[DECIDE_SCHEDULE]], 0);
    if (!(fixed >> DECIDE_CHUNKS & 1)) plan_set_number(p, "chunks", c[DECIDE_CHUNKS]);
    if (!(fixed >> DECIDE_ZERO & 1)) plan_set_number(p, "zero", c[DECIDE_ZERO]);
    if (!(fixed >> DECIDE_RECOMPUTE & 1)) plan_set_word(p, "recompute", RECOMPUTES[c[DECIDE_RECOMPUTE]], l->blocks);
    if (!(fixed >> DECIDE_SP & 1)) plan_set_number(p, "sp", c[DECIDE_TP] > 1);
    if (l->split[0]) plan_set_word(p, "pp-split", l->split, 0);
}

bool layout_is_legal(const struct recipe *r, struct plan *p) {
    enum status status = plan_settle(p, 0);
    for (int i = 0; i < r->n_techniques && status == OK; i++) {
        const struct technique *t = r->techniques[i];
        if (t->wanted(p) && t->check) status = t->check(p);
    }
    if (status != OK) status_clear();
    return status == OK;
}

bool layout_settle(const struct recipe *r, const struct layout *l, unsigned fixed, const struct plan *asked,
                   struct plan *out) {
    *out = *asked;
    layout_apply(l, fixed, out);
    return layout_is_legal(r, out);
}
