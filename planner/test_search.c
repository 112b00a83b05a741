/* ranks: 1  device: cpu */
#include "driver/recipe.h"
#include "planner/search.h"
#include "park/park.h"
#include "pp/pp.h"
#include "recompute/recompute.h"
#include "tests/test.h"
#include "zero/zero.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct plan small(void) {
    struct plan p;
    assert_ok(recipe_plan(&p));
    snprintf(p.model, sizeof p.model, "small");
    p.layers = 8, p.hidden = 512, p.heads = 8, p.seq = 512, p.vocab = 4096, p.global_batch = 64;
    p.precision = PRECISION_BF16, p.device = PLAN_DEVICE_CUDA;
    return p;
}
static struct cluster gpus(double gib) {
    struct cluster c;
    assert_ok(cluster_read("dgx-a100", &c));
    c.memory_bytes = (int64_t)(gib * 1073741824.0), c.reserve_bytes = 0;
    return c;
}
static void search(const struct plan *p, unsigned fixed, const struct cluster *c, int64_t ranks, bool prune,
                   struct search *out) {
    assert_ok(search_layouts(&train_recipe, p, fixed, c, ranks, prune, out));
}

/* For every choice the pruned search finds the best layout, unless that takes more than 1.25 times the best of all. */
static void same_families(const struct search *pruned, const struct search *all, int ranks) {
    assert_int_equal(pruned->n_families, all->n_families);
    for (int i = 0; i < all->n_families && all->n_best; i++) {
        const struct family *a = &all->families[i], *b = &pruned->families[i];
        assert_true(a->decision == b->decision && a->choice == b->choice);
        double far = 1.25 * all->best[0].price.step_s;
        if (!a->fits || a->best.price.step_s > far) continue;
        if (!b->fits || a->best.price.step_s != b->best.price.step_s)
            fail_msg("%d ranks, %s %s: %g s without pruning, %g with it", ranks, decision_name(a->decision),
                     choice_text(a->decision, a->choice), a->best.price.step_s, b->best.price.step_s);
    }
}

static void same_best(const struct plan *p, unsigned fixed, const struct cluster *c, int64_t ranks) {
    struct search pruned, all;
    search(p, fixed, c, ranks, true, &pruned);
    search(p, fixed, c, ranks, false, &all);
    if (!pruned.n_best != !all.n_best) fail_msg("%d ranks: one finds a layout", (int)ranks);
    if (all.n_best) {
        char a[128], b[128];
        layout_text(&all.best[0].layout, a, sizeof a);
        layout_text(&pruned.best[0].layout, b, sizeof b);
        if (strcmp(a, b) && all.best[0].price.step_s != pruned.best[0].price.step_s)
            fail_msg("%d ranks: %s (%g s) without pruning, %s (%g s) with it", (int)ranks, a,
                     all.best[0].price.step_s, b, pruned.best[0].price.step_s);
    }
    else assert_true(all.smallest.price.total_bytes == pruned.smallest.price.total_bytes);
    same_families(&pruned, &all, (int)ranks);
    assert_true(all.stat.bound == 0 && pruned.stat.priced <= all.stat.priced);
    assert_int_equal(pruned.stat.seen, all.stat.seen);
    search_fini(&pruned), search_fini(&all);
}

/* Pruning never cuts the best layout, for any number of ranks, with room and without. LONG=1: every number to 64. */
TEST(test_pruned_is_unpruned) {
    struct plan p = small();
    const struct cluster wide = gpus(79), tight = gpus(0.4), tightest = gpus(0.3);
    for (int64_t n = 1; n <= 64; n += n < 8 || getenv("LONG") ? 1 : 7) same_best(&p, 0, n % 2 ? &tight : &wide, n);
    same_best(&p, 1 << DECIDE_TP | 1 << DECIDE_PP, &tightest, 8);    /* only zero 2 and 3 fit */
    p.hidden = 4096, p.seq = 2048, p.heads = 32, p.global_batch = 4; /* tp=8 is the best, and is seen first */
    same_best(&p, 0, &wide, 32);
    p = small();
    p.hidden = 128, p.vocab = 32768;                                 /* the last stage is the fullest; nothing fits */
    const struct cluster nothing = gpus(0.02);
    same_best(&p, 0, &nothing, 4);
    p = small();
    p.hidden = 1024, p.seq = 128, p.vocab = 1024, p.global_batch = 16;
    zero_options(&p)->offload = OFFLOAD_OPTIMIZER;                   /* with two ranks each has 0.6 GiB on its host */
    const struct cluster beside_host = gpus(0.45);
    for (int64_t n = 2; n <= 8; n *= 2) same_best(&p, 0, &beside_host, n);
}

TEST(test_pruned_is_unpruned_for_each_stack) {
    static const char *const STACKS[] = {"megatron-2021", "megatron-core-tp-overlap", "deepspeed", "torchtitan",
                                         "nanotron"};
    struct plan p = small();
    for (size_t i = 0; i < sizeof STACKS / sizeof *STACKS; i++) {
        struct cluster c = gpus(i % 2 ? 0.6 : 79);
        assert_ok(stack_read(STACKS[i], &c));
        same_best(&p, 0, &c, 8);
        struct search s;
        search(&p, 0, &c, 8, true, &s);
        bool chunks = i != 2 && i != 4;
        for (int k = 0; k < s.n_families; k++) {                     /* only what the program has */
            if (s.families[k].decision == DECIDE_SCHEDULE) assert_true(s.families[k].choice == ORDER_PLAIN);
            if (s.families[k].decision == DECIDE_CHUNKS && !chunks) assert_true(s.families[k].choice == 1);
        }
        search_fini(&s);
    }
}

/* No bound counts parked activations that are still on the device. */
TEST(test_a_search_finds_what_parking_makes_fit) {
    struct plan p = small();
    p.seq = 4096;
    park_options(&p)->kind = PARK_ALL;
    const struct cluster tight = gpus(0.5);
    for (int64_t n = 2; n <= 8; n *= 2) same_best(&p, 1 << DECIDE_RECOMPUTE, &tight, n);
}

/* Best first; every layout has all ranks; each family's best is no better than the best. */
TEST(test_search_is_in_order) {
    struct plan p = small();
    struct cluster c = gpus(79);
    struct search s;
    search(&p, 0, &c, 16, true, &s);
    assert_true(s.n_best > 3);
    for (int i = 0; i < s.n_best; i++) {
        const int64_t *x = s.best[i].layout.choice;
        assert_true(i == 0 || s.best[i].price.step_s >= s.best[i - 1].price.step_s);
        assert_true(s.best[i].price.fits);
        assert_int_equal(s.best[i].layout.dp * x[DECIDE_TP] * x[DECIDE_PP] * x[DECIDE_CP], 16);
    }
    for (int i = 0; i < s.n_families; i++) {
        const struct family *f = &s.families[i];
        assert_int_equal(f->best.layout.choice[f->decision], f->choice);
        assert_true(!f->fits || f->best.price.step_s >= s.best[0].price.step_s);
    }
    assert_int_equal(s.stat.seen, s.stat.refused + s.stat.too_large + s.stat.bound + s.stat.priced);
    search_fini(&s);
}

/* Options that are given are not searched. */
TEST(test_what_is_fixed_stays) {
    struct plan p = small();
    struct cluster c = gpus(79);
    struct search s;
    p.mesh.tp = 2, p.micro_batch = 4;
    plan_set_number(&p, "zero", 1), recompute_options(&p)->kind = RECOMPUTE_SELECTIVE, pp_options(&p)->chunks = 2;
    search(&p, 1 << DECIDE_TP | 1 << DECIDE_MICRO | 1 << DECIDE_ZERO | 1 << DECIDE_RECOMPUTE, &c, 8, true, &s);
    assert_true(s.n_best > 0);
    for (int i = 0; i < s.n_best; i++) {
        assert_int_equal(s.best[i].layout.choice[DECIDE_TP], 2);
        assert_int_equal(s.best[i].layout.choice[DECIDE_MICRO], 4);
        assert_int_equal(s.best[i].layout.choice[DECIDE_ZERO], 1);
        assert_int_equal(s.best[i].layout.choice[DECIDE_RECOMPUTE], RECOMPUTE_SELECTIVE);
    }
    search_fini(&s);
    search(&p, 1 << DECIDE_CHUNKS, &c, 8, true, &s);
    for (int i = 0; i < s.n_best; i++) assert_int_equal(s.best[i].layout.choice[DECIDE_CHUNKS], 2);
    assert_true(s.n_best > 0);
    search_fini(&s);
    search(&p, 1 << DECIDE_TP, &c, 7, true, &s);                     /* 2 does not divide 7: no rank is left idle */
    assert_int_equal(s.stat.seen, 0);
    search_fini(&s);
}

/* More memory never makes the best worse. If nothing fits, the smallest layout is kept. */
TEST(test_memory_is_a_wall) {
    struct plan p = small();
    double before = 1e30;
    for (double gib = 0.05; gib < 4; gib *= 2) {
        struct cluster c = gpus(gib);
        struct search s;
        search(&p, 0, &c, 8, true, &s);
        double best = s.n_best ? s.best[0].price.step_s : 1e30;
        assert_true(best <= before);
        if (!s.n_best) assert_true(s.smallest.layout.dp > 0 && s.smallest.price.total_bytes > c.memory_bytes);
        before = best;
        search_fini(&s);
    }
    assert_true(before < 1e30);
}

/* The listener gets every priced layout, and the result does not change. */
struct told { int64_t n, no_fit; double least_s; };
static void count_told(void *self, const struct found *f) {
    struct told *t = self;
    t->n++;
    t->no_fit += !f->price.fits;
    if (f->price.fits && f->price.step_s < t->least_s) t->least_s = f->price.step_s;
    assert_true(f->layout.dp > 0 && f->price.total_bytes > 0);
}

TEST(test_a_search_tells_what_it_priced) {
    struct plan p = small();
    struct cluster c = gpus(0.4);
    struct search plain, telling;
    struct told t = {.least_s = 1e30};
    search(&p, 0, &c, 8, true, &plain);
    assert_ok(search_layouts_telling(&train_recipe, &p, 0, &c, 8, true, count_told, &t, &telling));
    assert_true(t.n == telling.stat.priced && t.no_fit == telling.stat.no_fit);
    assert_true(t.no_fit > 0 && t.n > t.no_fit);
    assert_true(t.least_s == telling.best[0].price.step_s);
    assert_true(plain.n_best == telling.n_best && plain.n_families == telling.n_families);
    assert_memory_equal(&plain.stat, &telling.stat, sizeof plain.stat);
    assert_memory_equal(plain.best, telling.best, (size_t)plain.n_best * sizeof *plain.best);
    search_fini(&plain);
    search_fini(&telling);
}

TESTS(unit_test(test_a_search_tells_what_it_priced), unit_test(test_pruned_is_unpruned),
      unit_test(test_pruned_is_unpruned_for_each_stack),
      unit_test(test_a_search_finds_what_parking_makes_fit),
      unit_test(test_search_is_in_order), unit_test(test_what_is_fixed_stays), unit_test(test_memory_is_a_wall))
