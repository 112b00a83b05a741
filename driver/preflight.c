#include "driver/preflight.h"

#include "driver/command.h"
#include "driver/recipe.h"
#include "driver/setup.h"
#include "driver/train/train_options.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/comm/comm.h"
#include "lib/checkpoint/checkpoint_ready.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const char HELP[] = "trivium launch -n N [--host LIST] preflight [--save DIR] [--device D] [--comm C] "
                           "[--threads T] [options of train, which are ignored]\n\n"
                           "Before a long job: ranks of each host, cores and threads, devices, library versions, the "
                           "bus bandwidth of a 16 MiB all-reduce, and how fast\n"
                           "DIR can be written. Each finding is one line. Exit code: 0; 1 a folder or "
                           "the network fails; 2 ranks of different programs\nor libraries, bad request.\n";

enum { MOST_HOSTS = 8, REPEATS = 5 };
static const int64_t all_reduce_bytes = 16 << 20, write_bytes = 16 << 20, probe_bytes = 4096;
#define MIB (1024.0 * 1024.0)

/* ---- hosts of the ranks ---- */

enum status preflight_program(uint64_t *hash) {
    char buffer[1 << 16];
    XXH3_state_t *state = XXH3_createState();
    FILE *f = state ? fopen("/proc/self/exe", "rb") : NULL;
    if (f) XXH3_64bits_reset(state);
    for (size_t n = 1; f && n > 0;) {
        n = fread(buffer, 1, sizeof buffer, f);
        XXH3_64bits_update(state, buffer, n);
    }
    bool ok = f && !ferror(f);
    if (ok) *hash = XXH3_64bits_digest(state);
    if (f) fclose(f);
    XXH3_freeState(state);
    return ok ? OK : FAIL(E_IO, "cannot read /proc/self/exe: %s", strerror(errno));
}

static void describe(struct preflight_rank *rank, const struct device *device, int threads) {
    *rank = (struct preflight_rank){.threads = threads, .allowed_cores = setup_allowed_cores(),
                                    .cores = (int)fmax(1, comm_local_cores())};
    comm_host_name(rank->host, sizeof rank->host);
    snprintf(rank->device, sizeof rank->device, "%s", device->name);
    snprintf(rank->library, sizeof rank->library, "%s", comm_library());
}

/* *all is owned, `free` it. @collective{world} */
static enum status gather(const struct preflight_rank *mine, struct preflight_rank **all) {
    *all = calloc((size_t)comm_world_size(), sizeof **all);
    TRY(fail_agree(group_world(), *all ? OK : FAIL(E_MEMORY, "no memory for what %d ranks say", comm_world_size())));
    return comm_all_gather(group_world(), mine, *all, sizeof *mine, UINT8);
}

/* ---- train ---- */

double preflight_checkpoint_bytes(const struct plan *p) {
    return 3.0 * (double)dtype_size(plan_dtype(p)) * (double)p->arch->n_params(p);
}

static void say_ready(const struct plan *p, const struct preflight_rank *all, const struct checkpoint_ready *ready,
                      bool tight) {
    char hosts[600];
    int n_hosts, n = comm_world_size();
    double bytes = preflight_checkpoint_bytes(p);
    if (tight)
        log_warn("%s has room for %.1f MiB, and a checkpoint takes %.1f MiB: there is room for one only, and the next "
                 "is written before it is removed", p->save, ready->free_bytes / MIB, bytes / MIB);
    if (log_get_level() < LOG_INFO) return;
    preflight_hosts(all, n, MOST_HOSTS, hosts, sizeof hosts, &n_hosts);
    printf("preflight: %d rank%s on %s; %s; %s has room for %.1f MiB, a checkpoint takes %.1f MiB\n", n,
           n == 1 ? "" : "s", hosts, all[0].device, p->save, ready->free_bytes / MIB, bytes / MIB);
    fflush(stdout);
}

static enum status look_at_save(const struct plan *p, fail_agreement *agree, struct checkpoint_ready *ready,
                                bool *tight) {
    TRY(checkpoint_ready(p->save, probe_bytes, agree, ready));
    return agree(group_world(), checkpoint_room(p->save, ready->free_bytes, preflight_checkpoint_bytes(p), tight));
}

/* In a later epoch a failure only warns: the job would lose steps, and a full disk may have room at the next save. */
enum status preflight_train(const struct plan *p, const struct device *device) {
    struct preflight_rank mine, *all;
    struct checkpoint_ready ready;
    const bool goes_on = comm_epoch() > 0;
    bool tight;
    if (!p->save[0]) return OK;
    enum status status = look_at_save(p, goes_on ? fail_warn : fail_agree, &ready, &tight);
    if (goes_on && (status == E_IO || status == E_MEMORY)) return OK;
    TRY(status);
    describe(&mine, device, (int)p->threads);
    status = gather(&mine, &all);
    if (status == OK && comm_is_rank_0()) say_ready(p, all, &ready, tight);
    free(all);
    return status;
}

/* ---- the command ---- */

/* Choose device and transport as lib/run/run_open.c does. */
static enum status open_device(const struct plan *p, const struct device **out) {
    *out = device_cpu();
    if (p->device != PLAN_DEVICE_CUDA) return OK;
    int n = device_cuda_count();
    TRY(fail_agree(group_world(), device_cuda(n > 0 ? comm_local_rank() % n : 0, out)));
    enum comm_transport transport;
    TRY(plan_transport(p, *out, &transport));
    return comm_use_device(*out, transport);
}

/* On a GPU the all-reduce ends when the device has finished; on the host, when the call returns. */
static enum status sum_once(const struct device *d, void *x) {
    TRY(comm_all_reduce(group_world(), x, all_reduce_bytes / 4, FP32, COMM_SUM));
    return d->finish(d);
}

static enum status time_sums(const struct device *d, void *x, double *seconds) {
    TRY(d->clear(d, x, all_reduce_bytes));
    TRY(sum_once(d, x));                                             /* the first all-reduce opens connections */
    TRY(comm_barrier(group_world()));
    double start = clock_s();
    for (int i = 0; i < REPEATS; i++) TRY(sum_once(d, x));
    *seconds = (clock_s() - start) / REPEATS;
    return OK;
}

static enum status measure_network(const struct device *d, double *seconds) {
    void *x = NULL;
    TRY(fail_agree(group_world(), d->allocate(d, all_reduce_bytes, &x)));
    enum status status = time_sums(d, x, seconds);
    if (status != E_TIMEOUT) d->release(d, x, all_reduce_bytes);     /* after a timeout MPI may still write to x */
    return status;
}

static void print_ranks(const struct preflight_rank *all, int n) {
    char hosts[600];
    int n_hosts;
    preflight_hosts(all, n, MOST_HOSTS, hosts, sizeof hosts, &n_hosts);
    printf("ranks       %d on %s\n", n, hosts);
    printf("cores       %d threads per rank; rank 0 may use %d of the %d cores of %s\n", all[0].threads,
           all[0].allowed_cores, all[0].cores, all[0].host);
    printf("device      %s\n", all[0].device);
    printf("libraries   %s; trivium %016" PRIx64 "\n", all[0].library, all[0].program);
}

static void print_network(int n, double seconds) {
    double moved = comm_algorithm_bytes(COMM_ALL_REDUCE, n, (double)all_reduce_bytes);
    printf("all-reduce  %.0f MiB in %.2f ms: bus bandwidth %.2f GB/s (2 S (n-1)/n / t)\n",
           (double)all_reduce_bytes / MIB, 1e3 * seconds, moved / seconds / 1e9);
    fflush(stdout);
}

static enum status look_at_folder(const struct plan *p) {
    struct checkpoint_ready ready;
    if (!p->save[0]) return OK;
    TRY(checkpoint_ready(p->save, write_bytes, fail_agree, &ready));
    double bytes = (double)write_bytes * comm_world_size();
    if (comm_is_rank_0())
        printf("save        %s: %.0f MiB by all ranks, flushed, in %.0f ms: %.0f MB/s; room for %.0f MiB\n", p->save,
               bytes / MIB, 1e3 * ready.probe_s, bytes / ready.probe_s / 1e6, ready.free_bytes / MIB);
    return OK;
}

static enum status conclude(const struct preflight_rank *all, int n) {
    bool differ = false;
    int found = comm_is_rank_0() ? preflight_findings(all, n, stdout, &differ) : 0;
    if (comm_is_rank_0() && found == 0) puts("nothing looks wrong");
    fflush(stdout);
    return fail_agree(group_world(),
                      differ ? FAIL(E_CONFIG, "the ranks run different programs or libraries; see the lines above")
                             : OK);
}

static enum status look(const struct plan *p, struct preflight_rank **all) {
    const struct device *device;
    struct preflight_rank mine;
    bool shared;
    double seconds = 0;
    int n = comm_world_size();
    TRY(open_device(p, &device));
    describe(&mine, device, setup_threads(p, comm_local_size()));
    TRY(fail_agree(group_world(), preflight_program(&mine.program)));
    TRY(comm_device_shared(device, &shared));
    mine.gpu_shared = shared;
    TRY(gather(&mine, all));
    if (comm_is_rank_0()) print_ranks(*all, n);
    TRY(measure_network(device, &seconds));
    if (comm_is_rank_0() && n > 1) print_network(n, seconds);
    TRY(look_at_folder(p));
    return conclude(*all, n);
}

static enum status read_options(int argc, char **argv, struct options **o, struct plan *p) {
    TRY(recipe_options_create(NULL, p, o));
    TRY(options_parse(*o, argc, argv));
    log_set_level((enum log_level)train_options(p)->log);
    return plan_settle_device(p);
}

static enum status preflight(int argc, char **argv) {
    struct plan plan;
    struct options *options = NULL;
    struct preflight_rank *all = NULL;
    enum status status = fail_agree(group_world(), read_options(argc, argv, &options, &plan));
    if (status == OK) {
        status = plan_use_comm(&plan, false, straggler_link_slowdown(&plan));
        if (status == OK) status = look(&plan, &all);
    }
    free(all);
    options_destroy(&options);
    return status;
}

int preflight_main(int argc, char **argv) {
    if (!options_ask_for_help(argc, argv)) return command_main_of_ranks(preflight, E_DEVICE, argc, argv);
    fputs(HELP, stdout);
    return 0;
}
