/* ranks: 1 2 4  device: cpu
 *
 * Keys one by one, in blocks and on other ranks, compared with the softmax over all keys in two passes. Sums have at
 * most 48 numbers of size at most 4, in another order: the bound is 1e-12. */
#include "lessons/13-long-sequences/merge/merge.h"
#include "lib/base/rng.h"
#include "tests/test.h"
#include <string.h>

enum { N = 48, D = MERGE_D, QUERIES = 12 };
static const double BOUND = 1e-12;

struct problem { double q[D], dy[D], k[N][D], v[N][D]; };

static void fill(double *x, int n, const char *name, int which) {
    for (int i = 0; i < n; i++) x[i] = 4 * rng_uniform((uint64_t)which, rng_stream(name), (uint64_t)i) - 2;
}
static void make(struct problem *p, int query) {
    fill(p->q, D, "q", query), fill(p->dy, D, "dy", query);
    fill(p->k[0], N * D, "k", 0), fill(p->v[0], N * D, "v", 0);
}

/* Attention over keys first .. end - 1 in two passes: first the largest score, then the sums. */
static struct found softmax(const struct problem *p, int first, int end) {
    struct found out = {.lse = -INFINITY};
    double most = -INFINITY, sum = 0;
    for (int j = first; j < end; j++) most = fmax(most, merge_dot(p->q, p->k[j]));
    for (int j = first; j < end; j++) {
        double weight = exp(merge_dot(p->q, p->k[j]) - most);
        sum += weight;
        for (int d = 0; d < D; d++) out.y[d] += weight * p->v[j][d];
    }
    for (int d = 0; d < D && sum > 0; d++) out.y[d] /= sum;
    if (sum > 0) out.lse = most + log(sum);
    return out;
}

/* The largest difference; NaN counts as INFINITY, and -INFINITY equals itself. */
static double off(const struct found *a, const struct found *b) {
    double far = a->lse == b->lse ? 0 : fabs(a->lse - b->lse);
    for (int d = 0; d < D; d++) far = isnan(a->y[d]) ? INFINITY : fmax(far, fabs(a->y[d] - b->y[d]));
    return isnan(far) || isnan(a->lse) ? INFINITY : far;
}

/* ---- keys one by one ---- */
enum order { AS_THEY_ARE, RISING, FALLING, N_ORDERS };

/* Sort the keys' indices by score. */
static void sort(const struct problem *p, enum order order, int index[N]) {
    for (int i = 0; i < N; i++) index[i] = i;
    for (int i = 1; i < N && order != AS_THEY_ARE; i++)
        for (int j = i; j > 0; j--) {
            double a = merge_dot(p->q, p->k[index[j - 1]]), b = merge_dot(p->q, p->k[index[j]]);
            int left = index[j - 1];
            if (order == RISING ? b < a : b > a) index[j - 1] = index[j], index[j] = left;
        }
}

static enum status one_by_one(const struct problem *p, enum order order, double shift, struct found *out) {
    struct running x = merge_none_yet();
    int index[N];
    sort(p, order, index);
    for (int i = 0; i < N; i++) TRY(merge_key(&x, merge_dot(p->q, p->k[index[i]]) + shift, p->v[index[i]]));
    return merge_close(&x, out);
}

static void check_orders(double shift, double bound) {
    for (int query = 1; query <= 3; query++)
        for (enum order order = AS_THEY_ARE; order < N_ORDERS; order++) {
            struct problem p;
            make(&p, query);
            struct found mine = {.lse = NAN}, whole = softmax(&p, 0, N);
            assert_ok(one_by_one(&p, order, shift, &mine));
            mine.lse -= shift;
            assert_close(off(&mine, &whole), 0, bound);
        }
}

TEST(test_merge_key_by_key_is_the_softmax) {
    check_orders(0, BOUND);
}

/* The bound is larger, because a shift by 1000 costs 10 bits of the scores. */
TEST(test_merge_large_scores_do_not_overflow) {
    check_orders(1000, 1000 * BOUND);
    check_orders(-1000, 1000 * BOUND);
}

/* ---- blocks ---- */
TEST(test_merge_blocks_in_any_order) {
    static const int order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const int edge[] = {0, 5, 6, N};                          /* of 5, 1 and 42 keys */
    for (int i = 0; i < 6; i++) {
        struct problem p;
        make(&p, 1 + i);
        struct found whole = softmax(&p, 0, N), mine = softmax(&p, edge[order[i][0]], edge[order[i][0] + 1]);
        for (int b = 1; b < 3; b++) {
            struct found more = softmax(&p, edge[order[i][b]], edge[order[i][b] + 1]);
            assert_ok(merge_two(&mine, &more));
        }
        assert_close(off(&mine, &whole), 0, BOUND);
    }
}

TEST(test_merge_of_nothing_is_nothing) {
    struct problem p;
    make(&p, 1);
    struct found some = softmax(&p, 0, N), none = softmax(&p, 0, 0), x = none, y = some, z = none, closed = some;
    struct running no_key = merge_none_yet();
    assert_ok(merge_two(&x, &none));
    assert_close(off(&x, &none), 0, 0);
    assert_ok(merge_two(&y, &none));
    assert_close(off(&y, &some), 0, BOUND);
    assert_ok(merge_two(&z, &some));
    assert_close(off(&z, &some), 0, BOUND);
    assert_ok(merge_close(&no_key, &closed));
    assert_close(off(&closed, &none), 0, 0);
}

/* ---- ranks ---- */
/* Query i sees the keys before 4 i, so query 0 sees none. Rank 1 has no keys; the others have N / n_ranks each. */
struct range { int first, end; };
static struct range seen(int query, int rank, int n_ranks) {
    int first = N / n_ranks * rank, end = first + N / n_ranks, most = 4 * query;
    if (rank == 1) end = first;
    return (struct range){first, end < most ? end : most};
}

/* Attention over the keys of all ranks, one rank after the other. */
static struct found seen_by_all(const struct problem *p, int query, int n_ranks) {
    struct problem all = *p;
    int n = 0;
    for (int rank = 0; rank < n_ranks; rank++) {
        struct range r = seen(query, rank, n_ranks);
        for (int j = r.first; j < r.end; j++, n++) {
            memcpy(all.k[n], p->k[j], sizeof *p->k);
            memcpy(all.v[n], p->v[j], sizeof *p->v);
        }
    }
    return softmax(&all, 0, n);
}

struct outcome { enum status status; double off; struct ledger_entry sent; };

static struct outcome run_ranks(void) {
    struct problem p[QUERIES];
    struct found x[QUERIES];
    struct outcome o = {.off = 0};
    int n = comm_world_size();
    for (int i = 0; i < QUERIES; i++) {
        make(&p[i], 1 + i);
        struct range r = seen(i, comm_world_rank(), n);
        x[i] = softmax(&p[i], r.first, r.end);
    }
    group_ledger_reset(group_world());
    o.status = merge_ranks(group_world(), x, QUERIES);
    o.sent = group_ledger(group_world())->entry[COMM_ALL_REDUCE];
    for (int i = 0; i < QUERIES; i++) {
        struct found all = seen_by_all(&p[i], i, n);
        o.off = fmax(o.off, off(&x[i], &all));
    }
    return o;
}

TEST(test_merge_ranks_see_all_keys) {
    struct outcome o = run_ranks();
    double far = agree_max(o.off);
    assert_ok(o.status);
    assert_close(far, 0, BOUND);
}

TEST(test_merge_ranks_send_little) {
    struct outcome o = run_ranks();
    double most = comm_algorithm_bytes(COMM_ALL_REDUCE, comm_world_size(), QUERIES * (2 + D) * sizeof(double));
    bool few = agree_all(o.sent.calls <= 2 && o.sent.bytes <= most);
    assert_ok(o.status);
    if (!few)
        fail_msg("this rank makes %d all-reduces of %g bytes; at most 2 of %g bytes together are needed",
                 (int)o.sent.calls, o.sent.bytes, most);
}

/* ---- backward ---- */
struct gradients { double dq[D], dk[N][D], dv[N][D]; };

/* Gradients over all keys as one block. */
static void whole_gradients(const struct problem *p, struct gradients *g) {
    struct found all = softmax(p, 0, N);
    memset(g, 0, sizeof *g);
    for (int j = 0; j < N; j++) {
        double prob = exp(merge_dot(p->q, p->k[j]) - all.lse), dp = merge_dot(p->dy, p->v[j]), mean = 0;
        for (int i = 0; i < N; i++) mean += exp(merge_dot(p->q, p->k[i]) - all.lse) * merge_dot(p->dy, p->v[i]);
        for (int d = 0; d < D; d++) {
            g->dv[j][d] = prob * p->dy[d];
            g->dk[j][d] = prob * (dp - mean) * p->q[d];
            g->dq[d] += prob * (dp - mean) * p->k[j][d];
        }
    }
}

static double gradients_off(const struct gradients *a, const struct gradients *b) {
    const double *x = (const double *)a, *y = (const double *)b;
    double far = 0;
    for (size_t i = 0; i < sizeof *a / sizeof *x; i++) far = isnan(x[i]) ? INFINITY : fmax(far, fabs(x[i] - y[i]));
    return far;
}

TEST(test_merge_gradient_of_a_block) {
    static const int edge[] = {0, 5, 5, 6, N};                       /* of 5, 0, 1 and 42 keys */
    struct problem p;
    struct gradients mine = {0}, whole;
    make(&p, 1);
    struct found all = softmax(&p, 0, N);
    whole_gradients(&p, &whole);
    for (int b = 0; b < 4; b++) {
        int first = edge[b];
        struct keys block = {edge[b + 1] - first, (const double (*)[D])p.k + first, (const double (*)[D])p.v + first};
        assert_ok(merge_gradient(p.q, &all, p.dy, &block, mine.dq, mine.dk + first, mine.dv + first));
    }
    assert_close(gradients_off(&mine, &whole), 0, 10 * BOUND);
}

TESTS(unit_test(test_merge_key_by_key_is_the_softmax), unit_test(test_merge_large_scores_do_not_overflow),
      unit_test(test_merge_blocks_in_any_order), unit_test(test_merge_of_nothing_is_nothing),
      unit_test(test_merge_ranks_see_all_keys), unit_test(test_merge_ranks_send_little),
      unit_test(test_merge_gradient_of_a_block))
