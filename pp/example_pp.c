/* ranks: 2
 *
 * Minimal pipeline parallelism: a model of two linear layers, one on each of two ranks.
 *
 *     stage 0: y = x W_0          -- y -->       stage 1: y = x W_1      loss = 1/2 |y - 1|^2,  dy = y - 1
 *              dW_0 += x^T dy     <-- dx --               dW_1 += x^T dy,  dx = dy W_1^T
 *
 * A layer's input is the output of the previous layer, so with a single batch only one stage would work at a time. So
 * the batch is split into M microbatches, and the stages work on different ones:
 *
 *     time ->     0    1    2    3    4    5    6    7    8    9
 *     stage 0    F0   F1    .   B0   F2   B1   F3   B2    .   B3     . idle: the bubble, (stages - 1) / M of the
 *     stage 1     .   F0   B0   F1   B1   F2   B2   F3   B3    .     useful time
 *
 * This order is 1F1B: a few forwards to fill the pipeline, then one forward, one backward. A stage has at most
 * (stages - stage) microbatches in flight and needs memory for these, not for M. Their gradients add up to the batch's.
 * A send does not wait for its receiver, which may be sending too: it starts here and is completed at the end.
 *
 * The values are small integers, which fp64 adds exactly in any order: the result must equal the unsplit model's to the
 * bit. pp/pp_schedule.c has the real orders. Source: Narayanan et al. 2019. */
#include "lib/base/rng.h"
#include "lib/comm/comm_request.h"
#include "lib/ops/gemm/gemm.h"
#include <math.h>
#include <stdio.h>

enum { STAGES = 2, M = 4, R = 2, C = 3, N = R * C, TEXT = 64 };   /* M microbatches of R rows, C channels */

struct stage {
    int index;
    double W[C * C], dW[C * C];
    double x[M][N], y[M][N], dy[M][N], dx[M][N];        /* for all M, for simplicity */
    struct comm_request sent[M];
    char order[TEXT];                                   /* the actions in order, to be printed */
};

/* x[i] = element first + i of the tensor of that name: an integer from -2 to 2, the same on every rank. */
static void fill(double *x, const char *name, int first, int n) {
    for (int i = 0; i < n; i++) x[i] = floor(5 * rng_uniform(1, rng_stream(name), (uint64_t)(first + i))) - 2;
}

static enum status layer_forward(int rows, const double *x, const double *W, double *y) {
    struct gemm g = {.m = rows, .n = C, .k = C, .alpha = 1, .ab_dtype = FP64, .c_dtype = FP64};
    return gemm_run(&g, x, W, NULL, y, NULL);           /* y = x W */
}
static enum status layer_backward(int rows, const double *x, const double *W, const double *dy, double *dx,
                                  double *dW) {
    struct gemm weight = {C, C, rows, true, false, .alpha = 1, .beta = 1, .ab_dtype = FP64, .c_dtype = FP64};
    struct gemm input = {rows, C, C, false, true, .alpha = 1, .ab_dtype = FP64, .c_dtype = FP64};
    TRY(gemm_run(&weight, x, dy, NULL, dW, NULL));      /* dW += x^T dy */
    return gemm_run(&input, dy, W, NULL, dx, NULL);     /* dx = dy W^T */
}

static enum status receive(double *x, int from) {
    struct comm_request request = {0};
    TRY(comm_recv_start(group_world(), x, N, FP64, from, 0, &request));
    return comm_wait(&request);
}

static enum status forward(struct stage *s, int m) {
    if (s->index == 0) fill(s->x[m], "x", m * N, N);
    else TRY(receive(s->x[m], 0));
    TRY(layer_forward(R, s->x[m], s->W, s->y[m]));
    sprintf(strchr(s->order, 0), " F%d", m);
    return s->index == 0 ? comm_send_start(group_world(), s->y[m], N, FP64, 1, 0, &s->sent[m]) : OK;
}

static enum status backward(struct stage *s, int m) {
    if (s->index == 0) TRY(receive(s->dy[m], 1));
    else for (int i = 0; i < N; i++) s->dy[m][i] = s->y[m][i] - 1;
    TRY(layer_backward(R, s->x[m], s->W, s->dy[m], s->dx[m], s->dW));
    sprintf(strchr(s->order, 0), " B%d", m);
    return s->index == 1 ? comm_send_start(group_world(), s->dx[m], N, FP64, 0, 0, &s->sent[m]) : OK;
}

/* ---- the unsplit model, the whole batch at once: is its gradient of this stage's layer the same? ---- */
static enum status check(const struct stage *s) {
    double W[2][C * C], dW[2][C * C] = {{0}}, x[M * N], h[M * N], y[M * N], dh[M * N], dx[M * N];
    fill(x, "x", 0, M * N);
    fill(W[0], "W", 0, 2 * C * C);
    TRY(layer_forward(M * R, x, W[0], h));
    TRY(layer_forward(M * R, h, W[1], y));
    for (int i = 0; i < M * N; i++) y[i] -= 1;
    TRY(layer_backward(M * R, h, W[1], y, dh, dW[1]));
    TRY(layer_backward(M * R, x, W[0], dh, dx, dW[0]));
    for (int i = 0; i < C * C; i++)
        if (!(s->dW[i] == dW[s->index][i]))
            return FAIL(E_INTERNAL, "dW_%d[%d] is %g, unsplit %g", s->index, i, s->dW[i], dW[s->index][i]);
    return OK;
}

static enum status tell(const struct stage *s) {
    char order[STAGES][TEXT];
    TRY(comm_all_gather(group_world(), s->order, order, TEXT, UINT8));
    if (s->index != 0) return OK;
    printf("two layers y = x W on two stages, a batch of %d rows in %d microbatches\n", M * R, M);
    for (int i = 0; i < STAGES; i++) printf("  stage %d has W_%d and did%s\n", i, i, order[i]);
    printf("  sent: y (%d,%d) forward and dx backward, %d bytes each, %d times\n", R, C, (int)sizeof s->y[0], M);
    return OK;
}

static enum status pipeline_parallel(void) {
    struct stage s = {.index = comm_world_rank()};
    if (comm_world_size() != STAGES) return FAIL(E_CONFIG, "%d ranks; use %d", comm_world_size(), STAGES);
    fill(s.W, "W", s.index * C * C, C * C);
    for (int f = 0, b = 0; b < M;)                      /* forward while fewer than STAGES - index are in flight */
        TRY(f < M && f - b < STAGES - s.index ? forward(&s, f++) : backward(&s, b++));
    for (int m = 0; m < M; m++) TRY(comm_wait(&s.sent[m]));
    TRY(tell(&s));
    return check(&s);
}

int main(int argc, char **argv) {
    enum status status = comm_start(&argc, &argv);
    if (status == OK) status = fail_agree(group_world(), pipeline_parallel());
    else status_report();
    if (status == OK && comm_is_rank_0()) printf("gradients equal the unsplit model's to the bit, on both stages\n");
    comm_finish(true, status_exit_code(status));
    return status_exit_code(status);
}
