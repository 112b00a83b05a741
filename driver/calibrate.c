#define _GNU_SOURCE /* sched_setaffinity */
#include "driver/calibrate.h"

#include "driver/compare/compare_measure.h"
#include "driver/deadline.h"
#include "driver/recipe.h"
#include "driver/setup.h"
#include "lib/base/clock.h"
#include "lib/base/grow.h"
#include "lib/base/log.h"
#include "lib/comm/comm_request.h"
#include "lib/cost/fit.h"
#include "lib/ops/cost.h"
#include "lib/run/peak.h"
#include "planner/price.h"
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char HELP[] =
    "trivium launch -n R calibrate [--out FILE] [--precision fp32|fp64] [--widest 512]\n\n"
    "Measures what one of R cores of this machine computes, moves and exchanges while the others do the same, and "
    "writes it as a\ncluster file, FILE (this.ini): then plan --cluster FILE predicts runs on this machine, compare "
    "--cluster FILE puts prediction\nand measurement side by side, and auto decides by it. R from 2 to the number of "
    "cores; about a minute for models of up to 512 channels; nothing else should run.\nOf GPUs data sheets say it: "
    "configs/clusters/dgx-h100.ini.\n";

struct request { struct setup setup; char out[OPTION_TEXT_MAX]; int64_t widest; };
static const struct option OPTIONS[] = {
    {"out", OPTION_TEXT, "this.ini", 0, 0, NULL, "", "the file to write", "calibrate", offsetof(struct request, out)},
    {"widest", OPTION_INT, "512", 64, 8192, NULL, "channels", "the widest model that is trained; twice as wide takes "
     "four times as long", "calibrate", offsetof(struct request, widest)},
};

/* Everything that was measured, on this rank. */
struct rates { double *units, *seconds; int n; };
struct mover_times { const char *op; struct rates rows; };
struct measured {
    double peak[N_DTYPES];
    struct timed_product *products;
    int n_products;
    struct mover_times mover[MAX_MOVERS];
    int n_movers;
    struct rates attention[2];                                       /* flops forward, backward */
    struct timed_wire *wires;
    int n_wires;
    double switch_s;
    double between_s, all_s;                                         /* quartiles of the steps of a row; of all rows */
};

/* ---- rows ---- */
enum { WARM = 2, TIMED = 5 };

static void add_rate(struct rates *r, double units, double seconds) {
    r->units = table_grow(r->units, r->n, sizeof *r->units);
    r->seconds = table_grow(r->seconds, r->n, sizeof *r->seconds);
    r->units[r->n] = units;
    r->seconds[r->n++] = seconds;
}

static void add_mover(struct measured *m, const char *op, double bytes, double seconds) {
    int i = 0;
    while (i < m->n_movers && strcmp(m->mover[i].op, op)) i++;
    if (i == MAX_MOVERS) return;                                     /* as fast as all others, then */
    if (i == m->n_movers) m->mover[m->n_movers++] = (struct mover_times){.op = op};
    add_rate(&m->mover[i].rows, bytes, seconds);
}

static void add_row(struct measured *m, const struct call *call, enum row_kind kind, double seconds) {
    struct cost cost = op_cost(call, kind);
    if (!(seconds > 0)) return;
    if (cost.n_products == 1) {
        m->products = table_grow(m->products, m->n_products, sizeof *m->products);
        m->products[m->n_products++] = (struct timed_product){cost.product[0], seconds};
    } else if (cost.flops > 0 && cost.n_products == 0) {
        add_rate(&m->attention[kind == ROW_BACKWARD_INPUT], cost.flops - cost.left_out, seconds);
    } else if (cost.flops == 0 && cost.bytes > 0) {
        add_mover(m, call->step->op->name, cost.bytes, seconds);
    }
}

/* seconds[step of the program][kind][timed step] */
typedef double row_times[ROW_WAIT][TIMED];

static void add_run(struct measured *m, const struct run *r, row_times *seconds, double *update_s) {
    for (int i = 0; i < r->program.n_steps; i++) {
        struct call call = program_call(&r->program, &r->program.steps[i]);
        for (int kind = 0; kind < ROW_WAIT; kind++) {
            double median = compare_median(seconds[i][kind], TIMED); /* sorts */
            add_row(m, &call, (enum row_kind)kind, median);
            m->between_s += seconds[i][kind][TIMED - 2] - seconds[i][kind][1];
            m->all_s += median;
        }
    }
    add_mover(m, "adamw", price_update_bytes(&r->program), compare_median(update_s, TIMED));
}

static enum status time_steps(struct run *r, struct measured *m) {
    size_t n = (size_t)r->program.n_steps;
    row_times *seconds = calloc(n, sizeof *seconds);
    double update_s[TIMED];
    enum status status = seconds ? OK : FAIL(E_MEMORY, "no memory for the times of %zu rows", n);
    for (int step = 0; step < WARM + TIMED && status == OK; step++) {
        memset(r->exec.step_seconds, 0, n * sizeof *r->exec.step_seconds);
        r->update_s = 0;
        r->flush_at = WARM + TIMED;
        status = run_step(r);
        for (size_t i = 0; i < n && step >= WARM; i++)
            for (int kind = 0; kind < ROW_WAIT; kind++)
                seconds[i][kind][step - WARM] = r->exec.step_seconds[i][kind];
        if (step >= WARM) update_s[step - WARM] = r->update_s;
    }
    if (status == OK) add_run(m, r, seconds, update_s);
    free(seconds);
    return status;
}

/* Every rank by itself. */
/* ffn 0: the usual. ranks: 1, or all of them, which cut it by tp. */
struct trial { const char *arch; int hidden, ffn, micro, seq, ranks; };

static enum status open_trial(const struct request *q, struct trial t, struct setup *s, struct run *r) {
    const int number[] = {t.hidden, t.hidden / 32, t.micro, t.seq, t.ffn, t.ranks};
    char text[6][16], *argv[] = {"--arch", (char *)t.arch, "--hidden", text[0], "--heads", text[1],
                                 "--micro-batch", text[2], "--global-batch", text[2], "--seq", text[3], "--ffn",
                                 text[4], "--tp", text[5], "--layers", "6", "--threads", "1", "--log", "quiet"};
    for (int i = 0; i < 6; i++) snprintf(text[i], sizeof *text, "%d", number[i]);
    TRY(setup_init(s, sizeof argv / sizeof *argv, argv, t.ranks));
    s->plan.precision = q->setup.plan.precision;
    TRY(plan_settle(&s->plan, t.ranks));
    TRY(run_create(r, &train_recipe, &s->plan, WATCH_NOTHING));
    run_set_data(r, &s->train, &s->val);
    return OK;
}

/* Every rank by itself. */
static enum status train_trial(const struct request *q, struct trial t, struct measured *m) {
    struct setup s = {.data = NULL};
    struct run r = {0};
    enum status status = open_trial(q, t, &s, &r);
    if (status == OK) status = time_steps(&r, m);
    run_destroy(&r);
    setup_fini(&s);
    return status;
}

static enum status time_rows(const struct request *q, struct measured *m) {
    int middle = (int)q->widest / 2;
    for (int ffn = 32; ffn <= middle; ffn *= 2)                      /* as tp cuts it */
        TRY(train_trial(q, (struct trial){"gpt", middle, ffn, 1, 64, 1}, m));
    for (int hidden = 32; hidden <= q->widest; hidden *= 2)
        for (int micro = 1; micro <= 16; micro *= 4) {
            TRY(train_trial(q, (struct trial){"gpt", hidden, 0, micro, 64, 1}, m));
            if (hidden >= 64) TRY(train_trial(q, (struct trial){"llama", hidden, 0, micro, 64, 1}, m));
            TRY(comm_barrier(group_world()));                        /* all at the same time */
        }
    return train_trial(q, (struct trial){"gpt", 128, 0, 1, 512, 1}, m);      /* attention of a longer sequence */
}

/* ---- exchanges ---- */
static enum status exchange_once(enum comm_op op, char *x, char *y, int64_t count) {
    struct comm_request there = {0}, back = {0};
    int n = comm_world_size(), rank = comm_world_rank(), peer = rank ^ 1;
    if (op == COMM_ALL_REDUCE) return comm_all_reduce(group_world(), x, count, FP32, COMM_SUM);
    if (op == COMM_ALL_GATHER) return comm_all_gather(group_world(), x, y, count / n, FP32);
    if (peer >= n) return OK;
    TRY(comm_recv_start(group_world(), y, count, FP32, peer, 0, &back));
    TRY(comm_send_start(group_world(), x, count, FP32, peer, 0, &there));
    TRY(comm_wait(&there));
    return comm_wait(&back);
}

/* A message there and one back at the same time keep both as busy as one after the other would. */
static enum status time_exchange(enum comm_op op, char *x, char *y, int64_t bytes, struct measured *m) {
    double seconds[TIMED];
    int times = bytes < 1 << 16 ? 200 : bytes < 1 << 20 ? 20 : 2;
    TRY(exchange_once(op, x, y, bytes / 4));
    for (int i = 0; i < TIMED; i++) {
        TRY(comm_barrier(group_world()));
        double start = clock_s();
        for (int k = 0; k < times; k++) TRY(exchange_once(op, x, y, bytes / 4));
        seconds[i] = (clock_s() - start) / times / (op == COMM_SEND ? 2 : 1);
    }
    m->wires = table_grow(m->wires, m->n_wires, sizeof *m->wires);
    m->wires[m->n_wires++] = (struct timed_wire){op, (double)bytes, compare_median(seconds, TIMED)};
    return OK;
}

static enum status time_exchanges(struct measured *m) {
    static const enum comm_op OPS[] = {COMM_ALL_REDUCE, COMM_ALL_GATHER, COMM_SEND};
    const int64_t most = 16 << 20;
    char *x = calloc(1, (size_t)most), *y = calloc(1, (size_t)most);
    enum status status = fail_agree(group_world(), x && y ? OK : FAIL(E_MEMORY, "no memory for messages of 16 MiB"));
    for (int i = 0; i < 3; i++)
        for (int64_t bytes = 1024; bytes <= most && status == OK; bytes *= 4)
            status = time_exchange(OPS[i], x, y, bytes, m);
    if (status == E_TIMEOUT) return status;                          /* MPI may still write there */
    free(x);
    free(y);
    return status;
}

/* ---- ranks that share a core ---- */
static double processor_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec - comm_work_s();
}

/* Of this rank so far: operations with other ranks, and the bytes that they sent. */
static void count_operations(const struct run *r, double *calls, double *bytes) {
    *calls = *bytes = 0;
    for (enum mesh_axis a = AXIS_SELF + 1; a < N_MESH_AXES; a++)
        for (int op = 0; op < N_COMM_OPS && group_size(r->mesh.group[a]) > 1; op++) {
            *calls += (double)group_ledger(r->mesh.group[a])->entry[op].calls;
            *bytes += group_ledger(r->mesh.group[a])->entry[op].bytes;
        }
}

/* The core is never idle, so what is not work of a rank is operations: what they take by the level, and the rest. */
static enum status time_switches(struct run *r, const struct level *l, struct measured *m) {
    double over_s[TIMED], before[2], after[2], n = comm_world_size();
    for (int step = 0; step < WARM + TIMED; step++) {
        double start = clock_s(), work = processor_s();
        count_operations(r, &before[0], &before[1]);
        r->flush_at = WARM + TIMED;
        TRY(run_step(r));
        double all_s = clock_s() - start, all_work_s = processor_s() - work;
        TRY(comm_all_reduce(group_world(), &all_work_s, 1, FP64, COMM_SUM));
        count_operations(r, &after[0], &after[1]);
        double calls = after[0] - before[0], wire_s = (after[1] - before[1]) / l->bytes_per_s;
        if (step >= WARM)
            over_s[step - WARM] = (all_s - all_work_s - n * (wire_s + calls * 2 * (n - 1) * l->alpha_s)) / (n * calls);
    }
    m->switch_s = fmax(0, compare_median(over_s, TIMED));
    return OK;
}

/* All ranks on one core train one model together, cut by tp, which is many small operations. */
static enum status time_a_shared_core(const struct request *q, struct measured *m) {
    int32_t core = 0, pinned;
    cpu_set_t before, one;
    struct level level;
    struct run r = {0};
    struct setup s = {.data = NULL};
    fit_wires(m->wires, m->n_wires, comm_world_size(), &level);
    sched_getaffinity(0, sizeof before, &before);
    while (core < CPU_SETSIZE - 1 && !CPU_ISSET(core, &before)) core++;
    TRY(comm_all_reduce(group_world(), &core, 1, INT32, COMM_MIN));
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    pinned = sched_setaffinity(0, sizeof one, &one) == 0;
    TRY(comm_all_reduce(group_world(), &pinned, 1, INT32, COMM_MIN));
    int n = comm_world_size(), hidden = (int)q->widest / 2;
    if (hidden < 32 * n) hidden = 32 * n;                            /* a head for each */
    enum status status = open_trial(q, (struct trial){"gpt", hidden, 0, 4, 64, n}, &s, &r);
    comm_configure(&(struct comm_settings){s.plan.comm_timeout, false, true});
    if (status == OK && pinned) status = time_switches(&r, &level, m);
    comm_configure(&(struct comm_settings){s.plan.comm_timeout, false, false});
    sched_setaffinity(0, sizeof before, &before);
    if (status != E_TIMEOUT) run_destroy(&r);
    setup_fini(&s);
    return status;
}

/* ---- the file ---- */
static void write_figure(FILE *f, const char *key, double value, const char *source) {
    fprintf(f, "# %s\n%s = %.4g\n", source, key, value);
}

static void write_movers(FILE *f, const struct measured *m, const struct cluster *c) {
    fprintf(f, "# measured: each op's rows, together\nop-gbs = ");
    for (int i = 0, n = 0; i < m->n_movers; i++) {
        const struct rates *x = &m->mover[i].rows;
        double rate;
        fit_rate(x->units, x->seconds, x->n, c->launch_s, &rate);
        if (rate > 0) fprintf(f, "%s%s:%.3g", n++ ? "," : "", m->mover[i].op, rate / 1e9);
    }
    fprintf(f, "\n");
}

static void write_attention(FILE *f, const struct measured *m, const struct cluster *c, double peak) {
    static const char *const KEYS[] = {"attention-forward-part", "attention-backward-part"};
    for (int i = 0; i < 2; i++) {
        double rate, error = fit_rate(m->attention[i].units, m->attention[i].seconds, m->attention[i].n, c->launch_s,
                                      &rate);
        char source[96];
        snprintf(source, sizeof source, "measured: %d rows, median error %.0f%%", m->attention[i].n, 100 * error);
        if (rate > 0) write_figure(f, KEYS[i], fmin(1, rate / peak), source);
    }
}

/* Of all ops that move, the rate of their sum: what an op takes that no calibration has seen. */
static double common_rate(const struct measured *m) {
    double bytes = 0, seconds = 0;
    for (int i = 0; i < m->n_movers; i++)
        for (int k = 0; k < m->mover[i].rows.n; k++)
            bytes += m->mover[i].rows.units[k], seconds += m->mover[i].rows.seconds[k];
    return bytes / seconds;
}

static void write_rows(FILE *f, const struct measured *m, enum dtype dtype, struct cluster *c) {
    char source[160];
    double error = fit_products(m->products, m->n_products, m->peak[dtype], c);
    snprintf(source, sizeof source, "measured: %d products, and how far this formula is from them: median %.1f%%",
             m->n_products, 100 * error);
    write_figure(f, "product-part", c->product_part, source);
    write_figure(f, "product-m0", c->product_m0, "the same");
    write_figure(f, "product-n0", c->product_n0, "the same");
    write_figure(f, "product-k0", c->product_k0, "the same");
    write_figure(f, "launch-us", 1e6 * c->launch_s, "the same: a row of no work");
    write_figure(f, "memory-gbs", common_rate(m) / 1e9, "measured: all ops that only move, together");
    write_movers(f, m, c);
    write_attention(f, m, c, m->peak[dtype]);
}

static void write_wires(FILE *f, const struct measured *m, int ranks) {
    struct level l;
    fit_wires(m->wires, m->n_wires, ranks, &l);
    write_figure(f, "node-gbs", l.bytes_per_s / 1e9, "measured: all_reduce, all_gather and messages, the fastest size");
    write_figure(f, "node-us", 1e6 * l.alpha_s, "the same, up to 16 KiB");
    fprintf(f, "# the same, larger ones\nnode-curve = ");
    for (int i = 0; i < l.part_by_size.n; i++)
        fprintf(f, "%s%.0f:%.2f", i ? ", " : "", l.part_by_size.at[i], l.part_by_size.is[i]);
    fprintf(f, "\n");
}

static double memory_gib(void) {
    return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / 1073741824.0;
}

static void write_file(FILE *f, const struct measured *m, enum dtype dtype) {
    int n = comm_world_size();
    double spread = m->between_s / m->all_s;
    struct cluster c = {.name = ""};
    char host[64];
    comm_host_name(host, sizeof host);
    fprintf(f, "# Measured by trivium calibrate with %d ranks, in %s. A row's steps differ by %.0f%% (half of them)\n",
            n, dtype_name(dtype), 100 * spread);
    fprintf(f, "name = %s\n# cores that all ranks share\ncores = %d\n", host, n);
    write_figure(f, "memory-gib", memory_gib() / n, "of the machine, for each of as many ranks");
    write_figure(f, "reserve-gib", 0.1, "an estimate: code, libraries and MPI of a rank");
    write_figure(f, "tflops-fp32", m->peak[FP32] / 1e12, "measured: multiply-adds, one core");
    write_figure(f, "tflops-fp64", m->peak[FP64] / 1e12, "the same");
    write_rows(f, m, dtype, &c);
    write_wires(f, m, n);
    write_figure(f, "switch-us", 1e6 * m->switch_s, "measured: a model cut by tp, all ranks on one core");
}

static enum status write_out(const char *path, const struct measured *m, enum dtype dtype) {
    struct cluster c;
    double spread = m->between_s / m->all_s;
    FILE *f = fopen(path, "w");
    if (!f) return FAIL(E_IO, "cannot write %s; give --out another file", path);
    write_file(f, m, dtype);
    bool lost = ferror(f) != 0;
    if (fclose(f) || lost) return FAIL(E_IO, "cannot write all of %s; give --out another file", path);
    if (spread > 0.15)
        log_warn("steps of one row differ by %.0f%%: something else runs here; calibrate again when it does not",
                 100 * spread);
    TRY(cluster_read(path, &c));                                     /* what is written can be read */
    printf("%s: %d products, %d other ops, %d exchanges; use it with --cluster %s\n", path, m->n_products, m->n_movers,
           m->n_wires, path);
    return OK;
}

/* ---- the command ---- */
static void rates_fini(struct rates *r) {
    free(r->units);
    free(r->seconds);
}

static void measured_fini(struct measured *m) {
    for (int i = 0; i < m->n_movers; i++) rates_fini(&m->mover[i].rows);
    for (int i = 0; i < 2; i++) rates_fini(&m->attention[i]);
    free(m->products);
    free(m->wires);
}

static enum status read_request(struct request *q, int argc, char **argv) {
    const struct option_table own = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS};
    struct plan *p = &q->setup.plan;
    TRY(recipe_options_create(&own, q, &q->setup.options));
    TRY(options_parse(q->setup.options, argc, argv));
    TRY(plan_settle_device(p));
    if (p->device != PLAN_DEVICE_CPU)
        return FAIL(E_CONFIG, "calibrate measures cores; of a GPU the data sheet says as much, see "
                              "configs/clusters/dgx-h100.ini; use --device cpu");
    if (p->precision != PRECISION_FP32 && p->precision != PRECISION_FP64)
        return FAIL(E_CONFIG, "calibrate measures products in fp32 or fp64; use --precision fp32");
    int n = comm_world_size();
    double cores = comm_local_cores();
    if (n < 2 || n > cores)
        return FAIL(E_CONFIG, "calibrate with 2 ranks or more, to measure exchanges, and at most as many as cores, "
                              "for one each; here are %d ranks and %.3g cores; use trivium launch -n %.0f calibrate",
                    n, cores, fmax(2, floor(cores)));
    return OK;
}

static enum status calibrate(struct request *q, int argc, char **argv) {
    struct measured m = {.n_movers = 0};
    TRY(fail_agree(group_world(), read_request(q, argc, argv)));
    enum dtype dtype = plan_dtype(&q->setup.plan);
    omp_set_num_threads(1);
    TRY(comm_barrier(group_world()));
    m.peak[FP32] = peak_flops_per_core(FP32);
    m.peak[FP64] = peak_flops_per_core(FP64);
    enum status status = time_exchanges(&m);
    if (status == OK) status = fail_agree(group_world(), time_rows(q, &m));
    if (status == OK) status = time_a_shared_core(q, &m);
    if (status == OK) status = fail_agree(group_world(), comm_is_rank_0() ? write_out(q->out, &m, dtype) : OK);
    measured_fini(&m);
    return status;
}

int calibrate_main(int argc, char **argv) {
    static struct request q;
    if (options_ask_for_help(argc, argv)) {
        fputs(HELP, stdout);
        return 0;
    }
    deadline_set_for_start(argc, argv);
    enum status status = comm_start(&argc, &argv);
    deadline_lift();
    bool started = status == OK;
    if (started) status = calibrate(&q, argc, argv);
    options_destroy(&q.setup.options);
    status_report();
    int code = status_exit_code(status);
    if (started) comm_finish(status != E_TIMEOUT && status != E_COMM, code);
    return code;
}
