#include "planner/choose.h"

#include "lib/base/integer.h"
#include "lib/base/stage_notation.h"
#include "lib/run/run.h"
#include "planner/split.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct choosing {
    const struct recipe *recipe;
    const struct plan *asked;
    unsigned fixed;
    const struct cluster *cluster;
};

/* *can_be false: refused. each: price each stage by itself. Else a layout that is too large gets only its bytes. */
static enum status price_layout(const struct choosing *c, const struct layout *l, bool each, struct found *out,
                                bool *can_be) {
    struct plan p;
    const struct price_wish wish = {.uneven = each || l->split[0], .only_if_it_fits = !each};
    *can_be = layout_settle(c->recipe, l, c->fixed, c->asked, &p);
    out->layout = *l;
    return *can_be ? price_plan(c->recipe, &p, c->cluster, &wish, &out->price) : OK;
}

static bool is_shorter(const struct found *a, const struct found *b) {
    return a->price.fits && (!b->price.fits || a->price.step_s < b->price.step_s);
}

/* ---- recompute ---- */
static int64_t most_layers(const struct price *x, int n_stages) {
    int64_t most = 1;
    for (int i = 0; i < n_stages; i++)
        if (x->stage[i].layers > most) most = x->stage[i].layers;
    return most;
}

/* The least N that fits, by halving: bytes fall with N. */
static enum status mix_recomputation(const struct choosing *c, struct found *f, struct found *t) {
    struct layout l = f->layout;
    int64_t low = 1, high = most_layers(&f->price, (int)l.choice[DECIDE_PP]);
    struct found best = {.price.fits = false};
    l.choice[DECIDE_RECOMPUTE] = KEEP_SOME;
    while (low < high) {
        bool can_be;
        l.blocks = (low + high) / 2;
        TRY(price_layout(c, &l, false, t, &can_be));
        if (!can_be) return OK;
        if (t->price.fits) best = *t, high = l.blocks;
        else low = l.blocks + 1;
    }
    if (is_shorter(&best, f)) *f = best;
    return OK;
}

/* ---- pp-split ---- */
/* Write the layers of each virtual stage. Of a stage's chunks the first take what does not divide, because the last
 * stage's last chunk has the head. */
static void write_split(struct layout *l, const int64_t *layers_of, int n) {
    int64_t chunks = l->choice[DECIDE_CHUNKS];
    char text[OPTION_TEXT_MAX];
    size_t used = 0;
    for (int64_t i = 0; i < n * chunks && used < sizeof text; i++) {
        int64_t layers = layers_of[i % n];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%" PRId64, i ? "," : "",
                                 layers / chunks + (i / n < layers % chunks));
    }
    if (used < sizeof l->split) memcpy(l->split, text, used + 1);
    else if (used >= sizeof text || !stage_notation_write(text, l->split, sizeof l->split)) l->split[0] = 0;
}

/* The price of a layer on a stage, found by moving one there from another stage. */
struct a_layer { double s; int64_t bytes; };
static enum status move_a_layer(const struct choosing *c, const struct found *even, int64_t *layers_of, int n,
                                struct found *t, struct a_layer *out) {
    struct layout l = even->layout;
    int to = 0, from = n - 1;
    bool can_be = false;
    while (from > 0 && layers_of[from] <= l.choice[DECIDE_CHUNKS]) from--;
    if (from == 0) to = n - 1;
    layers_of[to]++, layers_of[from]--;
    write_split(&l, layers_of, n);
    layers_of[to]--, layers_of[from]++;
    *out = (struct a_layer){0, 0};
    if (l.split[0]) TRY(price_layout(c, &l, true, t, &can_be));
    if (!can_be) return OK;
    *out = (struct a_layer){t->price.stage[to].s - even->price.stage[to].s,
                            t->price.stage[to].bytes - even->price.stage[to].bytes};
    return OK;
}

/* Split. If a stage is then too full, give it fewer layers and split again. Each chunk keeps one layer: all but one of
 * these, `more`, belong to the stage's fixed seconds, and most and split_layers do not count them. */
static enum status split_until_it_fits(const struct choosing *c, const struct found *even, const struct a_layer *layer,
                                       const double *fixed_s, int64_t *most, int64_t *layers_of, int n,
                                       struct found *t) {
    struct layout l = even->layout;
    int64_t room = c->cluster->memory_bytes - c->cluster->reserve_bytes, more = l.choice[DECIDE_CHUNKS] - 1;
    for (bool can_be = true;;) {
        enum status status = split_layers(n, c->asked->layers - n * more, layer->s, fixed_s, most, layers_of);
        for (int i = 0; i < n && status == OK; i++) layers_of[i] += more;
        if (status == E_CONFIG) status_clear();                      /* memory cannot hold the layers */
        t->price.fits = false;
        if (status != OK) return status == E_CONFIG ? OK : status;
        write_split(&l, layers_of, n);
        if (l.split[0]) TRY(price_layout(c, &l, false, t, &can_be));
        if (!l.split[0] || !can_be || t->price.fits) return OK;
        for (int i = 0; i < n; i++) {
            int64_t excess = t->price.stage[i].bytes - room;
            if (excess > 0) most[i] = layers_of[i] - more - (layer->bytes > 0 ? ceil_div(excess, layer->bytes) : 1);
        }
    }
}

static enum status split_stages(const struct choosing *c, struct found *f, struct found *even, struct found *t) {
    int n = (int)f->layout.choice[DECIDE_PP];
    int64_t chunks = f->layout.choice[DECIDE_CHUNKS];
    int64_t *layers_of = calloc(2 * (size_t)n, sizeof *layers_of), *most = layers_of ? layers_of + n : NULL;
    double *fixed_s = calloc((size_t)n, sizeof *fixed_s);
    struct a_layer layer = {0, 0};
    bool can_be;
    *even = *f;
    enum status status = layers_of && fixed_s ? OK : FAIL(E_MEMORY, "no memory to split %d stages", n);
    if (status == OK) status = price_layout(c, &f->layout, true, even, &can_be);
    for (int i = 0; status == OK && i < n; i++) layers_of[i] = even->price.stage[i].layers, most[i] = c->asked->layers;
    if (status == OK && c->asked->layers > n * chunks) status = move_a_layer(c, even, layers_of, n, t, &layer);
    if (status == OK && layer.s > 0) {
        for (int i = 0; i < n; i++)
            fixed_s[i] = even->price.stage[i].s - (double)(layers_of[i] - chunks + 1) * layer.s;
        status = split_until_it_fits(c, even, &layer, fixed_s, most, layers_of, n, t);
        if (status == OK && is_shorter(t, f)) *f = *t;
    }
    free(layers_of);
    free(fixed_s);
    return status;
}

/* ---- both ---- */
/* most_chunks: of a layout that is split. */
static enum status refine(const struct recipe *recipe, const struct plan *asked, unsigned fixed, int64_t most_chunks,
                          const struct cluster *cluster, struct found *f) {
    const struct choosing c = {recipe, asked, fixed, cluster};
    struct found *room = calloc(2, sizeof *room);
    const int64_t *x = f->layout.choice;
    enum status status = room ? OK : FAIL(E_MEMORY, "no memory to refine a layout");
    bool keeps_less = x[DECIDE_RECOMPUTE] == KEEP_NONE || x[DECIDE_RECOMPUTE] == KEEP_DEAR;
    if (status == OK && !(fixed >> DECIDE_RECOMPUTE & 1) && keeps_less) status = mix_recomputation(&c, f, room);
    if (status == OK && x[DECIDE_PP] > 1 && x[DECIDE_CHUNKS] <= most_chunks && x[DECIDE_SCHEDULE] != ORDER_ZB_V)
        status = split_stages(&c, f, &room[0], &room[1]);
    free(room);
    return status;
}

enum status choose_refine(const struct recipe *recipe, const struct plan *asked, unsigned fixed, bool split,
                          const struct cluster *cluster, struct found *f) {
    return refine(recipe, asked, fixed, split, cluster, f);
}

/* ---- auto ---- */
struct automatic { bool micro, recompute, split; };

static struct automatic what_is_auto(const struct plan *p) {
    return (struct automatic){p->micro_batch == PLAN_AUTO, plan_has_word(p, "recompute", "auto"),
                              plan_has_word(p, "pp-split", "auto")};
}

bool choose_is_asked(const struct plan *p) {
    struct automatic is = what_is_auto(p);
    return is.micro || is.recompute || is.split;
}

static enum status refuse_all(const struct found *f, const struct cluster *c) {
    char text[192];
    int largest = 0;
    for (int i = 1; i < N_ROLES; i++)
        if (f->price.bytes[i] > f->price.bytes[largest]) largest = i;
    return FAIL(E_CONFIG, "nothing that auto may choose fits: the smallest, %s, takes %.2f MiB of %.2f, of which %s "
                          "%.2f; use a larger memory-limit, more ranks or zero",
                layout_text(&f->layout, text, sizeof text), (double)f->price.total_bytes / (1 << 20),
                (double)(c->memory_bytes - c->reserve_bytes) / (1 << 20), role_name((enum role)largest),
                (double)f->price.bytes[largest] / (1 << 20));
}

static void write_chosen(struct automatic is, const struct layout *l, char *text, size_t size) {
    struct layout told = {.choice = {0}};
    if (is.micro) told.choice[DECIDE_MICRO] = l->choice[DECIDE_MICRO];
    if (is.recompute) told.choice[DECIDE_RECOMPUTE] = l->choice[DECIDE_RECOMPUTE], told.blocks = l->blocks;
    if (is.split) memcpy(told.split, l->split, sizeof told.split);
    layout_options(&told, text, size);
    if (!text[0]) snprintf(text, size, "no recomputation, even stages");
}

/* Return the error of the plan itself, if it has one. */
static enum status refuse_plan(const struct recipe *recipe, const struct plan *asked) {
    struct plan p = *asked;
    struct run r = {0};
    TRY(plan_settle(&p, 0));
    enum status status = run_compile(&r, recipe, &p, 0, NULL, NULL);
    run_destroy(&r);
    return status;
}

static enum status choose(const struct recipe *r, const struct cluster *c, struct automatic is, struct plan *p,
                          struct search *s, char *text, size_t size) {
    unsigned fixed = ALL_DECISIONS & ~((is.micro ? 1u << DECIDE_MICRO : 0) |
                                       (is.recompute ? 1u << DECIDE_RECOMPUTE : 0));
    struct layout given = layout_of_plan(p);
    int64_t ranks = given.dp * given.choice[DECIDE_TP] * given.choice[DECIDE_PP] * given.choice[DECIDE_CP];
    TRY(search_layouts(r, p, fixed, c, ranks, true, s));
    struct found *best = s->n_best ? &s->best[0] : &s->smallest;
    if (!best->layout.dp) {                                          /* all are refused: report the plan's error */
        TRY(refuse_plan(r, p));
        return FAIL(E_CONFIG, "no micro-batch and no recomputation makes this plan one that can run; give micro-batch "
                              "and recompute to see why");
    }
    for (int i = 0; i < (s->n_best ? s->n_best : 1); i++) {
        struct found *f = s->n_best ? &s->best[i] : &s->smallest;
        TRY(refine(r, p, fixed, is.split ? INT64_MAX : 0, c, f));
        if (is_shorter(f, best)) best = f;
    }
    if (!best->price.fits) return refuse_all(best, c);
    layout_apply(&best->layout, fixed, p);
    write_chosen(is, &best->layout, text, size);
    return OK;
}

enum status choose_auto(const struct recipe *r, const struct cluster *c, struct plan *p, char *text, size_t size) {
    struct automatic is = what_is_auto(p);
    struct search *s = calloc(1, sizeof *s);
    if (!s) return FAIL(E_MEMORY, "no memory to choose a layout");
    if (is.micro) p->micro_batch = 0;
    if (is.recompute) plan_set_word(p, "recompute", "none", 0);
    if (is.split) plan_set_word(p, "pp-split", "", 0);
    enum status status = choose(r, c, is, p, s, text, size);
    search_fini(s);
    free(s);
    return status;
}
