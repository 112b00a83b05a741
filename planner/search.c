#include "planner/search.h"

#include "lib/base/grow.h"
#include "lib/base/integer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the search ---- */
/* A layer's seconds and activations per microbatch, and its unsharded states. layer_class: what they depend on. */
struct layer { double seconds, bytes[N_ROLES]; };
struct layer_class { int64_t tp, cp, ep, micro, recompute; struct layer layer; };

struct searching {
    const struct recipe *recipe;
    const struct plan *asked;
    const struct cluster *cluster;
    unsigned fixed;
    int64_t ranks;
    bool prune;
    struct layout given;                 /* the choices of fixed decisions */
    struct search *out;
    struct layer_class *classes;
    int n_classes;
    struct run_stem stem;                /* what a layout shares with the layout before it */
    search_told *told;                   /* NULL: no listener */
    void *told_self;
};

/* Price `layers` layers on one stage for one microbatch of size k->micro, without the plan's schedule, chunks and zero.
 * Weights and states that may be offloaded count no bytes, nor do activations that may be parked; weight codecs count
 * no time. NAN: refused. */
static struct layer price_layers(const struct searching *s, const struct layer_class *k, int layers) {
    struct plan p = *s->asked;
    struct price *price = malloc(sizeof *price);
    int64_t dp = k->ep > k->cp ? k->ep / k->cp : 1;
    struct layout l = {.choice = {[DECIDE_TP] = k->tp, [DECIDE_PP] = 1, [DECIDE_CP] = k->cp, [DECIDE_EP] = k->ep,
                                  [DECIDE_MICRO] = k->micro, [DECIDE_CHUNKS] = 1, [DECIDE_RECOMPUTE] = k->recompute},
                       .dp = dp};
    layout_apply(&l, s->fixed & (1 << DECIDE_SP | 1 << DECIDE_RECOMPUTE), &p);
    p.layers = layers, p.global_batch = dp * k->micro;
    bool offloads = layout_offloads(&p);                  /* offload is refused without zero */
    bool parks = layout_parks(&p);
    plan_set_word(&p, "offload", "none", 0);
    plan_set_word(&p, "weight-codec", "none", 0);
    if (parks) plan_set_word(&p, "park", "none", 0);
    struct layer out = {NAN, {0}};
    if (price && layout_is_legal(s->recipe, &p) && price_plan(s->recipe, &p, s->cluster, NULL, price) == OK) {
        out.seconds = price->stage[0].s;
        for (int i = 0; i < N_ROLES; i++) out.bytes[i] = (double)price->bytes[i];
        if (offloads) out.bytes[ROLE_PARAM] = out.bytes[ROLE_GRAD] = out.bytes[ROLE_OPTIM] = 0;
        if (parks) out.bytes[ROLE_ACT] = 0;
    }
    status_clear();
    free(price);
    return out;
}

/* One layer is the difference between two layers and one. */
static struct layer layer_of(struct searching *s, const int64_t *c) {
    struct layer_class k = {c[DECIDE_TP], c[DECIDE_CP], c[DECIDE_EP], c[DECIDE_MICRO], c[DECIDE_RECOMPUTE], {0, {0}}};
    for (int i = 0; i < s->n_classes; i++) {
        const struct layer_class *x = &s->classes[i];
        if (x->tp == k.tp && x->cp == k.cp && x->ep == k.ep && x->micro == k.micro && x->recompute == k.recompute)
            return x->layer;
    }
    struct layer one = price_layers(s, &k, 1);
    k.layer = price_layers(s, &k, 2);
    k.layer.seconds -= one.seconds;
    for (int i = 0; i < N_ROLES; i++) k.layer.bytes[i] -= one.bytes[i];
    s->classes = table_grow(s->classes, s->n_classes, sizeof *s->classes);
    s->classes[s->n_classes++] = k;
    return k.layer;
}

/* ---- the kept layouts ---- */
static bool better(const struct found *a, const struct found *b) {
    return a->price.fits != b->price.fits ? a->price.fits
           : a->price.fits                ? a->price.step_s < b->price.step_s
                                          : a->price.total_bytes < b->price.total_bytes;
}

static struct family *family_of(struct search *out, enum decision d, int64_t choice) {
    for (int i = 0; i < out->n_families; i++)
        if (out->families[i].decision == d && out->families[i].choice == choice) return &out->families[i];
    return NULL;
}

static void keep_in_families(struct search *out, const struct found *f) {
    for (enum decision d = 0; d < N_DECISIONS; d++) {
        struct family *x = family_of(out, d, f->layout.choice[d]);
        if (!x) {
            out->families = table_grow(out->families, out->n_families, sizeof *out->families);
            x = &out->families[out->n_families++];
            *x = (struct family){d, f->layout.choice[d], f->price.fits, *f};
        } else if (better(f, &x->best)) {
            x->best = *f, x->fits = f->price.fits;
        }
    }
}

static void keep(struct search *out, const struct found *f) {
    int at = out->n_best;
    keep_in_families(out, f);
    if (!f->price.fits) {
        if (!out->smallest.layout.dp || f->price.total_bytes < out->smallest.price.total_bytes) out->smallest = *f;
        return;
    }
    while (at > 0 && f->price.step_s < out->best[at - 1].price.step_s) at--;
    if (at == MAX_BEST) return;
    int moved = (out->n_best < MAX_BEST ? out->n_best : MAX_BEST - 1) - at;
    memmove(&out->best[at + 1], &out->best[at], (size_t)moved * sizeof *out->best);
    out->best[at] = *f;
    if (out->n_best < MAX_BEST) out->n_best++;
}

/* ---- one layout ---- */
/* The fullest stage has layers / pp layers, rounded up. The first stage keeps the activations of up to pp microbatches
 * at once. */
static int64_t layers_of_stage(const struct plan *p) { return ceil_div(p->layers, p->mesh.pp); }

/* A lower bound: the microbatches one after another. If stages are equal, and each backward delays the next stage's,
 * the pipeline's fill and drain add to it. */
static double least_seconds(struct searching *s, const struct layout *l, const struct plan *p) {
    bool fills = p->layers % p->mesh.pp == 0 && l->choice[DECIDE_SCHEDULE] == ORDER_PLAIN;
    double fill = fills ? (double)(p->mesh.pp - 1) / (double)l->choice[DECIDE_CHUNKS] : 0;
    return ((double)p->n_microbatches + fill) * (double)layers_of_stage(p) * layer_of(s, l->choice).seconds;
}

/* A lower bound: states and activations of the layers, without embedding, head and scratch. */
static double least_bytes(struct searching *s, const struct layout *l, const struct plan *p) {
    struct layer x = layer_of(s, l->choice);
    double share = (double)p->mesh.dp * (double)(p->mesh.cp ? p->mesh.cp : 1);
    double alive = (double)min64(p->mesh.pp, p->n_microbatches);
    int64_t zero = l->choice[DECIDE_ZERO];
    return (double)layers_of_stage(p) * (x.bytes[ROLE_PARAM] / (zero >= 3 ? share : 1) +
                                         x.bytes[ROLE_GRAD] / (zero >= 2 ? share : 1) +
                                         x.bytes[ROLE_OPTIM] / (zero >= 1 ? share : 1) + alive * x.bytes[ROLE_ACT]);
}

/* Does every choice of the layout have a kept layout? */
static bool is_seen(const struct searching *s, const struct layout *l) {
    for (enum decision d = 0; d < N_DECISIONS; d++)
        if (!family_of(s->out, d, l->choice[d])) return false;
    return true;
}

/* Is it slower than every kept layout of its choices, and than all of the best? Then nothing printed changes. */
static bool is_beaten(const struct searching *s, const struct layout *l, double seconds) {
    if (s->out->n_best < MAX_BEST || !(seconds > s->out->best[MAX_BEST - 1].price.step_s)) return false;
    for (enum decision d = 0; d < N_DECISIONS; d++) {
        const struct family *f = family_of(s->out, d, l->choice[d]);
        if (!f->fits || !(seconds > f->best.price.step_s)) return false;
    }
    return true;
}
static bool is_too_slow(struct searching *s, const struct layout *l, const struct plan *p) {
    if (!s->out->n_best || !is_seen(s, l)) return false;
    double seconds = least_seconds(s, l, p);
    return seconds > 1.25 * s->out->best[0].price.step_s || is_beaten(s, l, seconds);
}
static bool is_too_large(struct searching *s, const struct layout *l, const struct plan *p) {
    double room = (double)(s->cluster->memory_bytes - s->cluster->reserve_bytes), bytes;
    if (!is_seen(s, l)) return false;
    bytes = least_bytes(s, l, p);                                    /* while nothing fits, compare with the smallest */
    return bytes > room && (s->out->n_best > 0 || bytes >= (double)s->out->smallest.price.total_bytes);
}

static enum status try_layout(struct searching *s, const struct layout *l) {
    struct search *out = s->out;
    struct plan p;
    struct found f = {.layout = *l};
    const struct price_wish wish = {
        .only_if_it_fits = true, .one_is_enough = s->out->n_best > 0, .only_the_step = true, .stem = &s->stem};
    out->stat.seen++;
    if (!layout_settle(s->recipe, l, s->fixed, s->asked, &p)) {
        out->stat.refused++;
        return OK;
    }
    if (s->prune && is_too_large(s, l, &p)) {
        out->stat.too_large++;
        return OK;
    }
    if (s->prune && is_too_slow(s, l, &p)) {
        out->stat.bound++;
        return OK;
    }
    enum status status = price_plan(s->recipe, &p, s->cluster, &wish, &f.price);
    if (status == E_CONFIG) {                                        /* a step has another shape than the
                                                                        technique needs */
        status_clear();
        out->stat.refused++;
        return OK;
    }
    TRY(status);
    out->stat.priced++;
    out->stat.no_fit += !f.price.fits;
    keep(out, &f);
    if (s->told) s->told(s->told_self, &f);
    return OK;
}

/* ---- choices ---- */
static bool divides(int64_t d, int64_t n) { return d > 0 && n % d == 0; }

/* Sort by distance from a value that is usually good: a good layout found early prunes more. */
static double distance(int64_t x, int64_t good) { return fabs(log2((double)x / (double)good)); }
static void put_good_ones_first(int64_t *x, int n, int64_t good) {
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && distance(x[k], good) < distance(x[k - 1], good); k--) {
            int64_t other = x[k - 1];
            x[k - 1] = x[k], x[k] = other;
        }
}

/* The choices of a decision, given those of the decisions before it. @return their number */
static int choices_of(const struct searching *s, enum decision d, const struct layout *l, int64_t *out) {
    const struct plan *p = s->asked;
    const int64_t *c = l->choice;
    int64_t left = s->ranks / (c[DECIDE_TP] * c[DECIDE_PP] * c[DECIDE_CP]), most = 1;
    int n = 0;
    switch (d) {
    case DECIDE_TP: most = 2 * min64(s->cluster->level[0].ranks, s->ranks); break;
    case DECIDE_PP: most = p->layers; break;
    case DECIDE_CP: most = p->seq >= 16384 ? 16 : 1; break;
    case DECIDE_EP: most = model_options(p)->experts ? model_options(p)->experts : 1; break;
    case DECIDE_MICRO: most = s->fixed >> DECIDE_TP & s->fixed >> DECIDE_PP & 1 ? p->global_batch : 16; break;
    case DECIDE_SCHEDULE:
        most = c[DECIDE_PP] > 1 && !s->cluster->stack.no_zero_bubble ? N_SEARCHED_ORDERS - 1 : 0; break;
    case DECIDE_CHUNKS:
        most = c[DECIDE_PP] > 1 && c[DECIDE_SCHEDULE] == ORDER_PLAIN ? p->layers / c[DECIDE_PP] : 1; break;
    case DECIDE_ZERO: most = left * c[DECIDE_CP] == 1 ? 0 : c[DECIDE_PP] > 1 ? 1 : 3; break;
    default: most = KEEP_NONE;
    }
    if (s->cluster->stack.no_chunks && d == DECIDE_CHUNKS) most = 1;
    if (most > s->ranks && d <= DECIDE_EP) most = s->ranks;
    for (int64_t x = d < DECIDE_ZERO && d != DECIDE_SCHEDULE; x <= most && n < MAX_CHOICES; x++) {
        if ((d <= DECIDE_CP && !divides(x, left)) || (d == DECIDE_EP && !divides(x, left * c[DECIDE_CP]))) continue;
        if (d == DECIDE_MICRO && (x & (x - 1))) continue;
        if (d == DECIDE_CHUNKS && !divides(x, p->layers / c[DECIDE_PP])) continue;
        out[n++] = x;
    }
    if (d == DECIDE_TP) put_good_ones_first(out, n, min64(s->cluster->level[0].ranks, s->ranks));
    if (d == DECIDE_CHUNKS) put_good_ones_first(out, n, most);
    return n;
}

static enum status decide(struct searching *s, enum decision d, struct layout *l) {
    int64_t choices[MAX_CHOICES], *c = l->choice;
    if (d == N_DECISIONS) {
        int64_t replica = c[DECIDE_TP] * c[DECIDE_PP] * c[DECIDE_CP];
        l->dp = s->ranks / replica;
        return divides(replica, s->ranks) ? try_layout(s, l) : OK;
    }
    int n = s->fixed >> d & 1 ? 1 : choices_of(s, d, l, choices);
    if (s->fixed >> d & 1) choices[0] = s->given.choice[d];
    for (int i = 0; i < n; i++) {
        c[d] = choices[i];
        TRY(decide(s, d + 1, l));
    }
    c[d] = 1;
    return OK;
}

/* Price a kept layout again: with all its phases, or all its bytes if it does not fit. */
static enum status complete_one(struct searching *s, struct found *f) {
    struct plan p;
    if (!f->layout.dp || !layout_settle(s->recipe, &f->layout, s->fixed, s->asked, &p)) return OK;
    return price_plan(s->recipe, &p, s->cluster, NULL, &f->price);
}
static enum status complete(struct searching *s) {
    struct search *out = s->out;
    for (int i = 0; i < out->n_best; i++) TRY(complete_one(s, &out->best[i]));
    for (int i = 0; i < out->n_families; i++) TRY(complete_one(s, &out->families[i].best));
    return complete_one(s, &out->smallest);
}

static int by_choice(const void *a, const void *b) {
    const struct family *x = a, *y = b;
    if (x->decision != y->decision) return x->decision < y->decision ? -1 : 1;
    return (x->choice > y->choice) - (x->choice < y->choice);
}

enum status search_layouts(const struct recipe *recipe, const struct plan *plan, unsigned fixed,
                           const struct cluster *cluster, int64_t ranks, bool prune, struct search *out) {
    return search_layouts_telling(recipe, plan, fixed, cluster, ranks, prune, NULL, NULL, out);
}

enum status search_layouts_telling(const struct recipe *recipe, const struct plan *plan, unsigned fixed,
                                   const struct cluster *cluster, int64_t ranks, bool prune, search_told *told,
                                   void *self, struct search *out) {
    struct searching s = {recipe, plan, cluster, fixed, ranks, prune, layout_of_plan(plan), out, NULL, 0,
                          {.n_stages = 0}, told, self};
    struct layout l = {.dp = 1};
    *out = (struct search){0};
    if (fixed >> DECIDE_RECOMPUTE & 1 && s.given.choice[DECIDE_RECOMPUTE] > KEEP_NONE)
        return FAIL(E_CONFIG, "a search, and auto, know recompute=none, selective and full; use one of these, or give "
                              "the whole layout");
    TRY(price_check(plan, cluster));
    for (enum decision d = 0; d < N_DECISIONS; d++) l.choice[d] = 1;
    enum status status = decide(&s, 0, &l);
    if (status == OK) status = complete(&s);
    if (out->n_families) qsort(out->families, (size_t)out->n_families, sizeof *out->families, by_choice);
    free(s.classes);
    run_stem_fini(&s.stem);
    return status;
}

void search_fini(struct search *s) {
    free(s->families);
    *s = (struct search){0};
}
