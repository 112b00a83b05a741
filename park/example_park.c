/* ranks: 1
 *
 * Minimal parking: a chain of layers whose activations wait in host memory until backward reads them.
 *
 *     x_1 = tanh(x_0)   x_2 = tanh(x_1)  ...  x_L = tanh(x_{L-1})        loss = 1/2 |x_L|^2
 *
 *     dx_{L} = x_L            dx_{l-1} = (1 - x_l^2) dx_l                 backward reads x_L, then x_{L-1}, ..., x_1
 *
 * Backward reads x_L first and x_1 last, so x_1 is idle longest. Here the device has two buffers for any L; the other
 * activations are in host memory.
 *
 *     forward    x_l is computed in buffer l mod 2. It is copied to the host while x_{l+1} is computed, so its buffer
 *                is free for x_{l+2}
 *     backward   while dx_{l-1} is computed from x_l, x_{l-1} is copied back
 *
 * On a GPU a copy runs on a stream of its own between `start` and `await`. Here `start` only records the copy, and
 * `await` copies as late as allowed, so that a premature read returns wrong numbers. To show such numbers, the example
 * also runs with one buffer, where x_{l+1} overwrites x_l while x_l is being copied.
 *
 * A copy has the same bits, so gradients are compared with ==.
 *
 * park/park.c marks what a model parks; lib/program/lower_park.c emits the rows that copy.
 * Source: Rajbhandari et al. 2021, "ZeRO-Infinity", section 5.1.1. */
#include "lib/base/rng.h"
#include "lib/comm/comm.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { L = 8, N = 16, BUFFERS = 2 };

typedef double array[N];
struct copy { const double *from; double *to; };

static void start(struct copy *c, const double *from, double *to) { *c = (struct copy){from, to}; }
static void await(struct copy *c) {
    if (c->to) memcpy(c->to, c->from, sizeof(array));
    c->to = NULL;
}

static void layer(const double *x, double *y) {
    for (int i = 0; i < N; i++) y[i] = tanh(x[i]);
}
static void layer_backward(const double *y, double *dx) {
    for (int i = 0; i < N; i++) dx[i] *= 1 - y[i] * y[i];
}

/* All of x_1 .. x_L are kept on the device. */
static void kept(const double *x0, double *dx) {
    array x[L + 1];
    memcpy(x[0], x0, sizeof(array));
    for (int l = 1; l <= L; l++) layer(x[l - 1], x[l]);
    memcpy(dx, x[L], sizeof(array));
    for (int l = L; l > 0; l--) layer_backward(x[l], dx);
}

/* x_1 .. x_L in host memory, and `buffers` buffers on the device. */
static void parked(const double *x0, int buffers, double *dx) {
    array device[BUFFERS], host[L + 1];
    struct copy copy = {NULL, NULL};
    memcpy(device[0], x0, sizeof(array));
    for (int l = 1; l <= L; l++) {
        layer(device[(l - 1) % buffers], device[l % buffers]);
        await(&copy);                                                /* x_{l-1} is in host memory */
        start(&copy, device[l % buffers], host[l]);
    }
    await(&copy);
    memcpy(dx, host[L], sizeof(array));
    start(&copy, host[L], device[L % BUFFERS]);
    for (int l = L; l > 0; l--) {
        await(&copy);                                                /* x_l is on the device again */
        if (l > 1) start(&copy, host[l - 1], device[(l - 1) % BUFFERS]);
        layer_backward(device[l % BUFFERS], dx);
    }
}

static int differences(const double *a, const double *b) {
    int n = 0;
    for (int i = 0; i < N; i++) n += !(a[i] == b[i]);
    return n;
}

static enum status park(void) {
    array x0, all, some, early;
    for (int i = 0; i < N; i++) x0[i] = rng_normal(1, rng_stream("x"), (uint64_t)i);
    kept(x0, all);
    parked(x0, BUFFERS, some);
    parked(x0, BUFFERS - 1, early);
    int wrong = differences(all, some), mixed_up = differences(all, early), bytes = (int)sizeof(array);
    printf("x_l = tanh(x_{l-1}) for l = 1 .. %d, %d numbers each\n", L, N);
    printf("  kept     %4d bytes on the device\n", (L + 1) * bytes);
    printf("  parked   %4d bytes on the device, %d in host memory, %d copied: %d of %d gradients differ\n",
           BUFFERS * bytes, L * bytes, 2 * L * bytes, wrong, N);
    printf("  too early: a buffer is written while it is copied: %d of %d gradients differ\n", mixed_up, N);
    if (wrong) return FAIL(E_INTERNAL, "%d of %d gradients differ when activations are parked; none may", wrong, N);
    return mixed_up ? OK : FAIL(E_INTERNAL, "writing a buffer too early makes no difference; nothing was parked");
}

int main(int argc, char **argv) {
    enum status status = comm_start(&argc, &argv);
    if (status == OK) status = fail_agree(group_world(), park());
    else status_report();
    if (status == OK) printf("parked, equal to the bit\n");
    comm_finish(true, status_exit_code(status));
    return status_exit_code(status);
}
