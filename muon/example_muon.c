/* ranks: 2
 *
 * Minimal Muon under ZeRO-1: four matrices W (4, 8), their momentum sharded over 1, 2 or 4 ranks.
 *
 *     m = 0.95 m + 0.05 g      u = 0.95 m + 0.05 g      O = NewtonSchulz(u)      W = W - lr 0.2 sqrt(8) O
 *
 * A rank has a part of each momentum, and no part says what the singular values of u are. So all-to-all brings whole
 * matrices together, 4/n on each rank, and a second one takes the parts of O back. A rank sends 2 4/n S (n-1)/n for S
 * bytes per matrix. All-gather would send 4 S (n-1)/n, and each rank would iterate all four. O must equal that of one
 * rank to the bit, because the same numbers are added in the same order. muon/ does this for a model. */
#include "lib/base/rng.h"
#include "lib/comm/comm.h"
#include "lib/ops/muon.h"
#include <stdio.h>
#include <string.h>

enum { MATRICES = 4, ROWS = 4, COLUMNS = 8, N = ROWS * COLUMNS };

/* The part of each matrix's u that this rank has: n elements. The gradient is random, and m is 0 before. */
static enum status own_parts(double *u, int first, int n) {
    const double one = 1;
    double g[N], m[N];
    struct optimizer_settings a = {.momentum = 0.95, .beta1 = 0.95, .grad_multiplier = &one};
    for (int k = 0; k < MATRICES; k++) {
        for (int i = 0; i < n; i++) g[i] = rng_normal(1, 1, (uint64_t)(k * N + first + i)), m[i] = u[k * n + i] = 0;
        struct optimizer_elements e = {.n = n, .weight = u + k * n, .weight_dtype = FP64, .grad = g, .grad_dtype = FP64,
                                       .state = {m}};
        TRY(optimizer_update(&optimizer_muon_momentum, device_cpu(), &a, &e, 1));
    }
    return OK;
}

static enum status orthogonalize(double *u) {
    const struct muon_shape shape = {ROWS, COLUMNS, FP64};
    double spare[N], gram[2 * ROWS * ROWS], numbers[2];
    const struct newton_schulz m = {.n_threads = 1, .spare = spare, .gram = gram, .numbers = numbers};
    return newton_schulz(device_cpu(), &shape, 5, u, &m);
}

/* [from rank][matrix][n] -> [matrix][from rank][n], and back. */
static void regroup(double *to, const double *from, int outer, int inner, int n) {
    for (int i = 0; i < outer; i++)
        for (int k = 0; k < inner; k++) memcpy(to + (k * outer + i) * n, from + (i * inner + k) * n, (size_t)n * 8);
}

/* O of the own parts: [matrix][n]. */
static enum status step(const struct group *group, double *O) {
    int ranks = group_size(group), n = N / ranks, each = MATRICES / ranks;
    double parts[MATRICES * N], whole[MATRICES * N];
    TRY(own_parts(O, group_rank(group) * n, n));
    TRY(comm_all_to_all(group, O, parts, (int64_t)each * n, FP64));
    regroup(whole, parts, ranks, each, n);
    for (int k = 0; k < each; k++) TRY(orthogonalize(whole + k * N));
    regroup(parts, whole, each, ranks, n);
    return comm_all_to_all(group, parts, O, (int64_t)each * n, FP64);
}

static enum status muon(void) {
    double one[MATRICES * N], O[MATRICES * N];
    int ranks = comm_world_size(), n = N / ranks, first = comm_world_rank() * n, wrong = 0;
    if (ranks != 1 && ranks != 2 && ranks != 4) return FAIL(E_CONFIG, "%d ranks; use 1, 2 or 4", ranks);
    TRY(step(group_self(), one));
    TRY(step(group_world(), O));
    for (int k = 0; k < MATRICES; k++) wrong += memcmp(O + k * n, one + k * N + first, (size_t)n * 8) != 0;
    if (wrong) return FAIL(E_INTERNAL, "parts of %d of %d matrices are not those of one rank", wrong, MATRICES);
    const struct ledger_entry *e = &group_ledger(group_world())->entry[COMM_ALL_TO_ALL];
    if (comm_is_rank_0())
        printf("%d ranks: %d of %d matrices iterated on each; a rank sent %.0f bytes in 2 all-to-alls, an all-gather "
               "sends %d\n", ranks, MATRICES / ranks, MATRICES, e->bytes, MATRICES * 8 * N * (ranks - 1) / ranks);
    return OK;
}

int main(int argc, char **argv) {
    enum status status = comm_start(&argc, &argv);
    if (status == OK) status = fail_agree(group_world(), muon());
    else status_report();
    if (status == OK && comm_is_rank_0()) printf("equal to one rank's O to the bit, on every rank\n");
    comm_finish(true, status_exit_code(status));
    return status_exit_code(status);
}
