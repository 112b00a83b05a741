#define _GNU_SOURCE /* sched_setaffinity */
#include "driver/calibrate/calibrate_measure.h"

#include "driver/compare/compare_measure.h"
#include "driver/recipe.h"
#include "driver/setup.h"
#include "lib/base/clock.h"
#include "lib/base/grow.h"
#include "lib/comm/comm_request.h"
#include "lib/ops/cost.h"
#include "lib/ops/gemm/peak.h"
#include "planner/price.h"
#include <math.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    if (i == MAX_MOVERS) return;                                     /* the op gets the common speed */
    if (i == m->n_movers) m->mover[m->n_movers++] = (struct mover_times){.op = op};
    add_rate(&m->mover[i].rows, bytes, seconds);
}

static void add_product(struct timed_product **to, int *n, struct matmul product, double seconds) {
    *to = table_grow(*to, *n, sizeof **to);
    (*to)[(*n)++] = (struct timed_product){product, seconds};
}

/* In a run in fp32 next to the main precision, only products count. */
static void add_row(struct measured *m, const struct call *call, enum row_kind kind, double seconds, bool beside) {
    struct cost cost = op_cost(call, kind);
    if (!(seconds > 0)) return;
    if (beside) {
        if (cost.n_products == 1) add_product(&m->fp32, &m->n_fp32, cost.product[0], seconds);
    } else if (cost.n_products == 1) {
        add_product(&m->products, &m->n_products, cost.product[0], seconds);
    } else if (cost.flops > 0 && cost.n_products == 0) {
        add_rate(&m->attention[kind == ROW_BACKWARD_INPUT], cost.flops - cost.left_out, seconds);
    } else if (cost.flops == 0 && cost.bytes > 0) {
        add_mover(m, call->step->op->name, cost.bytes, seconds);
    }
}

/* seconds[step of the program][kind][timed step] */
typedef double row_times[ROW_WAIT][TIMED];

static void add_run(struct measured *m, const struct run *r, row_times *seconds, double *update_s, bool beside) {
    for (int i = 0; i < r->program.n_steps; i++) {
        struct call call = program_call(&r->program, &r->program.steps[i]);
        for (int kind = 0; kind < ROW_WAIT; kind++) {
            double median = compare_median(seconds[i][kind], TIMED); /* sorts them */
            add_row(m, &call, (enum row_kind)kind, median, beside);
            if (beside) continue;
            m->between_s += seconds[i][kind][TIMED - 2] - seconds[i][kind][1];
            m->all_s += median;
        }
    }
    if (!beside)
        add_mover(m, r->program.optimizer->name, price_update_bytes(&r->program), compare_median(update_s, TIMED));
}

static enum status time_steps(struct run *r, struct measured *m, bool beside) {
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
    if (status == OK) add_run(m, r, seconds, update_s, beside);
    free(seconds);
    return status;
}

/* ffn 0: the model's default. ranks: 1, or the whole world, which cuts the model by tp. */
struct trial { const char *arch; int hidden, ffn, micro, seq, ranks; };

static enum status create_trial(const struct calibration *q, enum plan_precision precision, int ranks, int argc,
                                char **argv, struct setup *s, struct run *r) {
    TRY(fail_agree(group_world(), setup_init(s, argc, argv, ranks)));
    s->plan.device = q->device;
    s->plan.precision = precision;
    s->plan.fuse = false;                                            /* a row is one op */
    plan_set_number(&s->plan, "profile", q->device == PLAN_DEVICE_CUDA);   /* times by events */
    TRY(plan_settle(&s->plan, ranks));
    TRY(run_create(r, &train_recipe, &s->plan, WATCH_NOTHING));
    run_set_data(r, &s->train, &s->val);
    return OK;
}

/* Heads have 32 channels on a CPU, 64 on a GPU. On a GPU two layers are enough, because all layers' rows are alike. */
static enum status open_trial(const struct calibration *q, struct trial t, enum plan_precision precision,
                              struct setup *s, struct run *r) {
    bool gpu = q->device == PLAN_DEVICE_CUDA;
    const int number[] = {t.hidden, t.hidden / (gpu && t.hidden > 64 ? 64 : 32), t.micro, t.seq, t.ffn, t.ranks,
                          t.ranks > 1 ? 8 * t.micro : t.micro};
    char text[7][16], *argv[] = {"--arch", (char *)t.arch, "--hidden", text[0], "--heads", text[1],
                                 "--micro-batch", text[2], "--global-batch", text[6], "--seq", text[3], "--ffn",
                                 text[4], "--tp", text[5], "--layers", gpu ? "2" : "6", "--threads", "1", "--log",
                                 "quiet", "--device", gpu ? "cuda" : "cpu"};
    for (int i = 0; i < 7; i++) snprintf(text[i], sizeof *text, "%d", number[i]);
    return create_trial(q, precision, t.ranks, sizeof argv / sizeof *argv, argv, s, r);
}

/* Each rank times its own run, then closes the run. `status`: the result of opening the run. */
static enum status time_and_close(enum status status, const struct calibration *q, struct setup *s, struct run *r,
                                  struct measured *m) {
    if (status == OK) status = time_steps(r, m, s->plan.precision != (int)q->precision);
    run_destroy(r);
    setup_fini(s);
    return fail_agree(group_world(), status);
}

static enum status train_trial(const struct calibration *q, struct trial t, enum plan_precision precision,
                               struct measured *m) {
    struct setup s = {.data = NULL};
    struct run r = {0};
    return time_and_close(open_trial(q, t, precision, &s, &r), q, &s, &r, m);
}

static enum status time_rows(const struct calibration *q, struct measured *m) {
    int middle = q->widest / 2;
    for (int ffn = 32; ffn <= middle; ffn *= 2)                      /* widths as cut by tp */
        TRY(train_trial(q, (struct trial){"gpt", middle, ffn, 1, 64, 1}, q->precision, m));
    for (int hidden = 32; hidden <= q->widest; hidden *= 2)
        for (int micro = 1; micro <= 16; micro *= 4) {
            TRY(train_trial(q, (struct trial){"gpt", hidden, 0, micro, 64, 1}, q->precision, m));
            if (hidden >= 64) TRY(train_trial(q, (struct trial){"llama", hidden, 0, micro, 64, 1}, q->precision, m));
            TRY(comm_barrier(group_world()));                        /* all ranks run at the same time */
        }
    /* attention of a longer sequence */
    return train_trial(q, (struct trial){"gpt", 128, 0, 1, 512, 1}, q->precision, m);
}

/* ---- rows of a GPU ---- */
/* Train two layers of the model that --model names, if any. */
static enum status train_model(const struct calibration *q, struct measured *m) {
    struct setup s = {.data = NULL};
    struct run r = {0};
    char micro[16], *argv[] = {"--model", (char *)q->model, "--layers", "2", "--micro-batch", micro, "--global-batch",
                               micro, "--threads", "1", "--log", "quiet", "--device", "cuda"};
    if (!*q->model) return OK;
    snprintf(micro, sizeof micro, "%d", q->micro);
    return time_and_close(create_trial(q, q->precision, 1, sizeof argv / sizeof *argv, argv, &s, &r), q, &s, &r, m);
}

/* Train models from an eighth of the widest on, with batches of up to 8 tokens per channel. */
static enum status time_gpu_rows(const struct calibration *q, struct measured *m) {
    int first = q->widest / 8 < 64 ? 64 : q->widest / 8, seq = q->widest / 2 < 1024 ? q->widest / 2 : 1024;
    for (int hidden = first; hidden <= q->widest; hidden *= 2)
        for (int micro = 1; micro <= 16 && micro * seq <= 8 * q->widest; micro *= 4) {
            TRY(train_trial(q, (struct trial){"gpt", hidden, 0, micro, seq, 1}, q->precision, m));
            TRY(train_trial(q, (struct trial){"llama", hidden, 0, micro, seq, 1}, q->precision, m));
            if (q->precision == PRECISION_FP32 || micro > 1) continue;
            TRY(train_trial(q, (struct trial){"gpt", hidden, 0, micro, seq, 1}, PRECISION_FP32, m));
        }
    return train_model(q, m);
}

/* ---- exchanges ---- */
static const int64_t largest_exchange = 16 << 20;

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

/* Messages in both directions at once take as long as two in turn, so one message takes half of the measured time. */
static enum status time_exchange(const struct device *d, enum comm_op op, char *x, char *y, int64_t bytes,
                                 struct measured *m) {
    double seconds[TIMED];
    int times = bytes < 1 << 16 ? (d->kind == DEVICE_CPU ? 200 : 50) : bytes < 1 << 20 ? 20 : 2;
    TRY(exchange_once(op, x, y, bytes / 4));
    for (int i = 0; i < TIMED; i++) {
        TRY(comm_barrier(group_world()));
        double start = clock_s();
        for (int k = 0; k < times; k++) TRY(exchange_once(op, x, y, bytes / 4));
        TRY(comm_wait_queued(d, "an exchange"));
        seconds[i] = (clock_s() - start) / times / (op == COMM_SEND ? 2 : 1);
    }
    m->wires = table_grow(m->wires, m->n_wires, sizeof *m->wires);
    m->wires[m->n_wires++] = (struct timed_wire){op, (double)bytes, compare_median(seconds, TIMED)};
    return OK;
}

static enum status time_exchanges(const struct device *d, int64_t most, struct measured *m) {
    static const enum comm_op OPS[] = {COMM_ALL_REDUCE, COMM_ALL_GATHER, COMM_SEND};
    void *x = NULL, *y = NULL;
    enum status status = d->allocate(d, most, &x);
    if (status == OK) status = d->allocate(d, most, &y);
    if (status == OK) status = d->clear(d, x, most);
    if (status == OK) status = d->clear(d, y, most);
    status = fail_agree(group_world(), status);
    for (int i = 0; i < 3; i++)
        for (int64_t bytes = 1024; bytes <= most && status == OK; bytes *= 4)
            status = time_exchange(d, OPS[i], x, y, bytes, m);
    if (status == E_TIMEOUT) return status;                          /* MPI may still write to x and y */
    if (x) d->release(d, x, most);
    if (y) d->release(d, y, most);
    return status;
}

/* Time exchanges between GPUs, or between ranks that share a GPU. */
static enum status time_links(const struct calibration *q, const struct device *d, struct measured *m) {
    enum comm_transport transport;
    if (comm_world_size() == 1) return OK;
    TRY(plan_transport(q->plan, d, &transport));
    TRY(comm_use_device(d, transport));
    TRY(group_carry_messages(group_world(), 1));
    return time_exchanges(d, q->widest < 512 ? (int64_t)q->widest * q->widest * 64 : largest_exchange, m);
}

/* ---- ranks that share a core ---- */
/* Count this rank's communication calls so far, and the bytes that they sent. */
static void count_operations(const struct run *r, double *calls, double *bytes) {
    *calls = *bytes = 0;
    for (enum mesh_axis a = AXIS_SELF + 1; a < N_MESH_AXES; a++)
        for (int op = 0; op < N_COMM_OPS && group_size(r->mesh.group[a]) > 1; op++) {
            *calls += (double)group_ledger(r->mesh.group[a])->entry[op].calls;
            *bytes += group_ledger(r->mesh.group[a])->entry[op].bytes;
        }
}

struct shared { double step_s, work_s, calls, bytes; };       /* one step; work: processor time, no communication */

static enum status time_step(struct run *r, struct shared *out) {
    double start = clock_s(), work = processor_s() - comm_work_s(), calls, bytes;
    count_operations(r, &calls, &bytes);
    r->flush_at = r->n_step + 1;
    TRY(run_step(r));
    out->step_s = clock_s() - start, out->work_s = processor_s() - comm_work_s() - work;
    count_operations(r, &out->calls, &out->bytes);
    out->calls -= calls, out->bytes -= bytes;
    return comm_barrier(group_world());
}

/* Alternate a step with a core for each rank and a step with one core for all ranks, so that other programs disturb
 * both alike. The shared core is never idle: a step of n ranks is their work, their exchanges as `level` predicts them,
 * and switching, which is the rest. Work takes longer than on a core for each rank; the difference is cold_s. */
static enum status time_in_turns(struct run *r, const cpu_set_t *all, const cpu_set_t *one, const struct level *l,
                                 struct measured *m) {
    double switch_s[TIMED], cold_s[TIMED], n = comm_world_size();
    for (int i = 0; i < WARM + TIMED; i++) {
        struct shared apart, together;
        TRY(time_step(r, &apart));
        sched_setaffinity(0, sizeof *one, one);
        enum status status = time_step(r, &together);
        sched_setaffinity(0, sizeof *all, all);
        TRY(status);
        double wire_s = together.bytes / l->bytes_per_s + together.calls * 2 * (n - 1) * l->alpha_s;
        if (i < WARM) continue;
        switch_s[i - WARM] = (together.step_s / n - together.work_s - wire_s) / together.calls;
        cold_s[i - WARM] = (together.work_s - apart.work_s) / together.calls;
    }
    m->switch_s = fmax(0, compare_median(switch_s, TIMED));
    m->cold_s = fmax(0, compare_median(cold_s, TIMED));
    return OK;
}

/* Train one model cut by tp, because tp makes many small operations. */
static enum status time_a_shared_core(const struct calibration *q, struct measured *m) {
    int32_t core = 0;
    cpu_set_t all, one;
    struct level level;
    struct run r = {0};
    struct setup s = {.data = NULL};
    int n = comm_world_size(), hidden = q->widest / 2;
    if (hidden < 32 * n) hidden = 32 * n;                            /* a head for each rank */
    fit_wires(m->wires, m->n_wires, n, &level);
    sched_getaffinity(0, sizeof all, &all);
    while (core < CPU_SETSIZE - 1 && !CPU_ISSET(core, &all)) core++;
    TRY(comm_all_reduce(group_world(), &core, 1, INT32, COMM_MIN));
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    int32_t pinned = sched_setaffinity(0, sizeof one, &one) == 0;
    sched_setaffinity(0, sizeof all, &all);
    TRY(comm_all_reduce(group_world(), &pinned, 1, INT32, COMM_MIN));
    enum status status = open_trial(q, (struct trial){"gpt", hidden, 0, 1, 64, n}, q->precision, &s, &r);
    if (status == OK && pinned) {
        status = plan_use_comm(&s.plan, true, 1);
        if (status == OK) status = time_in_turns(&r, &all, &one, &level, m);
        if (status == OK) status = plan_use_comm(&s.plan, false, 1);
    }
    if (status != E_TIMEOUT) run_destroy(&r);
    setup_fini(&s);
    return status;
}

/* ---- all of it ---- */
static enum status measure_gpu(const struct calibration *q, struct measured *m) {
    const struct device *d;
    int64_t bytes = (int64_t)q->widest * q->widest * 64;             /* 256 MiB for 2048 channels: larger than caches */
    TRY(fail_agree(group_world(), device_cuda(comm_local_rank() % device_cuda_count(), &d)));
    m->gpu = d->name;
    TRY(fail_agree(group_world(), time_gpu_rows(q, m)));
    TRY(fail_agree(group_world(), calibrate_gpu(d, bytes, &m->speeds)));
    return time_links(q, d, m);
}

enum status calibrate_measure(const struct calibration *q, struct measured *m) {
    *m = (struct measured){.n_movers = 0};
    omp_set_num_threads(1);                                          /* as the timed models have */
    if (q->device == PLAN_DEVICE_CUDA) return measure_gpu(q, m);
    TRY(comm_barrier(group_world()));
    m->peak[FP32] = peak_flops_per_core(FP32);
    m->peak[FP64] = peak_flops_per_core(FP64);
    TRY(time_exchanges(device_cpu(), largest_exchange, m));
    TRY(fail_agree(group_world(), time_rows(q, m)));
    return time_a_shared_core(q, m);
}

static void rates_fini(struct rates *r) {
    free(r->units);
    free(r->seconds);
}

void measured_fini(struct measured *m) {
    for (int i = 0; i < m->n_movers; i++) rates_fini(&m->mover[i].rows);
    for (int i = 0; i < 2; i++) rates_fini(&m->attention[i]);
    free(m->products);
    free(m->fp32);
    free(m->wires);
}
