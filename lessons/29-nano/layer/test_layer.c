/* ranks: 1 2 4 8  device: cpu
 *
 * A layer on t ranks against the same layer on one, with biases that are not zero; and whole trainings. */
#define YOURS_LAYER
#include "lessons/29-nano/training.h"

static const struct layout_of_run LAYOUTS[] = {
    {1, 1, 1, 0, 0, 1}, {2, 1, 1, 0, 0, 1}, {4, 1, 1, 0, 0, 1}, {2, 2, 1, 0, 0, 1},
    {2, 1, 2, 0, 1, 1}, {2, 2, 2, 0, 0, 1}, {4, 1, 2, 0, 1, 2},
};

/* ---- one layer ---- */

/* What a layer has computed, and the sums that it called. */
struct numbers {
    real *mid, *y, *d, *dw;
    struct model m;
    int sums_forward, sums_backward;
    int64_t n_summed;
    char hung[160];
};

static void set_weights(struct model *m) {
    for (const struct weight *w = m->weights; w < m->weights + m->n_weights; w++)
        for (int64_t i = 0; i < w->n; i++)
            m->w[w->at + i] = (real)(w->constant + 0.2 * random_normal(11, w->name, place(w, i)));
}

static void compute(struct numbers *n, bool with_yours) {
    static struct plan p;
    const struct layout_of_run l = {with_yours ? world_size() : 1, 1, 1, 0, 0, 1};
    static struct layer k;
    static const real *w[PER_LAYER];
    static real *dw[PER_LAYER], *x;
    p = plan_of_run(&l);
    p.heads = 8, p.hidden = 24;
    grid_of_run(&l, !with_yours);
    yours = with_yours;
    *n = (struct numbers){0};
    model_init(&n->m, &p);
    set_weights(&n->m);
    weights_of(&n->m, 0, w, dw);
    k = layer_new(&n->m);
    int64_t R = (int64_t)n->m.B * n->m.T, RC = R * n->m.C;
    x = reals(RC), n->y = reals(RC), n->d = reals(RC), n->mid = k.mid, n->dw = n->m.dw;
    for (int64_t i = 0; i < RC; i++)
        x[i] = (real)random_normal(12, "x", i), n->d[i] = (real)random_normal(13, "dy", i);
    memset(&counts, 0, sizeof counts);
    if (setjmp(stuck)) {
        snprintf(n->hung, sizeof n->hung, "%s", stuck_at);
        return;
    }
    chosen_layer_forward(&n->m, w, x, &k, n->y);
    n->sums_forward = counts.tp_sums;
    chosen_layer_backward(&n->m, w, dw, x, &k, n->d);
    n->sums_backward = counts.tp_sums - n->sums_forward, n->n_summed = counts.tp_numbers;
}

static struct numbers whole, own;
static void compute_both(void) {
    static bool is_computed;
    if (is_computed) return;
    compute(&whole, false), compute(&own, true);
    if (any_hung(own.hung[0]) && !own.hung[0]) snprintf(own.hung, sizeof own.hung, "another rank waits in vain");
    is_computed = true;
}

/* Sums of at most 96 products, in another order, through a layer: 1e-12 of numbers around 1. */
static void compare(const char *what, const real *x, const real *right) {
    char why[300] = "";
    int64_t n = (int64_t)whole.m.B * whole.m.T * whole.m.C;
    for (int64_t i = n - 1; i >= 0; i--)
        if (!(fabs((double)(x[i] - right[i])) <= 1e-12 * (1 + fabs((double)right[i]))))
            snprintf(why, sizeof why, "on %d ranks %s[%lld,%lld] is %.12g, and on one rank %.12g", world_size(), what,
                     (long long)(i / whole.m.C), (long long)(i % whole.m.C), (double)x[i], (double)right[i]);
    if (own.hung[0]) snprintf(why, sizeof why, "%s", own.hung);
    agree_on(why);
}

TEST(test_layer_attention_half_is_whole) { compute_both(), compare("mid", own.mid, whole.mid); }
TEST(test_layer_output_is_whole) { compute_both(), compare("y", own.y, whole.y); }
TEST(test_layer_input_gradient_is_whole) { compute_both(), compare("d", own.d, whole.d); }

TEST(test_layer_gradients_are_its_parts) {
    char why[300] = "";
    compute_both();
    grid_of_run(&(struct layout_of_run){world_size(), 1, 1, 0, 0, 1}, false);
    for (int j = 2 + PER_LAYER - 1; j >= 2; j--) {
        const struct weight *w = &own.m.weights[j], *all = &whole.m.weights[j];
        for (int64_t i = w->n - 1; i >= 0; i--) {
            double x = own.dw[w->at + i], right = whole.dw[all->at + place(w, i)];
            if (!(fabs(x - right) <= 1e-12 * (1 + fabs(right))))
                snprintf(why, sizeof why, "on %d ranks the gradient of %s at %lld is %.12g, and on one rank %.12g",
                         world_size(), w->name, (long long)place(w, i), x, right);
        }
    }
    if (own.hung[0]) snprintf(why, sizeof why, "%s", own.hung);
    agree_on(why);
}

TEST(test_layer_sends_four_sums) {
    char why[300] = "";
    compute_both();
    int64_t RC = (int64_t)whole.m.B * whole.m.T * whole.m.C;
    if (own.sums_forward != 2 || own.sums_backward != 2)
        snprintf(why, sizeof why, "a layer calls tp_sum %d times forward and %d times backward; 2 and 2 are enough",
                 own.sums_forward, own.sums_backward);
    else if (own.n_summed != 4 * RC)
        snprintf(why, sizeof why, "its sums are of %lld numbers; 4 of R C = %lld are enough", (long long)own.n_summed,
                 (long long)RC);
    agree_on(why);
}

/* ---- trainings ---- */

TEST(test_layer_first_loss) {
    char why[400];
    for_each(i, LAYOUTS) {
        const struct outcome *o = outcome_of(LAYOUTS, i);
        look_at_losses(&LAYOUTS[i], o, why);
        agree_on(!o->hung[0] && is_same(o->loss[0], one_rank()->loss[0]) ? "" : why);
    }
}

TEST(test_layer_losses) {
    char why[400];
    for_each(i, LAYOUTS) {
        look_at_losses(&LAYOUTS[i], outcome_of(LAYOUTS, i), why);
        agree_on(why);
    }
}

TESTS(unit_test(test_layer_attention_half_is_whole), unit_test(test_layer_output_is_whole),
      unit_test(test_layer_input_gradient_is_whole), unit_test(test_layer_gradients_are_its_parts),
      unit_test(test_layer_sends_four_sums), unit_test(test_layer_first_loss), unit_test(test_layer_losses))
