/* ranks: 2
 *
 * Minimal expert parallelism: E = 2 experts, each a matrix, one on each rank; every rank has T tokens of its own.
 *
 *     e[t] = the expert with the largest score x[t] . r[e]          y[t] = W[e] x[t]
 *
 * Tokens go to the rank of their expert. Each rank has S places per expert, and gives them to tokens in order. A token
 * without a place is dropped, and its y is zero. A rank always sends (E, S, C), so that sizes do not depend on the
 * data; empty places are zeros.
 *
 *     dispatch     place the tokens: (E, S, C)
 *     all-to-all   piece e goes to the rank of expert e, which gets (rank, S, C), all for its expert
 *     expert       y = x W^T, row by row
 *     all-to-all   back: (E, S, C)
 *     combine      each token takes its row
 *
 * The result must equal that of a rank that has both experts, which is the same code over a group of one. The order of
 * all sums is the same, so it is equal to the bit. ep/ does this to a GPT, with backward and gates. Source: GShard,
 * 2020. */
#include "lib/base/rng.h"
#include "lib/comm/comm.h"
#include "lib/comm/comm_request.h"
#include "lib/ops/gemm/gemm.h"
#include <math.h>
#include <stdio.h>

enum { E = 2, T = 16, S = 8, C = 4 };

/* Between -1 and 1, the same on every rank. */
static double element(const char *name, int i, int c) {
    return 2 * rng_uniform(1, rng_stream(name), (uint64_t)(i * C + c)) - 1;
}

static int expert_of(const double *x) {
    int best = 0;
    double most = -INFINITY;
    for (int e = 0; e < E; e++) {
        double score = 0;
        for (int c = 0; c < C; c++) score += x[c] * element("router", e, c);
        if (score > most) most = score, best = e;
    }
    return best;
}

/* place[t]: row of (E, S); -1: dropped. @return the number of dropped tokens */
static int dispatch(double x[T][C], double sent[E * S][C], int place[T]) {
    int taken[E] = {0}, dropped = 0;
    for (int i = 0; i < E * S * C; i++) sent[i / C][i % C] = 0;
    for (int t = 0; t < T; t++) {
        int e = expert_of(x[t]);
        place[t] = taken[e] < S ? e * S + taken[e] : -1;
        dropped += taken[e]++ >= S;
        for (int c = 0; place[t] >= 0 && c < C; c++) sent[place[t]][c] = x[t][c];
    }
    return dropped;
}

/* Apply expert e to S rows. */
static enum status apply_expert(int e, double x[S][C], double y[S][C]) {
    double w[C][C];
    for (int i = 0; i < C * C; i++) w[i / C][i % C] = element("expert", e * C + i / C, i % C);
    const struct gemm g = {.m = S, .n = C, .k = C, .transpose_b = true, .alpha = 1, .ab_dtype = FP64, .c_dtype = FP64};
    return gemm_run(&g, x, w, NULL, y, NULL);
}

static enum status exchange(const struct group *group, double from[E * S][C], double to[E * S][C]) {
    struct comm_request request = {0};
    TRY(comm_all_to_all_start(group, from, to, E * S * C / group_size(group), FP64, &request));
    return comm_wait(&request);
}

/* Compute y of this rank's tokens; the experts are sharded over the group. */
static enum status mixture(const struct group *group, double y[T][C], int *dropped) {
    static double x[T][C], sent[E * S][C], got[E * S][C], made[E * S][C], back[E * S][C];
    int place[T], held = E / group_size(group);                      /* experts on this rank */
    for (int i = 0; i < T * C; i++) x[i / C][i % C] = element("x", comm_world_rank() * T + i / C, i % C);
    *dropped = dispatch(x, sent, place);
    TRY(exchange(group, sent, got));                                 /* (rank, held, S, C) */
    for (int i = 0; i < E; i++) TRY(apply_expert(group_rank(group) * held + i % held, got + i * S, made + i * S));
    TRY(exchange(group, made, back));
    for (int i = 0; i < T * C; i++) y[i / C][i % C] = place[i / C] < 0 ? 0 : back[place[i / C]][i % C];
    return OK;
}

static enum status compare(void) {
    static double shared[T][C], alone[T][C];
    double worst = 0, dropped = 0;
    int n;
    if (E % comm_world_size()) return FAIL(E_CONFIG, "%d ranks do not divide %d experts", comm_world_size(), E);
    TRY(mixture(group_self(), alone, &n));
    TRY(mixture(group_world(), shared, &n));
    for (int i = 0; i < T * C; i++) worst = fmax(worst, fabs(shared[i / C][i % C] - alone[i / C][i % C]));
    dropped = n;
    TRY(comm_all_reduce(group_world(), &worst, 1, FP64, COMM_MAX));
    TRY(comm_all_reduce(group_world(), &dropped, 1, FP64, COMM_SUM));
    if (comm_is_rank_0())
        printf("%d experts on %d ranks, %.0f of %d tokens dropped: the results differ by %g\n", E, comm_world_size(),
               dropped, T * comm_world_size(), worst);
    return worst == 0 ? OK : FAIL(E_INTERNAL, "the experts' results differ by %g", worst);
}

int main(int argc, char **argv) {
    enum status status = comm_start(&argc, &argv);
    if (status == OK) status = fail_agree(group_world(), compare());
    else status_report();
    comm_finish(true, status_exit_code(status));
    return status_exit_code(status);
}
