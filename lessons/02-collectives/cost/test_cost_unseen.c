/* ranks: 1  device: cpu */
/* Links and sizes that the other tests do not have, so that code with their numbers copied fails here. */
#include "lessons/02-collectives/cost/cost.h"
#include "tests/test.h"

static const struct link_cost links[] = {{2e-6, 1e-10, 0}, {5e-6, 4e-11, 3e-11}, {0, 1e-9, 1e-9}};
enum { N_LINKS = sizeof links / sizeof *links };

static double seconds(enum all_reduce_algorithm a, int n, double bytes, const struct link_cost *link) {
    double s = -1;
    assert_ok(cost_all_reduce(a, n, bytes, link, &s));
    return s;
}

/* Seconds of a message of m bytes whose contents are added. */
static double exchange(const struct link_cost *l, double m) { return l->alpha_s + m * (l->beta_s + l->gamma_s); }

/* Round by round: halves of halves out, then back without additions; before and after, the ranks beyond the power of
 * two. */
static double halvings(int n, double bytes, const struct link_cost *l) {
    double s = 0, part = bytes;
    int p = 1;
    for (; 2 * p <= n; p *= 2) {
        part /= 2;
        s += exchange(l, part) + l->alpha_s + part * l->beta_s;
    }
    return s + (p < n ? exchange(l, bytes) + l->alpha_s + bytes * l->beta_s : 0);
}

static double by_ring(int n, double bytes, const struct link_cost *l) {
    double part = bytes / n;
    return (n - 1) * (exchange(l, part) + l->alpha_s + part * l->beta_s);
}

static double by_tree(int n, double bytes, const struct link_cost *l) {
    int rounds = 0;
    for (int reached = 1; reached < n; reached *= 2) rounds++;
    return rounds * (exchange(l, bytes) + l->alpha_s + bytes * l->beta_s);
}

TEST(test_cost_on_links_not_seen) {
    for (int i = 0; i < N_LINKS; i++)
        for (int n = 2; n <= 200; n += 9) {
            const struct link_cost *l = &links[i];
            double bytes = 12e6 + n;
            double ring = by_ring(n, bytes, l), tree = by_tree(n, bytes, l), halved = halvings(n, bytes, l);
            assert_close(seconds(RING, n, bytes, l), ring, 1e-9 * ring);
            assert_close(seconds(TREE, n, bytes, l), tree, 1e-9 * tree);
            assert_close(seconds(HALVING_DOUBLING, n, bytes, l), halved, 1e-9 * halved);
        }
}

TEST(test_crossover_on_links_not_seen) {
    for (int i = 0; i < 2; i++) /* the last has no latency: the ring is always faster */
        for (int n = 5; n <= 500; n *= 3) {
            double bytes = 0;
            assert_ok(cost_crossover(n, &links[i], &bytes));
            double ring = by_ring(n, bytes, &links[i]), tree = by_tree(n, bytes, &links[i]);
            assert_true(bytes > 0); /* the times are the test's own: those of a stub are alike everywhere */
            assert_close(ring, tree, 1e-9 * tree);
        }
}

TESTS(unit_test(test_cost_on_links_not_seen), unit_test(test_crossover_on_links_not_seen))
