/* trivium launch --max-restarts: attempts until one succeeds or a further one would not help, and their commands. */
#include "launch/launch_restart.h"

#include "driver/recipe.h"
#include "driver/train/train_options.h"
#include "launch/goodput.h"
#include "launch/hosts.h"
#include "launch/stop.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/program.h"
#include "lib/checkpoint/checkpoint.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The state of the loop over attempts. */
struct supervision {
    const struct launch_request *first;  /* the user's request */
    struct launch_request now;           /* the next attempt's request, with `words` as its command */
    struct settled_words words;
    struct options *options;
    struct plan plan;                    /* train's options, as the user and the config files set them */
    struct launch_latest at_start, latest;
    int64_t best_step;                   /* the latest saved step; -1: none */
    int64_t numeric_step;                /* the latest step that was not finite; 0: none */
    int n_restarts, n_stuck, n_failures;
    struct host_list hosts;              /* of --host or --hostfile; n 0: none, or not understood */
    int failures[MOST_HOSTS];            /* of each host */
    char hosts_text[HOST_LIST_TEXT];     /* the hosts that are left */
    double started_s, up_s;              /* the start of launch; seconds in attempts */
    struct stat metrics_at_start;        /* the metrics file; st_size 0: there was none */
};

/* ---- train's command line ---- */

/* Read the config files now, because ranks of this job may also start later. */
static enum status read_command(struct supervision *s) {
    const struct launch_request *r = s->first;
    if (strcmp(r->command[0], "train") != 0)
        return FAIL(E_USAGE, "--max-restarts %d is for train, and the command is %s; leave it out", r->max_restarts,
                    r->command[0]);
    TRY(recipe_options_create(NULL, &s->plan, &s->options));
    TRY(options_parse(s->options, r->n_words - 1, r->command + 1));
    if (s->plan.save[0] || !r->max_restarts) return OK;
    return FAIL(E_CONFIG, "--max-restarts %d, and train saves nothing to restart from; give train --save a folder, and "
                "--save-every", r->max_restarts);
}

static enum status settle_words(struct supervision *s, const char *resume, int64_t dp) {
    struct plan plan = s->plan;
    struct options *changed;
    TRY(options_copy(s->options, &plan, &changed));
    settled_words_free(&s->words);
    enum status status = launch_change(changed, resume, dp);
    if (status == OK) status = launch_settle(s->first->command[0], changed, &s->words);
    options_destroy(&changed);
    s->now.command = s->words.at;
    s->now.n_words = s->words.n;
    return status;
}

/* A missing or unreadable checkpoint counts as none. */
static struct launch_latest read_latest(const char *save) {
    struct launch_latest latest = {0};
    char path[CHECKPOINT_PATH_MAX], step[CHECKPOINT_PATH_MAX];
    struct stat info;
    snprintf(path, sizeof path, "%.1000s/latest", save);
    if (stat(path, &info) == 0 && checkpoint_resolve(save, step) == OK) {
        const char *name = strrchr(step, '/');
        snprintf(latest.step, sizeof latest.step, "%.63s", name ? name + 1 : step);
        latest.written_ns = (int64_t)info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
    }
    status_clear();
    return latest;
}

/* ---- the next attempt ---- */

static bool may_resume(const struct supervision *s) { return launch_is_newer(&s->latest, &s->at_start); }

static void read_hosts(struct supervision *s) {
    const struct launch_request *r = s->first;
    enum status status = r->host ? host_list_read(r->host, &s->hosts)
                                 : r->hostfile ? host_list_read_file(r->hostfile, &s->hosts) : OK;
    if (status != OK) s->hosts.n = 0;                                /* words of mpirun alone */
    status_clear();
}

/* @return whether a host is left out from now on */
static bool leave_host_out(struct supervision *s, const struct launch_outcome *o) {
    char host[64];
    launch_failed_host(o, host);
    const int h = host_list_find(&s->hosts, host), least = s->first->min_ranks;
    if (h < 0 || ++s->failures[h] < LAUNCH_HOST_FAILURES) return false;
    const int room = host_list_room(&s->hosts) - s->hosts.of[h].n - s->first->spares;
    const int fewer = least ? launch_fewer_ranks(&s->plan, room + 1, least) : 0;
    const int n_ranks = room < s->now.n_ranks ? fewer : s->now.n_ranks;
    log_warn("host %s has failed %d times, and %s", host, s->failures[h], n_ranks ? "is left out" : "stays: the others "
             "have no room for all ranks; name more hosts, or give --min-ranks");
    if (!n_ranks) return false;
    memmove(&s->failures[h], &s->failures[h + 1], (size_t)(s->hosts.n - h - 1) * sizeof s->failures[h]);
    host_list_remove(&s->hosts, h, s->hosts_text);
    s->now.host = s->hosts_text, s->now.hostfile = NULL, s->now.n_ranks = n_ranks;
    return true;
}

static enum status prepare_next(struct supervision *s, bool progress) {
    int fewer =
        s->first->min_ranks && !progress ? launch_fewer_ranks(&s->plan, s->now.n_ranks, s->first->min_ranks) : 0;
    if (fewer) s->now.n_ranks = fewer;
    bool shrunk = s->now.n_ranks != s->first->n_ranks && s->plan.mesh.dp > 0;
    return settle_words(s, may_resume(s) ? s->plan.save : NULL,
                        shrunk ? s->now.n_ranks / plan_replica_ranks(&s->plan) : 0);
}

static void say_next(const struct supervision *s, const struct launch_outcome *o, double wait_s) {
    char reason[256];
    launch_reason(o->line, reason, sizeof reason);
    if (!s->first->own && program_is_replaced())
        log_warn("the program on the disk is another one than that which began this job, and mpirun starts it");
    log_info("restart %d of %d in %g s, %d ranks, from %s: %s", s->n_restarts, s->first->max_restarts, wait_s,
             s->now.n_ranks, may_resume(s) ? s->latest.step : "the beginning (no checkpoint yet)", reason);
}

static void say_last(const struct supervision *s, enum launch_verdict_of_attempt verdict) {
    const char *step = s->latest.step[0] ? s->latest.step : "none";
    if (verdict == ATTEMPT_STUCK)
        log_warn("no other restart: %d in a row brought no new checkpoint (the last: %s); the line above says what "
                 "keeps coming back, or save more often",
                 LAUNCH_MOST_STUCK, step);
    if (verdict == ATTEMPT_DIVERGED)
        log_warn("no other restart: not finite again at step %" PRId64 ", from %s: divergence, not a fault of the "
                 "machine", s->numeric_step, step);
    if (verdict == ATTEMPT_NO_MORE)
        log_warn("no other restart: --max-restarts %d are used up (the last checkpoint: %s)", s->first->max_restarts,
                 step);
}

/* TERM and USR1 have the same meaning as during an attempt: stop, and resume later. */
static int code_of_signal(const struct supervision *s, int number) {
    log_info("stopped by signal %d while waiting for restart %d", number, s->n_restarts);
    if (number == SIGINT) return EXIT_INTERRUPTED;
    return (number == SIGTERM || number == SIGUSR1) && may_resume(s) ? EXIT_CHECKPOINTED : 1;
}

/* @return *again: whether another attempt follows */
static enum status after_attempt(struct supervision *s, const struct launch_outcome *o, bool *again, int *code) {
    s->latest = read_latest(s->plan.save);
    bool progress = launch_is_further(&s->latest, &s->at_start, &s->best_step);
    s->n_stuck = progress || s->n_restarts == 0 ? 0 : s->n_stuck + 1;
    const int64_t numeric = launch_numeric_step(o);
    enum launch_verdict_of_attempt verdict =
        numeric ? launch_judge_numeric(numeric, s->numeric_step, may_resume(s), s->n_restarts, s->first->max_restarts)
                : launch_judge(o, s->n_restarts, s->first->max_restarts, s->n_stuck);
    if (numeric) s->numeric_step = numeric;
    *code = o->code;
    *again = verdict == ATTEMPT_AGAIN;
    s->n_failures += verdict != ATTEMPT_DONE;
    s->up_s += o->wall_s;
    say_last(s, verdict);
    if (!*again) return OK;
    bool left_out = leave_host_out(s, o);
    TRY(prepare_next(s, progress || numeric || left_out));           /* after a numeric failure, keep all ranks */
    double wait_s = launch_backoff_s(s->first->backoff_s, s->n_restarts++);
    say_next(s, o, wait_s);
    int number = launch_pause(wait_s);
    *again = number == 0;
    if (number) *code = code_of_signal(s, number);
    return OK;
}

/* ---- goodput ---- */

static const char *metrics_of(const struct supervision *s) { return train_options(&s->plan)->metrics; }

/* The offset of this job's first row: the size at the start, or 0 if another file now has the name. */
static int64_t metrics_from(const struct supervision *s) {
    struct stat now;
    const struct stat *was = &s->metrics_at_start;
    bool is_same = stat(metrics_of(s), &now) == 0 && now.st_ino == was->st_ino && now.st_dev == was->st_dev;
    return is_same ? (int64_t)was->st_size : 0;
}

static int64_t last_step(const struct supervision *s, int code) {
    if (code == 0) return INT64_MAX;
    return s->best_step > 0 ? s->best_step : 0;
}

static void say_goodput(const struct supervision *s, int code) {
    struct goodput_rows r;
    char advice[256];
    const double total_s = clock_s() - s->started_s, given_s = train_options(&s->plan)->mtbf;
    const double mtbf_s = given_s > 0 ? given_s : s->up_s / s->n_failures;
    if (!metrics_of(s)[0] || goodput_read(metrics_of(s), metrics_from(s), last_step(s, code), &r) != OK) {
        status_clear();
        return;
    }
    log_info("goodput of %d attempts %.1f%%: %.2f s in %" PRId64 " steps that count, of %.2f s; %.2f s in %" PRId64
             " steps done again or lost, %.2f s between attempts",
             s->n_restarts + 1, 100 * r.steps_s / total_s, r.steps_s, r.n_steps, total_s, r.undone_s, r.n_undone,
             total_s - s->up_s);
    goodput_advice(r.n_saves ? r.stalls_s / (double)r.n_saves : 0, mtbf_s,
                   r.n_steps ? r.steps_s / (double)r.n_steps : 0, advice, sizeof advice);
    if (*advice) log_info("%s", advice);
}

static enum status supervise(struct supervision *s, int *code) {
    struct launch_outcome outcome;
    s->started_s = clock_s();
    if (stat(metrics_of(s), &s->metrics_at_start) != 0) s->metrics_at_start = (struct stat){.st_size = 0};
    s->at_start = s->latest = read_latest(s->plan.save);
    read_hosts(s);
    for (bool again = true; again;) {
        TRY(launch_attempt(&s->now, &outcome));
        TRY(after_attempt(s, &outcome, &again, code));
    }
    if (s->n_restarts) say_goodput(s, *code);
    return OK;
}

static enum status run_once(const struct launch_request *request, int *code) {
    struct launch_outcome outcome = {0};
    enum status status = launch_attempt(request, &outcome);
    *code = outcome.code;
    return status;
}

static enum status supervise_job(const struct launch_request *r, int *code) {
    bool trains = strcmp(r->command[0], "train") == 0 && !options_ask_for_help(r->n_words - 1, r->command + 1);
    if (!r->max_restarts && !(r->elastic && trains)) return run_once(r, code);
    struct supervision *s = calloc(1, sizeof *s);
    if (!s) return FAIL(E_MEMORY, "no memory to start with; close other programs");
    s->first = r;
    s->best_step = -1;
    s->now = *r;
    enum status status = read_command(s);
    if (status == OK) status = settle_words(s, NULL, 0);
    if (status == OK) status = r->max_restarts ? supervise(s, code) : run_once(&s->now, code);
    settled_words_free(&s->words);
    options_destroy(&s->options);
    free(s);
    return status;
}

int launch_main(int argc, char **argv) { return launch(argc, argv, supervise_job); }
