/* ranks: 4
 *
 * All-reduce from sends and receives, by three algorithms: their messages, and their times compared with the alpha-beta
 * model.
 *
 *     mpirun --oversubscribe -n 4 build/example_all_reduce          print the messages
 *     mpirun --oversubscribe -n 4 build/example_all_reduce time     fit alpha and beta, then compare predicted and
 *                                                                   measured times
 *     mpirun --oversubscribe -n 4 build/example_all_reduce send-first 100000      every rank waits for its send of
 *                                                                   100000 bytes before it receives
 *
 * The algorithms are the reference of this lesson's first exercise (all_reduce/reference.c), the model is that of the
 * second exercise. */
#include "lessons/02-collectives/all_reduce/all_reduce.h"
#include "lessons/02-collectives/cost/cost.h"
#include "lib/base/clock.h"
#include "lib/comm/comm_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct { const char *name; enum status (*run)(const struct group *, float *, int64_t,
                                                           float *); } ways[] = {
    [RING] = {"ring", all_reduce_ring},
    [TREE] = {"tree", all_reduce_tree},
    [HALVING_DOUBLING] = {"halving-doubling", all_reduce_halving_doubling},
};
enum { COUNT = 1000, MOST = 4 << 20, SIZES = 3, REPEATS = 5 };

/* ---- messages ---- */

/* Small whole numbers: their sum is exact in any order. */
static enum status check(const float *x, const char *name) {
    int n = comm_world_size();
    for (int i = 0; i < COUNT; i++) {
        float sum = (float)(n * (i % 7) + n * (n - 1) / 2);
        if (x[i] != sum) return FAIL(E_INTERNAL, "%s: x[%d] is %g and not %g", name, i, (double)x[i], (double)sum);
    }
    return OK;
}

/* Gather the ranks' ledgers; rank 0 prints them. */
static enum status show_sent(const struct group *world, const char *name) {
    double mine[2] = {(double)group_ledger(world)->entry[COMM_SEND].calls, group_ledger(world)->entry[COMM_SEND].bytes},
    all[2 * 64];
    TRY(comm_all_gather(world, mine, all, 2, FP64));
    double messages = 0, bytes = 0;
    if (comm_is_rank_0()) printf("%-18s", name);
    for (int r = 0; r < group_size(world); r++) {
        if (comm_is_rank_0()) printf(" %3.0f x %6.0f", all[2 * r], all[2 * r + 1] / (all[2 * r] > 0 ? all[2 * r] : 1));
        messages += all[2 * r], bytes += all[2 * r + 1];
    }
    if (comm_is_rank_0()) printf("   %3.0f, %6.0f bytes\n", messages, bytes);
    return OK;
}

static enum status what_is_sent(const struct group *world) {
    static float x[COUNT], scratch[COUNT];
    if (comm_is_rank_0())
        printf("%d floats, S = %d bytes, over %d ranks: messages x bytes of rank 0, 1, ...; of all\n", COUNT, 4 * COUNT,
               group_size(world));
    for (int a = 0; a < N_ALL_REDUCE_ALGORITHMS; a++) {
        for (int i = 0; i < COUNT; i++) x[i] = (float)(i % 7 + comm_world_rank());
        group_ledger_reset((struct group *)world);
        TRY(ways[a].run(world, x, COUNT, scratch));
        TRY(show_sent(world, ways[a].name));
        TRY(check(x, ways[a].name));
    }
    if (comm_is_rank_0()) printf("all sums are right, on every rank\n");
    return OK;
}

/* ---- times ---- */

/* One step of a ring: every rank sends to the right and receives from the left. */
static enum status step(const struct group *g, float *x, int64_t count, float *scratch) {
    int n = group_size(g), r = group_rank(g);
    struct comm_request in, out;
    TRY(comm_recv_start(g, scratch, count, FP32, (r + n - 1) % n, 0, &in));
    TRY(comm_send_start(g, x, count, FP32, (r + 1) % n, 0, &out));
    TRY(comm_wait(&in));
    return comm_wait(&out);
}

/* The least of REPEATS times. Each is the mean of several calls, which take some milliseconds, on the slowest rank. */
static enum status seconds_of(enum status (*run)(const struct group *, float *, int64_t, float *),
                              const struct group *g, float *x, int64_t count, float *scratch, double *least) {
    int calls = count > 1 << 18 ? 1 : count > 1 << 12 ? 20 : 100;
    *least = 1e9;
    for (int k = 0; k <= REPEATS; k++) {                             /* the first is a warm-up */
        TRY(comm_barrier(g));
        double from_s = clock_s();
        for (int i = 0; i < calls; i++) TRY(run(g, x, count, scratch));
        double took_s = (clock_s() - from_s) / calls;
        TRY(comm_all_reduce(g, &took_s, 1, FP64, COMM_MAX));
        if (k > 0 && took_s < *least) *least = took_s;
    }
    return OK;
}

/* Add without messages. */
static enum status add(const struct group *g, float *x, int64_t count, float *scratch) {
    (void)g;
    for (int64_t i = 0; i < count; i++) x[i] += scratch[i];
    return OK;
}

static enum status fit(const struct group *g, float *x, float *scratch, struct link_cost *link) {
    double bytes[6], seconds[6], add_s;
    for (int i = 0; i < 6; i++) {
        int64_t count = (int64_t)64 << (3 * i);                      /* 256 bytes to 8 MiB */
        bytes[i] = 4.0 * (double)count;
        TRY(seconds_of(step, g, x, count, scratch, &seconds[i]));
    }
    TRY(seconds_of(add, g, x, MOST, scratch, &add_s));
    link->gamma_s = add_s / (4.0 * MOST);
    TRY(cost_fit(bytes, seconds, 6, link));
    for (int i = 0; i < 6 && comm_is_rank_0(); i++)
        printf("%-18s %10.0f %14.1f %14.1f\n", "a step of the ring", bytes[i],
               1e6 * (link->alpha_s + bytes[i] * link->beta_s), 1e6 * seconds[i]);
    return OK;
}

static enum status how_long(const struct group *world) {
    float *x = malloc(MOST * sizeof *x), *scratch = malloc(MOST * sizeof *scratch);
    struct link_cost link;
    enum status status = x && scratch ? OK : FAIL(E_MEMORY, "no memory for %d floats", 2 * MOST);
    TRY_DONE(fail_agree(world, status));
    /* write every page, because unwritten pages all map to one page of zeros */
    for (int i = 0; i < MOST; i++) x[i] = scratch[i] = (float)(i % 7);
    if (comm_is_rank_0()) printf("%-18s %10s %14s %14s %10s\n", "", "bytes", "predicted us", "measured us", "bus GB/s");
    TRY_DONE(fit(world, x, scratch, &link));
    if (comm_is_rank_0())
        printf("%d ranks at once: alpha %.1f us, beta %.3f ns a byte (%.2f GB/s), gamma %.3f ns a byte\n",
               group_size(world), 1e6 * link.alpha_s, 1e9 * link.beta_s, 1e-9 / link.beta_s, 1e9 * link.gamma_s);
    for (int s = 0; s < SIZES; s++) {
        int64_t count = (int64_t)256 << (7 * s);                     /* 1 KiB, 128 KiB, 16 MiB */
        for (int a = 0; a < N_ALL_REDUCE_ALGORITHMS; a++) {
            double predicted, measured, bus;
            TRY_DONE(cost_all_reduce(a, group_size(world), 4.0 * (double)count, &link, &predicted));
            TRY_DONE(seconds_of(ways[a].run, world, x, count, scratch, &measured));
            TRY_DONE(cost_bus_bandwidth(group_size(world), 4.0 * (double)count, measured, &bus));
            if (comm_is_rank_0())
                printf("%-18s %10lld %14.1f %14.1f %10.2f\n", ways[a].name, (long long)(4 * count), 1e6 * predicted,
                       1e6 * measured, 1e-9 * bus);
        }
    }
done:
    free(x);
    free(scratch);
    return status;
}

/* ---- a mistake ---- */

/* Send before the receive is started: small messages leave at once, but a large send waits for its receive. */
static enum status send_first(const struct group *g, int64_t bytes) {
    int n = group_size(g), r = group_rank(g);
    static uint8_t out[1 << 24], in[1 << 24];
    struct comm_request send, receive;
    comm_configure(&(struct comm_settings){.timeout_s = 3});
    if (bytes < 0 || bytes > (int64_t)sizeof out)
        return FAIL(E_USAGE, "send-first takes 0 to %lld bytes", (long long)sizeof out);
    TRY(comm_send_start(g, out, bytes, UINT8, (r + 1) % n, 0, &send));
    TRY(comm_wait(&send));                                            /* no receive has been started yet */
    TRY(comm_recv_start(g, in, bytes, UINT8, (r + n - 1) % n, 0, &receive));
    TRY(comm_wait(&receive));
    if (comm_is_rank_0()) printf("%lld bytes went round\n", (long long)bytes);
    return OK;
}

static enum status example(int argc, char **argv) {
    if (argc == 1) return what_is_sent(group_world());
    if (argc == 2 && strcmp(argv[1], "time") == 0) return how_long(group_world());
    if (argc == 3 && strcmp(argv[1], "send-first") == 0) return send_first(group_world(), strtoll(argv[2], NULL, 10));
    return FAIL(E_USAGE, "use %s, %s time or %s send-first BYTES", argv[0], argv[0], argv[0]);
}

int main(int argc, char **argv) {
    enum status status = comm_start(&argc, &argv);
    if (status == OK) comm_configure(&(struct comm_settings){.timeout_s = 60});
    if (status == OK) status = fail_agree(group_world(), example(argc, argv));
    else status_report();
    comm_finish(status == OK, status_exit_code(status));
    return status_exit_code(status);
}
