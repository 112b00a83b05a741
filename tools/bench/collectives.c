/* build/bench-collectives: the time of every collective by size, over whatever carries this job's messages, in files of
 * the format of nccl-tests, which `trivium plan --measured` reads. tools/cluster-check runs it.
 *
 *   mpirun -n 8 build/bench-collectives [--to FOLDER] [--device cpu|cuda] [--smallest BYTES] [--largest BYTES]
 *   TRIVIUM_EXE=build/bench-collectives build/trivium launch -n 8 --comm-transport direct collectives --to FOLDER
 *
 * Of memory of GPUs over NCCL where each rank has its own, else through the host; of host memory over MPI or the own
 * transport. FOLDER gets all_reduce.txt, all_gather.txt, reduce_scatter.txt, alltoall.txt, sendrecv.txt (each rank
 * sends to the next), broadcast.txt and reduce.txt; standard output a line each. Before it is timed, each operation of
 * each size moves small whole numbers, exact in any order; a wrong one ends the job. A sample is enough runs in a row
 * to take some milliseconds, timed on the slowest rank. A time is the least of the samples: other work of the machine
 * only adds. The table's two halves, which nccl-tests has for results out of place and in place, are two such series
 * here. Sizes and bus bandwidth as in nccl-tests (PERFORMANCE.md): bytes of the whole tensor; (S / seconds) times
 * 2 (n-1)/n for all_reduce, 1 for broadcast, reduce and sendrecv, else (n-1)/n. */
#include "lib/base/clock.h"
#include "lib/base/option.h"
#include "lib/comm/comm.h"
#include "lib/comm/comm_request.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct request { int64_t smallest, largest, samples; int cuda; char to[OPTION_TEXT_MAX]; };
#define AT(field) offsetof(struct request, field)
static const struct option OPTIONS[] = {
    {"to", OPTION_TEXT, ".", 0, 0, NULL, "", "the folder of the files", "bench", AT(to)},
    {"device", OPTION_CHOICE, "cpu", 0, 0, "cpu|cuda", "", "whose memory", "bench", AT(cuda)},
    {"smallest", OPTION_INT, "1024", 4, 1 << 30, NULL, "bytes", "the first size; each is four times the one before",
     "bench", AT(smallest)},
    {"largest", OPTION_INT, "16777216", 4, 1 << 30, NULL, "bytes", "no size above", "bench", AT(largest)},
    {"samples", OPTION_INT, "5", 1, 1000, NULL, "", "of which the least is taken", "bench", AT(samples)},
};
static const double SAMPLE_S = 4e-3;

/* x, y: device memory of the largest size; host: as many bytes; count: elements of the whole tensor that is measured */
struct buffers { const struct device *device; void *x, *y; float *host; int64_t count; };

/* ---- the operations: from x; the result is in y, or in x where the operation has one place ---- */
static int ranks(void) { return comm_world_size(); }
static enum status all_reduce(struct buffers *b) {
    return comm_all_reduce(group_world(), b->x, b->count, FP32, COMM_SUM);
}
static enum status all_gather(struct buffers *b) {
    return comm_all_gather(group_world(), b->x, b->y, b->count / ranks(), FP32);
}
static enum status reduce_scatter(struct buffers *b) {
    struct comm_request request;
    TRY(comm_reduce_scatter_start(group_world(), b->x, b->y, b->count / ranks(), FP32, &request));
    return comm_wait(&request);
}
static enum status all_to_all(struct buffers *b) {
    return comm_all_to_all(group_world(), b->x, b->y, b->count / ranks(), FP32);
}
static enum status send_recv(struct buffers *b) {
    const int n = ranks(), rank = comm_world_rank();
    struct comm_request receiving, sending;
    TRY(comm_recv_start(group_world(), b->y, b->count, FP32, (rank + n - 1) % n, 0, &receiving));
    TRY(comm_send_start(group_world(), b->x, b->count, FP32, (rank + 1) % n, 0, &sending));
    TRY(comm_wait(&receiving));
    return comm_wait(&sending);
}
static enum status broadcast(struct buffers *b) {
    return comm_broadcast(group_world(), b->x, b->count, FP32, 0);
}
static enum status reduce(struct buffers *b) {
    struct comm_request request;
    TRY(comm_reduce_start(group_world(), b->x, b->count, FP32, COMM_SUM, 0, &request));
    return comm_wait(&request);
}

/* In place i rank r begins with r + i mod 7. Of sums it is r mod 251, so that those of all ranks, 256 at most each, are
 * exact in fp32. What it has then in place i, of n ranks and c elements a rank: */
enum { ADDENDS = 251, RANKS_MOST = 65536 };
_Static_assert((ADDENDS - 1 + 6) * RANKS_MOST <= 1 << 24, "fp32 has whole numbers up to 2^24");
static double summed(int rank, int64_t i, int n, int64_t c) {
    const int whole = n / ADDENDS, rest = n % ADDENDS;
    (void)rank, (void)c;
    return whole * (ADDENDS * (ADDENDS - 1) / 2.0) + rest * (rest - 1) / 2.0 + (double)(n * (i % 7));
}
static double gathered(int rank, int64_t i, int n, int64_t c) {
    return (void)rank, (void)n, (double)(i / c + i % c % 7);
}
static double scattered(int rank, int64_t i, int n, int64_t c) { return summed(rank, rank * c + i, n, c); }
static double exchanged(int rank, int64_t i, int n, int64_t c) {
    return (void)n, (double)(i / c + (rank * c + i % c) % 7);
}
static double of_the_last(int rank, int64_t i, int n, int64_t c) {
    return (void)c, (double)((rank + n - 1) % n + i % 7);
}
static double of_rank_0(int rank, int64_t i, int n, int64_t c) { return (void)rank, (void)n, (void)c, (double)(i % 7); }
static double summed_on_0(int rank, int64_t i, int n, int64_t c) {
    return rank == 0 ? summed(rank, i, n, c) : (double)(rank % ADDENDS + i % 7);
}

/* twice: bus bandwidth has a factor of 2, once: of 1, each times (n-1)/n if parted. scatters: the result is a part. */
static const struct collective {
    const char *file;
    enum status (*run)(struct buffers *);
    double (*wanted)(int rank, int64_t i, int n, int64_t c);
    const char *redop;
    int root, factor;
    bool parted, in_y, scatters;
} OPS[] = {
    {"all_reduce", all_reduce, summed, "sum", -1, 2, true, false, false},
    {"all_gather", all_gather, gathered, "none", -1, 1, true, true, false},
    {"reduce_scatter", reduce_scatter, scattered, "sum", -1, 1, true, true, true},
    {"alltoall", all_to_all, exchanged, "none", -1, 1, true, true, false},
    {"sendrecv", send_recv, of_the_last, "none", -1, 1, false, true, false},
    {"broadcast", broadcast, of_rank_0, "none", 0, 1, false, false, false},
    {"reduce", reduce, summed_on_0, "sum", 0, 1, false, false, false},
};
enum { N_OPS = sizeof OPS / sizeof *OPS };

static enum status check(const struct collective *op, struct buffers *b) {
    const struct device *d = b->device;
    const int n = ranks(), rank = comm_world_rank();
    const int64_t bytes = b->count * (int64_t)sizeof(float);
    const int addend = strcmp(op->redop, "sum") == 0 ? rank % ADDENDS : rank;
    for (int64_t i = 0; i < b->count; i++) b->host[i] = (float)(addend + i % 7);
    TRY(d->upload(d, b->x, b->host, bytes));
    TRY(op->run(b));
    TRY(d->finish(d));
    TRY(d->download(d, b->host, op->in_y ? b->y : b->x, bytes));
    for (int64_t i = 0, end = op->scatters ? b->count / n : b->count; i < end; i++) {
        const double wanted = op->wanted(rank, i, n, b->count / n);
        if (b->host[i] != (float)wanted)
            return FAIL(E_INTERNAL, "%s of %" PRId64 " bytes: element %" PRId64 " is %g, not %g; see whether links or "
                        "memory of this host fail", op->file, bytes, i, (double)b->host[i], wanted);
    }
    return OK;
}

static enum status sample(const struct collective *op, struct buffers *b, int runs, double *seconds) {
    TRY(comm_barrier(group_world()));
    double start = clock_s();
    for (int i = 0; i < runs; i++) TRY(op->run(b));
    TRY(b->device->finish(b->device));
    *seconds = (clock_s() - start) / runs;
    return comm_all_reduce(group_world(), seconds, 1, FP64, COMM_MAX);
}

/* Sums stay zero, however often they are taken. */
static enum status measure(const struct collective *op, struct buffers *b, int64_t n_samples, double *least) {
    double once = INFINITY, first;
    TRY(b->device->clear(b->device, b->x, b->count * (int64_t)sizeof(float)));
    for (int i = 0; i < 3; i++, once = fmin(once, first)) TRY(sample(op, b, 1, &first));
    *least = once;
    int runs = (int)fmin(1000, fmax(1, ceil(SAMPLE_S / once)));      /* the same on all ranks, as `once` is */
    for (int64_t i = 0; i < n_samples; i++, *least = fmin(*least, first)) TRY(sample(op, b, runs, &first));
    return OK;
}

/* ---- the files ---- */
struct place { char host[64]; int32_t pid, device; };

static void print_head(FILE *f, const struct collective *op, const struct place *all, const struct device *d) {
    fprintf(f, "# %s of trivium, over %s\n# Collective test starting: %s_perf\n# nThread 1\n", op->file,
            comm_library(), op->file);
    for (int r = 0; r < ranks(); r++)
        fprintf(f, "#  Rank %2d Group  0 Pid %6d on %10s device %2d [0000:00:00] %s\n", r, (int)all[r].pid, all[r].host,
                (int)all[r].device, d->name);
    fprintf(f, "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   "
               "algbw   busbw  #wrong\n#        (B)    (elements)                               (us)  (GB/s)  (GB/s)"
               "             (us)  (GB/s)  (GB/s)\n");
}

static double factor_of(const struct collective *op) { return op->factor * (op->parted ? 1 - 1.0 / ranks() : 1); }

static void print_row(FILE *f, const struct collective *op, int64_t count, const double *seconds) {
    const double bytes = (double)count * sizeof(float), factor = factor_of(op);
    fprintf(f, "%12.0f %13" PRId64 "     float %7s %7d", bytes, count / (op->parted && op->factor == 1 ? ranks() : 1),
            op->redop, op->root);
    for (int i = 0; i < 2; i++)
        fprintf(f, " %10.2f %9.4f %9.4f       0", 1e6 * seconds[i], bytes / seconds[i] / 1e9,
                factor * bytes / seconds[i] / 1e9);
    fputc('\n', f);
}

static void say(const struct collective *op, int64_t count, const double *seconds, bool first) {
    const double bytes = (double)count * sizeof(float), factor = factor_of(op);
    if (first) printf("%-15s %8.1f us of %.0f bytes", op->file, 1e6 * seconds[0], bytes);
    else printf(", %.3g GB/s of %.0f bytes (bus bandwidth)\n", factor * bytes / seconds[0] / 1e9, bytes);
    fflush(stdout);
}

static enum status run_op(const struct collective *op, const struct request *q, struct buffers *b, FILE *f) {
    const int64_t n = ranks();
    double seconds[2] = {0};
    bool first = true;
    for (int64_t bytes = q->smallest; bytes <= q->largest; bytes *= 4) {
        b->count = bytes / (int64_t)sizeof(float) / n * n;
        if (b->count == 0) continue;
        TRY(fail_agree(group_world(), check(op, b)));
        for (int i = 0; i < 2; i++) TRY(measure(op, b, q->samples, &seconds[i]));
        if (f) print_row(f, op, b->count, seconds);
        if (f && first) say(op, b->count, seconds, true);
        first = false;
    }
    if (f) say(op, b->count, seconds, false);
    return OK;
}

static enum status run_ops(const struct request *q, struct buffers *b, const struct place *all) {
    char path[OPTION_TEXT_MAX + 32];
    for (int i = 0; i < N_OPS; i++) {
        FILE *f = NULL;
        snprintf(path, sizeof path, "%s/%s.txt", q->to, OPS[i].file);
        if (comm_is_rank_0()) f = fopen(path, "w");
        TRY(fail_agree(group_world(), f || !comm_is_rank_0() ? OK : FAIL(
            E_IO, "cannot write %s: %s; give --to a folder that is there", path, strerror(errno))));
        if (f) print_head(f, &OPS[i], all, b->device);
        enum status status = run_op(&OPS[i], q, b, f);
        bool lost = f && (ferror(f) | fclose(f)) != 0;
        TRY(fail_agree(group_world(), status));
        TRY(fail_agree(group_world(),
                       lost ? FAIL(E_IO, "%s could not be written; make room there, or give --to another folder", path)
                            : OK));
    }
    return OK;
}

static enum status open_device(const struct request *q, struct place *mine, const struct device **d) {
    bool fits = false;
    comm_host_name(mine->host, sizeof mine->host);
    mine->pid = (int32_t)getpid();
    *d = device_cpu();
    if (!q->cuda) return OK;
    int n = device_cuda_count();
    mine->device = n > 0 ? comm_local_rank() % n : 0;
    TRY(fail_agree(group_world(), device_cuda(mine->device, d)));
    TRY(comm_nccl_fits(*d, &fits));
    TRY(comm_use_device(*d, fits ? COMM_NCCL : COMM_STAGED));
    return group_carry_messages(group_world(), 1);
}

static enum status bench_on(const struct request *q, struct place *all) {
    struct place mine = {.device = 0};
    struct buffers b = {0};
    TRY(open_device(q, &mine, &b.device));
    TRY(comm_all_gather(group_world(), &mine, all, sizeof mine, UINT8));
    b.host = malloc((size_t)q->largest);
    enum status status = b.host ? OK : FAIL(E_MEMORY, "no memory for %" PRId64 " bytes; lower largest", q->largest);
    if (status == OK) status = b.device->allocate(b.device, q->largest, &b.x);
    if (status == OK) status = b.device->allocate(b.device, q->largest, &b.y);
    status = fail_agree(group_world(), status);
    if (status == OK) status = run_ops(q, &b, all);
    if (b.x && status != E_TIMEOUT) b.device->release(b.device, b.x, q->largest);
    if (b.y && status != E_TIMEOUT) b.device->release(b.device, b.y, q->largest);
    free(b.host);
    return status;
}

static enum status read_request(struct options *o, int argc, char **argv, const struct request *q) {
    const int words = argc > 1 && argv[1][0] != '-' ? 2 : 1;         /* launch takes a command's name first */
    TRY(options_parse(o, argc - words, argv + words));
    if (ranks() > RANKS_MOST)
        return FAIL(E_USAGE, "%d ranks; start at most %d, whose sums are exact", ranks(), RANKS_MOST);
    if (ranks() < 2) return FAIL(E_USAGE, "one rank exchanges nothing; start two or more: trivium launch -n 2");
    if (q->smallest > q->largest)
        return FAIL(E_CONFIG, "smallest=%" PRId64 " is above largest=%" PRId64 "; lower it, or raise largest",
                    q->smallest, q->largest);
    const int64_t least = ranks() * (int64_t)sizeof(float);
    int64_t last = q->smallest;
    while (last * 4 <= q->largest) last *= 4;
    if (last >= least) return OK;
    return FAIL(E_CONFIG, "smallest=%" PRId64 " and largest=%" PRId64 " have no size with an element for each of %d "
                "ranks; use --smallest %" PRId64 " --largest %" PRId64 ", or larger ones", q->smallest, q->largest,
                ranks(), least, least);
}

static enum status bench(int argc, char **argv) {
    const struct option_table table = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS};
    struct request q = {0};
    struct options *o = NULL;
    TRY(options_create(&table, 1, &q, &o));
    enum status status = fail_agree(group_world(), read_request(o, argc, argv, &q));
    options_destroy(&o);
    TRY(status);
    struct comm_settings settings = {.timeout_s = 120};
    comm_configure(&settings);
    struct place *all = calloc((size_t)ranks(), sizeof *all);
    status = fail_agree(group_world(), all ? OK : FAIL(E_MEMORY, "no memory for %d ranks", ranks()));
    if (status == OK) status = bench_on(&q, all);
    free(all);
    return status;
}

int main(int argc, char **argv) {
    alarm(600);                                                      /* MPI can wait forever for a process */
    enum status status = comm_start(&argc, &argv);
    if (status == OK) status = bench(argc, argv);
    status_report();
    int code = status_exit_code(status);
    comm_finish(code == 0 || code == 2, code);                       /* all ranks agree on a bad request */
    return code;
}
