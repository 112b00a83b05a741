/* ranks: 2
 *
 * Minimal tensor parallelism: two linear layers with an elementwise function phi between them, sharded over any number
 * of ranks that divides K.
 *
 *     y = phi(x A) B      x (R,C) whole on every rank    A = [A_1 | A_2] by columns    B = [B_1 ; B_2] by rows
 *
 * Columns first: x A_r is r's columns of x A, and phi needs no more because it is elementwise. Rows second: r's columns
 * of phi(x A) multiply exactly r's rows of B, and y is the sum of those products. So forward needs one all-reduce:
 *
 *     h_r = phi(x A_r)    y = sum over r of h_r B_r                                    an all-reduce, "g" in the paper
 *
 * Backward, every rank has all of dy (it has all of y) and needs only its own columns until dx, which is again a sum:
 *
 *     dB_r = h_r^T dy     dh_r = dy B_r^T     da_r = phi'(x A_r) dh_r   dA_r = x^T da_r     no communication
 *     dx = sum over r of da_r A_r^T                                                    an all-reduce, "f" in the paper
 *
 * With A sharded by rows and B by columns, phi would need a collective before and after it: two each way, not one.
 *
 * The values are small integers, phi(a) = a^2 keeps them integers, and fp64 adds those exactly in any order. So the
 * result must equal the unsharded layer's to the bit. The unsharded layer is the same code over a group of one.
 *
 * tp/tp.c does this to a GPT's attention and MLP. Source: Shoeybi et al. 2019, "Megatron-LM", section 3. */
#include "lib/base/rng.h"
#include "lib/comm/comm.h"
#include "lib/ops/gemm/gemm.h"
#include <math.h>
#include <stdio.h>

enum { R = 4, C = 3, K = 8 };   /* rows of x, channels, hidden units */

/* One rank's shard of the layer: hidden units first .. first + n - 1, so A is (C,n) and B is (n,C). */
struct layer {
    int first, n;
    double A[C * K], B[K * C], dA[C * K], dB[K * C];
    double x[R * C], y[R * C], dx[R * C], dy[R * C], a[R * K], h[R * K], da[R * K];
};

/* Element i of the tensor of that name: an integer from -2 to 2, the same on every rank. */
static double element(const char *name, int i) { return floor(5 * rng_uniform(1, rng_stream(name), (uint64_t)i)) - 2; }

static void fill(struct layer *l, int first, int n) {
    *l = (struct layer){.first = first, .n = n};
    for (int i = 0; i < R * C; i++) l->x[i] = element("x", i);
    for (int i = 0; i < C * n; i++) l->A[i] = element("A", i / n * K + first + i % n);   /* columns first .. */
    for (int i = 0; i < n * C; i++) l->B[i] = element("B", first * C + i);               /* rows first .. */
}

enum { A_T = 1, B_T = 2 };   /* transpose the first operand, the second operand */
/* c (m,n) = a b, where a is (m,k), or stored (k,m) with A_T; b is (k,n), or stored (n,k) with B_T */
static enum status product(int m, int n, int k, int transposed, const double *a, const double *b, double *c) {
    struct gemm g = {.m = m, .n = n, .k = k, .transpose_a = transposed & A_T, .transpose_b = transposed & B_T,
                     .alpha = 1, .ab_dtype = FP64, .c_dtype = FP64};
    return gemm_run(&g, a, b, NULL, c, NULL);
}

static enum status forward(struct layer *l, const struct group *group) {
    TRY(product(R, l->n, C, 0, l->x, l->A, l->a));
    for (int i = 0; i < R * l->n; i++) l->h[i] = l->a[i] * l->a[i];
    TRY(product(R, C, l->n, 0, l->h, l->B, l->y));
    return comm_all_reduce(group, l->y, R * C, FP64, COMM_SUM);       /* g */
}

static enum status backward(struct layer *l, const struct group *group) {
    for (int i = 0; i < R * C; i++) l->dy[i] = l->y[i] - 1;           /* loss = sum |y - 1|^2 / 2 */
    TRY(product(l->n, C, R, A_T, l->h, l->dy, l->dB));
    TRY(product(R, l->n, C, B_T, l->dy, l->B, l->da));                /* dh; the next line makes it da in place */
    for (int i = 0; i < R * l->n; i++) l->da[i] *= 2 * l->a[i];
    TRY(product(C, l->n, R, A_T, l->x, l->da, l->dA));
    TRY(product(R, C, l->n, B_T, l->da, l->A, l->dx));
    return comm_all_reduce(group, l->dx, R * C, FP64, COMM_SUM);      /* f */
}

/* x[i] must equal all[i / n * stride + first + i % n]: this rank's columns, or everything */
static enum status same(const char *name, const double *x, int count, const double *all, int n, int stride, int first) {
    for (int i = 0; i < count; i++) {
        double expected = all[i / n * stride + first + i % n];
        if (!(x[i] == expected))
            return FAIL(E_INTERNAL, "%s[%d] is %.17g sharded and %.17g whole; they must be equal", name, i, x[i],
                        expected);
    }
    if (comm_is_rank_0()) printf("  %-3s %3d numbers on rank 0, equal to the uncut layer's\n", name, count);
    return OK;
}

static void tell(const struct layer *l, const struct ledger_entry *sent) {
    if (!comm_is_rank_0()) return;
    printf("y = phi(x A) B with x (%d,%d), A (%d,%d), B (%d,%d), over %d ranks\n", R, C, C, K, K, C, K / l->n);
    printf("  rank 0 has all of x, columns 0 to %d of A, rows 0 to %d of B\n", l->n - 1, l->n - 1);
    printf("  sent: y forward and dx backward, S = %d bytes each, in %d all-reduces of n = %d ranks; %.0f bytes per "
           "rank: 2 x 2 S (n-1)/n\n",
           (int)sizeof l->y, (int)sent->calls, K / l->n, sent->bytes);
}

static enum status tensor_parallel(void) {
    struct layer mine, whole;
    int n_ranks = comm_world_size(), n = K / n_ranks;
    if (K % n_ranks) return FAIL(E_CONFIG, "%d ranks do not divide the %d hidden units; use 1, 2, 4 or 8", n_ranks, K);
    fill(&mine, comm_world_rank() * n, n);
    fill(&whole, 0, K);
    TRY(forward(&mine, group_world()));
    TRY(backward(&mine, group_world()));
    TRY(forward(&whole, group_self()));
    TRY(backward(&whole, group_self()));
    tell(&mine, &group_ledger(group_world())->entry[COMM_ALL_REDUCE]);
    TRY(same("y", mine.y, R * C, whole.y, R * C, 0, 0));
    TRY(same("dx", mine.dx, R * C, whole.dx, R * C, 0, 0));
    TRY(same("dA", mine.dA, C * n, whole.dA, n, K, mine.first));
    return same("dB", mine.dB, n * C, whole.dB, n * C, 0, mine.first * C);
}

int main(int argc, char **argv) {
    enum status status = comm_start(&argc, &argv);
    if (status == OK) status = fail_agree(group_world(), tensor_parallel());
    else status_report();
    if (status == OK && comm_is_rank_0()) printf("equal to the bit, on every rank\n");
    comm_finish(true, status_exit_code(status));
    return status_exit_code(status);
}
