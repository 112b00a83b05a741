/* ranks: 2
 *
 * Minimal data parallelism with one main rank: a linear layer, a batch of 8 samples, 1, 2 or 4 ranks.
 *
 *     y = x W^T      dy = (y - t) / B      dW = sum over samples b of dy[b]^T x[b]      W = AdamW(W, dW)
 *
 * Every rank has W and a share of the samples. Rank 0 gets all dW, adds them up, has the only moments, updates, and
 * sends W to all. The values are integers and B is a power of two, so fp64 sums are exact in any order, and W must
 * equal that of a single rank to the bit, on every rank. With n ranks, rank 0 sends W n-1 times and gets n-1 gradients
 * dW, so its work grows with n. In an all-reduce every rank sends only 2 (n-1)/n dW.
 * dp_variants/main_rank/main_rank.c does this for a GPT. */
#include "lib/base/rng.h"
#include "lib/comm/comm.h"
#include "lib/comm/comm_request.h"
#include "lib/ops/optimizer.h"
#include "lib/ops/gemm/gemm.h"
#include <math.h>
#include <stdio.h>

enum { B = 8, C = 4, K = 2, N = K * C };         /* samples, channels in and out, weights */
struct state { const struct group *group; double W[N], dW[N], m[N], v[N]; };

/* x[i] = element first + i of the tensor of that name: an integer from -2 to 2, the same on every rank. */
static void fill(double *x, const char *name, int first, int n) {
    for (int i = 0; i < n; i++) x[i] = floor(5 * rng_uniform(1, rng_stream(name), (uint64_t)(first + i))) - 2;
}

/* Compute dW of samples first .. first + n - 1. */
static enum status gradient(struct state *s, int first, int n) {
    double x[B * C], y[B * K], t[B * K];
    struct gemm forward = {n, K, C, false, true, .alpha = 1, .ab_dtype = FP64, .c_dtype = FP64};
    struct gemm weight = {K, C, n, true, false, .alpha = 1, .ab_dtype = FP64, .c_dtype = FP64};
    fill(x, "x", first * C, n * C);
    fill(t, "t", first * K, n * K);
    TRY(gemm_run(&forward, x, s->W, NULL, y, NULL));
    for (int i = 0; i < n * K; i++) y[i] = (y[i] - t[i]) / B;        /* y is dy from here on */
    return gemm_run(&weight, y, x, NULL, s->dW, NULL);
}

static enum status sum_on_rank_0(struct state *s) {
    struct comm_request request = {0};
    TRY(comm_reduce_start(s->group, s->dW, N, FP64, COMM_SUM, 0, &request));
    return comm_wait(&request);
}

static enum status update(struct state *s) {
    const double as_it_is = 1;
    struct optimizer_settings a = {.lr = 0.1, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8,
                                   .grad_multiplier = &as_it_is, .step = 1};
    struct optimizer_elements all = {N, s->W, FP64, s->dW, FP64, {s->m, s->v}, NULL, .decay = true};
    if (group_rank(s->group) > 0) return OK;                         /* the others have no moments */
    return optimizer_update(&optimizer_adamw, device_cpu(), &a, &all, 1);
}

static enum status step(struct state *s, const struct group *group) {
    *s = (struct state){.group = group};
    int share = B / group_size(group);
    fill(s->W, "W", 0, N);
    TRY(gradient(s, group_rank(group) * share, share));
    TRY(sum_on_rank_0(s));
    TRY(update(s));
    return comm_broadcast(group, s->W, N, FP64, 0);
}

static enum status main_rank(void) {
    struct state one, s;
    int n = comm_world_size(), wrong = 0;
    if (n != 1 && n != 2 && n != 4) return FAIL(E_CONFIG, "%d ranks; use 1, 2 or 4", n);
    TRY(step(&one, group_self()));                                   /* one rank with all samples */
    TRY(step(&s, group_world()));
    for (int i = 0; i < N; i++) wrong += !(s.W[i] == one.W[i]);
    if (wrong) return FAIL(E_INTERNAL, "%d of %d weights are not those of one rank", wrong, N);
    if (comm_is_rank_0())
        printf("%d weights, %d ranks: rank 0 gets %d bytes and sends %d, has moments of %d; the others send %d, have "
               "none\n", N, n, 8 * N * (n - 1), 8 * N * (n - 1), 16 * N, n > 1 ? 8 * N : 0);
    return OK;
}

int main(int argc, char **argv) {
    enum status status = comm_start(&argc, &argv);
    if (status == OK) status = fail_agree(group_world(), main_rank());
    else status_report();
    if (status == OK && comm_is_rank_0()) printf("equal to one rank's step to the bit, on every rank\n");
    comm_finish(true, status_exit_code(status));
    return status_exit_code(status);
}
