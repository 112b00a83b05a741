/* build/bench-disk: do updates of states in a file run at the disk's speed?
 *
 *   build/bench-disk --offload optimizer --offload-to disk --offload-path DIR [train's options]
 *                    e.g. --zero 1 --layers 12 --hidden 768 --heads 12 --precision bf16 --offload-io threads
 *
 * First it measures the disk alone: files as large as an update reads, in the same folder, in transfers of 1 MiB around
 * the page cache: one after the other (pread, pwrite), and eight in flight with the run's engine; writing, reading, and
 * both at once, as an update does. Then it measures updates of a run of one rank, with zero gradients: a step without
 * forward and backward. The ratio is the update's bytes per second, both ways, to the best of the disk alone doing
 * both; it is 1 if AdamW is hidden behind the transfers. A write cache makes the first numbers too good: use larger
 * files, and more passes (--rounds N, as the first option; default 3). Medians are printed. */
#define _GNU_SOURCE /* O_DIRECT */
#include "driver/recipe.h"
#include "driver/setup.h"
#include "lib/base/clock.h"
#include "lib/device/disk_private.h"
#include "lib/run/run.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TRANSFER = 1 << 20, IN_FLIGHT = 8, MOST_ROUNDS = 99 };
enum direction { WRITES, READS, BOTH, N_DIRECTIONS };
static const char *const direction_names[] = {"write", "read", "both ways"};

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, by_size);
    return n % 2 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2;
}

/* ---- the disk alone ---- */
/* Does transfer i write? In BOTH every other transfer reads, and each direction has half of the file. */
static bool writes(enum direction d, int64_t i) { return d == WRITES || (d == BOTH && i % 2); }

static enum status pass_in_turn(const struct disk *disk, enum direction d, char *memory) {
    for (int64_t i = 0, n = disk->bytes / TRANSFER; i < n; i++) {
        int64_t at = (d == BOTH ? i / 2 + i % 2 * (n / 2) : i) * TRANSFER;
        ssize_t moved = writes(d, i) ? pwrite(disk->fd, memory, TRANSFER, at) : pread(disk->fd, memory, TRANSFER, at);
        if (moved != TRANSFER) return FAIL(E_IO, "a transfer of the disk alone moved %zd bytes", moved);
    }
    return OK;
}

static enum status pass_in_flight(struct disk *disk, enum direction d, char *memory) {
    struct disk_io io[IN_FLIGHT] = {{.write = false}};
    for (int64_t i = 0, n = disk->bytes / TRANSFER; i < n; i++) {
        struct disk_io *x = &io[i % IN_FLIGHT];
        int64_t at = (d == BOTH ? i / 2 + i % 2 * (n / 2) : i) * TRANSFER;
        TRY(disk_wait(disk, x));
        *x = (struct disk_io){.write = writes(d, i), .memory = memory + i % IN_FLIGHT * TRANSFER,
                              .place = disk->base + at, .bytes = TRANSFER};
        TRY(disk_start(disk, x));
    }
    for (int i = 0; i < IN_FLIGHT; i++) TRY(disk_wait(disk, &io[i]));
    return OK;
}

/* MB per second of the faster way; medians. */
static enum status measure_alone(struct disk *disk, enum direction d, int rounds, double *best) {
    double rates[2][MOST_ROUNDS];
    char *memory;
    TRY(device_cpu()->allocate(device_cpu(), IN_FLIGHT * TRANSFER, (void **)&memory));
    memset(memory, 1, IN_FLIGHT * TRANSFER);
    for (int i = 0; i < rounds; i++)
        for (int way = 0; way < 2; way++) {
            double start = clock_s();
            TRY(way ? pass_in_flight(disk, d, memory) : pass_in_turn(disk, d, memory));
            rates[way][i] = (double)(disk->bytes / TRANSFER * TRANSFER) / (clock_s() - start) / 1e6;
        }
    double turn = median(rates[0], rounds), flight = median(rates[1], rounds);
    printf("  %-10s %9.0f MB/s in turn %9.0f MB/s with %d in flight\n", direction_names[d], turn, flight, IN_FLIGHT);
    *best = turn > flight ? turn : flight;
    device_cpu()->release(device_cpu(), memory, IN_FLIGHT * TRANSFER);
    return OK;
}

static enum status measure_disk(const struct run *r, int rounds, double best[N_DIRECTIONS]) {
    const struct offload_options *o = offload_options(&r->plan);
    struct disk *disk;
    int64_t bytes = round_up(r->bill.disk_read_bytes + r->bill.disk_written_bytes, 2 * TRANSFER);
    TRY(disk_open(o->path, bytes, (enum disk_engine_choice)o->io, &disk_system_calls, &disk));
    printf("the disk alone, %.0f MiB by %s%s:\n", (double)bytes / (1 << 20), disk_engine_name(disk),
           disk_is_direct(disk) ? "" : ", THROUGH THE PAGE CACHE");
    enum status status = OK;
    for (enum direction d = 0; d < N_DIRECTIONS && status == OK; d++)
        status = measure_alone(disk, d, rounds, &best[d]);
    disk_close(&disk);
    return status;
}

/* ---- the update ---- */
static enum status measure_update(struct run *r, int rounds, double *rate) {
    struct step_record *s = &r->record[0];
    const struct arena *grad = &r->arenas[r->program.params[0].grad_tier][ROLE_GRAD];
    const double one = 1;
    double seconds[MOST_ROUNDS], waits[MOST_ROUNDS];
    TRY(grad->device->clear(grad->device, grad->base, grad->bytes));
    TRY(r->device->upload(r->device, &s->on_device[SCALAR_MULTIPLIER], &one, sizeof one));
    s->result.lr = 1e-4;
    for (int i = -1; i < rounds; i++) {
        double start = clock_s(), waited = disk_traffic(r->disk).wait_s;
        TRY(optim_step(r, s));
        s->n_update++;
        if (i >= 0) seconds[i] = clock_s() - start, waits[i] = disk_traffic(r->disk).wait_s - waited;
    }
    double update_s = median(seconds, rounds);
    *rate = (double)(r->bill.disk_read_bytes + r->bill.disk_written_bytes) / update_s / 1e6;
    printf("an update: reads %" PRId64 " and writes %" PRId64 " bytes in %d blocks, %.1f ms, waiting %.1f ms: "
           "%.0f MB/s both ways\n", r->bill.disk_read_bytes, r->bill.disk_written_bytes, r->blocks.n_blocks,
           1e3 * update_s, 1e3 * median(waits, rounds), *rate);
    return OK;
}

static enum status measure(struct run *r, int rounds) {
    double best[N_DIRECTIONS], rate = 0;
    TRY(measure_disk(r, rounds, best));
    TRY(measure_update(r, rounds, &rate));
    printf("ratio: %.2f of the disk alone both ways, %.2f of its writes\n", rate / best[BOTH], rate / best[WRITES]);
    return OK;
}

static enum status run(int argc, char **argv, int rounds) {
    static struct setup setup;
    struct run r = {0};
    enum status status = setup_init(&setup, argc, argv, 1);
    if (status == OK && !offload_options(&setup.plan)->path[0])
        status = FAIL(E_USAGE, "nothing to measure; give --offload optimizer --offload-to disk --offload-path DIR");
    TRY_DONE(status);
    setup_threads(&setup.plan, 1);
    TRY_DONE(run_create(&r, &train_recipe, &setup.plan, WATCH_NOTHING));
    status = r.disk ? measure(&r, rounds) : FAIL(E_USAGE, "nothing is on a disk; give --offload-to disk");
done:
    run_destroy(&r);
    setup_fini(&setup);
    return status;
}

int main(int argc, char **argv) {
    int rounds = 3;
    enum status status = comm_start(&argc, &argv);
    if (argc > 2 && !strcmp(argv[1], "--rounds")) {
        rounds = atoi(argv[2]);
        argc -= 2;
        argv += 2;
    }
    if (status == OK && (rounds < 1 || rounds > MOST_ROUNDS))
        status = FAIL(E_USAGE, "rounds=%d; from 1 to %d", rounds, MOST_ROUNDS);
    if (status == OK) status = run(argc - 1, argv + 1, rounds);
    status_report();
    comm_finish(status == OK, status_exit_code(status));
    return status_exit_code(status);
}
