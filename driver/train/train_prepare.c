/* Before a training job's first step: read the request, make the run, announce it, load the state it begins with. */
#include "driver/deadline.h"
#include "driver/preflight.h"
#include "driver/recipe.h"
#include "driver/train/train_state.h"
#include "lib/base/level.h"
#include "lib/base/log.h"
#include "lib/comm/membership/comm_membership.h"
#include "lib/ops/gemm/peak.h"
#include "planner/price.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <time.h>

/* The peak of this host's ranks that compute; servers on separate ranks use a share of the threads. */
static double peak_of_cpu(const struct plan *p, int threads) {
    double wanted = (double)threads * comm_local_size() * (double)p->workers / (double)p->mesh.dp;
    return peak_flops_per_core(plan_product_dtype(p)) * fmin(comm_local_cores(), wanted);
}

/* Ranks that share a GPU share its peak. */
static double peak_of_gpus(const struct training *t) {
    const struct plan *p = &t->setup.plan;
    double gpus = fmin(device_cuda_count(), comm_local_size());
    double peak = peak_flops_of_gpu(t->run.device->name, plan_product_dtype(p));
    if (peak == 0) log_warn("the peak of %s is unknown, so mfu is too; give peak-tflops", t->run.device->name);
    return peak * gpus;
}

/* One rank of each host measures. The others sleep, because a wait in the all-reduce would poll on the measured cores.
 * An epoch from memory does not sleep, because the measuring ranks have usually cached their result. */
static enum status find_peak(struct training *t, int threads) {
    const struct plan *p = &t->setup.plan;
    const struct timespec measured = {0, 50000000};
    double of_host = 0;
    t->peak_flops = train_options(p)->peak_tflops * 1e12;
    if (t->peak_flops > 0) return OK;
    if (comm_local_rank() == 0) of_host = p->device == PLAN_DEVICE_CUDA ? peak_of_gpus(t) : peak_of_cpu(p, threads);
    else if (!t->epoch.from_memory) nanosleep(&measured, NULL);
    TRY(comm_all_reduce(group_world(), &of_host, 1, FP64, COMM_SUM));
    t->peak_flops = of_host > 0 ? of_host : NAN;
    return OK;
}

static enum status find_memory(struct training *t) {
    double most = (double)roles_total(t->run.memory.bytes[TIER_DEVICE]);
    TRY(comm_all_reduce(group_world(), &most, 1, FP64, COMM_MAX));
    t->mem_peak_bytes = (int64_t)most;
    return OK;
}

static const char *file_size(const struct run *r) {
    static char text[32];
    snprintf(text, sizeof text, "%.1f MiB", (double)roles_total(r->memory.bytes[TIER_DISK]) / (1 << 20));
    return text;
}

static void announce_own_tokens(const struct plan *p) {
    struct own_tokens own;
    if (!p->arch->own_tokens) return;
    own = p->arch->own_tokens(p);
    if (own.n == 1) printf("%s: token %" PRId64 "\n", own.what, own.first);
    else printf("%s: tokens %" PRId64 " down to %" PRId64 "\n", own.what, own.first, own.first - own.n + 1);
}

static void announce(const struct training *t, int threads, const char *attention) {
    const struct plan *p = &t->setup.plan;
    if (!comm_is_rank_0() || log_get_level() < LOG_INFO) return;
    printf("model %s: %" PRId64 " layers, hidden %" PRId64 ", heads %" PRId64 ", seq %" PRId64 ", vocab %" PRId64
           ", %" PRId64 " parameters\n",
           setup_name(p), p->layers, p->hidden, p->heads, p->seq, p->vocab, p->arch->n_params(p));
    announce_own_tokens(p);
    if (level_chosen()) printf("processor: %s, of a program for any\n", level_chosen());
    if (p->device == PLAN_DEVICE_CUDA) printf("device: %s; attention: %s\n", t->run.device->name, attention);
    char cp[48] = "", ep[48] = "", shard[64] = "";
    if (p->mesh.cp > 1) snprintf(cp, sizeof cp, " x cp %" PRId64, p->mesh.cp);
    if (p->mesh.ep > 1) snprintf(ep, sizeof ep, ", experts over ep %" PRId64, p->mesh.ep);
    if (p->mesh.shard) snprintf(shard, sizeof shard, ", a state shared by %" PRId64 " replicas", p->mesh.shard);
    printf("layout: %d rank%s = dp %" PRId64 "%s x tp %" PRId64 " x pp %" PRId64
           "%s%s, %d thread%s per rank, %s; batch %" PRId64 " = micro %" PRId64 " x %s %" PRId64 " x %d microbatches\n",
           plan_ranks(p), plan_ranks(p) == 1 ? "" : "s", p->mesh.dp, cp, p->mesh.tp, p->mesh.pp, ep, shard, threads,
           threads == 1 ? "" : "s", setup_binding(), p->global_batch, p->micro_batch,
           p->workers < p->mesh.dp ? "workers" : "dp", p->workers, p->n_microbatches);
    if (t->run.disk)
        printf("offload: %s a rank in %s, by %s%s\n", file_size(&t->run), offload_options(p)->path,
               disk_engine_name(t->run.disk), disk_is_direct(t->run.disk) ? "" : ", through the page cache");
    const struct pipeline_views *views = recipe_draws_pipeline();
    if (views) views->announce(&t->run, run_overlaps(&t->run) && train_options(p)->spike_guard == 0);
    if (plan_emulates(p))
        printf("emulated: nodes and links are what --ranks-per-node and --link-... say, and so are seconds\n");
    printf("data: %s, %" PRId64 " training and %" PRId64 " validation samples\n", data_path(t->setup.data),
           data_split_samples(&t->setup.train), data_split_samples(&t->setup.val));
    fflush(stdout);
}

/* Warn of legal settings that are usually mistakes. There is no warning if the user shortens a configuration file's
 * run but not its warmup. */
static void remark(const struct training *t) {
    const struct plan *p = &t->setup.plan;
    const struct options *o = t->setup.options;
    bool chosen = options_source(o, "warmup") >= options_source(o, "steps");
    if (!comm_is_rank_0() || comm_epoch() > 0) return;
    if (p->warmup > 0 && p->warmup >= p->steps - 1 && chosen)
        log_warn("warmup=%" PRId64 " of steps=%" PRId64 ": the last step has lr=%g, and min-lr=%g is not reached; use "
                 "more steps, or --warmup %" PRId64, p->warmup, p->steps, plan_lr(p, p->steps - 1), p->min_lr,
                 p->steps > 2 ? p->steps - 2 : 0);
}

/* In a later epoch a failed lock is a warning, because the job would lose steps; each save tries again. */
static enum status lock_save(struct training *t) {
    const struct plan *p = &t->setup.plan;
    const bool goes_on = comm_epoch() > 0;
    if (!p->save[0]) return OK;
    enum status status = comm_is_rank_0() ? checkpoint_lock(p->save, &t->saver.lock) : OK;
    status = (goes_on ? fail_warn : fail_agree)(group_world(), status);
    t->saver.lacks_lock = goes_on && status == E_IO;
    return t->saver.lacks_lock ? OK : status;
}

/* In a later epoch, a metrics file that cannot be opened causes a warning and no error. */
static enum status open_metrics(struct training *t) {
    const struct train_options *o = train_options(&t->setup.plan);
    if (!comm_is_rank_0()) return OK;
    const bool goes_on = comm_epoch() > 0;
    enum status status = metrics_open(&t->metrics, o->metrics, (struct metrics_manner){o->metrics_append, goes_on});
    if (!goes_on) return status;
    train_pass_over(t, status);
    return OK;
}

/* Rank 0's files. The folder is locked first, so that a job that may not save there does not touch the metrics either.
 * A rank 0 that was stopped for a while may be replaced; it must not touch its successor's files. */
static enum status open_files(struct training *t) {
    if (comm_is_rank_0() && comm_epoch_has_changed()) return E_EPOCH;
    TRY(lock_save(t));
    return fail_agree(group_world(), open_metrics(t));
}

/* A first batch with tokens beyond the vocabulary ends the job. Bad validation data is only a warning, because training
 * can continue; each evaluation then fails by itself (train_evaluate.c). */
static enum status look_at_data(const struct training *t) {
    if (!train_options(&t->setup.plan)->resume[0]) TRY(run_check_first_batch(&t->run));
    enum status status = run_check_validation(&t->run, train_options(&t->setup.plan)->eval_batches);
    return status == E_DATA ? OK : status;
}

/* --profile with --cluster: predict the times of the run's rows before the first step. */
static enum status forecast_profile(struct training *t) {
    const struct plan *p = &t->setup.plan;
    struct cluster c;
    if (!train_options(p)->profile || !train_options(p)->cluster[0]) return OK;
    TRY(setup_cluster(p, &c));
    return price_profile(&t->run, &c, &t->profile.forecast);
}

enum status train_prepare(struct training *t) {
    TRY(fail_agree(group_world(), setup_settle(&t->setup, comm_world_size())));
    const struct plan *p = &t->setup.plan;
    deadline_set(comm_options(p)->timeout, "set-up");
    TRY(plan_use_comm(p, false, straggler_link_slowdown(p)));
    if (comm_is_rank_0()) train_tell_shape(t);
    int threads = setup_threads(p, comm_local_size());
    const char *attention;
    TRY(fail_agree(group_world(), train_watch_prepare(t)));
    TRY(open_files(t));
    t->setup.plan.undrawn = t->epoch.from_memory || setup_from(p)[0];
    t->keeper = plan_keeper(p);
    TRY(run_create(&t->run, &train_recipe, p, WATCH_NOTHING));
    TRY(preflight_train(p, t->run.device));
    TRY(fail_agree(group_world(), train_attention(&t->run, &attention)));
    TRY(find_peak(t, threads));
    run_set_data(&t->run, &t->setup.train, &t->setup.val);
    if (!t->epoch.from_memory) TRY(look_at_data(t));
    TRY(find_memory(t));
    deadline_lift();
    announce(t, threads, attention);
    remark(t);
    TRY(t->epoch.from_memory ? train_take_snapshots(t) : train_take_checkpoint(t));
    if (t->keeper) TRY(t->keeper->begin(&t->run));
    TRY(forecast_profile(t));
    return train_trace_prepare(t);
}
