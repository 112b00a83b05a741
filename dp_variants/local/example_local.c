/* ranks: 2
 *
 * Minimal local SGD: one linear layer, a batch of 8 samples, any number of ranks that divides 8.
 *
 *     y = x W^T        L_r = 1/(2b) sum over the b samples of rank r of |y - t|^2        dW_r = 1/b sum (y - t)^T x
 *
 * Every rank takes H steps W -= lr dW_r on its own samples, without communication. Then one all-reduce averages the
 * ranks' weights, and all ranks take the same outer step:
 *
 *     d = 1/n sum_r (W_start - W_r)        u = mu u + d        W = W_start - lr_out (d + mu u)
 *
 * With lr_out 1 and mu 0, W becomes the mean (local SGD); with 0.7 and 0.9 the step is DiLoCo's. b counts the samples
 * of one rank, because gradients are never added over ranks.
 *
 * All values are small integers, rates are powers of two, so fp64 is exact, and the result must equal, to the bit, that
 * of one process that trains the replicas one after the other. dp_variants/local/local.c does this for every parameter
 * of a GPT, with AdamW inside. */
#include "lib/base/rng.h"
#include "lib/comm/comm.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLES = 8, C = 3, K = 2, H = 2, ROUNDS = 2 };   /* C, K: channels in, out; ROUNDS: averages */
static const double LR = 1. / 64, OUTER_LR = 0.5, MU = 0.5;

/* Element i of the tensor of that name: an integer from -1 to 1, the same on every rank. */
static double value(const char *name, int64_t i) {
    return floor(3 * rng_uniform(1, rng_stream(name), (uint64_t)i)) - 1;
}

/* One step on samples first .. first + n - 1. */
static void step(double *W, int first, int n) {
    double dW[K * C] = {0};
    for (int b = first; b < first + n; b++)
        for (int k = 0; k < K; k++) {
            double dy = -value("t", b * K + k);
            for (int c = 0; c < C; c++) dy += value("x", b * C + c) * W[k * C + c];
            for (int c = 0; c < C; c++) dW[k * C + c] += dy / n * value("x", b * C + c);
        }
    for (int i = 0; i < K * C; i++) W[i] -= LR * dW[i];
}

/* Train a replica for H steps of its own. moved: start - W. */
static void train_apart(const double *start, int replica, int n_replicas, double *moved) {
    double W[K * C];
    int share = SAMPLES / n_replicas;
    memcpy(W, start, sizeof W);
    for (int h = 0; h < H; h++) step(W, replica * share, share);
    for (int i = 0; i < K * C; i++) moved[i] = start[i] - W[i];
}

/* sum: of `moved`, over all n replicas. */
static void outer_step(double *W, double *u, const double *sum, int n) {
    for (int i = 0; i < K * C; i++) {
        double d = sum[i] / n;
        u[i] = MU * u[i] + d;
        W[i] -= OUTER_LR * (d + MU * u[i]);
    }
}

static void one_process(double *W, int n) {
    double u[K * C] = {0}, moved[K * C], sum[K * C];
    for (int round = 0; round < ROUNDS; round++) {
        memset(sum, 0, sizeof sum);
        for (int r = 0; r < n; r++) {
            train_apart(W, r, n, moved);
            for (int i = 0; i < K * C; i++) sum[i] += moved[i];
        }
        outer_step(W, u, sum, n);
    }
}

static enum status local_sgd(void) {
    int n = comm_world_size();
    double W[K * C], alone[K * C], u[K * C] = {0}, moved[K * C];
    if (SAMPLES % n) return FAIL(E_CONFIG, "%d ranks do not divide the %d samples; use 1, 2, 4 or 8", n, SAMPLES);
    for (int i = 0; i < K * C; i++) W[i] = alone[i] = value("W", i);
    for (int round = 0; round < ROUNDS; round++) {
        train_apart(W, comm_world_rank(), n, moved);                  /* H steps, no message */
        TRY(comm_all_reduce(group_world(), moved, K * C, FP64, COMM_SUM));   /* and one all-reduce */
        outer_step(W, u, moved, n);
    }
    one_process(alone, n);
    const struct ledger_entry *e = &group_ledger(group_world())->entry[COMM_ALL_REDUCE];
    if (comm_is_rank_0())
        printf("%d ranks took %d steps each, and sent %.0f bytes a rank in %d all-reduces; data parallelism needs %d\n",
               n, H * ROUNDS, e->bytes, (int)e->calls, H * ROUNDS);
    for (int i = 0; i < K * C; i++)
        if (!(W[i] == alone[i]))
            return FAIL(E_INTERNAL, "W[%d] is %.17g on %d ranks and %.17g in one process; they must be equal", i, W[i],
                        n, alone[i]);
    return OK;
}

int main(int argc, char **argv) {
    enum status status = comm_start(&argc, &argv);
    if (status == OK) status = fail_agree(group_world(), local_sgd());
    else status_report();
    if (status == OK && comm_is_rank_0()) printf("equal to the bit, on every rank\n");
    comm_finish(true, status_exit_code(status));
    return status_exit_code(status);
}
