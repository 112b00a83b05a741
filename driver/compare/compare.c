/* trivium compare: train the same steps under several strategies, one after the other, and put them side by side.
 *
 * One launch runs all strategies. A strategy passes through four gates. At each gate the ranks of the world agree
 * (fail_share): a strategy that cannot run becomes a row with its error, and the next strategy begins.
 *
 *   judge     options, data, plan, compilation, memory limit: each rank alone, without communication
 *   open      groups, memory, parameters                            ranks beyond the layout: run_idle
 *   train     the steps; ranks agree only on a non-finite loss      ranks beyond the layout: comm_idle, asleep
 *   gather    each rank's measurements, to rank 0
 *
 * As in train, ranks cannot agree on a failure in the middle of a step: the rank that detects it ends the job. Rank 0
 * writes the report after every row, so earlier rows are not lost.
 *
 * The comparison is fair: same steps, data, seed and process. Each strategy divides the cores by the ranks that it
 * uses, and unused ranks sleep. Times are not a cluster's if ranks outnumber cores, because ranks then take turns. */
#include "driver/commands.h"

#include "driver/chart/memory_chart.h"
#include "driver/command.h"
#include "driver/compare/compare_forecast.h"
#include "driver/compare/compare_measure.h"
#include "driver/compare/compare_page.h"
#include "driver/compare/compare_report.h"
#include "driver/compare/compare_strategy.h"
#include "driver/compare/compare_table.h"
#include "driver/deadline.h"
#include "driver/recipe.h"
#include "driver/report/report.h"
#include "driver/setup.h"
#include "driver/train/train_options.h"
#include "lib/base/log.h"
#include "lib/base/say.h"
#include "lib/run/products.h"
#include <inttypes.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

/* setup comes first, and in it the plan, because the offsets of the plan's options count from the plan. */
struct request {
    struct setup setup;
    char strategies[OPTION_TEXT_MAX], out[OPTION_TEXT_MAX];
    int64_t repeat;
};

static const struct option OPTIONS[] = {
    {"strategies", OPTION_TEXT, "", 0, 0, NULL, "",
     "what to compare, as in \"dp=8 | dp=8 zero=3 | tp=2 pp=2 sp\": settings of the options above; an empty one "
     "changes nothing",
     "compare", offsetof(struct request, strategies)},
    {"repeat", OPTION_INT, "1", 1, COMPARE_PASSES, NULL, "",
     "how often each is run, every other time in reverse order: step times are then means, and what lies between "
     "them is noise",
     "compare", offsetof(struct request, repeat)},
    {"out", OPTION_TEXT, "report", 0, 0, NULL, "",
     "directory for report.html, a page with pictures, compare.csv and compare.json", "compare",
     offsetof(struct request, out)},
};
static const struct option_table OWN = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS};

struct comparison {
    struct request base;
    struct strategies strategies;
    struct request *requests;            /* [n]: the base with a strategy's settings */
    struct compare_row *rows;            /* [n] */
    struct cluster *cluster;             /* for predictions; NULL: no predictions. Owned */
    struct compare_about about;
};

/* ---- the request ---- */
static enum status read_request(struct request *q, int argc, char **argv) {
    TRY(recipe_options_create(&OWN, q, &q->setup.options));
    return options_parse(q->setup.options, argc, argv);
}

static enum status read_base(struct comparison *c, int argc, char **argv) {
    TRY(read_request(&c->base, argc, argv));
    if (options_source(c->base.setup.options, "strategies") == FROM_DEFAULT)
        return FAIL(E_USAGE, "nothing to compare; use --strategies \"dp=8 | dp=8 zero=3 | tp=2 pp=2 dp=2\"");
    if (!c->base.out[0]) return FAIL(E_USAGE, "--out is empty; name a directory");
    if (train_options(&c->base.setup.plan)->cluster[0]) {
        c->cluster = calloc(1, sizeof *c->cluster);
        TRY(c->cluster ? setup_cluster(&c->base.setup.plan, c->cluster) : FAIL(E_MEMORY, "no memory"));
    }
    return strategies_split(c->base.strategies, &c->strategies);
}

/* Refuse train's own options if the user typed them. (A settings file may have them, for train.) */
static enum status refuse_trains_own(const struct options *o) {
    static const char traced[] = " (pipelines are traced for report.html anyhow)";
    static const struct { const char *option, *remark; } of_train[] = {
        {"trace", traced}, {"trace-first", traced}, {"trace-steps", traced}, {"profile", ""}, {"nvtx", ""},
        {"save", ""}, {"save-every", ""}, {"save-async", ""}, {"resume", ""}, {"init", ""}, {"spike-guard", ""},
        {"inject", ""}};
    for (size_t i = 0; i < sizeof of_train / sizeof *of_train; i++)
        if (options_source(o, of_train[i].option) == FROM_COMMAND_LINE)
            return FAIL(E_USAGE, "%s is an option of train; compare does not support it; leave it out%s",
                        of_train[i].option, of_train[i].remark);
    return OK;
}

static enum status read_strategies(struct comparison *c, int argc, char **argv) {
    int n = c->strategies.n;
    struct option_table known;
    TRY(recipe_options(&known));
    c->requests = calloc((size_t)n, sizeof *c->requests);
    c->rows = calloc((size_t)n, sizeof *c->rows);
    if (!c->requests || !c->rows) return FAIL(E_MEMORY, "no memory for %d strategies", n);
    for (int i = 0; i < n; i++) {
        struct setup *s = &c->requests[i].setup;
        c->rows[i].strategy = c->strategies.text[i];
        TRY(read_request(&c->requests[i], argc, argv));
        TRY(strategy_apply(c->strategies.text[i], i + 1, &known, s->options));
        TRY(refuse_trains_own(s->options));
        TRY(setup_preset(s->options, &s->plan, true));
    }
    return OK;
}

/* Find the errors of the whole request before any strategy runs. */
static enum status prepare(struct comparison *c, int argc, char **argv) {
    enum status status = read_base(c, argc, argv);
    if (status == OK) status = read_strategies(c, argc, argv);
    if (status == OK && comm_is_rank_0()) status = report_prepare(c->base.out);
    c->about = (struct compare_about){.options = c->base.setup.options, .n_strategies = c->strategies.n};
    compare_about_here(&c->about);
    return fail_agree(group_world(), status);
}

/* ---- gate 1: judge ---- */

/* With dp=0 a strategy uses the whole world. A given dp may leave ranks unused. */
static int ranks_of(const struct plan *p) {
    int world = comm_world_size();
    double wanted = mesh_n_ranks(&p->mesh);
    return p->mesh.dp == 0 || wanted > world ? world : (int)wanted;
}

/* Ranks of this host that the layout uses. Ranks are numbered host by host, as mpirun and srun do by default. */
static int used_on_host(int n_ranks) {
    int used = n_ranks - (comm_world_rank() - comm_local_rank());
    if (used < 1) return 1;
    return used < comm_local_size() ? used : comm_local_size();
}

/* Set threads before compilation, because kernels have scratch memory per thread. In later passes the data are open. */
static enum status judge(struct request *q, struct compare_row *row, struct run *r) {
    struct plan *p = &q->setup.plan;
    if (!q->setup.data) TRY(setup_open(&q->setup, ranks_of(p)));
    if (comm_world_rank() >= plan_ranks(p)) return OK;
    p->threads = row->n_threads = setup_threads(p, used_on_host(plan_ranks(p)));
    TRY(run_compile(r, &train_recipe, p, comm_world_rank(), NULL, NULL));
    return run_check_memory(r);
}

/* ---- gates 2 and 3: open, train ---- */

static bool is_used(const struct compare_row *row) { return comm_world_rank() < row->n_ranks; }

static enum status open_run(struct request *q, struct compare_row *row, struct run *r, struct trace **trace) {
    const struct plan *p = &q->setup.plan;
    TRY(plan_use_comm(p, train_options(p)->cluster[0] != 0, straggler_link_slowdown(p)));
    row->n_ranks = plan_ranks(p);
    row->coded = grad_options(p)->codec != CODEC_NONE;
    row->quantized = plan_number(p, "weight-codec") != CODEC_NONE;
    row->apart = plan_number(p, "local-steps") > 0;
    row->layout = mesh_place_of(&p->mesh, 0);
    row->ranks = calloc((size_t)comm_world_size(), sizeof *row->ranks);
    deadline_set(comm_options(p)->timeout, "set-up of a strategy");  /* making groups has no timeout */
    enum status status = is_used(row) ? run_open(r, WATCH_PEAKS) : run_idle(r, p);
    deadline_lift();
    TRY(status);
    if (is_used(row) && p->mesh.pp > 1 && p->device == PLAN_DEVICE_CPU)
        TRY(trace_create(r, COMPARE_TRACED, NULL, trace));
    run_set_data(r, &q->setup.train, &q->setup.val);
    return row->ranks ? OK : FAIL(E_MEMORY, "no memory for the measurements of %d ranks", comm_world_size());
}

static enum status train(struct compare_row *row, struct run *r, struct trace *trace, struct compare_rank *mine) {
    if (!is_used(row)) return comm_idle(group_world());
    TRY(products_choose(r));
    enum status status = compare_measure(r, trace, row, mine);
    if (status != OK && status != E_NUMERIC) return status;
    TRY(comm_barrier(group_world()));
    return status;
}

/* ---- a strategy ---- */

/* A status that fails the strategy only: the ranks can agree on it, and no message is in flight. */
static bool is_a_row(enum status status) { return status != E_COMM && status != E_TIMEOUT && status != E_DEVICE; }

/* Called by all ranks at the end of a gate. The failure of the first failing rank becomes the row's. */
static enum status agree(struct compare_row *row, enum status mine) {
    row->status = fail_share(group_world(), mine, row->reason, sizeof row->reason);
    return row->status;
}

static enum status run_gates(struct request *q, struct compare_row *row, struct run *r, struct trace **trace) {
    struct compare_rank mine = {0};
    TRY(agree(row, judge(q, row, r)));
    TRY(agree(row, open_run(q, row, r, trace)));
    row->started = true;
    enum status trained = train(row, r, *trace, &mine);
    if (trained != OK && trained != E_NUMERIC) return trained;       /* in the middle of a step: no agreement */
    TRY(agree(row, trained));
    return comm_all_gather(group_world(), &mine, row->ranks, sizeof mine, UINT8);
}

/* Rank 0: set the relative distance between this row's loss and that of the first row that ran. */
static void set_distance(struct comparison *c, int i) {
    int first = 0;
    while (c->rows[first].status != OK) first++;
    c->rows[i].distance = fabs(c->rows[i].loss - c->rows[first].loss) / fabs(c->rows[first].loss);
}

static void tell_row(const struct comparison *c, int i, const struct compare_row *row) {
    if (log_get_level() < LOG_INFO) return;
    printf("strategy %d/%d | %s | ", i + 1, c->strategies.n, compare_row_name(row));
    if (row->status != OK) printf("%s: %s\n", compare_row_status(row), status_name(row->status));
    else
        printf("%d rank%s, %d thread%s each | %" PRId64 " steps | %.1f ms | loss %.4f\n", row->n_ranks,
               row->n_ranks == 1 ? "" : "s", row->n_threads, row->n_threads == 1 ? "" : "s", row->n_steps,
               1e3 * row->step_s, printed(row->loss));
    fflush(stdout);
}

/* Compile the fullest rank again for its memory time line. A failure only warns: the row lacks one picture. */
static void take_timeline(const struct plan *p, struct compare_row *row) {
    struct run r = {0};
    enum status status = run_compile(&r, &train_recipe, p, compare_fullest(row), NULL, NULL);
    if (status == OK) status = memory_chart_json(&r, report_text(compare_row_name(row)), &row->timeline);
    run_destroy(&r);
    if (status == OK) return;
    log_warn("%s: its memory over a step is not drawn: %s", compare_row_name(row), status_message());
    status_clear();
}

/* Has none of the first n strategies run? */
static bool none_ran(const struct comparison *c, int n) {
    for (int i = 0; i < n; i++)
        if (c->rows[i].status == OK) return false;
    return true;
}

/* Processor time of all ranks; 0 without --cluster, and on a GPU, for which the processor only queues work. */
static double work_of(const struct plan *p, const struct compare_row *row) {
    double sum = 0;
    if (!train_options(p)->cluster[0] || p->device != PLAN_DEVICE_CPU) return 0;
    for (int i = 0; i < row->n_ranks; i++) sum += row->ranks[i].work_s;
    return sum;
}

static enum status write_report(const struct comparison *c, int n) {
    if (none_ran(c, n)) return OK;                                   /* keep an earlier report */
    TRY(compare_report_write(c->base.out, c->rows, n));
    return compare_page_write(c->base.out, &c->about, c->rows, n);
}

/* Rank 0 calls this after each pass. `row` is the strategy's row, or in a later pass a temporary one. */
static enum status finish_pass(struct comparison *c, int i, struct compare_row *row) {
    const struct plan *p = &c->requests[i].setup.plan;
    bool first = row == &c->rows[i];
    if (row->status == OK) compare_row_add_pass(&c->rows[i], row->step_s, work_of(p, row));
    else if (!first) log_warn("%s: it did not run again: %s", compare_row_name(row), row->reason);
    if (first && row->status == OK) {
        set_distance(c, i);
        take_timeline(p, row);
        bool uneven = options_source(c->requests[i].setup.options, "pp-split") != FROM_DEFAULT;
        if (c->cluster) compare_predict(p, c->cluster, uneven, row);
    }
    compare_rows_scale(c->rows, c->strategies.n);
    tell_row(c, i, row);
    return write_report(c, first ? i + 1 : c->strategies.n);
}

/* @return not OK if the job cannot continue */
static enum status run_strategy(struct comparison *c, int i, struct compare_row *row) {
    struct run r = {0};
    struct trace *trace = NULL;
    int threads = omp_get_max_threads();
    resident_reset();
    enum status status = run_gates(&c->requests[i], row, &r, &trace);
    omp_set_num_threads(threads);
    bool agreed = status == row->status && is_a_row(status);
    if (status != OK && !agreed) return *status_text() || !comm_is_rank_0() ? status : FAIL(status, "%s", row->reason);
    trace_destroy(&trace);
    run_destroy(&r);
    return comm_is_rank_0() ? finish_pass(c, i, row) : OK;
}

static enum status run_again(struct comparison *c, int i) {
    if (c->rows[i].status != OK) return OK;
    struct compare_row again = {.strategy = c->rows[i].strategy};
    TRY(run_strategy(c, i, &again));
    compare_row_fini(&again);
    return OK;
}

/* ---- the command ---- */

/* A refused strategy is a result. One that fails in training fails the job. All ranks have the same rows. */
static enum status report_failed(const struct comparison *c) {
    int n_failed = 0, first = 0;
    for (int i = c->strategies.n - 1; i >= 0; i--)
        if (c->rows[i].status != OK && c->rows[i].started) n_failed++, first = i;
    if (n_failed == 0) return OK;
    const struct compare_row *row = &c->rows[first];
    return fail_agree(group_world(), FAIL(row->status, "%d of %d strategies failed in training; the first, %s: %s",
                                          n_failed, c->strategies.n, compare_row_name(row), row->reason));
}

static enum status compare(struct comparison *c, bool *agreed) {
    int n = c->strategies.n;
    *agreed = false;
    for (int i = 0; i < n; i++) {
        TRY(run_strategy(c, i, &c->rows[i]));
        if (c->base.repeat == 1) setup_fini(&c->requests[i].setup);
    }
    for (int pass = 1; pass < c->base.repeat; pass++)
        for (int i = 0; i < n; i++) TRY(run_again(c, pass % 2 ? n - 1 - i : i));
    *agreed = true;
    bool none = none_ran(c, n);
    if (comm_is_rank_0() && !none) compare_table_print(stdout, c->rows, n);
    if (comm_is_rank_0() && !none && !report_has_pictures()) report_pictures(c->base.out, "report");
    if (!none) return report_failed(c);
    return fail_agree(group_world(), FAIL(c->rows[0].status, "no strategy ran; the first: %s", c->rows[0].reason));
}

static void release(struct comparison *c) {
    for (int i = 0; i < c->strategies.n; i++) {
        if (c->requests) setup_fini(&c->requests[i].setup);
        if (c->rows) compare_row_fini(&c->rows[i]);
    }
    free(c->requests);
    free(c->rows);
    free(c->cluster);
    strategies_fini(&c->strategies);
    setup_fini(&c->base.setup);
    free(c);
}

int compare_main(int argc, char **argv) {
    static const struct command_alone help = {
        "trivium compare [options] --strategies \"a | b | ...\"\n"
        "Trains each strategy's steps in one launch; compares memory, speed, communication and loss.\n\n",
        &OWN, 1, true, sizeof(struct request), NULL};
    if (options_ask_for_help(argc, argv)) return command_main(&help, argc, argv);
    unsetenv("OMP_NUM_THREADS");                                     /* the value suits one number of ranks only, and
                                                                      * strategies differ (--threads) */
    deadline_set_for_start(argc, argv);
    struct comparison *c = calloc(1, sizeof *c);
    enum status status = c ? comm_start(&argc, &argv) : FAIL(E_MEMORY, "no memory to start with");
    deadline_lift();
    if (status != OK) {
        status_report();
        return status_exit_code(status);
    }
    bool agreed = true;
    status = prepare(c, argc, argv);
    if (status == OK) status = compare(c, &agreed);
    status_report();                                                 /* prints nothing if the ranks have agreed on,
                                                                      * and reported, the failure */
    int code = status_exit_code(status);
    if (agreed) release(c);
    comm_finish(agreed, code);
    return code;
}
