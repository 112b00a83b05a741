/* --nvtx and --trace: choose the traced steps, write the file, and print a line about its contents. */
#include "driver/train/train_state.h"
#include "driver/recipe.h"
#include "lib/base/log.h"
#include "lib/base/nvtx.h"
#include "lib/base/output.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* Trace from the third step on: the first two touch memory and open connections. In a shorter run, the last steps. */
static void choose_steps(struct training *t) {
    const struct plan *p = &t->setup.plan;
    const struct train_options *o = train_options(p);
    int64_t begin = t->run.n_done, latest = p->steps - o->trace_steps, first = begin + 2 < latest ? begin + 2 : latest;
    t->tracer.first = o->trace_first > 0 ? o->trace_first - 1 : first > begin ? first : begin;
    t->tracer.end = t->tracer.first + o->trace_steps < p->steps ? t->tracer.first + o->trace_steps : p->steps;
}

/* Check that the file can be written. An existing file stays until the trace replaces it. */
static enum status try_file(const char *path) {
    if (!comm_is_rank_0()) return OK;
    struct stat info;
    /* a FIFO's reader would take this test's close for the end; /dev/stdout and >(...) are links, and work */
    if (lstat(path, &info) == 0 && S_ISFIFO(info.st_mode))
        return FAIL(E_IO, "trace=%s is a pipe; give a file, or >(...) in bash", path);
    bool is_new = access(path, F_OK) != 0;
    FILE *f = output_file(path, "a");
    if (!f) return FAIL(E_IO, "cannot write trace=%s: %s; give another path", path, output_why(errno));
    fclose(f);
    if (is_new) unlink(path);
    return OK;
}

static enum status begin_nvtx(struct training *t) {
    if (!nvtx_is_heard() && comm_is_rank_0())
        log_warn("nvtx=on, and no profiler is attached (NVTX_INJECTION64_PATH is not set): its ranges go nowhere; "
                 "start with nsys profile -t cuda,nvtx");
    return fail_agree(group_world(), trace_nvtx_begin(&t->run, &t->tracer.nvtx));
}

enum status train_trace_prepare(struct training *t) {
    const struct plan *p = &t->setup.plan;
    const struct train_options *o = train_options(p);
    if (o->nvtx) return begin_nvtx(t);
    if (!o->trace[0]) return OK;
    choose_steps(t);
    if (t->tracer.first < t->run.n_done || t->tracer.end <= t->tracer.first) {
        if (comm_is_rank_0())
            log_warn("nothing will be traced: this run starts after step %" PRId64 " of %" PRId64, t->run.n_done,
                     p->steps);
        return OK;
    }
    enum status status = try_file(o->trace);
    if (status == OK) status = setup_trace(&t->run, t->tracer.end - t->tracer.first, &t->tracer.trace);
    if (comm_epoch() == 0) return fail_agree(group_world(), status);
    status = fail_warn(group_world(), status);                       /* only warn: the job would lose steps */
    if (status == E_IO || status == E_MEMORY) trace_destroy(&t->tracer.trace);
    return status == E_IO || status == E_MEMORY ? OK : status;
}

static enum status tell(const struct training *t, const struct trace_data *d) {
    double uncertainty_s = 0;
    int64_t spans = 0, dropped = 0;
    for (int i = 0; i < d->n_ranks; i++) {
        spans += d->ranks[i].n_spans;
        dropped += d->ranks[i].dropped;
        uncertainty_s = fmax(uncertainty_s, d->ranks[i].uncertainty_s);
    }
    if (dropped)
        log_warn("trace: %" PRId64 " spans did not fit and are missing; its bubble is unknown", dropped);
    if (log_get_level() < LOG_INFO) return OK;
    printf("trace %s: steps %" PRId64 " to %" PRId64 ", %d rank%s, %" PRId64
           " spans (%.1f MiB per rank in addition to the plan), clocks within %.1f us; open it in ui.perfetto.dev\n",
           train_options(&t->setup.plan)->trace, d->first_step + 1, d->first_step + d->n_steps, d->n_ranks,
           d->n_ranks == 1 ? "" : "s", spans, (double)trace_room_bytes(t->tracer.trace) / (1 << 20),
           1e6 * uncertainty_s);
    enum status status = OK;
    if (!dropped && recipe_draws_pipeline()) status = recipe_draws_pipeline()->bubble(&t->setup.plan, d);
    fflush(stdout);
    return status;
}

static enum status finish(struct training *t) {
    struct trace_data data;
    TRY(trace_stop(t->tracer.trace));
    t->tracer.runs = false;
    enum status status = trace_gather(t->tracer.trace, &data);
    if (status == OK && data.n_ranks > 0 && data.n_steps > 0) {
        enum status written = trace_write(&data, &t->setup.plan, train_options(&t->setup.plan)->trace);
        if (written == OK) status = tell(t, &data);
        train_pass_over(t, written);
    }
    trace_data_fini(&data);
    trace_destroy(&t->tracer.trace);
    return status;
}

/* --spike-guard has undone traced steps: begin the trace again at the restored step. */
static void go_back(struct training *t) {
    int64_t n = t->tracer.end - t->tracer.first, left = t->setup.plan.steps - t->run.n_done;
    t->tracer.first = t->run.n_done;
    t->tracer.end = t->tracer.first + (n < left ? n : left);
    t->tracer.runs = false;
}

bool train_trace_is_due(const struct training *t, int64_t n_step) {
    return t->tracer.trace && (n_step == t->tracer.first || n_step == t->tracer.end);
}

enum status train_trace(struct training *t, bool leaving) {
    if (!t->tracer.trace) return OK;
    if (t->tracer.runs && t->guard.n_rollbacks != t->tracer.n_rollbacks) go_back(t);
    if (t->tracer.runs && (t->run.n_done >= t->tracer.end || leaving)) return finish(t);
    if (leaving && comm_is_rank_0())
        log_warn("nothing was traced: this run ends after step %" PRId64 ", and step %" PRId64 " should be the first",
                 t->run.n_done, t->tracer.first + 1);
    if (t->tracer.runs || leaving || t->run.n_done != t->tracer.first) return OK;
    t->tracer.runs = true, t->tracer.n_rollbacks = t->guard.n_rollbacks;
    return trace_start(t->tracer.trace);
}
