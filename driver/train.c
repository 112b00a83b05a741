/* trivium train: set up, then step, print, evaluate.
 *
 * Failures. Before the first step, and at step edges, the ranks agree: the first failing one prints its line, all leave MPI
 * cleanly with the same exit code. In the middle of a step there is nobody to agree with (a peer may be dead): the rank that
 * notices prints its line and ends the job. While ranks start up, MPI itself can wait for ever for a process that never came;
 * an alarm ends that. */
#include "driver/train.h"

#include "driver/recipe.h"
#include "driver/setup.h"
#include "gpt/gpt.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/run/metrics.h"
#include "lib/run/peak.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct training {
    struct setup setup;
    struct run run;
    struct metrics metrics;
    double peak_flops;               /* of the job, a second */
    int64_t mem_peak_bytes;          /* of the rank that needs most */
    double started_s, told_s, spent_s;   /* begin of training; last progress line; seconds in steps */
};

static bool is_rank_0(void) { return comm_world_rank() == 0; }

/* ---- before the first step ---- */
static enum status find_peak(struct training *t, int threads) {
    const struct plan *p = &t->setup.plan;
    t->peak_flops = p->peak_tflops * 1e12;
    if (t->peak_flops == 0) {
        double cores = (double)sysconf(_SC_NPROCESSORS_ONLN), wanted = (double)threads * comm_local_size();
        double hosts = (double)comm_world_size() / comm_local_size();
        t->peak_flops = is_rank_0() ? peak_flops_per_core(plan_dtype(p)) * fmin(cores, wanted) * hosts : 0;
    }
    return comm_broadcast(group_world(), &t->peak_flops, 1, FP64, 0);
}

static enum status find_memory(struct training *t) {
    int64_t bytes = 0;
    for (enum role r = 0; r < N_ROLES; r++) bytes += t->run.memory.bytes[r];
    double most = (double)bytes;
    TRY(comm_all_reduce(group_world(), &most, 1, FP64, COMM_MAX));
    t->mem_peak_bytes = (int64_t)most;
    return OK;
}

static void announce(const struct training *t, int threads) {
    const struct plan *p = &t->setup.plan;
    if (!is_rank_0() || log_get_level() < LOG_INFO) return;
    printf("model %s: %" PRId64 " layers, hidden %" PRId64 ", heads %" PRId64 ", seq %" PRId64 ", vocab %" PRId64 ", %" PRId64
           " parameters\n", p->model, p->layers, p->hidden, p->heads, p->seq, p->vocab, gpt_n_params(p));
    printf("layout: %d rank%s = dp %" PRId64 " x tp %" PRId64 " x pp %" PRId64 ", %d thread%s a rank; batch %" PRId64 " = micro %" PRId64
           " x dp %" PRId64 " x %d microbatches\n", plan_ranks(p), plan_ranks(p) == 1 ? "" : "s", p->dp, p->tp, p->pp, threads, threads == 1 ? "" : "s", p->global_batch,
           p->micro_batch, p->dp, p->n_microbatches);
    printf("data: %s, %" PRId64 " training and %" PRId64 " validation samples\n", data_path(t->setup.data),
           data_split_samples(&t->setup.train), data_split_samples(&t->setup.val));
    fflush(stdout);
}

static enum status open_metrics(struct training *t) {
    enum status status = is_rank_0() ? metrics_open(&t->metrics, t->setup.plan.metrics) : OK;
    return fail_agree(group_world(), status);
}

static enum status prepare(struct training *t, int argc, char **argv) {
    enum status status = setup_init(&t->setup, argc, argv, comm_world_size());
    TRY(fail_agree(group_world(), status));
    const struct plan *p = &t->setup.plan;
    alarm((unsigned)ceil(p->comm_timeout));
    comm_configure(&(struct comm_settings){p->comm_timeout, p->check_collectives});
    int threads = setup_threads(p, comm_local_size());
    TRY(open_metrics(t));
    TRY(find_peak(t, threads));
    TRY(run_create(&t->run, &gpt_recipe, p, WATCH_NOTHING));
    run_set_data(&t->run, &t->setup.train, &t->setup.val);
    TRY(find_memory(t));
    alarm(0);
    announce(t, threads);
    return OK;
}

/* ---- the loop ---- */
static enum status report_step(struct training *t, double step_s, double comm_bytes, double comm_s) {
    const struct plan *p = &t->setup.plan;
    const struct run *r = &t->run;
    double tokens = (double)p->global_batch * (double)p->seq, flops = gpt_flops_per_token(p);
    struct metrics_row row = {
        .step = r->n_step, .steps = p->steps, .loss = r->loss, .grad_norm = r->grad_norm, .lr = r->lr, .step_s = step_s,
        .tokens_per_s = tokens / step_s, .mfu = flops * tokens / step_s / t->peak_flops, .flops_per_token = flops,
        .mem_peak_bytes = t->mem_peak_bytes, .comm_bytes = comm_bytes, .comm_s = comm_s, .bubble_s = r->exec.transfer_s,
        .skipped = r->skipped, .loss_scale = r->loss_scale, .tokens_seen = (int64_t)tokens * r->n_step};
    if (!is_rank_0()) return OK;
    if (log_get_level() >= LOG_INFO) metrics_print(&row);
    return metrics_step(&t->metrics, &row);
}

static enum status one_step(struct training *t) {
    double bytes_before, wait_before, bytes, wait_s, start = clock_s();
    metrics_comm(&t->run.mesh, &bytes_before, &wait_before);
    TRY(run_step(&t->run));
    double step_s = clock_s() - start;
    metrics_comm(&t->run.mesh, &bytes, &wait_s);
    t->spent_s += step_s;
    return report_step(t, step_s, bytes - bytes_before, wait_s - wait_before);
}

static bool evaluation_is_due(const struct training *t) {
    const struct plan *p = &t->setup.plan;
    if (data_split_samples(&t->setup.val) == 0) return false;
    return t->run.n_step == p->steps || (p->eval_every && t->run.n_step % p->eval_every == 0);
}

static enum status evaluate(struct training *t) {
    double loss, start = clock_s();
    TRY(run_evaluate(&t->run, t->setup.plan.eval_batches, &loss));
    if (!is_rank_0()) return OK;
    if (log_get_level() >= LOG_INFO)
        printf("eval %" PRId64 "/%" PRId64 " | val loss %.4f | %.1f ms\n", t->run.n_step, t->setup.plan.steps, loss,
               1e3 * (clock_s() - start));
    fflush(stdout);
    return metrics_evaluation(&t->metrics, t->run.n_step, loss);
}

/* Every quarter of a minute: how far, and how long still. */
static void tell_progress(struct training *t) {
    double now = clock_s(), done = (double)t->run.n_step / (double)t->setup.plan.steps;
    if (!is_rank_0() || now - t->told_s < 15 || done >= 1) return;
    t->told_s = now;
    int left = (int)((now - t->started_s) * (1 - done) / done);
    log_info("progress %.0f%%, about %d:%02d:%02d left", 100 * done, left / 3600, left / 60 % 60, left % 60);
}

static enum status train(struct training *t) {
    t->started_s = t->told_s = clock_s();
    while (t->run.n_step < t->setup.plan.steps) {
        TRY(one_step(t));
        if (evaluation_is_due(t)) TRY(evaluate(t));
        tell_progress(t);
    }
    return OK;
}

/* ---- after the last ---- */
static void summarise(const struct training *t) {
    const struct plan *p = &t->setup.plan;
    if (!is_rank_0() || log_get_level() < LOG_INFO) return;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double resident = (double)usage.ru_maxrss / 1024, planned = 0;
    for (enum role r = 0; r < N_ROLES; r++) planned += (double)t->run.memory.bytes[r] / (1 << 20);
    printf("done: %" PRId64 " steps in %.1f s, %.0f tok/s; rank 0 planned %.1f MiB, resident %.1f MiB, unaccounted %.1f MiB (code, libraries, MPI)\n",
           p->steps, t->spent_s, (double)p->steps * (double)p->global_batch * (double)p->seq / t->spent_s, planned, resident,
           resident - planned);
    fflush(stdout);
}

static void release(struct training *t) {
    run_destroy(&t->run);
    metrics_close(&t->metrics);
    setup_fini(&t->setup);
    free(t);
}

/* Do all ranks have this failure, at the same place? Then they can leave together. */
static bool is_agreed(enum status status, bool prepared) { return !prepared || status == E_NUMERIC; }

int train_main(int argc, char **argv) {
    for (int i = 0; i < argc; i++)
        if (!strcmp(argv[i], "--help")) {
            struct plan plan;
            struct options *o;
            if (options_create(&plan_options, 1, &plan, &o) == OK) options_help(o, stdout);
            options_destroy(&o);
            return 0;
        }
    alarm(600);
    struct training *t = calloc(1, sizeof *t);
    enum status status = t ? comm_start(&argc, &argv) : FAIL(E_MEMORY, "no memory to start with");
    if (status != OK) {
        status_report();
        return status_exit_code(status);
    }
    status = prepare(t, argc, argv);
    alarm(0);
    bool prepared = status == OK;
    if (prepared) status = train(t);
    if (status == E_NUMERIC && prepared) status = fail_agree(t->run.mesh.group[AXIS_MESH], status);
    if (status != OK) status_report();                               /* nothing is left to report when the ranks agreed */
    bool clean = status == OK || is_agreed(status, prepared);
    if (status == OK) summarise(t);
    if (clean) release(t);
    comm_finish(clean, status_exit_code(status));
    return status_exit_code(status);
}
