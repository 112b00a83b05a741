/* ranks: 2
 *
 * Minimal ZeRO: one linear layer, a batch of 8 samples in M microbatches per rank, on 1, 2 or 4 ranks.
 *
 *     y = x W^T      dy = (y - t) / B      dx = dy W      dW = sum over samples b of dy[b]^T x[b]      W = AdamW(W, dW)
 *
 * Data parallel ranks all keep W, dW and both moments, and apply the same update. Here a rank owns and updates 1 / n:
 *
 *     stage 1   own dW = reduce-scatter(dW)     own W = AdamW(own W, own dW)     W = all-gather(own W)
 *     stage 2   dW is reduce-scattered after each microbatch and freed: only own dW stays, and accumulates
 *     stage 3   W is freed too: gathered for forward, again for backward, but not after the update
 *
 * "Freed" here means set to NaN, so that a later read shows. The values are integers and B is a power of two, so fp64
 * sums are exact in any order, and the step must equal the unsharded one to the bit. Source: Rajbhandari et al.
 * 2020, "ZeRO", section 5; zero/zero.c does this for a GPT. */
#include "lib/base/rng.h"
#include "lib/comm/comm.h"
#include "lib/ops/optimizer.h"
#include "lib/ops/gemm/gemm.h"
#include <math.h>
#include <stdio.h>

enum { B = 8, C = 4, K = 2, N = K * C, M = 2 };   /* samples, channels in and out, weights, microbatches per rank */
/* W and dW are whole; own_W to v are this rank's shard; dx is of its samples. */
struct state { const struct group *group; int shard; double W[N], dW[N], own_W[N], own_dW[N], m[N], v[N], dx[B * C]; };

/* x[i] = element first + i of the tensor of that name: an integer from -2 to 2, the same on every rank. */
static void fill(double *x, const char *name, int first, int n) {
    for (int i = 0; i < n; i++) x[i] = floor(5 * rng_uniform(1, rng_stream(name), (uint64_t)(first + i))) - 2;
}
static void forget(double *x) { for (int i = 0; i < N; i++) x[i] = NAN; }

static enum status gather(struct state *s) { return comm_all_gather(s->group, s->own_W, s->W, s->shard, FP64); }
static enum status scatter(struct state *s) {
    double sum[N];
    TRY(comm_reduce_scatter(s->group, s->dW, sum, s->shard, FP64));
    for (int i = 0; i < s->shard; i++) s->own_dW[i] += sum[i];       /* accumulates over microbatches */
    return OK;
}
static enum status update(struct state *s) {
    const double as_it_is = 1;
    struct optimizer_settings a = {.lr = 0.1, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8,
                                   .grad_multiplier = &as_it_is, .step = 1};
    struct optimizer_elements own = {s->shard, s->own_W, FP64, s->own_dW, FP64, {s->m, s->v}, NULL, .decay = true};
    return optimizer_update(&optimizer_adamw, device_cpu(), &a, &own, 1);
}

/* Compute dx of samples first .. first + n - 1, and their partial gradient dW. */
static enum status microbatch(struct state *s, int stage, int first, int n) {
    double x[B * C], y[B * K], t[B * K];
    struct gemm forward = {n, K, C, false, true, .alpha = 1, .ab_dtype = FP64, .c_dtype = FP64};
    struct gemm weight = {K, C, n, true, false, .alpha = 1, .ab_dtype = FP64, .c_dtype = FP64};
    struct gemm input = {n, C, K, false, false, .alpha = 1, .ab_dtype = FP64, .c_dtype = FP64};
    fill(x, "x", first * C, n * C);
    fill(t, "t", first * K, n * K);
    if (stage == 3) TRY(gather(s));
    TRY(gemm_run(&forward, x, s->W, NULL, y, NULL));
    if (stage == 3) forget(s->W);                                    /* other layers would run here */
    if (stage == 3) TRY(gather(s));
    for (int i = 0; i < n * K; i++) y[i] = (y[i] - t[i]) / B;        /* y is dy from here on */
    TRY(gemm_run(&weight, y, x, NULL, s->dW, NULL));
    return gemm_run(&input, y, s->W, NULL, s->dx + first * C, NULL);
}

/* One step on this rank's samples. Stage 1 has one microbatch here, because it scatters only a complete dW. */
static enum status zero_step(struct state *s, int stage) {
    int share = B / group_size(s->group), pieces = stage == 1 ? 1 : M, n = share / pieces;
    for (int m = 0; m < pieces; m++) {
        if (stage == 3) forget(s->W);
        TRY(microbatch(s, stage, group_rank(s->group) * share + m * n, n));
        TRY(scatter(s));
        if (stage >= 2) forget(s->dW);
    }
    TRY(update(s));
    return stage == 3 ? OK : gather(s);
}

/* ---- check and report ---- */
static enum status run_stage(struct state *s, const struct group *group, int stage) {
    *s = (struct state){.group = group, .shard = N / group_size(group)};
    fill(s->W, "W", 0, N);
    fill(s->own_W, "W", group_rank(group) * s->shard, s->shard);
    return zero_step(s, stage);
}

/* Every number must equal the unsharded step's, and the bytes their formula, in units of U = 8 N (n-1)/n. */
static enum status compare(int stage, const struct state *whole) {
    static const int transfers[] = {0, 2, M + 1, 3 * M};
    const struct ledger_entry *e = group_ledger(group_world())->entry;
    struct state s;
    group_ledger_reset(group_world());
    TRY(run_stage(&s, group_world(), stage));
    double sent = e[COMM_ALL_GATHER].bytes + e[COMM_REDUCE_SCATTER].bytes, U = 8. * (N - s.shard);
    int wrong = 0, all = 8 * N, own = 8 * s.shard, n = B * C / group_size(s.group), first = group_rank(s.group) * n;
    if (comm_is_rank_0()) printf("  stage %d %9d %9d %8d %6g = %d U\n", stage, stage < 3 ? all : own,
                                 stage < 2 ? all : own, 2 * own, sent, transfers[stage]);
    if (stage == 3) TRY(gather(&s));                                 /* for the comparison */
    for (int i = 0; i < N; i++) wrong += !(s.W[i] == whole->W[i]);
    for (int i = first; i < first + n; i++) wrong += !(s.dx[i] == whole->dx[i]);
    if (!wrong && sent == transfers[stage] * U) return OK;
    return FAIL(E_INTERNAL, "stage %d: %d wrong numbers; sent %g bytes, U %g", stage, wrong, sent, U);
}

static enum status zero(void) {
    struct state whole;
    int n = comm_world_size();
    if (n != 1 && n != 2 && n != 4) return FAIL(E_CONFIG, "%d ranks; use 1, 2 or 4", n);
    if (comm_is_rank_0())
        printf("%d weights, rank r of %d owns %d from number %d r; bytes per rank:\n%19s%10s%9s%7s\n"
               "  dp      %9d %9d %8d %6d = 2 U\n", N, n, N / n, N / n, "weights", "gradients", "moments", "sent",
               8 * N, 8 * N, 16 * N, 16 * (N - N / n));
    TRY(run_stage(&whole, group_self(), 1));                         /* one rank that owns everything */
    for (int stage = 1; stage <= 3; stage++) TRY(compare(stage, &whole));
    return OK;
}

int main(int argc, char **argv) {
    enum status status = comm_start(&argc, &argv);
    if (status == OK) status = fail_agree(group_world(), zero());
    else status_report();
    if (status == OK && comm_is_rank_0()) printf("each equals the unsharded step to the bit, on every rank\n");
    comm_finish(true, status_exit_code(status));
    return status_exit_code(status);
}
