/* ranks: 2
 *
 * Minimal data parallelism: one linear layer, a batch of 8 samples, any number of ranks that divides 8.
 *
 *     y = x W^T        L = 1/(2B) sum over samples b of |y[b] - t[b]|^2
 *     dy[b] = (y[b] - t[b]) / B                dW = sum over samples b of dy[b]^T x[b]
 *
 * The gradient is a sum over samples, so partial sums can be added later. Every rank holds all of W but only its share
 * of the samples, computes its partial dW, and one all-reduce adds the partial sums. Then every rank has the gradient
 * of the whole batch, applies the same update, and starts the next batch with the same W as the others.
 *
 * The one trap is B, the size of the *whole* batch, the same on every rank. If ranks divided by their own share, the
 * sum would be too large by a factor of the number of ranks.
 *
 * All values are small integers and B is a power of two. fp64 adds such numbers exactly in any order, so the result
 * must equal the serial one to the bit. (Ordinary numbers would differ in the last digits, because another order of
 * adding rounds differently.)
 *
 * dp/dp.c does this for every parameter of a GPT, in buckets, while the backward pass is still running. */
#include "lib/base/rng.h"
#include "lib/comm/comm.h"
#include "lib/ops/gemm/gemm.h"
#include <math.h>
#include <stdio.h>

enum { B = 8, C = 3, K = 2 };   /* samples, channels in, channels out */

/* x[i] = element first + i of the tensor of that name: an integer from -2 to 2, the same on every rank. */
static void fill(double *x, const char *name, int64_t first, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[i] = floor(5 * rng_uniform(1, rng_stream(name), (uint64_t)(first + i))) - 2;
}

/* Forward, loss and backward over samples first .. first + n - 1 of the batch. dW (K,C): their partial gradient. */
static enum status gradient(int first, int n, double *dW) {
    double x[B * C], t[B * K], W[K * C], y[B * K], dy[B * K];
    fill(x, "x", (int64_t)first * C, (int64_t)n * C);
    fill(t, "t", (int64_t)first * K, (int64_t)n * K);
    fill(W, "W", 0, K * C);
    struct gemm forward = {.m = n, .n = K, .k = C, .transpose_b = true, .alpha = 1, .ab_dtype = FP64, .c_dtype = FP64};
    struct gemm backward = {.m = K, .n = C, .k = n, .transpose_a = true, .alpha = 1, .ab_dtype = FP64, .c_dtype = FP64};
    TRY(gemm_run(&forward, x, W, NULL, y, NULL));                     /* y = x W^T */
    for (int i = 0; i < n * K; i++) dy[i] = (y[i] - t[i]) / B;        /* B, and not n */
    return gemm_run(&backward, dy, x, NULL, dW, NULL);                /* dW = dy^T x */
}

/* ---- report ---- */

static void tell_cut(int n_ranks) {
    if (!comm_is_rank_0()) return;
    printf("y = x W^T with x (%d,%d), W (%d,%d), over %d ranks\n", B, C, K, C, n_ranks);
    printf("  every rank has all of W; rank r has samples %d r to %d r + %d of x\n", B / n_ranks, B / n_ranks,
           B / n_ranks - 1);
}

static void tell_matrix(const char *what, const double *dW) {
    if (!comm_is_rank_0()) return;
    printf("  %-32s", what);
    for (int i = 0; i < K * C; i++) printf("%s%8.3f", i % C == 0 ? " |" : "", dW[i]);
    printf(" |\n");
}

static void tell_bytes(void) {
    const struct ledger_entry *e = &group_ledger(group_world())->entry[COMM_ALL_REDUCE];
    if (comm_is_rank_0())
        printf("  sent: %d bytes of dW in %d all-reduce, %.0f bytes per rank: 2 S (n-1)/n\n",
               (int)(K * C * sizeof(double)), (int)e->calls, e->bytes);
}

/* ---- the example ---- */
static enum status same(const double *dW, const double *serial) {
    for (int i = 0; i < K * C; i++)
        if (!(dW[i] == serial[i]))
            return FAIL(E_INTERNAL, "dW[%d] is %.17g in parallel and %.17g serially; they must be equal", i, dW[i],
                        serial[i]);
    return OK;
}

static enum status data_parallel(void) {
    int n_ranks = comm_world_size(), share = B / n_ranks;
    double dW[K * C], serial[K * C];
    if (B % n_ranks) return FAIL(E_CONFIG, "%d ranks do not divide the %d samples; use 1, 2, 4 or 8", n_ranks, B);
    tell_cut(n_ranks);
    TRY(gradient(comm_world_rank() * share, share, dW));              /* this rank's samples only */
    tell_matrix("dW of rank 0's samples", dW);
    TRY(comm_all_reduce(group_world(), dW, K * C, FP64, COMM_SUM));   /* this line is data parallelism */
    tell_matrix("dW after the all-reduce", dW);
    TRY(gradient(0, B, serial));                                      /* all samples, on one rank */
    tell_matrix("dW of the whole batch, serially", serial);
    tell_bytes();
    return same(dW, serial);
}

int main(int argc, char **argv) {
    enum status status = comm_start(&argc, &argv);
    if (status == OK) status = fail_agree(group_world(), data_parallel());
    else status_report();
    if (status == OK && comm_is_rank_0()) printf("equal to the bit, on every rank\n");
    comm_finish(true, status_exit_code(status));
    return status_exit_code(status);
}
