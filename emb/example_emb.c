/* ranks: 2
 *
 * Minimal sharded tables: F = 2 features, and rank f owns feature f's table of V rows of D numbers. Every rank has S
 * samples, with a bag of M ids for each feature. The loss is the sum of y_s = sum over d of pooled_0[d] pooled_1[d].
 *
 *     pool         an owner adds up rows for the samples of both ranks; it computes their ids, so none is sent
 *     all-to-all   each rank gets the pooled vectors of its own samples, (F, S, D)
 *     backward     dpooled_0 = pooled_1, dpooled_1 = pooled_0
 *     all-to-all   dpooled goes back to the owner
 *     coalesce     g_v = sum of dpooled over all bags, of both ranks, that name row v
 *     update       rowwise Adagrad: G_v += mean of g_v^2, w_v -= lr g_v / (sqrt(G_v) + eps)
 *
 * The tables must equal those of one rank that owns both and has all samples. Each row adds its gradients in the order
 * of samples, so they are equal to the bit. An update that squares bag by bag, without coalescing, must differ.
 * emb/ does this to a DLRM. Source: Naumov et al. 2019. */
#include "lib/base/rng.h"
#include "lib/comm/comm.h"
#include "lib/comm/comm_request.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { F = 2, V = 10, D = 4, S = 6, M = 3, RANKS = 2, ALL = RANKS * S };
static const double LR = 0.1, EPS = 1e-8;

/* u^2 makes low rows more frequent, as real clicks do. */
static int id_of(int sample, int f, int m) {
    double u = rng_uniform(1, rng_stream("ids"), (uint64_t)((sample * F + f) * M + m));
    return (int)(V * u * u);
}

struct table { double w[V][D], kept[V]; };
static void table_init(int f, struct table *t) {
    memset(t, 0, sizeof *t);
    for (int i = 0; i < V * D; i++) t->w[i / D][i % D] = rng_normal(1, rng_stream("table"), (uint64_t)(f * V * D + i));
}

static void pool(const struct table *t, int f, double out[ALL][D]) {
    for (int s = 0; s < ALL; s++)
        for (int d = 0; d < D; d++) {
            out[s][d] = 0;
            for (int m = 0; m < M; m++) out[s][d] += t->w[id_of(s, f, m)][d];
        }
}

static void adagrad(struct table *t, int v, const double g[D]) {
    double squares = 0;
    for (int d = 0; d < D; d++) squares += g[d] * g[d];
    t->kept[v] += squares / D;
    for (int d = 0; d < D; d++) t->w[v][d] -= LR * g[d] / (sqrt(t->kept[v]) + EPS);
}

/* coalesced: update each row once, by the sum of its gradients. Otherwise update it once for every id that names it. */
static void update(struct table *t, int f, double dpooled[ALL][D], bool coalesced) {
    double g[V][D] = {{0}};
    bool used[V] = {false};
    for (int s = 0; s < ALL; s++)
        for (int m = 0; m < M; m++) {
            int v = id_of(s, f, m);
            used[v] = true;
            for (int d = 0; d < D; d++) g[v][d] += dpooled[s][d];
            if (!coalesced) adagrad(t, v, dpooled[s]);
        }
    for (int v = 0; v < V && coalesced; v++)
        if (used[v]) adagrad(t, v, g[v]);
}

static enum status exchange(const struct group *group, const void *from, void *to) {
    struct comm_request request = {0};
    TRY(comm_all_to_all_start(group, from, to, S * D, FP64, &request));
    return comm_wait(&request);
}

/* The reference: one rank owns both tables and has all samples. */
static void alone(struct table t[F], bool coalesced) {
    double pooled[F][ALL][D];
    for (int f = 0; f < F; f++) table_init(f, &t[f]), pool(&t[f], f, pooled[f]);
    for (int f = 0; f < F; f++) update(&t[f], f, pooled[1 - f], coalesced);
}

static enum status compare(void) {
    struct table mine, all[F], squared[F];
    double pooled[ALL][D], own[F][S][D], down[F][S][D], dpooled[ALL][D], off = 0, wrong = 0;
    int f = comm_world_rank();
    if (comm_world_size() != RANKS) return FAIL(E_CONFIG, "%d ranks; it is for %d", comm_world_size(), RANKS);
    table_init(f, &mine);
    pool(&mine, f, pooled);                                          /* (rank, S, D) of this rank's feature */
    TRY(exchange(group_world(), pooled, own));                       /* (F, S, D) of this rank's samples */
    for (int k = 0; k < F; k++) memcpy(down[k], own[1 - k], sizeof down[k]);
    TRY(exchange(group_world(), down, dpooled));
    update(&mine, f, dpooled, true);
    alone(all, true), alone(squared, false);
    for (int i = 0; i < V * D; i++) off = fmax(off, fabs(mine.w[i / D][i % D] - all[f].w[i / D][i % D]));
    for (int i = 0; i < V * D; i++) wrong = fmax(wrong, fabs(mine.w[i / D][i % D] - squared[f].w[i / D][i % D]));
    TRY(comm_all_reduce(group_world(), &off, 1, FP64, COMM_MAX));
    TRY(comm_all_reduce(group_world(), &wrong, 1, FP64, COMM_MAX));
    if (comm_is_rank_0())
        printf("%d tables on %d ranks differ by %g from one rank's; squared bag by bag by %.3f\n", F, RANKS, off,
               wrong);
    return off == 0 && wrong > 0.01 ? OK : FAIL(E_INTERNAL, "the tables differ by %g", off);
}

int main(int argc, char **argv) {
    enum status status = comm_start(&argc, &argv);
    if (status == OK) status = fail_agree(group_world(), compare());
    else status_report();
    comm_finish(true, status_exit_code(status));
    return status_exit_code(status);
}
