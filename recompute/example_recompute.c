/* ranks: 1
 *
 * Minimal recomputation: a chain whose middle is dropped after forward and recomputed in backward.
 *
 *     h = x A        g = m gelu(h)       y = g D        loss = 1/2 |y - 1|^2       m: dropout's mask, 0 or 1 / (1 - p)
 *
 *     dy = y - 1     dD = g^T dy     dg = dy D^T     dh = gelu'(h) m dg     dA = x^T dh     dx = dh A^T
 *
 * Backward reads x, h and g. An ordinary run keeps all three from forward to backward, for every microbatch in flight.
 * Here only x is kept: backward runs h = x A and g = m gelu(h) once more, into scratch that all layers can share.
 * y = g D is not run again, because backward never reads y.
 *
 * The one trap is dropout. The second g must drop the same elements as the first; otherwise the gradient is that of a
 * function which was never evaluated. A generator with a state would have to be reset. A counter-based generator has no
 * state: element i's draw is a function of (seed, site, i), and drawing again gives the same mask. So the mask need not
 * be kept either. To show the trap, backward runs a third time with the numbers that a stateful generator draws next.
 *
 * The same kernels on the same numbers give the same bits, so gradients are compared with ==.
 *
 * recompute/recompute.c marks what a GPT drops; lib/program/lower.c determines what to replay, and when.
 * Source: Chen et al. 2016, "Training deep nets with sublinear memory cost". */
#include "lib/base/rng.h"
#include "lib/comm/comm.h"
#include "lib/ops/gelu.h"
#include "lib/ops/gemm/gemm.h"
#include <stdio.h>

enum { R = 4, C = 3, K = 12 };   /* rows, channels, hidden units */
static const double DROP = 0.25;

struct chain { double x[R * C], A[C * K], D[K * C]; };
struct middle { double h[R * K], g[R * K]; };
struct gradients { double dA[C * K], dD[K * C], dx[R * C]; };

static void fill(double *x, const char *name, int n) {
    for (int i = 0; i < n; i++) x[i] = rng_normal(1, rng_stream(name), (uint64_t)i);
}

/* y = m x; `first` is the counter of element 0. */
static void drop(const double *x, double *y, int first) {
    for (int i = 0; i < R * K; i++)
        y[i] = rng_uniform(1, rng_stream("dropout"), (uint64_t)(first + i)) < DROP ? 0 : x[i] / (1 - DROP);
}

/* c (m,n) = a b; a is stored (k,m) if at, b is stored (n,k) if bt */
static enum status product(int m, int n, int k, bool at, bool bt, const double *a, const double *b, double *c) {
    struct gemm g = {m, n, k, at, bt, .alpha = 1, .ab_dtype = FP64, .c_dtype = FP64};
    return gemm_run(&g, a, b, NULL, c, NULL);
}

/* forward: y = gelu(x); backward: dx = gelu'(x) dy */
static enum status gelu(enum row_kind kind, double *x, double *y, double *dy, double *dx) {
    const struct type type = {FP64, {2, {axis_whole('B', R), axis_whole('K', K)}}};
    const struct step step = {.op = &op_gelu, .n_in = 1, .n_out = 1, .parts = 1};
    struct call c = {.step = &step, .in = {{x, &type}}, .out = {{y, &type}}, .dout = {{dy, &type}},
                     .din = {{dx, &type}}};
    return op_run(&c, kind);
}

/* Compute h and g in forward, and again in backward if they were dropped. */
static enum status run_middle(struct chain *c, struct middle *m, int first) {
    TRY(product(R, K, C, false, false, c->x, c->A, m->h));
    TRY(gelu(ROW_FORWARD, m->h, m->g, NULL, NULL));
    drop(m->g, m->g, first);
    return OK;
}

/* kept: the results of forward; NULL: recompute them, with dropout's counter at `first`. */
static enum status backward(struct chain *c, struct middle *kept, int first, const double *y, struct gradients *g) {
    struct middle again;
    double dy[R * C], dg[R * K], dh[R * K];
    if (!kept) TRY(run_middle(c, kept = &again, first));
    for (int i = 0; i < R * C; i++) dy[i] = y[i] - 1;
    TRY(product(K, C, R, true, false, kept->g, dy, g->dD));
    TRY(product(R, K, C, false, true, dy, c->D, dg));
    drop(dg, dg, first);                                              /* draws the mask again: it is never kept */
    TRY(gelu(ROW_BACKWARD_INPUT, kept->h, NULL, dg, dh));
    TRY(product(C, K, R, true, false, c->x, dh, g->dA));
    return product(R, C, K, false, true, dh, c->A, g->dx);
}

/* ---- check and report ---- */
static int differences(const struct gradients *a, const struct gradients *b) {
    int n = 0;
    for (int i = 0; i < C * K; i++) n += !(a->dA[i] == b->dA[i]) + !(a->dD[i] == b->dD[i]);
    for (int i = 0; i < R * C; i++) n += !(a->dx[i] == b->dx[i]);
    return n;
}

static enum status recompute(void) {
    struct chain c;
    struct middle m;
    struct gradients kept, again, other;
    double y[R * C];
    fill(c.x, "x", R * C);
    fill(c.A, "A", C * K);
    fill(c.D, "D", K * C);
    TRY(run_middle(&c, &m, 0));
    TRY(product(R, C, K, false, false, m.g, c.D, y));
    TRY(backward(&c, &m, 0, y, &kept));
    TRY(backward(&c, NULL, 0, y, &again));
    TRY(backward(&c, NULL, R * K, y, &other));
    int wrong = differences(&kept, &again), mixed_up = differences(&kept, &other), n = sizeof kept / sizeof(double);
    printf("y = (m gelu(x A)) D with x (%d,%d), A (%d,%d), D (%d,%d); from forward to backward\n", R, C, C, K, K, C);
    printf("  keeping x, h, g   %4d bytes\n", (int)(sizeof c.x + sizeof m));
    int kept_bytes = (int)sizeof c.x;
    printf("  keeping x         %4d bytes, x A and gelu run twice: %d of %d gradients differ\n", kept_bytes, wrong, n);
    printf("  another mask      %4d bytes, the same work: %d of %d gradients differ\n", kept_bytes, mixed_up, n);
    if (wrong) return FAIL(E_INTERNAL, "%d of %d gradients differ when h and g are recomputed; none may", wrong, n);
    return mixed_up ? OK : FAIL(E_INTERNAL, "a mask from other counters makes no difference; dropout is not at work");
}

int main(int argc, char **argv) {
    enum status status = comm_start(&argc, &argv);
    if (status == OK) status = fail_agree(group_world(), recompute());
    else status_report();
    if (status == OK) printf("recomputed, equal to the bit\n");
    comm_finish(true, status_exit_code(status));
    return status_exit_code(status);
}
