/* Which of the algorithms that cuBLASLt offers for a product is the fastest, by events on the compute stream.
 *
 * Each algorithm runs once without timing, because its code must first be loaded to the GPU, and then RUNS times.
 * The shortest time counts, because it was disturbed least. The operands are the memory's present contents: before
 * the first step often zeros, which take less power than other numbers. That is the same for all candidates of a
 * product. */
#include "lib/device/device.h"
#include "lib/ops/gemm/gemm_choices.h"

#include <string.h>

enum { RUNS = 3 };
static const double worth_it = 0.99;   /* a candidate is taken if its time is below 0.99 of the first one's */

/* Seconds of one run of candidate i. Waits for it. */
static enum status time_once(const struct gemm_candidates *c, int i, struct device_mark mark[2], double *out) {
    const struct device *d = c->device;
    TRY(d->mark_timed(d, NULL, &mark[0]));
    TRY(c->run(c->self, i));
    TRY(d->mark_timed(d, NULL, &mark[1]));
    TRY(d->finish(d));
    return d->mark_seconds(d, &mark[0], &mark[1], out);
}

static enum status shortest(const struct gemm_candidates *c, int i, struct device_mark mark[2], double *out) {
    double s;
    TRY(time_once(c, i, mark, out));
    for (int k = 0; k < RUNS; k++) {
        TRY(time_once(c, i, mark, &s));
        if (k == 0 || s < *out) *out = s;
    }
    return OK;
}

static enum status time_all(const struct gemm_candidates *c, struct device_mark mark[2], struct gemm_choice *choice) {
    TRY(shortest(c, 0, mark, &choice->first_s));
    choice->seconds = choice->first_s;
    memcpy(choice->algorithm, c->algorithm[0], GEMM_ALGORITHM_BYTES);
    for (int i = 1; i < c->n; i++) {
        double s;
        if (shortest(c, i, mark, &s) != OK) {
            status_clear();
            continue;
        }
        if (s >= choice->seconds || s >= worth_it * choice->first_s) continue;
        choice->seconds = s;
        memcpy(choice->algorithm, c->algorithm[i], GEMM_ALGORITHM_BYTES);
    }
    return OK;
}

enum status gemm_cuda_time(const struct gemm_candidates *c) {
    struct device_mark mark[2] = {{NULL}, {NULL}};
    struct gemm_choice choice = {.used = true};
    strncpy(choice.product, c->product, sizeof choice.product - 1);
    enum status status = time_all(c, mark, &choice);
    for (int i = 0; i < 2; i++) c->device->mark_fini(c->device, &mark[i]);
    if (status == OK) gemm_choice_add(&choice);
    return status;
}
