/* ranks: 1
 *
 * A step's time from its three parts, each small enough to check by hand:
 *
 *   a row          max(flops / (peak x efficiency), bytes / bandwidth) + launch                  lib/cost/op_time.h
 *   a collective   bytes / bandwidth and steps x latency, level by level                         lib/cost/wire_time.h
 *   a pipeline     times of each stage's actions, and m max + (sum - max) over stages         lib/cost/timeline.h
 *
 * The numbers are those of a DGX H100; configs/clusters/dgx-h100.ini has the source of each. */
#include "lib/cost/op_time.h"
#include "lib/cost/wire_time.h"
#include "lib/ops/cost.h"
#include "lib/cost/timeline.h"
#include "pp/pp_schedule.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>

/* y (T x K) = x (T x C) W (C x K) in bf16, on one of tp ranks. */
static void product(const struct cluster *c, int64_t T, int64_t C, int64_t K, int64_t tp) {
    struct cost cost = {.bytes = 2.0 * (double)(T * C + C * K / tp + T * K / tp)};
    cost_product(&cost, T, K / tp, C, 1);
    struct seconds s = op_seconds(c, "linear", BF16, &cost, ROW_FORWARD);
    printf("  tp=%d  %5.1f %% of the peak: %.2f ms of arithmetic, %.2f ms of memory, %.2f ms in all; x %d: %.2f ms\n",
           (int)tp, 100 * product_efficiency(c, &cost.product[0]), 1e3 * s.compute, 1e3 * s.memory, 1e3 * s.total,
           (int)tp, 1e3 * s.total * (double)tp);
}

static void collective(const struct cluster *c, const char *what, enum comm_op op, double bytes, int64_t n,
                       int64_t stride) {
    double seconds = wire_seconds(c, op, bytes, n, stride, 1);
    printf("  %-47s level %d %8.3f ms\n", what, wire_level(c, n, stride), 1e3 * seconds);
}

/* Seconds of each stage per microbatch; a third of them is forward. */
struct stages { double seconds[4]; };
static double time_of(const void *self, int stage, const struct action *a) {
    const struct stages *s = self;
    return action_is_compute(a->kind) ? s->seconds[stage] * (a->kind == ACTION_F ? 1 : 2) / 3 : 0;
}

static enum status pipeline(struct stages s, int m) {
    enum { P = 4 };
    struct schedule stage[P] = {{0}};
    struct timeline line = {0};
    const struct pp_shape shape = pp_shape_of(&pp_1f1b, P, 1, m);
    double sum = 0, max = 0;
    for (int i = 0; i < P; i++) sum += s.seconds[i], max = fmax(max, s.seconds[i]);
    pp_schedules_make(&pp_1f1b, &shape, stage);
    enum status status = timeline_make(stage, P, INT_MAX, time_of, &s, &line);
    double closed = m * max + sum - max;
    printf("  stages of %g %g %g %g, %2d microbatches: %5.1f; m max + (sum - max) = %5.1f%s\n", s.seconds[0],
           s.seconds[1], s.seconds[2], s.seconds[3], m, line.makespan, closed,
           fabs(closed - line.makespan) < 1e-9 ? "" : ", too much");
    timeline_fini(&line);
    for (int i = 0; i < P; i++) schedule_fini(&stage[i]);
    return status;
}

static enum status example(void) {
    struct cluster c;
    TRY(cluster_read("dgx-h100", &c));
    printf("a product of llama3-8b's MLP: 8192 tokens, 4096 to 14336 channels\n");
    for (int64_t tp = 1; tp <= 8; tp *= 8) product(&c, 8192, 4096, 14336, tp);
    printf("collectives of 16.1 GB, the gradients of llama3-8b in bf16\n");
    collective(&c, "all-reduce, 8 neighbors", COMM_ALL_REDUCE, 16.1e9, 8, 1);
    collective(&c, "all-reduce, 8 ranks that are 8 apart", COMM_ALL_REDUCE, 16.1e9, 8, 8);
    collective(&c, "all-reduce, 64 neighbors", COMM_ALL_REDUCE, 16.1e9, 64, 1);
    collective(&c, "reduce-scatter, 64 neighbors", COMM_REDUCE_SCATTER, 16.1e9, 64, 1);
    printf("1F1B, in any unit of time\n");
    TRY(pipeline((struct stages){{3, 3, 3, 3}}, 8));
    TRY(pipeline((struct stages){{3, 3, 3, 6}}, 8));
    TRY(pipeline((struct stages){{6, 3, 3, 3}}, 8));
    return pipeline((struct stages){{6, 3, 3, 3}}, 64);
}

int main(void) {
    enum status status = example();
    status_report();
    return status_exit_code(status);
}
